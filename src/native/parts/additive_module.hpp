#pragma once

#include <nanobind/nanobind.h>

void bind_additive(nanobind::module_& m);
