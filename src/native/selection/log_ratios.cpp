#include "log_ratios.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hammemo {

void LogRatios::add(const int32_t* cells,
                    const std::vector<int64_t>& starts,
                    const int32_t* labels,
                    const int64_t* counts) {
    constexpr int32_t UNSEEN = -2;
    constexpr int32_t SILENT = -1;  // a row that is alone in its cell hears nothing there
    Site site;
    site.cells.assign(n(), SILENT);
    site.own.assign(n(), -1);
    site.starts.assign(1, 0);
    std::vector<int32_t> numbers(starts.size(),
                                 UNSEEN);  // cells in the order in which rows come to them
    for (size_t i = 0; i < n(); ++i) {
        if (cells[i] < 0) {
            continue;
        }
        const auto from = static_cast<size_t>(cells[i]);
        if (numbers[from] == UNSEEN) {
            // At most all examples: 2^26 of a memory (MAX_COUNT), 2^31 of a scan.
            int64_t total = leave_one_out_ ? -1 : 0;
            for (int64_t e = starts[from]; e < starts[from + 1]; ++e) {
                total += counts[e];
            }
            numbers[from] = total > 0 ? static_cast<int32_t>(site.totals.size()) : SILENT;
            if (total <= 0) {
                continue;
            }
            for (int64_t e = starts[from]; e < starts[from + 1]; ++e) {
                site.entries.push_back({labels[e],
                                        static_cast<int32_t>(table_->place(
                                            static_cast<size_t>(labels[e]), counts[e]))});
            }
            site.totals.push_back(static_cast<int32_t>(total));
            site.starts.push_back(static_cast<int32_t>(site.entries.size()));
        }
        if (numbers[from] == SILENT) {
            continue;
        }
        const auto cell = static_cast<size_t>(site.cells[i] = numbers[from]);
        for (int32_t e = site.starts[cell]; leave_one_out_ && e < site.starts[cell + 1]; ++e) {
            if (site.entries[static_cast<size_t>(e)].label == labels_[i]) {
                site.own[i] = e;
            }
        }
    }
    if (n_labels_ == 2) {
        pair_up(site);
    }
    sites_.push_back(std::move(site));
}

void LogRatios::pair_up(Site& site) const {
    std::vector<int32_t> numbers(2 * site.n_cells(), -1);
    for (size_t i = 0; i < n(); ++i) {
        if (site.cells[i] < 0) {
            continue;
        }
        const auto cell = static_cast<size_t>(site.cells[i]);
        int32_t& number = numbers[2 * cell + (leave_one_out_ && labels_[i] == 1)];
        if (number < 0) {
            number = static_cast<int32_t>(site.n_pairs());
            site.pairs.resize(site.pairs.size() + 2 * AMOUNTS);
            float* x = site.pairs.data() + site.pairs.size() - 2 * AMOUNTS;
            const double* lost = table_->total(site.totals[cell]);
            for (size_t j = 0; j < AMOUNTS; ++j) {
                x[j] = x[AMOUNTS + j] = static_cast<float>(-lost[j]);
            }
            for (int32_t e = site.starts[cell]; e < site.starts[cell + 1]; ++e) {
                const Entry& entry = site.entries[static_cast<size_t>(e)];
                const double* gain =
                    table_->at(static_cast<size_t>(entry.place) - (e == site.own[i]));
                for (size_t j = 0; j < AMOUNTS; ++j) {
                    x[static_cast<size_t>(entry.label) * AMOUNTS + j] =
                        static_cast<float>(gain[j] - lost[j]);
                }
            }
        }
        site.cells[i] = number;
    }
    site.own.clear();
    site.entries.clear();
    site.starts.clear();
    site.totals.clear();
}

void LogRatios::add_scores_of_two(const Site& site,
                                  const double* weights,
                                  bool by_label,
                                  double* out) const {
    std::vector<double> sums(site.n_pairs());
    double zero[AMOUNTS];
    double one[AMOUNTS];
    for (size_t j = 0; j < AMOUNTS; ++j) {
        zero[j] = by_label ? weights[2 * j] : weights[j];
        one[j] = by_label ? weights[2 * j + 1] : weights[j];
    }
    for (size_t at = 0; at < sums.size(); ++at) {
        const float* x = site.pairs.data() + at * 2 * AMOUNTS;
        double sum = 0;
        for (size_t j = 0; j < AMOUNTS; ++j) {
            sum +=
                one[j] * static_cast<double>(x[AMOUNTS + j]) - zero[j] * static_cast<double>(x[j]);
        }
        sums[at] = sum;
    }
    for (size_t i = 0; i < n(); ++i) {
        if (site.cells[i] >= 0) {
            out[i] += sums[static_cast<size_t>(site.cells[i])];
        }
    }
}

void LogRatios::add_scores_of_many(const Site& site,
                                   const double* weights,
                                   bool by_label,
                                   double* out) const {
    const size_t L = n_labels_;
    const size_t width = by_label ? L : 1;
    std::vector<double> sums(site.n_cells() * L);
    std::vector<double> left(leave_one_out_ ? site.entries.size() : 0);
    for (size_t cell = 0; cell < site.n_cells(); ++cell) {
        double* row = sums.data() + cell * L;
        if (by_label) {
            const double* lost = table_->total(site.totals[cell]);
            for (size_t c = 0; c < L; ++c) {
                row[c] = -(weights[c] * lost[0] + weights[L + c] * lost[1] +
                           weights[2 * L + c] * lost[2]);
            }
        }
        for (int32_t e = site.starts[cell]; e < site.starts[cell + 1]; ++e) {
            const Entry& entry = site.entries[static_cast<size_t>(e)];
            const auto c = static_cast<size_t>(entry.label);
            const double* x = table_->at(static_cast<size_t>(entry.place));
            const double* w = weights + (by_label ? c : 0);
            row[c] += w[0] * x[0] + w[width] * x[1] + w[2 * width] * x[2];
            if (!leave_one_out_) {
                continue;
            }
            const double* less = x - AMOUNTS;  // without the row itself
            left[static_cast<size_t>(e)] = w[0] * (less[0] - x[0]) + w[width] * (less[1] - x[1]) +
                                           w[2 * width] * (less[2] - x[2]);
        }
    }
    for (size_t i = 0; i < n(); ++i) {
        if (site.cells[i] < 0) {
            continue;
        }
        const double* row = sums.data() + static_cast<size_t>(site.cells[i]) * L;
        double* to = out + i * L;
        for (size_t c = 0; c < L; ++c) {
            to[c] += row[c];
        }
        if (site.own[i] >= 0) {
            to[labels_[i]] += left[static_cast<size_t>(site.own[i])];
        }
    }
}

void LogRatios::scores(size_t n_sites, const double* weights, bool by_label, double* out) const {
    std::fill(out, out + n() * n_columns(), 0.0);
    const size_t of_site = AMOUNTS * (by_label ? n_labels_ : 1);
    for (size_t s = 0; s < n_sites; ++s) {
        n_labels_ == 2 ? add_scores_of_two(sites_[s], weights + s * of_site, by_label, out)
                       : add_scores_of_many(sites_[s], weights + s * of_site, by_label, out);
    }
}

void LogRatios::gradient_of_two(const Site& site,
                                const double* residuals,
                                size_t first,
                                size_t last,
                                bool by_label,
                                double* out) {
    std::vector<double> sums(site.n_pairs());
    for (size_t i = first; i < last; ++i) {
        if (site.cells[i] >= 0) {
            sums[static_cast<size_t>(site.cells[i])] += residuals[i];
        }
    }
    double zero[AMOUNTS] = {};
    double one[AMOUNTS] = {};
    for (size_t at = 0; at < sums.size(); ++at) {
        const float* x = site.pairs.data() + at * 2 * AMOUNTS;
        for (size_t j = 0; j < AMOUNTS; ++j) {
            zero[j] += sums[at] * static_cast<double>(x[j]);
            one[j] += sums[at] * static_cast<double>(x[AMOUNTS + j]);
        }
    }
    for (size_t j = 0; j < AMOUNTS; ++j) {
        if (by_label) {
            out[2 * j] = -zero[j];
            out[2 * j + 1] = one[j];
        } else {
            out[j] = one[j] - zero[j];
        }
    }
}

void LogRatios::gradient_of_many(const Site& site,
                                 const double* residuals,
                                 size_t first,
                                 size_t last,
                                 bool by_label,
                                 double* out) const {
    const size_t L = n_labels_;
    const size_t width = by_label ? L : 1;
    std::vector<double> sums(site.n_cells() * L);
    std::vector<double> left(leave_one_out_ ? site.entries.size() : 0);
    for (size_t i = first; i < last; ++i) {
        if (site.cells[i] < 0) {
            continue;
        }
        double* row = sums.data() + static_cast<size_t>(site.cells[i]) * L;
        const double* from = residuals + i * L;
        for (size_t c = 0; c < L; ++c) {
            row[c] += from[c];
        }
        if (site.own[i] >= 0) {
            left[static_cast<size_t>(site.own[i])] += from[labels_[i]];
        }
    }
    for (size_t cell = 0; cell < site.n_cells(); ++cell) {
        const double* row = sums.data() + cell * L;
        if (by_label) {
            const double* lost = table_->total(site.totals[cell]);
            for (size_t c = 0; c < L; ++c) {
                out[c] -= row[c] * lost[0];
                out[L + c] -= row[c] * lost[1];
                out[2 * L + c] -= row[c] * lost[2];
            }
        }
        for (int32_t e = site.starts[cell]; e < site.starts[cell + 1]; ++e) {
            const Entry& entry = site.entries[static_cast<size_t>(e)];
            const auto c = static_cast<size_t>(entry.label);
            const double* x = table_->at(static_cast<size_t>(entry.place));
            double* to = out + (by_label ? c : 0);
            for (size_t j = 0; j < AMOUNTS; ++j) {
                to[j * width] += row[c] * x[j];
            }
            if (!leave_one_out_) {
                continue;
            }
            const double* less = x - AMOUNTS;
            for (size_t j = 0; j < AMOUNTS; ++j) {
                to[j * width] += left[static_cast<size_t>(e)] * (less[j] - x[j]);
            }
        }
    }
}

void LogRatios::gradient(size_t n_sites,
                         const double* residuals,
                         size_t first,
                         size_t last,
                         bool by_label,
                         double* out) const {
    const size_t of_site = AMOUNTS * (by_label ? n_labels_ : 1);
    std::fill(out, out + n_sites * of_site, 0.0);
    for (size_t s = 0; s < n_sites; ++s) {
        n_labels_ == 2
            ? gradient_of_two(sites_[s], residuals, first, last, by_label, out + s * of_site)
            : gradient_of_many(sites_[s], residuals, first, last, by_label, out + s * of_site);
    }
}

void LogRatios::add_rows_of_two(size_t n_sites,
                                const double* probabilities,
                                size_t first,
                                size_t last,
                                double least,
                                Products& products) const {
    for (size_t i = first; i < last; ++i) {
        if ((labels_[i] == 1 ? 1.0 - probabilities[i] : probabilities[i]) < least) {
            continue;  // a row that is sure of its label
        }
        double* row = products.next_row();
        const double scale = std::sqrt(probabilities[i] * (1.0 - probabilities[i]));
        for (size_t s = 0; s < n_sites; ++s) {
            if (sites_[s].cells[i] < 0) {
                continue;
            }
            const float* x =
                sites_[s].pairs.data() + static_cast<size_t>(sites_[s].cells[i]) * 2 * AMOUNTS;
            for (size_t j = 0; j < AMOUNTS; ++j) {
                row[s * AMOUNTS + j] =
                    scale * (static_cast<double>(x[AMOUNTS + j]) - static_cast<double>(x[j]));
            }
        }
    }
}

void LogRatios::add_rows_of_many(size_t n_sites,
                                 const double* probabilities,
                                 size_t first,
                                 size_t last,
                                 double least,
                                 Products& products) const {
    const size_t F = n_sites * AMOUNTS;
    const size_t L = n_labels_;
    std::vector<int32_t> place(L);  // of each label among the likely ones
    std::vector<double> x;
    std::vector<double> means(F);
    std::vector<size_t> likely;
    for (size_t i = first; i < last; ++i) {
        const double* P = probabilities + i * L;
        likely.clear();
        for (size_t c = 0; c < L; ++c) {
            place[c] = P[c] < least ? -1 : static_cast<int32_t>(likely.size());
            if (place[c] >= 0) {
                likely.push_back(c);
            }
        }
        if (P[labels_[i]] > 1.0 - least) {
            continue;  // a row that is sure of its label
        }
        x.assign(likely.size() * F, 0.0);
        means.assign(F, 0.0);
        for (size_t s = 0; s < n_sites; ++s) {
            const Site& site = sites_[s];
            if (site.cells[i] < 0) {
                continue;
            }
            const auto cell = static_cast<size_t>(site.cells[i]);
            for (int32_t e = site.starts[cell]; e < site.starts[cell + 1]; ++e) {
                const Entry& entry = site.entries[static_cast<size_t>(e)];
                const double* own =
                    table_->at(static_cast<size_t>(entry.place) - (e == site.own[i]));
                for (size_t j = 0; j < AMOUNTS; ++j) {
                    means[s * AMOUNTS + j] += P[entry.label] * own[j];
                }
                const int32_t at = place[static_cast<size_t>(entry.label)];
                if (at >= 0) {
                    std::copy(
                        own, own + AMOUNTS, x.data() + static_cast<size_t>(at) * F + s * AMOUNTS);
                }
            }
        }
        for (size_t at = 0; at < likely.size(); ++at) {
            double* row = products.next_row();
            const double scale = std::sqrt(P[likely[at]]);
            for (size_t f = 0; f < F; ++f) {
                row[f] = scale * (x[at * F + f] - means[f]);
            }
        }
    }
}

void LogRatios::curvature(size_t n_sites,
                          const double* probabilities,
                          size_t first,
                          size_t last,
                          double least,
                          double* out) const {
    Products products(n_sites * AMOUNTS);
    n_labels_ == 2 ? add_rows_of_two(n_sites, probabilities, first, last, least, products)
                   : add_rows_of_many(n_sites, probabilities, first, last, least, products);
    products.finish();
    products.copy_to(out);
}

void softmax_rows(const double* scores,
                  size_t n,
                  size_t n_labels,
                  const double* base,
                  const int32_t* labels,
                  double* probabilities,
                  double* losses) {
    if (n_labels == 2) {
        for (size_t i = 0; i < n; ++i) {
            const double score = scores[i] + (base[1] - base[0]);
            const double odds = portable_exp(score < 0 ? score : -score);  // up to 1
            probabilities[i] = (score < 0 ? odds : 1.0) / (1.0 + odds);
            losses[i] =
                portable_log1p(odds) + ((score < 0) == (labels[i] == 1) ? std::abs(score) : 0.0);
        }
        return;
    }
    for (size_t i = 0; i < n; ++i) {
        const double* row = scores + i * n_labels;
        double* P = probabilities + i * n_labels;
        double highest = -std::numeric_limits<double>::infinity();
        double sum = 0;
        for (size_t c = 0; c < n_labels; ++c) {
            highest = std::max(highest, row[c] + base[c]);
        }
        for (size_t c = 0; c < n_labels; ++c) {
            sum += P[c] = portable_exp(row[c] + base[c] - highest);
        }
        for (size_t c = 0; c < n_labels; ++c) {
            P[c] /= sum;
        }
        const auto label = static_cast<size_t>(labels[i]);
        losses[i] = portable_log(sum) + highest - (row[label] + base[label]);
    }
}

}  // namespace hammemo
