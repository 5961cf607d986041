r"""The paper's memory: a correlation matrix of Gaussian codes.

The code of a context stacks the projected codes of what its sites hold,

.. math:: \phi(s) = [W u_{s_1}; \dots; W u_{s_S}], \qquad C = \sum_j \phi(s_j) z_{y_j}^\top,

and the memory is the p by d matrix C. Two-stage retrieval reads :math:`r = C^\top \phi(q)` and
decodes :math:`\widetilde S_c = \langle z_c, r \rangle`; fused, :math:`CZ` is formed once.

Learning never forms an outer product per example. With the counts :math:`N_k` (labels by tokens) of
a batch at site k and the projected codes P (one row a token), block k of C is

.. math:: C_k = (N_k P)^\top Z,

a sparse product over the distinct (token, label) pairs and one small dense product.

:math:`E \langle W u_x, W u_x \rangle = 1/S`, so S times a block's share estimates that site's
count: `scores` weighs block k by :math:`S w_k`. With equal weights, which the vote divides by their
sum, this is the paper's score.

C is learned in float64, so that adding and removing leave rounding far below the sketch's own
error; it compiles to float32.

**Exact.** With ``exact=True`` the codes W u and z are whole numbers of steps, at most
:math:`2^{11}` each (:mod:`hammemo.memories.gaussian.codes`), so C is a whole number of (products
of) steps and an example changes an entry by at most :math:`2^{22}` of them. Every partial sum of
the products above is at most :math:`2^{22}` times the examples of the batch: below :math:`2^{53}`,
and so without rounding, for batches of fewer than :math:`2^{31}` examples. The same holds for C as
long as its entries stay below :math:`2^{53}` steps. A running bound, in examples, guards that: each
example added or removed raises it by one, and only where it would reach :math:`2^{31}` are the
entries themselves looked at, which lowers it to what they need; what could still pass it is
refused. So :math:`2^{31}` examples (:math:`10^9` with room to spare) always fit, at any d and
number of sites. Sums of whole numbers do not depend on their order, and there is no negative zero
in C (in float64 x - x and 0 + -0 are both +0), so the state is the same to the byte under any
order, sharding and forgetting, on any BLAS.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import sum_by_key
from hammemo.memories.base import Memory
from hammemo.memories.gaussian.codes import (
    CODE_BITS,
    PROJECTION,
    CodeCache,
    GaussianCodes,
    GivenRows,
    site_codes,
)
from hammemo.memories.gaussian.readers import CompiledGaussian, Device, DeviceReader, GaussianReader
from hammemo.memories.label_counts import LabelCounts

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Compiled
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.vocabulary import Vocabulary

EXACT_EXAMPLES = 2 ** (53 - 2 * CODE_BITS)
"""Fewer examples than this are added without rounding where codes are exact."""


class Gaussian(Memory):
    """The paper's correlation matrix memory.

    It compiles to ``"fused"`` (the default: projected codes and CZ) or ``"two-stage"`` (projected
    codes, C and Z).

    Parameters
    ----------
    d : int
        Dimension of token and label codes.
    d_h : int, optional
        Dimension of a projected token code; by default d divided by the number of sites (rounded),
        which makes the memory square.
    tied : bool
        Whether labels use their input codes as output codes. The tied model's scores are biased.
    exact : bool
        Whether codes are rounded to whole steps, so that the state is the same to the byte, in
        whatever order it was reached.
    token_codes : array, mapping or None
        Codes of tokens, in place of drawn ones: an array whose row i is the code of token i, or a
        mapping from tokens to rows of d numbers with norm 1. Only tokens with a code can be
        learned, and sites are single positions.
    label_codes : array, mapping or None
        Codes of labels, in place of drawn ones, in the same form.
    projection : array of shape (d_h, d) or None
        The projection W, in place of a drawn one.
    distribution : {"gaussian", "rademacher", "sparse"}
        What codes and projection are drawn from: normal numbers, ±1, or ±√3 with probability 1/3
        and otherwise 0, all scaled to the same variance.
    device : str or None
        Where products are computed: with NumPy, or on a device of torch, such as ``"cuda"``. It
        changes no state.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Gaussian
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    >>> clf = MemoryClassifier(memory=Gaussian(d=2048)).fit(X, y)
    >>> clf.class_scores([["a", "c"]]).round(1)
    array([[...]])
    """

    _bound: int | None

    has_exact_rows = False
    given_codes: ClassVar[dict[str, str]] = {
        "token_codes": "codes",
        "label_codes": "output_codes",
        "projection": "projection",
    }

    def __init__(  # noqa: PLR0917  (names that users type, in this order)
        self,
        d: int = 1024,
        d_h: int | None = None,
        tied: bool = False,
        exact: bool = False,
        token_codes: Any = None,
        label_codes: Any = None,
        projection: Any = None,
        distribution: str = "gaussian",
        device: str | None = None,
    ) -> None:
        self.d = d
        self.d_h = d_h
        self.tied = tied
        self.exact = exact
        self.token_codes = token_codes
        self.label_codes = label_codes
        self.projection = projection
        self.distribution = distribution
        self.device = device

    @property
    def C(self) -> Floats:  # noqa: N802  (the paper's name)
        """The memory matrix, of shape (p, d)."""
        return self._C.reshape(-1, self.codes.d)

    def keeps_rows(self) -> bool:
        """Return that its reader has no rows of counts, without making a matrix of any size."""
        return GaussianReader.has_rows

    def make_reader(self) -> GaussianReader:
        """Return the matrix as it is now: edits make a new one."""
        reader_type = GaussianReader if self.device is None else DeviceReader
        reader = reader_type(
            frame=self.frame(),
            codes=self.codes,
            blocks=self._C,
            input_codes=self.input_codes,
            output_codes=self.output_codes,
        )
        if isinstance(reader, DeviceReader):
            assert self.device is not None
            reader.device = Device(self.device, self.codes.exact)
        return reader

    def compile(
        self,
        form: str | None = None,
        vocabulary: Vocabulary | None = None,
        threads: int = 1,  # noqa: ARG002  (BLAS has its own)
    ) -> Compiled:
        """Return the ``"fused"`` or the ``"two-stage"`` form; it carries the codes of `vocabulary`.

        By default these are the codes of the tokens met so far. A code that is not carried is
        computed when asked for.
        """
        if form in (None, "fused", "two-stage"):
            return CompiledGaussian.of(self.make_reader(), vocabulary, fused=form != "two-stage")
        raise ValueError(
            f"form={form!r} is not known: Gaussian() compiles to 'fused' or 'two-stage'."
        )

    def layout(self) -> dict[str, Any]:
        """Return what must agree for two states to be added, by name."""
        codes = self.codes
        layout = {
            **super().layout(),
            "seed": self.seed,
            "d": codes.d,
            "d_h": codes.d_h,
            "tied": codes.tied,
            "exact": codes.exact,
        }
        if codes.distribution != "gaussian":
            layout["distribution"] = codes.distribution
        return {**layout, **{name: rows.digest for name, rows in codes.given.items()}}

    def clear(self) -> None:
        """Check the dimensions and hold a matrix of zeros."""
        self._open_codes()
        self._C = np.zeros((len(self.sites.positions), self.codes.d_h, self.codes.d))
        self._counts = LabelCounts()

    def check_parameters(self, sites: Sites) -> None:
        """Refuse dimensions, codes and a distribution that do not go with these sites."""
        super().check_parameters(sites)
        self._make_codes(sites, 0)

    def _open_codes(self) -> None:
        """Check the parameters, and open the caches of codes."""
        self.codes = self._make_codes(self.sites, self.seed)
        self._bound = None  # not known: the first change looks
        self.input_codes = CodeCache(self.codes.project, self.codes.d_h)
        self.output_codes = CodeCache(self.codes.outputs, self.codes.d)

    def _make_codes(self, sites: Sites, seed: int) -> GaussianCodes:
        """Return the codes that the parameters ask for, checked; none is drawn yet."""
        n_sites = len(sites.positions)
        for name in ("d", "d_h"):
            value = getattr(self, name)
            if (value is not None or name == "d") and (
                not isinstance(value, (int, np.integer)) or not 1 <= value < 2**31
            ):
                raise ValueError(
                    f"{name}={value!r}: a code's dimension is a positive whole number."
                )
        given_rows = {
            kind: GivenRows.of(getattr(self, name), kind)
            for name, kind in self.given_codes.items()
            if getattr(self, name) is not None
        }
        if "codes" in given_rows and any(len(site) > 1 for site in sites.positions):
            raise ValueError(
                "codes= has codes of single tokens, and the kernel compares tuples: "
                "use 'positional'."
            )
        if self.d_h is not None:
            d_h = int(self.d_h)
        elif PROJECTION in given_rows:
            d_h = len(given_rows[PROJECTION].rows)
        else:
            d_h = max(1, round(self.d / n_sites))  # then the memory is square
        return GaussianCodes(
            seed=seed,
            d=int(self.d),
            d_h=d_h,
            n_sites=n_sites,
            tied=bool(self.tied),
            exact=bool(self.exact),
            given_rows=given_rows,
            distribution=self.distribution,
        )

    def restore_arrays(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take the matrix of a state."""
        self._open_codes()
        n_sites = len(self.sites.positions)
        d = self.codes.d
        d_h = self.codes.d_h
        self._C = stored.finite("C", "float64", (n_sites * d_h, d)).reshape(n_sites, d_h, d)
        self._counts = all_labels.positive()

    def update(self, examples: Examples, sign: int) -> None:
        """Add examples, or remove them.

        `NotStoredError` says that a label has fewer: a sketch knows no more.
        """
        counts = self._counts.plus(LabelCounts(examples.labels, examples.label_counts()), sign)
        self._check_given(examples)
        self.input_codes.get(examples.contexts.vocabulary.tolist(), keep=True)
        outputs = self.output_codes.get(examples.labels.tolist(), keep=True).astype(np.float64)
        bound = self._raise_bound(int(examples.multiplicity.sum()))
        matrix = np.empty_like(self._C)  # a new one: readers keep the old
        sites = site_codes(examples.contexts, self.sites, self.input_codes, np.float64)
        device = None if self.device is None else Device(self.device, self.codes.exact)
        # block k of C changes by (N_k P)^T Z
        for block, before, (codes, index) in zip(matrix, self._C, sites, strict=True):
            pairs = sign * _counts_by_label(examples, index, len(codes))
            if device is None:
                np.matmul((pairs @ codes).T, outputs, out=block)
            else:
                block[:] = device.block(pairs, codes, outputs)
            block += before
        self._conclude(matrix, counts, bound)

    def _check_given(self, examples: Examples) -> None:
        """Refuse tokens and labels without a code, where codes are given."""
        given_rows = self.codes.given
        labels = examples.labels.tolist()
        if "codes" in given_rows:
            tokens = examples.contexts.vocabulary.tolist()
            ranks = np.unique(examples.contexts.ranks)
            used_tokens = [tokens[rank] for rank in ranks.tolist() if rank >= 0]
            given_rows["codes"].check_holds(used_tokens, "token")
            given_rows["codes"].check_holds(labels if self.tied else (), "label")
        if "output_codes" in given_rows:
            given_rows["output_codes"].check_holds(labels, "label", "output_codes")

    def add_state(self, other: Gaussian, sign: int) -> None:
        """Add the matrix of another memory, or subtract it."""
        counts = self._counts.plus(other._counts, sign)
        other_bound = other._bound
        if other_bound is None:
            other_bound = other._worth()
        bound = self._raise_bound(other_bound)
        self._conclude(self._C + sign * other._C, counts, bound)

    def _conclude(self, matrix: Floats, counts: LabelCounts, bound: int) -> None:
        """Take a new matrix, with the counts and the bound that belong to it."""
        if not len(counts.labels) and not self.exact:
            matrix[:] = 0.0  # nothing is stored: what is left is rounding
        self._C = matrix
        self._counts = counts
        self._bound = bound

    def _raise_bound(self, n_examples: int) -> int:
        """Return the running bound after a change by this many examples.

        It refuses changes after which sums may be inexact.
        """
        if not self.exact:
            return 0
        bound = self._bound
        if bound is not None:
            bound += n_examples
        if bound is None or bound >= EXACT_EXAMPLES:
            bound = self._worth() + n_examples
        if bound >= EXACT_EXAMPLES:
            raise ValueError(
                "An exact Gaussian memory adds fewer than 2^31 examples without rounding, "
                f"and a change by {n_examples} more could pass that. Nothing was changed. "
                "Use smaller batches, Exact(), Hashed() or exact=False."
            )
        return bound

    def _worth(self) -> int:
        """Return how many examples the entries of C could stand for at least."""
        if not self.exact:
            return 0
        largest = float(max(self._C.max(), -self._C.min()))
        return math.ceil(largest / self.codes.largest_product)

    def count_labels(self) -> LabelCounts:
        """Return the labels that have examples, and how many."""
        return self._counts

    def state_arrays(self) -> dict[str, Array]:
        """Return the matrix."""
        return {"C": self.C}


def find_given_codes(memory: Memory | None) -> dict[str, GivenRows]:
    """Return the codes and projection that a fitted memory, or one inside of it, was given."""
    if isinstance(memory, Gaussian):
        return memory.codes.given
    inside = (
        find_given_codes(getattr(memory, f"{name}_", None)) for name in getattr(memory, "inner", ())
    )
    return next((codes for codes in inside if codes), {})


def _counts_by_label(examples: Examples, index: Ints, n_values: int) -> sparse.csr_array:
    """Return the counts (label by site value) of one site in a batch."""
    n_labels = len(examples.labels)
    keys = examples.label_ranks * n_values + index
    counts = examples.multiplicity
    has_value = index >= 0
    if not has_value.all():
        keys = keys[has_value]
        counts = counts[has_value]
    keys, counts = sum_by_key(keys, counts, n_labels * n_values)
    first_keys = np.arange(n_labels + 1) * n_values
    starts = np.searchsorted(keys, first_keys)
    columns = keys - np.repeat(first_keys[:-1], np.diff(starts))
    return sparse.csr_array(
        (counts.astype(np.float64), columns, starts), shape=(n_labels, n_values)
    )
