// What Python sees of the hashed memory.
#pragma once

#include <nanobind/nanobind.h>

void bind_hashed(nanobind::module_& m);
