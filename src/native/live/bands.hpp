// Rows by bands: what bounds scores that depend on how many examples a label has.
//
// Where a label's count in a row weighs more the rarer the label is, the head of a row sorted by
// count bounds nothing: a small count of a rare label may lead. So labels are put into bands by
// their number of examples, and a row is read band by band, each by falling count: then head and
// band together bound what a label can gain that was not met yet.
//
// This is an index beside the rows, made when it is first needed and shared by the versions that
// follow. `Bands` says which band each label had when they were made. A label whose number of
// examples has left its band since is listed by the version ("moved"), and when many are, the next
// version that is asked makes bands anew. A `RowIndex` is a long row by bands, as it was when it
// was made; the row lists the entries that it has changed since, and when many are, it is made
// anew. A reader bounds what is listed one by one.
//
// An index lies in the page of its row, and goes with it. Where bands are made anew it is replaced
// while others may read it: what was replaced is freed once no thread reads (`Replaced`).
#pragma once

#include <cmath>
#include <limits>
#include <memory>

#include "pages.hpp"

namespace hammemo::live {

// The limits of the bands: single numbers of examples first, then steps of a quarter of an octave;
// fewer than 256.
class BandLimits {
public:
    static const BandLimits& get() {
        static const BandLimits limits;
        return limits;
    }
    uint32_t band_of(uint64_t examples) const {
        const auto after =
            std::upper_bound(first_.begin(), first_.end() - 1, std::max<uint64_t>(examples, 1));
        return uint32_t(after - first_.begin()) - 1;
    }
    // What the labels of a band may have without being moved: a little more than the band itself.
    uint64_t least(uint32_t band) const { return first_[band] - slack(first_[band]); }
    uint64_t most(uint32_t band) const { return first_[band + 1] - 1 + slack(first_[band + 1]); }
    double log_most(uint32_t band) const { return log_most_[band]; }  // of half an example more
    bool fits(uint32_t band, uint64_t examples) const {
        return least(band) <= examples && examples <= most(band);
    }

private:
    BandLimits() {
        // A band ends where the next one begins: at the fourth root of 2 times its own begin.
        double limit = 1;
        while (limit < 0x1p62) {
            first_.push_back(uint64_t(limit));
            limit = std::max(limit + 1, std::floor(limit * 1.189207115));
        }
        first_.push_back(uint64_t(1) << 62);
        for (uint32_t band = 0; band + 1 < first_.size(); ++band) {
            log_most_.push_back(std::log(double(most(band)) + 0.5));
        }
    }
    static uint64_t slack(uint64_t examples) { return 1 + examples / 64; }
    std::vector<uint64_t> first_;  // of each band, and one more
    std::vector<double> log_most_;
};

// Something that several owners hold, the first one from its start.
template <class T>
class Held {
    friend T;
    Held() = default;

public:
    void hold() { owners_.fetch_add(1, std::memory_order_relaxed); }
    void let_go() {
        if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete static_cast<T*>(this);
        }
    }

private:
    std::atomic<uint32_t> owners_{1};
};

struct Moved {
    uint32_t label;
    uint64_t examples;
};

// Which band each label has.
class Bands : public Held<Bands> {
public:
    Bands(size_t n_labels, uint64_t serial) : serial(serial), of_(n_labels, 0) {}
    const uint64_t serial;  // never given twice
    uint32_t of(uint32_t label) const { return label < of_.size() ? of_[label] : 0; }
    bool knows(uint32_t label) const { return label < of_.size(); }
    void set(uint32_t label, uint64_t examples) {
        const uint32_t band = BandLimits::get().band_of(examples);
        of_[label] = uint8_t(band);
        count_ = std::max(count_, band + 1);
    }
    uint32_t count() const { return count_; }

private:
    uint32_t count_ = 1;
    std::vector<uint8_t> of_;
};

struct Listed {
    float count;  // not below the count itself
    uint32_t label;
};

inline float round_up(uint64_t count) {
    const float rounded = float(count);
    return double(rounded) < double(count) || count >> 53
               ? std::nextafter(rounded, std::numeric_limits<float>::infinity())
               : rounded;
}

// The entries of a row by bands, each by falling count.
class RowIndex : public Held<RowIndex> {
public:
    // Each entry of a row of n is given to `use` by each(use), by falling count.
    template <class Each>
    void make(const Bands& bands, size_t n, const Each& each) {
        const uint32_t n_bands = bands.count();
        parts_.assign(n_bands + 2, Part{0, 0});
        if (entries_.size() < n) {
            entries_.resize(n);
        }
        each([&](const auto& entry) { ++parts_[bands.of(entry.label) + 2].start; });
        for (uint32_t band = 2; band < n_bands + 2; ++band) {
            parts_[band].start += parts_[band - 1].start;
        }
        each([&](const auto& entry) {
            const uint32_t band = bands.of(entry.label);
            const Listed listed{round_up(entry.count), entry.label};
            if (parts_[band].head == 0) {
                parts_[band].head = listed.count;
            }
            entries_[parts_[band + 1].start++] = listed;
        });
        serial_ = bands.serial;
    }
    uint64_t serial() const { return serial_; }
    const Listed* begin(uint32_t band) const { return entries_.data() + parts_[band].start; }
    const Listed* end(uint32_t band) const { return entries_.data() + parts_[band + 1].start; }
    float head(uint32_t band) const {
        return parts_[band].head;
    }  // the count of the first entry, 0 where there is none

private:
    uint64_t serial_ = 0;
    struct Part {
        uint32_t start;
        float head;
    };
    std::vector<Part> parts_;
    std::vector<Listed> entries_;
};

// What a page of a long row begins with: its index, and the entries that were changed since it was
// made.
struct Indexed {
    static constexpr uint32_t MAX_CHANGED = 16;
    std::atomic<RowIndex*> index{nullptr};
    uint32_t n_changed = 0;
    Listed changed[MAX_CHANGED];

    Indexed() = default;
    Indexed(const Indexed& other)
        : index(other.index.load(std::memory_order_acquire)), n_changed(other.n_changed) {
        if (RowIndex* row_index = index.load(std::memory_order_relaxed)) {
            row_index->hold();
        }
        std::copy_n(other.changed, n_changed, changed);
    }
    Indexed& operator=(const Indexed&) = delete;

    // An entry has this count now, perhaps zero. Only before the page is published.
    void change(uint32_t label, uint64_t count) {
        if (!index.load(std::memory_order_relaxed)) {
            return;
        }
        uint32_t i = 0;
        while (i < n_changed && changed[i].label != label) {
            ++i;
        }
        if (i == MAX_CHANGED) {
            forget();
            return;
        }
        changed[i] = {round_up(count), label};
        n_changed = std::max(n_changed, i + 1);
    }
    void forget() {
        if (RowIndex* row_index = index.exchange(nullptr)) {
            row_index->let_go();
        }
        n_changed = 0;
    }
};

inline void let_go_of_index(Page* page) noexcept {
    body<Indexed>(page)->forget();
}

// Indexes that were replaced while others may read them, and who reads now.
class Replaced {
    struct Node {
        RowIndex* index;
        Node* next;
    };

public:
    ~Replaced() { free(all_.load()); }

    class Reading {
    public:
        explicit Reading(Replaced& replaced) : replaced_(replaced) {
            replaced_.readers_.fetch_add(1);
        }
        ~Reading() {
            // What is taken here was replaced before now. If no thread reads after this, none can
            // have it.
            Node* taken = replaced_.all_.exchange(nullptr);
            if (replaced_.readers_.fetch_sub(1) == 1) {
                free(taken);
            } else {
                replaced_.push(taken);
            }
        }
        Reading(const Reading&) = delete;
        Reading& operator=(const Reading&) = delete;

    private:
        Replaced& replaced_;
    };

    // Put an index into its page, if `was` is still there; return the one that is there then, made
    // by this thread or by another.
    RowIndex* replace(std::atomic<RowIndex*>& place,
                      RowIndex* was,
                      std::unique_ptr<RowIndex> index) {
        auto node = std::unique_ptr<Node>(was ? new Node{was, nullptr} : nullptr);
        if (!place.compare_exchange_strong(was, index.get())) {
            return was;
        }
        if (node) {
            push(node.release());
        }
        return index.release();
    }

private:
    void push(Node* nodes) {
        if (!nodes) {
            return;
        }
        Node* last = nodes;
        while (last->next) {
            last = last->next;
        }
        last->next = all_.load();
        while (!all_.compare_exchange_weak(last->next, nodes)) {
        }
    }
    static void free(Node* nodes) {
        while (nodes) {
            Node* next = nodes->next;
            nodes->index->let_go();
            delete nodes;
            nodes = next;
        }
    }
    std::atomic<Node*> all_{nullptr};
    std::atomic<int64_t> readers_{0};
};

}  // namespace hammemo::live
