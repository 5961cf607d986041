#pragma once

#include <nanobind/nanobind.h>

void bind_dense_weights(nanobind::module_& m);
