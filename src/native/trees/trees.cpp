#include "trees.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace hammemo {
namespace {

constexpr uint64_t GOLDEN = 0x9E3779B97F4A7C15u;

// The finalizer of splitmix64.
uint64_t mixed(uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

// From 0 to below 1, by the highest 53 bits of a word.
double fraction(uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

struct Split {
    int32_t column = LEAF;
    uint8_t step = 0;
    double score = -1;  // with the share of one row that its hash adds
};

// Some of the rows that a node holds: all of them, or those with one code.
struct Group {
    uint8_t code;
    int32_t target;  // a label; 0 where targets are numbers
    int64_t weight, sum;
};

// The weights of labels on the two sides of a split that moves from right to left: (sum of squared weights) / weight is high
// where a side has few labels.
class LabelSums {
   public:
    explicit LabelSums(size_t n_labels) : totals_(n_labels) {}

    // Takes the rows of a node.
    void take(const int32_t* labels, const int32_t* weights, size_t n) {
        std::fill(totals_.begin(), totals_.end(), 0);
        for (size_t i = 0; i < n; ++i) totals_[static_cast<size_t>(labels[i])] += weights[i];
        weight_ = squares_ = 0;
        for (int64_t total : totals_) weight_ += total, squares_ += total * total;
    }
    int64_t weight() const { return weight_; }
    bool is_pure() const { return squares_ == weight_ * weight_; }
    // What one row changes a score by: the impurity.
    double one_row() const {
        const auto whole = static_cast<double>(weight_);
        return 1 - static_cast<double>(squares_) / (whole * whole);
    }
    size_t n_bins() const { return totals_.size(); }
    static Group group(uint8_t code, int32_t label, int32_t weight) { return {code, label, weight, 0}; }

    // Adds the groups of a node whose codes begin at `low`, from a table by code and label.
    void add_groups(const uint8_t* codes, const int32_t* labels, const int32_t* weights, size_t n, uint8_t low, size_t bins,
                    std::vector<Group>& groups) {
        const size_t width = totals_.size();
        by_code_.assign(bins * width, 0);
        for (size_t i = 0; i < n; ++i)
            by_code_[static_cast<size_t>(codes[i] - low) * width + static_cast<size_t>(labels[i])] += weights[i];
        for (size_t bin = 0; bin < bins; ++bin)
            for (size_t label = 0; label < width; ++label)
                if (const int64_t weight = by_code_[bin * width + label])
                    groups.push_back({static_cast<uint8_t>(low + bin), static_cast<int32_t>(label), weight, 0});
    }
    // Puts the rows on the left that go there; without a branch that no processor can foresee.
    template <class GoesLeft>
    void put_left(const int32_t* labels, const int32_t* weights, size_t n, GoesLeft goes_left) {
        left_.assign(totals_.size(), 0);
        for (size_t i = 0; i < n; ++i) left_[static_cast<size_t>(labels[i])] += weights[i] & -static_cast<int32_t>(goes_left(i));
        left_weight_ = left_squares_ = right_squares_ = 0;
        for (size_t label = 0; label < totals_.size(); ++label) {
            const int64_t own = left_[label], other = totals_[label] - own;
            left_weight_ += own, left_squares_ += own * own, right_squares_ += other * other;
        }
        right_weight_ = weight_ - left_weight_;
    }
    void put_all_right() {
        left_.assign(totals_.size(), 0);
        right_ = totals_;
        left_weight_ = 0, right_weight_ = weight_, left_squares_ = 0, right_squares_ = squares_;
    }
    void move(const Group& group) {
        const auto label = static_cast<size_t>(group.target);
        left_squares_ += group.weight * (2 * left_[label] + group.weight);
        right_squares_ += group.weight * (group.weight - 2 * right_[label]);
        left_[label] += group.weight, right_[label] -= group.weight;
        left_weight_ += group.weight, right_weight_ -= group.weight;
    }
    void move_back(const Group& group) { move({group.code, group.target, -group.weight, 0}); }
    bool is_allowed(int64_t least) const { return left_weight_ >= least && right_weight_ >= least; }
    double score() const {
        return static_cast<double>(left_squares_) / static_cast<double>(left_weight_) +
               static_cast<double>(right_squares_) / static_cast<double>(right_weight_);
    }

   private:
    std::vector<int64_t> totals_, left_, right_, by_code_;
    int64_t weight_ = 0, squares_ = 0, left_weight_ = 0, right_weight_ = 0, left_squares_ = 0, right_squares_ = 0;
};

// The sums of targets that are numbers: sum * sum / weight, added up over both sides, is what the means of the sides take off the
// squared error. Targets and weights have 31 bits, so sums are exact.
class NumberSums {
   public:
    explicit NumberSums(size_t) {}

    void take(const int32_t* targets, const int32_t* weights, size_t n) {
        weight_ = total_ = 0;
        squares_ = 0;
        is_pure_ = true;
        for (size_t i = 0; i < n; ++i) {
            const int64_t weighted = int64_t{weights[i]} * targets[i];
            weight_ += weights[i], total_ += weighted;
            const double square = static_cast<double>(weighted) * targets[i];
            squares_ += square;
            is_pure_ &= targets[i] == targets[0];
        }
    }
    int64_t weight() const { return weight_; }
    bool is_pure() const { return is_pure_; }
    // What one row changes a score by: the variance, from sums in the order of rows.
    double one_row() const {
        const auto whole = static_cast<double>(weight_);
        const double mean = static_cast<double>(total_) / whole, square = mean * mean;
        return std::max(squares_ / whole - square, 0.0);
    }
    size_t n_bins() const { return 1; }
    static Group group(uint8_t code, int32_t target, int32_t weight) { return {code, 0, weight, int64_t{weight} * target}; }

    void add_groups(const uint8_t* codes, const int32_t* targets, const int32_t* weights, size_t n, uint8_t low, size_t bins,
                    std::vector<Group>& groups) {
        const size_t first = groups.size();
        for (size_t bin = 0; bin < bins; ++bin) groups.push_back({static_cast<uint8_t>(low + bin), 0, 0, 0});
        for (size_t i = 0; i < n; ++i) {
            Group& group = groups[first + static_cast<size_t>(codes[i] - low)];
            group.weight += weights[i], group.sum += int64_t{weights[i]} * targets[i];
        }
        groups.erase(std::remove_if(groups.begin() + static_cast<ptrdiff_t>(first), groups.end(), [](const Group& g) { return !g.weight; }),
                     groups.end());
    }
    template <class GoesLeft>
    void put_left(const int32_t* targets, const int32_t* weights, size_t n, GoesLeft goes_left) {
        left_weight_ = left_ = 0;
        for (size_t i = 0; i < n; ++i) {
            const int64_t weight = weights[i] & -static_cast<int32_t>(goes_left(i));
            left_weight_ += weight, left_ += weight * targets[i];
        }
    }
    void put_all_right() { left_weight_ = left_ = 0; }
    void move(const Group& group) { left_weight_ += group.weight, left_ += group.sum; }
    void move_back(const Group& group) { left_weight_ -= group.weight, left_ -= group.sum; }
    bool is_allowed(int64_t least) const { return left_weight_ >= least && weight_ - left_weight_ >= least; }
    double score() const {
        const auto left = static_cast<double>(left_), right = static_cast<double>(total_ - left_);
        return left * left / static_cast<double>(left_weight_) + right * right / static_cast<double>(weight_ - left_weight_);
    }

   private:
    int64_t weight_ = 0, total_ = 0, left_weight_ = 0, left_ = 0;
    double squares_ = 0;
    bool is_pure_ = true;
};

// `Sums` are what splits are judged by: `LabelSums` or `NumberSums`.
template <class Sums>
class Grower {
   public:
    Grower(const GrowingRows& rows, std::vector<int32_t> bag, const GrowingRules& rules)
        : rows_(rows), rules_(rules), bag_(std::move(bag)), order_(rows.n_columns), sums_(rows.n_labels) {
        targets_.reserve(bag_.size()), weights_.reserve(bag_.size()), codes_.resize(bag_.size());
        for (int32_t row : bag_) targets_.push_back(rows.targets[row]), weights_.push_back(rows.weights[row]);
        for (size_t j = 0; j < rows.n_columns; ++j) column_words_.push_back(mixed(GOLDEN * (j + 3)));
    }

    Tree grown() {
        struct Range {
            size_t first, last;
            size_t parent;  // whose right child it is; 0 for others
            uint64_t path;  // a hash of the turns from the root
        };
        std::vector<Range> open = {{0, bag_.size(), 0, rules_.seed}};
        while (!open.empty()) {
            const Range range = open.back();
            open.pop_back();
            const size_t node = tree_.size();
            if (range.parent) tree_.right[range.parent - 1] = static_cast<int32_t>(node);
            const Split split = best_split(range.first, range.last, range.path);
            tree_.column.push_back(split.column), tree_.step.push_back(split.step), tree_.right.push_back(0);
            tree_.weight.push_back(sums_.weight());
            if (split.column == LEAF) continue;
            const size_t middle = parted(range.first, range.last, split);
            open.push_back({middle, range.last, node + 1, mixed(range.path + 2 * GOLDEN)});
            open.push_back({range.first, middle, 0, mixed(range.path + GOLDEN)});
        }
        return std::move(tree_);
    }

   private:
    const uint8_t* codes_of(size_t column) const { return rows_.codes + column * rows_.n_rows; }

    Split best_split(size_t first, size_t last, uint64_t path) {
        sums_.take(targets_.data() + first, weights_.data() + first, last - first);
        Split best;
        if (sums_.weight() < 2 * rules_.min_weight || sums_.is_pure()) return best;
        one_row_ = sums_.one_row();
        for (size_t j = 0; j < order_.size(); ++j) order_[j] = {mixed(path ^ column_words_[j]), j};
        const auto is_later = std::greater<std::pair<uint64_t, size_t>>();
        if (rules_.max_columns < order_.size()) std::make_heap(order_.begin(), order_.end(), is_later);
        size_t tried = 0;
        for (size_t left = order_.size(); left > 0 && tried < rules_.max_columns; --left) {
            if (rules_.max_columns < order_.size()) std::pop_heap(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(left), is_later);
            const auto [key, column] = order_[left - 1];
            const uint8_t* codes = codes_of(column);
            uint8_t low = 255, high = 0;
            for (size_t i = first; i < last; ++i) {
                const uint8_t code = codes[bag_[i]];
                codes_[i] = code;
                low = std::min(low, code), high = std::max(high, code);
            }
            if (low == high) continue;
            ++tried;
            key_ = key;
            if (rules_.random_split)
                try_one(first, last, column, rows_.names[column] ? drawn_name(first, last) : drawn_step(low, high), best);
            else
                try_all(first, last, column, low, high, best);
        }
        return best;
    }

    // The name of the first row whose hash is not below a random word: one row that comes or goes rarely changes it.
    uint8_t drawn_name(size_t first, size_t last) const {
        const auto begin = bag_.begin() + static_cast<ptrdiff_t>(first), end = bag_.begin() + static_cast<ptrdiff_t>(last);
        const auto is_below = [this](int32_t row, uint64_t word) { return rows_.words[row] < word; };
        const auto found = std::lower_bound(begin, end, mixed(key_), is_below);
        return codes_[first + static_cast<size_t>(found == end ? 0 : found - begin)];
    }

    // The first of a sequence of random bytes that lies inside: it stays where an end moves a little.
    uint8_t drawn_step(uint8_t low, uint8_t high) const {
        for (uint64_t word = key_;;) {
            word += GOLDEN;
            uint64_t bytes = mixed(word);
            for (int i = 0; i < 8; ++i, bytes >>= 8)
                if (const auto step = static_cast<uint8_t>(bytes); step >= low && step < high) return step;
        }
    }

    // One split needs no groups.
    void try_one(size_t first, size_t last, size_t column, uint8_t step, Split& best) {
        const uint8_t* codes = codes_.data() + first;
        const int32_t *targets = targets_.data() + first, *weights = weights_.data() + first;
        if (rows_.names[column])
            sums_.put_left(targets, weights, last - first, [=](size_t i) { return codes[i] == step; });
        else
            sums_.put_left(targets, weights, last - first, [=](size_t i) { return codes[i] <= step; });
        take_better(column, step, best);
    }

    // Tries a split behind every code, or around every name. Groups of equal codes come from a table, or from rows put in order
    // where that table would be mostly empty.
    void try_all(size_t first, size_t last, size_t column, uint8_t low, uint8_t high, Split& best) {
        const size_t bins = static_cast<size_t>(high - low) + 1, n = last - first;
        groups_.clear();
        if (bins * sums_.n_bins() > 8 * n) {
            starts_.assign(bins + 1, 0);
            for (size_t i = first; i < last; ++i) ++starts_[static_cast<size_t>(codes_[i] - low) + 1];
            for (size_t bin = 0; bin < bins; ++bin) starts_[bin + 1] += starts_[bin];
            groups_.resize(n);
            for (size_t i = first; i < last; ++i)
                groups_[starts_[static_cast<size_t>(codes_[i] - low)]++] = Sums::group(codes_[i], targets_[i], weights_[i]);
        } else {
            sums_.add_groups(codes_.data() + first, targets_.data() + first, weights_.data() + first, n, low, bins, groups_);
        }
        sums_.put_all_right();
        const bool is_name = rows_.names[column] != 0;
        for (size_t begin = 0, end = 0; begin < groups_.size(); begin = end) {
            const uint8_t code = groups_[begin].code;
            for (; end < groups_.size() && groups_[end].code == code; ++end) sums_.move(groups_[end]);
            if (is_name) {
                take_better(column, code, best);
                for (size_t i = begin; i < end; ++i) sums_.move_back(groups_[i]);
            } else if (end < groups_.size()) {  // in the middle of the gap to the next code
                take_better(column, static_cast<uint8_t>(code + (groups_[end].code - code - 1) / 2), best);
            }
        }
    }

    // A row that comes or goes changes a score by about `one_row`. A hash adds up to that much, so that the best of
    // near-equal splits is a matter of the hash, not of the row.
    void take_better(size_t column, uint8_t step, Split& best) const {
        if (!sums_.is_allowed(rules_.min_weight)) return;
        const double plain = sums_.score();
        if (plain + one_row_ <= best.score) return;
        const double added = one_row_ * fraction(mixed(key_ ^ GOLDEN * (step + 1)));
        if (plain + added > best.score) best = {static_cast<int32_t>(column), step, plain + added};
    }

    // Puts the rows that go left first; returns where the others begin. The order of rows on each side stays.
    size_t parted(size_t first, size_t last, const Split& split) {
        const uint8_t* codes = codes_of(static_cast<size_t>(split.column));
        const bool is_name = rows_.names[static_cast<size_t>(split.column)] != 0;
        size_t middle = first;
        aside_.clear();
        for (size_t i = first; i < last; ++i) {
            const uint8_t code = codes[bag_[i]];
            if (is_name ? code == split.step : code <= split.step) {
                bag_[middle] = bag_[i], targets_[middle] = targets_[i], weights_[middle] = weights_[i];
                ++middle;
            } else {
                aside_.push_back({bag_[i], targets_[i], weights_[i]});
            }
        }
        size_t place = middle;
        for (const Row& row : aside_) bag_[place] = row.row, targets_[place] = row.target, weights_[place] = row.weight, ++place;
        return middle;
    }

    struct Row {
        int32_t row, target, weight;
    };

    const GrowingRows& rows_;
    const GrowingRules& rules_;
    std::vector<int32_t> bag_, targets_, weights_;
    std::vector<uint8_t> codes_;
    std::vector<size_t> starts_;
    std::vector<Group> groups_;
    std::vector<uint64_t> column_words_;
    std::vector<std::pair<uint64_t, size_t>> order_;  // hashes of the node and the columns
    std::vector<Row> aside_;
    Sums sums_;
    double one_row_ = 0;  // what one row changes a score by
    uint64_t key_ = 0;    // of the node and the column
    Tree tree_;
};

}  // namespace

Tree grow_tree(const GrowingRows& rows, std::vector<int32_t> bag, const GrowingRules& rules) {
    return rows.n_labels ? Grower<LabelSums>(rows, std::move(bag), rules).grown() : Grower<NumberSums>(rows, std::move(bag), rules).grown();
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
            nodes_.push_back({forest.column[node], forest.right[node], static_cast<int16_t>(is_name ? 0 : step),
                              is_name ? step : uint8_t{0}});
        }
    }
}

void find_leaves(const WalkedForest& forest, const uint8_t* codes, size_t n_rows, int32_t* leaves) {
    constexpr size_t BLOCK = 256;  // rows whose codes stay in the cache while all trees look at them
    for (size_t begin = 0; begin < n_rows; begin += BLOCK) {
        const size_t n = std::min(n_rows - begin, BLOCK), n_trees = forest.n_trees();
        int32_t* out = leaves + begin * n_trees;
        for (size_t tree = 0; tree < n_trees; ++tree)
            forest.walk(tree, codes + begin * forest.n_columns(), n, [=](size_t row, int32_t leaf) { out[row * n_trees + tree] = leaf; });
    }
}

}  // namespace hammemo
