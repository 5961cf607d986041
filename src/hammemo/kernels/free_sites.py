r"""Sites without a position, and the kernels that name them.

Such a part of a context is compared wherever it stands.

A *free site* looks at the last `reach` tokens of a context, each distinct token once, at its
place nearest to the end:

- ``bag``: one table for all of these places. An example adds its label once to the row of each
  distinct token;
- ``together``: tokens and labels are one vocabulary. For each distinct token a other than its
  label y, an example adds y to the row of a, and a to the row of y: what occurs together, in
  either order. A token that never was a label is never answered, but counts in the total of its
  rows;
- ``copy``: the label is the token at that place. No table;
- ``recent``: the label's share of the last `reach` tokens, repetitions counted. No table.

A table of a free site is the count table of *derived examples*, contexts of one token, in whole
numbers: so it is learnt, forgotten and merged as every other table is. The similarity of two
contexts that free sites would add is not defined. They are read by a vote that takes rows one by
one (`Mixture`), or added up to one row a site (:mod:`hammemo.memories.exact.reader`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from hammemo.kernels.site_kernels import SiteKernel, check_reach
from hammemo.kernels.sites import FreeSite, Sites
from hammemo.tokens.contexts import Contexts, Examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Floats, Ints

ONE_TOKEN: Final = Sites(1, ((0,),), np.ones(1))
"""The sites of derived examples: contexts of one token."""


class FreeKernel(SiteKernel):
    """Base class of the kernels with one free site."""

    kind: ClassVar[str]

    def __init__(self, reach: int) -> None:
        self.reach = reach

    def resolve(self, h: int) -> Sites:
        """Return the free site, and no position."""
        check_reach("reach", self.reach, 1, h)
        return Sites(h, (), np.empty(0), (FreeSite(self.kind, int(self.reach)),))

    def least_sites(self, h: int) -> int:
        """Return 0: it has no position."""
        check_reach("reach", self.reach, 1, h)
        return 0

    def __call__(self, s: Sequence[Any], q: Sequence[Any]) -> float:  # noqa: ARG002
        """Refuse: a free site has no similarity of two contexts."""
        raise TypeError(
            f"{self!r} compares no positions, so it has no similarity of two contexts: "
            "see vote=Mixture()."
        )

    def pairwise(self, X: Any, Y: Any = None) -> Floats:  # noqa: ARG002
        """Refuse: a free site has no similarity of two contexts."""
        return self(X, X)  # type: ignore[return-value]  # raises


class Bag(FreeKernel):
    """One table for the last `reach` tokens, in any order.

    Each distinct token counts once per example.

    Parameters
    ----------
    reach : int
        How many of the last tokens.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.kernels import Bag, Suffixes
    >>> from hammemo.votes import Mixture
    >>> sessions = [["tea", "cup", "pot"], ["cup", "tea", "pot"], ["pen", "ink", "paper"]] * 20
    >>> clf = MemoryClassifier(Suffixes(1) + Bag(4), vote=Mixture())
    >>> clf = clf.fit_stream(sessions, h=4, short="pad")
    >>> clf.top_k([["cup", "pen", "tea", "lamp"]], k=1).tolist()
    [['pot']]
    """

    kind = "bag"

    def __init__(self, reach: int = 10) -> None:
        super().__init__(reach)


class Together(FreeKernel):
    """Counts what occurs together with the last `reach` tokens, before or after.

    Tokens and labels share a vocabulary.

    Parameters
    ----------
    reach : int
        How many of the last tokens.
    """

    kind = "together"

    def __init__(self, reach: int = 30) -> None:
        super().__init__(reach)


class Copy(FreeKernel):
    """Predicts one of the last `reach` tokens. Stores nothing.

    Parameters
    ----------
    reach : int
        How many of the last tokens.
    """

    kind = "copy"

    def __init__(self, reach: int = 30) -> None:
        super().__init__(reach)


class Recent(FreeKernel):
    """A cache: each label's share of the last `reach` tokens, counting repetitions. Stores nothing.

    Parameters
    ----------
    reach : int
        How many of the last tokens, such as 100, 500 or 2,000 in a text.
    """

    kind = "recent"

    def __init__(self, reach: int = 500) -> None:
        super().__init__(reach)


@dataclass(frozen=True, eq=False)
class Places:
    """The distinct tokens of the last places of contexts, each at its place nearest to the end.

    Parameters
    ----------
    contexts : ndarray of int64, shape (p,)
        Which context; ascending.
    ranks : ndarray of int64, shape (p,)
        Which token.
    distances : ndarray of int64, shape (p,)
        1 for the last place of the context, 2 for the one before it; ascending for each context.
    """

    contexts: Ints
    ranks: Ints
    distances: Ints


def find_places(ranks: Ints, reach: int) -> Places:
    """Return the distinct tokens of the last `reach` places of each context; -1 is no token.

    Shapes
    ------
    ranks : (m, h)

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.kernels.free_sites import find_places
    >>> places = find_places(np.array([[7, 5, 7, 5], [3, -1, -1, 4]]), reach=3)
    >>> places.contexts.tolist(), places.ranks.tolist(), places.distances.tolist()
    ([0, 0, 1], [5, 7, 4], [1, 2, 1])
    """
    last = ranks[:, ranks.shape[1] - reach :][:, ::-1]  # nearest first
    contexts, columns = np.nonzero(last >= 0)
    tokens = last[contexts, columns]
    if not len(tokens):
        return Places(contexts, tokens, columns)
    keys = contexts * (int(tokens.max()) + 1) + tokens
    # of equal keys, the first is the nearest
    firsts = np.sort(np.unique(keys, return_index=True)[1])
    return Places(contexts[firsts], tokens[firsts], columns[firsts] + 1)


def derive_examples(examples: Examples, site: FreeSite) -> Examples:
    """Return the examples that the table of a free site counts: contexts of one token.

    Examples
    --------
    >>> from hammemo.kernels.free_sites import derive_examples
    >>> from hammemo.kernels.sites import FreeSite
    >>> from hammemo.tokens.contexts import Examples
    >>> derived = derive_examples(Examples.of([["a", "b", "a"]], ["b"]), FreeSite("together", 3))
    >>> tokens, labels = derived.contexts.vocabulary.tolist(), derived.labels.tolist()
    >>> ranks = zip(derived.contexts.ranks[:, 0], derived.label_ranks, strict=True)
    >>> [(tokens[t], labels[c]) for t, c in ranks]
    [('a', 'b'), ('b', 'a')]
    """
    contexts = examples.contexts
    places = find_places(contexts.ranks, site.reach)
    tokens = places.ranks
    labels = examples.label_ranks[places.contexts]
    multiplicity = examples.multiplicity[places.contexts]
    cases = places.contexts
    if examples.cases is not None:
        cases = examples.cases[places.contexts]
    if site.kind == "bag":
        one_token = Contexts.with_ranks(contexts.vocabulary, tokens[:, None])
        derived = Examples(one_token, labels, examples.labels, multiplicity, cases=cases)
        return derived.with_used_labels()

    # Tokens and labels in one vocabulary; each pair of different ones is two examples.
    shared = contexts.vocabulary.union(examples.labels)
    tokens = shared.find(contexts.vocabulary)[tokens]
    labels = shared.find(examples.labels)[labels]
    is_other = tokens != labels
    tokens = tokens[is_other]
    labels = labels[is_other]
    multiplicity = multiplicity[is_other]
    cases = cases[is_other]
    derived = Examples(
        Contexts.with_ranks(shared, np.concatenate([tokens, labels])[:, None]),
        np.concatenate([labels, tokens]),
        shared,
        np.concatenate([multiplicity, multiplicity]),
        cases=np.concatenate([cases, cases]),
    )
    return derived.with_used_labels()


def sum_pairs(derived: Examples) -> Examples:
    """Return derived examples with each pair of a token and a label once, and its count.

    Examples
    --------
    >>> from hammemo.kernels.free_sites import sum_pairs
    >>> from hammemo.tokens.contexts import Examples
    >>> summed = sum_pairs(Examples.of([["a"], ["b"], ["a"]], ["x", "x", "x"]))
    >>> len(summed), summed.multiplicity.tolist()
    (2, [2, 1])
    """
    if len(derived) < 2:
        return derived
    n_labels = len(derived.labels)
    keys = derived.contexts.ranks[:, 0] * n_labels + derived.label_ranks
    pairs, places = np.unique(keys, return_inverse=True)
    times = np.zeros(len(pairs), np.int64)
    np.add.at(times, places, derived.multiplicity)
    tokens, labels = np.divmod(pairs, n_labels)
    contexts = Contexts.with_ranks(derived.contexts.vocabulary, tokens[:, None])
    return Examples(contexts, labels, derived.labels, times)
