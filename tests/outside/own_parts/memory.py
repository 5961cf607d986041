"""A memory that keeps its counts in a Python dict, and the reader that answers from it.

The dict maps (site, tokens, label) to a count. An edit makes a new dict, so a reader that holds the old one never
changes, and an edit that is refused has changed nothing.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.memories import Compiled, LabelCounts, Memory, NotStoredError, SiteScores
from hammemo.tokens import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hammemo.kernels import Sites
    from hammemo.memories import Frame, StoredArrays
    from hammemo.tokens.contexts import Contexts, Examples

Key = tuple[int, tuple[Any, ...], Any]


class Tallied(Memory):
    """Exact counts in a dict.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from own_parts import Tallied
    >>> clf = MemoryClassifier(memory=Tallied(), vote="sum").fit([["a", "b"], ["a", "c"]], ["x", "y"])
    >>> clf.class_scores([["a", "c"]])
    array([[0.5, 1. ]])
    """

    _counts: Mapping[Key, int]
    _labels: LabelCounts

    def clear(self) -> None:
        """Hold nothing."""
        self._counts, self._labels = {}, LabelCounts()

    def update(self, examples: Examples, sign: int) -> None:
        """Add examples, or take them back."""
        self._change(tally(examples, self.sites), LabelCounts(examples.labels, examples.label_counts()), sign)

    def add_state(self, other: Tallied, sign: int) -> None:
        """Add the counts of another memory, or subtract them."""
        self._change(other._counts, other._labels, sign)

    def _change(self, counts: Mapping[Key, int], labels: LabelCounts, sign: int) -> None:
        left = self._labels.plus(labels, sign)  # refuses a label with too few examples
        changed = Counter(self._counts)
        for key, number in counts.items():
            changed[key] += sign * number
            if changed[key] < 0:
                raise NotStoredError(f"{key} is not stored so often. Nothing was changed.")
            if not changed[key]:
                del changed[key]
        most, sums = dict(zip(left.labels, left.counts.tolist(), strict=True)), Counter[tuple[int, Any]]()
        for (site, _, label), number in changed.items():
            sums[site, label] += number
            if sums[site, label] > most.get(label, 0):
                raise NotStoredError(f"Label {label!r} would have too few examples left. Nothing was changed.")
        self._counts, self._labels = changed, left  # last of all: until here nothing has changed

    def count_labels(self) -> LabelCounts:
        """Return how many examples each label has."""
        return self._labels

    def make_reader(self) -> TalliedRows:
        """Return what answers."""
        return TalliedRows(self._counts, self.frame())

    def compile(self, form: str | None = None, vocabulary: Vocabulary | None = None, threads: int = 1) -> TalliedRows:
        """Return what answers; there is only one form."""
        if form not in (None, "rows"):
            raise ValueError(f"form={form!r} is not known: Tallied() compiles to 'rows'.")
        return self.make_reader()

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the counts as sorted arrays."""
        return as_arrays(self._counts, self.sites, self.labels)

    def restore_arrays(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take the counts from arrays, checked."""
        self._counts = from_arrays(stored, self.sites, all_labels)
        self._labels = all_labels.positive()


class TalliedRows(Compiled):
    """Answers from the dict: one row of counts for each (site, tokens)."""

    has_bounds = True  # the counts are exact, so they are their own bounds
    has_rows = True

    def __init__(self, counts: Mapping[Key, int], frame: Frame) -> None:
        super().__init__(frame, len(frame.labels) * len(frame.sites.positions))
        self._counts = counts
        columns = {label: column for column, label in enumerate(frame.labels)}
        self._rows: dict[tuple[int, tuple[Any, ...]], NDArray[np.float64]] = {}
        for (site, tokens, label), number in counts.items():
            self._rows.setdefault((site, tokens), np.zeros(len(columns)))[columns[label]] = number

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row that each site of each context reads: (m, S, L)."""
        read = np.zeros((len(contexts), len(self.sites.positions), len(self.labels)))
        for i, k, tokens in held(contexts, self.sites):
            read[i, k] = self._rows.get((k, tokens), 0.0)
        return read

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum of the rows: (m, L)."""
        return np.asarray((weights[:, None] * self.site_counts(contexts)).sum(axis=1))

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return the terms of the sum, which are known exactly: (m, S, K)."""
        return SiteScores.exact(weights[:, None] * self.site_counts(contexts)[:, :, columns])

    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scores twice."""
        scores = self.scores(contexts, weights)
        return scores, scores

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that count for the size."""
        return {name: array for name, array in self.pack()[0].items() if array.size}

    def pack(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the counts as sorted arrays, and no description."""
        return as_arrays(self._counts, self.sites, self.labels), {}

    @classmethod
    def from_packed(
        cls, frame: Frame, stored: StoredArrays, description: dict[str, Any], key: bytes | None = None
    ) -> TalliedRows:
        """Return what was stored, checked."""
        if description:
            raise ValueError("a tally has no description")
        return cls(from_arrays(stored, frame.sites, LabelCounts(frame.labels, frame.label_counts)), frame)


def held(contexts: Contexts, sites: Sites) -> list[tuple[int, int, tuple[Any, ...]]]:
    """Return (context, site, tokens) for every site that has no empty position."""
    tokens, found = contexts.vocabulary.tolist(), []
    for i, ranks in enumerate(contexts.ranks.tolist()):
        for k, site in enumerate(sites.positions):
            if all(ranks[r] >= 0 for r in site):
                found.append((i, k, tuple(tokens[ranks[r]] for r in site)))
    return found


def tally(examples: Examples, sites: Sites) -> Counter[Key]:
    """Return the counts of a batch."""
    labels, counts = examples.labels.tolist(), Counter[Key]()
    for i, k, tokens in held(examples.contexts, sites):
        counts[k, tokens, labels[examples.label_ranks[i]]] += int(examples.multiplicity[i])
    return counts


def as_arrays(counts: Mapping[Key, int], sites: Sites, labels: Vocabulary) -> dict[str, NDArray[Any]]:
    """Return the canonical form: the tokens, and for each site its entries in ascending order with their counts."""
    tokens = Vocabulary.of([token for _, held_tokens, _ in counts for token in held_tokens])
    token_ranks = {token: rank for rank, token in enumerate(tokens)}
    label_ranks = {label: rank for rank, label in enumerate(labels)}
    entries: list[list[tuple[list[int], int]]] = [[] for _ in sites.positions]
    for (k, held_tokens, label), number in counts.items():
        entries[k].append(([*(token_ranks[token] for token in held_tokens), label_ranks[label]], number))
    arrays = {f"tokens.{name}": array for name, array in tokens.arrays().items()}
    for k, (site, of_site) in enumerate(zip(sites.positions, entries, strict=True)):
        of_site.sort()
        arrays[f"site.{k}"] = narrowest(np.array([ranks for ranks, _ in of_site]).reshape(-1, len(site) + 1))
        arrays[f"counts.{k}"] = narrowest(np.array([number for _, number in of_site]))
    return arrays


def from_arrays(stored: StoredArrays, sites: Sites, labels: LabelCounts) -> dict[Key, int]:
    """Return the counts of these arrays, or raise ValueError: a file may be damaged, so all of it is checked."""
    tokens, names = Vocabulary.from_arrays(stored.part("tokens")).tolist(), labels.labels.tolist()
    counts: dict[Key, int] = {}
    for k, site in enumerate(sites.positions):
        below = max(len(tokens), len(names), 1)
        entries = stored.whole_numbers(f"site.{k}", (None, len(site) + 1), below=below).tolist()
        numbers = stored.whole_numbers(f"counts.{k}", (len(entries),), below=2**53, least=1).tolist()
        if any(before >= after for before, after in pairwise(entries)):
            raise ValueError(f"the entries of site {k} are not in ascending order")
        sums = [0] * len(names)
        for (*ranks, label), number in zip(entries, numbers, strict=True):
            if label >= len(names) or max(ranks) >= len(tokens):
                raise ValueError(f"an entry of site {k} has a token or a label that is not there")
            counts[k, tuple(tokens[rank] for rank in ranks), names[label]] = number
            sums[label] += number
        if (np.array(sums, np.int64) > labels.counts).any():
            raise ValueError(f"site {k} counts more examples of a label than there are")
    if {token for _, held_tokens, _ in counts for token in held_tokens} != set(tokens):
        raise ValueError("a token is listed that no entry holds")
    return counts


def narrowest(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the narrowest unsigned type: the canonical form asks for it."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))
