#include "trees.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#ifdef _MSC_VER
#include <intrin.h>
#endif

#include "../hashes.hpp"

namespace hammemo {
namespace {

// From 0 to below 1, by the highest 53 bits of a word.
double fraction(uint64_t word) {
    return static_cast<double>(word >> 11) * 0x1p-53;
}

// The place of the lowest bit of a word that has one.
size_t count_low_zeros(uint64_t bits) {
#ifdef _MSC_VER
    unsigned long place = 0;
    _BitScanForward64(&place, bits);
    return place;
#else
    return static_cast<size_t>(__builtin_ctzll(bits));
#endif
}

struct Split {
    int32_t column = LEAF;
    uint8_t step = 0;
    double score = -1;  // with the share of one row that its hash adds
};

// The rows of a node: their codes in one column, and what sums need of each.
template <class Row>
struct NodeRows {
    const uint8_t* codes;
    const Row* rows;
    size_t n;
};

// Rows up to which their codes are found as bits of four words: most nodes have few rows, and a
// pass over all codes would take longer than one over them.
constexpr size_t FEW_ROWS = 64;

// Writes the codes of few rows, ascending, and returns how many there are.
size_t find_codes_of_few(const uint8_t* of_rows, size_t n, uint8_t* codes) {
    uint64_t words[4] = {};
    for (size_t i = 0; i < n; ++i) {
        words[of_rows[i] / 64] |= uint64_t{1} << (of_rows[i] % 64);
    }
    size_t n_codes = 0;
    for (size_t k = 0; k < 4; ++k) {
        for (uint64_t bits = words[k]; bits != 0; bits &= bits - 1) {
            codes[n_codes++] = static_cast<uint8_t>(64 * k + count_low_zeros(bits));
        }
    }
    return n_codes;
}

// The weights of labels on the two sides of a split that moves from right to left: (sum of squared
// weights) / weight is high where a side has few labels. All weights together are below 2^31
// (`grow_checked_tree` checks it), so squares of sums, the sums of squares and what a move adds to
// them,
// (l + w)^2 - l^2 or (r - w)^2 - r^2, are below 2^62.
class LabelSums {
public:
    struct Row {
        int32_t label, weight;
    };
    static Row make_row(int32_t label, int32_t weight) { return {label, weight}; }

    explicit LabelSums(size_t n_labels) : totals_(n_labels) {}

    // Takes the rows of a node.
    void take(const Row* rows, size_t n) {
        std::fill(totals_.begin(), totals_.end(), 0);
        for (size_t i = 0; i < n; ++i) {
            totals_[static_cast<size_t>(rows[i].label)] += rows[i].weight;
        }
        weight_ = squares_ = 0;
        for (int64_t total : totals_) {
            weight_ += total;
            squares_ += total * total;
        }
    }
    int64_t weight() const { return weight_; }
    bool is_pure() const { return squares_ == weight_ * weight_; }
    // What one row changes a score by: the impurity.
    double one_row() const {
        const auto whole = static_cast<double>(weight_);
        return 1 - static_cast<double>(squares_) / (whole * whole);
    }

    // Puts all rows on the right, and those of each code, which lie from low to high, together: in
    // a table by code and label or, where that would be mostly empty, one by one.
    void group(const NodeRows<Row>& rows, size_t low, size_t high) {
        find_codes(rows, low, high);
        for (size_t place = 0; place < n_codes_; ++place) {
            places_[codes_[place]] = static_cast<uint8_t>(place);
        }
        if (n_codes_ * totals_.size() <= rows.n) {
            group_in_table(rows);
        } else {
            group_one_by_one(rows);
        }
        left_.assign(totals_.size(), 0);
        right_ = totals_;
        left_weight_ = 0;
        right_weight_ = weight_;
        left_squares_ = 0;
        right_squares_ = squares_;
    }
    size_t n_codes() const { return n_codes_; }
    uint8_t code(size_t place) const { return codes_[place]; }
    void move(size_t place) { move_rows(place, 1); }
    void move_back(size_t place) { move_rows(place, -1); }

    // Puts the rows on the left that go there; without a branch that no processor can foresee.
    template <class GoesLeft>
    void put_left(const NodeRows<Row>& rows, GoesLeft goes_left) {
        left_.assign(totals_.size(), 0);
        for (size_t i = 0; i < rows.n; ++i) {
            left_[static_cast<size_t>(rows.rows[i].label)] +=
                rows.rows[i].weight & -static_cast<int32_t>(goes_left(rows.codes[i]));
        }
        left_weight_ = left_squares_ = right_squares_ = 0;
        for (size_t label = 0; label < totals_.size(); ++label) {
            const int64_t left = left_[label];
            const int64_t right = totals_[label] - left;
            left_weight_ += left;
            left_squares_ += left * left;
            right_squares_ += right * right;
        }
        right_weight_ = weight_ - left_weight_;
    }
    bool is_allowed(int64_t least) const { return left_weight_ >= least && right_weight_ >= least; }
    double score() const {
        return static_cast<double>(left_squares_) / static_cast<double>(left_weight_) +
               static_cast<double>(right_squares_) / static_cast<double>(right_weight_);
    }

private:
    void move_rows(size_t place, int64_t sign) {
        for (size_t i = starts_[place]; i < starts_[place + 1]; ++i) {
            const auto label = static_cast<size_t>(groups_[i].label);
            const int64_t weight = sign * groups_[i].weight;
            left_squares_ += weight * (2 * left_[label] + weight);
            right_squares_ += weight * (weight - 2 * right_[label]);
            left_[label] += weight;
            right_[label] -= weight;
            left_weight_ += weight;
            right_weight_ -= weight;
        }
    }

    void find_codes(const NodeRows<Row>& rows, size_t low, size_t high) {
        if (rows.n <= FEW_ROWS) {
            n_codes_ = find_codes_of_few(rows.codes, rows.n, codes_);
            return;
        }
        uint8_t occurs[256] = {};
        for (size_t i = 0; i < rows.n; ++i) {
            occurs[rows.codes[i]] = 1;
        }
        n_codes_ = 0;
        for (size_t code = low; code <= high; ++code) {
            codes_[n_codes_] = static_cast<uint8_t>(code);
            n_codes_ += occurs[code];  // no branch: no processor can foresee it
        }
    }

    void group_in_table(const NodeRows<Row>& rows) {
        const size_t n_labels = totals_.size();
        starts_.resize(n_codes_ + 1);
        groups_.resize(n_codes_ * n_labels);
        for (size_t k = 0; k <= n_codes_; ++k) {
            starts_[k] = k * n_labels;
        }
        for (size_t k = 0; k < n_codes_; ++k) {
            for (size_t label = 0; label < n_labels; ++label) {
                groups_[k * n_labels + label] = {static_cast<int32_t>(label), 0};
            }
        }
        for (size_t i = 0; i < rows.n; ++i) {
            const size_t first = places_[rows.codes[i]] * n_labels;
            groups_[first + static_cast<size_t>(rows.rows[i].label)].weight += rows.rows[i].weight;
        }
    }

    // A counting sort by code.
    void group_one_by_one(const NodeRows<Row>& rows) {
        starts_.assign(n_codes_ + 1, 0);
        groups_.resize(rows.n);
        for (size_t i = 0; i < rows.n; ++i) {
            ++starts_[places_[rows.codes[i]] + size_t{1}];
        }
        for (size_t k = 0; k < n_codes_; ++k) {
            starts_[k + 1] += starts_[k];
        }
        // Now starts_[k + 1] is the end of code k. Each code is filled from its end on, so that it
        // becomes its start.
        for (size_t i = rows.n; i-- > 0;) {
            size_t& end = starts_[places_[rows.codes[i]] + size_t{1}];
            groups_[--end] = rows.rows[i];
        }
        starts_.erase(starts_.begin());
        starts_.push_back(rows.n);
    }

    std::vector<int64_t> totals_, left_, right_;
    uint8_t codes_[256];  // that occur, ascending
    size_t n_codes_ = 0;
    uint8_t places_[256];         // of each code among them
    std::vector<Row> groups_;     // code by code
    std::vector<size_t> starts_;  // of each code among the groups
    int64_t weight_ = 0, squares_ = 0, left_weight_ = 0, right_weight_ = 0, left_squares_ = 0,
            right_squares_ = 0;
};

// The weight of rows, and the sum of their targets: below 2^31 and 2^62.
struct WeightedSum {
    int64_t weight = 0, sum = 0;
};

// Every row has a weight.
bool has_rows(const WeightedSum& sum) {
    return sum.weight != 0;
}
bool has_rows(uint64_t word) {
    return word != 0;
}

// The sums of the rows of each code, in a table by code.
template <class Sum>
class CodeSums {
public:
    // Sums up rows, whose codes lie from low to high. add(sum, row) adds a row.
    template <class Row, class Add>
    void group(const NodeRows<Row>& rows, size_t low, size_t high, Add add) {
        if (rows.n <= FEW_ROWS) {
            n_codes_ = find_codes_of_few(rows.codes, rows.n, codes_);
            for (size_t place = 0; place < n_codes_; ++place) {
                sums_[codes_[place]] = Sum{};
            }
            add_rows(rows, add);
            return;
        }
        std::fill(sums_ + low, sums_ + high + 1, Sum{});
        add_rows(rows, add);
        n_codes_ = 0;
        for (size_t code = low; code <= high; ++code) {
            codes_[n_codes_] = static_cast<uint8_t>(code);
            n_codes_ += has_rows(sums_[code]);  // no branch: no processor can foresee it
        }
    }
    size_t n_codes() const { return n_codes_; }
    uint8_t code(size_t place) const { return codes_[place]; }
    const Sum& at(size_t place) const { return sums_[codes_[place]]; }

private:
    template <class Row, class Add>
    void add_rows(const NodeRows<Row>& rows, Add add) {
        for (size_t i = 0; i < rows.n; ++i) {
            add(sums_[rows.codes[i]], rows.rows[i]);
        }
    }

    Sum sums_[256];
    uint8_t codes_[256];  // that occur, ascending
    size_t n_codes_ = 0;
};

// Two labels. A word holds the weight of rows in its lower half and the weight of those with label
// 1 in its upper half: both are below 2^31, so words of rows add up side by side. Scores are those
// of `LabelSums`, to the bit.
class TwoLabelSums {
public:
    using Row = uint64_t;
    static Row make_row(int32_t label, int32_t weight) {
        const auto word = static_cast<uint64_t>(weight);
        return word | (label ? word << 32 : 0);
    }

    explicit TwoLabelSums(size_t /*n_labels*/) {}

    void take(const Row* rows, size_t n) {
        whole_ = 0;
        for (size_t i = 0; i < n; ++i) {
            whole_ += rows[i];
        }
    }
    int64_t weight() const { return weight_of(whole_); }
    bool is_pure() const { return of_one(whole_) == 0 || of_one(whole_) == weight_of(whole_); }
    double one_row() const {
        const auto weight = static_cast<double>(weight_of(whole_));
        return 1 - squares(whole_) / (weight * weight);
    }
    void group(const NodeRows<Row>& rows, size_t low, size_t high) {
        codes_.group(rows, low, high, [](Row& sum, Row row) { sum += row; });
        left_ = 0;
    }
    size_t n_codes() const { return codes_.n_codes(); }
    uint8_t code(size_t place) const { return codes_.code(place); }
    void move(size_t place) { left_ += codes_.at(place); }
    void move_back(size_t place) { left_ -= codes_.at(place); }

    template <class GoesLeft>
    void put_left(const NodeRows<Row>& rows, GoesLeft goes_left) {
        uint64_t left = 0;
        for (size_t i = 0; i < rows.n; ++i) {
            left += rows.rows[i] & -static_cast<uint64_t>(goes_left(rows.codes[i]));
        }
        left_ = left;
    }
    bool is_allowed(int64_t least) const {
        return weight_of(left_) >= least && weight_of(whole_ - left_) >= least;
    }
    double score() const {
        const uint64_t right = whole_ - left_;
        return squares(left_) / static_cast<double>(weight_of(left_)) +
               squares(right) / static_cast<double>(weight_of(right));
    }

private:
    static int64_t weight_of(uint64_t word) { return static_cast<int64_t>(word & 0xFFFFFFFF); }
    static int64_t of_one(uint64_t word) { return static_cast<int64_t>(word >> 32); }
    static double squares(uint64_t word) {
        const int64_t one = of_one(word);
        const int64_t other = weight_of(word) - one;
        return static_cast<double>(one * one + other * other);
    }

    CodeSums<uint64_t> codes_;
    uint64_t whole_ = 0, left_ = 0;
};

// The sums of targets that are numbers: sum * sum / weight, added up over both sides, is what the
// means of the sides take off the squared error. Targets have 31 bits, and all weights together
// have: sums are below 2^62.
class NumberSums {
public:
    struct Row {
        int32_t target, weight;
    };
    static Row make_row(int32_t target, int32_t weight) { return {target, weight}; }

    explicit NumberSums(size_t /*n_labels*/) {}

    void take(const Row* rows, size_t n) {
        whole_ = WeightedSum{};
        squares_ = 0;
        is_pure_ = true;
        for (size_t i = 0; i < n; ++i) {
            const int64_t weighted = int64_t{rows[i].weight} * rows[i].target;
            whole_.weight += rows[i].weight;
            whole_.sum += weighted;
            const double square = static_cast<double>(weighted) * rows[i].target;
            squares_ += square;
            is_pure_ &= rows[i].target == rows[0].target;
        }
    }
    int64_t weight() const { return whole_.weight; }
    bool is_pure() const { return is_pure_; }
    // What one row changes a score by: the variance, from sums in the order of rows.
    double one_row() const {
        const auto whole = static_cast<double>(whole_.weight);
        const double mean = static_cast<double>(whole_.sum) / whole;
        const double square = mean * mean;
        return std::max(squares_ / whole - square, 0.0);
    }
    void group(const NodeRows<Row>& rows, size_t low, size_t high) {
        codes_.group(rows, low, high, [](WeightedSum& sum, const Row& row) {
            sum.weight += row.weight;
            sum.sum += int64_t{row.weight} * row.target;
        });
        left_ = WeightedSum{};
    }
    size_t n_codes() const { return codes_.n_codes(); }
    uint8_t code(size_t place) const { return codes_.code(place); }
    void move(size_t place) {
        left_.weight += codes_.at(place).weight;
        left_.sum += codes_.at(place).sum;
    }
    void move_back(size_t place) {
        left_.weight -= codes_.at(place).weight;
        left_.sum -= codes_.at(place).sum;
    }
    template <class GoesLeft>
    void put_left(const NodeRows<Row>& rows, GoesLeft goes_left) {
        left_ = WeightedSum{};
        for (size_t i = 0; i < rows.n; ++i) {
            const int64_t weight =
                rows.rows[i].weight & -static_cast<int32_t>(goes_left(rows.codes[i]));
            left_.weight += weight;
            left_.sum += weight * rows.rows[i].target;
        }
    }
    bool is_allowed(int64_t least) const {
        return left_.weight >= least && whole_.weight - left_.weight >= least;
    }
    double score() const {
        const auto left = static_cast<double>(left_.sum);
        const auto right = static_cast<double>(whole_.sum - left_.sum);
        return left * left / static_cast<double>(left_.weight) +
               right * right / static_cast<double>(whole_.weight - left_.weight);
    }

private:
    CodeSums<WeightedSum> codes_;
    WeightedSum whole_, left_;
    double squares_ = 0;
    bool is_pure_ = true;
};

// `Sums` are what splits are judged by: `LabelSums`, `TwoLabelSums` or `NumberSums`.
template <class Sums>
class Grower {
public:
    Grower(const GrowingRows& rows, std::vector<int32_t> bag, const GrowingRules& rules)
        : rows_(rows),
          rules_(rules),
          bag_(std::move(bag)),
          order_(rows.n_columns),
          sums_(rows.n_labels) {
        bag_rows_.reserve(bag_.size());
        codes_.resize(bag_.size());
        aside_bag_.resize(bag_.size());
        aside_rows_.resize(bag_.size());
        for (int32_t row : bag_) {
            bag_rows_.push_back(Sums::make_row(rows.targets[row], rows.weights[row]));
        }
        for (size_t j = 0; j < rows.n_columns; ++j) {
            column_words_.push_back(mix(GOLDEN_STEP * (j + 3)));
        }
    }

    // Splits nodes from the root on. Left children are taken first, so that the nodes stand in the
    // tree as a walk from left to right meets them: a left child follows its parent.
    Tree grow() {
        std::vector<Node> open = {{0, bag_.size(), NO_PARENT, rules_.seed}};
        while (!open.empty()) {
            const Node node = open.back();
            open.pop_back();
            const size_t number = tree_.size();
            if (node.parent != NO_PARENT) {
                tree_.right[node.parent] = static_cast<int32_t>(number);
            }
            const Split split = find_best_split(node);
            tree_.column.push_back(split.column);
            tree_.step.push_back(split.step);
            tree_.right.push_back(0);
            tree_.weight.push_back(sums_.weight());
            if (split.column == LEAF) {
                continue;
            }
            const size_t middle = part_rows(node, split);
            const uint64_t left_path = mix(node.path + GOLDEN_STEP);
            const uint64_t right_path = mix(node.path + 2 * GOLDEN_STEP);
            open.push_back({middle, node.last, number, right_path});
            open.push_back({node.first, middle, NO_PARENT, left_path});
        }
        return std::move(tree_);
    }

private:
    using Row = typename Sums::Row;

    static constexpr auto LATER = std::greater<std::pair<uint64_t, size_t>>();
    static constexpr size_t NO_PARENT = SIZE_MAX;

    // A node that is not split yet: its rows are bag_[first] to bag_[last - 1].
    struct Node {
        size_t first, last;
        size_t parent;  // whose right child it is; NO_PARENT for others
        uint64_t path;  // a hash of the turns from the root
    };

    const uint8_t* codes_of(size_t column) const { return rows_.codes + column * rows_.n_rows; }

    // The best split of a node by the columns that it draws; `LEAF` where there is none.
    Split find_best_split(const Node& node) {
        const size_t n = node.last - node.first;
        sums_.take(bag_rows_.data() + node.first, n);
        Split best;
        if (sums_.weight() < 2 * rules_.min_weight || sums_.is_pure()) {
            return best;
        }
        one_row_ = sums_.one_row();
        order_columns(node.path);
        size_t n_tried = 0;
        for (size_t n_left = order_.size(); n_left > 0 && n_tried < rules_.max_columns; --n_left) {
            n_tried += try_column(node, take_column(n_left), best);
        }
        return best;
    }

    // Columns come in the order of their hashes at this node: a heap of them where only some are
    // drawn; else their order makes no difference but to ties.
    void order_columns(uint64_t path) {
        for (size_t j = 0; j < order_.size(); ++j) {
            order_[j] = {mix(path ^ column_words_[j]), j};
        }
        if (rules_.max_columns < order_.size()) {
            std::make_heap(order_.begin(), order_.end(), LATER);
        }
    }

    // The next column, and its hash, of those that are left.
    std::pair<uint64_t, size_t> take_column(size_t n_left) {
        if (rules_.max_columns < order_.size()) {
            const auto end = order_.begin() + static_cast<ptrdiff_t>(n_left);
            std::pop_heap(order_.begin(), end, LATER);
        }
        return order_[n_left - 1];
    }

    // Tries splits of a node in one column; returns false where all its rows have one code.
    bool try_column(const Node& node, const std::pair<uint64_t, size_t>& drawn, Split& best) {
        const auto [key, column] = drawn;
        key_ = key;
        const NodeRows<Row> rows = read_codes(node, codes_of(column));
        const auto [low, high] = find_code_range(rows.codes, rows.n);
        if (low == high) {
            return false;
        }
        if (rules_.random_split) {
            const bool is_name = rows_.names[column] != 0;
            try_one(rows, column, is_name ? draw_name(node) : draw_step(low, high), best);
        } else {
            sums_.group(rows, low, high);
            try_all(column, best);
        }
        return true;
    }

    static std::pair<uint8_t, uint8_t> find_code_range(const uint8_t* codes, size_t n) {
        uint8_t low = 255;
        uint8_t high = 0;
        for (size_t i = 0; i < n; ++i) {
            low = std::min(low, codes[i]);
            high = std::max(high, codes[i]);
        }
        return {low, high};
    }

    // The name of the first row whose hash is not below a random word: one row that comes or goes
    // rarely changes it.
    uint8_t draw_name(const Node& node) const {
        const auto begin = bag_.begin() + static_cast<ptrdiff_t>(node.first);
        const auto end = bag_.begin() + static_cast<ptrdiff_t>(node.last);
        const auto is_below = [this](int32_t row, uint64_t word) {
            return rows_.words[row] < word;
        };
        const auto row = std::lower_bound(begin, end, mix(key_), is_below);
        return codes_[node.first + static_cast<size_t>(row == end ? 0 : row - begin)];
    }

    // The first of a sequence of random bytes that lies inside: it stays where an end moves a
    // little.
    uint8_t draw_step(uint8_t low, uint8_t high) const {
        for (uint64_t word = key_;;) {
            word += GOLDEN_STEP;
            uint64_t bytes = mix(word);
            for (int i = 0; i < 8; ++i) {
                if (const auto step = static_cast<uint8_t>(bytes); step >= low && step < high) {
                    return step;
                }
                bytes >>= 8;
            }
        }
    }

    // The rows of a node with their codes in one column.
    NodeRows<Row> read_codes(const Node& node, const uint8_t* codes) {
        // Locals: to C++, a byte that is written could be a part of any object.
        const size_t n = node.last - node.first;
        const int32_t* bag = bag_.data() + node.first;
        uint8_t* out = codes_.data() + node.first;
        for (size_t i = 0; i < n; ++i) {
            out[i] = codes[bag[i]];
        }
        return {out, bag_rows_.data() + node.first, n};
    }

    // One split needs no groups.
    void try_one(const NodeRows<Row>& rows, size_t column, uint8_t step, Split& best) {
        if (rows_.names[column]) {
            sums_.put_left(rows, [step](uint8_t code) { return code == step; });
        } else {
            sums_.put_left(rows, [step](uint8_t code) { return code <= step; });
        }
        take_better(column, step, best);
    }

    // Tries a split behind every code, or around every name, of rows that are grouped.
    void try_all(size_t column, Split& best) {
        const size_t n_codes = sums_.n_codes();
        if (rows_.names[column]) {
            for (size_t place = 0; place < n_codes; ++place) {
                sums_.move(place);
                take_better(column, sums_.code(place), best);
                sums_.move_back(place);
            }
            return;
        }
        for (size_t place = 0; place + 1 < n_codes; ++place) {
            sums_.move(place);
            // In the middle of the gap to the next code.
            const int code = sums_.code(place);
            const int step = code + (sums_.code(place + 1) - code - 1) / 2;
            take_better(column, static_cast<uint8_t>(step), best);
        }
    }

    // A row that comes or goes changes a score by about `one_row`. A hash adds up to that much, so
    // that the best of near-equal splits is a matter of the hash, not of the row.
    void take_better(size_t column, uint8_t step, Split& best) const {
        if (!sums_.is_allowed(rules_.min_weight)) {
            return;
        }
        const double plain = sums_.score();
        if (plain + one_row_ <= best.score) {
            return;
        }
        const double added = one_row_ * fraction(mix(key_ ^ GOLDEN_STEP * (step + 1)));
        if (plain + added > best.score) {
            best = {static_cast<int32_t>(column), step, plain + added};
        }
    }

    // Puts the rows that go left first; returns where the others begin. The order of rows on each
    // side stays.
    size_t part_rows(const Node& node, const Split& split) {
        const uint8_t* codes = codes_of(static_cast<size_t>(split.column));
        const uint8_t step = split.step;
        if (rows_.names[static_cast<size_t>(split.column)]) {
            return part_rows_if(node, codes, [step](uint8_t code) { return code == step; });
        }
        return part_rows_if(node, codes, [step](uint8_t code) { return code <= step; });
    }

    // Each row is written to both sides and counted on one of them: no processor can foresee a
    // branch.
    template <class GoesLeft>
    size_t part_rows_if(const Node& node, const uint8_t* codes, GoesLeft goes_left) {
        int32_t* bag = bag_.data();
        Row* rows = bag_rows_.data();
        size_t middle = node.first;
        size_t n_right = 0;
        for (size_t i = node.first; i < node.last; ++i) {
            const int32_t number = bag[i];
            const Row row = rows[i];
            bag[middle] = number;
            rows[middle] = row;
            aside_bag_[n_right] = number;
            aside_rows_[n_right] = row;
            const bool is_left = goes_left(codes[number]);
            middle += is_left;
            n_right += !is_left;
        }
        std::copy_n(aside_bag_.data(), n_right, bag + middle);
        std::copy_n(aside_rows_.data(), n_right, rows + middle);
        return middle;
    }

    const GrowingRows& rows_;
    const GrowingRules& rules_;
    std::vector<int32_t> bag_;    // the numbers of rows, node by node
    std::vector<Row> bag_rows_;   // the same rows
    std::vector<uint8_t> codes_;  // of the rows of a node in one column
    std::vector<uint64_t> column_words_;
    std::vector<std::pair<uint64_t, size_t>> order_;  // hashes of the node and the columns
    std::vector<int32_t> aside_bag_;                  // rows of a node that go right
    std::vector<Row> aside_rows_;
    Sums sums_;
    double one_row_ = 0;  // what one row changes a score by
    uint64_t key_ = 0;    // of the node and the column
    Tree tree_;
};

}  // namespace

void draw_copies(const uint64_t* words,
                 const int64_t* counts,
                 size_t n,
                 uint64_t tree,
                 int64_t* out) {
    constexpr double SHARE = 0.632;
    constexpr int64_t DRAWN_COPIES = 32;
    constexpr auto LIMIT = static_cast<uint64_t>(SHARE * (1 << 24));
    const uint64_t of_tree = (tree + 1) * GOLDEN_STEP;
    for (size_t i = 0; i < n; ++i) {
        out[i] = static_cast<int64_t>(
            static_cast<double>(std::max<int64_t>(counts[i] - DRAWN_COPIES, 0)) * SHARE);
        for (int64_t copy = 0; copy < std::min(counts[i], DRAWN_COPIES); ++copy) {
            const uint64_t word = copy ? mix(words[i] + static_cast<uint64_t>(copy)) : words[i];
            out[i] += mix(word + of_tree) >> 40 < LIMIT;
        }
    }
}

Tree grow_tree(const GrowingRows& rows, std::vector<int32_t> bag, const GrowingRules& rules) {
    if (rows.n_labels == 0) {
        return Grower<NumberSums>(rows, std::move(bag), rules).grow();
    }
    if (rows.n_labels <= 2) {
        return Grower<TwoLabelSums>(rows, std::move(bag), rules).grow();
    }
    return Grower<LabelSums>(rows, std::move(bag), rules).grow();
}

WalkedForest::WalkedForest(const Forest& forest)
    : starts_(forest.starts, forest.starts + forest.n_trees + 1), n_columns_(forest.n_columns) {
    nodes_.reserve(static_cast<size_t>(starts_.back()));
    for (size_t tree = 0; tree < forest.n_trees; ++tree) {
        for (int64_t i = starts_[tree]; i < starts_[tree + 1]; ++i) {
            const auto node = static_cast<size_t>(i);
            if (forest.column[node] == LEAF) {
                nodes_.push_back({0, static_cast<int32_t>(i - starts_[tree]), -1, 0});
                continue;
            }
            const bool is_name = forest.names[static_cast<size_t>(forest.column[node])] != 0;
            const uint8_t step = forest.step[node];
            nodes_.push_back({forest.column[node],
                              forest.right[node],
                              static_cast<int16_t>(is_name ? 0 : step),
                              is_name ? step : uint8_t{0}});
        }
    }
}

void find_leaves(const WalkedForest& forest, const uint8_t* codes, size_t n_rows, int32_t* leaves) {
    // Rows whose codes stay in the cache while all trees look at them.
    constexpr size_t BLOCK = 256;
    for (size_t begin = 0; begin < n_rows; begin += BLOCK) {
        const size_t n = std::min(n_rows - begin, BLOCK);
        const size_t n_trees = forest.n_trees();
        int32_t* out = leaves + begin * n_trees;
        for (size_t tree = 0; tree < n_trees; ++tree) {
            forest.walk(tree, codes + begin * forest.n_columns(), n, [=](size_t row, int32_t leaf) {
                out[row * n_trees + tree] = leaf;
            });
        }
    }
}

void find_cells(const WalkedForest& forest,
                const uint8_t* levels,
                size_t n_levels,
                ForestCells out) {
    for (size_t tree = 0; tree < forest.n_trees(); ++tree) {
        const auto first = static_cast<size_t>(forest.start(tree));
        const auto last = static_cast<size_t>(forest.start(tree + 1));
        std::vector<int32_t> n_cells(n_levels);
        out.parents[first] = forest.start(tree);
        // A parent comes before its children, so its cell is known.
        for (size_t node = first; node < last; ++node) {
            if (!forest.is_leaf(node)) {
                out.parents[node + 1] = static_cast<int64_t>(node);
                out.parents[first + static_cast<size_t>(forest.right(node))] =
                    static_cast<int64_t>(node);
            }
            for (size_t k = 0; k < n_levels; ++k) {
                int64_t* nodes = out.nodes + k * forest.n_nodes();
                int32_t* numbers = out.numbers + k * forest.n_nodes();
                if (node == first || levels[node] > k) {
                    nodes[node] = static_cast<int64_t>(node);
                    numbers[node] = n_cells[k]++;
                } else {
                    nodes[node] = nodes[out.parents[node]];
                    numbers[node] = numbers[out.parents[node]];
                }
            }
        }
    }
}

void add_leaves(const WalkedForest& forest,
                const int32_t* cells,
                size_t n_levels,
                const int64_t* values,
                size_t width,
                int64_t* out) {
    for (size_t k = 0; k < n_levels; ++k) {
        for (size_t node = 0; node < forest.n_nodes(); ++node) {
            if (!forest.is_leaf(node)) {
                continue;
            }
            int64_t* sums = out + static_cast<size_t>(cells[k * forest.n_nodes() + node]) * width;
            for (size_t j = 0; j < width; ++j) {
                sums[j] += values[node * width + j];
            }
        }
    }
}

void count_labels(const int32_t* leaves,
                  const int32_t* labels,
                  const int64_t* weights,
                  size_t n_rows,
                  size_t n_trees,
                  size_t n_labels,
                  int64_t* counts) {
    for (size_t row = 0; row < n_rows; ++row) {
        for (size_t tree = 0; tree < n_trees; ++tree) {
            const auto leaf = static_cast<size_t>(leaves[row * n_trees + tree]);
            counts[leaf * n_labels + static_cast<size_t>(labels[row])] += weights[row];
        }
    }
}

}  // namespace hammemo
