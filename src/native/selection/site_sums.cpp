#include "site_sums.hpp"

#include <algorithm>

namespace hammemo {
namespace {

// Where entry (j, k) of a symmetric matrix of products lies.
constexpr size_t FIRST[PRODUCTS] = {0, 1, 2, 0, 1, 0}, SECOND[PRODUCTS] = {0, 1, 2, 1, 2, 2};
constexpr int32_t NOT_TESTED = -1;

void add_products(double scale, const double* x, double* products) {
    for (size_t k = 0; k < PRODUCTS; ++k) {
        products[k] += scale * (x[FIRST[k]] * x[SECOND[k]]);
    }
}

// A row of a table with two labels.
struct Row {
    // The probability of label 1 and its variance; zero where the row is not tested.
    double said[2];
    int64_t label, counted;
};

// A row counts one, and one more above it where it is tested: both are added up in one number.
// Two counts in one word: a scan has fewer than 2^31 rows, so neither runs into the other.
constexpr int64_t COUNTED = 1, TESTED = int64_t{1} << 32;
int32_t counts_in(int64_t counted) {
    return static_cast<int32_t>(counted % TESTED);
}
int32_t tests_in(int64_t counted) {
    return static_cast<int32_t>(counted / TESTED);
}

// What the rows of one cell sum up to, by their own label. `group` says which group has written it:
// others begin anew.
struct PairSums {
    uint64_t group;
    int64_t counted[2];
    double said[2][2];
};

// Where the rows of one cell lie among those of its group.
struct CellRows {
    uint64_t group;
    int32_t first, count;
};

// A label with examples in a cell: its log-ratios with all of them, and without one.
struct Label {
    int32_t label, count, tested;
    double x[AMOUNTS], less[AMOUNTS];
    double sum, own;  // of its probabilities: over all tested rows, and over its own
};

class Tester {
public:
    Tester(const SiteScan& scan, const std::vector<int32_t>& rows, const double* probabilities)
        : scan_(scan),
          probabilities_(probabilities),
          places_(scan.n(), NOT_TESTED),
          label_at_(scan.n_labels(), NOT_TESTED) {
        for (size_t r = 0; r < rows.size(); ++r) {
            places_[static_cast<size_t>(rows[r])] = static_cast<int32_t>(r);
        }
    }

    SiteSums of(const std::vector<int32_t>& site) {
        const std::vector<int32_t> all_but_last(site.begin(), site.end() - 1);
        if (!is_grouped_ || all_but_last != grouped_by_) {
            group(all_but_last);
        }
        auto size = static_cast<size_t>(scan_.size(site.back()));
        const int32_t* codes = scan_.codes(site.back());
        if (size > scan_.n() + 1024) {  // more values than examples: those that occur are numbered
            numbered_.resize(scan_.n_all());
            size = scan_.cells({site.back()}, numbered_.data());
            codes = numbered_.data();
        }
        return scan_.n_labels() == 2 ? of_two(codes, size) : of_many(codes, size);
    }

private:
    void group(const std::vector<int32_t>& columns) {
        scan_.sort_by(columns, members_, starts_);
        grouped_by_ = columns;
        is_grouped_ = true;
        if (scan_.n_labels() != 2) {
            return;
        }
        rows_.resize(members_.size());
        for (size_t k = 0; k < members_.size(); ++k) {
            const auto i = static_cast<size_t>(members_[k]);
            const double p = places_[i] < 0 ? 0.0 : probabilities_[places_[i]];
            rows_[k] = {
                {p, p * (1.0 - p)}, scan_.labels()[i], places_[i] < 0 ? COUNTED : COUNTED + TESTED};
        }
    }

    SiteSums of_two(const int32_t* codes, size_t size) {
        if (pairs_.size() < size) {
            pairs_.resize(size);
        }
        SiteSums out;
        for (size_t g = 0; g + 1 < starts_.size(); ++g) {
            if (starts_[g + 1] - starts_[g] < 2) {
                continue;  // a row alone in its cell is left out of its own counts: nothing is left
            }
            ++group_;
            touched_.clear();
            for (auto k = static_cast<size_t>(starts_[g]); k < static_cast<size_t>(starts_[g + 1]);
                 ++k) {
                const int32_t code = codes[members_[k]];
                if (code < 0) {
                    continue;
                }
                PairSums& cell = pairs_[static_cast<size_t>(code)];
                if (cell.group != group_) {
                    cell = {group_, {}, {}};
                    touched_.push_back(code);
                }
                const Row& row = rows_[k];
                cell.counted[row.label] += row.counted;
                double* said = cell.said[row.label];
                said[0] += row.said[0];
                said[1] += row.said[1];
            }
            for (int32_t code : touched_) {
                add_pair(pairs_[static_cast<size_t>(code)], out);
            }
        }
        return out;
    }

    void add_pair(const PairSums& cell, SiteSums& out) const {
        const int32_t zeros = counts_in(cell.counted[0]);
        const int32_t ones = counts_in(cell.counted[1]);
        if (zeros + ones < 2) {
            return;
        }
        for (int label = 0; label < 2; ++label) {
            const int32_t tested = tests_in(cell.counted[label]);
            if (!tested) {
                continue;
            }
            const double* zero = scan_.table()->of(0, zeros - (label == 0));
            const double* one = scan_.table()->of(1, ones - (label == 1));
            double x[AMOUNTS];
            for (size_t j = 0; j < AMOUNTS; ++j) {
                x[j] = one[j] - zero[j];
            }
            const double residual = (label ? tested : 0) - cell.said[label][0];
            for (size_t j = 0; j < AMOUNTS; ++j) {
                out.gradient[j] += residual * x[j];
            }
            add_products(cell.said[label][1], x, out.products);
        }
    }

    SiteSums of_many(const int32_t* codes, size_t size) {
        if (cells_.size() < size) {
            cells_.resize(size);
        }
        SiteSums out;
        for (size_t g = 0; g + 1 < starts_.size(); ++g) {
            const int32_t* first = members_.data() + starts_[g];
            const int32_t* last = members_.data() + starts_[g + 1];
            if (last - first < 2) {
                continue;
            }
            ++group_;
            touched_.clear();
            for (const int32_t* i = first; i < last; ++i) {
                if (codes[*i] < 0) {
                    continue;
                }
                CellRows& cell = cells_[static_cast<size_t>(codes[*i])];
                if (cell.group != group_) {
                    cell = {group_, 0, 0};
                    touched_.push_back(codes[*i]);
                }
                ++cell.count;
            }
            split(codes, first, last);
            for (int32_t code : touched_) {
                const CellRows& cell = cells_[static_cast<size_t>(code)];
                if (cell.count > 1) {
                    add_cell(in_cells_.data() + cell.first - cell.count,
                             in_cells_.data() + cell.first,
                             out);
                }
            }
        }
        return out;
    }

    // Puts the rows of a group cell by cell; `first` of a cell is then where its rows end.
    void split(const int32_t* codes, const int32_t* first, const int32_t* last) {
        int32_t at = 0;
        for (int32_t code : touched_) {
            CellRows& cell = cells_[static_cast<size_t>(code)];
            cell.first = at;
            at += cell.count;
        }
        in_cells_.resize(static_cast<size_t>(at));
        for (const int32_t* i = first; i < last; ++i) {
            if (codes[*i] >= 0) {
                in_cells_[static_cast<size_t>(cells_[static_cast<size_t>(codes[*i])].first++)] = *i;
            }
        }
    }

    void count_labels(const int32_t* first, const int32_t* last) {
        for (const Label& label : labels_) {
            label_at_[static_cast<size_t>(label.label)] = NOT_TESTED;  // of the cell before
        }
        labels_.clear();
        for (const int32_t* i = first; i < last; ++i) {
            const int32_t label = scan_.labels()[static_cast<size_t>(*i)];
            int32_t& at = label_at_[static_cast<size_t>(label)];
            if (at < 0) {
                at = static_cast<int32_t>(labels_.size());
                labels_.push_back({label, 0, 0, {}, {}, 0.0, 0.0});
            }
            ++labels_[static_cast<size_t>(at)].count;
        }
        for (Label& label : labels_) {
            const double* x = scan_.table()->of(static_cast<size_t>(label.label), label.count);
            std::copy(x, x + AMOUNTS, label.x);
            std::copy(x - AMOUNTS, x, label.less);  // of one example less
        }
    }

    void add_cell(const int32_t* first, const int32_t* last, SiteSums& out) {
        count_labels(first, last);
        double means[AMOUNTS] = {};
        double squares[PRODUCTS] = {};  // sums over rows
        for (const int32_t* i = first; i < last; ++i) {
            const int32_t place = places_[static_cast<size_t>(*i)];
            if (place < 0) {
                continue;  // counted, but not tested
            }
            const double* P = probabilities_ + static_cast<size_t>(place) * scan_.n_labels();
            double mean[AMOUNTS] = {};
            for (Label& label : labels_) {
                const double p = P[label.label];
                label.sum += p;
                for (size_t j = 0; j < AMOUNTS; ++j) {
                    mean[j] += p * label.x[j];
                }
            }
            const int32_t own_label = scan_.labels()[static_cast<size_t>(*i)];
            Label& own = labels_[static_cast<size_t>(label_at_[static_cast<size_t>(own_label)])];
            ++own.tested;
            own.own += P[own_label];
            for (size_t j = 0; j < AMOUNTS; ++j) {
                means[j] += mean[j] += P[own_label] * (own.less[j] - own.x[j]);
            }
            add_products(1.0, mean, squares);
        }
        for (const Label& label : labels_) {
            for (size_t j = 0; j < AMOUNTS; ++j) {
                out.gradient[j] += label.tested * label.less[j];
            }
            add_products(label.sum - label.own, label.x, out.products);
            add_products(label.own, label.less, out.products);
        }
        for (size_t j = 0; j < AMOUNTS; ++j) {
            out.gradient[j] -= means[j];
        }
        for (size_t k = 0; k < PRODUCTS; ++k) {
            out.products[k] -= squares[k];
        }
    }

    const SiteScan& scan_;
    const double* probabilities_;
    std::vector<int32_t> places_;  // where each counted example is among the tested rows
    std::vector<int32_t> label_at_;
    bool is_grouped_ = false;
    std::vector<int32_t> grouped_by_, members_, starts_;  // examples group by group
    std::vector<Row> rows_;
    std::vector<PairSums> pairs_;  // by code of the last column, as are the cells
    std::vector<CellRows> cells_;
    std::vector<int32_t> touched_, in_cells_, numbered_;
    std::vector<Label> labels_;
    uint64_t group_ = 0;
};

}  // namespace

std::vector<SiteSums> site_sums(const SiteScan& scan,
                                const std::vector<std::vector<int32_t>>& sites,
                                const std::vector<int32_t>& rows,
                                const double* probabilities) {
    Tester tester(scan, rows, probabilities);
    std::vector<SiteSums> out;
    out.reserve(sites.size());
    for (const auto& site : sites) {
        out.push_back(tester.of(site));
    }
    return out;
}

}  // namespace hammemo
