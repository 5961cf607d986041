#pragma once

#include <nanobind/nanobind.h>

void bind_live_table(nanobind::module_& module);
