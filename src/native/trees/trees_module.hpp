#pragma once

#include <nanobind/nanobind.h>

void bind_trees(nanobind::module_& m);
