r"""Codes and projections that a researcher gives, in place of drawn ones.

The memory works with any codes that are nearly orthogonal and of norm 1: a site that holds token x in an example and in
a question adds :math:`\lVert u_x \rVert^2` to the score, in place of 1. The norm of a drawn code is 1 up to a
standard deviation of :math:`1 / \sqrt{2d}`; given ones may be off by six of these, and by a half at most.

A token without a code cannot be learnt. In a question it has the code zero: it matches nothing, as it was never learnt.
The same holds for labels and output codes. A projection W is given as its :math:`d_h` rows; on average over unit
vectors u, :math:`\lVert W u \rVert^2 = \lVert W \rVert_F^2 / d` must be 1/h, up to a half of it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.tokens.vocabulary import Vocabulary, as_token

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.tokens.hashing import Feature

PROJECTION: Final = "projection"
GIVEN: Final = ("codes", "output_codes", PROJECTION)
"""What can be given, as `MeMoClassifier` and files name it."""

_DEVIATIONS: Final = 6.0
MOST_OFF: Final = 0.5


class GivenRows(Cached):
    """Codes of some tokens or labels, or the rows of a projection, checked.

    Parameters
    ----------
    tokens : Vocabulary
    rows : ndarray of float32, shape (n, d)

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.memories.gaussian.given import GivenRows
    >>> GivenRows.of({"cat": [1.0, 0.0], "rat": [0.0, 1.0]})
    GivenRows of 2 tokens, d=2
    >>> GivenRows.of(np.eye(3)).tokens.tolist()
    [0, 1, 2]
    """

    def __init__(self, tokens: Vocabulary, rows: NDArray[np.float32]) -> None:
        self.tokens = tokens
        self.rows = rows

    @classmethod
    def of(cls, given: Any, name: str = "codes") -> GivenRows:
        """Return what was given as the parameter `name`: a mapping from tokens, or an array whose row i is token i's.

        A projection is an array of d_h rows.
        """
        if isinstance(given, GivenRows):
            return given
        if isinstance(given, Mapping) and name != PROJECTION:
            keys = [as_token(token) for token in given]
            rows, names = _rows(list(given.values()), name), [f"the code of {key!r}" for key in keys]
        else:
            rows = _rows(given, name)
            keys, names = list(range(len(rows))), [f"row {i}" for i in range(len(rows))]
        _check(rows, names, name)
        tokens = Vocabulary.of(keys)
        places = {token: i for i, token in enumerate(keys)}
        return cls(tokens, rows[[places[token] for token in tokens.tolist()]])

    @classmethod
    def restored(cls, stored: StoredArrays, name: str) -> GivenRows:
        """Return the codes in a file, checked: undo `arrays`."""
        tokens = Vocabulary.from_arrays(stored.part("tokens"))
        rows = stored.finite("rows", "float32", (len(tokens), None))
        _check(rows, [f"the code of {token!r}" for token in tokens.tolist()], name)
        if name == PROJECTION and tokens.tolist() != list(range(len(rows))):
            raise ValueError("the rows of its projection are not numbered")
        return cls(tokens, rows)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the codes as named arrays."""
        return {"rows": self.rows, **{f"tokens.{name}": array for name, array in self.tokens.arrays().items()}}

    @property
    def d(self) -> int:
        """The dimension of a code."""
        return int(self.rows.shape[1])

    @cached_property
    def digest(self) -> str:
        """BLAKE2b-256 of tokens and codes, in hexadecimal digits."""
        found = hashlib.blake2b(digest_size=32)
        for name, array in sorted(self.arrays().items()):
            found.update(f"{name} {array.dtype.str} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()

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
        found = np.zeros((len(places), self.d), np.float32)
        found[places >= 0] = self.rows[places[places >= 0]]
        return found

    def check_holds(self, tokens: Iterable[Feature], what: str, name: str = "codes") -> None:
        """Refuse tokens or labels that are to be learnt and have no code in the parameter `name`."""
        for token in tokens:
            if token not in self._places:
                raise ValueError(
                    f"The {what} {token!r} has no code, and only {what}s with a code can be learnt: {name}= has codes "
                    f"for {len(self.tokens):,} {'tokens' if name == 'codes' else 'labels'}. Add one for it, or drop "
                    "the rows that hold it."
                )

    def __deepcopy__(self, memo: dict[int, Any]) -> GivenRows:
        return self  # codes never change, and clones of a memory share them

    def __repr__(self) -> str:
        return f"GivenRows of {len(self.tokens):,} tokens, d={self.d}"


def _rows(given: Any, name: str) -> NDArray[np.float32]:
    try:
        rows = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        rows = np.empty(0, np.float32)
    if rows.ndim != 2 or not rows.size:
        wanted = {
            "codes": "an array with one row of d numbers for each token, or a mapping from tokens to such rows",
            "output_codes": "an array with one row of d numbers for each label, or a mapping from labels to such rows",
            PROJECTION: "an array of d_h rows with d numbers each",
        }
        raise ValueError(f"{name}= is {wanted[name]}; all rows have the same length.")
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
        raise ValueError(
            f"{name}= must have norm 1 up to {allowed:.2g} for d={rows.shape[1]}, and {names[int(bad[0])]} has norm "
            f"{norms[int(bad[0])]:.3g}: divide each row by its norm."
        )
