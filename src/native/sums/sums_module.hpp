#pragma once

#include <nanobind/nanobind.h>

void bind_sums(nanobind::module_& m);
