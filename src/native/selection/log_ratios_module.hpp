#pragma once

#include <nanobind/nanobind.h>

void bind_log_ratios(nanobind::module_& m);
