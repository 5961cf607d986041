"""The rows that a model keeps: what its layout and its weights are functions of.

Kept is every distinct example (context and label) whose hash lies below a threshold, with how often
it is stored (:mod:`hammemo.stores.kept`); for small tables, all rows. Rows are held as integer
codes in the order of their hashes; rows with equal hashes stay apart, in the order of their tokens.
That base never changes. Single edits go into an overlay, a sum of small layers, and the two become
one base again when the overlay has grown to a sixteenth of it, and for files, pickles and
`examples`.

**The rows themselves are stored**, tokens and labels in plain text: anyone with the model can read
them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import distinct_numbers, narrow, object_array
from hammemo._versions import cached_property
from hammemo.memories.errors import never_stored
from hammemo.stores.kept import EVERYTHING, Kept, LayeredCounts, ModelStore, highest_threshold
from hammemo.tokens.contexts import MAX_EXAMPLES, Contexts, Examples, as_label
from hammemo.tokens.distinct import distinct_order, example_words, window_words
from hammemo.tokens.hashing import key_words, mix_one, vocabulary_hashes
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary, as_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints, Words
    from hammemo.tokens.stream_blocks import Block
    from hammemo.votes import Vote

MOST_ROWS: Final = 200_000
"""The most distinct rows that are kept where the user gives no number."""

MOST_TOKENS: Final = 2**26
"""The most tokens of these rows, labels included."""

_TOKEN_BYTES: Final = 8
"""Where a row is one token, a string counts as one token for so many characters.

A packed row of a wide table (:mod:`hammemo.tokens.packed_rows`) has a character for each byte of
its numbers."""

_ROW_BY_ROW: Final = 16
"""Edits of up to this number of rows go into the overlay; so do those of up to 1/32 of the base."""

_SMALL_OVERLAY: Final = 1024
"""An overlay of up to this number of rows stays one, however small the base is."""

Row = tuple[Any, ...]
"""The tokens of a context, `NO_TOKEN` where there is none, and then the label."""


def _no_codes() -> NDArray[np.uint8]:
    return np.empty(0, np.uint8)


@dataclass(frozen=True, eq=False)
class KeptRows(Kept):
    """Rows with hashes below a threshold, and how often each is stored: a value that never changes.

    Parameters
    ----------
    h, seed, most, threshold
        As in `Kept`; an example is a row.
    tokens, labels : Vocabulary
        The tokens and the labels of the base, those in use only.
    codes : ndarray of shape (n, h)
        One more than the rank of each token; 0 for an empty position.
    label_codes, counts : ndarray of shape (n,)
    words : ndarray of uint64, shape (n,)
        The hashes, ascending.
    overlay : LayeredCounts
        How much more often, or less, rows are stored than in the base.
    most_values : int, optional
        How many tokens rows have at most, by the length of their strings; None where only rows
        are limited.
    overlay_values : int
        At least the tokens of the rows of the overlay.

    Examples
    --------
    >>> from hammemo.stores.kept_rows import KeptRows
    >>> from hammemo.tokens.contexts import Examples
    >>> two = Examples.of([["a", "b"], ["c", "b"]], ["x", "y"])
    >>> kept = KeptRows.empty(h=2, seed=0).edit(two, 1).edit(two, 1)
    >>> len(kept), kept.examples().multiplicity.tolist()
    (2, [2, 2])
    >>> len(kept.edit(two, -1).edit(two, -1))
    0
    """

    tokens: Vocabulary = field(default_factory=Vocabulary)
    labels: Vocabulary = field(default_factory=Vocabulary)
    codes: Array = field(default_factory=_no_codes)
    label_codes: Array = field(default_factory=_no_codes)
    counts: Array = field(default_factory=_no_codes)
    words: Words = field(default_factory=lambda: np.empty(0, np.uint64))
    overlay: LayeredCounts[Row] = field(default_factory=LayeredCounts)
    most_values: int | None = None
    overlay_values: int = 0

    @classmethod
    def empty(
        cls, h: int, seed: int, most: int | None = None, threshold: int = EVERYTHING
    ) -> KeptRows:
        """Return one with no rows, and room for `most` of them.

        By default there is room for as many as the two budgets allow.
        """
        codes = np.empty((0, h), np.uint8)
        if most is not None:
            return cls(h, seed, most, threshold, codes=codes)
        room = max(1, min(MOST_ROWS, MOST_TOKENS // (h + 1)))
        # a row of one token may be a packed one, of any size
        most_values = MOST_TOKENS if h == 1 else None
        return cls(h, seed, room, threshold, codes=codes, most_values=most_values)

    def __getstate__(self) -> dict[str, Any]:
        # a row that was forgotten is in base and overlay still: copies must not have it
        state = vars(self.base)
        caches = ("base", "_lookup", "_sizes", "n_values")
        return {name: value for name, value in state.items() if name not in caches}

    def __len__(self) -> int:
        return len(self.base.words)

    @property
    def kept_rows(self) -> KeptRows:
        """Itself."""
        return self

    @property
    def nbytes(self) -> int:
        """How many bytes the base takes, without the names of tokens and labels."""
        return sum(
            array.nbytes for array in (self.codes, self.label_codes, self.counts, self.words)
        )

    @cached_property
    def base(self) -> KeptRows:
        """The same rows without an overlay."""
        counts = self.overlay.counts()
        if not counts:
            if not self.overlay.n_entries:
                return self
            return replace(self, overlay=LayeredCounts(), overlay_values=0)
        keys = list(counts)
        X = object_array(token for key in keys for token in key[:-1]).reshape(len(keys), self.h)
        rows = Examples.of(X, object_array(key[-1] for key in keys))
        times = np.fromiter(counts.values(), np.int64, len(keys))
        plain = replace(self, overlay=LayeredCounts(), overlay_values=0)
        base = plain.with_copies(rows, times, example_words(rows, self.seed))
        return base.within_budget()

    @cached_property
    def _sizes(self) -> Ints:
        """How many tokens each row of the base has, its label included."""
        contexts = Contexts.with_ranks(self.tokens, self.codes.astype(np.int64) - 1)
        return _sizes_of_rows(contexts)

    @cached_property
    def n_values(self) -> int:
        """How many tokens the rows of the base have, by the length of their strings.

        Labels are included.
        """
        return int(self._sizes.sum())

    def within_budget(self) -> KeptRows:
        """Return the base with its threshold low enough for its rows, and for their tokens."""
        has_many_values = self.most_values is not None and self.n_values > self.most_values
        if not has_many_values and len(self.words) <= self.most:
            return self
        sizes = None
        if self.most_values is not None:
            sizes = self._sizes
        return self.below(self.threshold_for(self.words, sizes))

    def examples(self) -> Examples:
        """Return the rows in the order of their hashes."""
        base = self.base
        contexts = Contexts.with_ranks(base.tokens, base.codes.astype(np.int64) - 1)
        return Examples(
            contexts, base.label_codes.astype(np.int64), base.labels, base.counts.astype(np.int64)
        )

    def batches(self) -> Iterator[Examples]:
        """Yield the rows in the order of their hashes."""
        yield self.examples()

    def fitting_sample(self, vote: Vote) -> Examples:  # noqa: ARG002
        """Return all rows: a vote takes those with the lowest hashes."""
        return self.examples()

    def lowest(self, limit: int) -> Examples:
        """Return the rows with the lowest hashes, at most this many of them."""
        examples = self.examples()
        if len(examples) <= limit:
            return examples
        lowest = examples.rows(np.arange(limit)).with_used_labels()
        return replace(lowest, contexts=lowest.contexts.with_used_tokens())

    def edit(self, examples: Examples, sign: int) -> KeptRows:
        """Return the rows with these examples learned or, with sign -1, forgotten.

        NotStoredError says that one is not kept.
        """
        words = example_words(examples, self.seed)
        low = np.flatnonzero(self.are_low(words))
        if len(low) <= max(_ROW_BY_ROW, len(self.words) // 32) and len(low) < len(self.words):
            if len(low) < len(words):
                examples = examples.rows(low)
            return self._edit_overlay(_count(examples), sign)
        base = self.base
        if sign > 0:
            base = base.with_room_for(words, examples.contexts)
        low = np.flatnonzero(base.are_low(words))
        if len(low) < len(words):
            examples = examples.rows(low)
        return base.with_copies(examples, sign * examples.multiplicity, words[low])

    def edit_one(self, context: Sequence[Any], label: Any, by: int) -> KeptRows:
        """Return the rows with one example learned `by` times or, below zero, forgotten.

        It takes microseconds.
        """
        row = row_of(context, label)
        if self.threshold < EVERYTHING and self._word(row) >= self.threshold:
            return self
        return self._edit_overlay({row: abs(by)}, 1 if by > 0 else -1)

    def lacking(self, examples: Examples) -> list[int]:
        """Return which of these examples are not kept as often as they are given.

        All must be below the threshold.
        """
        missing = {row for row, times in _count(examples).items() if self.times(row) < times}
        if not missing:
            return []
        return [i for i, row in enumerate(_rows(examples)) if row in missing]

    def _edit_overlay(self, rows: Mapping[Row, int], sign: int) -> KeptRows:
        """Return the rows with some of them stored more or less often: a change of the overlay."""
        if sign < 0 and any(self.times(row) < times for row, times in rows.items()):
            raise never_stored()
        # not `replace`: single edits take microseconds; what is known of the base, both share
        edited = object.__new__(KeptRows)
        overlay = self.overlay.plus(rows, sign)
        vars(edited).update(vars(self), overlay=overlay)
        vars(edited).pop("base", None)
        n = overlay.n_entries
        # a base is made as soon as as many edits at once would find that there are too many rows
        may_be_too_many = sign > 0 and n + len(self.words) > self.most
        if self.most_values is not None and sign > 0:
            values = self.overlay_values + sum(map(_size_of_row, rows))
            vars(edited)["overlay_values"] = values
            may_be_too_many = may_be_too_many or values + self.n_values > self.most_values
        if may_be_too_many or n > max(_SMALL_OVERLAY, len(self.words) // 16):
            return edited.base
        return edited

    def plus(self, other: ModelStore, sign: int) -> KeptRows | None:
        """Return what both keep or, with sign -1, without the other's.

        None says that the other tells too little. The windows of documents become rows.
        """
        added = other.kept
        if added is None or added.h != self.h:
            return None
        is_alike = added.kept_rows is not None and added.seed == self.seed
        if not (is_alike or added.holds_all):
            return None
        rows = self
        if is_alike:
            rows = self.below(added.threshold)
        for examples in added.batches():
            rows = rows.edit(examples, sign)
        return rows

    def with_windows(self, block: Block, labels: Vocabulary | None, sign: int = 1) -> KeptRows:
        """Return the rows with the windows of a block learned or forgotten.

        With `labels`, only those that have one of them.
        """
        if sign < 0:
            return super().with_windows(block, labels, sign)
        places, words = window_words(block, labels, self.seed)
        if self.most_values is None:
            base = self.base.with_room_for(words)
        else:
            windows = Examples.of(block.contexts(places), block.tokens[places])
            base = self.base.with_room_for(words, windows.contexts)
        low = base.are_low(words)
        places = places[low]
        words = words[low]
        examples = Examples.of(block.contexts(places), block.tokens[places])
        return base.with_copies(examples, examples.multiplicity, words)

    def stores_like(self, other: ModelStore | None) -> bool:
        """Return whether another store keeps in the same way, and as much."""
        if not super().stores_like(other) or not isinstance(other, KeptRows):
            return False
        return self.most_values == other.most_values

    def describe(self) -> dict[str, Any]:
        """Return how it keeps, for files."""
        description = super().describe()
        if self.most_values is not None:
            description["most_values"] = self.most_values
        return description

    def empty_copy(self) -> KeptRows:
        """Return one of the same layout with nothing in it."""
        empty = KeptRows.empty(self.h, self.seed, self.most, self.threshold)
        return replace(empty, most_values=self.most_values)

    def state(self) -> dict[str, Array]:
        """Return the rows as canonical arrays."""
        base = self.base
        return {
            **{f"tokens.{name}": array for name, array in base.tokens.arrays().items()},
            **{f"labels.{name}": array for name, array in base.labels.arrays().items()},
            "codes": base.codes,
            "label_codes": base.label_codes,
            "counts": base.counts,
        }

    def restore(self, stored: StoredArrays) -> KeptRows:
        """Return one of this layout with these arrays, checked: undo `state`."""
        tokens = Vocabulary.from_arrays(stored.part("tokens"))
        labels = Vocabulary.from_arrays(stored.part("labels"))
        counts = stored.multiplicities("counts", (None,), least=1, below=MAX_EXAMPLES)
        codes = stored.whole_numbers("codes", (len(counts), self.h), below=len(tokens) + 1)
        label_codes = stored.whole_numbers("label_codes", (len(counts),), below=len(labels))
        times = counts.astype(np.int64)
        contexts = Contexts.with_ranks(tokens, codes.astype(np.int64) - 1)
        rows = Examples(contexts, label_codes.astype(np.int64), labels, times)
        words = example_words(rows, self.seed)
        restored = self.in_canonical_form(rows, times, words)
        is_canonical = (
            restored.tokens == tokens
            and restored.labels == labels
            and np.array_equal(restored.codes, codes)
            and np.array_equal(restored.label_codes, label_codes)
        )
        if not is_canonical or not self.are_low(words).all():
            raise ValueError(
                "the kept rows are not in canonical order, or their hashes are above the threshold"
            )
        return restored

    def with_copies(self, examples: Examples, times: Ints, words: Words) -> KeptRows:
        """Return the base with these examples stored this many times more or, below zero, less."""
        tokens = self.tokens.union(examples.contexts.vocabulary)
        labels = self.labels.union(examples.labels)
        new_ranks = np.append(tokens.find(self.tokens), -1)  # rank -1 reads the last entry
        base_ranks = new_ranks[self.codes.astype(np.int64) - 1]
        ranks = np.concatenate([base_ranks, examples.contexts.ranks_in(tokens)])
        base_labels = labels.find(self.labels)[self.label_codes.astype(np.int64)]
        added_labels = labels.find(examples.labels)[examples.label_ranks]
        all_times = np.concatenate([self.counts.astype(np.int64), times])
        rows = Examples(
            Contexts.with_ranks(tokens, ranks),
            np.concatenate([base_labels, added_labels]),
            labels,
            all_times,
        )
        return self.in_canonical_form(rows, all_times, np.concatenate([self.words, words]))

    def in_canonical_form(self, rows: Examples, times: Ints, words: Words) -> KeptRows:
        """Return the canonical form of rows in any order, some of them several times.

        Parameters
        ----------
        rows : Examples
            Their multiplicity is not read.
        times : ndarray of int64
            How often each is stored; some may be below zero.
        words : ndarray of uint64
            The hash of each.
        """
        tokens = rows.contexts.vocabulary
        labels = rows.labels
        order, firsts = distinct_order(rows.contexts.ranks, rows.label_ranks, words)
        sums = times[:0]
        if len(firsts):
            sums = np.add.reduceat(times[order], firsts)
        if (sums < 0).any():
            raise never_stored()
        stays = order[firsts[sums > 0]]
        ranks = rows.contexts.ranks[stays]
        label_ranks = rows.label_ranks[stays]
        has_token = np.zeros(len(tokens) + 1, bool)  # rank -1 marks the last entry
        used_labels = np.zeros(len(labels), bool)
        has_token[ranks] = True
        used_labels[label_ranks] = True
        code = narrow(np.append(np.cumsum(has_token[:-1]), 0))  # rank -1 reads the last entry
        return replace(
            self,
            tokens=tokens.keep(has_token[:-1]),
            labels=labels.keep(used_labels),
            codes=code[ranks],
            label_codes=narrow((np.cumsum(used_labels) - 1)[label_ranks]),
            counts=narrow(sums[sums > 0]),
            words=words[stays],
        )

    def with_room_for(self, words: Words, contexts: Contexts | None = None) -> KeptRows:
        """Return the base with its threshold low enough for rows with these hashes too.

        `contexts` are the tokens of these rows, which are needed where tokens are limited.
        """
        has_room = len(words) + len(self.words) <= self.most
        if self.most_values is None:
            if has_room:
                return self
            distinct = distinct_numbers(np.concatenate([self.words, words[self.are_low(words)]]))
            return self.below(self.threshold_for(distinct))
        assert contexts is not None
        sizes = _sizes_of_rows(contexts)
        if has_room and int(sizes.sum()) + self.n_values <= self.most_values:
            return self
        low = self.are_low(words)
        all_words = np.concatenate([self.words, words[low]])
        all_sizes = np.concatenate([self._sizes, sizes[low]])
        return self.below(self.threshold_for(all_words, all_sizes))

    def threshold_for(self, words: Words, sizes: Ints | None = None) -> int:
        """Return the highest threshold with no more of these rows below it than are kept.

        With `sizes`, there are also no more of their tokens below it.
        """
        distinct = distinct_numbers(words)
        of_rows = highest_threshold(distinct, np.ones(len(distinct), np.int64), self.most)
        if self.most_values is None or sizes is None:
            return of_rows
        order = np.lexsort((sizes, words))
        is_last = np.append(words[order][1:] != words[order][:-1], True)  # of rows with one hash
        chosen = order[is_last]
        return min(of_rows, highest_threshold(words[chosen], sizes[chosen], self.most_values))

    def below(self, threshold: int) -> KeptRows:
        """Return the rows with this threshold, if that is lower than its own."""
        if threshold >= self.threshold:
            return self
        base = self.base
        n = int(base.words.searchsorted(np.uint64(threshold)))
        times = base.counts[:n].astype(np.int64)
        contexts = Contexts.with_ranks(base.tokens, base.codes[:n].astype(np.int64) - 1)
        rows = Examples(contexts, base.label_codes[:n].astype(np.int64), base.labels, times)
        lower = replace(base, threshold=threshold)
        return lower.in_canonical_form(rows, times, base.words[:n])

    @cached_property
    def _lookup(self) -> tuple[dict[Any, tuple[int, int]], dict[Any, tuple[int, int]]]:
        """The code and the hash of each token, and of each label, of the base."""
        tokens = vocabulary_hashes(self.tokens, self.seed)
        labels = vocabulary_hashes(self.labels, self.seed)
        coded = zip(self.tokens.tolist(), enumerate(tokens.tolist(), 1), strict=True)
        named = zip(self.labels.tolist(), enumerate(labels.tolist()), strict=True)
        empty = (0, int(key_words(self.seed, "empty position")[0]))
        return {**dict(coded), NO_TOKEN: empty}, dict(named)

    def times(self, row: Row) -> int:
        """Return how often a row is stored, in the base and in the overlay.

        In the base it is found by its hash and then by itself.
        """
        tokens, labels = self._lookup
        if row[-1] not in labels or any(token not in tokens for token in row[:-1]):
            return self.overlay.count(row)
        word = self._word(row)
        codes = [tokens[token][0] for token in row[:-1]]
        label_code = labels[row[-1]][0]
        place = int(self.words.searchsorted(np.uint64(word)))
        times_in_base = 0
        while place < len(self.words) and int(self.words[place]) == word:
            if self.label_codes[place] == label_code and self.codes[place].tolist() == codes:
                times_in_base = int(self.counts[place])
            place += 1
        return times_in_base + self.overlay.count(row)

    def _word(self, row: Row) -> int:
        """Return `example_words` of one row."""
        tokens, labels = self._lookup
        word = key_words(self.seed, "example")[0]
        for token in row[:-1]:
            word = mix_one(word ^ _hash(tokens, token, self.seed))
        return mix_one(word ^ _hash(labels, row[-1], self.seed))


def _hash(lookup: dict[Any, tuple[int, int]], token: Any, seed: int) -> int:
    """Return the hash of a token, from a table where it is there."""
    entry = lookup.get(token)
    if entry is not None:
        return entry[1]
    return int(vocabulary_hashes(Vocabulary.of([token]), seed)[0])


def _size_of_token(token: Any) -> int:
    """Return how many tokens one of a row counts as."""
    return max(1, -(-len(token) // _TOKEN_BYTES)) if isinstance(token, str) else 1


def _size_of_row(row: Row) -> int:
    """Return how many tokens a row has, its label included: labels count as one."""
    return 1 + sum(map(_size_of_token, row[:-1]))


def _sizes_of_rows(contexts: Contexts) -> Ints:
    """Return how many tokens each row has, with one for its label."""
    of_tokens = [
        *map(_size_of_token, contexts.vocabulary.tolist()),
        1,
    ]  # rank -1 reads the last entry
    return np.asarray(1 + np.array(of_tokens, np.int64)[contexts.ranks].sum(axis=1))


def row_of(context: Sequence[Any], label: Any) -> Row:
    """Return one example as a row, its tokens in canonical form."""
    return (*map(as_token, context), as_label(label))


def _count(examples: Examples) -> Counter[Row]:
    """Return each example as a row, and how often it occurs."""
    counts: Counter[Row] = Counter()
    for row, times in zip(_rows(examples), examples.multiplicity.tolist(), strict=True):
        counts[row] += times
    return counts


def _rows(examples: Examples) -> list[Row]:
    """Return each example as a row."""
    tokens = [*examples.contexts.vocabulary.tolist(), NO_TOKEN]  # rank -1 reads the last entry
    labels = examples.labels.tolist()
    ranks = zip(examples.contexts.ranks.tolist(), examples.label_ranks.tolist(), strict=True)
    return [(*(tokens[rank] for rank in row), labels[label]) for row, label in ranks]
