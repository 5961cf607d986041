// For `benchmarks/hashed.py` alone: the least code that could do the same work for one fixed shape, to be measured against.
#pragma once

#include <nanobind/nanobind.h>

void bind_bare(nanobind::module_& m);
