// The module that Python imports. Each folder binds what is its own; every file of bindings checks
// everything that comes from outside, so that all sizes agree behind it.
#include <nanobind/nanobind.h>

#include "answers/answers_module.hpp"
#include "hashed/hashed_module.hpp"
#include "live/live_module.hpp"
#include "parts/additive_module.hpp"
#include "segments/segment_module.hpp"
#include "selection/dense_weights_module.hpp"
#include "selection/log_ratios_module.hpp"
#include "selection/site_scan_module.hpp"
#include "sums/sums_module.hpp"
#include "trees/trees_module.hpp"

NB_MODULE(_native, m) {
    nanobind::set_leak_warnings(
        false);  // models that live until the interpreter ends are no mistake
    m.doc() =
        "The hot loops of the hashed memory, the live table and the segments in files of the exact "
        "one, and the scan of sites, compiled.";
    bind_hashed(m);
    bind_live_table(m);
    bind_segment_table(m);
    bind_site_scan(m);
    bind_trees(m);
    bind_answers(m);
    bind_log_ratios(m);
    bind_additive(m);
    bind_sums(m);
    bind_dense_weights(m);
}
