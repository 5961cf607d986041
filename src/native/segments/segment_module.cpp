// What Python sees of segments in files. Everything that comes from outside is checked here, or
// where it is read.
#include "segment_module.hpp"

#include <cmath>
#include <optional>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "../bound_arrays.hpp"
#include "../released.hpp"
#include "packed_rows.hpp"
#include "segment_table.hpp"

namespace nb = nanobind;
using namespace hammemo;
using namespace hammemo::segments;

namespace {

template <class T>
using Output = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutputMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using CountMatrix = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Array = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using MaybeColumns = std::optional<Vector<int32_t>>;

constexpr uint32_t MAX_WORDS = 64;

nb::object list_missing(const std::vector<Missing>& missing) {
    std::vector<int64_t> numbers;
    for (const Missing& one : missing) {
        numbers.insert(numbers.end(), {one.segment, one.first, one.stop});
    }
    return nb::cast(hand_over(std::move(numbers), 3));
}

// A table with the arrays that its segments read.
class Owner {
public:
    Owner(uint32_t h,
          const nb::list& positions,
          uint64_t n_tokens,
          uint64_t n_labels,
          const Vector<int64_t>& firsts,
          const Vector<int64_t>& lasts,
          const Vector<int64_t>& signs)
        : table_(h,
                 copy_positions(h, positions),
                 n_tokens,
                 n_labels,
                 copy_array(firsts),
                 copy_array(lasts),
                 copy_signs(signs)) {
        require(lasts.size() == firsts.size() && signs.size() == firsts.size(),
                "two ends and a sign a segment");
        require(n_tokens < (uint64_t{1} << 31) && n_labels < (uint64_t{1} << 31),
                "there are too many tokens or labels");
    }

    void prepare(size_t number,
                 const std::string& name,
                 uint64_t n_own,
                 const nb::list& records,
                 const nb::list& index,
                 const Vector<uint64_t>& blocks,
                 const Array& entries,
                 const Vector<uint8_t>& widths,
                 const Vector<int32_t>& ranks,
                 const Vector<int32_t>& labels,
                 const std::optional<Vector<uint8_t>>& file,
                 const std::optional<Vector<uint8_t>>& checked) {
        require(number < table_.n_segments(), "there is no such segment");
        require(records.size() == table_.n_sites() && index.size() == records.size() &&
                    blocks.size() == records.size(),
                "records, an index and the size of its blocks for each site");
        require_aligned(ranks);
        require_aligned(labels);
        require_aligned(blocks);
        require(ranks.size() >= table_.n_tokens(), "a rank for each token");
        require(file.has_value() == checked.has_value(),
                "pages of a file are checked, and no others");
        require(entries.dtype() == nb::dtype<uint8_t>() && widths.size() == 2,
                "entries are bytes, of two numbers each");
        auto segment = std::make_unique<Segment>();
        segment->name = name;
        segment->n_own = n_own;
        segment->ranks = ranks.data();
        segment->labels = labels.data();
        segment->n_labels = labels.size();
        segment->checked = checked ? checked->data() : nullptr;
        segment->file = file ? file->data() : nullptr;
        segment->file_bytes = file ? file->size() : 0;
        require(!checked || checked->size() >= (segment->file_bytes + PAGE - 1) / PAGE,
                "a mark for each page");
        segment->label_width = widths.data()[0];
        segment->count_width = widths.data()[1];
        const bool is_packed = !segment->label_width && !segment->count_width;
        for (const uint32_t width : {segment->label_width, segment->count_width}) {
            require(is_packed || width == 1 || width == 2 || width == 4 || width == 8,
                    "numbers have 1, 2, 4 or 8 bytes");
        }
        require(entries.shape(1) == segment->unit(), "entries have the widths that are declared");
        require(!is_packed || entries.shape(0) >= PADDING, "packed rows end with eight bytes more");
        segment->entries = static_cast<const uint8_t*>(entries.data());
        segment->n_entries = entries.shape(0) - (is_packed ? PADDING : 0);
        require_inside(*segment, segment->entries, entries.nbytes());
        std::vector<nb::object> kept{nb::cast(ranks),
                                     nb::cast(labels),
                                     nb::cast(entries),
                                     nb::cast(file),
                                     nb::cast(checked)};
        for (size_t k = 0; k < records.size(); ++k) {
            const auto rows = nb::cast<Array>(records[k]);
            const auto site_index = nb::cast<Array>(index[k]);
            segment->sites.push_back(
                make_records(*segment, rows, site_index, blocks.data()[k], table_.length(k)));
            kept.push_back(nb::cast(rows));
            kept.push_back(nb::cast(site_index));
        }
        kept_.push_back(std::move(kept));
        if (!table_.prepare(number, std::move(segment))) {
            kept_.pop_back();  // another thread was first
        }
    }

    nb::object winners(const Matrix<int64_t>& tokens,
                       const Vector<double>& weights,
                       const nb::list& extras,
                       const MaybeColumns& columns,
                       size_t n_columns,
                       const Vector<double>& divisor,
                       Output<int64_t> out) const {
        const auto own_extras = copy_extras(extras, tokens.shape(0) * table_.n_sites());
        const Columns used_columns = check_question(tokens, weights, columns, n_columns);
        require_aligned(out);
        require_aligned(divisor);
        require(out.size() == tokens.shape(0), "one answer a context");
        require(n_columns >= 1 && (divisor.size() == 1 || divisor.size() == n_columns),
                "one divisor, or one a column");
        std::vector<Missing> missing;
        {
            Released released;
            missing = table_.winners(tokens.data(),
                                     tokens.shape(0),
                                     weights.data(),
                                     own_extras,
                                     used_columns,
                                     divisor.data(),
                                     divisor.size() == 1,
                                     out.data());
        }
        return list_missing(missing);
    }

    nb::object sums(const Matrix<int64_t>& tokens,
                    const Vector<double>& weights,
                    const nb::list& extras,
                    const MaybeColumns& columns,
                    OutputMatrix out) const {
        const auto own_extras = copy_extras(extras, tokens.shape(0) * table_.n_sites());
        const Columns used_columns = check_question(tokens, weights, columns, out.shape(1));
        require_aligned(out);
        require(out.shape(0) == tokens.shape(0), "one row a context");
        std::vector<Missing> missing;
        {
            Released released;
            missing = table_.sums(tokens.data(),
                                  tokens.shape(0),
                                  weights.data(),
                                  own_extras,
                                  used_columns,
                                  out.data());
        }
        return list_missing(missing);
    }

    nb::tuple read(size_t site,
                   const Matrix<int64_t>& tuples,
                   const nb::list& extras,
                   const MaybeColumns& columns,
                   size_t n_columns) const {
        require(site < table_.n_sites() && tuples.shape(1) == table_.length(site),
                "tuples of a site");
        require_aligned(tuples);
        SiteRows rows;
        std::vector<Missing> missing;
        const auto own_extras = copy_extras(extras, tuples.shape(0));
        const Columns used_columns = make_columns(columns, n_columns);
        {
            Released released;
            missing =
                table_.read(site, tuples.data(), tuples.shape(0), own_extras, used_columns, rows);
        }
        return nb::make_tuple(list_missing(missing),
                              hand_over(std::move(rows.lengths)),
                              hand_over(std::move(rows.columns)),
                              hand_over(std::move(rows.counts)));
    }

    nb::object counts(const Matrix<int64_t>& tokens,
                      const Vector<int64_t>& labels,
                      CountMatrix out) const {
        require_aligned(tokens);
        require_aligned(labels);
        require_aligned(out);
        require(tokens.shape(1) == table_.h() && labels.size() == tokens.shape(0),
                "h tokens and one label a context");
        require(out.shape(0) == tokens.shape(0) && out.shape(1) == table_.n_sites(),
                "one count a context and site");
        std::vector<Missing> missing;
        {
            Released released;
            missing = table_.counts(tokens.data(), tokens.shape(0), labels.data(), out.data());
        }
        return list_missing(missing);
    }

private:
    static std::vector<std::vector<uint32_t>> copy_positions(uint32_t h,
                                                             const nb::list& positions) {
        std::vector<std::vector<uint32_t>> site_positions;
        for (nb::handle site : positions) {
            site_positions.emplace_back();
            for (nb::handle position : nb::cast<nb::tuple>(site)) {
                site_positions.back().push_back(nb::cast<uint32_t>(position));
            }
            require(!site_positions.back().empty() && site_positions.back().size() <= h,
                    "a site compares 1 to h positions");
            for (const uint32_t position : site_positions.back()) {
                require(position < h, "a site compares positions of the context");
            }
        }
        return site_positions;
    }
    static std::vector<int64_t> copy_signs(const Vector<int64_t>& signs) {
        auto copies = copy_array(signs);
        for (const int64_t sign : copies) {
            require(sign == 1 || sign == -1, "a segment is added or subtracted");
        }
        return copies;
    }
    static void require_inside(const Segment& segment, const uint8_t* first, size_t bytes) {
        if (!segment.file || !bytes) {
            return;
        }
        const auto place = reinterpret_cast<uintptr_t>(first);
        const auto file = reinterpret_cast<uintptr_t>(segment.file);
        require(place >= file && place - file <= segment.file_bytes &&
                    bytes <= segment.file_bytes - (place - file),
                "an array lies outside its file");
    }
    static Records make_records(const Segment& segment,
                                const Array& rows,
                                const Array& index,
                                uint64_t block,
                                size_t length) {
        const bool wide = rows.dtype() == nb::dtype<uint64_t>();
        require(wide || rows.dtype() == nb::dtype<uint32_t>(),
                "records have numbers of 32 or 64 bits");
        require(index.dtype() == rows.dtype() && rows.shape(0) >= 1 && rows.shape(1) >= 2,
                "records of words and a start");
        require(index.shape(1) == rows.shape(1) - 1 && index.shape(1) <= MAX_WORDS &&
                    index.shape(1) <= length,
                "an index of as many words as the records have, 64 at most");
        const uint64_t n = rows.shape(0) - 1;
        require(block >= 1 && block <= PAGE && index.shape(0) == (n + block - 1) / block,
                "one record of the index a block");
        require_inside(segment, static_cast<const uint8_t*>(rows.data()), rows.nbytes());
        return {static_cast<const uint8_t*>(rows.data()),
                static_cast<const uint8_t*>(index.data()),
                n,
                index.shape(0),
                block,
                uint32_t(index.shape(1)),
                wide};
    }
    Columns make_columns(const MaybeColumns& columns, size_t n_columns) const {
        require(n_columns < (uint64_t{1} << 31), "there are too many columns");
        if (!columns) {
            return {nullptr, n_columns};
        }
        require_aligned(*columns);
        require(columns->size() == table_.n_labels(), "a column for each label");
        return {columns->data(), n_columns};
    }
    Columns check_question(const Matrix<int64_t>& tokens,
                           const Vector<double>& weights,
                           const MaybeColumns& columns,
                           size_t n_columns) const {
        require_aligned(tokens);
        require_aligned(weights);
        require(tokens.shape(1) == table_.h() && weights.size() == table_.n_sites(),
                "h tokens a context, one weight a site");
        return make_columns(columns, n_columns);
    }
    // Starts must not change later: they are copied.
    static std::vector<Extra> copy_extras(const nb::list& extras, size_t n_places) {
        std::vector<Extra> own_extras;
        for (nb::handle item : extras) {
            const auto one = nb::cast<nb::tuple>(item);
            require(one.size() == 3, "starts, columns and counts");
            const auto starts = nb::cast<Vector<int64_t>>(one[0], false);
            const auto columns = nb::cast<Vector<int64_t>>(one[1], false);
            const auto counts = nb::cast<Vector<int64_t>>(one[2], false);
            require_aligned(starts);
            require_aligned(columns);
            require_aligned(counts);
            require(starts.size() == n_places + 1 && columns.size() == counts.size(),
                    "a start a row");
            std::vector<int64_t> copy(starts.data(), starts.data() + starts.size());
            for (size_t i = 0; i < copy.size(); ++i) {
                require(copy[i] >= (i ? copy[i - 1] : 0) && uint64_t(copy[i]) <= counts.size(),
                        "starts ascend, to the end");
            }
            own_extras.push_back({std::move(copy), columns.data(), counts.data()});
        }
        return own_extras;
    }

    SegmentTable table_;
    std::vector<std::vector<nb::object>> kept_;
};

// A row is copied before it is looked at: what the caller's arrays say may change.
void pack_all(const Vector<int64_t>& lengths,
              const Vector<int64_t>& labels,
              const Vector<int64_t>& counts,
              std::vector<uint8_t>& packed,
              std::vector<int64_t>& ends) {
    std::vector<int64_t> row_labels;
    std::vector<int64_t> row_counts;
    size_t first = 0;
    for (size_t r = 0; r < lengths.size(); ++r) {
        const int64_t n = load_once(lengths.data() + r);
        require(
            n >= 1 && uint64_t(n) <= labels.size() - first && uint64_t(n) <= counts.size() - first,
            "entries for each row");
        row_labels.assign(labels.data() + first, labels.data() + first + n);
        row_counts.assign(counts.data() + first, counts.data() + first + n);
        copies_are_private();
        for (int64_t i = 0; i < n; ++i) {
            require(
                row_labels[i] > (i ? row_labels[i - 1] : -1) && row_labels[i] < (int64_t{1} << 55),
                "labels ascend");
            require(row_counts[i] >= 1 && row_counts[i] <= (int64_t{1} << 55),
                    "counts are from 1 to 2^55");
        }
        pack_row(row_labels.data(), row_counts.data(), size_t(n), packed);
        ends.push_back(int64_t(packed.size()));
        first += size_t(n);
    }
}

nb::tuple pack_rows(const Vector<int64_t>& lengths,
                    const Vector<int64_t>& labels,
                    const Vector<int64_t>& counts) {
    require_aligned(lengths);
    require_aligned(labels);
    require_aligned(counts);
    std::vector<uint8_t> packed;
    std::vector<int64_t> ends;
    {
        Released released;
        pack_all(lengths, labels, counts, packed, ends);
    }
    return nb::make_tuple(hand_over(std::move(packed)), hand_over(std::move(ends)));
}
nb::tuple unpack_rows(const Vector<uint8_t>& packed,
                      const Vector<int64_t>& starts,
                      const Vector<int64_t>& stops,
                      uint64_t n_labels) {
    require_aligned(starts);
    require_aligned(stops);
    require(starts.size() == stops.size(), "a start and a stop a row");
    require(packed.size() >= PADDING, "packed rows end with eight bytes more");
    std::vector<int64_t> lengths;
    std::vector<int64_t> labels;
    std::vector<int64_t> counts;
    {
        Released released;
        for (size_t r = 0; r < starts.size(); ++r) {
            const int64_t first = load_once(starts.data() + r);
            const int64_t stop = load_once(stops.data() + r);
            require(first >= 0 && first <= stop && uint64_t(stop) <= packed.size() - PADDING,
                    "a row lies outside");
            const size_t before = labels.size();
            const bool right = first == stop || each_packed(packed.data() + first,
                                                            packed.data() + stop,
                                                            n_labels,
                                                            [&](uint64_t label, uint64_t count) {
                                                                labels.push_back(int64_t(label));
                                                                counts.push_back(int64_t(count));
                                                            });
            require(right, "a packed row cannot be one");
            lengths.push_back(int64_t(labels.size() - before));
        }
    }
    return nb::make_tuple(
        hand_over(std::move(lengths)), hand_over(std::move(labels)), hand_over(std::move(counts)));
}

}  // namespace

void bind_segment_table(nb::module_& module) {
    module.def("pack_rows",
               &pack_rows,
               nb::arg("lengths").noconvert(),
               nb::arg("labels").noconvert(),
               nb::arg("counts").noconvert(),
               nb::sig("def pack_rows(lengths: NDArray[np.int64], labels: NDArray[np.int64], "
                       "counts: NDArray[np.int64]) -> "
                       "tuple[NDArray[np.uint8], NDArray[np.int64]]"));
    module.def(
        "unpack_rows",
        &unpack_rows,
        nb::arg("packed").noconvert(),
        nb::arg("starts").noconvert(),
        nb::arg("stops").noconvert(),
        nb::arg("n_labels"),
        nb::sig(
            "def unpack_rows(packed: NDArray[np.uint8], starts: NDArray[np.int64], stops: "
            "NDArray[np.int64], "
            "n_labels: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]"));
    // NOLINTNEXTLINE(bugprone-unused-raii,bugprone-throw-keyword-missing)
    nb::exception<Damaged>(module, "DamagedError", PyExc_ValueError);
    nb::class_<Owner>(module, "SegmentTable")
        .def(nb::init<uint32_t,
                      const nb::list&,
                      uint64_t,
                      uint64_t,
                      const Vector<int64_t>&,
                      const Vector<int64_t>&,
                      const Vector<int64_t>&>(),
             nb::arg("h"),
             nb::arg("positions"),
             nb::arg("n_tokens"),
             nb::arg("n_labels"),
             nb::arg("firsts").noconvert(),
             nb::arg("lasts").noconvert(),
             nb::arg("signs").noconvert(),
             nb::sig("def __init__(self, h: int, positions: list[tuple[int, ...]], n_tokens: int, "
                     "n_labels: int, "
                     "firsts: NDArray[np.int64], lasts: NDArray[np.int64], signs: "
                     "NDArray[np.int64]) -> None"))
        .def("prepare",
             &Owner::prepare,
             nb::arg("number"),
             nb::arg("name"),
             nb::arg("n_own"),
             nb::arg("records"),
             nb::arg("index"),
             nb::arg("blocks").noconvert(),
             nb::arg("entries").noconvert(),
             nb::arg("widths").noconvert(),
             nb::arg("ranks").noconvert(),
             nb::arg("labels").noconvert(),
             nb::arg("file").noconvert().none(),
             nb::arg("checked").noconvert().none(),
             nb::sig("def prepare(self, number: int, name: str, n_own: int, records: "
                     "list[NDArray[Any]], index: list[NDArray[Any]], "
                     "blocks: NDArray[np.uint64], entries: NDArray[Any], widths: "
                     "NDArray[np.uint8], ranks: NDArray[np.int32], "
                     "labels: NDArray[np.int32], file: NDArray[np.uint8] | None, checked: "
                     "NDArray[np.uint8] | None) -> None"))
        .def("winners",
             &Owner::winners,
             nb::arg("tokens").noconvert(),
             nb::arg("weights").noconvert(),
             nb::arg("extras"),
             nb::arg("columns").noconvert().none(),
             nb::arg("n_columns"),
             nb::arg("divisor").noconvert(),
             nb::arg("out").noconvert(),
             nb::sig(
                 "def winners(self, tokens: NDArray[np.int64], weights: NDArray[np.float64], "
                 "extras: list[Extra], "
                 "columns: NDArray[np.int32] | None, n_columns: int, divisor: NDArray[np.float64], "
                 "out: NDArray[np.int64]) -> NDArray[np.int64]"))
        .def("sums",
             &Owner::sums,
             nb::arg("tokens").noconvert(),
             nb::arg("weights").noconvert(),
             nb::arg("extras"),
             nb::arg("columns").noconvert().none(),
             nb::arg("out").noconvert(),
             nb::sig("def sums(self, tokens: NDArray[np.int64], weights: NDArray[np.float64], "
                     "extras: list[Extra], "
                     "columns: NDArray[np.int32] | None, out: NDArray[np.float64]) -> "
                     "NDArray[np.int64]"))
        .def("read",
             &Owner::read,
             nb::arg("site"),
             nb::arg("tuples").noconvert(),
             nb::arg("extras"),
             nb::arg("columns").noconvert().none(),
             nb::arg("n_columns"),
             nb::sig(
                 "def read(self, site: int, tuples: NDArray[np.int64], extras: list[Extra], "
                 "columns: NDArray[np.int32] | None, n_columns: int) -> tuple[NDArray[np.int64], "
                 "NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]"))
        .def("counts",
             &Owner::counts,
             nb::arg("tokens").noconvert(),
             nb::arg("labels").noconvert(),
             nb::arg("out").noconvert(),
             nb::sig("def counts(self, tokens: NDArray[np.int64], labels: NDArray[np.int64], out: "
                     "NDArray[np.int64]) -> "
                     "NDArray[np.int64]"));
}
