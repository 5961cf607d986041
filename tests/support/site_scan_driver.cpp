// Random tables through the scan of sites and the fit of weights, for a build with sanitizers: it
// prints how many sums it made.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "selection/label_weights.hpp"
#include "selection/site_scan.hpp"
#include "selection/site_sums.hpp"

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
    std::mt19937 random(argc > 2 ? std::atoi(argv[2]) : 0);
    const double amounts[hammemo::AMOUNTS] = {0.3, 3.0, 30.0};
    size_t made = 0;
    for (int round = 0; round < rounds; ++round) {
        const size_t n = random() % 60, columns = 1 + random() % 5, labels = 2 + random() % 6,
                     counted = n - n / 4;
        std::vector<int32_t> sizes(columns), codes(n * columns), own(n), rows;
        for (size_t j = 0; j < columns; ++j) {
            sizes[j] = 1 + static_cast<int32_t>(random() % (random() % 4 ? 5u : 2000000000u));
            for (size_t i = 0; i < n; ++i) {
                codes[j * n + i] =
                    static_cast<int32_t>(random() % (1u + static_cast<uint32_t>(sizes[j]))) - 1;
            }
        }
        for (size_t i = 0; i < n; ++i) {
            own[i] = static_cast<int32_t>(random() % labels);
            if (random() % 3 && i < counted) {
                rows.push_back(static_cast<int32_t>(i));
            }
        }
        std::vector<double> probabilities(rows.size() * (labels == 2 ? 1 : labels),
                                          1.0 / static_cast<double>(labels));
        std::vector<std::vector<int32_t>> sites(random() % 8);
        for (auto& site : sites) {
            for (size_t j = 0; j < columns; ++j) {
                if (random() % 2) {
                    site.push_back(static_cast<int32_t>(j));
                }
            }
        }
        const hammemo::SiteScan scan(codes,
                                     sizes,
                                     own,
                                     std::vector<double>(labels, 1.0 / static_cast<double>(labels)),
                                     amounts,
                                     counted);
        std::vector<std::vector<int32_t>> tested;
        for (const auto& site : sites) {
            if (!site.empty()) {
                tested.push_back(site);
            }
        }
        for (const auto& sums : hammemo::site_sums(scan, tested, rows, probabilities.data())) {
            for (double value : sums.gradient) {
                if (!std::isfinite(value)) {
                    return 1;
                }
            }
            ++made;
        }
        std::vector<int32_t> of_rows;
        for (int32_t row : rows) {
            of_rows.push_back(own[static_cast<size_t>(row)]);
        }
        hammemo::LogRatios ratios(of_rows, labels, scan.table(), true);
        for (const auto& site : sites) {
            scan.add_to(ratios, site, rows);
        }
        const size_t n_features = sites.size() * hammemo::AMOUNTS;
        std::vector<double> curvature(n_features * n_features);
        ratios.curvature(
            sites.size(), probabilities.data(), 0, rows.size(), 1e-3, curvature.data());
        const std::vector<double> shares(rows.size(), 1.0 / static_cast<double>(rows.size() + 1)),
            start(n_features, 0.1);
        const bool by_label = random() % 2;
        hammemo::WeightLoss loss(
            ratios, sites.size(), std::vector<double>(labels, -1.0), shares, start, 0.1, by_label);
        std::vector<double> at(loss.size(), 0.1);
        hammemo::descend(loss, at, 20, 1e-9);
        for (double value : at) {
            if (!std::isfinite(value)) {
                return 1;
            }
        }
    }
    std::printf("%zu\n", made);
}
