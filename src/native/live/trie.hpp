// A map from numbers to values in versions: a hash trie whose leaves cover 1, 2, 4, ... slots of
// their node.
//
// Keys are kept scrambled. That is a bijection, so the key itself decides and no two keys are
// confused; a leaf is sorted by scrambled keys and searched from the place where the key is to be
// expected; and at most 11 levels are needed (7 for 32-bit keys), whatever keys an enemy chooses.
#pragma once

#include "../hashes.hpp"
#include "pages.hpp"

namespace hammemo::live {

template <class Key, class Value, int BITS, uint32_t MOST>
struct Trie {
    static constexpr uint32_t FAN = 1U << BITS, WIDTH = 8 * sizeof(Key), NEAR = 12;
    struct Item {
        Key key;
        Value value;
    };

    static Item* items(const Page* leaf) { return body<Item>(leaf); }
    static Page** slots(const Page* node) { return body<Page*>(node); }
    static size_t body_bytes(const Page* page) {
        return page->kind == TRIE_NODE ? FAN * sizeof(Page*) : page->n * sizeof(Item);
    }

    // The slot of a scrambled key in a node whose path has used `shift` bits.
    static uint32_t slot(Key key, int shift) {
        return shift < int(WIDTH) ? uint32_t(Key(key << shift) >> (WIDTH - BITS)) : 0;
    }

    static const Value* find(const Page* page, Key key) {
        if (!page) {
            return nullptr;
        }
        const Key at = scramble(key);
        int shift = 0;
        for (; page->kind == TRIE_NODE; shift += BITS) {
            page = slots(page)[slot(at, shift)];
        }
        return find_in(page, at, shift);
    }

    // In a leaf below `shift` bits of path.
    static const Value* find_in(const Page* leaf, Key at, int shift) {
        const int shared = shared_bits(leaf, shift);
        // A few neighbours of the guess without a branch on each.
        if (sizeof(Item) == 8 && leaf->n >= NEAR) {
            const uint32_t guess = guess_place(leaf, at, shared);
            const uint32_t first =
                std::min(guess < NEAR / 2 ? 0 : guess - NEAR / 2, uint32_t(leaf->n) - NEAR);
            const Item* near = items(leaf) + first;
            uint32_t hit = NEAR;
            for (uint32_t i = 0; i < NEAR; ++i) {
                hit = near[i].key == at ? i : hit;
            }
            if (hit < NEAR) {
                return &near[hit].value;
            }
            if ((!first || near[0].key < at) &&
                (first + NEAR == leaf->n || at < near[NEAR - 1].key)) {
                return nullptr;
            }
        }
        const uint32_t i = place(leaf, at, shared);
        return holds(leaf, i, at) ? &items(leaf)[i].value : nullptr;
    }

    // Where the look-up of a scrambled key in a leaf starts; for fetching memory ahead.
    static const Item* expect_at(const Page* leaf, Key at, int shift) {
        return items(leaf) + guess_place(leaf, at, shared_bits(leaf, shift));
    }

    static Page* put(Making& making, Page* page, Key key, const Value& value) {
        const Key at = scramble(key);
        if (!page) {
            page = making.make(sizeof(Item), TRIE_LEAF, 1);
            items(page)[0] = {at, value};
            return page;
        }
        if (page->kind == TRIE_LEAF) {  // only the root
            if (Page* leaf = put_in_leaf(making, page, at, 0, value)) {
                return leaf;
            }
            page = spread(making, page);
        }
        return put_below(making, page, at, 0, value);
    }

    // From items with scrambled keys in rising order.
    static Page* build(Making& making, const Item* items_in_order, size_t n) {
        if (!n) {
            return nullptr;
        }
        return n <= MOST ? fill_leaf(making, items_in_order, n, 0)
                         : build_node(making, items_in_order, n, 0);
    }

    // The key is there.
    static Page* remove(Making& making, Page* page, Key key) {
        page = remove_below(making, page, scramble(key), 0);
        if (page->kind != TRIE_LEAF || page->n) {
            return page;
        }
        making.drop(page);
        return nullptr;
    }

    // Every page once, after the pages it leads to, if `enters(page)`; `use` may free it.
    template <class Enters, class Use>
    static void walk(Page* page, const Enters& enters, const Use& use) {
        if (!page || !enters(page)) {
            return;
        }
        if (page->kind == TRIE_NODE) {
            Page* last = nullptr;
            for (uint32_t i = 0; i < FAN; ++i) {
                if (Page* next = slots(page)[i]; next != last) {
                    walk(last = next, enters, use);
                }
            }
        }
        use(page);
    }

private:
    static int shared_bits(const Page* leaf, int shift) {
        return shift ? shift - BITS + int(leaf->depth) : 0;
    }
    static uint32_t guess_place(const Page* leaf, Key at, int shared) {
        const Key rest = shared < int(WIDTH) ? Key(at << shared) : Key(0);
        return uint32_t(uint64_t(uint32_t(rest >> (WIDTH - 32))) * leaf->n >> 32);
    }
    // The first item that is not below the key.
    static uint32_t place(const Page* leaf, Key at, int shared) {
        const Item* a = items(leaf);
        const uint32_t n = leaf->n;
        if (!n) {
            return 0;
        }
        uint32_t i = guess_place(leaf, at, shared);
        if (a[i].key < at) {
            do {
                ++i;
            } while (i < n && a[i].key < at);
        } else {
            while (i && a[i - 1].key >= at) {
                --i;
            }
        }
        return i;
    }
    static bool holds(const Page* leaf, uint32_t i, Key at) {
        return i < leaf->n && items(leaf)[i].key == at;
    }

    static Page* make_leaf(Making& making, uint32_t n, uint32_t depth) {
        return making.make(n * sizeof(Item), TRIE_LEAF, n, depth);
    }
    static void copy_items(const Item* from, size_t n, Item* to) {
        std::memmove(static_cast<void*>(to), static_cast<const void*>(from), n * sizeof(Item));
    }
    static Page* fill_leaf(Making& making, const Item* from, size_t n, uint32_t depth) {
        Page* leaf = make_leaf(making, uint32_t(n), depth);
        copy_items(from, n, items(leaf));
        return leaf;
    }
    static Page* build_node(Making& making, const Item* from, size_t n, int shift) {
        Page* node = making.make(FAN * sizeof(Page*), TRIE_NODE, 0);
        build_part(making, node, from, n, shift, 0, 0);
        return node;
    }
    // The part of a node from slot `base` on that has these items, which share `depth` bits of
    // their slot.
    static void build_part(Making& making,
                           Page* node,
                           const Item* from,
                           size_t n,
                           int shift,
                           uint32_t depth,
                           uint32_t base) {
        if (n <= MOST) {
            cover(node, base, depth, fill_leaf(making, from, n, depth));
        } else if (depth == BITS) {
            slots(node)[base] = build_node(making, from, n, shift + BITS);
        } else {
            const uint32_t half = base + (FAN >> (depth + 1));
            const Item* middle = std::partition_point(
                from, from + n, [=](const Item& i) { return slot(i.key, shift) < half; });
            build_part(making, node, from, size_t(middle - from), shift, depth + 1, base);
            build_part(making, node, middle, size_t(from + n - middle), shift, depth + 1, half);
        }
    }
    // Let all slots of the part of a node that a leaf of this depth covers lead to it.
    static void cover(Page* node, uint32_t i, uint32_t depth, Page* leaf) {
        const uint32_t size = FAN >> depth;
        std::fill_n(slots(node) + (i & ~(size - 1)), size, leaf);
    }

    static Page* put_in_leaf(Making& making, Page* leaf, Key at, int shared, const Value& value) {
        const uint32_t i = place(leaf, at, shared);
        const uint32_t n = leaf->n;
        if (holds(leaf, i, at)) {
            leaf = making.own(leaf, body_bytes(leaf));
            items(leaf)[i].value = value;
            return leaf;
        }
        if (n == MOST) {
            return nullptr;
        }
        if (making.fits(leaf, (n + 1) * sizeof(Item))) {
            copy_items(items(leaf) + i, n - i, items(leaf) + i + 1);
            items(leaf)[i] = {at, value};
            leaf->n = n + 1;
            return leaf;
        }
        Page* larger = make_leaf(making, n + 1, leaf->depth);
        copy_items(items(leaf), i, items(larger));
        items(larger)[i] = {at, value};
        copy_items(items(leaf) + i, n - i, items(larger) + i + 1);
        making.drop(leaf);
        return larger;
    }

    // A node all of whose slots lead to this leaf.
    static Page* spread(Making& making, Page* leaf) {
        Page* node = making.make(FAN * sizeof(Page*), TRIE_NODE, 0);
        leaf = making.own(leaf, body_bytes(leaf));
        leaf->depth = 0;
        std::fill_n(slots(node), FAN, leaf);
        return node;
    }

    static void split(Making& making, Page* node, uint32_t i, int shift) {
        Page* leaf = slots(node)[i];
        const uint32_t depth = leaf->depth;
        const uint32_t n = leaf->n;
        uint32_t m = 0;
        while (m < n && !(slot(items(leaf)[m].key, shift) >> (BITS - 1 - depth) & 1)) {
            ++m;
        }
        Page* left = make_leaf(making, m, depth + 1);
        Page* right = make_leaf(making, n - m, depth + 1);
        copy_items(items(leaf), m, items(left));
        copy_items(items(leaf) + m, n - m, items(right));
        const uint32_t base = i & ~((FAN >> depth) - 1);
        cover(node, base, depth + 1, left);
        cover(node, base + (FAN >> (depth + 1)), depth + 1, right);
        making.drop(leaf);
    }

    static Page* put_below(Making& making, Page* node, Key at, int shift, const Value& value) {
        node = making.own(node, body_bytes(node));
        for (;;) {
            const uint32_t i = slot(at, shift);
            Page* next = slots(node)[i];
            if (next->kind == TRIE_NODE) {
                slots(node)[i] = put_below(making, next, at, shift + BITS, value);
                return node;
            }
            const uint32_t depth = next->depth;
            if (Page* leaf = put_in_leaf(making, next, at, shift + int(depth), value)) {
                if (leaf != next) {
                    cover(node, i, depth, leaf);
                }
                return node;
            }
            if (depth == BITS) {
                slots(node)[i] = spread(making, next);
            } else {
                split(making, node, i, shift);
            }
        }
    }

    static Page* without(Making& making, Page* leaf, Key at, int shared) {
        const uint32_t n = leaf->n;
        const uint32_t i = place(leaf, at, shared);
        if (making.is_own(leaf)) {
            copy_items(items(leaf) + i + 1, n - i - 1, items(leaf) + i);
            leaf->n = n - 1;
            return leaf;
        }
        Page* less = make_leaf(making, n - 1, leaf->depth);
        copy_items(items(leaf), i, items(less));
        copy_items(items(leaf) + i + 1, n - i - 1, items(less) + i);
        making.drop(leaf);
        return less;
    }

    static Page* remove_below(Making& making, Page* page, Key at, int shift) {
        if (page->kind == TRIE_LEAF) {
            return without(making, page, at, 0);  // only the root
        }
        Page* node = making.own(page, body_bytes(page));
        const uint32_t i = slot(at, shift);
        Page* next = slots(node)[i];
        if (next->kind == TRIE_NODE) {
            next = slots(node)[i] = remove_below(making, next, at, shift + BITS);
            if (next->kind == TRIE_NODE) {
                return node;
            }
            next->depth = BITS;  // it is this making's own
        } else {
            const uint32_t depth = next->depth;
            Page* leaf = without(making, next, at, shift + int(depth));
            if (leaf != next) {
                cover(node, i, depth, leaf);
            }
            next = leaf;
        }
        return join(making, node, i, next);
    }

    // Join a leaf with the other half of its part of the node, as long as both are small; return
    // the node, or the leaf that covers all of it.
    static Page* join(Making& making, Page* node, uint32_t i, Page* leaf) {
        while (leaf->depth) {
            const uint32_t depth = leaf->depth;
            const uint32_t size = FAN >> depth;
            const uint32_t base = i & ~(size - 1);
            Page* other = slots(node)[base ^ size];
            if (other->kind != TRIE_LEAF || other->depth != depth ||
                uint32_t(other->n + leaf->n) > MOST / 2) {
                return node;
            }
            Page* both = make_leaf(making, other->n + leaf->n, depth - 1);
            Page* left = base & size ? other : leaf;
            Page* right = base & size ? leaf : other;
            copy_items(items(left), left->n, items(both));
            copy_items(items(right), right->n, items(both) + left->n);
            making.drop(leaf);
            making.drop(other);
            cover(node, i, depth - 1, both);
            leaf = both;
        }
        making.drop(node);
        return leaf;
    }
};

}  // namespace hammemo::live
