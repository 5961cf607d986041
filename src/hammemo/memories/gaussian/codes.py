r"""Codes as pure functions: nothing is drawn in order, so nothing needs to be stored.

The paper's Gaussian codes for token x, label c and projection W, with S sites of dimension
:math:`d_h` and :math:`p = S d_h`:

.. math:: u_x, z_c \sim \mathcal N(0, I_d / d), \qquad W_{ij} \sim \mathcal N(0, 1 / p).

The code of a context stacks the projected codes of what its sites hold, one block a site
(`encode`):

.. math:: \phi(s) = [W u_{s_1}; \dots; W u_{s_S}]

Entry i of the code of a feature is the i-th number of a Philox stream whose key comes from (seed,
family) and whose counter comes from the feature, put through the inverse of the normal distribution
function (NumPy does not promise that its own normal streams stay the same). Any process that knows
the seed has every code, also that of a token that is still to come. Codes are rounded to float32;
only the projected codes W u are kept, never all of U.

**Other distributions.** ``"rademacher"`` replaces each standard normal number by -1 or 1, and
``"sparse"`` by :math:`-\sqrt3, 0, \sqrt3` with probabilities 1/6, 2/3, 1/6 (Achlioptas). Both have
mean 0 and variance 1, so the expectations of the paper's lemmas stay. Their fourth moments are 1
and 3, at most the normal one: standard errors are not larger. The constants of the theorems are
proven for normal codes.

**Exact codes.** With ``exact=True`` every code is a whole number of steps, at most :math:`2^b` of
them, and a step is a power of two: the finest for which :math:`2^b` steps reach eight standard
deviations. (A number beyond that is cut off: one in :math:`10^{15}`.) Sums of products of such
numbers are whole numbers of steps too, so float64 adds them without any rounding, in any order and
on any BLAS, as long as the absolute values sum to less than :math:`2^{53}` steps. The bits b are
chosen so that this holds:

- u and W have :math:`b = 16`. A projected code :math:`W u` sums d products below :math:`2^{32}`:
  exact for :math:`d < 2^{21}`. A standard deviation is 4,096 to 8,192 steps.
- :math:`W u`, rounded once more after that exact product, and z have :math:`b = 11`. An entry of
  the memory matrix sums one product below :math:`2^{22}` for each example: exact for
  :math:`2^{53 - 22} = 2^{31}` examples, whatever d and S are. A standard deviation is 128 to 256
  steps (256 where d and p are powers of four, such as 1024), so rounding, of variance 1/12 step,
  adds at most :math:`1 / (12 \cdot 128^2) = 5 \cdot 10^{-6}` of a code's own variance.

**Given codes.** A researcher may give codes and projections in place of drawn ones (`GivenRows`).
The memory works with any codes that are nearly orthogonal and of norm 1: a site that holds token x
in an example and in a question adds :math:`\lVert u_x \rVert^2` to the score, in place of 1. The
norm of a drawn code is 1 up to a standard deviation of :math:`1 / \sqrt{2d}`; given ones may be off
by six of these, and by a half at most. A token without a code cannot be learned. In a question it
has the code zero: it matches nothing, as it was never learned. The same holds for labels and output
codes. A projection W is given as its :math:`d_h` rows; on average over unit vectors u,
:math:`\lVert W u \rVert^2 = \lVert W \rVert_F^2 / d` must be 1/h, up to a half of it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import ndtri

from hammemo._arrays.tuple_sets import TupleSet
from hammemo._versions import Cached, cached_property
from hammemo.tokens.hashing import Feature, feature_words, features_of, key_words
from hammemo.tokens.vocabulary import Vocabulary, as_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.tokens.contexts import Contexts

PROJECTION: Final = "projection"
GIVEN: Final = ("codes", "output_codes", PROJECTION)
"""What can be given, as `MeMoClassifier` and files name it."""

_FORMS: Final = {
    "codes": "an array with one row of d numbers for each token, "
    "or a mapping from tokens to such rows",
    "output_codes": "an array with one row of d numbers for each label, "
    "or a mapping from labels to such rows",
    PROJECTION: "an array of d_h rows with d numbers each",
}
"""How each of them is given, for messages."""

_DEVIATIONS: Final = 6.0
"""By how many standard deviations of a drawn code's norm that of a given one may be off."""

MOST_OFF: Final = 0.5
"""By how much norms, and the scale of a projection, may be off at most."""

_CHUNK_NUMBERS: Final = 2**20
"""Numbers that are drawn at once."""

_FACTOR_BITS: Final = 16
"""An entry of an exact u or W is at most 2^_FACTOR_BITS steps."""

CODE_BITS: Final = 11
"""An entry of an exact W u or z is at most 2^CODE_BITS steps."""


class GivenRows(Cached):
    """Codes of some tokens or labels, or the rows of a projection, checked.

    Parameters
    ----------
    tokens : Vocabulary
    rows : ndarray of float32, shape (n, d)

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.memories.gaussian.codes import GivenRows
    >>> GivenRows.of({"cat": [1.0, 0.0], "rat": [0.0, 1.0]})
    GivenRows of 2 tokens, d=2
    >>> GivenRows.of(np.eye(3)).tokens.tolist()
    [0, 1, 2]
    """

    def __init__(self, tokens: Vocabulary, rows: NDArray[np.float32]) -> None:
        self.tokens = tokens
        self.rows = rows

    @classmethod
    def of(cls, value: Any, name: str = "codes") -> GivenRows:
        """Return the value of the parameter `name`, checked.

        It is a mapping from tokens, or an array whose row i is token i's. A projection is an array
        of d_h rows.
        """
        if isinstance(value, GivenRows):
            return value
        if isinstance(value, Mapping) and name != PROJECTION:
            keys = [as_token(token) for token in value]
            rows = _rows(list(value.values()), name)
            names = [f"the code of {key!r}" for key in keys]
        else:
            rows = _rows(value, name)
            keys = list(range(len(rows)))
            names = [f"row {i}" for i in range(len(rows))]
        _check(rows, names, name)
        tokens = Vocabulary.of(keys)
        places = {token: i for i, token in enumerate(keys)}
        return cls(tokens, rows[[places[token] for token in tokens.tolist()]])

    @classmethod
    def from_stored(cls, stored: StoredArrays, name: str) -> GivenRows:
        """Return the codes in a file, checked: undo `arrays`."""
        tokens = Vocabulary.from_arrays(stored.part("tokens"))
        rows = stored.finite("rows", "float32", (len(tokens), None))
        _check(rows, [f"the code of {token!r}" for token in tokens.tolist()], name)
        if name == PROJECTION and tokens.tolist() != list(range(len(rows))):
            raise ValueError("the rows of its projection are not numbered")
        return cls(tokens, rows)

    def arrays(self) -> dict[str, Array]:
        """Return the codes as named arrays."""
        tokens = {f"tokens.{name}": array for name, array in self.tokens.arrays().items()}
        return {"rows": self.rows, **tokens}

    @property
    def d(self) -> int:
        """The dimension of a code."""
        return int(self.rows.shape[1])

    @cached_property
    def digest(self) -> str:
        """BLAKE2b-256 of tokens and codes, in hexadecimal digits."""
        digest = hashlib.blake2b(digest_size=32)
        for name, array in sorted(self.arrays().items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @cached_property
    def _places(self) -> dict[Feature, int]:
        return {token: i for i, token in enumerate(self.tokens.tolist())}

    def codes(self, features: Sequence[Feature]) -> NDArray[np.float32]:
        """Return the code of each token, zero for one that has none.

        Shapes
        ------
        features : n of them; returned : (n, d)
        """
        places = np.array([self._places.get(feature, -1) for feature in features], np.int64)
        codes = np.zeros((len(places), self.d), np.float32)
        codes[places >= 0] = self.rows[places[places >= 0]]
        return codes

    def check_holds(self, tokens: Iterable[Feature], what: str, name: str = "codes") -> None:
        """Refuse tokens or labels that are to be learned and have no code.

        `name` is the parameter that has the codes.
        """
        for token in tokens:
            if token not in self._places:
                kinds = "tokens" if name == "codes" else "labels"
                raise ValueError(
                    f"The {what} {token!r} has no code, and only {what}s with a code "
                    f"can be learnt: {name}= has codes for {len(self.tokens):,} {kinds}. "
                    "Add one for it, or drop the rows that hold it."
                )

    def __deepcopy__(self, memo: dict[int, Any]) -> GivenRows:
        return self  # codes never change, and clones of a memory share them

    def __repr__(self) -> str:
        return f"GivenRows of {len(self.tokens):,} tokens, d={self.d}"


def _rows(value: Any, name: str) -> NDArray[np.float32]:
    """Return a parameter as rows of numbers, or refuse it."""
    try:
        rows = np.asarray(value, np.float32)
    except (TypeError, ValueError):
        rows = np.empty(0, np.float32)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"{name}= is {_FORMS[name]}; all rows have the same length.")
    return np.ascontiguousarray(rows)


def _check(rows: NDArray[np.float32], names: list[str], name: str) -> None:
    """Refuse rows that are not finite, and codes that are not of norm 1."""
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise ValueError(f"{name}= must be finite, and {names[int(bad[0])]} is not.")
    if name == PROJECTION:  # its scale depends on the number of sites
        return
    norms = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    allowed = min(MOST_OFF, _DEVIATIONS / math.sqrt(2 * rows.shape[1]))
    bad = np.flatnonzero(np.abs(norms - 1) > allowed)
    if len(bad):
        first = int(bad[0])
        raise ValueError(
            f"{name}= must have norm 1 up to {allowed:.2g} for d={rows.shape[1]}, "
            f"and {names[first]} has norm {norms[first]:.3g}: divide each row by its norm."
        )


Quantile = Callable[[Any], Any]


def standard_normals(
    key: tuple[int, int],
    words: Sequence[tuple[int, int, int]],
    size: int,
    quantile: Quantile = ndtri,
) -> Floats:
    """Return rows of independent standard normal numbers.

    A row depends on nothing but the key and its words. Another `quantile` gives numbers of another
    distribution.

    Shapes
    ------
    words : n triples; returned : (n, size)

    Examples
    --------
    >>> from hammemo.memories.gaussian.codes import standard_normals
    >>> standard_normals((1, 2), [(3, 0, 0)], 3).round(6)
    array([[...]])
    """
    generator = np.random.Philox(key=np.array(key, np.uint64))
    state = generator.state
    raw = np.empty((len(words), size), np.uint64)
    for row, counter in zip(raw, words, strict=True):
        state["state"]["counter"] = np.array([0, *counter], np.uint64)
        # far cheaper than a new generator, which would ask the system for entropy
        generator.state = state
        row[:] = generator.random_raw(size)
    uniform = ((raw >> np.uint64(11)) + 0.5) * 2.0**-53  # strictly between 0 and 1
    return np.asarray(quantile(uniform), np.float64)


def _sign(uniform: Floats) -> Floats:
    return np.where(uniform < 0.5, -1.0, 1.0)


def _sparse_sign(uniform: Floats) -> Floats:
    least = np.where(uniform < 1 / 6, -math.sqrt(3), 0.0)
    return np.where(uniform > 5 / 6, math.sqrt(3), least)


DISTRIBUTIONS: Final[dict[str, Quantile]] = {
    "gaussian": ndtri,
    "rademacher": _sign,
    "sparse": _sparse_sign,
}
"""How uniform numbers become numbers with mean 0 and variance 1, by the name of a distribution."""


class GaussianCodes(Cached):
    """The paper's input codes, output codes and projection for one seed.

    Parameters
    ----------
    seed : int
    d : int
        Dimension of token and label codes.
    d_h : int
        Dimension of a projected token code.
    n_sites : int
        Blocks of a context's code; the paper's h.
    tied : bool
        Whether a label's output code is its input code as a token.
    exact : bool
        Whether codes are whole numbers of steps of a fixed size, so that sums of their products are
        exact.
    given_rows : mapping of GivenRows, optional
        What is not drawn: ``"codes"``, ``"output_codes"``, ``"projection"``.
    distribution : {"gaussian", "rademacher", "sparse"}

    Examples
    --------
    >>> from hammemo.memories.gaussian.codes import GaussianCodes
    >>> codes = GaussianCodes(seed=0, d=256, d_h=32, n_sites=8)
    >>> codes.inputs(["cat", 7]).shape, codes.project(["cat", 7]).shape
    ((2, 256), (2, 32))
    >>> bool((codes.inputs(["cat"]) == GaussianCodes(0, 256, 32, 8).inputs(["cat"])).all())
    True
    """

    def __init__(
        self,
        seed: int,
        d: int,
        d_h: int,
        n_sites: int,
        tied: bool = False,
        *,
        exact: bool = False,
        given_rows: Mapping[str, GivenRows] | None = None,
        distribution: str = "gaussian",
    ) -> None:
        if exact and d >= 2 ** (53 - 2 * _FACTOR_BITS):
            raise ValueError(
                f"d={d}: exact codes have fewer than 2^21 dimensions. Use exact=False."
            )
        self.seed = seed
        self.d = d
        self.d_h = d_h
        self.n_sites = n_sites
        self.tied = tied
        self.exact = exact
        self.given = dict(given_rows or {})
        self.distribution = distribution
        if not isinstance(distribution, str) or distribution not in DISTRIBUTIONS:
            raise ValueError(
                f"distribution={distribution!r} is not known: "
                f"use one of {', '.join(DISTRIBUTIONS)}."
            )
        if tied and "output_codes" in self.given:
            raise ValueError(
                "output_codes= has codes of labels, and tied=True uses the codes of tokens: "
                "use one."
            )
        for name, rows in self.given.items():
            self._check_given(name, rows)

    def _check_given(self, name: str, given_rows: GivenRows) -> None:
        """Refuse codes or a projection of another dimension, or too large for exact sums."""
        if given_rows.d != self.d:
            raise ValueError(
                f"{name}= has rows of {given_rows.d} numbers, and d={self.d}: use d={given_rows.d}."
            )
        sd = self._input_sd
        bits = CODE_BITS if name == "output_codes" else _FACTOR_BITS
        if name == PROJECTION:
            sd = self._projected_sd
            self._check_projection(given_rows.rows)
        largest = np.abs(given_rows.rows).max(initial=0.0)
        most = math.ldexp(1.0, step_exponent(sd, bits) + bits)
        if self.exact and largest > most:
            raise ValueError(
                f"With exact=True no number of {name}= may be beyond {most:.3g} for d={self.d}, "
                f"and one is {largest:.3g}: "
                f"use exact=False, or {name}= whose numbers are all about as large."
            )

    def _check_projection(self, rows: NDArray[np.float32]) -> None:
        """Refuse a projection of another shape or scale."""
        if len(rows) != self.d_h:
            raise ValueError(
                f"projection= has {len(rows)} rows, and d_h={self.d_h}: use d_h={len(rows)}."
            )
        scale = float(np.square(rows, dtype=np.float64).sum()) / self.d * self.n_sites
        if not abs(scale - 1) <= MOST_OFF:
            way_out = f"multiply it by {1 / math.sqrt(scale):.3g}" if scale > 0 else "it is zero"
            raise ValueError(
                "projection= must map codes of norm 1 to a squared "
                f"norm of 1/h = 1/{self.n_sites} on average, "
                f"and its average is {scale:.3g} times that: {way_out}."
            )

    def inputs(self, features: Sequence[Feature]) -> NDArray[np.float32]:
        """Return the code u of each feature.

        Shapes
        ------
        features : n of them; returned : (n, d)
        """
        codes = self._take_or_draw("codes", "input", features)
        return self._round_if_exact(codes, self._input_sd, _FACTOR_BITS)

    def outputs(self, labels: Sequence[Feature]) -> NDArray[np.float32]:
        """Return the code z of each label.

        Shapes
        ------
        labels : L of them; returned : (L, d)
        """
        if self.tied:
            codes = self.inputs(labels)
        else:
            codes = self._take_or_draw("output_codes", "output", labels)
        return self._round_if_exact(codes, self._input_sd, CODE_BITS)

    @cached_property
    def projection(self) -> NDArray[np.float32]:
        """The projection W, of shape (d_h, d)."""
        if PROJECTION in self.given:
            rows = self.given[PROJECTION].rows
        else:
            words = [(i, 0, 0) for i in range(self.d_h)]
            rows = self._draw(key_words(self.seed, PROJECTION), words, 1 / self._projected_sd)
        return self._round_if_exact(rows, self._projected_sd, _FACTOR_BITS)

    def project(self, features: Sequence[Feature]) -> NDArray[np.float32]:
        """Return W u of each feature, without ever holding more than a few thousand codes u.

        Shapes
        ------
        features : n of them; returned : (n, d_h)
        """
        projected = np.empty((len(features), self.d_h), np.float32)
        projection = self.projection.T.astype(np.float64)
        step = max(1, _CHUNK_NUMBERS // self.d)
        for start in range(0, len(features), step):
            codes = self.inputs(features[start : start + step]) @ projection
            codes = self._round_if_exact(codes, self._projected_sd, CODE_BITS)
            projected[start : start + step] = codes
        return projected

    @property
    def largest_product(self) -> float:
        """What an entry of an exact projected code times one of an output code is at most."""
        projected_step = step_exponent(self._projected_sd, CODE_BITS)
        output_step = step_exponent(self._input_sd, CODE_BITS)
        return math.ldexp(1.0, projected_step + output_step + 2 * CODE_BITS)

    @property
    def _input_sd(self) -> float:
        return 1 / math.sqrt(self.d)

    @property
    def _projected_sd(self) -> float:
        """Standard deviation of an entry of W, and of an entry of a projected code."""
        return 1 / math.sqrt(self.n_sites * self.d_h)

    def _take_or_draw(
        self, name: str, family: str, features: Sequence[Feature]
    ) -> NDArray[np.float32]:
        """Return the codes that the parameter `name` has, or those of a family that is drawn."""
        if name in self.given:
            return self.given[name].codes(features)
        words = [feature_words(feature) for feature in features]
        return self._draw(key_words(self.seed, family), words, math.sqrt(self.d))

    def _draw(
        self, key: tuple[int, int], words: Sequence[tuple[int, int, int]], divisor: float
    ) -> NDArray[np.float32]:
        """Return rows of d random numbers divided by `divisor`, in parts that bound the memory."""
        quantile = DISTRIBUTIONS[self.distribution]
        scaled = np.empty((len(words), self.d), np.float32)
        step = max(1, _CHUNK_NUMBERS // self.d)
        for start in range(0, len(words), step):
            numbers = standard_normals(key, words[start : start + step], self.d, quantile)
            scaled[start : start + step] = numbers / divisor
        return scaled

    def _round_if_exact(self, codes: Array, sd: float, bits: int) -> Array:
        """Return codes of this standard deviation as whole steps, where codes are exact."""
        return round_to_steps(codes, sd, bits) if self.exact else codes


def step_exponent(sd: float, bits: int) -> int:
    """Return e of the finest step 2^e of which 2^bits reach eight standard deviations."""
    return math.ceil(math.log2(8 * sd)) - bits


def round_to_steps(codes: Array, sd: float, bits: int) -> NDArray[np.float32]:
    """Return codes rounded to whole steps, halves to even, and cut off at 2^bits steps.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.memories.gaussian.codes import round_to_steps
    >>> codes = np.array([0.3, -0.6, 99.0])
    >>> round_to_steps(codes, sd=1.0, bits=5) * 4  # 2^5 steps reach 8: steps of a quarter
    array([ 1., -2., 32.], dtype=float32)
    """
    exponent = step_exponent(sd, bits)
    steps = np.clip(np.rint(np.ldexp(codes, -exponent)), -(2.0**bits), 2.0**bits)
    return np.asarray(np.ldexp(steps, exponent), np.float32)


class CodeCache:
    """Codes that were computed before, found by feature.

    Only a cache: dropping it changes no result.

    Parameters
    ----------
    compute : callable
        From a list of features to an array of one row each.
    width : int
        Length of a row.
    """

    def __init__(
        self, compute: Callable[[Sequence[Feature]], NDArray[np.float32]], width: int
    ) -> None:
        self._compute = compute
        self._index: dict[Feature, int] = {}
        self._rows = np.empty((0, width), np.float32)

    @classmethod
    def holding(
        cls,
        features: Sequence[Feature],
        rows: NDArray[np.float32],
        compute: Callable[[Sequence[Feature]], NDArray[np.float32]],
    ) -> CodeCache:
        """Return a cache that holds these codes of distinct features already."""
        cache = cls(compute, rows.shape[1])
        cache._index = {feature: i for i, feature in enumerate(features)}
        cache._rows = rows
        return cache

    def __getstate__(self) -> dict[str, Any]:
        index = dict(self._index)  # before the rows: another thread may append, the rows first
        return {**vars(self), "_index": index}

    def features(self) -> list[Feature]:
        """Return the features whose codes are held, in the order of `rows`."""
        return list(self._index)

    @property
    def rows(self) -> NDArray[np.float32]:
        """The codes that are held."""
        return self._rows[: len(self._index)]

    def get(self, features: Sequence[Feature], *, keep: bool = False) -> NDArray[np.float32]:
        """Return the codes of distinct features; missing ones are computed and, if asked, kept.

        Shapes
        ------
        features : n of them; returned : (n, width)
        """
        index = np.fromiter(map(self._index.get, features, repeat(-1)), np.int64, len(features))
        is_cached = index >= 0
        if is_cached.all():
            return self._rows[index]
        missing = [feature for feature, place in zip(features, index, strict=True) if place < 0]
        codes = np.empty((len(features), self._rows.shape[1]), np.float32)
        codes[is_cached] = self._rows[index[is_cached]]
        codes[~is_cached] = self._compute(missing)
        if keep:
            self._append(missing, codes[~is_cached])
        return codes

    def _append(self, features: list[Feature], codes: NDArray[np.float32]) -> None:
        size = len(self._index)
        needed = size + len(features)
        if needed > len(self._rows):  # at least double, so that growing one by one stays linear
            larger = np.empty((max(needed, 2 * len(self._rows)), self._rows.shape[1]), np.float32)
            larger[:size] = self.rows
            self._rows = larger
        self._rows[size:needed] = codes
        self._index.update(zip(features, range(size, needed), strict=True))


def site_codes(
    contexts: Contexts, sites: Sites, cache: CodeCache, dtype: type[np.floating[Any]]
) -> Iterator[tuple[Array, Ints]]:
    """Yield for each site the projected codes of its distinct values, and an index into them.

    The index says for each context which of the codes is its own; -1 for a context without a token
    at the site.

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
            tuples, index = TupleSet.collect(contexts.ranks[:, list(site)], max(len(tokens), 1))
            features = features_of(tokens, tuples.rows())
            yield cache.get(features).astype(dtype, copy=False), index


def encode(
    contexts: Contexts,
    sites: Sites,
    cache: CodeCache,
    weights: Floats,
    *,
    dtype: type[np.floating[Any]],
) -> Array:
    """Return the code of each context, block k weighed by S times the k-th weight.

    The block of an empty site is zero.

    Shapes
    ------
    returned : (m, p)
    """
    blocks = []
    pairs = zip(weights, site_codes(contexts, sites, cache, dtype), strict=True)
    for weight, (codes, index) in pairs:
        block = codes[index] if len(codes) else np.zeros((len(index), codes.shape[1]), dtype)
        block[index < 0] = 0.0
        blocks.append(block * dtype(weight * len(weights)))
    return np.concatenate(blocks, axis=1)


def site_keys(contexts: Contexts, sites: Sites, cache: CodeCache) -> Floats:
    """Return the projected code of what each site of each context holds: (m, S, d_h).

    It is zeros where a site holds nothing.
    """
    n_sites = len(sites.positions)
    weights = np.full(n_sites, 1 / n_sites)  # undoes what `encode` multiplies by
    keys = np.asarray(encode(contexts, sites, cache, weights, dtype=np.float64))
    return keys.reshape(len(contexts), n_sites, -1)
