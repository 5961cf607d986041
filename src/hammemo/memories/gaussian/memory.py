r"""The paper's memory: a correlation matrix of Gaussian codes.

The code of a context stacks the projected codes of what its sites hold,

.. math:: \phi(s) = [W u_{s_1}; \dots; W u_{s_S}], \qquad C = \sum_j \phi(s_j) z_{y_j}^\top,

and the memory is the p by d matrix C. Two-stage retrieval reads :math:`r = C^\top \phi(q)` and decodes
:math:`\widetilde S_c = \langle z_c, r \rangle`; fused, :math:`CZ` is formed once.

Learning never forms an outer product per example. With the counts :math:`N_k` (labels by tokens) of a batch at site k
and the projected codes P (one row a token), block k of C is

.. math:: C_k = (N_k P)^\top Z,

a sparse product over the distinct (token, label) pairs and one small dense product.

:math:`E \langle W u_x, W u_x \rangle = 1/S`, so S times a block's share estimates that site's count: `scores` weighs
block k by :math:`S w_k`. With equal weights, which the vote divides by their sum, this is the paper's score.

C is learnt in float64, so that adding and removing leave rounding far below the sketch's own error; it compiles to
float32.

**Exact.** With ``exact=True`` the codes W u and z are whole numbers of steps, at most :math:`2^{11}` each
(:mod:`hammemo.memories.gaussian.codes`), so C is a whole number of (products of) steps and an example changes an entry
by at most :math:`2^{22}` of them. Every partial sum of the products above is at most :math:`2^{22}` times the examples
of the batch: below :math:`2^{53}`, and so without rounding, for batches of fewer than :math:`2^{31}` examples. The same
holds for C as long as its entries stay below :math:`2^{53}` steps. A running bound, in examples, guards that: each
example added or removed raises it by one, and only where it would reach :math:`2^{31}` are the entries themselves
looked at, which lowers it to what they need; what could still pass it is refused. So :math:`2^{31}` examples
(:math:`10^9` with room to spare) always fit, at any d and number of sites. Sums of whole numbers do not depend on their
order, and there is no negative zero in C (in float64 x - x and 0 + -0 are both +0), so the state is the same to the
byte under any order, sharding and forgetting, on any BLAS.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import sum_by_key
from hammemo._arrays.tuple_sets import TupleSet
from hammemo.memories.base import CompiledMemory, LabelCounts, Memory
from hammemo.memories.contributions import SiteScores
from hammemo.memories.gaussian.codes import CODE_BITS, CodeCache, GaussianCodes
from hammemo.memories.gaussian.errors import standard_errors
from hammemo.tokens.hashing import features_of
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels.sites import Sites
    from hammemo.memories.base import Frame
    from hammemo.tokens.contexts import Contexts, Examples


EXACT_EXAMPLES = 2 ** (53 - 2 * CODE_BITS)
"""Fewer examples than this are added without rounding where codes are exact."""


class Gaussian(Memory):
    """The paper's correlation matrix memory.

    It compiles to ``"fused"`` (the default: projected codes and CZ) or ``"two-stage"`` (projected codes, C and Z).

    Parameters
    ----------
    d : int
        Dimension of token and label codes.
    d_h : int, optional
        Dimension of a projected token code; by default d divided by the number of sites (rounded), which makes the
        memory square.
    tied : bool
        Whether labels use their input codes as output codes. The tied model's scores are biased.
    exact : bool
        Whether codes are rounded to whole steps, so that the state, and not only its value up to rounding, is the same
        however it was reached.

    Examples
    --------
    >>> from hammemo import Gaussian, MemoryClassifier
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    >>> clf = MemoryClassifier(memory=Gaussian(d=2048)).fit(X, y)
    >>> clf.class_scores([["a", "c"]]).round(1)
    array([[...]])
    """

    _bound: int | None

    def __init__(self, d: int = 1024, d_h: int | None = None, tied: bool = False, exact: bool = False) -> None:
        self.d = d
        self.d_h = d_h
        self.tied = tied
        self.exact = exact

    @property
    def C(self) -> NDArray[np.float64]:  # noqa: N802  (the paper's name)
        """The memory matrix, of shape (p, d)."""
        return self._C.reshape(-1, self.codes.d)

    def add(self, examples: Examples) -> None:
        """Store examples."""
        self._update(examples, sign=1)

    def remove(self, examples: Examples) -> None:
        """Take examples back, or raise `NotStoredError` where a label has fewer; a sketch cannot know more."""
        self._update(examples, sign=-1)

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the decoded scores by two-stage retrieval."""
        keys = encode(contexts, self.sites, self.input_codes, weights, np.float64)
        return (keys @ self.C) @ self.output_codes.get(self.labels.tolist(), keep=True).astype(np.float64).T

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, with standard errors."""
        labels = self.labels.tolist()
        decoder = self.output_codes.get([labels[column] for column in columns]).astype(np.float64)
        keys = _site_keys(contexts, self.sites, self.input_codes)
        return _two_stage_site_scores(self._C, keys, decoder, weights, tied=self.codes.tied)

    def compile(self, form: str | None = None, vocabulary: Vocabulary | None = None) -> CompiledMemory:
        """Return the ``"fused"`` or the ``"two-stage"`` form; it carries the codes of `vocabulary`.

        By default these are the codes of the tokens met so far. A code that is not carried is computed when asked for.
        """
        if form in (None, "fused"):
            return FusedGaussian.of(self, vocabulary)
        if form == "two-stage":
            return TwoStageGaussian.of(self, vocabulary)
        raise ValueError(f"form={form!r} is not known: Gaussian() compiles to 'fused' or 'two-stage'.")

    @property
    def row_width(self) -> int:
        """How many numbers one query needs while it is answered."""
        return self._C.shape[0] * self._C.shape[1] + self.codes.d + len(self.labels)

    def layout(self) -> dict[str, Any]:
        """Return what must agree for two states to be added, by name."""
        codes = self.codes
        return {
            **super().layout(),
            "seed": self.seed,
            "d": codes.d,
            "d_h": codes.d_h,
            "tied": codes.tied,
            "exact": codes.exact,
        }

    def _open(self) -> None:
        self._open_codes()
        self._C = np.zeros((len(self.sites.positions), self.codes.d_h, self.codes.d))
        self._counts = LabelCounts()

    def _open_codes(self) -> None:
        n_sites = len(self.sites.positions)
        for name in ("d", "d_h"):
            value = getattr(self, name)
            if (value is not None or name == "d") and (
                not isinstance(value, (int, np.integer)) or not 1 <= value < 2**31
            ):
                raise ValueError(f"{name}={value!r}: a code's dimension is a positive whole number.")
        d_h = max(1, round(self.d / n_sites)) if self.d_h is None else int(self.d_h)
        self.codes = GaussianCodes(self.seed, int(self.d), d_h, n_sites, bool(self.tied), bool(self.exact))
        self._bound = None  # not known: the first change looks
        self.input_codes = CodeCache(self.codes.projected, d_h)
        self.output_codes = CodeCache(self.codes.outputs, self.codes.d)

    def _restore(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        self._open_codes()
        n_sites, d, d_h = len(self.sites.positions), self.codes.d, self.codes.d_h
        self._C = stored.finite("C", "float64", (n_sites * d_h, d)).reshape(n_sites, d_h, d)
        self._counts = all_labels.positive()

    def _update(self, examples: Examples, sign: int) -> None:
        counts = self._counts.plus(LabelCounts(examples.labels, examples.label_counts()), sign)
        self.input_codes.get(examples.contexts.vocabulary.tolist(), keep=True)
        outputs = self.output_codes.get(examples.labels.tolist(), keep=True).astype(np.float64)
        bound = self._raised_bound(int(examples.multiplicity.sum()))
        for block, (codes, index) in zip(
            self._C, site_codes(examples.contexts, self.sites, self.input_codes, np.float64), strict=True
        ):
            block += sign * (_counts_by_label(examples, index, len(codes)) @ codes).T @ outputs
        self._conclude(counts, bound)

    def _merge(self, other: Gaussian, sign: int) -> None:
        counts = self._counts.plus(other._counts, sign)
        bound = self._raised_bound(other._worth() if other._bound is None else other._bound)
        self._C += sign * other._C
        self._conclude(counts, bound)

    def _conclude(self, counts: LabelCounts, bound: int) -> None:
        self._counts, self._bound = counts, bound
        if not len(counts.labels) and not self.exact:
            self._C[:] = 0.0  # nothing is stored: what is left is rounding

    def _raised_bound(self, n_examples: int) -> int:
        """Return the running bound after a change by so many examples, or refuse where sums may no longer be exact."""
        if not self.exact:
            return 0
        bound = None if self._bound is None else self._bound + n_examples
        if bound is None or bound >= EXACT_EXAMPLES:
            bound = self._worth() + n_examples
        if bound >= EXACT_EXAMPLES:
            raise ValueError(
                "An exact Gaussian memory adds fewer than 2^31 examples without rounding, and a change by "
                f"{n_examples} more could pass that. Nothing was changed. Use smaller batches, Exact(), Hashed() or "
                "exact=False."
            )
        return bound

    def _worth(self) -> int:
        """Return how many examples the entries of C could stand for at least."""
        return math.ceil(max(self._C.max(), -self._C.min()) / self.codes.largest_product) if self.exact else 0

    def _observed(self) -> LabelCounts:
        return self._counts

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"C": self.C}


def site_codes(
    contexts: Contexts, sites: Sites, cache: CodeCache, dtype: type[np.floating[Any]]
) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    """Yield for each site the projected codes of what it holds and, for each context, which of them; -1 for none.

    Shapes
    ------
    yielded codes : (distinct values, d_h); yielded index : (m,)
    """
    tokens = contexts.vocabulary.tolist()
    token_codes = None  # shared by all sites of one position
    for site in sites.positions:
        if len(site) == 1:
            if token_codes is None:
                token_codes = cache.get(tokens).astype(dtype, copy=False)
            yield token_codes, contexts.ranks[:, site[0]]
        else:
            known, index = TupleSet.collect(contexts.ranks[:, list(site)], max(len(tokens), 1))
            yield cache.get(features_of(tokens, known.rows())).astype(dtype, copy=False), index


def encode(
    contexts: Contexts, sites: Sites, cache: CodeCache, weights: NDArray[np.float64], dtype: type[np.floating[Any]]
) -> NDArray[Any]:
    """Return the code of each context, block k weighed by S times the k-th weight; an empty site's block is zero.

    Shapes
    ------
    returned : (m, p)
    """
    blocks = []
    for weight, (codes, index) in zip(weights, site_codes(contexts, sites, cache, dtype), strict=True):
        block = codes[index] if len(codes) else np.zeros((len(index), codes.shape[1]), dtype)
        block[index < 0] = 0.0
        blocks.append(block * dtype(weight * len(weights)))
    return np.concatenate(blocks, axis=1)


def _site_keys(contexts: Contexts, sites: Sites, cache: CodeCache) -> NDArray[np.float64]:
    """Return the projected code of what each site of each context holds, zeros where it holds nothing: (m, S, d_h)."""
    ones = np.full(len(sites.positions), 1 / len(sites.positions))  # undoes what `encode` multiplies by
    return np.asarray(encode(contexts, sites, cache, ones, np.float64)).reshape(len(contexts), len(ones), -1)


def _two_stage_site_scores(
    blocks: NDArray[np.float64],
    keys: NDArray[np.float64],
    decoder: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    tied: bool,
) -> SiteScores:
    """Return the decoded score of each site with its standard error; tied codes are biased, so they have none.

    Shapes
    ------
    blocks : (S, d_h, d); keys : (m, S, d_h); decoder : (K, d); weights : (S,)
    """
    retrieved = np.einsum("mki,kij->mkj", keys, blocks) * (len(weights) * weights[:, None])
    values = retrieved @ decoder.T
    if tied or not len(keys):
        return SiteScores(values)
    errors, totals = zip(*(standard_errors(blocks, key, decoder, weights) for key in keys), strict=True)
    return SiteScores(values, errors=np.stack(errors), total_errors=np.stack(totals))


def _counts_by_label(examples: Examples, index: NDArray[np.int64], n_values: int) -> sparse.csr_array:
    """Return the counts (label by site value) of one site in a batch."""
    n_labels = len(examples.labels)
    keys, counts, held = examples.label_ranks * n_values + index, examples.multiplicity, index >= 0
    if not held.all():
        keys, counts = keys[held], counts[held]
    keys, counts = sum_by_key(keys, counts, n_labels * n_values)
    first_keys = np.arange(n_labels + 1) * n_values
    starts = np.searchsorted(keys, first_keys)
    columns = keys - np.repeat(first_keys[:-1], np.diff(starts))
    return sparse.csr_array((counts.astype(np.float64), columns, starts), shape=(n_labels, n_values))


class _CompiledGaussian:
    """What the two compiled forms share: the labels and the projected codes they carry."""

    def __init__(self, frame: Frame, codes: GaussianCodes, input_codes: CodeCache) -> None:
        self.sites = frame.sites
        self.labels = frame.labels
        self.label_counts = frame.label_counts
        self.row_width = codes.n_sites * codes.d_h + codes.d + len(self.labels)
        self.codes = codes
        self.input_codes = input_codes

    def _encode(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        keys: NDArray[np.float32] = encode(contexts, self.sites, self.input_codes, weights, np.float32)
        return keys

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return -1 for each token: codes do not tell what was stored."""
        return np.full(len(tokens), -1, np.int8)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        raise NotImplementedError

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs: the arrays, the tokens whose codes they hold, and what makes other codes."""
        tokens = self.input_codes.features()
        vocabulary = Vocabulary.of(tokens)
        arrays = {
            **self.tensors(),
            "projected_codes": self.input_codes.get(vocabulary.tolist()),
            **{f"vocabulary.{name}": array for name, array in vocabulary.arrays().items()},
        }
        return arrays, {name: getattr(self.codes, name) for name in ("seed", "d", "d_h", "tied", "exact")}


def _restored_codes(frame: Frame, stored: StoredArrays, description: dict[str, Any]) -> tuple[GaussianCodes, CodeCache]:
    """Return the codes that a description names and those that a file carries."""
    kinds = {"seed": int, "d": int, "d_h": int, "tied": bool, "exact": bool}
    if {name: type(value) for name, value in description.items()} != kinds:
        raise ValueError("the Gaussian codes are not described by seed, d, d_h, tied and exact")
    d, d_h = description["d"], description["d_h"]
    if not (1 <= d < 2**31 and 1 <= d_h < 2**31):
        raise ValueError(f"Gaussian codes cannot have the dimensions {d} and {d_h}")
    codes = GaussianCodes(
        description["seed"], d, d_h, len(frame.sites.positions), description["tied"], description["exact"]
    )
    vocabulary = Vocabulary.from_arrays(stored.part("vocabulary"))
    rows = stored.finite("projected_codes", "float32", (len(vocabulary), d_h))
    return codes, CodeCache.holding(vocabulary.tolist(), rows, codes.projected)


def _carried(memory: Gaussian, vocabulary: Vocabulary | None) -> CodeCache:
    """Return the codes of `vocabulary`, by default of the tokens met so far."""
    cache = CodeCache(memory.codes.projected, memory.codes.d_h)
    cache.get(memory.input_codes.features() if vocabulary is None else vocabulary.tolist(), keep=True)
    return cache


class FusedGaussian(_CompiledGaussian):
    """Projected codes and the product CZ: one matrix product a query."""

    def __init__(
        self, frame: Frame, codes: GaussianCodes, input_codes: CodeCache, decoded: NDArray[np.float32]
    ) -> None:
        super().__init__(frame, codes, input_codes)
        self._decoded = decoded

    @classmethod
    def of(cls, memory: Gaussian, vocabulary: Vocabulary | None) -> FusedGaussian:
        """Return the fused form of a memory, with the codes of `vocabulary`."""
        outputs = memory.output_codes.get(memory.labels.tolist()).astype(np.float64)
        decoded = (memory.C @ outputs.T).astype(np.float32)
        return cls(memory.frame(), memory.codes, _carried(memory, vocabulary), decoded)

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the decoded scores."""
        return np.asarray(self._encode(contexts, weights) @ self._decoded, np.float32)

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns; the error needs C, which is gone."""
        keys = _site_keys(contexts, self.sites, self.input_codes)
        blocks = self._decoded[:, columns].astype(np.float64).reshape(len(weights), -1, len(columns))
        return SiteScores(np.einsum("mki,kic->mkc", keys, blocks) * (len(weights) * weights[:, None]))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        return {"projected_codes": self.input_codes.rows, "CZ": self._decoded}

    @classmethod
    def restored(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,  # noqa: ARG003
    ) -> FusedGaussian:
        """Return the compiled form with these arrays, checked: undo `stored`."""
        codes, input_codes = _restored_codes(frame, stored, description)
        shape = (codes.n_sites * codes.d_h, len(frame.labels))
        return cls(frame, codes, input_codes, stored.finite("CZ", "float32", shape))


class TwoStageGaussian(_CompiledGaussian):
    """Projected codes, the memory matrix and the output codes: retrieve, then decode."""

    def __init__(
        self,
        frame: Frame,
        codes: GaussianCodes,
        input_codes: CodeCache,
        matrix: NDArray[np.float32],
        decoder: NDArray[np.float32],
    ) -> None:
        super().__init__(frame, codes, input_codes)
        self._matrix = matrix
        self._decoder = decoder

    @classmethod
    def of(cls, memory: Gaussian, vocabulary: Vocabulary | None) -> TwoStageGaussian:
        """Return the two-stage form of a memory, with the codes of `vocabulary`."""
        decoder = memory.output_codes.get(memory.labels.tolist())
        return cls(memory.frame(), memory.codes, _carried(memory, vocabulary), memory.C.astype(np.float32), decoder)

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the decoded scores."""
        return np.asarray((self._encode(contexts, weights) @ self._matrix) @ self._decoder.T, np.float32)

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, with standard errors."""
        keys = _site_keys(contexts, self.sites, self.input_codes)
        blocks = self._matrix.astype(np.float64).reshape(len(weights), -1, self.codes.d)
        decoder = self._decoder[columns].astype(np.float64)
        return _two_stage_site_scores(blocks, keys, decoder, weights, tied=self.codes.tied)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        return {"projected_codes": self.input_codes.rows, "C": self._matrix, "Z": self._decoder}

    @classmethod
    def restored(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,  # noqa: ARG003
    ) -> TwoStageGaussian:
        """Return the compiled form with these arrays, checked: undo `stored`."""
        codes, input_codes = _restored_codes(frame, stored, description)
        matrix = stored.finite("C", "float32", (codes.n_sites * codes.d_h, codes.d))
        decoder = stored.finite("Z", "float32", (len(frame.labels), codes.d))
        return cls(frame, codes, input_codes, matrix, decoder)
