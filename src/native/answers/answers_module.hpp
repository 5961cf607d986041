// What Python sees of tables of scores.
#pragma once

#include <nanobind/nanobind.h>

void bind_answers(nanobind::module_& m);
