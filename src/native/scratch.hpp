// The owner of the space that a block of contexts needs.
#pragma once

#include <vector>

#include "loops.hpp"

namespace hammemo {

class ScratchOwner {
public:
    explicit ScratchOwner(const LayoutView& layout)
        : hashes_(layout.h * BLOCK), words_(layout.h * BLOCK), rows_(layout.n_sites * BLOCK), present_(layout.h * BLOCK) {}
    Scratch view() { return {hashes_.data(), words_.data(), present_.data(), rows_.data()}; }

private:
    std::vector<uint64_t> hashes_, words_;
    std::vector<uint32_t> rows_;
    std::vector<uint8_t> present_;
};

}  // namespace hammemo
