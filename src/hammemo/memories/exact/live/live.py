"""One version of a live table: exact counts that are edited row by row, and answer from the top.

The rows are kept by compiled code (`src/native/live`), sorted by count, in versions that share what
an edit does not touch. Here are the numbers of the tokens and labels that the rows use, and the
canonical table that they stand for. How rows of several positions are reached is in
:mod:`hammemo.memories.exact.live.steps`, and what labels are ranked by in
:mod:`hammemo.memories.exact.live.rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._versions import Cached, cached_property, lock_of
from hammemo.memories.errors import NotStoredError, fewer_stored, never_stored
from hammemo.memories.exact.live.numbers import LabelNumbers, Numbers
from hammemo.memories.exact.live.rules import log_linear_rule
from hammemo.memories.exact.live.steps import RowArrays, Steps
from hammemo.memories.label_counts import LabelCounts, check_total
from hammemo.tokens.vocabulary import NO_TOKEN, Token, Vocabulary, as_token

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.types import Floats, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.exact.table import CountTable
    from hammemo.tokens.contexts import Contexts, Examples

UNKNOWN: Final = 2**32 - 2
"""The number of tokens that no row holds: to remove an example that has one is refused, if the
token is compared."""

_LEAST_SIZE: Final = 1000
"""A table with fewer tokens and labels at the start is treated as one with so many: small tables
are not rebuilt again and again."""


class LabelMap(NamedTuple):
    """Where the labels of one table are in another, and how many labels both had then."""

    other: Shared
    n_here: int
    n_there: int

    numbers: Ints
    """The number that each label here has in the other table, -1 for none."""

    back: Ints
    """The number here of each label of the other table, -1 for none."""


class CompiledRule(NamedTuple):
    """A compiled rule, with the smoothing and the bytes of the weights that it was made of."""

    smoothing: tuple[float, ...]
    weights: bytes
    rule: _native.LiveRule


class Shared:
    """What the versions of one live table share: steps, numbers of tokens and labels, label set."""

    def __init__(self, sites: Sites, tokens: Vocabulary, labels: Vocabulary) -> None:
        self.steps = Steps(sites)
        self.tokens = Numbers(tokens)
        self.labels = LabelNumbers(labels)
        self.label_set: tuple[int, LabelSet] = (1, LabelSet(labels, np.arange(len(labels))))
        """The labels that have examples, with the stamp of the versions that have them."""
        self._rule: CompiledRule | None = None
        self._label_map: LabelMap | None = None
        self._size = max(_LEAST_SIZE, len(tokens) + len(labels))

    def rule_for(
        self, smoothing: tuple[float, ...], weights: Floats, examples: float
    ) -> _native.LiveRule:
        """Return the compiled rule with these weights, (S, J).

        It is made once, and again where examples have become far more.
        """
        octaves = int(np.log2(max(examples, 1.0))) + 1
        weight_bytes = weights.tobytes()
        compiled = self._rule
        if (
            compiled is None
            or compiled.smoothing != smoothing
            or compiled.weights != weight_bytes
            or compiled.rule.octaves < octaves
        ):
            # an octave more than is needed: the next rows do not make it again
            rule = log_linear_rule(smoothing, weights, octaves + 1)
            compiled = CompiledRule(smoothing, weight_bytes, rule)
            self._rule = compiled
        return compiled.rule

    def labels_in(self, other: Shared) -> tuple[Ints, Ints]:
        """Return the number that each label here has in another table, -1 for none, and back.

        What was found is kept for the table that was asked for last; only new labels are looked up.
        """
        label_map = self._label_map
        n_here = len(self.labels)
        n_there = len(other.labels)
        if label_map is None or label_map.other is not other:
            numbers = other.labels.find(self.labels.first)
            label_map = LabelMap(
                other=other,
                n_here=len(numbers),
                n_there=n_there,
                numbers=numbers,
                back=_invert(numbers, n_there),
            )
        if (label_map.n_here, label_map.n_there) != (n_here, n_there):
            label_map = self._extend(label_map, n_here, n_there)
        self._label_map = label_map  # one assignment: threads that meet here make the same
        return label_map.numbers, label_map.back

    def _extend(self, label_map: LabelMap, n_here: int, n_there: int) -> LabelMap:
        """Add the labels that came to either table since the map was made."""
        other = label_map.other
        new_here = range(label_map.n_here, n_here)
        places = [other.labels.get(self.labels.token(number)) for number in new_here]
        numbers = np.concatenate([label_map.numbers, np.array(places, np.int64)])
        for number in range(label_map.n_there, n_there):
            place = self.labels.get(other.labels.token(number))
            if 0 <= place < n_here:
                numbers[place] = number
        return LabelMap(
            other=other,
            n_here=n_here,
            n_there=n_there,
            numbers=numbers,
            back=_invert(numbers, n_there),
        )

    def has_doubled(self) -> bool:
        """Return whether there are twice as many numbers as at the start: some may be unused."""
        return len(self.tokens) + len(self.labels) > 2 * self._size


def _invert(numbers: Ints, n: int) -> Ints:
    """Return where each of n numbers is among these, -1 for one that is not."""
    inside = np.flatnonzero((numbers >= 0) & (numbers < n))
    places = np.full(n, -1, np.int64)
    places[numbers[inside]] = inside
    return places


@dataclass(frozen=True, eq=False)
class LabelSet(Cached):
    """Labels in canonical order, and the number of each."""

    labels: Vocabulary
    numbers: Ints

    @cached_property
    def columns(self) -> Ints:
        """The column of each number; -1 for one that is not here."""
        n_numbers = int(self.numbers.max(initial=-1)) + 1
        columns = np.full(n_numbers + 1, -1, np.int64)  # the last one is for the number -1
        columns[self.numbers] = np.arange(len(self.numbers))
        return columns


class Live(Cached):
    """One version: what is stored, read and edited row by row."""

    def __init__(self, store: Shared, version: _native.LiveVersion) -> None:
        self.store = store
        self.version = version

    @classmethod
    def from_table(cls, table: CountTable, *, wide: bool = False) -> Live:
        """Return the live form of a table; `wide` has 64 bits for a count, not 32."""
        store = Shared(table.sites, table.vocabulary, table.label_counts.labels)
        steps = store.steps
        try:
            version = _native.LiveVersion.build(
                h=table.sites.h,
                parents=np.array([step.parent for step in steps.all], np.int64),
                positions=np.array([step.position for step in steps.all], np.uint32),
                site_steps=np.array(steps.of_sites, np.uint32),
                wide=wide,
                rows=steps.rows_of(table),
                label_counts=table.label_counts.counts.astype(np.uint64),
                empties=steps.empties_of(table),
            )
        except _native.TooWideError:
            if wide:
                raise
            return cls.from_table(table, wide=True)
        return cls(store, version)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.total}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(Live.from_table(state["table"]).__dict__)

    def __deepcopy__(self, memo: Any) -> Live:
        return self  # it never changes

    @cached_property
    def total(self) -> CountTable:
        """The canonical table."""
        steps = self.store.steps
        rows = [RowArrays(*self.version.rows(step)) for step in range(len(steps.all))]
        return steps.table_of(rows, self.store.tokens, self.label_counts, self.label_set.columns)

    @cached_property
    def label_set(self) -> LabelSet:
        """The labels that have examples."""
        stamp, labels = self.store.label_set
        if stamp != self.version.label_stamp:
            numbers, _ = self.version.label_row()
            is_used = np.zeros(len(self.store.labels), bool)
            is_used[numbers] = True
            labels = LabelSet(*self.store.labels.select(is_used))
            self.store.label_set = (self.version.label_stamp, labels)
        return labels

    @cached_property
    def label_counts(self) -> LabelCounts:
        """The labels that have examples, and how many."""
        numbers, counts = self.version.label_row()
        by_column = np.empty(len(counts), np.int64)
        by_column[self.label_set.columns[numbers]] = counts
        return LabelCounts(self.label_set.labels, by_column)

    @property
    def as_live(self) -> Live:
        """The live table itself: what it is as a term of a sum."""
        return self

    @property
    def n_examples(self) -> int:
        """How many examples there are."""
        return self.version.examples

    def count_of(self, label: Token) -> int:
        """Return how many examples a label has."""
        number = self.store.labels.get(label)
        if number < 0:
            return 0
        return int(self.version.label_counts(np.array([number]))[0])

    def counts_of_one(self, tokens: Sequence[Any], label: Token) -> Ints:
        """Return the count of a label in the row that each site reads: (S,)."""
        label_number = self.store.labels.get(label)
        token_number = self.store.tokens.get
        numbers = np.array([[token_number(token) for token in tokens]], np.int64)
        lengths, entry_labels, entry_counts = self.version.read(numbers)
        counts = np.zeros(len(lengths), np.int64)
        if label_number >= 0:
            entry_sites = np.repeat(np.arange(len(lengths)), lengths)
            entries = np.flatnonzero(entry_labels == label_number)
            counts[entry_sites[entries]] = entry_counts[entries].astype(np.int64)
        return counts

    def token_numbers(self, contexts: Contexts) -> Ints:
        """Return the number of each token of contexts, -1 where it has none."""
        numbers = np.append(self.store.tokens.find(contexts.vocabulary), -1)
        return np.ascontiguousarray(numbers[contexts.ranks])  # rank -1 reads the last entry

    # Edits

    def edit(self, examples: Examples, sign: int) -> Live:
        """Return the version with examples added or removed, or refuse to go below zero."""
        if sign > 0:
            check_total(self.version.examples, int(examples.multiplicity.sum()))
        return self._rebuild_if_needed(lambda live: live.try_edit(examples, sign))

    def edit_one(self, tokens: Sequence[Any], label: Any, by: int) -> Live:
        """Return the version with `by` copies of one example added or, below zero, removed."""
        if by > 0:
            check_total(self.version.examples, by)
        return self._rebuild_if_needed(lambda live: live.try_edit_one(tokens, as_token(label), by))

    def _rebuild_if_needed(self, edit: Callable[[Live], Live]) -> Live:
        """Return the version that an edit makes, of a new table where this one cannot take it."""
        try:
            version = edit(self)
        except _RebuildError as error:
            return edit(Live.from_table(self.total, wide=error.wide))
        return Live.from_table(version.total) if version.needs_rebuild() else version

    def try_edit(self, examples: Examples, sign: int) -> Live:
        """Return the version with examples added or removed; it may request a new table."""
        contexts = examples.contexts
        with lock_of(self.store):
            known_tokens = self.store.tokens
            if sign > 0:
                numbers = known_tokens.give_all(contexts.vocabulary)
            else:
                numbers = known_tokens.find(contexts.vocabulary)
            numbers[numbers < 0] = UNKNOWN
            tokens = np.ascontiguousarray(np.append(numbers, -1)[contexts.ranks])
            labels = np.array(self._number_labels(examples.labels.tolist(), sign), np.int64)
            if sign < 0:
                self._check_labels(examples.labels.tolist(), labels, examples.label_counts())
            by = sign * examples.multiplicity
            return self._next(lambda: self.version.edit(tokens, labels[examples.label_ranks], by))

    def try_edit_one(self, tokens: Sequence[Any], label: Token, by: int) -> Live:
        """Return the version with one example added or removed; it may request a new table."""
        with lock_of(self.store):
            known_tokens = self.store.tokens
            if by > 0:
                numbers = known_tokens.give_each(tokens)
            else:
                numbers = list(map(known_tokens.get, tokens))
            if -1 in numbers:
                numbers = [
                    UNKNOWN if number < 0 and token != NO_TOKEN else number
                    for number, token in zip(numbers, tokens, strict=True)
                ]
            (label_number,) = self._number_labels([label], by)
            if label_number < 0:
                raise fewer_stored(label)
            try:
                return self._next(lambda: self.version.edit_one(numbers, label_number, by))
            except NotStoredError:
                # say that the label has too few examples, where that is why
                self._check_labels([label], np.array([label_number]), np.array([-by]))
                raise

    def _number_labels(self, labels: list[Token], sign: int) -> list[int]:
        """Return the numbers of labels; new ones get their place in the order first.

        To remove, labels without a number get -1.
        """
        known_labels = self.store.labels
        numbers = []
        for label in labels:
            number = known_labels.get(label)
            if number < 0 and sign > 0:
                before, after = known_labels.neighbours(label)
                if not self.version.place(len(known_labels), before, after):
                    raise _RebuildError(wide=False)
                number = known_labels.insert(label)
            numbers.append(number)
        return numbers

    def _next(self, edit: Callable[[], _native.LiveVersion | None]) -> Live:
        """Return the version that an edit makes; refuse, or say that the table must be rebuilt."""
        try:
            version = edit()
        except _native.RefusedError:
            raise never_stored() from None
        except _native.TooWideError:
            raise _RebuildError(wide=True) from None
        if version is None:
            raise _RebuildError(wide=False)
        return Live(self.store, version)

    def _check_labels(self, labels: list[Token], numbers: Ints, removed: Ints) -> None:
        """Refuse to remove more examples of a label than there are."""
        counts = np.zeros(len(numbers), np.int64)
        if len(self.store.labels):
            counts = np.where(numbers < 0, 0, self.version.label_counts(np.maximum(numbers, 0)))
        too_few = np.flatnonzero(counts < removed)
        if len(too_few):
            raise fewer_stored(labels[int(too_few[0])])

    def needs_rebuild(self) -> bool:
        """Return whether much more is numbered, or kept for longer tuples, than is used."""
        n_bare = self.version.n_bare  # rows without counts, which longer tuples start from
        n_used = self.version.n_rows - n_bare
        return n_bare > 4 * n_used + 1000 or self.store.has_doubled()


class _RebuildError(Exception):
    """The table cannot be edited as it is: another version of it was, or a number is too large."""

    def __init__(self, *, wide: bool) -> None:
        super().__init__(wide)
        self.wide = wide
