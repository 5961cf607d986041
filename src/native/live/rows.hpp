// Rows of a count table: (label, count) by falling count, then in the order of the labels.
//
// A row of one entry lies inside its owner; up to 64 entries are one sorted run; longer rows have a
// B+ tree in that order and a trie from label to count. Labels are known by numbers that never
// change; their order is that of `ranks`, an array with a 64-bit place for each number, so that a
// new label can come between two others and no row changes.
#pragma once

#include "bands.hpp"
#include "trie.hpp"

namespace hammemo::live {

struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};
// A count does not fit: the table must be made again with wider ones.
struct TooWide : std::runtime_error {
    using std::runtime_error::runtime_error;
};

constexpr uint32_t MAX_IN_PAGE = 64, FILLED = 56;  // entries of a run, links of a branch

template <class Count>
struct Entry {
    Count count;
    uint32_t label;
};

// Which of two entries comes first.
template <class Count>
struct Before {
    const uint64_t* ranks;
    bool operator()(const Entry<Count>& a, const Entry<Count>& b) const {
        return a.count != b.count ? a.count > b.count : ranks[a.label] < ranks[b.label];
    }
};

template <class Count>
struct Ordered {  // the B+ tree; pages have the size they need
    using E = Entry<Count>;
    using B = Before<Count>;
    struct Link {
        E first;
        Page* page;
    };

    static E* run(const Page* page) { return body<E>(page); }
    static Link* links(const Page* page) { return body<Link>(page); }
    static size_t item_bytes(const Page* page) {
        return page->kind == RUN ? sizeof(E) : sizeof(Link);
    }
    static const E& first_of(const Page* page) {
        return page->kind == RUN ? run(page)[0] : links(page)[0].first;
    }
    static Page* make_run(Making& making, uint32_t n) { return making.make(n * sizeof(E), RUN, n); }
    static Page* make_branch(Making& making, uint32_t n) {
        return making.make(n * sizeof(Link), BRANCH, n);
    }

    static Page* first_run(Page* page) {
        while (page->kind == BRANCH) {
            page = links(page)[0].page;
        }
        return page;
    }
    static uint32_t branch_of(const Page* page, const E& entry, const B& before) {
        const Link* a = links(page);
        uint32_t low = 0;
        uint32_t high = page->n;
        while (high - low > 1) {
            const uint32_t middle = (low + high) / 2;
            if (before(entry, a[middle].first)) {
                high = middle;
            } else {
                low = middle;
            }
        }
        return low;
    }

    static Page* put(Making& making, Page* page, const E& entry, const B& before) {
        Page* right = nullptr;
        page = put(making, page, entry, before, right);
        if (!right) {
            return page;
        }
        Page* root = make_branch(making, 2);
        links(root)[0] = {first_of(page), page};
        links(root)[1] = {first_of(right), right};
        return root;
    }

    // The entry is there. Returns no page where it was the last one.
    static Page* remove(Making& making, Page* page, const E& entry, const B& before) {
        page = without(making, page, entry, before);
        while (page && page->kind == BRANCH && page->n == 1) {
            Page* only = links(page)[0].page;
            making.drop(page);
            page = only;
        }
        return page;
    }

    // From sorted entries, n > 0.
    static Page* build(Making& making, const E* entries, size_t n) {
        std::vector<Link> links_above;
        make_room(links_above, n / FILLED + 1);
        for (size_t i = 0, parts = (n + FILLED - 1) / FILLED; i < parts; ++i) {
            const size_t first = n * i / parts;
            const size_t last = n * (i + 1) / parts;
            Page* page = make_run(making, uint32_t(last - first));
            std::copy(entries + first, entries + last, run(page));
            links_above.push_back({entries[first], page});
        }
        while (links_above.size() > 1) {
            std::vector<Link> next;
            const size_t m = links_above.size();
            const size_t parts = (m + FILLED - 1) / FILLED;
            make_room(next, parts);
            for (size_t i = 0; i < parts; ++i) {
                const size_t first = m * i / parts;
                const size_t last = m * (i + 1) / parts;
                Page* page = make_branch(making, uint32_t(last - first));
                std::copy(links_above.begin() + long(first),
                          links_above.begin() + long(last),
                          links(page));
                next.push_back({links_above[first].first, page});
            }
            links_above.swap(next);
        }
        return links_above[0].page;
    }

    template <class Enters, class Use>
    static void walk(Page* page, const Enters& enters, const Use& use) {
        if (!enters(page)) {
            return;
        }
        if (page->kind == BRANCH) {
            for (uint32_t i = 0, n = page->n; i < n; ++i) {
                walk(links(page)[i].page, enters, use);
            }
        }
        use(page);
    }

private:
    static Page* put(Making& making, Page* page, const E& entry, const B& before, Page*& right) {
        return page->kind == RUN ? put_in_run(making, page, entry, before, right)
                                 : put_in_branch(making, page, entry, before, right);
    }

    // The items as one page or, where they do not fit into one, as two.
    template <class Item>
    static Page* in_pages(Making& making, Kind kind, const Item* all, uint32_t n, Page*& right) {
        const uint32_t left = n > MAX_IN_PAGE ? n / 2 : n;
        Page* first = making.make(left * sizeof(Item), kind, left);
        std::copy_n(all, left, body<Item>(first));
        if (left < n) {
            right = making.make((n - left) * sizeof(Item), kind, n - left);
            std::copy_n(all + left, n - left, body<Item>(right));
        }
        return first;
    }

    static Page* put_in_run(Making& making,
                            Page* page,
                            const E& entry,
                            const B& before,
                            Page*& right) {
        const uint32_t n = page->n;
        const uint32_t i =
            uint32_t(std::lower_bound(run(page), run(page) + n, entry, before) - run(page));
        if (n < MAX_IN_PAGE && making.fits(page, (n + 1) * sizeof(E))) {
            std::copy_backward(run(page) + i, run(page) + n, run(page) + n + 1);
            run(page)[i] = entry;
            page->n = n + 1;
            return page;
        }
        E all[MAX_IN_PAGE + 1];
        std::copy_n(run(page), i, all);
        all[i] = entry;
        std::copy_n(run(page) + i, n - i, all + i + 1);
        making.drop(page);
        return in_pages(making, RUN, all, n + 1, right);
    }

    static Page* put_in_branch(Making& making,
                               Page* page,
                               const E& entry,
                               const B& before,
                               Page*& right) {
        uint32_t n = page->n;
        const uint32_t i = branch_of(page, entry, before);
        Page* split = nullptr;
        Page* next = put(making, links(page)[i].page, entry, before, split);
        if (!split) {
            page = making.own(page, n * sizeof(Link));
            links(page)[i] = {first_of(next), next};
            return page;
        }
        Link all[MAX_IN_PAGE + 1];
        std::copy_n(links(page), i, all);
        all[i] = {first_of(next), next};
        all[i + 1] = {first_of(split), split};
        std::copy_n(links(page) + i + 1, n - i - 1, all + i + 2);
        making.drop(page);
        return in_pages(making, BRANCH, all, n + 1, right);
    }

    static Page* without(Making& making, Page* page, const E& entry, const B& before) {
        return page->kind == RUN ? run_without(making, page, entry, before)
                                 : branch_without(making, page, entry, before);
    }

    static Page* run_without(Making& making, Page* page, const E& entry, const B& before) {
        const uint32_t n = page->n;
        if (n == 1) {
            making.drop(page);
            return nullptr;
        }
        const uint32_t i =
            uint32_t(std::lower_bound(run(page), run(page) + n, entry, before) - run(page));
        if (making.is_own(page)) {
            std::copy(run(page) + i + 1, run(page) + n, run(page) + i);
            page->n = n - 1;
            return page;
        }
        Page* less = make_run(
            making, n);  // one place to spare: most changes put the label back into this run
        less->n = n - 1;
        std::copy_n(run(page), i, run(less));
        std::copy_n(run(page) + i + 1, n - 1 - i, run(less) + i);
        making.drop(page);
        return less;
    }

    static Page* branch_without(Making& making, Page* page, const E& entry, const B& before) {
        uint32_t n = page->n;
        const uint32_t i = branch_of(page, entry, before);
        Page* next = without(making, links(page)[i].page, entry, before);
        Link all[MAX_IN_PAGE];
        std::copy_n(links(page), n, all);
        uint32_t gone = i;
        if (next) {
            all[i] = {first_of(next), next};
            gone = join_neighbours(making, all, n, i);
        }
        if (gone == n) {
            page = making.own(page, n * sizeof(Link));
            links(page)[i] = all[i];
            return page;
        }
        std::copy(all + gone + 1, all + n, all + gone);
        --n;
        making.drop(page);
        if (!n) {
            return nullptr;
        }
        Page* less = make_branch(making, n);
        std::copy_n(all, n, links(less));
        return less;
    }

    // Join what is at i with a neighbour if both are small; return which link is gone, or n.
    static uint32_t join_neighbours(Making& making, Link* all, uint32_t n, uint32_t i) {
        for (uint32_t j = i ? i - 1 : i; j <= i && j + 1 < n; ++j) {
            Page* left = all[j].page;
            Page* right = all[j + 1].page;
            const uint32_t m = left->n + right->n;
            if (m > 3 * MAX_IN_PAGE / 4) {
                continue;
            }
            Page* both = left->kind == RUN ? make_run(making, m) : make_branch(making, m);
            const size_t bytes = item_bytes(left);
            std::memcpy(body<char>(both), body<char>(left), bytes * left->n);
            std::memcpy(body<char>(both) + bytes * left->n, body<char>(right), bytes * right->n);
            making.drop(left);
            making.drop(right);
            all[j].page = both;
            return j + 1;
        }
        return n;
    }
};

// What the entries of a row add up to, and how many have the count one or two.
struct Tally {
    uint64_t total = 0;  // below 2^53, as all examples are: `check_total` comes before every edit
    uint32_t ones = 0, twos = 0;
    void add(uint64_t count) {
        total += count;
        ones += count == 1;
        twos += count == 2;
    }
    void remove(uint64_t count) {
        total -= count;
        ones -= count == 1;
        twos -= count == 2;
    }
};

template <class Count>
struct LongRow : Indexed {
    Tally tally;
    Page *ordered = nullptr, *counts = nullptr,
         *first = nullptr;  // `first`: the first run of `ordered`
};

template <class Count>
struct Row {
    using E = Entry<Count>;
    using Order = Ordered<Count>;
    using Counts = Trie<uint32_t, Count, 5, 64>;
    using Long = LongRow<Count>;

    uint32_t id = 0, n = 0;  // n: how many entries
    union {
        E one;       // n = 1
        Page* page;  // else a run, or a long row
    };
    Row() : page(nullptr) {}

    bool is_long() const { return n > 1 && page->kind == LONG_ROW; }
    Long* as_long() const { return body<Long>(page); }
    const E* run() const { return n == 1 ? &one : Order::run(page); }  // not of a long row

    Count count_of(uint32_t label) const {
        if (is_long()) {
            const Count* count = Counts::find(as_long()->counts, label);
            return count ? *count : 0;
        }
        const E* a = run();
        for (uint32_t i = 0; i < n; ++i) {
            if (a[i].label == label) {
                return a[i].count;
            }
        }
        return 0;
    }

    Tally tally() const {
        if (is_long()) {
            return as_long()->tally;
        }
        Tally tally;
        for (uint32_t i = 0; i < n; ++i) {
            tally.add(run()[i].count);
        }
        return tally;
    }
    uint64_t total() const { return tally().total; }

    // Sorted entries, n of them.
    static Row build(Making& making, const E* entries, size_t n, uint32_t id) {
        Row row;
        row.id = id;
        row.n = uint32_t(n);
        if (n == 1) {
            row.one = entries[0];
        } else if (n <= MAX_IN_PAGE && n) {
            row.page = Order::make_run(making, uint32_t(n));
            std::copy_n(entries, n, Order::run(row.page));
        } else if (n) {
            row.page = making.make(sizeof(Long), LONG_ROW, 0);
            Long& long_row = *new (body<Long>(row.page)) Long;
            long_row.ordered = Order::build(making, entries, n);
            long_row.first = Order::first_run(long_row.ordered);
            std::vector<typename Counts::Item> items;
            make_room(items, n);
            for (size_t i = 0; i < n; ++i) {
                long_row.tally.add(entries[i].count);
                items.push_back({scramble(entries[i].label), entries[i].count});
            }
            std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
                return a.key < b.key;
            });
            long_row.counts = Counts::build(making, items.data(), n);
        }
        return row;
    }

    // Add to the count of a label, or subtract from it.
    void change(Making& making, uint32_t label, int64_t by, const Before<Count>& before) {
        const Count had = n ? count_of(label) : 0;
        if (by < 0 && had < uint64_t(-by)) {
            throw Refused("never stored");
        }
        const uint64_t sum = uint64_t(had) + uint64_t(by);
        if (sum > uint64_t(Count(-1))) {
            throw TooWide("a count");
        }
        const Count has = Count(sum);
        if (is_long()) {
            change_long(making, {had, label}, {has, label}, before);
        } else {
            change_short(making, {had, label}, {has, label}, before);
        }
    }

    template <class Enters, class Use>
    void walk(const Enters& enters, const Use& use) const {
        if (n < 2 || !enters(page)) {
            return;
        }
        if (page->kind == LONG_ROW) {
            Order::walk(as_long()->ordered, enters, use);
            Counts::walk(as_long()->counts, enters, use);
        }
        use(page);
    }

    template <class Use>
    void each(const Use& use) const;

private:
    void change_short(Making& making, const E& had, const E& has, const Before<Count>& before) {
        E all[MAX_IN_PAGE + 1];
        uint32_t m = 0;
        bool placed = !has.count;
        for (uint32_t i = 0; i < n; ++i) {
            const E& entry = run()[i];
            if (entry.label == had.label) {
                continue;
            }
            if (!placed && before(has, entry)) {
                all[m++] = has;
                placed = true;
            }
            all[m++] = entry;
        }
        if (!placed) {
            all[m++] = has;
        }
        if (n > 1) {
            if (m > 1 && m <= MAX_IN_PAGE && making.fits(page, m * sizeof(E))) {
                std::copy_n(all, m, Order::run(page));
                page->n = m;
                n = m;
                return;
            }
            making.drop(page);
        }
        *this = build(making, all, m, id);
    }

    void change_long(Making& making, const E& had, const E& has, const Before<Count>& before) {
        if (!making.is_own(page)) {
            Page* copy = making.make(sizeof(Long), LONG_ROW, 0);
            new (body<Long>(copy)) Long(*as_long());
            making.drop(page);
            page = copy;
        }
        Long* row = as_long();
        row->change(has.label, has.count);
        n += uint32_t(!had.count) - uint32_t(!has.count);
        row->tally.remove(had.count);
        row->tally.add(has.count);
        if (had.count) {
            row->ordered = Order::remove(making, row->ordered, had, before);
        }
        if (has.count) {
            row->ordered = Order::put(making, row->ordered, has, before);
            row->counts = Counts::put(making, row->counts, has.label, has.count);
        } else {
            row->counts = Counts::remove(making, row->counts, had.label);
        }
        row->first = Order::first_run(row->ordered);
        if (n > MAX_IN_PAGE / 2) {
            return;
        }
        E all[MAX_IN_PAGE];
        uint32_t m = 0;
        each([&](const E& entry) { all[m++] = entry; });
        walk([](Page*) { return true; }, [&](Page* gone) { making.drop(gone); });
        *this = build(making, all, m, id);
    }
};

// Reads the entries of a row of more than one entry in their order.
template <class Count>
class Cursor {
    using Order = Ordered<Count>;

public:
    Cursor() = default;
    explicit Cursor(const Row<Count>& row) {
        const Page* first = row.is_long() ? row.as_long()->first : row.page;
        root_ = row.is_long() ? row.as_long()->ordered : nullptr;
        set(first);
    }
    const Entry<Count>& operator*() const { return *at_; }
    bool next() { return ++at_ < end_ || next_run(); }

private:
    void set(const Page* run) {
        at_ = Order::run(run);
        end_ = at_ + run->n;
    }
    void down(const Page* page) {
        while (page->kind == BRANCH) {
            path_[depth_++] = {page, 0};
            page = Order::links(page)[0].page;
        }
        set(page);
    }
    bool next_run() {
        if (root_) {
            down(root_);
            root_ = nullptr;  // the path is made when the first run ends
        }
        while (depth_) {
            auto& step = path_[depth_ - 1];
            if (++step.i < step.page->n) {
                down(Order::links(step.page)[step.i].page);
                return true;
            }
            --depth_;
        }
        return false;
    }

    struct Step {
        const Page* page;
        uint32_t i;
    };
    const Entry<Count>*at_ = nullptr, *end_ = nullptr;
    const Page* root_ = nullptr;
    Step path_[16];  // a branch has at least two links: joined when small, see `join_neighbours`
    int depth_ = 0;
};

template <class Count>
template <class Use>
void Row<Count>::each(const Use& use) const {
    if (!n) {
        return;
    }
    if (!is_long()) {
        for (uint32_t i = 0; i < n; ++i) {
            use(run()[i]);
        }
        return;
    }
    Cursor<Count> at(*this);
    do {
        use(*at);
    } while (at.next());
}

// A row of a version, whatever the width of its counts; or none. It stays as long as the version.
class RowRef {
public:
    RowRef() = default;
    explicit RowRef(const Row<uint32_t>* row) : narrow_(row) {}
    explicit RowRef(const Row<uint64_t>* row) : wide_(row) {}

    uint32_t n() const {
        if (narrow_) {
            return narrow_->n;
        }
        return wide_ ? wide_->n : 0;
    }
    Tally tally() const {
        if (narrow_) {
            return narrow_->tally();
        }
        return wide_ ? wide_->tally() : Tally();
    }
    uint64_t count_of(uint32_t label) const {
        if (!n()) {
            return 0;
        }
        return narrow_ ? uint64_t(narrow_->count_of(label)) : wide_->count_of(label);
    }
    // use(label, count) for each entry, by falling count.
    template <class Use>
    void each(const Use& use) const {
        const auto give = [&](const auto& entry) { use(entry.label, uint64_t(entry.count)); };
        if (narrow_) {
            narrow_->each(give);
        }
        if (wide_) {
            wide_->each(give);
        }
    }

private:
    friend class RowCursor;
    const Row<uint32_t>* narrow_ = nullptr;
    const Row<uint64_t>* wide_ = nullptr;
};

// Reads such a row from its top.
class RowCursor {
public:
    explicit RowCursor(const RowRef& row) : is_wide_(row.wide_), is_at_end_(!row.n()) {
        if (row.n() == 1) {
            set(row.narrow_ ? Entry<uint64_t>{row.narrow_->one.count, row.narrow_->one.label}
                            : row.wide_->one);
        } else if (row.n()) {
            has_more_ = true;
            if (is_wide_) {
                set(*(wide_ = Cursor<uint64_t>(*row.wide_)));
            } else {
                set(*(narrow_ = Cursor<uint32_t>(*row.narrow_)));
            }
        }
    }
    bool is_at_end() const { return is_at_end_; }
    uint32_t label() const { return at_.label; }
    uint64_t count() const { return is_at_end_ ? 0 : at_.count; }
    void next() {
        is_at_end_ = !has_more_ || !(is_wide_ ? wide_.next() : narrow_.next());
        if (is_at_end_) {
            return;
        }
        if (is_wide_) {
            set(*wide_);
        } else {
            set(*narrow_);
        }
    }

private:
    template <class E>
    void set(const E& entry) {
        at_ = {entry.count, entry.label};
    }
    bool is_wide_, is_at_end_, has_more_ = false;
    Entry<uint64_t> at_{};
    Cursor<uint32_t> narrow_;
    Cursor<uint64_t> wide_;
};

}  // namespace hammemo::live
