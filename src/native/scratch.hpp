// The owners of the space that look-ups need.
#pragma once

#include <vector>

#include "loops.hpp"

namespace hammemo {

class TokensOwner {
public:
    explicit TokensOwner(size_t room) : hashes_(room), words_(room), values_(room), present_(room) {}
    Tokens view() { return {hashes_.data(), words_.data(), values_.data(), present_.data()}; }

private:
    std::vector<uint64_t> hashes_, words_, values_;
    std::vector<uint8_t> present_;
};

class FeaturesOwner {
public:
    explicit FeaturesOwner(size_t room) : hashes_(room), words_(room), present_(room) {}
    Features view() { return {hashes_.data(), words_.data(), present_.data()}; }

private:
    std::vector<uint64_t> hashes_, words_;
    std::vector<uint8_t> present_;
};

class ScratchOwner {
public:
    explicit ScratchOwner(const LayoutView& layout)
        : tokens_(layout.h * BLOCK), features_(BLOCK), rows_(layout.n_sites * BLOCK) {}
    Scratch view() { return {tokens_.view(), features_.view(), rows_.data()}; }

private:
    TokensOwner tokens_;
    FeaturesOwner features_;
    std::vector<uint32_t> rows_;
};

}  // namespace hammemo
