#pragma once

#include <nanobind/nanobind.h>

void bind_site_scan(nanobind::module_& m);
