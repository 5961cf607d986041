#include "trees.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "../hashes.hpp"

namespace hammemo {
namespace {

// From 0 to below 1, by the highest 53 bits of a word.
double fraction(uint64_t word) {
    return static_cast<double>(word >> 11) * 0x1p-53;
}

struct Split {
    int32_t column = LEAF;
    uint8_t step = 0;
    double score = -1;  // with the share of one row that its hash adds
};

// The rows of a node: their codes in one column, their targets and weights.
struct NodeRows {
    const uint8_t* codes;
    const int32_t* targets;
    const int32_t* weights;
    size_t n;
};

// The codes that occur in a column of a node, ascending.
struct Present {
    std::vector<uint8_t> codes;
    uint8_t places[256];  // of each code among them

    void find(const uint8_t* of_rows, size_t n, size_t low, size_t high) {
        uint8_t occurs[256] = {};
        for (size_t i = 0; i < n; ++i) {
            occurs[of_rows[i]] = 1;
        }
        codes.resize(256);
        size_t n_present = 0;
        for (size_t code = low; code <= high; ++code) {
            codes[n_present] = static_cast<uint8_t>(code);
            places[code] = static_cast<uint8_t>(n_present);
            n_present += occurs[code];  // no branch: no processor can foresee it
        }
        codes.resize(n_present);
    }
};

// The weights of labels on the two sides of a split that moves from right to left: (sum of squared
// weights) / weight is high where a side has few labels. All weights together are below 2^31
// (`grow_checked_tree` checks it), so squares of sums, the sums of squares and what a move adds to
// them,
// (l + w)^2 - l^2 or (r - w)^2 - r^2, are below 2^62.
class LabelSums {
public:
    explicit LabelSums(size_t n_labels) : totals_(n_labels) {}

    // Takes the rows of a node.
    void take(const int32_t* labels, const int32_t* weights, size_t n) {
        std::fill(totals_.begin(), totals_.end(), 0);
        for (size_t i = 0; i < n; ++i) {
            totals_[static_cast<size_t>(labels[i])] += weights[i];
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

    // Puts all rows on the right, and those of each code together: in a table by code and label or,
    // where that would be mostly empty, one by one.
    void group(const NodeRows& rows, const Present& present) {
        if (present.codes.size() * totals_.size() <= rows.n) {
            group_in_table(rows, present);
        } else {
            group_one_by_one(rows, present);
        }
        left_.assign(totals_.size(), 0);
        right_ = totals_;
        left_weight_ = 0;
        right_weight_ = weight_;
        left_squares_ = 0;
        right_squares_ = squares_;
    }
    void move(size_t place, int64_t sign = 1) {
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

    // Puts the rows on the left that go there; without a branch that no processor can foresee.
    template <class GoesLeft>
    void put_left(const NodeRows& rows, GoesLeft goes_left) {
        left_.assign(totals_.size(), 0);
        for (size_t i = 0; i < rows.n; ++i) {
            left_[static_cast<size_t>(rows.targets[i])] +=
                rows.weights[i] & -static_cast<int32_t>(goes_left(rows.codes[i]));
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
    void group_in_table(const NodeRows& rows, const Present& present) {
        const size_t n_codes = present.codes.size();
        const size_t n_labels = totals_.size();
        starts_.resize(n_codes + 1);
        groups_.resize(n_codes * n_labels);
        for (size_t k = 0; k <= n_codes; ++k) {
            starts_[k] = k * n_labels;
        }
        for (size_t k = 0; k < n_codes; ++k) {
            for (size_t label = 0; label < n_labels; ++label) {
                groups_[k * n_labels + label] = {static_cast<int32_t>(label), 0};
            }
        }
        for (size_t i = 0; i < rows.n; ++i) {
            const size_t first = present.places[rows.codes[i]] * n_labels;
            groups_[first + static_cast<size_t>(rows.targets[i])].weight += rows.weights[i];
        }
    }

    // A counting sort by code.
    void group_one_by_one(const NodeRows& rows, const Present& present) {
        const size_t n_codes = present.codes.size();
        starts_.assign(n_codes + 1, 0);
        groups_.resize(rows.n);
        for (size_t i = 0; i < rows.n; ++i) {
            ++starts_[present.places[rows.codes[i]] + size_t{1}];
        }
        for (size_t k = 0; k < n_codes; ++k) {
            starts_[k + 1] += starts_[k];
        }
        // Now starts_[k + 1] is the end of code k. Each code is filled from its end on, so that it
        // becomes its start.
        for (size_t i = rows.n; i-- > 0;) {
            size_t& end = starts_[present.places[rows.codes[i]] + size_t{1}];
            groups_[--end] = {rows.targets[i], rows.weights[i]};
        }
        starts_.erase(starts_.begin());
        starts_.push_back(rows.n);
    }

    struct Group {
        int32_t label, weight;
    };
    std::vector<int64_t> totals_, left_, right_;
    std::vector<Group> groups_;
    std::vector<size_t> starts_;  // of each code among the groups
    int64_t weight_ = 0, squares_ = 0, left_weight_ = 0, right_weight_ = 0, left_squares_ = 0,
            right_squares_ = 0;
};

// Two numbers for each side of a split: a weight, all together below 2^31, and a sum: below 2^31 of
// labels, 2^62 of numbers.
class WeightedSums {
public:
    int64_t weight() const { return weight_; }
    void move(size_t place) {
        left_weight_ += groups_[place].weight;
        left_ += groups_[place].sum;
    }
    void move(size_t place, int64_t sign) {
        left_weight_ += sign * groups_[place].weight;
        left_ += sign * groups_[place].sum;
    }
    bool is_allowed(int64_t least) const {
        return left_weight_ >= least && weight_ - left_weight_ >= least;
    }

protected:
    struct Group {
        int64_t weight, sum;
    };
    // sum_of(i): what row i adds to the sum.
    template <class SumOf>
    void group(const NodeRows& rows, const Present& present, SumOf sum_of) {
        std::fill(groups_, groups_ + present.codes.size(), Group{0, 0});
        for (size_t i = 0; i < rows.n; ++i) {
            Group& group = groups_[present.places[rows.codes[i]]];
            group.weight += rows.weights[i];
            group.sum += sum_of(i);
        }
        left_weight_ = left_ = 0;
    }

    Group groups_[256];
    int64_t weight_ = 0, total_ = 0, left_weight_ = 0, left_ = 0;
};

// Two labels: sums are the weights of label 1, and scores those of `LabelSums`, to the bit.
class TwoLabelSums : public WeightedSums {
public:
    explicit TwoLabelSums(size_t /*n_labels*/) {}

    void take(const int32_t* labels, const int32_t* weights, size_t n) {
        int32_t weight = 0;
        int32_t total = 0;  // all weights together have 31 bits
        for (size_t i = 0; i < n; ++i) {
            weight += weights[i];
            total += weights[i] & -labels[i];
        }
        weight_ = weight;
        total_ = total;
    }
    bool is_pure() const { return total_ == 0 || total_ == weight_; }
    double one_row() const {
        const auto whole = static_cast<double>(weight_);
        return 1 - squares(weight_, total_) / (whole * whole);
    }
    void group(const NodeRows& rows, const Present& present) {
        WeightedSums::group(
            rows, present, [&](size_t i) { return rows.weights[i] & -rows.targets[i]; });
    }
    template <class GoesLeft>
    void put_left(const NodeRows& rows, GoesLeft goes_left) {
        int32_t weight = 0;
        int32_t total = 0;
        for (size_t i = 0; i < rows.n; ++i) {
            const int32_t weight_left =
                rows.weights[i] & -static_cast<int32_t>(goes_left(rows.codes[i]));
            weight += weight_left;
            total += weight_left & -rows.targets[i];
        }
        left_weight_ = weight;
        left_ = total;
    }
    double score() const {
        const int64_t right_weight = weight_ - left_weight_;
        return squares(left_weight_, left_) / static_cast<double>(left_weight_) +
               squares(right_weight, total_ - left_) / static_cast<double>(right_weight);
    }

private:
    static double squares(int64_t weight, int64_t of_one) {
        return static_cast<double>(of_one * of_one + (weight - of_one) * (weight - of_one));
    }
};

// The sums of targets that are numbers: sum * sum / weight, added up over both sides, is what the
// means of the sides take off the squared error. Targets have 31 bits, and all weights together
// have: sums are below 2^62.
class NumberSums : public WeightedSums {
public:
    explicit NumberSums(size_t /*n_labels*/) {}

    void take(const int32_t* targets, const int32_t* weights, size_t n) {
        weight_ = total_ = 0;
        squares_ = 0;
        is_pure_ = true;
        for (size_t i = 0; i < n; ++i) {
            const int64_t weighted = int64_t{weights[i]} * targets[i];
            weight_ += weights[i];
            total_ += weighted;
            const double square = static_cast<double>(weighted) * targets[i];
            squares_ += square;
            is_pure_ &= targets[i] == targets[0];
        }
    }
    bool is_pure() const { return is_pure_; }
    // What one row changes a score by: the variance, from sums in the order of rows.
    double one_row() const {
        const auto whole = static_cast<double>(weight_);
        const double mean = static_cast<double>(total_) / whole;
        const double square = mean * mean;
        return std::max(squares_ / whole - square, 0.0);
    }
    void group(const NodeRows& rows, const Present& present) {
        WeightedSums::group(
            rows, present, [&](size_t i) { return int64_t{rows.weights[i]} * rows.targets[i]; });
    }
    template <class GoesLeft>
    void put_left(const NodeRows& rows, GoesLeft goes_left) {
        left_weight_ = left_ = 0;
        for (size_t i = 0; i < rows.n; ++i) {
            const int64_t weight =
                rows.weights[i] & -static_cast<int32_t>(goes_left(rows.codes[i]));
            left_weight_ += weight;
            left_ += weight * rows.targets[i];
        }
    }
    double score() const {
        const auto left = static_cast<double>(left_);
        const auto right = static_cast<double>(total_ - left_);
        return left * left / static_cast<double>(left_weight_) +
               right * right / static_cast<double>(weight_ - left_weight_);
    }

private:
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
        targets_.reserve(bag_.size());
        weights_.reserve(bag_.size());
        codes_.resize(bag_.size());
        for (int32_t row : bag_) {
            targets_.push_back(rows.targets[row]);
            weights_.push_back(rows.weights[row]);
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
        sums_.take(targets_.data() + node.first, weights_.data() + node.first, n);
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
        const uint8_t* codes = codes_of(column);
        const size_t last = node.last;  // a byte that is written could be a part of `node`, to C++
        for (size_t i = node.first; i < last; ++i) {
            codes_[i] = codes[bag_[i]];
        }
        const NodeRows rows = node_rows(node);
        const auto [low, high] = find_code_range(rows.codes, rows.n);
        if (low == high) {
            return false;
        }
        if (rules_.random_split) {
            const bool is_name = rows_.names[column] != 0;
            try_one(rows, column, is_name ? draw_name(node) : draw_step(low, high), best);
        } else {
            present_.find(rows.codes, rows.n, low, high);
            try_all(rows, column, best);
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

    NodeRows node_rows(const Node& node) const {
        return {codes_.data() + node.first,
                targets_.data() + node.first,
                weights_.data() + node.first,
                node.last - node.first};
    }

    // One split needs no groups.
    void try_one(const NodeRows& rows, size_t column, uint8_t step, Split& best) {
        if (rows_.names[column]) {
            sums_.put_left(rows, [step](uint8_t code) { return code == step; });
        } else {
            sums_.put_left(rows, [step](uint8_t code) { return code <= step; });
        }
        take_better(column, step, best);
    }

    // Tries a split behind every code, or around every name.
    void try_all(const NodeRows& rows, size_t column, Split& best) {
        sums_.group(rows, present_);
        const std::vector<uint8_t>& codes = present_.codes;
        if (rows_.names[column]) {
            for (size_t place = 0; place < codes.size(); ++place) {
                sums_.move(place);
                take_better(column, codes[place], best);
                sums_.move(place, -1);  // back to the right
            }
            return;
        }
        for (size_t place = 0; place + 1 < codes.size(); ++place) {
            sums_.move(place);
            // In the middle of the gap to the next code.
            const int step = codes[place] + (codes[place + 1] - codes[place] - 1) / 2;
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
        const bool is_name = rows_.names[static_cast<size_t>(split.column)] != 0;
        size_t middle = node.first;
        aside_.clear();
        const size_t last = node.last;
        for (size_t i = node.first; i < last; ++i) {
            const uint8_t code = codes[bag_[i]];
            const BagRow row = {bag_[i], targets_[i], weights_[i]};
            if (is_name ? code == split.step : code <= split.step) {
                put_row(middle++, row);
            } else {
                aside_.push_back(row);
            }
        }
        size_t place = middle;
        for (const BagRow& row : aside_) {
            put_row(place++, row);
        }
        return middle;
    }

    struct BagRow {
        int32_t row, target, weight;
    };

    void put_row(size_t place, const BagRow& row) {
        bag_[place] = row.row;
        targets_[place] = row.target;
        weights_[place] = row.weight;
    }

    const GrowingRows& rows_;
    const GrowingRules& rules_;
    std::vector<int32_t> bag_, targets_, weights_;
    std::vector<uint8_t> codes_;
    Present present_;
    std::vector<uint64_t> column_words_;
    std::vector<std::pair<uint64_t, size_t>> order_;  // hashes of the node and the columns
    std::vector<BagRow> aside_;                       // rows of a node that go right
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
