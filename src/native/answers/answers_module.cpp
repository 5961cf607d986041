// What Python sees of tables of scores and of shares of rows: arrays are checked here.
#include "answers_module.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "../bound_arrays.hpp"
#include "../released.hpp"
#include "row_shares.hpp"
#include "score_table.hpp"

namespace nb = nanobind;
using namespace hammemo;

namespace {

using Scores = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require_starts(const std::vector<int64_t>& starts, size_t n, size_t end, const char* message) {
    require(
        starts.size() == n + 1 && starts.front() == 0 && starts.back() == static_cast<int64_t>(end),
        message);
    for (size_t i = 0; i < n; ++i) {
        require(starts[i] <= starts[i + 1], message);
    }
}

ScoreTable make_table(size_t h,
                      const Vector<int64_t>& site_starts,
                      const Vector<int64_t>& positions,
                      const Vector<int64_t>& row_starts,
                      const Vector<int32_t>& tuples,
                      const Matrix<double>& values,
                      const Vector<double>& base,
                      uint64_t seed) {
    require_aligned(values);
    std::vector<int64_t> sites = copy_array(site_starts);
    std::vector<int64_t> places = copy_array(positions);
    std::vector<int64_t> rows = copy_array(row_starts);
    require(!sites.empty() && h < (size_t{1} << 31),
            "contexts are too long, or starts are missing");
    require(values.shape(1) == base.shape(0) && base.shape(0) > 0, "one value for each label");
    require(values.shape(0) < (size_t{1} << 31), "there are too many rows");
    require_starts(sites, sites.size() - 1, places.size(), "sites must cover all positions");
    require_starts(rows, sites.size() - 1, values.shape(0), "sites must cover all rows");
    for (int64_t place : places) {
        require(place >= 0 && static_cast<size_t>(place) < h, "a position is outside the context");
    }
    size_t tokens = 0;
    for (size_t site = 0; site + 1 < sites.size(); ++site) {
        tokens += static_cast<size_t>(sites[site + 1] - sites[site]) *
                  static_cast<size_t>(rows[site + 1] - rows[site]);
    }
    require(tokens == tuples.shape(0), "one token for each row and position");
    return {h,
            std::move(sites),
            std::move(places),
            std::move(rows),
            copy_array(tuples),
            {values.data(), values.data() + values.size()},
            copy_array(base),
            seed};
}

// tokens: (n, h). Writes scores: (n, labels).
void write_scores(const ScoreTable& table, const Matrix<int32_t>& tokens, Scores out) {
    require(tokens.shape(1) == table.h(), "one token for each position");
    require(out.shape(0) == tokens.shape(0) && out.shape(1) == table.n_labels(),
            "one score for each context and label");
    require_aligned(tokens);
    require_aligned(out);
    const Released released;
    table.write(tokens.data(), tokens.shape(0), out.data());
}

int64_t winner(const ScoreTable& table, const std::vector<int64_t>& tokens) {
    require(tokens.size() == table.h(), "one token for each position");
    thread_local std::vector<int32_t> numbers;
    thread_local std::vector<double> scores;
    numbers.clear();
    for (int64_t token : tokens) {
        numbers.push_back(token < 0 || token > INT32_MAX ? NO_NUMBER : static_cast<int32_t>(token));
    }
    scores.resize(table.n_labels());
    table.write(numbers.data(), 1, scores.data());
    return static_cast<int64_t>(winning_column(scores.data(), scores.size()));
}

void add_shares(const Vector<int64_t>& contexts,
                const Vector<double>& weights,
                const Vector<double>& kept,
                const Matrix<double>& lost,
                const Vector<int64_t>& lengths,
                const Vector<int64_t>& columns,
                const Vector<int64_t>& counts,
                Scores scores) {
    const size_t n = contexts.size();
    require(weights.size() == n && kept.size() == n && lost.shape(0) == n && lost.shape(1) == 4 &&
                lengths.size() == n,
            "one number for each row");
    require(columns.size() == counts.size(), "one count for each column");
    require_aligned(contexts);
    require_aligned(weights);
    require_aligned(kept);
    require_aligned(lost);
    require_aligned(lengths);
    require_aligned(columns);
    require_aligned(counts);
    require_aligned(scores);
    const SharedRows rows{contexts.data(),
                          weights.data(),
                          kept.data(),
                          lost.data(),
                          lengths.data(),
                          columns.data(),
                          counts.data(),
                          n,
                          columns.size()};
    const Released released;
    add_row_shares(rows, scores.shape(0), scores.shape(1), scores.data());
}

}  // namespace

void bind_answers(nb::module_& m) {
    m.def("add_row_shares",
          &add_shares,
          nb::arg("contexts").noconvert(),
          nb::arg("weights").noconvert(),
          nb::arg("kept").noconvert(),
          nb::arg("lost").noconvert(),
          nb::arg("lengths").noconvert(),
          nb::arg("columns").noconvert(),
          nb::arg("counts").noconvert(),
          nb::arg("scores").noconvert());
    nb::class_<ScoreTable>(m, "ScoreTable")
        .def(nb::new_(&make_table),
             nb::arg("h"),
             nb::arg("site_starts").noconvert(),
             nb::arg("positions").noconvert(),
             nb::arg("row_starts").noconvert(),
             nb::arg("tuples").noconvert(),
             nb::arg("values").noconvert(),
             nb::arg("base").noconvert(),
             nb::arg("seed"))
        .def("scores", &write_scores, nb::arg("tokens").noconvert(), nb::arg("scores").noconvert())
        .def("winner",
             &winner,
             nb::arg("tokens"),
             nb::sig("def winner(self, tokens: list[int]) -> int"));
}
