r"""What a memory holds at one moment, for answering.

A reader is a version that never changes: edits of its memory make new readers. It writes nothing
but caches, which are the same for every thread, each published by one assignment. It answers with
weighted sums of (estimated) counts,

.. math:: \texttt{scores}(q, w)_c \approx \sum_k w_k \, N_{k,c}(q_k),

and says what else it can do:

- ``has_bounds``: it bounds the exact weighted counts from both sides, so that answers can be proven
  (:mod:`hammemo.memories.reader`);
- ``has_rows``: it has the row of counts that each site reads, so that it can apply a function to
  every row (:mod:`hammemo.memories.row_rules`).

A compiled form is a reader that can be written to a file and read back.

**Proofs** that a memory's answer is the exact classifier's (`proven`). A memory that knows, for
every query and label, a lower and an upper bound on the exact weighted count, :math:`\underline S_c
\le S_c \le \overline S_c`, can prove some of its answers: label a is the exact winner if

.. math:: \underline S_a \ge \overline S_b \quad \text{for every rival } b,

with strict inequality for those b that would win a tie against a, the ones before it. For then
:math:`S_a \ge \underline S_a \ge \overline S_b \ge S_b`.

For the hashed memory, let R be the query's sites whose feature has a row of its own and T the
others. A row of one's own holds the exact counts; a bucket's row holds the counts of the feature
and of whatever else fell there, so it is an upper bound, and zero is a lower one. Hence
:math:`\underline S_c = \sum_R w_k n_c` and :math:`\overline S_c = \underline S_c + \sum_T w_k T_c`,
and the condition reads: a's lead on the sites of R is at least b's raw bucket counts on the sites
of T. With whole-number weights nothing is rounded; with others the bounds keep a margin for
rounding. What has a row of its own is known by its identity, not by its hash alone
(:mod:`hammemo.memories.hashed.reserved`), so this holds for every input, unless someone finds a
collision of BLAKE2b-256.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo.memories.ranker import Divisor, Ranker, SiteScores, best_columns, leading_columns
from hammemo.memories.row_rules import RowRanker, RowRule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Bools, Floats, Ints
    from hammemo.memories.label_counts import Frame
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary


def proven(low: Floats, high: Floats, answers: Ints) -> Bools:
    """Return for each query whether the column `answers` must be the exact winner.

    Shapes
    ------
    low, high : (m, L); answers : (m,); returned : (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.memories.reader import proven
    >>> low = np.array([[3.0, 1.0], [3.0, 1.0], [1.0, 3.0]])
    >>> high = np.array([[3.0, 3.0], [3.0, 4.0], [3.0, 3.0]])
    >>> proven(low, high, np.array([0, 0, 1]))
    array([ True, False, False])
    """
    claim = low[np.arange(len(low)), answers][:, None]
    columns = np.arange(high.shape[1])
    answer = answers[:, None]
    beaten = (claim > high) | ((claim == high) & (columns > answer)) | (columns == answer)
    return np.asarray(beaten.all(axis=1))


class Reader(ABC):
    """What answers queries: a version of a memory, or what that was compiled to.

    Parameters
    ----------
    frame : Frame
        The sites it compares, its labels in the order of the columns, and how many examples each
        label has.
    row_width : int
        How many numbers one query needs while it is answered; batches are cut to bound their
        memory.
    """

    has_bounds: ClassVar[bool] = False
    """Whether `bounds` and `proven` are there."""

    has_rows: ClassVar[bool] = False
    """Whether `site_counts` and `with_rule` are there."""

    is_exact: ClassVar[bool] = False
    """Whether all counts are exact, so that every answer is that of the exact classifier."""

    forgot_unchecked: bool = False
    """Whether its memory has removed examples that may never have been stored
    (`Memory.forgot_unchecked`).
    """

    def __init__(self, frame: Frame, row_width: int) -> None:
        self.frame = frame
        self.sites = frame.sites
        self.labels = frame.labels
        self.label_counts = frame.label_counts
        self.row_width = row_width

    @abstractmethod
    def scores(self, contexts: Contexts, weights: Floats) -> Array:
        """Return the weighted sum over sites of the (estimated) counts.

        Shapes
        ------
        contexts : m of them; weights : (S,); returned : (m, number of labels)
        """

    def site_scores(self, contexts: Contexts, weights: Floats, columns: Ints) -> SiteScores:
        """Return the terms of the sums that `scores` returns, and what is known of their error.

        Here they are those of exact rows; a sketch has a method of its own.

        Shapes
        ------
        contexts : m of them; weights : (S,); columns : (K,), which labels;
        returned values : (m, S, K)
        """
        if not self.is_exact:
            raise NotImplementedError(f"{type(self).__name__} has no site_scores.")
        return SiteScores.exact(weights[:, None] * self.site_counts(contexts)[:, :, columns])

    def has_seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position.

        1 means seen and 0 never, for certain; -1 that the reader cannot tell, as a sketch in
        general cannot.
        """
        return np.full(len(tokens), -1, np.int8)

    def winners(self, contexts: Contexts, weights: Floats, divisor: Divisor) -> Ints:
        """Return the column of the highest score over `divisor`, the first one among equals.

        Shapes
        ------
        weights : (S,); divisor : a number, or (L,); returned : (m,)
        """

        def scores(rows: slice) -> Array:
            return self.scores(contexts[rows], weights) / divisor

        return best_columns(scores, len(contexts), self.row_width)

    def leaders(self, contexts: Contexts, weights: Floats, divisor: Divisor, k: int) -> Ints:
        """Return the columns of the k highest scores over `divisor`, equals in column order.

        Shapes
        ------
        weights : (S,); divisor : a number, or (L,); returned : (m, min(k, L))
        """

        def scores(rows: slice) -> Array:
            return self.scores(contexts[rows], weights) / divisor

        return leading_columns(scores, len(contexts), self.row_width, min(k, len(self.labels)))

    def single(self, *_: Any, **__: Any) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way to answer one context with these weights; see `Ranker.single`."""
        return None

    def bounds(self, contexts: Contexts, weights: Floats) -> tuple[Floats, Floats]:
        """Return what the exact weighted counts are at least, and at most.

        They are the counts themselves where all are exact.

        Shapes
        ------
        weights : (S,); returned : (m, L), (m, L)
        """
        if self.is_exact and self.has_bounds:
            scores = self.scores(contexts, weights)
            return scores, scores
        raise TypeError(
            f"{type(self).__name__} gives no certificate; what reads Exact() and Hashed() does."
        )

    def proven(self, contexts: Contexts, weights: Floats, divisor: Divisor, answers: Ints) -> Bools:
        """Return for each context whether the column `answers` must be the exact winner.

        Shapes
        ------
        weights : (S,); divisor : a number, or (L,); answers : (m,); returned : (m,)
        """
        verdicts = np.empty(len(contexts), bool)
        for piece in row_pieces(len(contexts), len(self.labels)):
            low, high = self.bounds(contexts[piece], weights)
            verdicts[piece] = proven(low / divisor, high / divisor, answers[piece])
        return verdicts

    def site_counts(self, contexts: Contexts) -> Floats:  # noqa: ARG002
        """Return the row of counts that each site of each context reads, else zeros: (m, S, L)."""
        raise self._without_rows()

    def compute_example_counts(self, contexts: Contexts, columns: Ints) -> Floats:  # noqa: ARG002
        """Return what an example has added to its label's count in the row of each site.

        It is one, where the site reads a row.

        Shapes
        ------
        columns : (m,), the examples' labels; returned : (m, S), or (1, 1) for the same everywhere
        """
        return np.ones((1, 1))

    def with_rule(self, rule: RowRule) -> Ranker:
        """Return what ranks labels by this function of the rows."""
        if not self.has_rows:
            raise self._without_rows()
        return RowRanker(self.site_counts, lambda: rule, self.sites.n, len(self.labels))

    def with_shared_weights(
        self,
        smoothing: tuple[float, ...],  # noqa: ARG002
        weights: Floats,  # noqa: ARG002
        rule: Callable[[], RowRule],
    ) -> Ranker:
        """Return what ranks by the rule of these weights, which all labels share.

        The prior is the labels' base.

        A reader that finds the best labels by the weights alone makes the rule, which has a number
        for every label, only where it is needed.

        Shapes
        ------
        weights : (S, J)
        """
        return self.with_rule(rule())

    def restrict(
        self,
        contexts: Contexts,  # noqa: ARG002
        *,
        with_histogram: bool = False,  # noqa: ARG002
    ) -> Reader:
        """Return a reader, in memory, that answers these contexts the same.

        It is this one, unless its rows lie in segments.

        `with_histogram` adds what a mixture must know of all rows.
        """
        return self

    def _without_rows(self) -> TypeError:
        return TypeError(
            f"A log-linear vote reads rows of counts, which {type(self).__name__} does not keep: "
            "use memory=Exact() or memory=Hashed()."
        )


class Compiled(Reader):
    """A reader that can be written to a file: what `Memory.compile` returns."""

    @property
    def name_in_files(self) -> str | None:
        """The bare name in files, where that is another than the class's own."""
        return None

    @abstractmethod
    def tensors(self) -> dict[str, Array]:
        """Return the arrays that prediction needs, the numbering of the tokens not counted."""

    @abstractmethod
    def pack(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return what `from_packed` needs besides the frame: arrays, and a description for JSON."""

    @classmethod
    @abstractmethod
    def from_packed(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,
    ) -> Compiled:
        """Return the compiled form that `pack` described, checked, or raise ValueError."""
