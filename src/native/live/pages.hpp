// Pages of a structure that is kept in versions.
//
// A page never changes once the version that made it is published; `birth` is the number of that
// version. While a version is being made, its own pages may be changed in place, so that a batch of
// edits copies each page once. A page is never older than the pages it leads to.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <vector>

namespace hammemo::live {

// For tests: the n-th allocation from now fails. Negative: none does.
inline std::atomic<int64_t> allocations_left{-1};

inline void count_allocation() {
    if (allocations_left.load(std::memory_order_relaxed) >= 0 &&
        allocations_left.fetch_sub(1) == 0) {
        throw std::bad_alloc();
    }
}

// The only way in which vectors grow here.
template <class T>
void make_room(std::vector<T>& items, size_t more) {
    if (items.capacity() - items.size() >= more) {
        return;
    }
    count_allocation();
    items.reserve(std::max(2 * items.capacity(), items.size() + more));
}

enum Kind : uint8_t { TRIE_LEAF, TRIE_NODE, RUN, BRANCH, LONG_ROW, REPLACED };

struct Page {
    uint64_t birth : 40, kind : 4, depth : 4, n : 7,
        units : 9;  // the body has room for 16 * units bytes
};
static_assert(sizeof(Page) == 8);
constexpr uint64_t MAX_VERSIONS = uint64_t(1) << 40;

template <class T>
T* body(const Page* page) {
    return reinterpret_cast<T*>(const_cast<Page*>(page) + 1);
}

inline void let_go_of_index(Page* page) noexcept;  // of a long row: see bands.hpp

// Blocks for pages. A few freed ones of each size are kept: an edit frees about what the next one
// needs.
class Heap {
public:
    Heap() = default;
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;
    ~Heap() {
        for (Kept* kept : kept_) {
            while (kept) {
                Kept* next = kept->next;
                std::free(kept);
                kept = next;
            }
        }
    }

    Page* get(size_t body_bytes) {
        count_allocation();
        const size_t units = std::max<size_t>((body_bytes + 15) / 16, 1);
        void* block;
        if (units < SIZES && kept_[units]) {
            block = kept_[units];
            kept_[units] = kept_[units]->next;
            --n_kept_[units];
        } else {
            block = std::malloc(sizeof(Page) + 16 * units);
            if (!block) {
                throw std::bad_alloc();
            }
        }
        bytes_ += 16 + 16 * units;
        ++pages_;
        auto* page = static_cast<Page*>(block);
        page->units = units;
        return page;
    }

    void put(Page* page) noexcept {
        if (page->kind == LONG_ROW) {
            let_go_of_index(page);
        }
        const size_t units = page->units;
        bytes_ -= 16 + 16 * units;
        --pages_;
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // sanitizers are to see every block go
        if (units < SIZES && n_kept_[units] < MAX_KEPT) {
            auto* kept = reinterpret_cast<Kept*>(page);
            kept->next = kept_[units];
            kept_[units] = kept;
            ++n_kept_[units];
            return;
        }
#endif
        std::free(page);
    }

    uint64_t bytes() const { return bytes_; }
    uint64_t pages() const { return pages_; }

private:
    struct Kept {
        Kept* next;
    };
    static constexpr size_t SIZES = 72;
    static constexpr uint32_t MAX_KEPT = 64;
    Kept* kept_[SIZES] = {};
    uint32_t n_kept_[SIZES] = {};
    uint64_t bytes_ = 0, pages_ = 0;
};

// The making of one version: what it made, and which pages of earlier versions it no longer needs.
class Making {
public:
    Making(Heap& heap, uint64_t version) : version(version), heap_(heap) {}
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;
    ~Making() {
        if (!kept_) {
            for (Page* page : fresh_) {
                heap_.put(page);
            }
        }
    }

    const uint64_t version;

    Page* make(size_t body_bytes, Kind kind, uint32_t n, uint32_t depth = 0) {
        make_room(fresh_, 1);
        Page* page = heap_.get(body_bytes);
        fresh_.push_back(page);
        page->birth = version;
        page->kind = kind;
        page->depth = depth;
        page->n = n;
        return page;
    }

    bool is_own(const Page* page) const { return page->birth == version; }
    bool fits(const Page* page, size_t body_bytes) const {
        return is_own(page) && 16 * size_t(page->units) >= body_bytes;
    }

    // A page that may be changed: this one, or a copy in its place.
    Page* own(Page* page, size_t body_bytes) {
        if (is_own(page)) {
            return page;
        }
        Page* copy = make(body_bytes, Kind(page->kind), page->n, page->depth);
        std::memcpy(body<char>(copy), body<char>(page), body_bytes);
        drop(page);
        return copy;
    }

    void drop(Page* page) {
        if (is_own(page)) {
            if (page->kind == LONG_ROW) {
                let_go_of_index(page);
            }
            page->kind = REPLACED;
            ++n_replaced_;
        } else {
            make_room(old_, 1);
            old_.push_back(page);
        }
    }

    // Free what this making itself made and replaced: now and then in a long batch, and at its end.
    void tidy(bool all) noexcept {
        if (!n_replaced_ || (!all && (n_replaced_ < 4096 || 2 * n_replaced_ < fresh_.size()))) {
            return;
        }
        size_t left = 0;
        for (Page* page : fresh_) {
            if (page->kind == REPLACED) {
                heap_.put(page);
            } else {
                fresh_[left++] = page;
            }
        }
        fresh_.resize(left);
        n_replaced_ = 0;
    }

    const std::vector<Page*>& old() const { return old_; }
    void keep() noexcept { kept_ = true; }  // after this, what was made belongs to the version

private:
    Heap& heap_;
    std::vector<Page*> fresh_, old_;
    size_t n_replaced_ = 0;
    bool kept_ = false;
};

}  // namespace hammemo::live
