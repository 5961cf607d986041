#include "table.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "scratch.hpp"

namespace hammemo {
namespace {

constexpr size_t ALIGNMENT = 64;
constexpr size_t WIDEST_VECTOR = 64;  // bytes: of AVX-512

// Call work(begin, end) on contiguous parts of [0, m), on as many threads as are asked for and
// worth it.
template <class Work>
void in_parallel(size_t m, unsigned threads, const Work& work) {
    const size_t parts = std::max<size_t>(1, std::min<size_t>(threads, m / 4096));
    if (parts == 1) {
        return work(0, m);
    }
    // A future waits for its thread when it is destroyed, also where something is thrown.
    std::vector<std::future<void>> crew;
    for (size_t p = 1; p < parts; ++p) {
        crew.push_back(
            std::async(std::launch::async, [&, p] { work(m * p / parts, m * (p + 1) / parts); }));
    }
    work(0, m / parts);
    for (auto& part : crew) {
        part.get();
    }
}

std::byte* allocate_aligned(std::vector<std::byte>& bytes, size_t needed) {
    bytes.assign(needed + ALIGNMENT, std::byte{0});
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return bytes.data() + (ALIGNMENT - address % ALIGNMENT) % ALIGNMENT;
}

// Call use(begin, end) with the range of each site's rows.
template <class Use>
void each_site(const LayoutView& layout, const Use& use) {
    for (uint32_t k = 0; k < layout.n_sites; ++k) {
        const size_t last =
            k + 1 < layout.n_sites ? layout.sites[k + 1].first_row : layout.empty_row;
        use(size_t{layout.sites[k].first_row}, last);
    }
}

// A row's number counted from the row's middle. The caller's array may change at any time, so
// nothing is known of it, and the difference wraps around rather than being undefined.
int64_t from_middle(int64_t value, int64_t middle) {
    return static_cast<int64_t>(static_cast<uint64_t>(value) - static_cast<uint64_t>(middle));
}

uint64_t magnitude(int64_t value) {
    return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// What is subtracted from every number of a row: the middle of its range. It is the same for all
// labels, so it changes no comparison, and it halves the numbers. Rows whose sums are divided label
// by label are left as they are.
std::vector<int64_t> row_offsets(const int64_t* values,
                                 size_t rows,
                                 size_t n_labels,
                                 bool divided) {
    std::vector<int64_t> offsets(rows, 0);
    for (size_t row = 0; row < rows; ++row) {
        int64_t low = INT64_MAX;
        int64_t high = INT64_MIN;
        for (size_t c = 0; c < n_labels; ++c) {
            const int64_t value = values[row * n_labels + c];
            low = std::min(low, value);
            high = std::max(high, value);
        }
        if (magnitude(low) > INT32_MAX || magnitude(high) > INT32_MAX) {
            throw std::overflow_error("a score exceeds 32 bits");
        }
        if (!divided) {
            offsets[row] = (low + high) / 2;
        }
    }
    return offsets;
}

double number_at(const void* numbers, Number kind, size_t place) {
    switch (kind) {
        case Number::INT16:
            return static_cast<const int16_t*>(numbers)[place];
        case Number::INT32:
            return static_cast<const int32_t*>(numbers)[place];
        default:
            return static_cast<const double*>(numbers)[place];
    }
}

// The largest absolute value that a sum of one row from each site can reach, also on the way;
// `at(row, c)` is a number of at most 32 bits or the result is above 32 bits. With 2,048 sites at
// most, 64 bits hold it.
template <class At>
uint64_t largest_sum(const LayoutView& layout, size_t n_labels, const At& at) {
    std::vector<uint64_t> totals(n_labels, 0);
    std::vector<uint64_t> largest(n_labels);
    each_site(layout, [&](size_t begin, size_t end) {
        std::fill(largest.begin(), largest.end(), 0);
        for (size_t row = begin; row < end; ++row) {
            for (size_t c = 0; c < n_labels; ++c) {
                largest[c] =
                    std::max(largest[c], std::min(magnitude(at(row, c)), uint64_t{UINT32_MAX}));
            }
        }
        for (size_t c = 0; c < n_labels; ++c) {
            totals[c] += largest[c];
        }
    });
    return *std::max_element(totals.begin(), totals.end());
}

// Whether such sums are finite numbers.
template <class At>
bool are_sums_finite(const LayoutView& layout, size_t n_labels, const At& at) {
    double total = 0;
    each_site(layout, [&](size_t begin, size_t end) {
        double largest = 0;
        for (size_t row = begin; row < end; ++row) {
            for (size_t c = 0; c < n_labels; ++c) {
                const double value = at(row, c);
                if (!std::isfinite(value)) {
                    total = std::numeric_limits<double>::infinity();
                }
                largest = std::max(largest, std::fabs(value));
            }
        }
        total += largest;
    });
    return std::isfinite(total);
}

}  // namespace

Table::Table(std::shared_ptr<const LayoutOwner> layout,
             const int64_t* integers,
             const double* floats,
             uint32_t n_labels,
             std::vector<double> divisor,
             double scale,
             const Loops& loops)
    : layout_(std::move(layout)), divisor_(std::move(divisor)), loops_(loops) {
    if (n_labels == 0 || n_labels > (1U << 24)) {
        throw std::invalid_argument("the number of labels is out of range");
    }
    if (!divisor_.empty() && divisor_.size() != n_labels) {
        throw std::invalid_argument("one divisor a label is needed");
    }
    view_ = {};
    view_.n_labels = n_labels;
    view_.divisor = divisor_.empty() ? nullptr : divisor_.data();
    view_.scale = scale;
    if (floats) {  // an infinite sum would tie with the padding, and one that is no number with
                   // nothing
        view_.row = view_.sum = Number::FLOAT64;
        if (!fill<double>(floats)) {
            throw std::overflow_error("a sum could be infinite");
        }
        return;
    }
    const LayoutView& rows = layout_->view();
    offsets_ = row_offsets(integers, rows.empty_row, n_labels, view_.divisor != nullptr);
    uint64_t widest = 0;
    const uint64_t largest = largest_sum(rows, n_labels, [&](size_t row, size_t c) {
        const int64_t value = from_middle(integers[row * n_labels + c], offsets_[row]);
        widest = std::max(widest, magnitude(value));
        return value;
    });
    if (largest > INT32_MAX) {
        throw std::overflow_error("a sum could exceed 32 bits");
    }
    view_.sum = largest <= INT16_MAX ? Number::INT16 : Number::INT32;
    view_.row = widest <= INT16_MAX ? Number::INT16 : Number::INT32;
    const bool fits =
        view_.row == Number::INT16 ? fill<int16_t>(integers) : fill<int32_t>(integers);
    if (!fits) {
        throw std::overflow_error(
            "a sum could exceed 32 bits: the values changed while the table was made");
    }
}

Table::Table(const Table& before,
             const int64_t* rows,
             size_t n_rows,
             const int64_t* integers,
             const double* floats,
             std::vector<double> divisor)
    : layout_(before.layout_),
      divisor_(std::move(divisor)),
      offsets_(before.offsets_),
      view_(before.view_),
      loops_(before.loops_) {
    if (divisor_.size() != before.divisor_.size()) {
        throw std::invalid_argument("the divisors are of another number");
    }
    if ((view_.row == Number::FLOAT64) != (floats != nullptr)) {
        throw std::invalid_argument("the numbers are of another kind");
    }
    view_.divisor = divisor_.empty() ? nullptr : divisor_.data();
    if (view_.row != Number::FLOAT64) {
        if (view_.row == Number::INT16) {
            replace<int16_t>(before, rows, n_rows, integers);
        } else {
            replace<int32_t>(before, rows, n_rows, integers);
        }
        return;
    }
    auto* values = copy_from<double>(before);
    for (size_t i = 0; i < n_rows; ++i) {
        const auto row = static_cast<uint64_t>(
            load_once(rows + i));  // it was checked, but may have changed since
        if (row >= layout_->view().empty_row) {
            continue;
        }
        std::copy_n(floats + i * view_.n_labels, view_.n_labels, values + row * view_.stride);
    }
    copies_are_private();
    const auto copied_number = [&](size_t row, size_t c) { return values[row * view_.stride + c]; };
    if (!are_sums_finite(layout_->view(), view_.n_labels, copied_number)) {
        throw std::overflow_error("a sum could be infinite");
    }
}

// Copy all numbers of another table, and what its sums start from.
template <class Row>
Row* Table::copy_from(const Table& before) {
    const size_t size = (size_t{layout_->view().empty_row} + 1) * view_.stride * sizeof(Row);
    const size_t base_size = view_.stride * bytes_of(view_.sum);
    std::byte* values = allocate_aligned(bytes_, size);
    std::memcpy(values, before.view_.values, size);
    std::byte* base = allocate_aligned(base_, base_size);
    std::memcpy(base, before.view_.base, base_size);
    view_.values = values;
    view_.base = base;
    return reinterpret_cast<Row*>(values);
}

template <class Row>
void Table::replace(const Table& before,
                    const int64_t* rows,
                    size_t n_rows,
                    const int64_t* numbers) {
    auto* values = copy_from<Row>(before);
    const size_t n_labels = view_.n_labels;
    std::vector<int64_t> one(n_labels);
    for (size_t i = 0; i < n_rows; ++i) {
        const auto row = static_cast<uint64_t>(
            load_once(rows + i));  // it was checked, but may have changed since
        if (row >= layout_->view().empty_row) {
            continue;
        }
        std::copy_n(numbers + i * n_labels, n_labels, one.data());
        copies_are_private();
        const int64_t middle = row_offsets(one.data(), 1, n_labels, view_.divisor != nullptr)[0];
        for (size_t c = 0; c < n_labels; ++c) {
            const int64_t value = from_middle(one[c], middle);
            if (magnitude(value) > static_cast<uint64_t>(std::numeric_limits<Row>::max())) {
                throw std::overflow_error("a row needs a wider type");
            }
            values[row * view_.stride + c] = static_cast<Row>(value);
        }
        offsets_[row] = middle;
    }
    uint64_t widest = 0;
    const uint64_t largest = largest_sum(layout_->view(), n_labels, [&](size_t row, size_t c) {
        const int64_t value = values[row * view_.stride + c];
        widest = std::max(widest, magnitude(value));
        return value;
    });
    const bool same_row = (widest <= INT16_MAX) == (view_.row == Number::INT16);
    const bool same_sum =
        largest <= INT32_MAX && (largest <= INT16_MAX) == (view_.sum == Number::INT16);
    if (!same_row || !same_sum) {
        throw std::overflow_error("the table needs other types");
    }
}

// Copy the caller's numbers, and return whether sums of what was copied fit the type of the sums:
// what was read before may have been something else.
template <class Row, class Input>
bool Table::fill(const Input* numbers) {
    const size_t rows = size_t{layout_->view().empty_row} + 1;
    const size_t n_labels = view_.n_labels;
    offsets_.resize(rows, 0);
    const size_t lanes = WIDEST_VECTOR / bytes_of(view_.sum);
    view_.stride = static_cast<uint32_t>((n_labels + lanes - 1) / lanes * lanes);
    auto* values =
        reinterpret_cast<Row*>(allocate_aligned(bytes_, rows * view_.stride * sizeof(Row)));
    for (size_t row = 0; row + 1 < rows; ++row) {
        for (size_t c = 0; c < n_labels; ++c) {
            if constexpr (std::is_integral_v<Input>) {
                values[row * view_.stride + c] =
                    static_cast<Row>(from_middle(numbers[row * n_labels + c], offsets_[row]));
            } else {
                values[row * view_.stride + c] = numbers[row * n_labels + c];
            }
        }
    }
    copies_are_private();
    view_.values = values;

    const auto start = [&](auto lowest) {  // padding never wins
        using Sum = decltype(lowest);
        auto* base = reinterpret_cast<Sum*>(allocate_aligned(base_, view_.stride * sizeof(Sum)));
        std::fill(base + n_labels, base + view_.stride, lowest);
        view_.base = base;
    };
    if (view_.sum == Number::INT16) {
        start(std::numeric_limits<int16_t>::lowest());
    } else if (view_.sum == Number::INT32) {
        start(std::numeric_limits<int32_t>::lowest());
    } else {
        start(-std::numeric_limits<double>::infinity());
    }

    const auto copied_number = [&](size_t row, size_t c) { return values[row * view_.stride + c]; };
    if constexpr (std::is_integral_v<Input>) {
        return largest_sum(layout_->view(), n_labels, copied_number) <=
               (view_.sum == Number::INT16 ? INT16_MAX : INT32_MAX);
    } else {
        return are_sums_finite(layout_->view(), n_labels, copied_number);
    }
}

void Table::winners(const Source& source, size_t m, unsigned threads, int32_t* out) const {
    in_parallel(m, threads, [&](size_t begin, size_t end) {
        ScratchOwner scratch(layout_->view());
        loops_.winners(layout_->view(), view_, source, begin, end, scratch.view(), out);
    });
}

int32_t Table::winner_of(const Source& source) const {
    int32_t answer = -1;
    ScratchOwner scratch(layout_->view());
    loops_.winners(layout_->view(), view_, source, 0, 1, scratch.view(), &answer);
    return answer;
}

// Turn the sums of one context into scores, as the vote defines them.
void Table::context_scores(const BlockRows& rows, size_t i, void* sums, double* out) const {
    const uint32_t n_sites = layout_->view().n_sites;
    loops_.sums(view_, rows, n_sites, i, sums);
    int64_t offset = 0;
    for (uint32_t k = 0; k < n_sites; ++k) {
        offset += offsets_[rows.rows[i * rows.context_step + k * rows.site_step]];
    }
    for (uint32_t c = 0; c < view_.n_labels; ++c) {
        const double shifted = number_at(sums, view_.sum, c);
        // Exact: whole numbers, or an offset of zero.
        const double sum = shifted + static_cast<double>(offset);
        out[c] = view_.divisor ? sum * view_.scale / view_.divisor[c] : sum * view_.scale;
    }
}

// One of these scores alone.
double Table::context_score(const BlockRows& rows, size_t i, uint32_t column) const {
    double sum = 0;
    for (uint32_t k = 0; k < layout_->view().n_sites; ++k) {
        const size_t row = rows.rows[i * rows.context_step + k * rows.site_step];
        const size_t cell = row * view_.stride + column;
        const double value = number_at(view_.values, view_.row, cell);
        // Whole numbers are exact in any order, others have no offset.
        sum += value + static_cast<double>(offsets_[row]);
    }
    return view_.divisor ? sum * view_.scale / view_.divisor[column] : sum * view_.scale;
}

void Table::prove(const Table& upper,
                  const Source& source,
                  size_t m,
                  unsigned threads,
                  const int32_t* answers,
                  uint8_t* out) const {
    in_parallel(m, threads, [&](size_t begin, size_t end) {
        ScratchOwner scratch(layout_->view());
        std::vector<double> sums(upper.view_.stride);
        std::vector<double> highest(view_.n_labels);
        for (size_t i = begin; i < end; i += BLOCK) {
            const size_t last = std::min(end, i + BLOCK);
            const BlockRows rows = loops_.rows(layout_->view(), source, i, last, scratch.view());
            for (size_t q = i; q < last; ++q) {
                const auto answer = static_cast<uint32_t>(load_once(answers + q));
                out[q] = 0;
                if (answer >= view_.n_labels) {
                    continue;  // it was checked, but another thread may have changed it since
                }
                const double claim = context_score(rows, q - i, answer);
                upper.context_scores(rows, q - i, sums.data(), highest.data());
                bool proven = true;
                for (uint32_t c = 0; c < answer; ++c) {
                    proven &= claim > highest[c];
                }
                for (uint32_t c = answer + 1; c < view_.n_labels; ++c) {
                    proven &= claim >= highest[c];
                }
                out[q] = proven;
            }
        }
    });
}

// Call use(q, scores) for every context; each thread has its own `use`, made by `make_use()`.
template <class MakeUse>
void Table::each(const Source& source, size_t m, unsigned threads, const MakeUse& make_use) const {
    in_parallel(m, threads, [&](size_t begin, size_t end) {
        auto use = make_use();
        ScratchOwner scratch(layout_->view());
        std::vector<double> sums(view_.stride);
        std::vector<double> scores(view_.n_labels);
        for (size_t i = begin; i < end; i += BLOCK) {
            const size_t last = std::min(end, i + BLOCK);
            const BlockRows rows = loops_.rows(layout_->view(), source, i, last, scratch.view());
            for (size_t q = i; q < last; ++q) {
                context_scores(rows, q - i, sums.data(), scores.data());
                use(q, scores.data());
            }
        }
    });
}

void Table::scores(const Source& source, size_t m, unsigned threads, double* out) const {
    each(source, m, threads, [&] {
        return [&](size_t q, const double* scores) {
            std::copy_n(scores, view_.n_labels, out + q * view_.n_labels);
        };
    });
}

void Table::leaders(const Source& source,
                    size_t m,
                    uint32_t k,
                    unsigned threads,
                    int32_t* out) const {
    each(source, m, threads, [&] {
        // `best` is not the caller's array: another thread may change that while its entries are
        // followed.
        return
            [this, k, out, best = std::vector<int32_t>(k)](size_t q, const double* scores) mutable {
                uint32_t n_best = 0;
                // insertion, so equals stay in the order of columns.
                for (uint32_t c = 0; c < view_.n_labels; ++c) {
                    if (n_best == k && !(scores[c] > scores[best[k - 1]])) {
                        continue;
                    }
                    uint32_t place = n_best < k ? n_best++ : k - 1;
                    for (; place > 0 && scores[c] > scores[best[place - 1]]; --place) {
                        best[place] = best[place - 1];
                    }
                    best[place] = static_cast<int32_t>(c);
                }
                std::copy(best.begin(), best.end(), out + q * k);
            };
    });
}

const std::vector<const Loops*>& available_loops() {
    static const std::vector<const Loops*> loops = [] {
        std::vector<const Loops*> runnable;
#ifdef HAMMEMO_X86
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
            runnable.push_back(&avx512_loops);
        }
        if (__builtin_cpu_supports("avx2")) {
            runnable.push_back(&avx2_loops);
        }
#endif
        runnable.push_back(&portable_loops);
        return runnable;
    }();
    return loops;
}

}  // namespace hammemo
