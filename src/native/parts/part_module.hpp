#pragma once

#include <nanobind/nanobind.h>

void bind_part_table(nanobind::module_& module);
