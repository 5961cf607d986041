#include "live_table.hpp"

#include <numeric>

#include "ratio_leaders.hpp"

#ifdef _WIN32
#include <process.h>
#define getpid _getpid
#else
#include <unistd.h>
#endif

namespace hammemo::live {

// Where each label stands among all: places grow with the order. Shared by the versions of a table
// and only ever filled in, at numbers that no earlier version uses; where there is no room between
// two places, all are spread anew elsewhere.
class Ranks {
public:
    explicit Ranks(size_t room) : places_(room) {}
    const uint64_t* places() const { return places_.data(); }
    size_t room() const { return places_.size(); }

    static std::shared_ptr<Ranks> spread(const std::vector<uint32_t>& in_order, size_t room) {
        count_allocation();
        auto ranks = std::make_shared<Ranks>(room);
        const uint64_t step = START / (in_order.size() + 1);
        for (size_t i = 0; i < in_order.size(); ++i) {
            ranks->places_[in_order[i]] = START + i * step;
        }
        return ranks;
    }

    // A place between two labels, 0 where there is none left.
    uint64_t between(int64_t before, int64_t after) const {
        const uint64_t low = before < 0 ? 0 : places_[size_t(before)];
        const uint64_t high = after < 0 ? ~uint64_t(0) : places_[size_t(after)];
        if (high - low < 2) {
            return 0;
        }
        uint64_t gap = (high - low) / 2;
        if (before < 0 && after < 0) {
            return START;
        }
        if (before < 0) {
            return high - std::min(gap, NEXT);  // most labels come at an end: small steps there
        }
        return after < 0 ? low + std::min(gap, NEXT) : low + gap;
    }
    void set(uint32_t label, uint64_t place) { places_[label] = place; }

    std::vector<uint32_t> in_order() const {
        std::vector<uint32_t> labels;
        for (size_t label = 0; label < places_.size(); ++label) {
            if (places_[label]) {
                make_room(labels, 1);
                labels.push_back(uint32_t(label));
            }
        }
        std::sort(labels.begin(), labels.end(), [&](uint32_t a, uint32_t b) {
            return places_[a] < places_[b];
        });
        return labels;
    }

private:
    static constexpr uint64_t START = uint64_t(1) << 62, NEXT = uint64_t(1) << 32;
    std::vector<uint64_t> places_;
};

class Version {
public:
    virtual ~Version() {
        if (Bands* version_bands = bands.load()) {
            version_bands->let_go();
        }
    }
    uint64_t number = 0, examples = 0, n_rows = 0, n_bare = 0, label_stamp = 0;
    std::vector<Page*> roots;  // a trie of rows for each step
    Page* empties = nullptr;   // step -> row of the examples without a token there
    std::shared_ptr<Ranks> ranks;
    std::vector<Page*> held;  // pages that this version needs and the next one alive does not
    std::atomic<bool> in_use{true};
    std::atomic<Bands*> bands{nullptr};  // made by the first thread that needs them
    std::vector<Moved> moved;            // labels that are not in their band any more
};

namespace {

template <class Count>
class Table final : public LiveTable {
    using R = Row<Count>;
    using Rows = Trie<uint64_t, R, 6, 32>;

    struct Made final : Version {
        R labels;  // how many examples each label has
    };
    static const Made& made(const Version* version) { return *static_cast<const Made*>(version); }

public:
    explicit Table(Shape shape) : shape_(std::move(shape)) {}
    ~Table() override {
        for (auto& version : versions_) {
            for (Page* page : version->held) {
                heap_.put(page);
            }
        }
        if (!versions_.empty()) {
            free_younger(*versions_.back(), 0);
        }
    }

    void begin(const std::vector<uint64_t>& label_counts) {
        first_ = std::make_unique<Made>();
        first_->number = 1;
        first_->label_stamp = 1;
        first_->roots.assign(shape_.steps.size(), nullptr);
        making_ = std::make_unique<Making>(heap_, first_->number);
        std::vector<uint32_t> labels(label_counts.size());
        std::iota(labels.begin(), labels.end(), 0U);
        first_->ranks = ranks_ = Ranks::spread(labels, labels.size() + labels.size() / 8 + 64);
        n_labels_ = label_counts.size();
        const uint64_t none = 0;
        const uint32_t id = 0;
        const uint32_t length = uint32_t(labels.size());
        first_->labels =
            built({&none, &id, &length, labels.data(), label_counts.data(), 1, labels.size()},
                  0,
                  length,
                  0);
        first_->examples = first_->labels.n ? first_->labels.total() : 0;
    }

    void fill(uint32_t step, const RowView& rows) override {
        std::vector<typename Rows::Item> items;
        make_room(items, rows.n_rows);
        size_t first = 0;
        for (size_t i = 0; i < rows.n_rows; ++i) {
            const uint32_t id = load_once(rows.ids + i);
            const uint32_t length = load_once(rows.lengths + i);
            if (id >= MAX_ROW_IDS) {
                throw TooWide("the number of rows");
            }
            const R row = built(rows, first, length, id);
            items.push_back({scramble(load_once(rows.keys + i)), row});
            first += length;
            next_row_id_ = std::max(next_row_id_, id + 1);
            first_->n_bare += !row.n;
        }
        if (first != rows.n_entries) {
            throw std::invalid_argument("the rows are shorter than their entries");
        }
        std::sort(
            items.begin(), items.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
        for (size_t i = 1; i < items.size(); ++i) {
            if (items[i].key == items[i - 1].key) {
                throw std::invalid_argument("a key is there twice");
            }
        }
        first_->roots[step] = Rows::build(*making_, items.data(), items.size());
        first_->n_rows += items.size();
    }

    void fill_empty(uint32_t step, const RowView& row) override {
        if (row.n_entries) {
            first_->empties =
                Rows::put(*making_, first_->empties, step, built(row, 0, row.n_entries, 0));
        }
    }

    std::unique_ptr<Handle> finish() override {
        std::vector<Entry<Count>>().swap(entries_);
        auto making = std::move(making_);
        return publish(*making, std::move(first_));
    }

    std::unique_ptr<Handle> edit(Version* from, const Example* examples, size_t n) override {
        Lock lock(*this);
        if (!lock.taken()) {
            return nullptr;
        }
        sweep();
        if (versions_.back().get() != from) {
            return nullptr;
        }
        if (from->number + 1 >= MAX_VERSIONS) {
            throw TooWide("the number of versions");
        }
        const Made& was = made(from);
        count_allocation();
        auto next = std::make_unique<Made>();
        next->number = was.number + 1;
        next->examples = was.examples;
        next->n_rows = was.n_rows;
        next->n_bare = was.n_bare;
        next->label_stamp = was.label_stamp;
        make_room(next->roots, was.roots.size());
        next->roots = was.roots;
        next->empties = was.empties;
        next->labels = was.labels;
        next->ranks = ranks_;
        Replaced::Reading reading(replaced_);  // rows are copied with their indexes
        if (Bands* bands = was.bands.load(std::memory_order_acquire)) {
            make_room(next->moved, was.moved.size() + 1);
            next->moved = was.moved;
            bands->hold();
            next->bands.store(bands);
        }
        Making making(heap_, next->number);
        const uint32_t row_ids = next_row_id_;
        try {
            for (size_t i = 0; i < n; ++i) {
                change(making, *next, examples[i]);
                making.tidy(false);
            }
            return publish(making, std::move(next));
        } catch (...) {
            next_row_id_ = row_ids;
            throw;
        }
    }

    bool place(uint32_t label, int64_t before, int64_t after) override {
        Lock lock(*this);
        if (!lock.taken()) {
            return false;
        }
        auto ranks = ranks_;
        if (label >= ranks->room()) {
            count_allocation();
            auto larger = std::make_shared<Ranks>(label + label / 2 + 64);
            for (size_t i = 0; i < ranks->room(); ++i) {
                larger->set(uint32_t(i), ranks->places()[i]);
            }
            ranks = larger;
        }
        uint64_t place = ranks->between(before, after);
        if (!place) {
            ranks = Ranks::spread(ranks->in_order(), ranks->room());
            place = ranks->between(before, after);
        }
        ranks->set(label, place);
        ranks_ = ranks;
        return true;
    }

    void release(Version* version) noexcept override {
        version->in_use.store(false);
        if (!mutex_.try_lock()) {
            return;  // the thread that edits now sweeps at its end
        }
        sweep();
        mutex_.unlock();
    }

    void leaders(const Version* version,
                 const Query& query,
                 const int64_t* tokens,
                 size_t m,
                 size_t k,
                 int64_t* out) const override {
        const size_t n_sites = shape_.site_steps.size();
        const bool whole = Leaders<Count>::are_whole(query.weights, n_sites);
        Leaders<Count> leaders(n_sites,
                               whole,
                               query.divisor,
                               k,
                               version->ranks->places(),
                               version->ranks->room(),
                               query.most_listed);
        each_context(version, tokens, m, [&](size_t i, const R* const* rows) {
            leaders.find(rows, query.weights, out + i * k);
        });
    }

    void ratio_leaders(const Version* version,
                       const Rule& rule,
                       size_t n_labels,
                       const int64_t* tokens,
                       size_t m,
                       size_t k,
                       int64_t* out,
                       bool* sure) override {
        Replaced::Reading reading(replaced_);
        const Made& from = made(version);
        const RatioView<Count> view{from.labels,
                                    bands_of(from),
                                    from.moved,
                                    version->ranks->places(),
                                    double(version->examples),
                                    n_labels};
        RatioLeaders<Count> leaders(rule, view, replaced_, k);
        each_context(version, tokens, m, [&](size_t i, const R* const* rows) {
            sure[i] = leaders.find(rows, out + i * k);
        });
    }

    RowList read(const Version* version, const int64_t* tokens, size_t m) const override {
        RowList list;
        each_context(version, tokens, m, [&](size_t, const R* const* rows) {
            for (size_t s = 0; s < shape_.site_steps.size(); ++s) {
                append(list, rows[s] ? *rows[s] : R());
            }
        });
        return list;
    }

    void find(const Version* version, const int64_t* tokens, RowRef* rows) const override {
        if (shape_.steps.size() > 1 || shape_.site_steps.size() != 1) {
            each_context(version, tokens, 1, [&](size_t, const R* const* context_rows) {
                for (size_t s = 0; s < shape_.site_steps.size(); ++s) {
                    rows[s] = RowRef(context_rows[s]);
                }
            });
            return;
        }
        const int64_t token = load_once(tokens + shape_.steps[0].position);
        const bool is_token = token >= 0 && token < int64_t(NO_TOKEN);
        rows[0] = RowRef(is_token ? Rows::find(made(version).roots[0], uint64_t(token)) : nullptr);
    }

    RowList rows(const Version* version, uint32_t step) const override {
        RowList list;
        each_row(version, step, [&](uint64_t key, const R& row) {
            list.keys.push_back(key);
            list.ids.push_back(row.id);
            append(list, row);
        });
        return list;
    }
    std::vector<Tally> tallies(const Version* version, uint32_t step) const override {
        std::vector<Tally> tallies;
        each_row(version, step, [&](uint64_t, const R& row) { tallies.push_back(row.tally()); });
        return tallies;
    }
    RowList label_row(const Version* version) const override {
        RowList list;
        append(list, made(version).labels);
        return list;
    }
    RowRef labels(const Version* version) const override { return RowRef(&made(version).labels); }
    bool is_placed(uint32_t label) override {
        Lock lock(*this);
        return lock.taken() && label < ranks_->room() && ranks_->places()[label];
    }
    uint64_t label_count(const Version* version, uint32_t label) const override {
        return made(version).labels.n ? made(version).labels.count_of(label) : 0;
    }
    bool holds(const Version* version, uint32_t token) const override {
        for (uint32_t k = 0; k < shape_.steps.size(); ++k) {
            if (!shape_.steps[k].is_site || shape_.steps[k].parent != NO_STEP) {
                continue;
            }
            const R* row = Rows::find(made(version).roots[k], token);
            if (row && row->n) {
                return true;
            }
        }
        // Only in tuples: there is no shorter way than through all of them, parents first, because
        // a row knows the token that it adds and its parent.
        std::vector<std::vector<uint32_t>> wanted(
            shape_.steps.size());  // rows whose tuple holds the token
        bool is_held = false;
        for (uint32_t k = 0; k < shape_.steps.size() && !is_held; ++k) {
            const Step& step = shape_.steps[k];
            const auto* parents = step.parent == NO_STEP ? nullptr : &wanted[step.parent];
            Rows::walk(
                made(version).roots[k],
                [&](Page*) { return !is_held; },
                [&](Page* page) {
                    if (page->kind != TRIE_LEAF) {
                        return;
                    }
                    for (uint32_t i = 0; i < page->n && !is_held; ++i) {
                        const auto& item = Rows::items(page)[i];
                        const uint64_t key = unscramble(item.key);
                        const bool in_parent =
                            parents && std::binary_search(
                                           parents->begin(), parents->end(), uint32_t(key >> 32));
                        if (uint32_t(key) != token && !in_parent) {
                            continue;
                        }
                        is_held = step.is_site && item.value.n;
                        if (step.has_children) {
                            wanted[k].push_back(item.value.id);
                        }
                    }
                });
            std::sort(wanted[k].begin(), wanted[k].end());
        }
        return is_held;
    }
    uint64_t n_bare(const Version* version) const override { return version->n_bare; }
    uint64_t n_rows(const Version* version) const override { return version->n_rows; }
    uint64_t examples(const Version* version) const override { return version->examples; }
    uint64_t label_stamp(const Version* version) const override { return version->label_stamp; }
    uint64_t bytes() override {
        std::lock_guard<std::mutex> lock(mutex_);
        return heap_.bytes();
    }
    uint64_t pages() override {
        std::lock_guard<std::mutex> lock(mutex_);
        return heap_.pages();
    }
    size_t versions() override {
        std::lock_guard<std::mutex> lock(mutex_);
        sweep();
        return versions_.size();
    }
    const Shape& shape() const override { return shape_; }

private:
    // The right to edit. In a process that was forked in the middle of an edit it is never given
    // back.
    class Lock {
    public:
        explicit Lock(Table& table) : table_(table) {
            if (!table.mutex_.try_lock()) {
                if (table.editor_.load() != long(getpid())) {
                    return;
                }
                table.mutex_.lock();
            }
            table.editor_.store(long(getpid()));
            taken_ = true;
        }
        ~Lock() {
            if (taken_) {
                table_.mutex_.unlock();
            }
        }
        bool taken() const { return taken_; }

    private:
        Table& table_;
        bool taken_ = false;
    };

    // Give `use` the number of each context and the rows that its sites read.
    template <class Use>
    void each_context(const Version* version,
                      const int64_t* tokens,
                      size_t m,
                      const Use& use) const {
        const size_t n_sites = shape_.site_steps.size();
        const size_t n_steps = shape_.steps.size();
        Locator<Count> locator(shape_, made(version).roots.data());
        std::vector<const R*> rows(Locator<Count>::BLOCK * n_steps);
        std::vector<const R*> of_sites(n_sites);
        for (size_t first = 0; first < m; first += Locator<Count>::BLOCK) {
            const size_t part = std::min(m - first, Locator<Count>::BLOCK);
            locator.locate(tokens + first * shape_.h, part, rows.data());
            for (size_t i = 0; i < part; ++i) {
                for (size_t s = 0; s < n_sites; ++s) {
                    of_sites[s] = rows[i * n_steps + shape_.site_steps[s]];
                }
                use(first + i, of_sites.data());
            }
        }
    }

    // use(key, row) for the rows of a step.
    template <class Use>
    static void each_row(const Version* version, uint32_t step, const Use& use) {
        Rows::walk(
            made(version).roots[step],
            [](Page*) { return true; },
            [&](Page* page) {
                if (page->kind != TRIE_LEAF) {
                    return;
                }
                for (uint32_t i = 0; i < page->n; ++i) {
                    use(unscramble(Rows::items(page)[i].key), Rows::items(page)[i].value);
                }
            });
    }

    // The bands of a version's labels, made now if they are not there.
    const Bands& bands_of(const Made& version) {
        auto& place = const_cast<Made&>(version).bands;
        Bands* bands = place.load(std::memory_order_acquire);
        if (bands) {
            return *bands;
        }
        count_allocation();
        auto new_bands = std::make_unique<Bands>(version.ranks->room(), ++last_bands_);
        if (version.labels.n) {
            version.labels.each(
                [&](const Entry<Count>& entry) { new_bands->set(entry.label, entry.count); });
        }
        if (place.compare_exchange_strong(bands, new_bands.get())) {
            return *new_bands.release();
        }
        return *bands;
    }

    // Note that a label has another number of examples.
    static void move(Made& version, uint32_t label) {
        Bands* bands = version.bands.load(std::memory_order_relaxed);
        if (!bands) {
            return;
        }
        const uint64_t examples = version.labels.n ? version.labels.count_of(label) : 0;
        for (Moved& moved : version.moved) {
            if (moved.label == label) {
                moved.examples = examples;
                return;
            }
        }
        if (bands->knows(label) && BandLimits::get().fits(bands->of(label), examples)) {
            return;
        }
        make_room(version.moved, 1);
        version.moved.push_back({label, examples});
        if (version.moved.size() <= MAX_MOVED) {
            return;
        }
        version.moved.clear();
        version.bands.store(nullptr);
        bands->let_go();
    }

    static void append(RowList& list, const R& row) {
        list.lengths.push_back(row.n);
        row.each([&](const Entry<Count>& entry) {
            list.labels.push_back(entry.label);
            list.counts.push_back(entry.count);
        });
    }

    // The entries first .. first + n as a row.
    R built(const RowView& rows, size_t first, size_t n, uint32_t id) {
        if (n > rows.n_entries - first) {
            throw std::invalid_argument("the rows are longer than their entries");
        }
        entries_.clear();
        make_room(entries_, n);
        for (size_t i = first; i < first + n; ++i) {
            const uint64_t count = load_once(rows.counts + i);
            const uint32_t label = load_once(rows.labels + i);
            if (count > uint64_t(Count(-1))) {
                throw TooWide("a count");
            }
            if (!count || label >= n_labels_) {
                throw std::invalid_argument("an entry has no label, or no count");
            }
            if (i > first && label <= entries_.back().label) {
                throw std::invalid_argument("the labels of a row do not rise");
            }
            entries_.push_back({Count(count), label});
        }
        std::sort(entries_.begin(), entries_.end(), Before<Count>{ranks_->places()});
        return R::build(*making_, entries_.data(), n, id);
    }

    // Fetch the pages that a change will touch, all rows in step: it then waits for memory a few
    // times in all, not for each row.
    void fetch(const Made& version, const Example& example) {
        tokens_.assign(example.tokens, example.tokens + shape_.h);
        found_.assign(shape_.steps.size() + 1, nullptr);
        if (!locator_) {
            locator_ = std::make_unique<Locator<Count>>(shape_, nullptr);
        }
        locator_->locate_in(version.roots.data(), tokens_.data(), 1, found_.data());
        found_.back() = &version.labels;
        paths_.clear();
        for (const R* row : found_) {
            if (row && row->is_long()) {
                paths_.push_back({row->as_long()->counts, row->as_long()->ordered, 0});
            }
        }
        const uint32_t at = scramble(example.label);
        for (bool more = true; more;) {
            more = false;
            for (auto& path : paths_) {
                if (path.counts->kind == TRIE_NODE) {
                    path.counts = R::Counts::slots(path.counts)[R::Counts::slot(at, path.shift)];
                    HAMMEMO_PREFETCH(path.counts);
                    path.shift += 5;
                    more = true;
                }
            }
        }
        const Before<Count> before{version.ranks->places()};
        for (auto& path : paths_) {
            const Count* count = R::Counts::find_in(path.counts, at, path.shift);
            path.entry = {count ? *count : Count(1), example.label};
        }
        for (bool more = true; more;) {
            more = false;
            for (auto& path : paths_) {
                if (path.ordered->kind == BRANCH) {
                    path.ordered =
                        R::Order::links(
                            path.ordered)[R::Order::branch_of(path.ordered, path.entry, before)]
                            .page;
                    HAMMEMO_PREFETCH(path.ordered);
                    more = true;
                }
            }
        }
        for (const auto& path : paths_) {
            for (uint32_t i = 0; i < path.ordered->n; i += 8) {
                HAMMEMO_PREFETCH(R::Order::run(path.ordered) + i);
            }
        }
    }

    void change(Making& making, Made& version, const Example& example) {
        fetch(version, example);
        const Before<Count> before{version.ranks->places()};
        const uint32_t n_labels = version.labels.n;
        version.labels.change(making, example.label, example.by, before);
        if (version.labels.n != n_labels) {
            version.label_stamp = ++last_label_stamp_;
        }
        move(version, example.label);
        version.examples += uint64_t(example.by);
        rows_of_.assign(shape_.steps.size(), 0);
        for (uint32_t k = 0; k < shape_.steps.size(); ++k) {
            const Step& step = shape_.steps[k];
            const uint32_t token = example.tokens[step.position];
            const uint32_t parent = step.parent == NO_STEP ? 0 : rows_of_[step.parent];
            if (token == NO_TOKEN || parent == ABSENT) {
                rows_of_[k] = ABSENT;
                if (step.is_site) {
                    change_empty(making, version, before, k, example);
                }
            } else {
                rows_of_[k] =
                    change_row(making, version, before, k, uint64_t(parent) << 32 | token, example);
            }
        }
    }

    uint32_t change_row(Making& making,
                        Made& version,
                        const Before<Count>& before,
                        uint32_t k,
                        uint64_t key,
                        const Example& example) {
        const Step& step = shape_.steps[k];
        const R* stored = Rows::find(version.roots[k], key);
        if (!stored && example.by < 0 && step.is_site) {
            throw Refused("never stored");
        }
        R row;
        if (stored) {
            row = *stored;
        }
        const bool was_bare = stored && !row.n;
        if (!stored) {
            if (step.has_children) {
                row.id = take_row_id();
            }
            ++version.n_rows;
        }
        if (step.is_site) {
            row.change(making, example.label, example.by, before);
        }
        const uint32_t id = row.id;
        version.n_bare += uint64_t(!row.n) - uint64_t(was_bare);
        if (row.n || step.has_children) {
            if (step.is_site || !stored) {
                version.roots[k] = Rows::put(making, version.roots[k], key, row);
            }
        } else {
            version.roots[k] = Rows::remove(making, version.roots[k], key);
            --version.n_rows;
            --version.n_bare;
        }
        return id;
    }

    void change_empty(Making& making,
                      Made& version,
                      const Before<Count>& before,
                      uint32_t k,
                      const Example& example) {
        const R* stored = Rows::find(version.empties, k);
        R row;
        if (stored) {
            row = *stored;
        }
        row.change(making, example.label, example.by, before);
        if (row.n) {
            version.empties = Rows::put(making, version.empties, k, row);
        } else {
            version.empties = Rows::remove(making, version.empties, k);
        }
    }

    uint32_t take_row_id() {
        if (next_row_id_ == MAX_ROW_IDS) {
            throw TooWide("the number of rows");
        }
        return next_row_id_++;
    }

    std::unique_ptr<Handle> publish(Making& making, std::unique_ptr<Made> version) {
        make_room(versions_, 1);
        std::vector<Page*> none;
        auto& to_free = versions_.empty() ? none : versions_.back()->held;
        make_room(to_free, making.old().size());
        count_allocation();
        auto handle = std::make_unique<Handle>(shared_from_this(), version.get());
        // Nothing below can fail.
        making.tidy(true);
        to_free.insert(to_free.end(), making.old().begin(), making.old().end());
        versions_.push_back(std::move(version));
        making.keep();
        sweep();
        return handle;
    }

    // Let go of versions without a handle. The mutex is held.
    void sweep() noexcept {
        give_up_newest();
        size_t left = 0;
        for (size_t i = 0; i + 1 < versions_.size(); ++i) {
            auto& version = versions_[i];
            if (version->in_use.load() ||
                !move_held(*version, left ? versions_[left - 1].get() : nullptr)) {
                if (left != i) {
                    std::swap(versions_[left], version);
                }
                ++left;
            }
        }
        if (versions_.size() > 1 && left + 1 < versions_.size()) {
            std::swap(versions_[left], versions_.back());
            versions_.resize(left + 1);
        }
    }

    // Where the newest version has no handle and an older one has: go back to that one.
    void give_up_newest() noexcept {
        size_t last = versions_.size();
        while (last > 0 && !versions_[last - 1]->in_use.load()) {
            --last;
        }
        if (!last || last == versions_.size()) {
            return;
        }
        const uint64_t limit = versions_[last - 1]->number;
        free_younger(*versions_.back(), limit);
        for (size_t i = last; i < versions_.size(); ++i) {
            for (Page* page : versions_[i]->held) {
                if (page->birth > limit) {
                    heap_.put(page);
                }
            }
        }
        versions_.resize(last);
        versions_.back()->held.clear();  // it needs them all, and is the newest
    }

    // Free the pages of a dead version that no older one alive needs, and hand on the others.
    // False: there is no memory even for their list; later, then.
    bool move_held(Version& version, Version* older) noexcept {
        size_t staying = 0;
        for (Page* page : version.held) {
            staying += older && page->birth <= older->number;
        }
        try {
            if (staying) {
                make_room(older->held, staying);
            }
        } catch (...) {
            return false;
        }
        for (Page* page : version.held) {
            if (older && page->birth <= older->number) {
                older->held.push_back(page);
            } else {
                heap_.put(page);
            }
        }
        version.held.clear();
        return true;
    }

    void free_younger(Made& version, uint64_t limit) noexcept {
        const auto enters = [=](Page* page) { return page->birth > limit; };
        const auto free_page = [this](Page* page) { heap_.put(page); };
        const auto free_rows = [&](Page* page) {
            if (page->kind == TRIE_LEAF) {
                for (uint32_t i = 0; i < page->n; ++i) {
                    Rows::items(page)[i].value.walk(enters, free_page);
                }
            }
            heap_.put(page);
        };
        for (Page* root : version.roots) {
            Rows::walk(root, enters, free_rows);
        }
        Rows::walk(version.empties, enters, free_rows);
        version.labels.walk(enters, free_page);
    }

    static constexpr uint32_t ABSENT = ~0U;
    static constexpr size_t MAX_MOVED = 32;
    const Shape shape_;
    Replaced replaced_;
    std::atomic<uint64_t> last_bands_{0};
    std::mutex mutex_;  // guards all below
    std::atomic<long> editor_{0};
    Heap heap_;
    std::vector<std::unique_ptr<Made>> versions_;  // the oldest first
    std::shared_ptr<Ranks> ranks_;
    uint32_t next_row_id_ = 1;
    // Never given twice: a version that was given up may have been asked for its labels.
    uint64_t last_label_stamp_ = 1;
    std::vector<uint32_t> rows_of_;
    std::unique_ptr<Made> first_;  // while the table is built
    std::unique_ptr<Making> making_;
    size_t n_labels_ = 0;
    std::vector<Entry<Count>> entries_;
    struct Path {
        const Page *counts, *ordered;
        int shift;
        Entry<Count> entry{};
    };
    std::vector<Path> paths_;
    std::vector<int64_t> tokens_;
    std::vector<const R*> found_;
    std::unique_ptr<Locator<Count>> locator_;
};

}  // namespace

std::shared_ptr<LiveTable> LiveTable::start(Shape shape,
                                            bool wide,
                                            const std::vector<uint64_t>& label_counts) {
    const auto begun = [&](auto table) -> std::shared_ptr<LiveTable> {
        table->begin(label_counts);
        return table;
    };
    return wide ? begun(std::make_shared<Table<uint64_t>>(std::move(shape)))
                : begun(std::make_shared<Table<uint32_t>>(std::move(shape)));
}

}  // namespace hammemo::live
