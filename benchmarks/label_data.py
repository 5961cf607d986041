"""Data of the benchmarks of many labels.

They are a text whose tokens are the labels, the two readers, and a plain rival.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from hammemo import MemoryClassifier
from hammemo.estimators.predictor import Predictor
from hammemo.kernels import PositionalHamming, Suffixes
from hammemo.memories import Exact
from hammemo.memories.exact import Live, SignedSum, SparseCounts
from hammemo.paper.experiments.measuring import zipf_stream
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.questions import QuestionForm
from hammemo.votes import LogLinear, Mean, Sum, Vote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hammemo.kernels import SiteKernel
    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Compiled
    from hammemo.paper.experiments.wikitext import Task

H = 8
KERNELS: dict[str, SiteKernel] = {"positions": PositionalHamming(), "Suffixes(5)": Suffixes(5)}
VOTES: dict[str, Vote] = {
    "sum": Sum(),
    "mean": Mean(),
    "log-linear, shared weights": LogLinear(per_label=False, sample=200, steps=10),
    "log-linear, weights a label": LogLinear(sample=200, steps=10),
}
"""Fitted to few examples: how fast answers are found, and that they are equal, does not depend on
good weights.
"""
RACED = ("sum", "log-linear, shared weights")


@dataclass(frozen=True, eq=False)
class LabelledText:
    """Examples to learn and questions to ask, as numbers of tokens, and the name of each number.

    Shapes
    ------
    X : (n, 8); y : (n,); queries : (m, 8); observed : (m,); names : (numbers,)
    """

    X: NDArray[Any]
    y: NDArray[Any]
    queries: NDArray[Any]
    observed: NDArray[Any]
    names: NDArray[Any]

    @classmethod
    def of(
        cls,
        task: Task,
        n_train: int | None = None,
        n_queries: int | None = None,
        *,
        targets: bool = False,
    ) -> LabelledText:
        """Return the positions of the paper's task.

        They are all of the training text, and those of the test text.

        With `targets` the questions are those that the paper's task asks: positions whose token is
        a candidate.
        """
        chosen = (
            task.candidate_positions("test") if targets else np.arange(len(task.tokens["test"]))
        )
        if n_queries is not None and n_queries < len(chosen):
            chosen = np.random.default_rng(0).choice(chosen, n_queries, replace=False)
        X = task.contexts["train"][:n_train, -H:]
        y = task.tokens["train"][:n_train]
        queries = task.contexts["test"][chosen, -H:]
        observed = task.tokens["test"][chosen]
        highest = max(int(part.max(initial=-1)) for part in (X, y, queries, observed))
        # in no training text
        late = [f"<late {number}>" for number in range(len(task.vocabulary), highest + 1)]
        names = np.array([*task.vocabulary, *late], object)
        return cls(X, y, queries, observed, names=names)

    @classmethod
    def draw(cls, n_train: int, n_queries: int, n_tokens: int = 33_278) -> LabelledText:
        """Return examples with the token frequencies of text, where no text is at hand."""
        stream = zipf_stream(n_train + n_queries + H, n_tokens)
        X = np.lib.stride_tricks.sliding_window_view(stream, H)[:-1]
        y = stream[H:]
        names = np.array([f"w{number}" for number in range(n_tokens)], object)
        return cls(X[:n_train], y[:n_train], X[n_train:], y[n_train:], names=names)

    def fit_model(self, kernel: str, vote: str = "sum") -> MemoryClassifier:
        """Return the exact model of the examples, with strings as tokens and labels."""
        model = MemoryClassifier(clone(KERNELS[kernel]), Exact(), vote=clone(VOTES[vote]))
        return model.fit(self.names[self.X], self.names[self.y])

    def late_examples(self) -> list[tuple[list[str], str]]:
        """Return the questions and what was observed there, to be learnt later."""
        return [
            *zip(self.names[self.queries].tolist(), self.names[self.observed].tolist(), strict=True)
        ]

    def contexts(self, n: int | None = None) -> Contexts:
        """Return the first questions, tokens numbered."""
        return Contexts.of(self.names[self.queries[:n]])

    def fit_vote(self, vote: Vote, reader: Compiled, sites: Sites) -> Vote:
        """Return the vote, fitted to the first examples where it has weights."""
        fitted: Vote = clone(vote)
        n = min(fitted.sample_size(), len(self.X))
        fitted.fit_to(reader, Examples.of(self.names[self.X[:n]], self.names[self.y[:n]]), sites)
        return fitted


@dataclass(frozen=True, eq=False)
class TwoReaders:
    """The same counts twice: the live table and the dense path."""

    model: MemoryClassifier
    live: Live
    reader: Compiled
    dense: SparseCounts

    @classmethod
    def of(cls, model: MemoryClassifier) -> TwoReaders:
        """Return both readers of what a model holds."""
        memory = model.memory_
        assert isinstance(memory, Exact)
        reader = memory.compile()
        table = memory.table()
        live = reader.rows.live_table() if isinstance(reader, SparseCounts) else None
        assert live is not None
        return cls(
            model,
            live,
            reader,
            SparseCounts(SignedSum.from_table(table), memory.declared, static=True),
        )

    def predictor(self, reader: Compiled, vote: Vote) -> Predictor:
        """Return what answers from one of the readers."""
        form = QuestionForm(self.model.state.columns, self.model.missing)
        return Predictor(
            reader, self.model.label_dtype_, self.model.sites_, vote, form=form
        ).prepare()


class Counters:
    """A dictionary of counters, as one writes it without a library.

    Only rows that some queries read are kept.
    """

    def __init__(self, sites: Sites, queries: Sequence[Sequence[Any]]) -> None:
        self._sites = [*zip(sites.positions, sites.weights.tolist(), strict=True)]
        self._labels: Counter[Any] = Counter()
        self._rows: dict[Any, Counter[Any]] = {
            key: Counter() for query in queries for key in self._keys(query)
        }

    def _keys(self, tokens: Sequence[Any]) -> Iterator[Any]:
        for site, (positions, _) in enumerate(self._sites):
            yield (site, *(tokens[position] for position in positions))

    def change(self, tokens: Sequence[Any], label: Any, by: int) -> None:
        """Count an example, or take it back."""
        rows = (self._rows[key] for key in self._keys(tokens) if key in self._rows)
        for counter in (self._labels, *rows):
            counter[label] += by
            if not counter[label]:
                del counter[label]

    def answer(self, tokens: Sequence[Any]) -> Any:
        """Return the label with the largest weighted sum, the first one among equals."""
        totals: dict[Any, float] = {}
        for (_, weight), key in zip(self._sites, self._keys(tokens), strict=True):
            for label, count in self._rows[key].items():
                totals[label] = totals.get(label, 0.0) + weight * count
        best = max(totals.values(), default=0.0)
        return min(
            (label for label, total in totals.items() if total == best) if totals else self._labels
        )
