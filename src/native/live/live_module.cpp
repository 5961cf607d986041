// What Python sees of the live table. Everything that comes from outside is checked here.
#include "live_module.hpp"

#include <cmath>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>  // nanobind's shared_ptr and vector allocate where no exception may leave

#include "../bound_arrays.hpp"
#include "../released.hpp"
#include "live_table.hpp"
#include "mixture.hpp"
#include "rule.hpp"

namespace nb = nanobind;
using namespace hammemo;
using namespace hammemo::live;

namespace {

template <class T>
using Output = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using RowArrays = std::
    tuple<Vector<uint64_t>, Vector<uint32_t>, Vector<uint32_t>, Vector<uint32_t>, Vector<uint64_t>>;

// Examples up to which other threads of Python do not run meanwhile.
constexpr size_t MAX_UNRELEASED_EXAMPLES = 64;

RowView view_rows(const RowArrays& arrays) {
    const auto& [keys, ids, lengths, labels, counts] = arrays;
    require_aligned(keys);
    require_aligned(ids);
    require_aligned(lengths);
    require_aligned(labels);
    require_aligned(counts);
    require(ids.size() == keys.size() && lengths.size() == keys.size(),
            "one number and length a row");
    require(labels.size() == counts.size(), "one count an entry");
    return {keys.data(),
            ids.data(),
            lengths.data(),
            labels.data(),
            counts.data(),
            keys.size(),
            labels.size()};
}

Shape make_shape(uint32_t h,
                 const std::vector<int64_t>& parents,
                 const std::vector<uint32_t>& positions,
                 const std::vector<uint32_t>& site_steps) {
    Shape shape{h, {}, site_steps};
    require(parents.size() == positions.size() && parents.size() < (1U << 20),
            "one position a step");
    for (size_t k = 0; k < parents.size(); ++k) {
        require(parents[k] >= -1 && parents[k] < int64_t(k), "a step comes after its parent");
        require(positions[k] < h, "a step compares a position of the context");
        shape.steps.push_back(
            {parents[k] < 0 ? NO_STEP : uint32_t(parents[k]), positions[k], false, false});
        if (parents[k] >= 0) {
            shape.steps[size_t(parents[k])].has_children = true;
        }
    }
    for (const uint32_t step : site_steps) {
        require(step < parents.size(), "a site is a step");
        shape.steps[step].is_site = true;
    }
    return shape;
}

// What an iterator of Python yields next, or nothing: it may be a generator, between whose steps
// other threads run.
nb::object take_next(const nb::object& iterator) {
    nb::object item = nb::steal(surviving_exit([&] { return PyIter_Next(iterator.ptr()); }));
    if (!item && PyErr_Occurred()) {
        throw nb::python_error();
    }
    return item;
}

// `rows` and `empties` yield the rows of one step after the other, so that they need not all be
// there at once.
std::unique_ptr<Handle> build(uint32_t h,
                              const Vector<int64_t>& parents,
                              const Vector<uint32_t>& positions,
                              const Vector<uint32_t>& site_steps,
                              bool wide,
                              const nb::iterable& rows,
                              const Vector<uint64_t>& label_counts,
                              const nb::iterable& empties) {
    const auto counts = copy_array(label_counts);
    require(counts.size() < (uint64_t(1) << 31), "there are too many labels");
    const auto table = LiveTable::start(
        make_shape(h, copy_array(parents), copy_array(positions), copy_array(site_steps)),
        wide,
        counts);
    const auto each = [&](const nb::iterable& source, const auto& fill) {
        uint32_t step = 0;
        const nb::object iterator = nb::iter(source);
        while (const nb::object item = take_next(iterator)) {
            require(step < parents.size(), "rows for each step, not for more");
            const auto arrays = nb::cast<RowArrays>(item);
            const RowView view = view_rows(arrays);
            Released released;
            fill(step++, view);
        }
        require(step == parents.size(), "rows for each step");
    };
    each(rows, [&](uint32_t step, const RowView& view) { table->fill(step, view); });
    each(empties, [&](uint32_t step, const RowView& view) { table->fill_empty(step, view); });
    return table->finish();
}

uint32_t check_token(int64_t token) {
    require(token >= -1 && token < int64_t(NO_TOKEN), "a token's number is out of range");
    return token < 0 ? NO_TOKEN : uint32_t(token);
}

uint32_t check_label(const Handle& handle, int64_t label) {
    require(label >= 0 && label < (int64_t(1) << 31) && handle.table->is_placed(uint32_t(label)),
            "a label has no place");
    return uint32_t(label);
}

int64_t check_copies(int64_t by) {
    require(by != 0 && by > -(int64_t(1) << 53) && by < (int64_t(1) << 53),
            "a number of copies is out of range");
    return by;
}

std::unique_ptr<Handle> edit(const Handle& handle,
                             const Matrix<int64_t>& tokens,
                             const Vector<int64_t>& labels,
                             const Vector<int64_t>& by) {
    const size_t h = handle.table->shape().h;
    const size_t m = tokens.shape(0);
    require_aligned(tokens);
    require_aligned(labels);
    require_aligned(by);
    require(tokens.shape(1) == h && labels.shape(0) == m && by.shape(0) == m,
            "one label and number of copies a context");
    std::vector<uint32_t> checked_tokens(m * h);
    for (size_t i = 0; i < checked_tokens.size(); ++i) {
        checked_tokens[i] = check_token(tokens.data()[i]);
    }
    std::vector<Example> examples;
    examples.reserve(m);
    for (size_t i = 0; i < m; ++i) {
        examples.push_back({checked_tokens.data() + i * h,
                            check_label(handle, labels.data()[i]),
                            check_copies(by.data()[i])});
    }
    if (m <= MAX_UNRELEASED_EXAMPLES) {
        return handle.table->edit(handle.version, examples.data(), m);
    }
    Released released;
    return handle.table->edit(handle.version, examples.data(), m);
}

std::vector<int64_t> copy_tokens(const Handle& handle, const nb::list& tokens) {
    const size_t h = handle.table->shape().h;
    require(tokens.size() == h, "a context has h tokens");
    std::vector<int64_t> copies(h);
    for (size_t i = 0; i < h; ++i) {
        copies[i] = nb::cast<int64_t>(tokens[i]);
    }
    return copies;
}

std::unique_ptr<Handle> edit_one(const Handle& handle,
                                 const nb::list& tokens,
                                 int64_t label,
                                 int64_t by) {
    std::vector<uint32_t> checked_tokens;
    for (const int64_t token : copy_tokens(handle, tokens)) {
        checked_tokens.push_back(check_token(token));
    }
    const Example example{checked_tokens.data(), check_label(handle, label), check_copies(by)};
    return handle.table->edit(handle.version, &example, 1);
}

std::vector<double> copy_weights(const Handle& handle,
                                 const Vector<double>& weights,
                                 double divisor) {
    require(weights.shape(0) == handle.table->shape().site_steps.size(), "one weight a site");
    auto copies = copy_array(weights);
    for (const double weight : copies) {
        require(weight >= 0 && weight < 1e300, "weights are finite and not negative");
    }
    require(divisor > 0, "the divisor is above zero");
    return copies;
}

void leaders(const Handle& handle,
             const Vector<double>& weights,
             double divisor,
             const Matrix<int64_t>& tokens,
             Output<int64_t> out,
             size_t most_listed) {
    const auto own_weights = copy_weights(handle, weights, divisor);
    require(tokens.shape(1) == handle.table->shape().h && out.shape(0) == tokens.shape(0),
            "one answer a context");
    require(out.shape(1) >= 1, "at least one label is asked for");
    require_aligned(tokens);
    require_aligned(out);
    Released released;
    handle.table->leaders(handle.version,
                          {own_weights.data(), divisor, most_listed},
                          tokens.data(),
                          tokens.shape(0),
                          out.shape(1),
                          out.data());
}

// One context at a time, with fixed weights.
class Single {
public:
    Single(nb::object version, const Vector<double>& weights, double divisor)
        : version_(std::move(version)),
          handle_(nb::cast<const Handle&>(version_)),
          weights_(copy_weights(handle_, weights, divisor)),
          divisor_(divisor) {}
    int64_t winner(const nb::list& tokens) const {
        const auto ranks = copy_tokens(handle_, tokens);
        int64_t label = -1;
        handle_.table->leaders(
            handle_.version, {weights_.data(), divisor_}, ranks.data(), 1, 1, &label);
        return label;
    }

private:
    const nb::object version_;  // keeps the handle
    const Handle& handle_;
    const std::vector<double> weights_;
    const double divisor_;
};

// A mixture of the rows of several tables. The arrays of numbers are not copied: they have an entry
// for every label.
class LiveMixture {
public:
    // `tables`: a version, the number that each of its labels has in the table of the sites, and
    // back; `parts`: kind (0 table, 1 copy, 2 recent), reach and first component of each site
    // without a position, tables first.
    LiveMixture(nb::object sites,
                Vector<int64_t> columns,
                size_t n_labels,
                const Matrix<double>& trust,
                const Matrix<double>& discounts,
                const nb::list& tables,
                const Matrix<int64_t>& parts,
                uint32_t most_whole,
                uint32_t patience)
        : columns_(std::move(columns)) {
        require_aligned(columns_);
        require_aligned(trust);
        require_aligned(discounts);
        require_aligned(parts);
        mixture_.sites = kept(std::move(sites));
        mixture_.columns = {columns_.data(), columns_.size()};
        mixture_.n_labels = n_labels;
        mixture_.most_whole = most_whole;
        mixture_.patience = patience;
        mixture_.trust.assign(trust.data(), trust.data() + trust.size());
        mixture_.discounts.assign(discounts.data(), discounts.data() + discounts.size());
        for (nb::handle one : tables) {
            require(nb::len(one) == 3, "a version, and its label numbers both ways");
            add_table(kept(one[0]),
                      nb::cast<Vector<int64_t>>(one[1], false),
                      nb::cast<Vector<int64_t>>(one[2], false));
        }
        const size_t n_sites = mixture_.sites->table->shape().site_steps.size();
        require(trust.shape(1) == Mixture::BUCKETS && discounts.shape(1) == 4,
                "16 buckets, and four classes of counts");
        require(trust.shape(0) > n_sites && discounts.shape(0) == n_sites + tables.size(),
                "weights for each site");
        require(n_labels < (uint64_t(1) << 32), "there are too many labels");
        for (const auto* values : {&mixture_.trust, &mixture_.discounts}) {
            for (const double value : *values) {
                require(value >= 0 && value < 1e300, "weights are finite and not negative");
            }
        }
        add_parts(parts, trust.shape(0));
    }

    // `open`: whether each column is allowed; `starts`, `listed`: a list of columns for each
    // context.
    void leaders(const Matrix<int64_t>& ranks,
                 const Matrix<int64_t>& numbers,
                 Output<int64_t> out,
                 const std::optional<Output<double>>& scores,
                 const std::optional<Vector<uint8_t>>& open,
                 const std::optional<Vector<int64_t>>& starts,
                 const std::optional<Vector<int64_t>>& listed,
                 bool lists_allow,
                 uint32_t power) const {
        require(power < 64, "a power below one");
        require(
            ranks.shape(1) == mixture_.sites->table->shape().h && out.shape(0) == ranks.shape(0),
            "one answer a context");
        require(numbers.shape(0) == mixture_.tables.size() + 2,
                "numbers for each table, and for the labels");
        require(out.shape(1) <= mixture_.n_labels, "no more labels than there are");
        require_aligned(ranks);
        require_aligned(numbers);
        require_aligned(out);
        std::vector<int64_t> own_numbers(numbers.data(), numbers.data() + numbers.size());
        for (int64_t& number : own_numbers) {
            number = number < 0 || number >= int64_t(NO_TOKEN) ? -1 : number;
        }
        require_aligned(scores);
        require_aligned(open);
        require_aligned(starts);
        require_aligned(listed);
        require(!scores || (scores->shape(0) == out.shape(0) && scores->shape(1) == out.shape(1)),
                "one score an answer");
        require(!open || open->size() == mixture_.n_labels, "one flag a label");
        require(bool(starts) == bool(listed) && (!starts || starts->size() == ranks.shape(0) + 1),
                "one list a context");
        std::vector<int64_t> own_starts;
        if (starts) {
            own_starts = copy_array(*starts);
        }
        for (size_t i = 0; i < own_starts.size(); ++i) {
            require(own_starts[i] >= (i ? own_starts[i - 1] : 0) &&
                        uint64_t(own_starts[i]) <= listed->size(),
                    "lists in order");
        }
        LabelMask mask;
        if (open) {
            mask.open = open->data();
        }
        if (starts) {
            mask.starts = own_starts.data();
            mask.listed = {listed->data(), listed->size()};
        }
        mask.lists_allow = lists_allow;
        Released released;
        mixture_leaders(mixture_,
                        ranks.data(),
                        ranks.shape(0),
                        own_numbers.data(),
                        numbers.shape(1),
                        mask,
                        power,
                        out.shape(1),
                        out.data(),
                        scores ? scores->data() : nullptr);
    }

private:
    const Handle* kept(nb::object version) {
        versions_.push_back(std::move(version));
        return &nb::cast<const Handle&>(versions_.back());
    }
    void add_table(const Handle* handle,
                   const Vector<int64_t>& labels,
                   const Vector<int64_t>& numbers) {
        require_aligned(labels);
        require_aligned(numbers);
        require(handle->table->shape().h == 1 && handle->table->shape().site_steps.size() == 1,
                "contexts of one token");
        mixture_.tables.push_back(
            {handle, {labels.data(), labels.size()}, {numbers.data(), numbers.size()}});
        labels_.push_back(labels);
        labels_.push_back(numbers);
    }
    void add_parts(const Matrix<int64_t>& parts, size_t n_components) {
        require(parts.shape(1) == 3, "a kind, a reach and a component");
        const size_t h = mixture_.sites->table->shape().h;
        size_t n_tables = 0;
        for (size_t i = 0; i < parts.shape(0); ++i) {
            const int64_t kind = parts(i, 0);
            const int64_t reach = parts(i, 1);
            const int64_t component = parts(i, 2);
            require(kind >= 0 && kind <= 2 && reach >= 1 && reach <= int64_t(h),
                    "a part of the context");
            const size_t width = kind == 2 ? 1 : Mixture::NEAREST;
            require(component >= 1 && size_t(component) + width <= n_components,
                    "a component for each part");
            require(kind == 0 ? n_tables == i : n_tables == mixture_.tables.size(),
                    "parts with a table come first");
            mixture_.parts.push_back(
                {FreePart::Kind(kind), size_t(reach), size_t(component), n_tables});
            n_tables += kind == 0;
        }
        require(n_tables == mixture_.tables.size(), "a part for each table");
    }

    std::vector<nb::object> versions_;  // keep the handles
    Vector<int64_t> columns_;
    std::vector<Vector<int64_t>> labels_;
    Mixture mixture_;
};

void require_finite(const std::vector<double>& weights) {
    for (const double weight : weights) {
        require(std::fabs(weight) < 1e12, "weights are finite, and not above 10^12");
    }
}

// `octaves`: shares of labels are at least 1 / 2^octaves.
Rule make_log_linear_rule(const Vector<double>& amounts,
                          const Matrix<double>& weights,
                          uint32_t octaves) {
    const auto own_amounts = copy_array(amounts);
    require_aligned(weights);
    const std::vector<double> own_weights(weights.data(), weights.data() + weights.size());
    for (const double amount : own_amounts) {
        require(amount > 0 && amount < 0x1p53, "smoothing is above zero, and below 2^53");
    }
    require_finite(own_weights);
    require(weights.shape(1) == own_amounts.size() && !own_amounts.empty(),
            "one weight a site and amount of smoothing");
    require(octaves >= 1 && octaves <= 64 && weights.shape(0) <= 4096,
            "a table of at most 64 octaves and 4096 sites");
    return Rule::log_linear(
        own_amounts.data(), own_amounts.size(), own_weights.data(), weights.shape(0), octaves);
}

Rule make_mean_rule(const Vector<double>& weights, double divisor) {
    const auto own_weights = copy_array(weights);
    require_finite(own_weights);
    for (const double weight : own_weights) {
        require(weight >= 0, "weights are not negative");
    }
    require(divisor > 0, "the divisor is above zero");
    return Rule::mean(own_weights.data(), own_weights.size(), divisor);
}

void check_rule(const Handle& handle, const Rule& rule, size_t n_labels) {
    require(rule.n_sites == handle.table->shape().site_steps.size(), "a rule for as many sites");
    const double all = double(handle.table->examples(handle.version)) + 0.5 * double(n_labels);
    require(n_labels < (uint64_t(1) << 32) &&
                (rule.is_mean() || all <= std::ldexp(1.0, int(rule.octaves()))),
            "a rule for as many examples");
}

void ratio_leaders(const Handle& handle,
                   const Rule& rule,
                   size_t n_labels,
                   const Matrix<int64_t>& tokens,
                   Output<int64_t> out,
                   nb::ndarray<bool, nb::ndim<1>, nb::c_contig, nb::device::cpu> sure) {
    check_rule(handle, rule, n_labels);
    const size_t m = tokens.shape(0);
    require(tokens.shape(1) == handle.table->shape().h && out.shape(0) == m && sure.shape(0) == m,
            "one answer a context");
    require(out.shape(1) >= 1, "at least one label is asked for");
    require_aligned(tokens);
    require_aligned(out);
    Released released;
    handle.table->ratio_leaders(
        handle.version, rule, n_labels, tokens.data(), m, out.shape(1), out.data(), sure.data());
}

// One context: the label's number, -1 for none, -2 where it is not sure.
int64_t ratio_winner(const Handle& handle,
                     const Rule& rule,
                     size_t n_labels,
                     const nb::list& tokens) {
    check_rule(handle, rule, n_labels);
    const auto ranks = copy_tokens(handle, tokens);
    int64_t label = -1;
    bool sure = false;
    handle.table->ratio_leaders(handle.version, rule, n_labels, ranks.data(), 1, 1, &label, &sure);
    return sure ? label : -2;
}

nb::tuple make_row_tuple(RowList list) {
    return nb::make_tuple(hand_over(std::move(list.keys)),
                          hand_over(std::move(list.ids)),
                          hand_over(std::move(list.lengths)),
                          hand_over(std::move(list.labels)),
                          hand_over(std::move(list.counts)));
}

nb::tuple list_rows(const Handle& handle, uint32_t step) {
    require(step < handle.table->shape().steps.size(), "there is no such step");
    RowList list;
    {
        Released released;
        list = handle.table->rows(handle.version, step);
    }
    return make_row_tuple(std::move(list));
}

// Of the same rows the total and the entries of counts one and two, as they are kept: (rows x 3),
// flat.
nb::object list_tallies(const Handle& handle, uint32_t step) {
    require(step < handle.table->shape().steps.size(), "there is no such step");
    std::vector<uint64_t> flat;
    for (const Tally& tally : handle.table->tallies(handle.version, step)) {
        flat.insert(flat.end(), {tally.total, tally.ones, tally.twos});
    }
    return nb::cast(hand_over(std::move(flat)));
}

// The rows that contexts read: where each starts, labels, counts.
nb::tuple read_rows(const Handle& handle, const Matrix<int64_t>& tokens) {
    require(tokens.shape(1) == handle.table->shape().h, "contexts have h columns");
    require_aligned(tokens);
    RowList list;
    {
        Released released;
        list = handle.table->read(handle.version, tokens.data(), tokens.shape(0));
    }
    return nb::make_tuple(hand_over(std::move(list.lengths)),
                          hand_over(std::move(list.labels)),
                          hand_over(std::move(list.counts)));
}

nb::object label_counts(const Handle& handle, const Vector<int64_t>& labels) {
    require_aligned(labels);
    std::vector<int64_t> counts(labels.shape(0));
    for (size_t i = 0; i < counts.size(); ++i) {
        counts[i] = int64_t(
            handle.table->label_count(handle.version, check_label(handle, labels.data()[i])));
    }
    return nb::cast(hand_over(std::move(counts)));
}

}  // namespace

void bind_live_table(nb::module_& module) {
    // NOLINTBEGIN(bugprone-unused-raii,bugprone-throw-keyword-missing): they enter the module
    nb::exception<Refused>(module, "RefusedError", PyExc_ValueError);
    nb::exception<TooWide>(module, "TooWideError", PyExc_OverflowError);
    // NOLINTEND(bugprone-unused-raii,bugprone-throw-keyword-missing)
    module.def(
        "fail_allocation", [](int64_t after) { allocations_left.store(after); }, nb::arg("after"));
    nb::class_<Rule>(module, "LiveRule")
        .def_static("log_linear",
                    &make_log_linear_rule,
                    nb::arg("amounts").noconvert(),
                    nb::arg("weights").noconvert(),
                    nb::arg("octaves"))
        .def_static("mean", &make_mean_rule, nb::arg("weights").noconvert(), nb::arg("divisor"))
        .def_prop_ro("octaves", &Rule::octaves);
    nb::class_<Handle>(module, "LiveVersion")
        .def_static("build",
                    &build,
                    nb::arg("h"),
                    nb::arg("parents").noconvert(),
                    nb::arg("positions").noconvert(),
                    nb::arg("site_steps").noconvert(),
                    nb::arg("wide"),
                    nb::arg("rows"),
                    nb::arg("label_counts"),
                    nb::arg("empties"),
                    nb::sig("def build(h: int, parents: NDArray[np.int64], positions: "
                            "NDArray[np.uint32], site_steps: NDArray[np.uint32], wide: bool, "
                            "rows: Iterable[Rows], label_counts: NDArray[np.uint64], empties: "
                            "Iterable[Rows]) -> LiveVersion"))
        .def("edit",
             &edit,
             nb::arg("tokens").noconvert(),
             nb::arg("labels").noconvert(),
             nb::arg("by").noconvert(),
             nb::sig("def edit(self, tokens: NDArray[np.int64], labels: NDArray[np.int64], by: "
                     "NDArray[np.int64]) -> "
                     "LiveVersion | None"))
        .def(
            "edit_one",
            &edit_one,
            nb::arg("tokens"),
            nb::arg("label"),
            nb::arg("by"),
            nb::sig(
                "def edit_one(self, tokens: list[int], label: int, by: int) -> LiveVersion | None"))
        .def(
            "place",
            [](const Handle& handle, uint32_t label, int64_t before, int64_t after) {
                require(label < (1U << 31), "there are too many labels");
                for (const int64_t other : {before, after}) {
                    if (other != -1) {
                        check_label(handle, other);
                    }
                }
                return handle.table->place(label, before, after);
            },
            nb::arg("label"),
            nb::arg("before"),
            nb::arg("after"))
        .def("leaders",
             &leaders,
             nb::arg("weights").noconvert(),
             nb::arg("divisor"),
             nb::arg("tokens").noconvert(),
             nb::arg("out").noconvert(),
             nb::arg("most_listed") = MAX_LISTED)
        .def("ratio_leaders",
             &ratio_leaders,
             nb::arg("rule"),
             nb::arg("n_labels"),
             nb::arg("tokens").noconvert(),
             nb::arg("out").noconvert(),
             nb::arg("sure").noconvert())
        .def("ratio_winner",
             &ratio_winner,
             nb::arg("rule"),
             nb::arg("n_labels"),
             nb::arg("tokens"),
             nb::sig(
                 "def ratio_winner(self, rule: LiveRule, n_labels: int, tokens: list[int]) -> int"))
        .def("rows", &list_rows, nb::arg("step"), nb::sig("def rows(self, step: int) -> Rows"))
        .def("tallies",
             &list_tallies,
             nb::arg("step"),
             nb::sig("def tallies(self, step: int) -> NDArray[np.uint64]"))
        .def("read",
             &read_rows,
             nb::arg("tokens").noconvert(),
             nb::sig("def read(self, tokens: NDArray[np.int64]) -> tuple[NDArray[np.uint32], "
                     "NDArray[np.uint32], "
                     "NDArray[np.uint64]]"))
        .def(
            "label_row",
            [](const Handle& handle) {
                RowList list = handle.table->label_row(handle.version);
                return nb::make_tuple(hand_over(std::move(list.labels)),
                                      hand_over(std::move(list.counts)));
            },
            nb::sig("def label_row(self) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]"))
        .def("label_counts",
             &label_counts,
             nb::arg("labels").noconvert(),
             nb::sig("def label_counts(self, labels: NDArray[np.int64]) -> NDArray[np.int64]"))
        .def(
            "holds",
            [](const Handle& handle, int64_t token) {
                return handle.table->holds(handle.version, check_token(token));
            },
            nb::arg("token"))
        .def_prop_ro("examples",
                     [](const Handle& handle) { return handle.table->examples(handle.version); })
        .def_prop_ro("n_rows",
                     [](const Handle& handle) { return handle.table->n_rows(handle.version); })
        .def_prop_ro("n_bare",
                     [](const Handle& handle) { return handle.table->n_bare(handle.version); })
        .def_prop_ro("label_stamp",
                     [](const Handle& handle) { return handle.table->label_stamp(handle.version); })
        .def_prop_ro("n_versions", [](const Handle& handle) { return handle.table->versions(); })
        .def_prop_ro("n_pages", [](const Handle& handle) { return handle.table->pages(); })
        .def_prop_ro("nbytes", [](const Handle& handle) { return handle.table->bytes(); });
    nb::class_<LiveMixture>(module, "LiveMixture")
        .def(nb::init<nb::object,
                      Vector<int64_t>,
                      size_t,
                      const Matrix<double>&,
                      const Matrix<double>&,
                      const nb::list&,
                      const Matrix<int64_t>&,
                      uint32_t,
                      uint32_t>(),
             nb::arg("sites"),
             nb::arg("columns").noconvert(),
             nb::arg("n_labels"),
             nb::arg("trust").noconvert(),
             nb::arg("discounts").noconvert(),
             nb::arg("tables"),
             nb::arg("parts").noconvert(),
             nb::arg("most_whole") = 512,
             nb::arg("patience") = 4,
             nb::sig("def __init__(self, sites: LiveVersion, columns: NDArray[np.int64], n_labels: "
                     "int, trust: NDArray[np.float64], "
                     "discounts: NDArray[np.float64], tables: list[tuple[LiveVersion, "
                     "NDArray[np.int64], NDArray[np.int64]]], "
                     "parts: NDArray[np.int64], most_whole: int = 512, patience: int = 4) -> None"))
        .def("leaders",
             &LiveMixture::leaders,
             nb::arg("ranks").noconvert(),
             nb::arg("numbers").noconvert(),
             nb::arg("out").noconvert(),
             nb::arg("scores").noconvert() = nb::none(),
             nb::arg("is_open").noconvert() = nb::none(),
             nb::arg("starts").noconvert() = nb::none(),
             nb::arg("listed").noconvert() = nb::none(),
             nb::arg("lists_allow") = false,
             nb::arg("power") = 0);
    nb::class_<Single>(module, "LiveSingle")
        .def(nb::init<nb::object, const Vector<double>&, double>(),
             nb::arg("version"),
             nb::arg("weights").noconvert(),
             nb::arg("divisor"),
             nb::sig("def __init__(self, version: LiveVersion, weights: NDArray[np.float64], "
                     "divisor: float) -> None"))
        .def("__call__",
             &Single::winner,
             nb::arg("tokens"),
             nb::sig("def __call__(self, tokens: list[int]) -> int"));
}
