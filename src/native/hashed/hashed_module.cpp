// What Python sees of the hashed memory: arrays are checked here.
#include "hashed_module.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "../bound_arrays.hpp"
#include "../released.hpp"
#include "counts.hpp"
#include "row_sums.hpp"
#include "scratch.hpp"
#include "table.hpp"

namespace nb = nanobind;
using namespace hammemo;

namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
template <class T>
using Cube = nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutputMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// No silent conversion: what is written to a converted copy of an output would be lost, and labels
// could wrap around.
auto array(const char* name) {
    return nb::arg(name).noconvert();
}

using MaybeHashes = std::optional<Vector<uint64_t>>;
using MaybePlaces = std::optional<Vector<int32_t>>;

// Tokens as integers, or as ranks in `hashes` and `places`. A wrong rank is refused here; one that
// becomes wrong later, because another thread writes to the array, is no token to the loops.
Source make_source(const Array& tokens, const MaybeHashes& hashes, const MaybePlaces& places) {
    require_aligned(tokens);
    require_aligned(hashes);
    require_aligned(places);
    require(hashes.has_value() == places.has_value(), "ranks need both hashes and places");
    if (hashes) {
        require(hashes->shape(0) == places->shape(0), "one place for each hash");
        require(tokens.dtype() == nb::dtype<int64_t>(), "ranks are 64-bit integers");
        const auto* ranks = static_cast<const int64_t*>(tokens.data());
        const auto size = static_cast<int64_t>(hashes->shape(0));
        for (size_t i = 0; i < tokens.size(); ++i) {
            const int64_t rank = load_once(ranks + i);
            require(rank >= -1 && rank < size, "a rank has no hash");
        }
        return {Source::RANKS, ranks, hashes->data(), places->data(), hashes->shape(0)};
    }
    if (tokens.dtype() == nb::dtype<int64_t>()) {
        return {Source::INT64, tokens.data(), nullptr, nullptr, 0};
    }
    require(tokens.dtype() == nb::dtype<int32_t>(), "integer tokens have 32 or 64 bits");
    return {Source::INT32, tokens.data(), nullptr, nullptr, 0};
}

size_t check_contexts(const LayoutView& layout, const Array& tokens) {
    require(tokens.ndim() == 2 && tokens.shape(1) == layout.h, "contexts have h columns");
    return tokens.shape(0);
}

const Loops& find_loops(const std::string& name) {
    for (const Loops* loops : available_loops()) {
        if (name == "auto" || name == loops->name) {
            return *loops;
        }
    }
    throw std::invalid_argument("this processor has no such path: " + name);
}

// A sequence of Python as a vector. The conversions of nanobind may not throw: where memory is
// short, those that allocate would end the process. So no argument is a vector or a shared pointer,
// and objects are returned by value.
template <class T>
std::vector<T> make_vector(const nb::object& sequence, bool convert = true) {
    std::vector<T> values;
    values.reserve(nb::len(sequence));
    for (nb::handle item : sequence) {
        T value;
        if (!nb::try_cast<T>(item, value, convert)) {
            throw nb::type_error("an entry of a sequence has the wrong type");
        }
        values.push_back(std::move(value));
    }
    return values;
}

template <class T>
using Sequence = nb::typed<nb::sequence, T>;

Layout make_layout(uint32_t h,
                   const Sequence<Sequence<uint32_t>>& positions,
                   const Sequence<uint64_t>& multipliers,
                   const Sequence<uint64_t>& tuple_seeds,
                   const Sequence<uint32_t>& groups,
                   const Sequence<Vector<uint64_t>>& reserved,
                   const Sequence<Matrix<uint64_t>>& entries,
                   const Vector<uint64_t>& token_hashes,
                   const Vector<uint32_t>& token_places,
                   const Matrix<uint64_t>& token_checks,
                   const Vector<uint32_t>& single_rows,
                   const Sequence<uint32_t>& buckets,
                   std::pair<uint64_t, uint64_t> integer_key,
                   bool keyed) {
    std::vector<std::vector<uint32_t>> sites;
    for (const nb::object& site : make_vector<nb::object>(positions)) {
        sites.push_back(make_vector<uint32_t>(site));
    }
    Reserved features;
    for (const auto& list : make_vector<Vector<uint64_t>>(reserved, false)) {
        features.hashes.push_back(copy_array(list));
    }
    for (const auto& list : make_vector<Matrix<uint64_t>>(entries, false)) {
        features.entries.push_back(copy_array(list));
    }
    features.token_hashes = copy_array(token_hashes);
    features.token_places = copy_array(token_places);
    features.token_checks = copy_array(token_checks);
    features.single_rows = copy_array(single_rows);
    return Layout(
        std::make_shared<LayoutOwner>(h,
                                      sites,
                                      make_vector<uint64_t>(multipliers),
                                      make_vector<uint64_t>(tuple_seeds),
                                      make_vector<uint32_t>(groups),
                                      std::move(features),
                                      make_vector<uint32_t>(buckets),
                                      IntegerHash{integer_key.first, integer_key.second, keyed}));
}

Table make_table(const Layout& layout,
                 const Array& values,
                 const std::optional<Vector<double>>& divisor,
                 double scale,
                 const std::string& path) {
    require_aligned(values);
    require_aligned(divisor);
    require(values.ndim() == 2 && values.shape(0) == layout.view().empty_row,
            "the table has one row a bucket");
    require(values.shape(1) > 0 && values.shape(1) <= (1U << 24),
            "the number of labels is out of range");
    const bool integers = values.dtype() == nb::dtype<int64_t>();
    require(integers || values.dtype() == nb::dtype<double>(),
            "the table holds 64-bit integers or floats");
    std::vector<double> divisors;
    if (divisor) {
        divisors.assign(divisor->data(), divisor->data() + divisor->shape(0));
    }
    return Table(layout.owner(),
                 integers ? static_cast<const int64_t*>(values.data()) : nullptr,
                 integers ? nullptr : static_cast<const double*>(values.data()),
                 static_cast<uint32_t>(values.shape(1)),
                 std::move(divisors),
                 scale,
                 find_loops(path));
}

Table replace_rows(const Table& table,
                   const Vector<int64_t>& rows,
                   const Array& values,
                   const std::optional<Vector<double>>& divisor) {
    require_aligned(rows);
    require_aligned(values);
    require_aligned(divisor);
    require(values.ndim() == 2 && values.shape(0) == rows.shape(0) &&
                values.shape(1) == table.view().n_labels,
            "one row of numbers for each row that is replaced");
    const bool integers = values.dtype() == nb::dtype<int64_t>();
    require(integers || values.dtype() == nb::dtype<double>(),
            "the table holds 64-bit integers or floats");
    for (size_t i = 0; i < rows.shape(0); ++i) {
        const int64_t row = load_once(rows.data() + i);
        require(row >= 0 && row < int64_t{table.layout().empty_row}, "a row is outside the table");
    }
    std::vector<double> divisors;
    if (divisor) {
        divisors.assign(divisor->data(), divisor->data() + divisor->shape(0));
    }
    return Table(table,
                 rows.data(),
                 rows.shape(0),
                 integers ? static_cast<const int64_t*>(values.data()) : nullptr,
                 integers ? nullptr : static_cast<const double*>(values.data()),
                 std::move(divisors));
}

void table_winners(const Table& table,
                   const Array& tokens,
                   const MaybeHashes& hashes,
                   const MaybePlaces& places,
                   Output<int32_t> out,
                   unsigned threads) {
    const size_t m = check_contexts(table.layout(), tokens);
    require(out.shape(0) == m, "one answer a context");
    require_aligned(out);
    const Source source = make_source(tokens, hashes, places);
    Released released;
    table.winners(source, m, threads, out.data());
}

void table_leaders(const Table& table,
                   const Array& tokens,
                   const MaybeHashes& hashes,
                   const MaybePlaces& places,
                   OutputMatrix<int32_t> out,
                   unsigned threads) {
    const size_t m = check_contexts(table.layout(), tokens);
    const size_t k = out.shape(1);
    require(out.shape(0) == m && k >= 1 && k <= table.view().n_labels,
            "between one and all labels are asked for");
    require_aligned(out);
    const Source source = make_source(tokens, hashes, places);
    Released released;
    table.leaders(source, m, static_cast<uint32_t>(k), threads, out.data());
}

void table_scores(const Table& table,
                  const Array& tokens,
                  const MaybeHashes& hashes,
                  const MaybePlaces& places,
                  OutputMatrix<double> out,
                  unsigned threads) {
    const size_t m = check_contexts(table.layout(), tokens);
    require(out.shape(0) == m && out.shape(1) == table.view().n_labels,
            "one score for each context and label");
    require_aligned(out);
    const Source source = make_source(tokens, hashes, places);
    Released released;
    table.scores(source, m, threads, out.data());
}

void check_columns(const Vector<int32_t>& columns, size_t n, int64_t lowest, size_t n_labels) {
    require(columns.shape(0) == n, "one column for each example");
    require_aligned(columns);
    for (size_t i = 0; i < n; ++i) {  // the loops leave out what becomes wrong later
        const int32_t column = load_once(columns.data() + i);
        require(column >= lowest && column < static_cast<int64_t>(n_labels),
                "a column is outside the table");
    }
}

void table_prove(const Table& lower,
                 const Table& upper,
                 const Array& tokens,
                 const MaybeHashes& hashes,
                 const MaybePlaces& places,
                 const Vector<int32_t>& answers,
                 Output<uint8_t> out,
                 unsigned threads) {
    const size_t m = check_contexts(lower.layout(), tokens);
    const uint32_t n_labels = lower.view().n_labels;
    require(lower.shares_layout_with(upper) && n_labels == upper.view().n_labels,
            "both tables are of one layout");
    require(out.shape(0) == m, "one verdict a context");
    check_columns(answers, m, 0, n_labels);
    const Source source = make_source(tokens, hashes, places);
    Released released;
    lower.prove(upper, source, m, threads, answers.data(), out.data());
}

// What is known of a string: its hash and its place in the list of reserved tokens, -1 where it has
// none.
constexpr Py_ssize_t KNOWN_BYTES = sizeof(uint64_t) + sizeof(int32_t);

// One context from Python: plain integers are taken as they are, strings are looked up in a
// dictionary, where each has a `bytes` of its hash and its place. Returns the column, or -1 where
// something else needs Python's help first.
int32_t table_one(const Table& table, nb::handle tokens, nb::dict known_strings) {
    const LayoutView& layout = table.layout();
    int64_t values[MAX_WIDTH];
    uint64_t hashes[MAX_WIDTH];
    int32_t places[MAX_WIDTH];
    uint8_t is_string[MAX_WIDTH];
    PyObject* sequence = surviving_exit(
        [&] { return PySequence_Fast(tokens.ptr(), "a context is a sequence of tokens"); });
    if (!sequence) {
        throw nb::python_error();
    }
    nb::object owner = nb::steal(sequence);
    if (PySequence_Size(sequence) != static_cast<Py_ssize_t>(layout.h)) {
        return -1;
    }
    // Functions of the stable ABI.
    const auto item = PyTuple_Check(sequence) ? PyTuple_GetItem : PyList_GetItem;
    bool strings = false;
    for (uint32_t i = 0; i < layout.h; ++i) {
        PyObject* token = item(sequence, i);  // borrowed
        if (!token) {
            throw nb::python_error();
        }
        is_string[i] = PyUnicode_CheckExact(token);
        if (is_string[i]) {
            PyObject* entry = PyDict_GetItemWithError(known_strings.ptr(), token);
            if (!entry) {
                if (PyErr_Occurred()) {
                    throw nb::python_error();
                }
                return -1;
            }
            require(PyBytes_CheckExact(entry) && PyBytes_Size(entry) == KNOWN_BYTES,
                    "a known string has a hash and a place");
            const char* bytes = PyBytes_AsString(entry);
            std::memcpy(hashes + i, bytes, sizeof(uint64_t));
            std::memcpy(places + i, bytes + sizeof(uint64_t), sizeof(int32_t));
            strings = true;
        } else if (PyLong_CheckExact(token)) {
            int overflow = 0;
            values[i] = PyLong_AsLongLongAndOverflow(token, &overflow);
            if (overflow) {
                return -1;
            }
        } else {
            return -1;
        }
    }
    if (!strings) {
        return table.winner_of({Source::INT64, values, nullptr, nullptr, 0});
    }
    for (uint32_t i = 0; i < layout.h; ++i) {  // from integers to ranks: token i has rank i
        const auto value = is_string[i] ? 0 : static_cast<uint64_t>(values[i]);
        values[i] = value != static_cast<uint64_t>(NO_TOKEN) ? int64_t{i} : -1;
        if (is_string[i]) {
            continue;
        }
        hashes[i] = layout.integer_hash(value);
        const uint64_t word =
            layout.confirm_token(layout.tokens.locate(hashes[i]), hashes[i], value);
        places[i] = is_found(word) ? static_cast<int32_t>(word >> 1) : -1;
    }
    return table.winner_of({Source::RANKS, values, hashes, places, layout.h});
}

void layout_rows(const Layout& layout,
                 const Array& tokens,
                 const MaybeHashes& hashes,
                 const MaybePlaces& places,
                 OutputMatrix<uint32_t> out,
                 const std::string& path) {
    const size_t m = check_contexts(layout.view(), tokens);
    require(out.shape(0) == m && out.shape(1) == layout.view().n_sites,
            "one row for each context and site");
    require_aligned(out);
    const Source source = make_source(tokens, hashes, places);
    const Loops& loops = find_loops(path);
    Released released;
    ScratchOwner scratch(layout.view());
    const size_t n_sites = layout.view().n_sites;
    for (size_t i = 0; i < m; i += BLOCK) {
        const size_t last = std::min(m, i + BLOCK);
        const BlockRows block = loops.rows(layout.view(), source, i, last, scratch.view());
        for (size_t q = i; q < last; ++q) {
            for (size_t k = 0; k < n_sites; ++k) {
                out.data()[q * n_sites + k] =
                    block.rows[(q - i) * block.context_step + k * block.site_step];
            }
        }
    }
}

void layout_centred_sums(const Layout& layout,
                         const Matrix<int64_t>& rows,
                         const Cube<int64_t>& counts,
                         const Matrix<int64_t>& shared_sums,
                         const Vector<double>& weights,
                         OutputMatrix<double> out,
                         double scale) {
    const LayoutView& view = layout.view();
    const size_t m = rows.shape(0);
    const size_t n_labels = counts.shape(2);
    require(rows.shape(1) == view.n_sites && weights.shape(0) == view.n_sites,
            "one row and one weight for each site");
    require(counts.shape(0) == m && counts.shape(1) == view.n_sites,
            "one row of counts for each context and site");
    require(shared_sums.shape(0) == view.n_sites && shared_sums.shape(1) == n_labels,
            "one sum for each site and label");
    require(out.shape(0) == m && out.shape(1) == n_labels, "one score for each context and label");
    require_aligned(rows);
    require_aligned(counts);
    require_aligned(shared_sums);
    require_aligned(weights);
    require_aligned(out);
    const RawRows raw{rows.data(), counts.data(), shared_sums.data(), weights.data(), m, n_labels};
    Released released;
    sum_centred(view, raw, scale, out.data());
}

// The same as rows of each site's own table, -1 where it holds no token.
void layout_own_rows(const Layout& layout,
                     const Array& tokens,
                     const MaybeHashes& hashes,
                     const MaybePlaces& places,
                     OutputMatrix<int64_t> out) {
    const LayoutView& view = layout.view();
    const size_t m = check_contexts(view, tokens);
    require(out.shape(0) == m && out.shape(1) == view.n_sites, "one row for each context and site");
    require_aligned(out);
    const Source source = make_source(tokens, hashes, places);
    const Loops& loops = *available_loops().front();
    Released released;
    ScratchOwner scratch(view);
    for (size_t i = 0; i < m; i += BLOCK) {
        const size_t last = std::min(m, i + BLOCK);
        const BlockRows block = loops.rows(view, source, i, last, scratch.view());
        for (size_t q = i; q < last; ++q) {
            for (uint32_t k = 0; k < view.n_sites; ++k) {
                const uint32_t row = block.rows[(q - i) * block.context_step + k * block.site_step];
                out.data()[q * view.n_sites + k] =
                    row == view.empty_row ? -1 : int64_t{row} - view.sites[k].first_row;
            }
        }
    }
}

uint32_t check_cells(const LayoutView& layout, const OutputMatrix<uint32_t>& cells) {
    require_aligned(cells);
    require(cells.shape(0) == size_t{layout.empty_row} + 1,
            "the cells have one row a bucket and one for empty sites");
    require(cells.shape(1) > 0 && cells.shape(1) <= (1U << 24),
            "the number of labels is out of range");
    return static_cast<uint32_t>(cells.shape(1));
}

void layout_count(const Layout& layout,
                  const Array& tokens,
                  const MaybeHashes& hashes,
                  const MaybePlaces& places,
                  const Vector<int32_t>& columns,
                  const std::optional<Vector<uint32_t>>& multiplicity,
                  OutputMatrix<uint32_t> cells,
                  const std::string& path) {
    const size_t m = check_contexts(layout.view(), tokens);
    const uint32_t n_labels = check_cells(layout.view(), cells);
    check_columns(columns, m, 0, n_labels);
    require(!multiplicity || multiplicity->shape(0) == m, "one multiplicity for each example");
    require_aligned(multiplicity);
    const Source source = make_source(tokens, hashes, places);
    const Loops& loops = find_loops(path);
    Released released;
    count_contexts(loops,
                   layout.view(),
                   source,
                   m,
                   columns.data(),
                   multiplicity ? multiplicity->data() : nullptr,
                   n_labels,
                   cells.data());
}

void layout_count_stream(const Layout& layout,
                         const Array& tokens,
                         const MaybeHashes& hashes,
                         const MaybePlaces& places,
                         const Vector<int32_t>& columns,
                         OutputMatrix<uint32_t> cells,
                         const std::string& path) {
    require(tokens.ndim() == 1, "a stream has one dimension");
    const uint32_t n_labels = check_cells(layout.view(), cells);
    check_columns(columns, tokens.shape(0), -1, n_labels);
    const Source source = make_source(tokens, hashes, places);
    const Loops& loops = find_loops(path);
    Released released;
    count_stream(
        loops, layout.view(), source, tokens.shape(0), columns.data(), n_labels, cells.data());
}

// A set of hashes and how integers get theirs: which of a set of labels each token of a stream is.
struct IntegerFinder {
    Finder finder;
    IntegerHash hash;
};

IntegerFinder make_finder(const Vector<uint64_t>& words,
                          std::pair<uint64_t, uint64_t> integer_key,
                          bool keyed) {
    require_aligned(words);
    return {Finder({words.data(), words.data() + words.shape(0)}),
            {integer_key.first, integer_key.second, keyed}};
}

void finder_find(const IntegerFinder& set,
                 const Array& tokens,
                 Output<int32_t> out,
                 const std::string& path) {
    require(tokens.ndim() == 1 && out.shape(0) == tokens.shape(0), "one answer a token");
    require_aligned(out);
    const Source source = make_source(tokens, std::nullopt, std::nullopt);
    const Loops& loops = find_loops(path);
    Released released;
    find_integers(loops, set.hash, set.finder.view(), source, out.shape(0), out.data());
}

}  // namespace

void bind_hashed(nb::module_& m) {
    m.def("paths", [] {
        std::vector<std::string> names;
        for (const Loops* loops : available_loops()) {
            names.emplace_back(loops->name);
        }
        return names;
    });
    nb::class_<Layout>(m, "Layout")
        .def(nb::new_(&make_layout),
             nb::arg("h"),
             nb::arg("positions"),
             nb::arg("multipliers"),
             nb::arg("tuple_seeds"),
             nb::arg("groups"),
             array("reserved"),
             array("entries"),
             array("token_hashes"),
             array("token_places"),
             array("token_checks"),
             array("single_rows"),
             nb::arg("buckets"),
             nb::arg("integer_key"),
             nb::arg("keyed"))
        .def_prop_ro("n_rows", [](const Layout& layout) { return layout.view().empty_row; })
        .def("rows",
             &layout_rows,
             array("tokens"),
             array("hashes").none(),
             array("places").none(),
             array("out"),
             nb::arg("path") = "auto")
        .def("own_rows",
             &layout_own_rows,
             array("tokens"),
             array("hashes").none(),
             array("places").none(),
             array("out"))
        .def("centred_sums",
             &layout_centred_sums,
             array("rows"),
             array("counts"),
             array("shared_sums"),
             array("weights"),
             array("out"),
             nb::arg("scale"))
        .def("count",
             &layout_count,
             array("tokens"),
             array("hashes").none(),
             array("places").none(),
             array("columns"),
             array("multiplicity").none(),
             array("cells"),
             nb::arg("path") = "auto")
        .def("count_stream",
             &layout_count_stream,
             array("tokens"),
             array("hashes").none(),
             array("places").none(),
             array("columns"),
             array("cells"),
             nb::arg("path") = "auto");
    nb::class_<IntegerFinder>(m, "Finder")
        .def(nb::new_(&make_finder), array("words"), nb::arg("integer_key"), nb::arg("keyed"))
        .def("find", &finder_find, array("tokens"), array("out"), nb::arg("path") = "auto");
    nb::class_<Table>(m, "Table")
        .def(nb::new_(&make_table),
             nb::arg("layout"),
             array("values"),
             array("divisor").none(),
             nb::arg("scale"),
             nb::arg("path") = "auto")
        .def("winners",
             &table_winners,
             array("tokens"),
             array("hashes").none(),
             array("places").none(),
             array("out"),
             nb::arg("threads") = 1)
        .def("leaders",
             &table_leaders,
             array("tokens"),
             array("hashes").none(),
             array("places").none(),
             array("out"),
             nb::arg("threads") = 1)
        .def("scores",
             &table_scores,
             array("tokens"),
             array("hashes").none(),
             array("places").none(),
             array("out"),
             nb::arg("threads") = 1)
        .def("prove",
             &table_prove,
             nb::arg("upper"),
             array("tokens"),
             array("hashes").none(),
             array("places").none(),
             array("answers"),
             array("out"),
             nb::arg("threads") = 1)
        .def("one",
             &table_one,
             nb::arg("tokens"),
             nb::arg("known"),
             nb::sig("def one(self, tokens: Sequence[Any], known: dict[str, bytes]) -> int"))
        .def("replaced", &replace_rows, array("rows"), array("values"), array("divisor").none())
        .def_prop_ro("nbytes", &Table::nbytes)
        .def_prop_ro("path", [](const Table& table) { return table.loops().name; })
        .def_prop_ro("sum_bits", [](const Table& table) { return 8 * bytes_of(table.view().sum); });
}
