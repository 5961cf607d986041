// Trees of thresholds: partitions of rows whose columns hold one byte each, grown so that labels,
// or numbers, differ between cells.
//
// A column is ordered (the steps of a number) or holds names. A node sends a row to its left child
// where the row's code is at most the node's step, or, in a column of names, where it equals the
// step. Nodes are numbered depth first, left before right, so the left child of node i is node i
// + 1.
//
// A node tries columns in a random order until `max_columns` of them have more than one code in it.
// In each it takes the split with the highest sum over both sides of (sum of squared label weights)
// / weight, for numbers (sum of targets)^2 / weight, or one random split. The highest sum wins;
// among near-equal sums a hash decides. All that is random is a hash of the seed, the turns from
// the root, the column and the step, so that one row more or less changes few nodes. Sums are whole
// numbers up to one division a side, so a tree is the same on every processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hammemo {

constexpr int32_t LEAF = -1;

// Rows that trees are grown on; all arrays belong to the caller, who has checked labels and the
// lengths.
struct GrowingRows {
    const uint8_t* codes;    // (columns, rows)
    const uint8_t* names;    // (columns,): whether a column holds names
    const int32_t* targets;  // labels, or numbers
    const int32_t* weights;
    const uint64_t* words;  // the hash of each row, ascending
    size_t n_rows, n_columns;
    size_t n_labels;  // 0: targets are numbers
};

struct GrowingRules {
    int64_t min_weight;  // of a leaf
    size_t max_columns;
    bool random_split;
    uint64_t seed;
};

struct Tree {
    std::vector<int32_t> column;  // LEAF for a leaf
    std::vector<uint8_t> step;
    std::vector<int32_t> right;   // the right child; 0 for a leaf
    std::vector<int64_t> weight;  // of the rows that grew it

    size_t size() const { return column.size(); }
};

// Writes how many copies of each row grow a tree: 63 % of them, by hashes of the row, the copy and
// the tree. Copies are drawn one by one up to a number; of further ones a fixed share is taken.
void draw_copies(const uint64_t* words,
                 const int64_t* counts,
                 size_t n,
                 uint64_t tree,
                 int64_t* out);

// bag: the rows that the tree is grown on, at least one.
Tree grow_tree(const GrowingRows& rows, std::vector<int32_t> bag, const GrowingRules& rules);

// The nodes of many trees, one tree after the other; children are counted from the first node of
// their tree. The caller has checked that columns are below n_columns and that the children of a
// node come behind it in its tree.
struct Forest {
    const int32_t* column;
    const uint8_t* step;
    const int32_t* right;
    const int64_t* starts;  // (trees + 1,)
    const uint8_t* names;
    size_t n_trees, n_columns;
};

// A forest made for walking. A row goes left if its code minus `low`, as a byte, is at most
// `width`: numbers have the low end 0, names the width 0. A leaf sends every row to itself, so that
// several rows can walk side by side without a branch.
class WalkedForest {
public:
    explicit WalkedForest(const Forest& forest);

    size_t n_trees() const { return starts_.size() - 1; }
    size_t n_columns() const { return n_columns_; }
    size_t n_nodes() const { return nodes_.size(); }
    int64_t start(size_t tree) const { return starts_[tree]; }  // its first node; at last the end
    bool is_leaf(size_t node) const { return nodes_[node].width < 0; }
    // The right child of an inner node, counted from the first node of its tree.
    int32_t right(size_t node) const { return nodes_[node].right; }

    // Calls take(row, leaf) for the rows of a tree, in their order; codes: (rows, columns), leaves
    // are counted from the first node of all trees.
    template <class Take>
    void walk(size_t tree, const uint8_t* codes, size_t n_rows, Take take) const {
        constexpr size_t SIDE_BY_SIDE = 8;
        const Node* nodes = nodes_.data() + starts_[tree];
        const auto first = static_cast<int32_t>(starts_[tree]);
        size_t row = 0;
        for (; row + SIDE_BY_SIDE <= n_rows; row += SIDE_BY_SIDE) {
            int32_t at[SIDE_BY_SIDE] = {};
            int32_t moved = 1;
            while (moved) {
                moved = 0;
                for (size_t i = 0; i < SIDE_BY_SIDE; ++i) {
                    const int32_t next = after(nodes, at[i], codes + (row + i) * n_columns_);
                    moved |= next ^ at[i];
                    at[i] = next;
                }
            }
            for (size_t i = 0; i < SIDE_BY_SIDE; ++i) {
                take(row + i, first + at[i]);
            }
        }
        for (; row < n_rows; ++row) {
            int32_t at = 0;
            int32_t next = 0;
            while ((next = after(nodes, at, codes + row * n_columns_)) != at) {
                at = next;
            }
            take(row, first + at);
        }
    }

private:
    struct Node {
        int32_t column, right;
        int16_t width;  // -1 for a leaf
        uint8_t low;
    };

    static int32_t after(const Node* nodes, int32_t at, const uint8_t* row) {
        const Node& node = nodes[at];
        const auto above = static_cast<uint8_t>(row[node.column] - node.low);
        const int32_t goes_left = -static_cast<int32_t>(above <= node.width);
        return ((at + 1) & goes_left) | (node.right & ~goes_left);
    }

    std::vector<Node> nodes_;
    std::vector<int64_t> starts_;
    size_t n_columns_;
};

// Writes the leaf of each row in each tree, (rows, trees), counted from the first node of all
// trees. codes: (rows, columns).
void find_leaves(const WalkedForest& forest, const uint8_t* codes, size_t n_rows, int32_t* leaves);

// Where cells are: a node that held enough growing rows for a level is a cell of this level, and so
// is a root; any other node lies in the cell of its parent.
struct ForestCells {
    int64_t* parents;  // (nodes,): the parent of each node; a root is its own
    int64_t* nodes;    // (levels, nodes): the node that is the cell of each node
    int32_t* numbers;  // (levels, nodes): its number among the cells of its tree and level
};

// levels: (nodes,): how many levels the growing rows of each node reach.
void find_cells(const WalkedForest& forest,
                const uint8_t* levels,
                size_t n_levels,
                ForestCells out);

// Adds what leaves hold to the cells around them. cells: (levels, nodes), rows of out; values:
// (nodes, width); out: (cells, width).
void add_leaves(const WalkedForest& forest,
                const int32_t* cells,
                size_t n_levels,
                const int64_t* values,
                size_t width,
                int64_t* out);

// Adds the weight of each row to the count of its label at its leaf of every tree. leaves: (rows,
// trees); labels, weights: (rows,); counts: (nodes, labels).
void count_labels(const int32_t* leaves,
                  const int32_t* labels,
                  const int64_t* weights,
                  size_t n_rows,
                  size_t n_trees,
                  size_t n_labels,
                  int64_t* counts);

}  // namespace hammemo
