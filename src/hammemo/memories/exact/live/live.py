r"""One version of a live table: exact counts that are edited row by row, and answer from the top of their rows.

The rows are kept by compiled code (`src/native/live`), sorted by count, in versions that share what an edit does not
touch. Here are the numbers of tokens and labels that the rows use, and the canonical table that they stand for.

Rules that live tables rank by, compiled: weighted sums over what each label has, and log-linear ones.

The compiled code (`src/native/live/ratio_leaders.hpp`) reads rows by bands of labels that have nearly as many examples
each, and says of each answer whether it is sure: whether it is that of NumPy's arithmetic also where scores are nearly
equal.

How the rows of a count table are reached one position at a time, and the table from and to that form.

A site that compares several positions is reached in steps: the row of a shorter tuple, then one token more, so that
every key is (row, token), two 32-bit numbers. Where the kernel has a site for the shorter tuple, that is the step;
otherwise one without counts is put in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from hammemo import _native
from hammemo._arrays.tuple_sets import TupleSet
from hammemo._arrays.types import Array, Floats, Ints
from hammemo._versions import Cached, cached_property, lock_of
from hammemo.memories.errors import NotStoredError, fewer_stored, never_stored
from hammemo.memories.exact.live.numbers import LabelNumbers, Numbers
from hammemo.memories.exact.segments.entries import SiteRows
from hammemo.memories.exact.table import CountTable
from hammemo.memories.label_counts import LabelCounts, check_total
from hammemo.tokens.vocabulary import NO_TOKEN, Token, Vocabulary, as_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hammemo.kernels.sites import Sites
    from hammemo.tokens.contexts import Contexts, Examples

RowArrays: TypeAlias = tuple[Array, Array, Array, Array, Array]
"""Keys (row of the parent << 32 | token), row numbers, lengths; labels and counts of all entries."""


@dataclass(frozen=True)
class Step:
    """One position more than the parent; `positions` are all that were compared then, ascending."""

    positions: tuple[int, ...]
    position: int
    parent: int


class Steps:
    """The steps of the sites of a kernel, parents first.

    Examples
    --------
    >>> from hammemo.kernels import Suffixes
    >>> from hammemo.memories.exact.live.live import Steps
    >>> steps = Steps(Suffixes(3).resolve(4))
    >>> [step.positions for step in steps.all], steps.of_sites
    ([(3,), (2, 3), (1, 2, 3)], [0, 1, 2])
    """

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.all: list[Step] = []
        self._made: dict[tuple[int, ...], int] = {}
        self.of_sites = [0] * len(sites.positions)
        for k in sorted(range(len(sites.positions)), key=lambda k: len(sites.positions[k])):
            self.of_sites[k] = self._make(sites.positions[k])

    def _make(self, positions: tuple[int, ...]) -> int:
        if positions in self._made:
            return self._made[positions]
        shorter = [(p, tuple(q for q in positions if q != p)) for p in positions]
        position, rest = next((pair for pair in shorter if pair[1] in self._made), shorter[0])
        parent = self._make(rest) if rest else -1
        self.all.append(Step(positions, position, parent))
        self._made[positions] = len(self.all) - 1
        return self._made[positions]

    @cached_property
    def first_sites(self) -> dict[int, int]:
        """The (first) site of each step that has counts."""
        return {step: k for k, step in reversed(list(enumerate(self.of_sites)))}

    @cached_property
    def parents(self) -> set[int]:
        """The steps that others start from."""
        return {step.parent for step in self.all if step.parent >= 0}

    def rows_of(self, table: CountTable) -> Iterator[RowArrays]:
        """Yield the rows of each step of a table; tokens and labels are named by their ranks in it."""
        tuples, parent_rows = self._tuples(table)
        sites = list(table.site_slices())
        n_ids = [len(rows) if k in self.parents else 0 for k, rows in enumerate(tuples)]
        first_ids = 1 + np.cumsum([0, *n_ids])  # 0 is for the rows that nothing starts from
        for k, (step, rows) in enumerate(zip(self.all, tuples, strict=True)):
            keys = _column(rows, step.positions.index(step.position)).astype(np.uint64)
            if step.parent >= 0:
                keys |= (parent_rows[k] + first_ids[step.parent]).astype(np.uint64) << np.uint64(32)
            ids = np.zeros(len(rows), np.uint32)
            if k in self.parents:
                ids += np.arange(first_ids[k], first_ids[k] + len(rows), dtype=np.uint32)
            lengths, entries = np.zeros(len(rows), np.uint32), slice(0, 0)
            if k in self.first_sites:
                known, held, entries = sites[self.first_sites[k]]
                place = slice(None) if rows is known else rows.find(known.rows())
                lengths[place] = table.row_lengths[held]
            labels, counts = table.entry_labels[entries], table.entry_counts[entries]
            yield keys, ids, lengths, labels.astype(np.uint32), counts.astype(np.uint64)

    def _tuples(self, table: CountTable) -> tuple[list[TupleSet], list[Ints]]:
        """Return the tuples of each step, and the row of its parent that each starts from.

        They are those of the table, and those that longer ones start from: a table that was edited may have no counts
        there.
        """
        found: list[Any] = [None] * len(self.all)
        parent_rows = [np.empty(0, np.int64)] * len(self.all)
        starts: list[dict[int, Ints]] = [{} for _ in self.all]  # by child: what its tuples start from
        n = max(len(table.vocabulary), 1)
        for k in range(len(self.all) - 1, -1, -1):
            step = self.all[k]
            known = table.tuples[self.first_sites[k]] if k in self.first_sites else None
            rows = {} if known is None else {child: known.find(wanted) for child, wanted in starts[k].items()}
            if known is None or any((index < 0).any() for index in rows.values()):
                own = [] if known is None else [known.rows()]
                known = TupleSet.collect(np.concatenate([*own, *starts[k].values()]), n)[0]
                rows = {child: known.find(wanted) for child, wanted in starts[k].items()}
            for child, index in rows.items():
                parent_rows[child] = index
            found[k], starts[k] = known, {}
            if step.parent >= 0:
                shorter = [j for j, p in enumerate(step.positions) if p != step.position]
                starts[step.parent][k] = known.rows()[:, shorter]
        return found, parent_rows

    def empties_of(self, table: CountTable) -> Iterator[RowArrays]:
        """Yield for each step the labels of the examples that have no token there: no row, or one."""
        for k in range(len(self.all)):
            empty = table.empties[self.first_sites[k]] if k in self.first_sites else LabelCounts()
            labels = table.label_counts.labels.find(empty.labels)
            one = min(len(labels), 1)
            yield (
                np.zeros(one, np.uint64),
                np.zeros(one, np.uint32),
                np.full(one, len(labels), np.uint32),
                labels.astype(np.uint32),
                empty.counts.astype(np.uint64),
            )

    def table_of(
        self, rows: Sequence[RowArrays], tokens: Numbers, label_counts: LabelCounts, columns: Ints
    ) -> CountTable:
        """Return the canonical table of these rows; `columns` is the rank of each label number."""
        tuples = self._numbered_tuples(rows)
        used = np.zeros(len(tokens) + 1, bool)
        for k in self.first_sites:
            used[tuples[k][rows[k][2] > 0]] = True
        vocabulary, numbers = tokens.named(used)
        ranks = np.zeros(len(tokens) + 1, np.int64)
        ranks[numbers] = np.arange(len(numbers))
        made, n_labels = [], len(label_counts.labels)
        for step in self.of_sites:
            _, _, lengths, labels, counts = rows[step]
            known, index = TupleSet.collect(ranks[tuples[step][lengths > 0]], max(len(vocabulary), 1))
            keys = np.repeat(index, lengths[lengths > 0]) * n_labels + columns[labels]
            order = np.argsort(keys, kind="stable")
            made.append(SiteRows.of_keys(known, keys[order], counts[order].astype(np.int64), n_labels))
        return CountTable.of_rows(self.sites, label_counts, (vocabulary, label_counts.labels), made)

    def _numbered_tuples(self, rows: Sequence[RowArrays]) -> list[Ints]:
        """Return the token numbers of the rows of each step, in the order of its positions."""
        tuples: list[Ints] = []
        for step, (keys, *_) in zip(self.all, rows, strict=True):
            column = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
            if step.parent < 0:
                tuples.append(column[:, None])
                continue
            ids = rows[step.parent][1]
            order = np.argsort(ids, kind="stable")
            parents = order[np.searchsorted(ids[order], (keys >> np.uint64(32)).astype(np.uint32))]
            tuples.append(np.insert(tuples[step.parent][parents], step.positions.index(step.position), column, axis=1))
        return tuples


def _column(rows: TupleSet, place: int) -> Ints:
    return rows.rows()[:, place] if place < len(rows.levels) - 1 else rows.levels[-1].astype(np.int64) % rows.n


MAX_RULE_SITES: Final = 512
"""Sites up to which a rule is compiled, about 50 KB each; for more, all scores are made."""
_MAX_WEIGHT: Final = 1e9


def has_rule(weights: Floats) -> bool:
    """Return whether there is a compiled rule with these weights, (S, J)."""
    return len(weights) <= MAX_RULE_SITES and bool((np.abs(weights) < _MAX_WEIGHT).all())


def log_linear_rule(smoothing: tuple[float, ...], weights: Floats, octaves: int) -> _native.LiveRule:
    """Return the compiled rule for up to 2^octaves examples.

    Shapes
    ------
    weights : (S, J)
    """
    return _native.LiveRule.log_linear(np.array(smoothing), np.ascontiguousarray(weights, np.float64), octaves)


def mean_rule(weights: Floats, divisor: Floats, label_counts: Ints) -> _native.LiveRule | None:
    """Return the compiled rule of weighted sums over this divisor, if it is one number times each label's examples.

    Shapes
    ------
    weights : (S,); divisor : (L,); label_counts : (L,)
    """
    if not len(divisor) or not (weights < _MAX_WEIGHT).all() or not (weights >= 0).all():
        return None
    total = float(divisor[0]) / max(int(label_counts[0]), 1)
    if not 0 < total < np.inf or not np.array_equal(divisor, total * np.maximum(label_counts, 1)):
        return None
    return _native.LiveRule.mean(np.ascontiguousarray(weights, np.float64), total)


UNKNOWN = 2**32 - 2
"""The number of tokens that no row holds: to remove an example that has one is refused, if the token is compared."""


class Shared:
    """What the versions of one live table share: its steps, the numbers of tokens and labels, the last label set."""

    def __init__(self, sites: Sites, tokens: Vocabulary, labels: Vocabulary) -> None:
        self.steps = Steps(sites)
        self.tokens = Numbers(tokens)
        self.labels = LabelNumbers(labels)
        self.label_set: tuple[int, LabelSet] = (1, LabelSet(labels, np.arange(len(labels))))
        """The labels that have examples, with the stamp of the versions that have them."""
        self._rule: tuple[Any, _native.LiveRule] | None = None
        self._elsewhere: tuple[Shared, int, int, Ints, Ints] | None = None
        self._size = max(1000, len(tokens) + len(labels))

    def rule_for(self, smoothing: tuple[float, ...], weights: Floats, examples: float) -> _native.LiveRule:
        """Return the compiled rule with these weights, (S, J): made once, or again where examples are far more."""
        octaves = int(np.log2(max(examples, 1.0))) + 1
        key = smoothing, weights.tobytes()
        made = self._rule
        if made is None or made[0] != key or made[1].octaves < octaves:
            made = self._rule = (key, log_linear_rule(smoothing, weights, octaves + 1))
        return made[1]

    def labels_in(self, other: Shared) -> tuple[Ints, Ints]:
        """Return the number that each label here has in another table, -1 for none, and back; what is new is added."""
        known = self._elsewhere
        n_here, n_there = len(self.labels), len(other.labels)
        if known is None or known[0] is not other:
            numbers = other.labels.find(self.labels.first)
            known = (other, len(numbers), n_there, numbers, _inverse(numbers, n_there))
        _, had_here, had_there, numbers, back = known
        if (had_here, had_there) != (n_here, n_there):
            late = [other.labels.get(self.labels.token(number)) for number in range(had_here, n_here)]
            numbers = np.concatenate([numbers, np.array(late, np.int64)])
            for number in range(had_there, n_there):
                place = self.labels.get(other.labels.token(number))
                if 0 <= place < n_here:
                    numbers[place] = number
            back = _inverse(numbers, n_there)
        self._elsewhere = (other, n_here, n_there, numbers, back)  # one store: every thread makes the same
        return numbers, back

    def has_doubled(self) -> bool:
        """Return whether there are twice as many numbers as at the start: then some may be unused."""
        return len(self.tokens) + len(self.labels) > 2 * self._size


def _inverse(numbers: Ints, n: int) -> Ints:
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
        columns = np.full(int(self.numbers.max(initial=-1)) + 2, -1, np.int64)  # the last one is for the number -1
        columns[self.numbers] = np.arange(len(self.numbers))
        return columns


class Live(Cached):
    """One version: what is stored, read and edited row by row."""

    def __init__(self, store: Shared, version: _native.LiveVersion) -> None:
        self.store = store
        self.version = version

    @classmethod
    def of(cls, table: CountTable, *, wide: bool = False) -> Live:
        """Return the live form of a table."""
        store = Shared(table.sites, table.vocabulary, table.label_counts.labels)
        steps = store.steps
        try:
            version = _native.LiveVersion.build(
                table.sites.h,
                np.array([step.parent for step in steps.all], np.int64),
                np.array([step.position for step in steps.all], np.uint32),
                np.array(steps.of_sites, np.uint32),
                wide,
                steps.rows_of(table),
                table.label_counts.counts.astype(np.uint64),
                steps.empties_of(table),
            )
        except _native.TooWideError:
            if wide:
                raise
            return cls.of(table, wide=True)
        return cls(store, version)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.total}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(Live.of(state["table"]).__dict__)

    def __deepcopy__(self, memo: Any) -> Live:
        return self  # it never changes

    @cached_property
    def total(self) -> CountTable:
        """The canonical table."""
        steps = self.store.steps
        rows = [self.version.rows(step) for step in range(len(steps.all))]
        return steps.table_of(rows, self.store.tokens, self.label_counts, self.label_set.columns)

    @cached_property
    def label_set(self) -> LabelSet:
        """The labels that have examples."""
        stamp, known = self.store.label_set
        if stamp != self.version.label_stamp:
            numbers, _ = self.version.label_row()
            used = np.zeros(len(self.store.labels), bool)
            used[numbers] = True
            known = LabelSet(*self.store.labels.named(used))
            self.store.label_set = (self.version.label_stamp, known)
        return known

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
        return int(self.version.label_counts(np.array([number]))[0]) if number >= 0 else 0

    def counts_of_one(self, tokens: Sequence[Any], label: Token) -> Ints:
        """Return the count of a label in the row that each site reads: (S,)."""
        number, token_number = self.store.labels.get(label), self.store.tokens.get
        numbers = np.array([[token_number(token) for token in tokens]], np.int64)
        lengths, labels, held = self.version.read(numbers)
        counts = np.zeros(len(lengths), np.int64)
        here = np.flatnonzero(labels == number) if number >= 0 else np.empty(0, np.int64)
        counts[np.repeat(np.arange(len(lengths)), lengths)[here]] = held[here].astype(np.int64)
        return counts

    def token_numbers(self, contexts: Contexts) -> Ints:
        """Return the number of each token of contexts, -1 where it has none."""
        numbers = np.append(self.store.tokens.find(contexts.vocabulary), -1)  # rank -1 reads the last entry
        return np.ascontiguousarray(numbers[contexts.ranks])

    def changed(self, examples: Examples, sign: int) -> Live:
        """Return the version with examples added or removed, or refuse to go below zero."""
        if sign > 0:
            check_total(self.version.examples, int(examples.multiplicity.sum()))
        return self._rebuilt_if_needed(lambda live: live.change(examples, sign))

    def changed_by_one(self, tokens: Sequence[Any], label: Any, by: int) -> Live:
        """Return the version with `by` copies of one example added or, below zero, removed."""
        if by > 0:
            check_total(self.version.examples, by)
        return self._rebuilt_if_needed(lambda live: live.change_by_one(tokens, as_token(label), by))

    def _rebuilt_if_needed(self, change: Callable[[Live], Live]) -> Live:
        try:
            made = change(self)
        except _RebuildError as error:
            return change(Live.of(self.total, wide=error.wide))
        return Live.of(made.total) if made.needs_rebuild() else made

    def change(self, examples: Examples, sign: int) -> Live:
        """Return the version with examples added or removed; it may request a new table."""
        contexts = examples.contexts
        with lock_of(self.store):
            known = self.store.tokens
            numbers = known.give_all(contexts.vocabulary) if sign > 0 else known.find(contexts.vocabulary)
            numbers[numbers < 0] = UNKNOWN
            tokens = np.ascontiguousarray(np.append(numbers, -1)[contexts.ranks])
            labels = np.array(self._label_numbers(examples.labels.tolist(), sign), np.int64)
            if sign < 0:
                self._check_labels(examples.labels.tolist(), labels, examples.label_counts())
            by = sign * examples.multiplicity
            return self._next(lambda: self.version.edit(tokens, labels[examples.label_ranks], by))

    def change_by_one(self, tokens: Sequence[Any], label: Token, by: int) -> Live:
        """Return the version with one example added or removed; it may request a new table."""
        with lock_of(self.store):
            known = self.store.tokens
            numbers = known.give_each(tokens) if by > 0 else list(map(known.get, tokens))
            if -1 in numbers:
                numbers = [
                    UNKNOWN if n < 0 and token != NO_TOKEN else n for n, token in zip(numbers, tokens, strict=True)
                ]
            (label_number,) = self._label_numbers([label], by)
            if label_number < 0:
                raise fewer_stored(label)
            try:
                return self._next(lambda: self.version.edit_one(numbers, label_number, by))
            except NotStoredError:
                self._check_labels([label], np.array([label_number]), np.array([-by]))
                raise

    def _label_numbers(self, labels: list[Token], sign: int) -> list[int]:
        """Return the numbers of labels; new ones get their place in the order first."""
        known, numbers = self.store.labels, []
        for label in labels:
            number = known.get(label)
            if number < 0:
                if sign < 0:
                    numbers.append(-1)
                    continue
                if not self.version.place(len(known), *known.neighbours(label)):
                    raise _RebuildError(wide=False)
                number = known.insert(label)
            numbers.append(number)
        return numbers

    def _next(self, edit: Callable[[], _native.LiveVersion | None]) -> Live:
        """Return the version that an edit makes; refuse, or say that the table must be rebuilt first."""
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
        known = np.maximum(numbers, 0)
        held = np.where(numbers < 0, 0, self.version.label_counts(known) if len(self.store.labels) else 0)
        if (held < removed).any():
            raise fewer_stored(labels[int(np.flatnonzero(held < removed)[0])])

    def needs_rebuild(self) -> bool:
        """Return whether much more is numbered, or kept for longer tuples, than is used."""
        rows, bare = self.version.n_rows, self.version.n_bare
        return bare > 4 * (rows - bare) + 1000 or self.store.has_doubled()


class _RebuildError(Exception):
    """The table cannot be edited as it is: another version of it was, or a number is too large for it."""

    def __init__(self, *, wide: bool) -> None:
        super().__init__(wide)
        self.wide = wide
