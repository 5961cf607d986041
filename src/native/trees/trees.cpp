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

// The weights of labels on the two sides of a split that moves from right to left.
struct Sides {
    std::vector<int64_t> left, right;
    int64_t left_weight = 0, right_weight = 0, left_squares = 0, right_squares = 0;

    void start(const std::vector<int64_t>& all, int64_t weight, int64_t squares) {
        left.assign(all.size(), 0);
        right = all;
        left_weight = 0, right_weight = weight, left_squares = 0, right_squares = squares;
    }
    void from_left(const std::vector<int64_t>& all, int64_t weight) {
        left_weight = left_squares = right_squares = 0;
        for (size_t label = 0; label < all.size(); ++label) {
            const int64_t own = left[label], other = all[label] - own;
            left_weight += own, left_squares += own * own, right_squares += other * other;
        }
        right_weight = weight - left_weight;
    }
    void move(size_t label, int64_t weight) {
        left_squares += weight * (2 * left[label] + weight);
        right_squares += weight * (weight - 2 * right[label]);
        left[label] += weight, right[label] -= weight;
        left_weight += weight, right_weight -= weight;
    }
    void move_back(size_t label, int64_t weight) {
        right_squares += weight * (2 * right[label] + weight);
        left_squares += weight * (weight - 2 * left[label]);
        left[label] -= weight, right[label] += weight;
        left_weight -= weight, right_weight += weight;
    }
    bool is_allowed(int64_t least) const { return left_weight >= least && right_weight >= least; }
    double score() const {
        return static_cast<double>(left_squares) / static_cast<double>(left_weight) +
               static_cast<double>(right_squares) / static_cast<double>(right_weight);
    }
};

class Grower {
   public:
    Grower(const GrowingRows& rows, std::vector<int32_t> bag, const GrowingRules& rules)
        : rows_(rows), rules_(rules), bag_(std::move(bag)), totals_(rows.n_labels), order_(rows.n_columns) {
        labels_.reserve(bag_.size()), weights_.reserve(bag_.size()), codes_.resize(bag_.size());
        for (int32_t row : bag_) labels_.push_back(rows.labels[row]), weights_.push_back(rows.weights[row]);
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
            tree_.weight.push_back(weight_);
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
        std::fill(totals_.begin(), totals_.end(), 0);
        for (size_t i = first; i < last; ++i) totals_[static_cast<size_t>(labels_[i])] += weights_[i];
        weight_ = squares_ = 0;
        for (int64_t total : totals_) weight_ += total, squares_ += total * total;
        Split best;
        if (weight_ < 2 * rules_.min_weight || squares_ == weight_ * weight_) return best;  // too light, or one label only
        const auto whole = static_cast<double>(weight_);
        one_row_ = 1 - static_cast<double>(squares_) / (whole * whole);
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

    // One split needs no groups: the rows that go left are added up, without a branch that no processor can foresee.
    void try_one(size_t first, size_t last, size_t column, uint8_t step, Split& best) {
        sides_.left.assign(totals_.size(), 0);
        int64_t* left = sides_.left.data();
        if (rows_.names[column])
            for (size_t i = first; i < last; ++i) left[labels_[i]] += weights_[i] & -static_cast<int32_t>(codes_[i] == step);
        else
            for (size_t i = first; i < last; ++i) left[labels_[i]] += weights_[i] & -static_cast<int32_t>(codes_[i] <= step);
        sides_.from_left(totals_, weight_);
        take_better(column, step, best);
    }

    // Tries a split behind every code, or around every name. Groups of equal codes come from a table by label, or from rows put
    // in order where that table would be mostly empty.
    void try_all(size_t first, size_t last, size_t column, uint8_t low, uint8_t high, Split& best) {
        const size_t width = rows_.n_labels, bins = static_cast<size_t>(high - low) + 1, n = last - first;
        groups_.clear();
        if (bins * width > 8 * n) {
            starts_.assign(bins + 1, 0);
            for (size_t i = first; i < last; ++i) ++starts_[static_cast<size_t>(codes_[i] - low) + 1];
            for (size_t bin = 0; bin < bins; ++bin) starts_[bin + 1] += starts_[bin];
            groups_.resize(n);
            for (size_t i = first; i < last; ++i)
                groups_[starts_[static_cast<size_t>(codes_[i] - low)]++] = {codes_[i], labels_[i], weights_[i]};
        } else {
            by_code_.assign(bins * width, 0);
            for (size_t i = first; i < last; ++i)
                by_code_[static_cast<size_t>(codes_[i] - low) * width + static_cast<size_t>(labels_[i])] += weights_[i];
            for (size_t bin = 0; bin < bins; ++bin)
                for (size_t label = 0; label < width; ++label)
                    if (const int64_t weight = by_code_[bin * width + label])
                        groups_.push_back({static_cast<uint8_t>(low + bin), static_cast<int32_t>(label), weight});
        }
        sides_.start(totals_, weight_, squares_);
        const bool is_name = rows_.names[column] != 0;
        for (size_t begin = 0, end = 0; begin < groups_.size(); begin = end) {
            const uint8_t code = groups_[begin].code;
            for (; end < groups_.size() && groups_[end].code == code; ++end)
                sides_.move(static_cast<size_t>(groups_[end].label), groups_[end].weight);
            if (is_name) {
                take_better(column, code, best);
                for (size_t i = begin; i < end; ++i) sides_.move_back(static_cast<size_t>(groups_[i].label), groups_[i].weight);
            } else if (end < groups_.size()) {  // in the middle of the gap to the next code
                take_better(column, static_cast<uint8_t>(code + (groups_[end].code - code - 1) / 2), best);
            }
        }
    }

    // A row that comes or goes changes a score by about the impurity. A hash adds up to that much, so that the best of
    // near-equal splits is a matter of the hash, not of the row.
    void take_better(size_t column, uint8_t step, Split& best) const {
        if (!sides_.is_allowed(rules_.min_weight)) return;
        const double plain = sides_.score();
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
                bag_[middle] = bag_[i], labels_[middle] = labels_[i], weights_[middle] = weights_[i];
                ++middle;
            } else {
                aside_.push_back({bag_[i], labels_[i], weights_[i]});
            }
        }
        size_t place = middle;
        for (const Row& row : aside_) bag_[place] = row.row, labels_[place] = row.label, weights_[place] = row.weight, ++place;
        return middle;
    }

    struct Row {
        int32_t row, label, weight;
    };

    struct Group {
        uint8_t code;
        int32_t label;
        int64_t weight;
    };

    const GrowingRows& rows_;
    const GrowingRules& rules_;
    std::vector<int32_t> bag_, labels_, weights_;
    std::vector<uint8_t> codes_;
    std::vector<size_t> starts_;
    std::vector<Group> groups_;
    std::vector<int64_t> totals_, by_code_;
    std::vector<uint64_t> column_words_;
    std::vector<std::pair<uint64_t, size_t>> order_;  // hashes of the node and the columns
    std::vector<Row> aside_;
    Sides sides_;
    int64_t weight_ = 0, squares_ = 0;
    double one_row_ = 0;  // what one row changes a score by
    uint64_t key_ = 0;    // of the node and the column
    Tree tree_;
};

}  // namespace

Tree grow_tree(const GrowingRows& rows, std::vector<int32_t> bag, const GrowingRules& rules) {
    return Grower(rows, std::move(bag), rules).grown();
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
