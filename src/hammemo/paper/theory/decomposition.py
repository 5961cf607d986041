r"""Where the error of the paper's memory comes from.

For a query q and a candidate label c, with the ideal score :math:`S_c`, the score before decoding
:math:`G_c = \sum_{j: y_j = c} \langle \phi(q), \phi(s_j) \rangle` and the decoded score
:math:`\widetilde S_c = \sum_y G_y \langle z_c, z_y \rangle`,

.. math::

    \widetilde S_c - S_c = \underbrace{(G_c - S_c)}_{\text{context sketch}}
    + \underbrace{G_c (\lVert z_c \rVert^2 - 1)}_{\text{norm error}}
    + \underbrace{\textstyle\sum_{y \ne c} G_y \langle z_c, z_y \rangle}_{\text{cross-talk}}.

The last two are the output interference; its scale is :math:`\sqrt{\widehat{\mathcal C} / d}` with the realised
collision energy :math:`\widehat{\mathcal C} = \sum_y G_y^2`, which for an exact context sketch is the ideal one,
:math:`\mathcal C = \sum_y S_y^2`.

The matrix C alone cannot tell G: two data sets may have the same C. So the counts are needed too, from the sketch's
exact twin.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

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
    from hammemo.memories.exact import CountTable
    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.tokens.vocabulary import Vocabulary


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
        """Lead of the ideal winner over the best competitor, shape (m,); infinite where there is no competitor."""
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
    memory, counts = _checked(sketch, twin)
    contexts, sites = Contexts.of(X), sketch.sites_
    before_decoding = _before_decoding(memory, counts, contexts, sites)
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


def _checked(sketch: MemoryClassifier, twin: MemoryClassifier) -> tuple[Gaussian, Exact]:
    for name, model, kind in (("sketch", sketch, Gaussian), ("twin", twin, Exact)):
        check_is_fitted(model)
        if not isinstance(model.memory_, kind) or not isinstance(model.vote_, Sum):
            raise TypeError(f"The {name} needs memory={kind.__name__}(…) and vote='sum'; it is {model!r}.")
        _refuse_numbers(name, model)
    same_sites = (
        sketch.sites_.positions == twin.sites_.positions
        and sketch.sites_.h == twin.sites_.h
        and np.array_equal(sketch.sites_.weights, twin.sites_.weights)
    )
    same_counts = np.array_equal(sketch.memory_.label_counts, twin.memory_.label_counts)
    if not (same_sites and same_counts and sketch.memory_.labels == twin.memory_.labels):
        raise ValueError("The twin is not the sketch's: fit both with the same kernel, classes and examples.")
    return sketch.memory_, twin.memory_


def _refuse_numbers(name: str, model: MemoryClassifier) -> None:
    """Refuse a model whose counts are of ranges of numbers: contexts are tokens here, so the figures would be wrong."""
    if model.state.cells is not None:
        raise ValueError(f"The {name} reads numbers, and the paper's model tokens: fit it with kernel='positional'.")


def _before_decoding(memory: Gaussian, counts: Exact, contexts: Contexts, sites: Sites) -> Floats:
    """Return G: the codes of the queries times, for each label, the sum of the codes of its examples."""
    keys = encode(contexts, sites, memory.input_codes, sites.weights / sites.total_weight, np.float64)
    return keys @ class_code_sums(memory, counts)


def class_code_sums(memory: Gaussian, counts: Exact) -> Floats:
    """Return, for each label, the sum of the context codes of its examples.

    Shapes
    ------
    returned : (p, L)
    """
    table = counts.table()
    tokens = table.vocabulary.tolist()
    blocks = [
        by_row.T @ memory.input_codes.get(features_of(tokens, known.rows())).astype(np.float64)
        for known, by_row in zip(table.tuples, table.matrices(memory.labels), strict=True)
    ]
    return np.concatenate([block.T for block in blocks])


def count_norms(twin: MemoryClassifier, X: Any) -> tuple[Floats, Floats]:
    r"""Return the Frobenius and the operator norm of every query's and label's count matrix.

    The pre-decoding score is a quadratic form in the codes: with the features x, y that sites hold,
    :math:`G_c = \sum_{x,y} B_{xy} \langle A u_x, A u_y \rangle`, where row x of B is the sum over the sites k that hold
    x in the query of :math:`(w_k / \sum w) N_{k,c}(\cdot)`. The context error is governed by two norms of the symmetric
    part of B. With E the indicator columns of the query's features and R the rows of weighted counts, that is
    :math:`(ER + R^\top E^\top)/2`, of rank at most 2S, and its non-zero eigenvalues are those of the small matrix

    .. math:: \tfrac12 \begin{bmatrix} RE & RR^\top \\ E^\top E & E^\top R^\top \end{bmatrix}.

    Shapes
    ------
    X : (m, h); returned : (m, L), (m, L)
    """
    check_is_fitted(twin)
    _refuse_numbers("twin", twin)
    counts, sites = twin.memory_, twin.sites_
    table = counts.table()
    weights = sites.weights / sites.total_weight
    index, by_site = _feature_counts(table, counts.labels, weights)
    held = _query_features(Contexts.of(X), sites, index)
    gram = np.stack([[(a * b).sum(axis=0) for b in by_site] for a in by_site])  # RR^T : (S, S, L)
    known = np.where(held >= 0, held, len(index))  # the last row is empty
    across = np.stack([[a[known[:, k]].toarray() for k in range(len(by_site))] for a in by_site])  # RE : (S, S, m, L)
    same = (held[:, :, None] == held[:, None, :]) & (held != _EMPTY)[:, :, None]  # E^T E : (m, S, S)
    return _symmetric_norms(across.transpose(2, 3, 0, 1), gram.transpose(2, 0, 1), same.astype(np.float64))


_EMPTY = -1  # an empty site; features that no count knows are numbered -2, -3, …


def _feature_counts(
    table: CountTable, labels: Vocabulary, weights: Floats
) -> tuple[dict[Feature, int], list[sparse.csr_array]]:
    """Return a numbering of the features of all sites and each site's weighted counts in it, one empty row last."""
    tokens, index = table.vocabulary.tolist(), {}  # type: ignore[var-annotated]
    site_features = [features_of(tokens, known.rows()) for known in table.tuples]
    for feature in chain.from_iterable(site_features):
        index.setdefault(feature, len(index))
    by_site = []
    for features, counts, weight in zip(site_features, table.matrices(labels), weights, strict=True):
        rows = np.fromiter(map(index.__getitem__, features), np.int64, len(features))
        entries = counts.tocoo()
        placed = sparse.coo_array(
            (weight * entries.data, (rows[entries.row], entries.col)), shape=(len(index) + 1, len(labels))
        )
        by_site.append(placed.tocsr())
    return index, by_site


def _query_features(contexts: Contexts, sites: Sites, index: dict[Feature, int]) -> Ints:
    """Return the number of the feature that each site of each query holds, -1 for none.

    A feature that no count knows gets a negative number of its own, below -1, so that equal ones stay equal.
    """
    tokens = contexts.vocabulary.tolist()
    tuples, ranks = collect_sites(contexts, sites)
    unknown: dict[Feature, int] = {}
    held = np.full(ranks.shape, _EMPTY, np.int64)
    for k, known in enumerate(tuples):
        features = features_of(tokens, known.rows())
        numbers = [index[f] if f in index else unknown.setdefault(f, -2 - len(unknown)) for f in features]
        present = ranks[:, k] >= 0
        held[present, k] = np.array(numbers, np.int64)[ranks[present, k]]
    return held


def _symmetric_norms(across: Floats, gram: Floats, same: Floats) -> tuple[Floats, Floats]:
    """Return Frobenius and operator norms of (ER + R^T E^T)/2 from RE (m, L, S, S), RR^T (L, S, S), E^T E (m, S, S)."""
    crossed = np.swapaxes(across, 2, 3)
    squares = (across * crossed).sum(axis=(2, 3)) + (gram[None] * same[:, None]).sum(axis=(2, 3))
    small = np.block(
        [[across, np.broadcast_to(gram, across.shape)], [np.broadcast_to(same[:, None], across.shape), crossed]]
    )
    return np.sqrt(squares / 2), np.abs(np.linalg.eigvals(small / 2)).max(axis=2)
