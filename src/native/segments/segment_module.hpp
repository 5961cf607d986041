#pragma once

#include <nanobind/nanobind.h>

void bind_segment_table(nanobind::module_& module);
