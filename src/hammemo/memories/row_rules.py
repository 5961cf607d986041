r"""Scores that are sums over sites of a function of a row of counts.

A memory that keeps rows of counts, :math:`n_{k,c}` for label c in the row that site k of the query
reads, can answer more than weighted sums: any

.. math:: S_c(q) = \beta_c + \sum_k f_{k,c}(n_{k,1}, \dots, n_{k,L})

costs no more, because f is a function of the row alone: it is applied to every row once, and a
query gathers and adds the results as it would gather and add counts. Here f is a weighted sum of
smoothed log-ratios. With the label's share :math:`p_c` of the examples, :math:`n_k = \sum_c
n_{k,c}`, amounts of smoothing :math:`a_j` and weights :math:`w_{k,j,c}`,

.. math:: f_{k,c} = \sum_j w_{k,j,c} \log \frac{(n_{k,c} + a_j p_c) / (n_k + a_j)}{p_c}
    = \sum_j w_{k,j,c} \Bigl[ \log \Bigl(1 + \frac{n_{k,c}}{a_j p_c}\Bigr)
    - \log \Bigl(1 + \frac{n_k}{a_j}\Bigr) \Bigr],

the form on the right being the one computed: its first term is zero where the count is, so a sparse
table stays sparse, and its second is one number a row. A row without counts says nothing: f is
zero.

Where only bounds on the counts are known, f is bounded too. A bracket grows with the label's own
count: its derivative is :math:`1/(n_{k,c} + a_j p_c) - 1/(n_k + a_j) \ge 0`. And it falls with the
sum m of the other labels' counts. So it lies between its values at (least count, largest m) and at
(largest count, least m); a weight below zero swaps the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo._versions import cached_property
from hammemo.memories.ranker import Ranker, SiteScores

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.tokens.contexts import Contexts


@dataclass(frozen=True, eq=False)
class RowRule:
    """The function of a row, and the score where no site says anything.

    Parameters
    ----------
    smoothing : tuple of J floats
    weights : ndarray of shape (S, J, L), or (S, J, 1) where all labels share them
    prior : ndarray of shape (L,)
        The labels' shares, all above zero.
    base : ndarray of shape (L,)
    """

    smoothing: tuple[float, ...]
    weights: Floats
    prior: Floats
    base: Floats

    def gains(self, site: int, counts: Array, labels: Any = slice(None)) -> Floats:
        """Return the term of each count of a site, zero where the count is.

        `labels` are the columns of the counts.
        """
        ratios = counts / self.prior[labels]
        weights = self.weights[site]
        if weights.shape[1] > 1:
            weights = weights[:, labels]
        total = np.zeros(np.shape(ratios))
        for j, amount in enumerate(self.smoothing):
            total += weights[j] * np.log1p(ratios / amount)
        return total

    def losses(self, totals: Array) -> Floats:
        """Return log(1 + n / a) of rows with these sums, for each amount of smoothing.

        Shapes
        ------
        totals : (r,); returned : (r, J)
        """
        return np.asarray(
            np.log1p(np.asarray(totals, np.float64)[:, None] / np.array(self.smoothing))
        )

    def rows(self, site: int, counts: Array) -> Floats:
        """Return the function of each row of a site.

        Shapes
        ------
        counts : (r, L); returned : (r, L)
        """
        losses = self.losses(counts.sum(axis=1, dtype=np.float64))
        values = self.gains(site, counts)
        # term by term: the order of sums in a product of matrices may vary
        for j in range(len(self.smoothing)):
            values -= losses[:, j, None] * self.weights[site, j]
        return values

    def values(self, counts: Array) -> Floats:
        """Return the function of the row that each site of each context reads.

        It is what `rows` does, for all sites at once.

        Shapes
        ------
        counts : (m, S, L); returned : (m, S, L)
        """
        m, n_sites, n_labels = counts.shape
        n_amounts = len(self.smoothing)
        amounts = np.array(self.smoothing)
        terms = np.empty((m, n_sites, 2 * n_amounts, n_labels))
        gains = terms[:, :, :n_amounts]
        losses = terms[:, :, n_amounts:]
        np.log1p((counts / self.prior)[:, :, None] / amounts[:, None], out=gains)
        totals = counts.sum(axis=2, dtype=np.float64)
        losses[...] = -np.log1p(totals[:, :, None] / amounts)[..., None]
        gains *= self.weights
        losses *= self.weights
        # in the order of `rows`, which the last bit depends on
        return np.add.accumulate(terms, axis=2)[:, :, -1]

    def row_bounds(self, site: int, low: Array, high: Array) -> tuple[Floats, Floats]:
        """Return the least and the greatest value of each row for counts between these.

        Shapes
        ------
        low, high : (r, L); returned : (r, L), (r, L)
        """
        least = np.zeros(low.shape)
        most = np.zeros(low.shape)
        others_low = low.sum(axis=1, dtype=np.float64, keepdims=True) - low
        others_high = high.sum(axis=1, dtype=np.float64, keepdims=True) - high
        for j, amount in enumerate(self.smoothing):
            # a bracket is least at the least count with the largest of others, and the other way
            # round
            ends = [
                self.weights[site, j]
                * (np.log1p(counts / self.prior / amount) - np.log1p((counts + others) / amount))
                for counts, others in ((low, others_high), (high, others_low))
            ]
            least += np.minimum(*ends)
            most += np.maximum(*ends)
        return least, most

    def scores(self, counts: Array) -> Floats:
        """Return the scores of queries that read these rows: the definition of all other ways.

        Shapes
        ------
        counts : (m, S, L); returned : (m, L)
        """
        totals = np.tile(self.base, (len(counts), 1))
        for site in range(len(self.weights)):
            totals += self.rows(site, counts[:, site])
        return totals


class RowRanker(Ranker):
    """Ranks labels by a rule, from exact rows of counts.

    Parameters
    ----------
    site_counts : callable
        From contexts to the rows of counts that their sites read, shape (m, S, L):
        `Reader.site_counts`.
    rule : callable
        Makes the rule, which has a number for every label, when it is first needed.
    n_sites, n_labels : int
    """

    def __init__(
        self,
        site_counts: Callable[[Contexts], Floats],
        rule: Callable[[], RowRule],
        n_sites: int,
        n_labels: int,
    ) -> None:
        super().__init__(n_labels, n_sites * n_labels)
        self._site_counts = site_counts
        self._make_rule = rule

    @cached_property
    def _rule(self) -> RowRule:
        return self._make_rule()

    def scores(self, contexts: Contexts) -> Floats:
        """Return the rule's score of each context and label."""
        totals = np.empty((len(contexts), self.n_labels))
        for piece in row_pieces(len(contexts), self.row_width):
            totals[piece] = self._rule.scores(self._site_counts(contexts[piece]))
        return totals

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        """Return what each site adds to the scores of labels: exact counts, exact terms."""
        counts = self._site_counts(contexts)
        values = [
            self._rule.rows(site, counts[:, site])[:, columns] for site in range(counts.shape[1])
        ]
        return SiteScores.exact(np.stack(values, axis=1), self._rule.base[columns])
