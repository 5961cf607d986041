// Random tables through the scan of sites, for a build with sanitizers: it prints how many sums it made.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "selection/site_scan.hpp"

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
    std::mt19937 random(argc > 2 ? std::atoi(argv[2]) : 0);
    const double amounts[hammemo::AMOUNTS] = {0.3, 3.0, 30.0};
    size_t made = 0;
    for (int round = 0; round < rounds; ++round) {
        const size_t n = random() % 60, columns = 1 + random() % 5, labels = 2 + random() % 6;
        std::vector<int32_t> sizes(columns), codes(n * columns), own(n), rows;
        for (size_t j = 0; j < columns; ++j) {
            sizes[j] = 1 + static_cast<int32_t>(random() % (random() % 4 ? 5u : 2000000000u));
            for (size_t i = 0; i < n; ++i) codes[j * n + i] = static_cast<int32_t>(random() % (1u + static_cast<uint32_t>(sizes[j]))) - 1;
        }
        for (size_t i = 0; i < n; ++i) {
            own[i] = static_cast<int32_t>(random() % labels);
            if (random() % 3) rows.push_back(static_cast<int32_t>(i));
        }
        std::vector<double> probabilities(rows.size() * labels, 1.0 / static_cast<double>(labels));
        std::vector<std::vector<int32_t>> sites(random() % 8);
        for (auto& site : sites)
            for (size_t j = 0; j < columns; ++j)
                if (random() % 2) site.push_back(static_cast<int32_t>(j));
        const hammemo::SiteScan scan(codes, sizes, own, std::vector<double>(labels, 1.0 / static_cast<double>(labels)), amounts);
        for (const auto& sums : scan.sums(sites, rows, probabilities.data())) {
            for (double value : sums.gradient)
                if (!std::isfinite(value)) return 1;
            ++made;
        }
    }
    std::printf("%zu\n", made);
}
