r"""Which parts of two contexts are compared, and how much each counts.

A *site* is a position or a tuple of positions. With sites :math:`1, \dots, S` and weights
:math:`w_k \ge 0`,

.. math:: K(s, q) = \frac{\sum_k w_k \, \mathbf 1\{s_k = q_k\}}{\sum_k w_k},

where :math:`s_k` is what site k of context s holds, and a site with an empty position matches
nothing. Each term is the inner product of two one-hot vectors, so K is positive semi-definite,
and :math:`K(s, s) = 1` for a full context. The paper's positional Hamming kernel is the instance
with one site per position and equal weights. `Suffixes`, `SkipPairs`, `Pairs` and `Decaying` are
other instances, and ``a + b`` compares the sites of both, the weights of a common site added up:
a sum of positive semi-definite kernels, divided by the new sum of weights.

Weights are divided by their sum only at the end: with whole-number weights every sum before that
is exact, and ties are ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hammemo._arrays.checked import is_number
from hammemo.kernels.sites import (
    FreeSite,
    Site,
    Sites,
    collect_sites,
    find_sites,
    make_sparse_rows,
)
from hammemo.tokens.contexts import token_array
from hammemo.tokens.user_input import TOKEN_RULES, get_fitted_columns, read_question
from hammemo.tokens.vocabulary import NO_TOKEN, as_token

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from hammemo._arrays.types import Floats


class SiteKernel(BaseEstimator):
    """Kernel that compares any set of sites.

    Parameters
    ----------
    sites : sequence of int, str or tuple of these
        Positions, or tuples of positions that must all match. Negative ones count from the end:
        -1 is the last token. Names are those of the columns of a data frame;
        `MemoryClassifier.fit` looks up their positions.
    weights : sequence of float, optional
        One non-negative weight per site; equal by default.

    Examples
    --------
    >>> from hammemo.kernels import SiteKernel
    >>> kernel = SiteKernel([0, 1, (0, 1)], weights=[1, 1, 2])
    >>> kernel(["a", "b"], ["a", "c"]), kernel(["a", "b"], ["a", "b"])
    (0.25, 1.0)
    >>> kernel.pairwise([["a", "b"], ["c", "b"]])
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    def __init__(
        self,
        sites: Sequence[int | str | Sequence[int | str]],
        weights: Sequence[float] | None = None,
    ) -> None:
        self.sites = sites
        self.weights = weights

    def with_positions(self, names: Iterable[Any] | None) -> SiteKernel:
        """Return the kernel with the positions of columns in place of their names.

        A kernel that names no column is returned as it is.

        Examples
        --------
        >>> from hammemo.kernels import SiteKernel
        >>> SiteKernel(["age", ("age", "job")]).with_positions(["job", "age"])
        SiteKernel(sites=[1, (1, 0)])
        """
        sites = getattr(self, "sites", None)
        if not isinstance(sites, Sequence) or not any(_has_names(site) for site in sites):
            return self
        places = None
        if names is not None:
            places = {str(name): place for place, name in enumerate(names)}
        return SiteKernel([_replace_names(site, places) for site in sites], self.weights)

    def resolve(self, h: int) -> Sites:
        """Return the sites and weights for contexts of h tokens, checked."""
        positions = tuple(_resolve_site(site, h) for site in self.sites)
        if not positions:
            raise ValueError(
                "A kernel needs at least one site, for example SiteKernel([-1]) "
                "for the last position."
            )
        if len(set(positions)) < len(positions):
            raise ValueError(
                f"sites={self.sites!r} names a site twice for contexts of {h}: "
                "give it a larger weight."
            )
        return Sites(h, positions, _check_weights(self.weights, len(positions)))

    def least_sites(self, h: int) -> int:  # noqa: ARG002  (other kernels need it)
        """Return a lower bound of the number of sites, without making them.

        `load` compares it with the file first.
        """
        if not hasattr(self.sites, "__len__"):
            raise ValueError(
                f"sites={self.sites!r} must be a list of positions, or of tuples of positions."
            )
        return len(self.sites)

    def least_positions(self, h: int) -> int:
        """Return a lower bound of the positions of all sites together, without listing them.

        It is for kernels from files.
        """
        return self.least_sites(h)

    def __add__(self, other: Any) -> Joined:
        """Return the kernel that compares the sites of both, with common weights added up."""
        if not isinstance(other, SiteKernel):
            return NotImplemented
        return Joined([*_list_terms(self), *_list_terms(other)])

    def __call__(self, s: Sequence[Any], q: Sequence[Any]) -> float:
        """Return K(s, q) for one pair of contexts, from the definition."""
        if len(s) != len(q):
            raise ValueError(
                f"The contexts have {len(s)} and {len(q)} tokens; "
                "only equal lengths can be compared."
            )
        sites = self.resolve(len(s))
        left = [as_token(token) for token in s]
        right = [as_token(token) for token in q]
        is_equal = [a == b and a != NO_TOKEN for a, b in zip(left, right, strict=True)]
        matches = [all(is_equal[r] for r in site) for site in sites.positions]
        return float(sites.weights[matches].sum() / sites.total_weight)

    def pairwise(self, X: Any, Y: Any = None) -> Floats:
        """Return the matrix of K between the contexts of X and those of Y (X itself by default).

        Shapes
        ------
        X : (m, h); Y : (k, h); returned : (m, k)
        """
        kernel = self.with_positions(getattr(X, "columns", None))
        X = token_array(X)  # as arrays: two frames may name their columns differently
        Y = X if Y is None else token_array(Y)
        encoder = SiteOneHot(kernel, normalize=False).fit(Y)
        weights = np.repeat(encoder.sites_.weights, [len(tuples) for tuples in encoder.tuples_])
        products = encoder.transform(X) @ sparse.diags_array(weights) @ encoder.transform(Y).T
        values: Floats = products.toarray() / encoder.sites_.total_weight
        return values


class PositionalHamming(SiteKernel):
    """The paper's kernel: the share of positions at which two contexts hold the same token.

    Examples
    --------
    >>> from hammemo.kernels import PositionalHamming
    >>> PositionalHamming()(["the", "cat", "sat"], ["the", "dog", "sat"])
    0.6666666666666666
    """

    def __init__(self) -> None:
        pass

    def resolve(self, h: int) -> Sites:
        """Return one site for each of the h positions, with equal weights."""
        return SiteKernel(range(h)).resolve(h)

    def least_sites(self, h: int) -> int:
        """Return h."""
        return h


class Decaying(SiteKernel):
    """Positions whose weight falls by a factor with each step away from the end of the context.

    Parameters
    ----------
    rate : float
        The weight of a position divided by that of the next one: above zero, at most one.

    Examples
    --------
    >>> from hammemo.kernels import Decaying
    >>> Decaying(0.5)(["a", "b", "c"], ["x", "b", "c"])  # weights 1/4, 1/2, 1
    0.8571428571428571
    """

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = rate

    def resolve(self, h: int) -> Sites:
        """Return one site for each of the h positions, the last one with weight 1."""
        if not is_number(self.rate) or not 0 < self.rate <= 1:
            raise ValueError(
                f"rate={self.rate!r} must be a number above 0 and at most 1, for example 0.5."
            )
        weights = [float(self.rate) ** (h - 1 - r) for r in range(h)]
        return SiteKernel(range(h), weights).resolve(h)

    def least_sites(self, h: int) -> int:
        """Return h."""
        return h


class Suffixes(SiteKernel):
    r"""The last token, the last two together, and so on to the last k: a weighted-degree kernel.

    Two contexts whose longest common suffix has l tokens have similarity :math:`\sum_{j \le
    \min(l, k)} b^{j-1} / \sum_{j \le k} b^{j-1}`. A large base b lets the longest match decide.

    Parameters
    ----------
    k : int
        Length of the longest suffix.
    base : float
        The weight of a suffix divided by that of the suffix one token shorter.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.kernels import Suffixes
    >>> from hammemo.memories import Exact
    >>> Suffixes(3, base=2)(["a", "b", "c"], ["x", "b", "c"])  # 1 and 2 match, 4 does not
    0.42857142857142855
    >>> X, y = [["to", "be"], ["not", "be"], ["not", "be"]], ["or", "so", "so"]
    >>> clf = MemoryClassifier(Suffixes(2, base=30), Exact(), "sum").fit(X, y)
    >>> clf.predict([["to", "be"]]).tolist()
    ['or']
    """

    def __init__(self, k: int = 4, base: float = 1.0) -> None:
        self.k = k
        self.base = base

    def resolve(self, h: int) -> Sites:
        """Return the k suffixes, the shortest first, with weights 1, base, base^2 and so on."""
        check_reach("k", self.k, 1, h)
        if not is_number(self.base) or not 0 < self.base < 2.0**20:
            raise ValueError(f"base={self.base!r} must be a number above 0 and below 2^20.")
        weights = np.power(float(self.base), np.arange(self.k)).tolist()
        suffixes = [tuple(range(-length, 0)) for length in range(1, self.k + 1)]
        return SiteKernel(suffixes, weights).resolve(h)

    def least_sites(self, h: int) -> int:
        """Return k."""
        check_reach("k", self.k, 1, h)
        return int(self.k)

    def least_positions(self, h: int) -> int:
        """Return 1 + 2 + … + k."""
        n_sites = self.least_sites(h)
        return n_sites * (n_sites + 1) // 2


class SkipPairs(SiteKernel):
    """All pairs of the last few positions, except the last two, which form a suffix.

    Parameters
    ----------
    reach : int
        The number of last positions, at least 3.

    Examples
    --------
    >>> from hammemo.kernels import SkipPairs
    >>> SkipPairs(3).resolve(8).positions
    ((5, 7), (5, 6))
    >>> len(SkipPairs(4).resolve(8).positions)
    5
    """

    def __init__(self, reach: int = 4) -> None:
        self.reach = reach

    def resolve(self, h: int) -> Sites:
        """Return the pairs, the nearest first, with equal weights."""
        check_reach("reach", self.reach, 3, h)
        pairs = []
        for first in range(3, self.reach + 1):
            pairs += [(-first, -second) for second in range(1, first)]
        return SiteKernel(pairs).resolve(h)

    def least_sites(self, h: int) -> int:
        """Return the number of pairs."""
        check_reach("reach", self.reach, 3, h)
        return int(self.reach) * (int(self.reach) - 1) // 2 - 1


class Pairs(SiteKernel):
    """All pairs of positions: what two columns of a table say together.

    For columns alone too, add `PositionalHamming`.

    Examples
    --------
    >>> from hammemo.kernels import Pairs, PositionalHamming
    >>> Pairs().resolve(3).positions
    ((0, 1), (0, 2), (1, 2))
    >>> kernel = PositionalHamming() + Pairs()
    >>> kernel(["a", "b", "c"], ["a", "b", "x"])  # two columns of three, one pair of three
    0.5
    """

    def __init__(self) -> None:
        pass

    def resolve(self, h: int) -> Sites:
        """Return the pairs in lexicographic order, with equal weights."""
        if h < 2:
            raise ValueError(
                f"Pairs() needs contexts of two tokens or more, not {h}: use PositionalHamming()."
            )
        return SiteKernel(list(combinations(range(h), 2))).resolve(h)

    def least_sites(self, h: int) -> int:
        """Return the number of pairs."""
        return h * (h - 1) // 2


class Joined(SiteKernel):
    """The sites of several kernels; what ``a + b`` returns.

    A site that several kernels have is compared once, with the sum of its weights.

    Parameters
    ----------
    kernels : sequence of SiteKernel

    Examples
    --------
    >>> from hammemo.kernels import Decaying, PositionalHamming, Suffixes
    >>> kernel = PositionalHamming() + Suffixes(2, base=3)
    >>> kernel.resolve(3).positions, kernel.resolve(3).weights.tolist()
    (((0,), (1,), (2,), (1, 2)), [1.0, 1.0, 2.0, 3.0])
    """

    def __init__(self, kernels: Sequence[SiteKernel]) -> None:
        self.kernels = kernels

    def resolve(self, h: int) -> Sites:
        """Return the sites of all kernels, each once, in the order in which they come."""
        weights: dict[Site, float] = {}
        free: dict[FreeSite, None] = {}
        for kernel in self._check_kernels():
            sites = kernel.resolve(h)
            free.update(dict.fromkeys(sites.free))
            for site, weight in zip(sites.positions, sites.weights.tolist(), strict=True):
                weights[site] = weights.get(site, 0.0) + weight
        if not weights:
            return Sites(h, (), np.empty(0), tuple(free))
        sites = SiteKernel(list(weights), list(weights.values())).resolve(h)
        return replace(sites, free=tuple(free))

    def with_positions(self, names: Iterable[Any] | None) -> SiteKernel:
        """Return the kernel with the positions of columns in place of their names.

        A kernel that names no column is returned as it is.
        """
        before = self._check_kernels()
        after = [kernel.with_positions(names) for kernel in before]
        if all(new is old for new, old in zip(after, before, strict=True)):
            return self
        return Joined(after)

    def least_sites(self, h: int) -> int:
        """Return the number of sites of the largest part."""
        return max(kernel.least_sites(h) for kernel in self._check_kernels())

    def least_positions(self, h: int) -> int:
        """Return the number of positions of the largest part."""
        return max(kernel.least_positions(h) for kernel in self._check_kernels())

    def _check_kernels(self) -> Sequence[SiteKernel]:
        """Return the kernels, or refuse what is no list of kernels."""
        kernels: Any = self.kernels
        is_list = isinstance(kernels, Sequence) and len(kernels) > 0
        if not is_list or not all(isinstance(kernel, SiteKernel) for kernel in kernels):
            raise ValueError(
                f"kernels={kernels!r} must be a list of kernels, "
                "for example [Suffixes(4), SkipPairs(4)]."
            )
        return self.kernels


class SiteOneHot(TransformerMixin, BaseEstimator):
    r"""The kernel's feature map as a transformer: a sparse one-hot block for each site.

    The inner product of two rows is the kernel of the two contexts. A tuple of tokens that `fit`
    did not see gives an empty block. Linear models on these features see exactly what a memory
    with this kernel sees.

    Parameters
    ----------
    kernel : SiteKernel, optional
        The positional Hamming kernel by default.
    normalize : bool
        Whether an entry is :math:`\sqrt{w_k / \sum w}`, so that inner products are kernel
        values, or one.

    Attributes
    ----------
    sites_ : Sites
    vocabulary_ : Vocabulary
    tuples_ : list of TupleSet
        The tuples of tokens of each site in the training contexts; one column for each.

    Examples
    --------
    >>> from hammemo.kernels import SiteOneHot
    >>> features = SiteOneHot().fit_transform([["a", "b"], ["a", "c"]])
    >>> (features @ features.T).toarray().round(12)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    def __init__(self, kernel: SiteKernel | None = None, normalize: bool = True) -> None:
        self.kernel = kernel
        self.normalize = normalize

    def fit(self, X: Any, y: Any = None) -> SiteOneHot:  # noqa: ARG002  (scikit-learn's signature)
        """Collect what each site holds in the contexts of X."""
        contexts = read_question(self, TOKEN_RULES, None, X)
        names = getattr(self, "feature_names_in_", None)
        kernel = (self.kernel or PositionalHamming()).with_positions(names)
        self.sites_ = kernel.resolve(contexts.h)
        self.vocabulary_ = contexts.vocabulary
        self.tuples_ = collect_sites(contexts, self.sites_)[0]
        return self

    def transform(self, X: Any) -> sparse.csr_array:
        """Return the features of the contexts of X.

        Shapes
        ------
        X : (m, h); returned : (m, number of distinct site values seen by fit)
        """
        check_is_fitted(self)
        contexts = read_question(self, TOKEN_RULES, get_fitted_columns(self), X)
        columns = find_sites(contexts.ranks_in(self.vocabulary_), self.sites_, self.tuples_)
        weights = self.sites_.weights / self.sites_.total_weight
        values = np.ones(len(weights))
        if self.normalize:
            values = np.sqrt(weights)
        return make_sparse_rows(columns, values, sum(map(len, self.tuples_)))

    def get_feature_names_out(
        self,
        input_features: ArrayLike | None = None,  # noqa: ARG002  (scikit-learn's signature)
    ) -> NDArray[np.object_]:
        """Return a name for each column: its positions and its tokens."""
        check_is_fitted(self)
        tokens = list(self.vocabulary_)
        names = []
        for site, tuples in zip(self.sites_.positions, self.tuples_, strict=True):
            for row in tuples.rows():
                pairs = zip(site, row, strict=True)
                names.append(",".join(f"{r}={tokens[rank]!r}" for r, rank in pairs))
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.requires_fit = True
        return tags


def _list_terms(kernel: SiteKernel) -> Sequence[SiteKernel]:
    """Return the kernels that a kernel is the sum of: itself, where it is no sum."""
    if isinstance(kernel, Joined):
        return kernel.kernels
    return [kernel]


def check_reach(name: str, value: Any, least: int, h: int) -> None:
    """Refuse what is no whole number from `least` to h."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or not least <= value <= h:
        raise ValueError(
            f"{name}={value!r}: "
            f"give a whole number from {least} to the {h} tokens that a context has."
        )


def _is_tuple(site: Any) -> bool:
    """Return whether a site is a tuple or list, and no single position or name."""
    return isinstance(site, Sequence) and not isinstance(site, str)


def _members(site: Any) -> Sequence[Any]:
    """Return the positions or names of a site; a name alone is one."""
    return site if _is_tuple(site) else (site,)


def _has_names(site: Any) -> bool:
    """Return whether a site names a column."""
    return any(isinstance(member, str) for member in _members(site))


def _replace_names(site: Any, places: dict[str, int] | None) -> Any:
    """Return a site with the places of its names, or refuse a name that X does not have."""
    if places is None:
        raise ValueError(
            f"The site {site!r} names columns, and X has no names of columns: "
            "pass a data frame, or name positions."
        )
    positions = []
    for member in _members(site):
        if isinstance(member, str) and member not in places:
            raise ValueError(
                f"The site {site!r} names the column {member!r}; "
                f"the columns of X are {', '.join(places)}."
            )
        positions.append(places[member] if isinstance(member, str) else member)
    return tuple(positions) if _is_tuple(site) else positions[0]


def _resolve_site(site: Any, h: int) -> Site:
    """Return the positions of a site in contexts of h tokens, from 0 on and ascending."""
    positions = _members(site)
    for r in positions:
        if isinstance(r, str):
            _replace_names(site, None)  # refuses
        if not isinstance(r, (int, np.integer)) or not -h <= r < h:
            raise ValueError(
                f"The site {site!r} names position {r!r}; "
                f"contexts of {h} have positions {-h} to {h - 1}."
            )
    resolved = tuple(sorted({int(r) % h for r in positions}))
    if not resolved or len(resolved) < len(positions):
        raise ValueError(
            f"The site {site!r} is empty or names a position twice (contexts of {h} tokens)."
        )
    return resolved


def _check_weights(weights: Sequence[float] | None, n_sites: int) -> Floats:
    """Return the weights of sites as an array, equal ones by default."""
    if weights is None:
        values = np.ones(n_sites)
    else:
        values = np.asarray(weights, np.float64)
    if values.shape != (n_sites,):
        raise ValueError(
            f"The kernel has {n_sites} sites, so it needs {n_sites} weights; weights={weights!r}."
        )
    with np.errstate(over="ignore"):
        total = values.sum()
    if not 0 < total < np.inf or values.min() < 0:
        raise ValueError(
            f"weights={weights!r}: weights and their sum must be finite, none negative, "
            "and not all zero."
        )
    return values
