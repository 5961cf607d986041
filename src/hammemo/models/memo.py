"""The paper's model by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hammemo.memories import Gaussian
from hammemo.memories.gaussian import TokenCodes
from hammemo.models.classifiers import MemoryClassifier

if TYPE_CHECKING:
    from hammemo.kernels import SiteKernel
    from hammemo.memories import Memory
    from hammemo.votes import Vote


class MeMoClassifier(MemoryClassifier):
    """The paper's single-layer MeMo: `MemoryClassifier` with a Gaussian memory.

    Parameters
    ----------
    d : int
        Dimension of token and label codes.
    d_h : int, optional
        Dimension of a projected token code; d / h by default, which makes the memory square.
    tied : bool
        Whether labels use their input codes as output codes.
    exact : bool
        Whether codes are rounded to whole steps, so that models learnt in any order, in shards or after forgetting are
        the same to the byte.
    kernel, vote, random_state, verbose
        As in `MemoryClassifier`.
    codes : array, mapping or None
        Your own token codes, in place of drawn ones: an array whose row i is the code of token i, or a mapping from
        tokens to rows. Rows have d numbers and norm 1. Labels have drawn codes, or with ``tied=True`` these.

    Examples
    --------
    >>> from hammemo import MeMoClassifier
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "e"]], ["x", "x", "y"]
    >>> MeMoClassifier(d=512).fit(X, y).predict([["a", "e"], ["d", "e"]]).tolist()
    ['x', 'y']
    """

    given_codes: ClassVar[str] = "codes"

    def __init__(
        self,
        d: int = 1024,
        d_h: int | None = None,
        tied: bool = False,
        exact: bool = False,
        kernel: str | SiteKernel | None = None,
        vote: str | Vote = "sum",
        random_state: Any = 0,
        codes: Any = None,
        verbose: Any = 0,
    ) -> None:
        self.d = d
        self.d_h = d_h
        self.tied = tied
        self.exact = exact
        self.kernel = kernel
        self.vote = vote
        self.random_state = random_state
        self.codes = codes
        self.verbose = verbose

    def _make_memory(self) -> Memory:
        codes = None if self.codes is None else TokenCodes.of(self.codes)
        return Gaussian(self.d, self.d_h, self.tied, self.exact, codes)
