r"""The next token of a text, out of its whole vocabulary: perplexity on WikiText-2.

**Protocol.** Whitespace tokens and one ``<eos>`` a line; ``<unk>`` is a type like the others. The
types are those of training, 33,278 of them. Every token of the test is a target, 245,569 in all,
and its context is everything before it: contexts cross lines, and what comes before the test is the
validation text, before that the training text. A model learns training only; what it fits besides,
such as weights, it fits on validation. Perplexity is :math:`\exp(-\frac{1}{n} \sum_i \log p_i)`
with natural logarithms, where the :math:`p_i` of one context sum to one over all types.

Ours fits its weights to training text, each piece left out of the counts: it looks at validation
for nothing.

If a folder has no ``wiki.valid.tokens``, the last tenth of the training lines is validation and is
not learnt, types that only it holds are ``<unk>``, and the results say so.

**Caches.** The share of a token among the last w tokens of the text, for w = 100, 500 and 2,000.
Any model can be mixed with them; the weights are fitted on validation by expectation maximisation
(:func:`mixture_weights`).

`OurMixture` is this library; other models are in ``benchmarks/language`` of the repository.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.kernels import Recent, SiteKernel, Suffixes
from hammemo.memories import Exact
from hammemo.paper.experiments.measuring import ignore_progress, table
from hammemo.paper.experiments.wikitext import line_tokens
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.votes import Mixture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

WINDOWS: Final = (100, 500, 2000)
SKIPS: Final = (-2, -3, (-3, -1), (-3, -2), (-4, -2, -1), (-4, -3, -1))
SAMPLED: Final = 50_000
"""Examples that weights are fitted to; fewer where contexts are long, to bound the memory that they
take.
"""

BEFORE: Final = 3000
"""Tokens of the text before a part that are kept as its context."""


@dataclass(frozen=True, eq=False)
class Text:
    """Training, validation and test text as numbers of types."""

    train: NDArray[np.int64]
    valid: NDArray[np.int64]
    test: NDArray[np.int64]
    types: list[str]
    is_cut: bool
    """Whether validation was cut from training."""

    def stream_of(self, split: str) -> tuple[NDArray[np.int64], int]:
        """Return validation or test text after the end of the text before it, and its start."""
        if split == "valid":
            before = self.train
            targets = self.valid
        else:
            before = self._until_test()
            targets = self.test
        kept = before[-BEFORE:]
        return np.concatenate([kept, targets]), len(kept)

    def _until_test(self) -> NDArray[np.int64]:
        return np.concatenate([self.train[-BEFORE:], self.valid])


def read_text(folder: Path) -> Text:
    """Return the text of a folder with ``wiki.train.tokens`` and ``wiki.test.tokens``.

    It may have ``wiki.valid.tokens``.
    """
    train = _lines(folder / "wiki.train.tokens")
    test = _lines(folder / "wiki.test.tokens")
    path = folder / "wiki.valid.tokens"
    if path.is_file():
        return number_lines(train, _lines(path), test)
    cut = len(train) - len(train) // 10
    return number_lines(train[:cut], train[cut:], test, is_cut=True)


def _lines(path: Path) -> list[list[str]]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: data= takes a folder with wiki.train.tokens and wiki.test.tokens."
        )
    return line_tokens(path.read_text(encoding="utf-8").split("\n")[:-1])


def number_lines(
    train: list[list[str]], valid: list[list[str]], test: list[list[str]], *, is_cut: bool = False
) -> Text:
    """Return lines as numbers.

    A type that training does not hold is ``<unk>``, or an error if there is none.
    """
    numbers: dict[str, int] = {}
    for line in train:
        for token in line:
            numbers.setdefault(token, len(numbers))
    unknown = numbers.get("<unk>")
    texts = []
    for lines in (train, valid, test):
        ids = [numbers.get(token, unknown) for line in lines for token in line]
        if None in ids:
            raise ValueError(
                "A token occurs in no training line, and training has no <unk> to take its place."
            )
        texts.append(np.array(ids, np.int64))
    train_ids, valid_ids, test_ids = texts
    return Text(train_ids, valid_ids, test_ids, types=list(numbers), is_cut=is_cut)


class LanguageModel(ABC):
    """One model under test."""

    name: str
    is_mixed: ClassVar[bool] = True
    """Whether it is measured a second time with caches; not if it has caches of its own."""

    @abstractmethod
    def fit(self, text: Text) -> None:
        """Learn the training part; the validation part may decide settings and weights."""

    @abstractmethod
    def probabilities(self, stream: NDArray[np.int64], start: int) -> NDArray[np.float64]:
        """Return the probability of every token from `start` on, given all tokens before it.

        Shapes
        ------
        stream : (n,); returned : (n - start,)
        """


class OurMixture(LanguageModel):
    """`MemoryClassifier` with the mixture vote over suffixes and skips.

    The suffixes have up to four tokens; there are six skips and, if wanted, caches.

    Parameters
    ----------
    continuation : bool
        Whether continuation counts are read.
    caches : sequence of int
        How many of the last tokens each cache looks at.
    """

    is_mixed = False  # caches are components of the mixture

    def __init__(self, *, continuation: bool = False, caches: Sequence[int] = ()) -> None:
        self.continuation = continuation
        self.caches = tuple(caches)
        self.h = max((4, *caches))
        words = [
            "ours",
            *(["continuation"] if continuation else []),
            *(["caches"] if caches else []),
        ]
        self.name = ", ".join(words)

    def fit(self, text: Text) -> None:
        """Learn the training stream.

        Types that are never a target, if any, are labels all the same.
        """
        kernel = Suffixes(4) + SiteKernel(SKIPS)
        for reach in self.caches:
            kernel = kernel + Recent(reach)
        vote = Mixture(
            continuation=self.continuation, sample=SAMPLED if self.h < 100 else SAMPLED // 3
        )
        self._model = MemoryClassifier(kernel, Exact(), vote)
        self._model.fit_stream(
            [text.train], self.h, classes=np.arange(len(text.types)), short="pad"
        )

    def probabilities(self, stream: NDArray[np.int64], start: int) -> NDArray[np.float64]:
        """Return them by what one token costs: no other label is scored."""
        # nothing precedes the first token
        padded = np.concatenate([np.full(self.h, NO_TOKEN, np.int64), stream])
        return np.exp(-self._model.log_loss_stream(padded[start:], short="drop"))


def all_of_ours() -> list[OurMixture]:
    """Return the three models of the table."""
    return [
        OurMixture(),
        OurMixture(continuation=True),
        OurMixture(continuation=True, caches=WINDOWS),
    ]


def recent_shares(stream: NDArray[np.int64], start: int, window: int) -> NDArray[np.float64]:
    """Return the share of each token, from `start` on, among the `window` tokens before it.

    Where fewer tokens precede, the share is that among those; the first token of a stream has none,
    and share zero.

    Examples
    --------
    >>> import numpy as np
    >>> from .ours import recent_shares
    >>> recent_shares(np.array([7, 8, 7, 7]), 1, window=2).tolist()
    [0.0, 0.5, 0.5]
    """
    n = len(stream)
    places = np.arange(n)
    keys = np.sort(stream * n + places)  # one token's places are neighbours, in order
    keys_of_targets = (stream * n)[start:]
    ends = places[start:]
    starts = np.maximum(ends - window, 0)
    counts = np.searchsorted(keys, keys_of_targets + ends) - np.searchsorted(
        keys, keys_of_targets + starts
    )
    return np.asarray(counts / np.maximum(ends - starts, 1), np.float64)


def mixture_weights(valid: NDArray[np.float64], steps: int = 200) -> NDArray[np.float64]:
    """Return weights, summing to one, that maximise the likelihood of a mixture.

    They are found by expectation maximisation.

    Parameters
    ----------
    valid : ndarray
        The probability of every validation target by every component of the mixture.
    steps : int

    Shapes
    ------
    valid : (components, n); returned : (components,)
    """
    weights = np.full(len(valid), 1 / len(valid))
    for _ in range(steps):
        weighted = weights[:, None] * valid
        weights = (weighted / weighted.sum(axis=0)).mean(axis=1)
    return weights


def perplexity(probabilities: NDArray[np.float64]) -> float:
    """Return the exponential of the mean negative logarithm; infinite if a probability is zero."""
    with np.errstate(divide="ignore"):
        return float(np.exp(-np.log(probabilities).mean()))


def evaluate(text: Text, model: LanguageModel, *, most: int | None = None) -> list[dict[str, Any]]:
    """Fit a model and return its row, and a second one with caches unless it has its own.

    Parameters
    ----------
    text : Text
    model : LanguageModel
    most : int, optional Ask only this many targets of validation and test, the first ones; the rows
        say how many were asked.
    """
    started = time.process_time()
    model.fit(text)
    fitted = time.process_time()
    splits = ("valid", "test") if model.is_mixed else ("test",)
    streams = {split: _first(*text.stream_of(split), most) for split in splits}
    chances = {
        split: model.probabilities(stream, start) for split, (stream, start) in streams.items()
    }
    n_targets = len(chances["test"])
    row = {
        "model": model.name,
        "caches": [],
        "targets": n_targets,
        "perplexity": perplexity(chances["test"]),
        "fit_seconds": fitted - started,
        "targets_per_second": sum(map(len, chances.values())) / (time.process_time() - fitted),
        "weights": [],
    }
    if not model.is_mixed:
        return [row]
    components = {
        split: np.array(
            [chances[split], *(recent_shares(stream, start, window) for window in WINDOWS)]
        )
        for split, (stream, start) in streams.items()
    }
    weights = mixture_weights(components["valid"])
    with_caches = {
        "caches": list(WINDOWS),
        "perplexity": perplexity(weights @ components["test"]),
        "weights": weights.tolist(),
    }
    return [row, row | with_caches]


def _first(
    stream: NDArray[np.int64], start: int, most: int | None
) -> tuple[NDArray[np.int64], int]:
    return (stream if most is None else stream[: start + most]), start


def run(
    folder: Path,
    models: Sequence[LanguageModel] = (),
    *,
    most: int | None = None,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> dict[str, Any]:
    """Return the rows of ours, or of the models given."""
    text = read_text(folder)
    rows: list[dict[str, Any]] = []
    models = models or all_of_ours()
    for done, model in enumerate(models, 1):
        rows += evaluate(text, model, most=most)
        on_progress(done, len(models))
    settings = {"most": most, "caches": list(WINDOWS), "validation_cut_from_training": text.is_cut}
    sizes = {
        "types": len(text.types),
        "train": len(text.train),
        "valid": len(text.valid),
        "test": len(text.test),
    }
    return {"settings": settings, "text": sizes, "table": rows}


def markdown(results: dict[str, Any]) -> str:
    """Return the table as text."""
    sizes = results["text"]
    rows = [
        row
        | {
            "caches": ", ".join(f"{window:,}" for window in row["caches"]) or "none",
            "weights": ", ".join(f"{weight:.3f}" for weight in row["weights"]),
        }
        for row in results["table"]
    ]
    lines = [
        (
            f"{sizes['train']:,} training, {sizes['valid']:,} validation and {sizes['test']:,} "
            f"test tokens; {sizes['types']:,} types."
        ),
        "",
        *table(
            rows,
            "model | caches | targets | perplexity | fit (s) | targets a second | weights: "
            "model, caches",
            "{model} | {caches} | {targets:,} | {perplexity:.1f} | {fit_seconds:.1f} | "
            "{targets_per_second:~} | {weights}",
        ),
    ]
    if results["settings"]["validation_cut_from_training"]:
        lines.insert(
            1, "There is no wiki.valid.tokens: the last tenth of the training lines is validation."
        )
    return "\n".join(lines) + "\n"
