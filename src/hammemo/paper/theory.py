r"""The paper's analysis as code: the sources and the size of the error of a Gaussian memory.

**Where it comes from.** For a query q and a candidate label c, with the ideal score :math:`S_c`,
the score before decoding :math:`G_c = \sum_{j: y_j = c} \langle \phi(q), \phi(s_j) \rangle` and the
decoded score :math:`\widetilde S_c = \sum_y G_y \langle z_c, z_y \rangle`,

.. math::

    \widetilde S_c - S_c = \underbrace{(G_c - S_c)}_{\text{context sketch}}
    + \underbrace{G_c (\lVert z_c \rVert^2 - 1)}_{\text{norm error}}
    + \underbrace{\textstyle\sum_{y \ne c} G_y \langle z_c, z_y \rangle}_{\text{cross-talk}}.

The last two are the output interference; its scale is :math:`\sqrt{\widehat{\mathcal C} / d}` with
the realised collision energy :math:`\widehat{\mathcal C} = \sum_y G_y^2`, which for an exact
context sketch is the ideal one, :math:`\mathcal C = \sum_y S_y^2`.

The matrix C alone cannot tell G: two data sets may have the same C. So the counts are needed too,
from the sketch's exact twin.

**How large it can be**: the paper's theorems with explicit constants, and a sharper bound from the
counts.

The paper leaves its constants open. For Gaussian codes they follow from two facts about a
chi-square sum :math:`\sum_i a_i (g_i^2 - 1)` of independent standard normals (Laurent and Massart):
it exceeds :math:`2 \lVert a \rVert_2 \sqrt t + 2 \lVert a \rVert_\infty t` with probability at most
:math:`e^{-t}`, and by polarisation every inner product of jointly Gaussian vectors is a difference
of two such sums. `docs/theory.md` has the derivations. In short, with
:math:`a_D = 2 \sqrt{2L/D} + 4L/D`:

- :math:`\eta_U \le a_d` and :math:`\eta_A \le (1 + \eta_U) a_{d_h}`, each with probability
  :math:`1 - \delta/2`;
- :math:`a_D \le 4 (\sqrt{L/D} + L/D)`, so :math:`C_2 = C_4 = 4` and
  :math:`C_0 = \max(C_2, 2 C_4) = 8`;
- :math:`a_d \le 1` as soon as :math:`d \ge c_0 L` with :math:`c_0 = 8 + 4 \sqrt 3`.

The bound from the counts holds for one query (or, by a union bound, several). Given the projection,
the pre-decoding score is one Gaussian quadratic form whose matrix is the query's count matrix B
(`count_norms`), so errors of different tokens and positions cancel as they do in truth: what counts
is :math:`\lVert B \rVert_F`, not the number of examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import ceil, inf, log, sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from hammemo._versions import cached_property
from hammemo.kernels.sites import Sites, collect_sites
from hammemo.memories import Exact, Gaussian
from hammemo.memories.gaussian.codes import encode
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.hashing import Feature, features_of
from hammemo.votes import Sum

if TYPE_CHECKING:
    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.memories.exact import CountTable
    from hammemo.tokens.vocabulary import Vocabulary

__all__ = [
    "CONTEXT_CONSTANT",
    "DIMENSION_CONSTANT",
    "ContextBound",
    "Decomposition",
    "Recovery",
    "coherence_dimension",
    "context_bound",
    "data_context_bound",
    "data_recovery",
    "decompose",
    "output_bound",
    "projection_dimension",
    "recovery",
    "required_dimension",
    "sharp_context_bound",
    "square_recovery",
]

DIMENSION_CONSTANT: Final = 8 + 4 * sqrt(3)
"""The paper's c_0: the context bound applies for d of at least this many times L."""

CONTEXT_CONSTANT: Final = 8.0
"""The paper's C_0 in the context bound (Theorem 4)."""

SQUARE_CONTEXT_CONSTANT: Final = 2 * CONTEXT_CONSTANT
"""The corollary's C_0: it drops the terms in d, which are at most those in d_h."""


@dataclass(frozen=True)
class ContextBound:
    """A bound on the context-sketch error; infinite where its condition on d does not hold."""

    value: float
    applies: bool


@dataclass(frozen=True)
class Recovery:
    """A bound on the largest score error of a query, its two parts, and if the winner is sure."""

    context: float
    output: float
    guaranteed: bool

    @property
    def total(self) -> float:
        """Bound on the largest score error."""
        return self.context + self.output


def coherence_dimension(n: int, epsilon: float, delta: float) -> int:
    r"""Return a d that makes n token codes nearly orthonormal, with probability 1 - delta.

    Section 2 of the paper.

    Then :math:`|\langle u_x, u_y \rangle - 1\{x = y\}| \le \varepsilon` for all pairs of tokens at
    once. The paper's :math:`d \gtrsim \varepsilon^{-2} (\log n + \log(1/\delta))` has this constant
    for Gaussian codes: with :math:`t = \ln(n (n + 1)/\delta)`, d is the smallest with
    :math:`2 \sqrt{t/d} + 2t/d \le \varepsilon`.

    Examples
    --------
    >>> from hammemo.paper.theory import coherence_dimension
    >>> coherence_dimension(n=1024, epsilon=0.5, delta=0.01)
    431
    """
    _check(delta, n=n)
    return _dimension(log(n * (n + 1) / delta), epsilon)


def projection_dimension(n: int, zeta: float, delta: float) -> int:
    r"""Return a d_h whose projection keeps all distances of n codes, with probability 1 - delta.

    Section 2 of the paper.

    The Johnson-Lindenstrauss lemma: for codes that do not depend on the projection, :math:`(1 -
    \zeta) \lVert u_x - u_y \rVert^2 \le \lVert A u_x - A u_y \rVert^2 \le (1 + \zeta) \lVert u_x -
    u_y \rVert^2` for all pairs at once, where :math:`A = \sqrt h \, W`. With
    :math:`t = \ln(n (n - 1)/\delta)`, d_h is the smallest with
    :math:`2 \sqrt{t/d_h} + 2t/d_h \le \zeta`.

    Examples
    --------
    >>> from hammemo.paper.theory import projection_dimension
    >>> projection_dimension(n=1024, zeta=0.5, delta=0.01)
    431
    """
    _check(delta, n=n)
    return _dimension(log(max(n * (n - 1), 2) / delta), zeta)


def margin_preserved(score_error: float, margin: float) -> bool:
    """Theorem 3, margin: whether an error of all scores below half the margin keeps the winner.

    Examples
    --------
    >>> from hammemo.paper.theory import margin_preserved
    >>> margin_preserved(7.9, margin=16), margin_preserved(8.0, margin=16)
    (True, False)
    """
    return score_error < margin / 2


def context_bound(n: int, d: int, d_h: int, largest_class: int, delta: float) -> ContextBound:
    r"""Theorem 4, context sketch: bound :math:`\max_c |G_c - S_c|` for all queries at once.

    The bound holds with probability 1 - delta.

    Parameters
    ----------
    n : int
        Token types.
    d, d_h : int
        Dimensions of token codes and of projected codes.
    largest_class : int
        Examples of the most frequent label, M_max.
    delta : float
        Allowed failure probability.

    Examples
    --------
    >>> from hammemo.paper.theory import context_bound
    >>> context_bound(n=1024, d=4096, d_h=512, largest_class=64, delta=0.01)
    ContextBound(value=107.66..., applies=True)
    """
    _check(delta, n=n, d=d, d_h=d_h, largest_class=largest_class)
    log_term = _log_pairs(n, delta)
    if d < DIMENSION_CONSTANT * log_term:
        return ContextBound(inf, applies=False)
    rates = sqrt(log_term / d) + log_term / d + sqrt(log_term / d_h) + log_term / d_h
    return ContextBound(CONTEXT_CONSTANT * largest_class * rates, applies=True)


def sharp_context_bound(n: int, d: int, d_h: int, largest_class: int, delta: float) -> float:
    r"""Theorem 4 before its constants are rounded up, for every d.

    It is :math:`M_{\max} (a_d + (1 + a_d) a_{d_h})`.

    Examples
    --------
    >>> from hammemo.paper.theory import sharp_context_bound
    >>> sharp_context_bound(n=1024, d=4096, d_h=512, largest_class=64, delta=0.01)
    44.19...
    """
    _check(delta, n=n, d=d, d_h=d_h, largest_class=largest_class)
    t = 2 * _log_pairs(n, delta)
    token_rate = _chi_square_rate(t, d)
    projection_rate = _chi_square_rate(t, d_h)
    return largest_class * (token_rate + (1 + token_rate) * projection_rate)


def output_bound(n: int, d: int, energy: float, delta: float) -> float:
    r"""Theorem 5, output interference: bound :math:`\max_c |\widetilde S_c - G_c|` of one query.

    It holds with probability 1 - delta over the label codes, given the context sketch.

    Parameters
    ----------
    n : int
        Candidate labels.
    d : int
        Dimension of label codes.
    energy : float
        Realised collision energy, the sum of the squares of G.
    delta : float
        Allowed failure probability.

    Examples
    --------
    >>> from hammemo.paper.theory import output_bound
    >>> output_bound(n=1024, d=4096, energy=37_888, delta=0.01)
    39.44...
    """
    _check(delta, n=n, d=d)
    return sqrt(energy) * _output_rate(log(4 * n / delta), d)


def recovery(
    n: int, d: int, d_h: int, largest_class: int, energy: float, margin: float, delta: float
) -> Recovery:
    """Theorem 6, recovery: bound all scores of one query by the realised energy.

    The bound holds with probability 1 - delta.

    Parameters
    ----------
    n, d, d_h, largest_class, delta
        As in `context_bound`.
    energy : float
        Realised collision energy, the sum of the squares of G.
    margin : float
        Lead of the ideal winner.

    Examples
    --------
    >>> from hammemo.paper.theory import recovery
    >>> bound = recovery(
    ...     1024, d=4096, d_h=512, largest_class=64, energy=37_888, margin=16, delta=0.01
    ... )
    >>> bound.guaranteed
    False
    """
    context = context_bound(n, d, d_h, largest_class, delta=delta / 2).value
    output = output_bound(n, d, energy, delta / 2)
    return Recovery(context, output, margin_preserved(context + output, margin))


def square_recovery(
    n: int,
    d: int,
    h: int,
    largest_class: int,
    energy: float,
    n_observed_labels: int,
    margin: float,
    delta: float,
) -> Recovery:
    """Corollary 7: the square memory (d_h = d / h), from counts only.

    Parameters
    ----------
    n, d, largest_class, delta
        As in `context_bound`.
    h : int
        Tokens per context; divides d.
    energy : float
        Ideal collision energy, the sum of the squares of S.
    n_observed_labels : int
        Labels that have examples.
    margin : float
        Lead of the ideal winner.

    Examples
    --------
    >>> from hammemo.paper.theory import square_recovery
    >>> square_recovery(1024, 10**9, 8, 64, 37_888, 64, margin=16, delta=0.01).guaranteed
    True
    """
    _check(delta, n=n, d=d, h=h, largest_class=largest_class)
    if d % h:
        raise ValueError(
            f"The square memory has d_h = d / h; h={h} does not divide d={d}. Use recovery()."
        )
    log_term = log(16 * n / delta)
    if d < DIMENSION_CONSTANT * log_term:
        return Recovery(inf, inf, guaranteed=False)
    rate = h * log_term / d
    context = SQUARE_CONTEXT_CONSTANT * largest_class * (sqrt(rate) + rate)
    output = (sqrt(energy) + sqrt(n_observed_labels) * context) * _output_rate(log_term, d)
    return Recovery(context, output, margin_preserved(context + output, margin))


def required_dimension(
    n: int, h: int, n_examples: int, largest_class: int, margin: float, delta: float
) -> float:
    """Remark 8: the asymptotic requirement on d for a square memory, without constants.

    Examples
    --------
    >>> from hammemo.paper.theory import required_dimension
    >>> round(required_dimension(1024, 8, n_examples=4096, largest_class=64, margin=16, delta=0.01))
    16...
    """
    _check(delta, n=n, h=h, n_examples=n_examples, largest_class=largest_class)
    if margin <= 0:
        return inf
    return log(16 * n / delta) * (h * largest_class**2 + n_examples * largest_class) / margin**2


def data_context_bound(
    ideal: Floats, frobenius: Floats, operator: Floats, d: int, d_h: int, delta: float
) -> Floats:
    r"""Bound :math:`|G_c - S_c|` for each label of each query from the counts.

    The bounds of each query hold with probability 1 - delta.

    With the projection :math:`A`, :math:`H = A^\top A` and
    :math:`t = \ln((2 \ell + 4)/\delta)` for :math:`\ell` labels with a non-zero count matrix,

    .. math::

        |G_c - S_c| \le S_c \Bigl(2 \sqrt{\tfrac{t}{d d_h}} + \tfrac{2t}{d d_h}\Bigr)
        + 2 \lVert B_c \rVert_F \sqrt t \, \frac{\overline{\lVert H \rVert}_F}{d}
        + 2 \lVert B_c \rVert t \, \frac{\overline{\lVert H \rVert}}{d},

    where :math:`\overline{\lVert H \rVert}_F = ((d (d + d_h + 1)/d_h)^{1/4} + \sqrt{2t/d_h})^2` and
    :math:`\overline{\lVert H \rVert} = (1 + \sqrt{d/d_h} + \sqrt{2t/d_h})^2` bound the norms of H
    with probability :math:`1 - e^{-t}` each. The leading term is
    :math:`2 \lVert B_c \rVert_F \sqrt{t (1/d + 1/d_h)}`: up to the logarithm, the standard
    deviation of the error itself.

    Parameters
    ----------
    ideal, frobenius, operator : ndarray of shape (m, L)
        Ideal scores, and the norms from `count_norms`.
    d, d_h : int
    delta : float

    Returns
    -------
    ndarray of shape (m, L)

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.paper.theory import data_context_bound
    >>> ideal = np.array([[2.0]])
    >>> frobenius = np.array([[1.5]])
    >>> operator = np.array([[1.2]])
    >>> data_context_bound(ideal, frobenius, operator, d=1024, d_h=128, delta=0.05)
    array([[0.863...]])
    """
    _check(delta, d=d, d_h=d_h)
    observed = np.count_nonzero(frobenius, axis=1)[:, None]
    t = np.log((2 * observed + 4) / delta)
    trace = 2 * np.sqrt(t / (d * d_h)) + 2 * t / (d * d_h)
    excess = np.sqrt(2 * t / d_h)
    spread = ((d * (d + d_h + 1) / d_h) ** 0.25 + excess) ** 2 / d
    largest = (1 + sqrt(d / d_h) + excess) ** 2 / d
    return np.asarray(
        ideal * trace + 2 * frobenius * np.sqrt(t) * spread + 2 * operator * t * largest
    )


def data_recovery(
    ideal: Floats, frobenius: Floats, operator: Floats, d: int, d_h: int, delta: float
) -> tuple[Floats, Bools]:
    r"""Bound the score error of each label of each query and say whose winner is certain.

    The counts alone decide.

    Half of delta goes to `data_context_bound`. It also bounds G, so that the output error of label
    c is at most :math:`\bar G_c \alpha + \sqrt{2t (1 + \alpha)/d} \, \lVert \bar G \rVert` with
    :math:`\bar G_c = S_c + \text{bound}_c`, as in the proof of Theorem 5. The winner is certain
    where its score less its own bound exceeds every rival's score plus that rival's.

    Returns
    -------
    bound : ndarray of shape (m, L)
    guaranteed : ndarray of bool, shape (m,)
    """
    context = data_context_bound(ideal, frobenius, operator, d=d, d_h=d_h, delta=delta / 2)
    t = log(4 * ideal.shape[1] / (delta / 2))
    alpha = _chi_square_rate(t, d)
    reach = ideal + context  # no score before decoding is larger
    # The norm of the reach of all other labels: their codes interfere with this label's.
    squared_reach = np.square(reach)
    other_squares = squared_reach.sum(axis=1, keepdims=True) - squared_reach
    other_norm = np.sqrt(np.maximum(other_squares, 0))
    bound = context + reach * alpha + other_norm * sqrt(2 * t * (1 + alpha) / d)
    rows = np.arange(len(ideal))
    winner = ideal.argmax(axis=1)
    least_score = (ideal - bound)[rows, winner]
    rival_scores = ideal + bound
    rival_scores[rows, winner] = -inf
    return bound, least_score > rival_scores.max(axis=1)


def _log_pairs(n: int, delta: float) -> float:
    """Return the paper's L: 2 n^2 exp(-2 L) = delta / 2."""
    return log(2 * n / sqrt(delta))


def _chi_square_rate(t: float, dimension: int) -> float:
    """Return how far a normalised chi-square strays from 1 with probability at most 2 exp(-t)."""
    return 2 * sqrt(t / dimension) + 2 * t / dimension


def _dimension(t: float, epsilon: float) -> int:
    """Return the smallest dimension whose `_chi_square_rate` at t is at most epsilon."""
    if not 0 < epsilon < 1:
        raise ValueError(
            f"A distortion lies strictly between 0 and 1, and this one is {epsilon!r}."
        )
    dimension = max(1, ceil(4 * t / (sqrt(1 + 2 * epsilon) - 1) ** 2))
    while _chi_square_rate(t, dimension) > epsilon:  # the division was rounded
        dimension += 1
    return dimension


def _output_rate(t: float, d: int) -> float:
    alpha = _chi_square_rate(t, d)
    return alpha + sqrt(2 * t * (1 + alpha) / d)


def _check(delta: float, **sizes: int) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta={delta!r}: a failure probability lies strictly between 0 and 1.")
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size!r} must be at least 1.")


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The scores of a batch of queries at every stage, and all that the bounds speak of.

    Arrays of shape (m, L) have a row for each query and a column for each candidate label.

    Parameters
    ----------
    ideal, before_decoding, decoded : ndarray of shape (m, L)
        The paper's S, G and decoded scores.
    norm_error, cross_talk : ndarray of shape (m, L)
        The two parts of the output interference.
    label_counts : ndarray of shape (L,)
        Stored examples of each label, the paper's M_c.
    """

    ideal: Floats
    before_decoding: Floats
    decoded: Floats
    norm_error: Floats
    cross_talk: Floats
    label_counts: Ints

    @property
    def context_error(self) -> Floats:
        """Error of the context sketch, G - S."""
        return self.before_decoding - self.ideal

    @property
    def output_interference(self) -> Floats:
        """Error of decoding: decoded scores minus G."""
        return self.decoded - self.before_decoding

    @property
    def score_error(self) -> Floats:
        """Largest absolute error of a query's scores, shape (m,)."""
        return np.asarray(np.abs(self.decoded - self.ideal).max(axis=1))

    @cached_property
    def winner(self) -> Ints:
        """Column of the ideal winner, the first among equals, shape (m,)."""
        return np.asarray(self.ideal.argmax(axis=1))

    @property
    def agrees(self) -> Bools:
        """Whether the sketch predicts the ideal winner, shape (m,)."""
        return np.asarray(self.decoded.argmax(axis=1) == self.winner)

    @cached_property
    def margin(self) -> Floats:
        """Lead of the ideal winner over the best competitor, shape (m,); infinite without one."""
        if self.ideal.shape[1] < 2:
            return np.full(len(self.ideal), np.inf)
        best = np.partition(self.ideal, -2, axis=1)[:, -2:]
        return np.asarray(best[:, 1] - best[:, 0])

    @property
    def largest_class(self) -> int:
        """Stored examples of the most frequent label, the paper's M_max."""
        return int(self.label_counts.max())

    @property
    def n_observed_labels(self) -> int:
        """How many labels have examples."""
        return int(np.count_nonzero(self.label_counts))

    @property
    def ideal_energy(self) -> Floats:
        """Ideal collision energy, the sum of the squares of S, shape (m,)."""
        return np.asarray(np.square(self.ideal).sum(axis=1))

    @property
    def realised_energy(self) -> Floats:
        """Realised collision energy, the sum of the squares of G, shape (m,)."""
        return np.asarray(np.square(self.before_decoding).sum(axis=1))


def decompose(sketch: MemoryClassifier, twin: MemoryClassifier, X: Any) -> Decomposition:
    """Return the scores of the queries X at every stage of a fitted Gaussian memory.

    Parameters
    ----------
    sketch : MemoryClassifier
        Fitted, with a Gaussian memory and the sum vote; a `MeMoClassifier` for example.
    twin : MemoryClassifier
        Fitted on the same examples, with an exact memory.
    X : array-like of shape (m, h)

    Examples
    --------
    >>> from hammemo import MeMoClassifier, MemoryClassifier
    >>> from hammemo.memories import Exact
    >>> from hammemo.paper.theory import decompose
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    >>> exact = MemoryClassifier("positional", "exact", "sum").fit(X, y)
    >>> parts = decompose(MeMoClassifier(d=256).fit(X, y), exact, [["a", "c"]])
    >>> parts.ideal, parts.margin, parts.ideal_energy
    (array([[1.5, 0.5]]), array([1.]), array([2.5]))
    >>> error = parts.context_error + parts.norm_error + parts.cross_talk
    >>> bool(abs(parts.decoded - parts.ideal - error).max() < 1e-9)
    True
    """
    memory, counts = _check_twins(sketch, twin)
    contexts = Contexts.of(X)
    sites = sketch.sites_
    site_shares = sites.weights / sites.total_weight
    keys = encode(contexts, sites, memory.input_codes, site_shares, dtype=np.float64)
    before_decoding = keys @ class_code_sums(memory, counts)
    outputs = memory.output_codes.get(memory.labels.tolist(), keep=True).astype(np.float64)
    squared_norms = np.square(outputs).sum(axis=1)
    retrieved = before_decoding @ outputs
    return Decomposition(
        ideal=counts.reader().scores(contexts, sites.weights) / sites.total_weight,
        before_decoding=before_decoding,
        decoded=memory.reader().scores(contexts, sites.weights) / sites.total_weight,
        norm_error=before_decoding * (squared_norms - 1),
        cross_talk=retrieved @ outputs.T - before_decoding * squared_norms,
        label_counts=memory.label_counts,
    )


def _check_twins(sketch: MemoryClassifier, twin: MemoryClassifier) -> tuple[Gaussian, Exact]:
    """Return the memories of both models; refuse models that do not hold the same examples."""
    for name, model, kind in (("sketch", sketch, Gaussian), ("twin", twin, Exact)):
        check_is_fitted(model)
        if not isinstance(model.memory_, kind) or not isinstance(model.vote_, Sum):
            raise TypeError(
                f"The {name} needs memory={kind.__name__}(…) and vote='sum'; it is {model!r}."
            )
        _refuse_numbers(name, model)
    has_same_examples = (
        _have_same_sites(sketch.sites_, twin.sites_)
        and sketch.memory_.labels == twin.memory_.labels
        and np.array_equal(sketch.memory_.label_counts, twin.memory_.label_counts)
    )
    if not has_same_examples:
        raise ValueError(
            "The twin is not the sketch's: fit both with the same kernel, classes and examples."
        )
    return sketch.memory_, twin.memory_


def _have_same_sites(sites: Sites, other: Sites) -> bool:
    return (
        sites.h == other.h
        and sites.positions == other.positions
        and np.array_equal(sites.weights, other.weights)
    )


def _refuse_numbers(name: str, model: MemoryClassifier) -> None:
    """Refuse a model that counts ranges of numbers: the figures are for contexts of tokens."""
    if model.state.layout.cells is not None:
        raise ValueError(
            f"The {name} reads numbers, and the paper's model tokens: "
            "fit it with kernel='positional'."
        )


def class_code_sums(memory: Gaussian, counts: Exact) -> Floats:
    """Return, for each label, the sum of the context codes of its examples.

    Shapes
    ------
    returned : (p, L)
    """
    table = counts.table()
    tokens = table.vocabulary.tolist()
    blocks = []
    for site_tuples, label_counts in zip(table.tuples, table.matrices(memory.labels), strict=True):
        codes = memory.input_codes.get(features_of(tokens, site_tuples.rows()))
        code_sums = label_counts.T @ codes.astype(np.float64)
        blocks.append(code_sums.T)
    return np.concatenate(blocks)


def count_norms(twin: MemoryClassifier, X: Any) -> tuple[Floats, Floats]:
    r"""Return the Frobenius and the operator norm of every query's and label's count matrix.

    The pre-decoding score is a quadratic form in the codes: with the features x, y that sites hold,
    :math:`G_c = \sum_{x,y} B_{xy} \langle A u_x, A u_y \rangle`, where row x of B is the sum over
    the sites k that hold x in the query of :math:`(w_k / \sum w) N_{k,c}(\cdot)`. The context error
    is governed by two norms of the symmetric part of B. With E the indicator columns of the query's
    features and R the rows of weighted counts, that is :math:`(ER + R^\top E^\top)/2`, of rank at
    most 2S, and its non-zero eigenvalues are those of the small matrix

    .. math:: \tfrac12 \begin{bmatrix} RE & RR^\top \\ E^\top E & E^\top R^\top \end{bmatrix}.

    Shapes
    ------
    X : (m, h); returned : (m, L), (m, L)
    """
    check_is_fitted(twin)
    _refuse_numbers("twin", twin)
    counts = twin.memory_
    sites = twin.sites_
    feature_numbers, site_counts = _number_features(
        counts.table(), counts.labels, sites.weights / sites.total_weight
    )
    query_features = _query_features(Contexts.of(X), sites, feature_numbers)
    # RR^T: (S, S, L)
    gram = np.stack([[(a * b).sum(axis=0) for b in site_counts] for a in site_counts])
    # RE: (S, S, m, L); features that no count has read the last row, which is empty
    rows = np.where(query_features >= 0, query_features, len(feature_numbers))
    across = np.stack([[a[site_rows].toarray() for site_rows in rows.T] for a in site_counts])
    # E^T E: (m, S, S)
    is_same = query_features[:, :, None] == query_features[:, None, :]
    same = is_same & (query_features != _EMPTY)[:, :, None]
    return _symmetric_norms(
        across.transpose(2, 3, 0, 1), gram.transpose(2, 0, 1), same.astype(np.float64)
    )


_EMPTY = -1  # an empty site; features that no count has are numbered -2, -3, …


def _number_features(
    table: CountTable, labels: Vocabulary, weights: Floats
) -> tuple[dict[Feature, int], list[sparse.csr_array]]:
    """Give each feature of all sites a number, and return each site's weighted counts by number.

    The counts have one empty row more, the last.
    """
    tokens = table.vocabulary.tolist()
    site_features = [features_of(tokens, site_tuples.rows()) for site_tuples in table.tuples]
    numbers: dict[Feature, int] = {}
    for feature in chain.from_iterable(site_features):
        numbers.setdefault(feature, len(numbers))
    shape = (len(numbers) + 1, len(labels))
    site_counts = []
    for features, counts, weight in zip(
        site_features, table.matrices(labels), weights, strict=True
    ):
        rows = np.fromiter((numbers[feature] for feature in features), np.int64, len(features))
        entries = counts.tocoo()
        weighted = (weight * entries.data, (rows[entries.row], entries.col))
        site_counts.append(sparse.coo_array(weighted, shape=shape).tocsr())
    return numbers, site_counts


def _query_features(contexts: Contexts, sites: Sites, numbers: dict[Feature, int]) -> Ints:
    """Return the number of the feature that each query has at each site, -1 for none.

    A feature that no count has gets a negative number of its own, below -1, so that equal ones
    stay equal.
    """
    tokens = contexts.vocabulary.tolist()
    tuples, ranks = collect_sites(contexts, sites)
    all_numbers = dict(numbers)
    query_features = np.full(ranks.shape, _EMPTY, np.int64)
    for k, site_tuples in enumerate(tuples):
        site_numbers = [
            all_numbers.setdefault(feature, -2 - (len(all_numbers) - len(numbers)))
            for feature in features_of(tokens, site_tuples.rows())
        ]
        present = ranks[:, k] >= 0
        query_features[present, k] = np.array(site_numbers, np.int64)[ranks[present, k]]
    return query_features


def _symmetric_norms(across: Floats, gram: Floats, same: Floats) -> tuple[Floats, Floats]:
    """Return the Frobenius and the operator norms of (ER + R^T E^T)/2.

    Shapes
    ------
    across (RE) : (m, L, S, S); gram (RR^T) : (L, S, S); same (E^T E) : (m, S, S)
    """
    transposed = np.swapaxes(across, 2, 3)
    gram_blocks = np.broadcast_to(gram, across.shape)
    same_blocks = np.broadcast_to(same[:, None], across.shape)
    squares = (across * transposed).sum(axis=(2, 3)) + (gram_blocks * same_blocks).sum(axis=(2, 3))
    small = np.block([[across, gram_blocks], [same_blocks, transposed]])
    return np.sqrt(squares / 2), np.abs(np.linalg.eigvals(small / 2)).max(axis=2)
