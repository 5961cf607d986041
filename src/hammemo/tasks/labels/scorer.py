"""The one place where questions are answered: a reader, the sites and a vote.

A question makes a scorer of what a memory holds at that moment and takes all of its answer from it:
scores, labels, leading labels, probabilities, certificates and explanations, all of one version.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakSet

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo._versions import cached_property
from hammemo.explain.explanations import Explanation
from hammemo.memories.exact import TreeRanker
from hammemo.tokens.labels import check_k
from hammemo.votes.base import WeightedSum

if TYPE_CHECKING:
    from hammemo._arrays.types import Array, Bools, Floats, Ints
    from hammemo.features.cells import Cells
    from hammemo.kernels.sites import Sites
    from hammemo.memories.base import Memory
    from hammemo.memories.ranker import LabelMask, Ranker, SiteScores
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Contexts, Examples
    from hammemo.tokens.vocabulary import Token, Vocabulary
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
        if self._memory is None:
            ranker = self.vote.ranker(self.reader, self.sites)
        else:
            ranker = self._memory.ranker(self.vote, self.sites)
        if self._cells is None:
            return ranker
        base = self._cells.base_answers(self.labels, self.vote.base_weights(self.labels))
        return ranker.for_cells(self._cells, base)

    def check_not_empty(self) -> None:
        """Refuse to answer where nothing is stored."""
        if not len(self.labels):
            raise ValueError(
                "The memory is empty, so there is no label to predict: "
                "learn at least one example first."
            )

    def _find_cells(self, contexts: Contexts) -> Contexts:
        """Return what the sites compare: cells, where rows have numbers."""
        if self._cells is None:
            return contexts
        return self._cells.find_cells(contexts)

    def __getstate__(self) -> dict[str, Any]:
        # the ranker is made again when it is needed
        return {name: value for name, value in dict(vars(self)).items() if name != "ranker"}

    def scores(self, contexts: Contexts) -> Array:
        """Return one score for each context and label, computed in batches to bound memory.

        Shapes
        ------
        contexts : m of them; returned : (m, number of labels)
        """
        pieces = row_pieces(len(contexts), self.ranker.row_width)
        batches = [self.ranker.scores(contexts[piece]) for piece in pieces]
        if not batches:
            return np.empty((0, len(self.labels)))
        return np.concatenate(batches)

    def probabilities(self, contexts: Contexts) -> Floats:
        """Return the probability of each label, where the vote gives probabilities."""
        check_probabilities(self.vote)
        return self.vote.probabilities(self.scores(contexts))

    def log_probabilities(self, contexts: Contexts) -> Floats:
        """Return logarithms of the probabilities, finite also for those too small for floats."""
        check_probabilities(self.vote)
        return self.vote.log_probabilities(self.scores(contexts))

    def losses(self, examples: Examples) -> Floats:
        """Return minus the logarithm of the probability of each example's label.

        It is infinity where the model does not know the label.
        """
        examples_of_cells = examples
        if self._cells is not None:
            examples_of_cells = self._cells.replace_rows(examples)
        # Some votes compute these without the probabilities of all other labels.
        probabilities = self.vote.label_probabilities(self.reader, examples_of_cells, self.sites)
        if probabilities is None:
            probabilities = self._label_probabilities(examples)
        with np.errstate(divide="ignore"):
            return -np.log(probabilities)

    def _label_probabilities(self, examples: Examples) -> Floats:
        """Return the probability of each example's label: 0 for an unknown one."""
        columns = self.labels.find(examples.labels)[examples.label_ranks]
        probabilities = np.zeros(len(examples))
        for piece in row_pieces(len(examples), self.reader.row_width):
            of_all_labels = self.probabilities(examples.contexts[piece])
            piece_columns = columns[piece]
            of_label = of_all_labels[np.arange(len(piece_columns)), piece_columns]
            probabilities[piece] = np.where(piece_columns >= 0, of_label, 0.0)
        return probabilities

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest score of each context, the first one among equals."""
        self.check_not_empty()
        return self.ranker.winners(contexts)

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest scores, best first, equals in column order."""
        return self.ranker.leaders(contexts, check_k(k))

    def rank(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k labels that `top_k` lists: leaders after vote discounts."""
        return self.ranker.rank(contexts, check_k(k))

    def leaders_by_mask(
        self, contexts: Contexts, k: int, mask: LabelMask, *, with_scores: bool
    ) -> tuple[Ints, Floats | None]:
        """Return the columns of the k highest scores among the labels that a mask allows.

        With them come their scores, after the discount of the vote, or None if `with_scores` is
        false.

        Shapes
        ------
        returned : (m, min(k, L)), twice; -1 and NaN where fewer labels are allowed
        """
        return self.ranker.leaders_by_mask(contexts, check_k(k), mask, with_scores=with_scores)

    def certify(self, contexts: Contexts) -> Bools:
        """Return for each context whether its winner is proven to be the exact classifier's."""
        self.check_not_empty()
        if self.reader.is_exact:
            return np.ones(len(contexts), bool)  # it is the exact classifier that answers
        if not isinstance(self.vote, WeightedSum):
            raise TypeError(
                f"The scores of vote={self.vote!r} are not weighted sums of counts, "
                "so a sketch has no certificate for them: "
                "use memory='exact', whose answers are exact with every vote, or vote='sum'."
            )
        _warn_of_unchecked_forgetting(self.reader)
        divisor = self.vote.divisor(self.reader, self.sites)
        cells = self._find_cells(contexts)
        return self.reader.proven(cells, self.sites.weights, divisor, self.winners(contexts))

    def column_contributions(self, contexts: Contexts) -> tuple[Floats, Floats]:
        """Return what each column of a table adds to each score, and the score without any column.

        What a tuple says is divided evenly among its columns, what trees say as
        `Cells.column_shares` has it.

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
        n_labels = len(self.labels)
        values = np.zeros((len(contexts), n_columns, n_labels))
        base = np.zeros((len(contexts), n_labels))
        if isinstance(self.ranker, TreeRanker) and self.ranker.has_tables:
            for piece in row_pieces(len(contexts), n_columns * n_labels):
                values[piece], base[piece] = self.ranker.column_contributions(contexts[piece])
            return values, base
        for piece in row_pieces(len(contexts), self.sites.n * (n_columns + n_labels)):
            terms = self.ranker.site_scores(contexts[piece], np.arange(n_labels))
            values[piece] = self._spread_sites(terms, contexts[piece])
            if terms.base is not None:
                base[piece] = terms.base
        return values, base

    def _spread_sites(self, terms: SiteScores, contexts: Contexts) -> Floats:
        """Return what sites say, divided among the columns that they compare.

        Shapes
        ------
        returned : (m, columns, L)
        """
        sites = terms.parts or self.sites.describe()
        if any(kind for kind, _ in sites):
            raise TypeError(
                "contributions() is for tables: a bag of tokens belongs to no column. "
                "Use explain()."
            )
        site_shares = np.zeros((len(sites), self.sites.h))
        for shares_of_site, (_, positions) in zip(site_shares, sites, strict=True):
            shares_of_site[list(positions)] = 1.0 / len(positions)
        of_positions: Floats = np.einsum("sp,msc->mpc", site_shares, terms.values, optimize=True)
        if self._cells is None:
            return of_positions
        # With cells, a position is a column or a level of a tree, which cuts several columns.
        column_shares = self._cells.column_shares(contexts)
        return np.asarray(np.matmul(column_shares.transpose(0, 2, 1), of_positions))

    def explanation(self, context: Contexts, classes: Array, k: int) -> Explanation:
        """Return why one context got its label, with the k labels of the highest scores.

        `classes` are all labels as the user has them.
        """
        self.check_not_empty()
        leaders = self.leaders(context, max(check_k(k), 2))[0]  # the margin is between two
        columns = leaders[:k]
        scores = self.scores(context)[0]
        probabilities = None
        if self.vote.has_probabilities:
            probabilities = self.vote.probabilities(scores[None])[0][columns]
        margin = None
        if len(leaders) > 1:
            margin = float(scores[leaders[0]] - scores[leaders[1]])
        is_proven = None
        if self.reader.is_exact or (self.reader.has_bounds and isinstance(self.vote, WeightedSum)):
            is_proven = bool(self.certify(context)[0])

        # What each site adds to the scores of these labels.
        terms = self.ranker.site_scores(context, columns)
        has_no_bounds = terms.low is None and terms.errors is None
        if self.reader.is_exact and has_no_bounds:  # of a user's vote
            terms = replace(terms, low=terms.values, high=terms.values)
        base = np.zeros(len(columns))
        if terms.base is not None:
            base = np.atleast_2d(terms.base)[0]
        score_errors = None
        if terms.total_errors is not None:
            score_errors = terms.total_errors[0]

        # Sites of a kind, such as "bag", are many: only those that add something are listed.
        sites = terms.parts or self.sites.describe()
        listed = [
            site for site, (kind, _) in enumerate(sites) if not kind or terms.values[0, site].any()
        ]

        tokens = self._list_tokens(context)
        return Explanation(
            tokens=tuple(token.value for token in tokens),
            seen=tuple(token.is_seen for token in tokens),
            sites=tuple(sites[site][1] for site in listed),
            kinds=tuple(sites[site][0] for site in listed),
            labels=tuple(classes[columns].tolist()),
            scores=np.asarray(scores[columns], np.float64),
            base=base,
            contributions=terms.values[0, listed],
            low=_take_sites(terms.low, listed),
            high=_take_sites(terms.high, listed),
            errors=_take_sites(terms.errors, listed),
            score_errors=score_errors,
            margin=margin,
            certified=is_proven,
            probabilities=probabilities,
        )

    def _list_tokens(self, context: Contexts) -> list[_ComparedToken]:
        """Return the tokens, or cells, at the positions of one context."""
        compared = self._find_cells(context)
        verdicts = self.reader.has_seen(compared.vocabulary).tolist()
        tokens = [
            _ComparedToken(value, _SEEN_OF_VERDICT.get(verdict))
            for value, verdict in zip(compared.vocabulary.tolist(), verdicts, strict=True)
        ]
        tokens.append(_ComparedToken(None, None))  # rank -1, no token, reads the last entry
        return [tokens[rank] for rank in compared.ranks[0]]


class _ComparedToken(NamedTuple):
    value: Token | None
    """None for an empty position."""
    is_seen: bool | None
    """Whether the model has learned it; None where the memory cannot tell."""


_SEEN_OF_VERDICT: Final = {1: True, 0: False}
"""What `Reader.has_seen` says of a token; any other number means that it cannot tell."""


def _take_sites(values: Floats | None, sites: list[int]) -> Floats | None:
    """Return the values of some sites for the first context; None where there are none."""
    if values is None:
        return None
    return values[0, sites]


_warned: WeakSet[Reader] = WeakSet()
"""The readers whose users were warned: a reader is one version of a memory."""


def _warn_of_unchecked_forgetting(reader: Reader) -> None:
    """Warn once for each version of a memory that it may have forgotten what it never learned."""
    if reader.forgot_unchecked and reader not in _warned:
        warnings.warn(
            "This model has forgotten examples without digests, and its memory cannot tell "
            "whether it had learnt them: its certificates hold only if it had learnt every one "
            "of them. Use keep='digests', which refuses to forget what was never learnt.",
            stacklevel=4,
        )
        _warned.add(reader)


def check_probabilities(vote: Vote) -> None:
    """Refuse a vote whose scores are not logarithms of probabilities."""
    if not vote.has_probabilities:
        raise AttributeError(
            f"The scores of vote={vote!r} are not probabilities: "
            "use vote=LogLinear() or vote=Mixture(), or top_k for a ranking."
        )
