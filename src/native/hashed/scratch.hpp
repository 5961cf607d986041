// The owners of the space that look-ups need.
#pragma once

#include <cstddef>
#include <memory>

#include "loops.hpp"

namespace hammemo {

// Space for numbers that are written before they are read. It is not filled, and where it is small
// it is not allocated either: for a single query both would take longer than the answer.
class Space {
public:
    explicit Space(size_t bytes)
        : far_(bytes > sizeof near_ ? new std::byte[bytes] : nullptr),
          next_(far_ ? far_.get() : near_) {}
    Space(const Space&) = delete;
    Space& operator=(const Space&) = delete;

    // The next n numbers; the widest kinds are taken first, so that all are aligned.
    template <class T>
    T* take(size_t n) {
        T* taken = reinterpret_cast<T*>(next_);
        next_ += n * sizeof(T);
        return taken;
    }

private:
    alignas(64) std::byte near_[16384];
    std::unique_ptr<std::byte[]> far_;
    std::byte* next_;
};

class TokensOwner {
public:
    static constexpr size_t BYTES = 3 * sizeof(uint64_t) + 1;  // a token
    explicit TokensOwner(size_t room)
        : space_(room * BYTES),
          view_{space_.take<uint64_t>(room),
                space_.take<uint64_t>(room),
                space_.take<uint64_t>(room),
                space_.take<uint8_t>(room)} {}
    const Tokens& view() const { return view_; }

private:
    Space space_;
    Tokens view_;
};

class FeaturesOwner {
public:
    static constexpr size_t BYTES = 2 * sizeof(uint64_t) + 1;  // a feature
    explicit FeaturesOwner(size_t room)
        : space_(room * BYTES),
          view_{space_.take<uint64_t>(room),
                space_.take<uint64_t>(room),
                space_.take<uint8_t>(room)} {}
    const Features& view() const { return view_; }

private:
    Space space_;
    Features view_;
};

class ScratchOwner {
public:
    explicit ScratchOwner(const LayoutView& layout)
        : space_(BLOCK * (layout.h * TokensOwner::BYTES + FeaturesOwner::BYTES +
                          layout.n_sites * sizeof(uint32_t))) {
        const size_t room = layout.h * BLOCK;
        auto* words = space_.take<uint64_t>(3 * room + 2 * BLOCK);
        view_.rows = space_.take<uint32_t>(layout.n_sites * BLOCK);
        auto* flags = space_.take<uint8_t>(room + BLOCK);
        view_.tokens = {words, words + room, words + 2 * room, flags};
        view_.features = {words + 3 * room, words + 3 * room + BLOCK, flags + room};
    }
    const Scratch& view() const { return view_; }

private:
    Space space_;
    Scratch view_;
};

}  // namespace hammemo
