"""What every vote is: a way from the counts that a query reads to one score a label.

A vote makes a :class:`~hammemo.memories.ranker.Ranker` of a reader and the sites. Most need no
ranker of their own:

- a `WeightedSum` says by what each label's weighted sum of counts is divided;
- a sum over sites of a function of a row of counts is a
  :class:`~hammemo.memories.row_rules.RowRule`, and ``reader.with_rule(rule)`` ranks by it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import log_softmax
from sklearn.base import BaseEstimator

from hammemo.memories.exact import with_free_rows
from hammemo.memories.ranker import Divisor, Ranker, is_one_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.ranker import SiteScores
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Contexts, Examples
    from hammemo.tokens.vocabulary import Vocabulary


class Vote(BaseEstimator, ABC):
    """How the sites' counts become one score a label."""

    has_probabilities: ClassVar[bool] = False
    """Whether `probabilities` and `log_probabilities` are there."""

    reads_free_sites: ClassVar[bool] = False
    """Whether it reads sites without a position, such as a bag."""

    needs_rows: ClassVar[bool] = False
    """Whether it reads rows of counts, exact or of a sketch."""

    needs_exact_rows: ClassVar[bool] = False
    """Whether it reads exact counts only, no sketch of them."""

    keeps_cases: ClassVar[bool] = False
    """Whether examples are left out, and kept, with their whole document or case."""

    @property
    def uniform_share(self) -> float:
        """The share of even probabilities that is mixed into the softmax."""
        return 0.0

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probabilities of scores: here their softmax, with a share of even ones.

        Shapes
        ------
        scores : (m, L); returned : (m, L)
        """
        share = self.uniform_share
        probabilities = softmax(scores)
        if not share:
            return probabilities
        return np.asarray(probabilities * (1 - share) + share / probabilities.shape[1])

    def log_probabilities(self, scores: Floats) -> Floats:
        """Return the logarithms: finite also if a probability is too small for a float."""
        if self.uniform_share:
            return np.log(self.probabilities(scores))
        return np.asarray(log_softmax(scores, axis=1))

    def base_weights(self, labels: Vocabulary) -> Floats | None:  # noqa: ARG002
        """Return the weight of an additive base for each of these labels; None without a base."""
        return None

    def label_probabilities(
        self,
        reader: Reader,  # noqa: ARG002
        examples: Examples,  # noqa: ARG002
        sites: Sites,  # noqa: ARG002
    ) -> Floats | None:
        """Return the probability of each example's label.

        None where this takes as much work as the probabilities of all labels.
        """
        return None

    def check_parameters(self) -> None:
        """Refuse parameters that are wrong for any sites.

        `load` calls it, so that a later `refit` does not fail.
        """

    def check_sites(self, sites: Sites) -> None:
        """Refuse parameters that are wrong for these sites, such as weights for other sites.

        `load` calls it, too.
        """

    def check_reads(self, sites: Sites) -> None:
        """Refuse sites without positions, such as bags, where this vote reads positions only."""
        if sites.free and not self.reads_free_sites:
            raise ValueError(
                f"vote={self!r} reads positions only, and the kernel has a {sites.free[0].kind!r}: "
                "use vote='mixture', or 'log-linear'."
            )

    def check_whole(self, *names: str) -> None:
        """Refuse parameters that are not whole numbers of at least 1."""
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={value!r} is a whole number of at least 1.")

    @property
    def has_weights(self) -> bool:
        """Whether there is something to fit: the class has a `fit_to` of its own."""
        return type(self).fit_to is not Vote.fit_to

    @property
    def fits_weights(self) -> bool:
        """Whether weights come from examples: there are some, and not from the user."""
        return self.has_weights

    def is_fitted_like(self, other: Vote) -> bool:
        """Return whether both have the same fitted weights, to the bit, or both have none."""
        weights = self.state()
        other_weights = other.state()
        return weights.keys() == other_weights.keys() and all(
            np.array_equal(weights[name], other_weights[name]) for name in weights
        )

    @abstractmethod
    def ranker(self, reader: Reader, sites: Sites) -> Ranker:
        """Return what scores and ranks labels by what a reader holds."""

    def fit_to(
        self,
        reader: Reader,
        examples: Examples,
        sites: Sites,
        *,
        seed: int = 0,
        leave_one_out: bool = True,
    ) -> None:
        """Fit what the vote has to fit.

        Parameters
        ----------
        reader : Reader
        examples : Examples
            Some that the reader holds or, without leaving one out, others.
        sites : Sites
        seed : int
            Decides which examples are taken where there are too many.
        leave_one_out : bool
            Whether each example is left out of the counts that it is judged by.
        """

    def sample_size(self) -> int:
        """Return the most examples that a first `fit_to` uses; 0 for a vote with nothing to fit."""
        return 0

    def unread(self, sites: Sites) -> tuple[str, ...]:  # noqa: ARG002
        """Return the names of the sites that the vote leaves out, because they say little."""
        return ()

    def state(self) -> dict[str, Array]:
        """Return what was fitted, as named arrays; empty where nothing was fitted."""
        return {}

    def restore(self, stored: StoredArrays, sites: Sites) -> None:
        """Take what was fitted from a file, checked: undo `state`."""


class WeightedSum(Vote):
    """A vote whose scores are weighted sums of counts over a divisor: certificates need this."""

    reads_free_sites = True

    @abstractmethod
    def divisor(self, reader: Reader, sites: Sites) -> Divisor:
        """Return what the weighted sums are divided by.

        It is a number, if all labels share it, or an array with one for each label. The best labels
        are found faster where it is a number.
        """

    def ranker(self, reader: Reader, sites: Sites) -> Ranker:
        """Return what ranks by the weighted sums over the divisor."""
        return _SumRanker(
            with_free_rows(reader, sites), sites.all_weights, self.divisor(reader, sites)
        )


class _SumRanker(Ranker):
    """Ranks by weighted sums of counts over a divisor, the way the reader finds the best."""

    def __init__(self, reader: Reader, weights: Floats, divisor: Divisor) -> None:
        super().__init__(len(reader.labels), reader.row_width)
        self._reader = reader
        self._weights = weights
        # float32 sums over a float of Python would stay float32
        self._divisor = np.float64(divisor) if is_one_number(divisor) else divisor

    def scores(self, contexts: Contexts) -> Array:
        return self._reader.scores(contexts, self._weights) / self._divisor

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        divisor = self._divisor
        if not is_one_number(divisor):
            divisor = np.asarray(divisor)[columns]
        return self._reader.site_scores(contexts, self._weights, columns).divide(divisor)

    def winners(self, contexts: Contexts) -> Ints:
        return self._reader.winners(contexts, self._weights, self._divisor)

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        return self._reader.leaders(contexts, self._weights, self._divisor, k)

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        return self._reader.single(self._weights, self._divisor)


def softmax(scores: Floats) -> Floats:
    """Return the probabilities whose logarithms the scores are, up to a number a row.

    Shapes
    ------
    scores : (m, L); returned : (m, L)
    """
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
