"""The one place where questions are answered: a reader, the sites and a vote.

A question makes a scorer of what a memory holds at that moment and takes all of its answer from it: scores, labels,
leading labels, probabilities, certificates and explanations, all of one version.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo._versions import cached_property
from hammemo.explain.explanations import Explanation
from hammemo.memories.exact import TreeRanker
from hammemo.tokens.labels import checked_k
from hammemo.votes.base import WeightedSum

if TYPE_CHECKING:
    from hammemo._arrays.types import Array, Bools, Floats, Ints
    from hammemo.features.cells import Cells
    from hammemo.kernels.sites import Sites
    from hammemo.memories.base import Memory
    from hammemo.memories.ranker import LabelMask, Ranker
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Contexts, Examples
    from hammemo.tokens.vocabulary import Vocabulary
    from hammemo.votes import Vote


class Scorer:
    """Answers of one version of a memory.

    Parameters
    ----------
    reader : Reader
        What is stored.
    sites : Sites
        What is compared, with the weights that apply now.
    vote : Vote
    memory : Memory, optional
        The version that the reader is of: it keeps the ranker for the next scorer.
    cells : Cells, optional
        What the sites compare, where rows have numbers: contexts are rows as they were given.
    """

    def __init__(
        self,
        reader: Reader,
        sites: Sites,
        vote: Vote,
        memory: Memory | None = None,
        cells: Cells | None = None,
    ) -> None:
        self.reader = reader
        self.sites = sites
        self.vote = vote
        self._memory = memory
        self._cells = cells

    @property
    def labels(self) -> Vocabulary:
        """The labels, in the order of the columns."""
        return self.reader.labels

    @cached_property
    def ranker(self) -> Ranker:
        """What gives the scores."""
        whole = self._memory
        made = (
            self.vote.ranker(self.reader, self.sites)
            if whole is None
            else whole.ranker(self.vote, self.sites)
        )
        if self._cells is None:
            return made
        base = self._cells.base_answers(self.labels, self.vote.base_weights(self.labels))
        return made.for_cells(self._cells, base)

    def check_not_empty(self) -> None:
        """Refuse to answer where nothing is stored."""
        if not len(self.labels):
            raise ValueError(
                "The memory is empty, so there is no label to predict: learn at least one example first."
            )

    def _compared(self, contexts: Contexts) -> Contexts:
        """Return what the sites compare: cells, where rows have numbers."""
        return contexts if self._cells is None else self._cells.of(contexts)

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in dict(vars(self)).items() if name != "ranker"
        }  # made again when needed

    def scores(self, contexts: Contexts) -> Array:
        """Return one score for each context and label, made in batches that bound the memory needed.

        Shapes
        ------
        contexts : m of them; returned : (m, number of labels)
        """
        parts = [
            self.ranker.scores(contexts[part])
            for part in row_pieces(len(contexts), self.ranker.row_width)
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self.labels)))

    def probabilities(self, contexts: Contexts) -> Floats:
        """Return the probability of each label, where the vote gives probabilities."""
        check_probabilities(self.vote)
        return self.vote.probabilities(self.scores(contexts))

    def log_probabilities(self, contexts: Contexts) -> Floats:
        """Return the logarithms of the probabilities: finite also where a probability is too small for a float."""
        check_probabilities(self.vote)
        return self.vote.log_probabilities(self.scores(contexts))

    def losses(self, examples: Examples) -> Floats:
        """Return minus the logarithm of the probability of each example's label; infinity where it is no label."""
        counted = examples if self._cells is None else self._cells.counted(examples)
        found = self.vote.label_probabilities(self.reader, counted, self.sites)
        if found is None:
            columns = self.labels.find(examples.labels)[examples.label_ranks]
            found = np.zeros(len(examples))
            for part in row_pieces(len(examples), self.reader.row_width):
                all_labels, known = self.probabilities(examples.contexts[part]), columns[part] >= 0
                found[part] = np.where(known, all_labels[np.arange(len(known)), columns[part]], 0.0)
        with np.errstate(divide="ignore"):
            return -np.log(found)

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest score of each context, the first one among equals."""
        self.check_not_empty()
        return self.ranker.winners(contexts)

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        return self.ranker.leaders(contexts, checked_k(k))

    def rank(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k labels that `top_k` lists: the leaders, unless the vote discounts some."""
        return self.ranker.rank(contexts, checked_k(k))

    def leaders_by_mask(
        self, contexts: Contexts, k: int, mask: LabelMask, *, with_scores: bool
    ) -> tuple[Ints, Floats | None]:
        """Return the same among the labels that a mask allows, and their scores, with the discount, if asked.

        Shapes
        ------
        returned : (m, min(k, L)), twice; -1 and NaN where fewer labels are allowed
        """
        return self.ranker.leaders_by_mask(contexts, checked_k(k), mask, with_scores=with_scores)

    def certified(self, contexts: Contexts) -> Bools:
        """Return for each context whether the winner is proven to be that of the exact classifier."""
        if not len(self.labels):
            self.winners(contexts)  # refuses, and says what to do
        if self.reader.is_exact:
            return np.ones(len(contexts), bool)  # it is the exact classifier that answers
        if not isinstance(self.vote, WeightedSum):
            raise TypeError(
                f"The scores of vote={self.vote!r} are not weighted sums of counts, so a sketch has no certificate for "
                "them: use memory='exact', whose answers are exact with every vote, or vote='sum'."
            )
        _warn_of_unchecked_forgetting(self.reader)
        divisor = self.vote.divisor(self.reader, self.sites)
        return self.reader.proven(
            self._compared(contexts), self.sites.weights, divisor, self.winners(contexts)
        )

    def column_contributions(self, contexts: Contexts) -> tuple[Floats, Floats]:
        """Return what each column of a table adds to each score, and the score without any column.

        What a tuple says is divided evenly among its columns, what trees say as `Cells.column_shares` has it.

        Shapes
        ------
        contexts : m of them; returned : (m, columns, L), (m, L)
        """
        if self._cells is not None and self._cells.narrowing is not None:
            narrowing = self._cells.narrowing
            narrow = narrowing.ask(contexts)
            if narrow is not contexts:
                values, base = self.column_contributions(narrow)
                return narrowing.spread(values, contexts), base
        n_columns = self.sites.h if self._cells is None else len(self._cells.kinds)
        labels, m = np.arange(len(self.labels)), len(contexts)
        values, base = np.zeros((m, n_columns, len(labels))), np.zeros((m, len(labels)))
        if isinstance(self.ranker, TreeRanker) and self.ranker.has_tables:
            for part in row_pieces(m, n_columns * len(labels)):
                values[part], base[part] = self.ranker.column_contributions(contexts[part])
            return values, base
        for part in row_pieces(m, self.sites.n * (n_columns + len(labels))):
            terms = self.ranker.site_scores(contexts[part], labels)
            sites = terms.parts or self.sites.described()
            if any(kind for kind, _ in sites):
                raise TypeError(
                    "contributions() is for tables: a bag of tokens belongs to no column. Use explain()."
                )
            spread = np.zeros((len(sites), self.sites.h))
            for site, (_, positions) in zip(spread, sites, strict=True):
                site[list(positions)] = 1.0 / len(positions)
            of_positions = np.einsum("sp,msc->mpc", spread, terms.values, optimize=True)
            if self._cells is not None:
                shares = self._cells.column_shares(contexts[part])
                of_positions = np.matmul(shares.transpose(0, 2, 1), of_positions)
            values[part] = of_positions
            base[part] = 0 if terms.base is None else terms.base
        return values, base

    def explanation(self, context: Contexts, classes: Array, k: int) -> Explanation:
        """Return why one context got its label; `classes` are the labels as the user has them."""
        if not len(self.labels):
            self.winners(context)  # refuses, and says what to do
        columns = self.leaders(context, max(checked_k(k), 2))[0]
        scores = self.scores(context)[0]
        margin = float(scores[columns[0]] - scores[columns[1]]) if len(columns) > 1 else None
        certified = None
        if self.reader.is_exact or (self.reader.has_bounds and isinstance(self.vote, WeightedSum)):
            certified = bool(self.certified(context)[0])
        columns = columns[:k]
        terms = self.ranker.site_scores(context, columns)
        if self.reader.is_exact and terms.low is None and terms.errors is None:  # an own vote
            terms = replace(terms, low=terms.values, high=terms.values)
        compared = self._compared(context)
        ranks, tokens = compared.ranks[0], compared.vocabulary.tolist()
        verdicts = self.reader.has_seen(compared.vocabulary).tolist()
        seen = [*({1: True, 0: False}.get(verdict) for verdict in verdicts), None]
        parts = terms.parts or self.sites.described()
        # Of sites without a position only those are shown that say something of these labels.
        shown = [k for k, (kind, _) in enumerate(parts) if not kind or terms.values[0, k].any()]
        return Explanation(
            tokens=tuple(None if rank < 0 else tokens[rank] for rank in ranks),
            seen=tuple(seen[rank] for rank in ranks),  # rank -1, no token, reads the last entry
            sites=tuple(parts[k][1] for k in shown),
            kinds=tuple(parts[k][0] for k in shown),
            labels=tuple(classes[columns].tolist()),
            scores=np.asarray(scores[columns], np.float64),
            base=np.zeros(len(columns)) if terms.base is None else np.atleast_2d(terms.base)[0],
            contributions=terms.values[0, shown],
            low=None if terms.low is None else terms.low[0, shown],
            high=None if terms.high is None else terms.high[0, shown],
            errors=None if terms.errors is None else terms.errors[0, shown],
            score_errors=None if terms.total_errors is None else terms.total_errors[0],
            margin=margin,
            certified=certified,
            probabilities=self.vote.probabilities(scores[None])[0][columns]
            if self.vote.has_probabilities
            else None,
        )


_warned: WeakSet[Reader] = WeakSet()
"""The readers whose users were warned: a reader is one version of a memory."""


def _warn_of_unchecked_forgetting(reader: Reader) -> None:
    """Warn once for each version of a memory that its certificates rest on what it was told to forget."""
    if reader.forgot_unchecked and reader not in _warned:
        warnings.warn(
            "This model has forgotten examples without digests, and its memory cannot tell whether it had learnt "
            "them: its certificates hold only if it had learnt every one of them. Use keep='digests', "
            "which refuses to forget what was never learnt.",
            stacklevel=4,
        )
        _warned.add(reader)


def check_probabilities(vote: Vote) -> None:
    """Refuse a vote whose scores are not logarithms of probabilities."""
    if not vote.has_probabilities:
        raise AttributeError(
            f"The scores of vote={vote!r} are not probabilities: use vote=LogLinear() or vote=Mixture(), or top_k for "
            "a ranking."
        )
