r"""The paper's real-data evaluation: prediction of the 64 most frequent tokens of WikiText-2.

**Task.** Whitespace tokens and one ``<eos>`` a line. Candidates are the 64 most frequent training
tokens without ``<unk>``; a position is eligible if at least 16 tokens precede it on its line.
100,000 training, 2,000 validation and 5,000 test positions are drawn among the eligible ones whose
token is a candidate, the same for every context length.

**Sampling error.** The paper's sample is one draw with an unknown seed. Here the draw of positions
is repeated, with new codebooks each time; a figure of the paper is compared with our mean over
draws, in units of the standard error of their difference, :math:`s \sqrt{1 + 1/n}` for a standard
deviation s over n draws.

**The whole vocabulary.** `whole_vocabulary` measures the paper's model at the size it is defined
for: every token is a candidate. The exact classifier and MeMo learn all eligible training positions
of WikiText-2 (h = 8, 33,278 labels); test positions are drawn without regard to their token. It
reports the agreement with the exact winner where that is unique, top-1, top-5, the size of the
state, and the seconds to learn and to answer.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score

from hammemo._lazy import explain_missing
from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.kernels import SiteOneHot
from hammemo.memories import Exact
from hammemo.paper.baselines import HammingNeighbors, SuffixBackoff
from hammemo.paper.experiments.measuring import (
    OnProgress,
    Row,
    averages,
    generator,
    ignore_progress,
    in_parallel,
    seconds,
)
from hammemo.paper.memo import MeMoClassifier
from hammemo.tokens.contexts import windows
from hammemo.tokens.hashing import key_words
from hammemo.tokens.labels import top_columns

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Ints

SPLITS = ("train", "valid", "test")
LONGEST = 16
_H = 8
"""The context length of the paper's tables."""
N_TARGETS = 64
MEASURES = ("top1", "top5", "macro_f1", "agreement")
NEIGHBOURS = (1, 5, 25)
SVM_GRID = tuple(
    {"alpha": alpha, "average": average}
    for alpha in (1e-6, 1e-5, 1e-4)
    for average in (False, True)
)
HUB = "hf://datasets/Salesforce/wikitext/wikitext-2-v1"
_FOLDER = "a folder with wiki.train.tokens, .valid and .test"
_HUB_NAMES = {"train": "train", "valid": "validation", "test": "test"}

PAPER = {
    "sum prototype": (22.30, 53.44, 3.36, 100.00),
    "mean prototype": (9.84, 29.58, 6.68, 9.87),
    "suffix backoff": (31.96, 63.32, 19.15, 37.60),
    "linear SVM": (34.28, 60.96, 18.80, 38.06),
    "Hamming k-NN": (25.66, 55.62, 9.01, 53.54),
    "MeMo, d = 128": (16.35, 40.48, 2.63, 47.22),
    "MeMo, d = 256": (18.76, 46.35, 2.94, 54.70),
    "MeMo, d = 512": (20.18, 48.66, 3.23, 63.46),
    "MeMo, d = 1024": (21.50, 50.99, 3.30, 72.79),
}
"""The paper's table for h = 8: top-1, top-5, macro-F1 and agreement, in percent."""

VARIANTS = {
    "suffix backoff, ties by shorter suffixes": "suffix backoff",
    "Hamming k-NN, ties by similarity": "Hamming k-NN",
}
"""Two methods of the table under our tie rules.

The paper does not state its own; ties by overall frequency come closer to its figures.
"""

Lines = dict[str, list[list[str]]]


@dataclass(frozen=True)
class TaskSettings:
    """What determines the results."""

    seed: int = 20270
    draws: int = 5
    codebooks: int = 5
    dimensions: tuple[int, ...] = (128, 256, 512, 1024)
    context_lengths: tuple[int, ...] = (4, 8, 16)
    sizes: tuple[int, int, int] = (100_000, 2_000, 5_000)

    @classmethod
    def quick(cls, seed: int = 20270) -> TaskSettings:
        """Return settings for a look within two minutes, not for conclusions."""
        return cls(
            seed,
            draws=2,
            codebooks=2,
            dimensions=(128, 256),
            context_lengths=(8,),
            sizes=(20_000, 500, 1_000),
        )


def read_folder(folder: Path) -> Lines:
    """Return the tokens of the lines of ``wiki.{train,valid,test}.tokens``, with ``<eos>``."""
    lines = {}
    for split in SPLITS:
        path = folder / f"wiki.{split}.tokens"
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing: data= takes {_FOLDER}.")
        lines[split] = line_tokens(path.read_text(encoding="utf-8").split("\n")[:-1])
    return lines


def read_hub(base: str = HUB) -> Lines:
    """Return the same from Parquet files of the Hugging Face hub, or of an address for fsspec."""
    hub = (
        "Without data= the text comes from the Hugging Face hub: "
        "pip install fsspec huggingface-hub pyarrow."
    )
    with explain_missing(f"{hub} Or data= names {_FOLDER}."):
        import fsspec
        from pyarrow import parquet
    lines = {}
    for split in SPLITS:
        place = f"{base}/{_HUB_NAMES[split]}-00000-of-00001.parquet"
        try:
            with fsspec.open(place) as file:
                lines[split] = line_tokens(
                    parquet.read_table(file, columns=["text"])["text"].to_pylist()
                )
        except Exception as error:  # every client of a hub has exceptions of its own
            raise OSError(
                f"Without data= the text comes from {place}, which cannot be read "
                f"({type(error).__name__}: {str(error).rstrip('.')}). Or data= names {_FOLDER}."
            ) from error
    return lines


def line_tokens(texts: list[str]) -> list[list[str]]:
    """Return the tokens of every line, each line with its ``<eos>``."""
    return [[*text.split(), "<eos>"] for text in texts]


@dataclass(frozen=True, eq=False)
class Task:
    """All eligible positions: the 16 ids before each, and the id there.

    Tokens that the training part does not have get ids beyond its vocabulary.
    """

    vocabulary: list[str]
    targets: Ints
    contexts: dict[str, NDArray[np.int32]]
    tokens: dict[str, NDArray[np.int32]]

    def candidate_positions(self, split: str) -> Ints:
        """Return the eligible positions whose token is a candidate."""
        return np.flatnonzero(np.isin(self.tokens[split], self.targets))

    def coverage(self) -> dict[str, dict[str, float]]:
        """Return for each split its eligible positions, and how many (%) have a candidate."""
        shares = {}
        for split in SPLITS:
            eligible = len(self.tokens[split])
            covered = len(self.candidate_positions(split))
            shares[split] = {
                "eligible": eligible,
                "covered": covered,
                "percent": round(100 * covered / eligible, 2),
            }
        return shares


def build_task(lines: Lines) -> Task:
    """Return the task: tokens numbered, every line cut into contexts of 16."""
    frequency = Counter(token for line in lines["train"] for token in line)
    vocabulary = sorted(frequency)
    ids = {token: i for i, token in enumerate(vocabulary)}
    known_tokens = [token for token in frequency if token != "<unk>"]
    ranked = sorted(known_tokens, key=lambda token: (-frequency[token], token))
    contexts = {}
    tokens = {}
    for split in SPLITS:
        for line in lines[split]:
            for token in line:
                ids.setdefault(token, len(ids))
        documents = [
            np.fromiter(map(ids.__getitem__, line), np.int32, len(line)) for line in lines[split]
        ]
        contexts[split], tokens[split] = windows(documents, LONGEST)
    targets = np.array(sorted(ids[token] for token in ranked[:N_TARGETS]))
    return Task(vocabulary, targets, contexts, tokens)


@dataclass(frozen=True, eq=False)
class TaskSample:
    """One draw of positions: contexts of 16 tokens and labels, by split."""

    contexts: dict[str, NDArray[np.int32]]
    labels: dict[str, NDArray[np.int32]]

    def split(self, name: str, h: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return contexts of the last h tokens, and their labels."""
        return self.contexts[name][:, LONGEST - h :], self.labels[name]


def draw_sample(task: Task, settings: TaskSettings, draw: int) -> TaskSample:
    """Draw positions without replacement, the same for every context length."""
    rng = generator(settings.seed, "wikitext", draw)
    contexts = {}
    labels = {}
    for split, size in zip(SPLITS, settings.sizes, strict=True):
        positions = rng.choice(task.candidate_positions(split), size, replace=False)
        contexts[split] = task.contexts[split][positions]
        labels[split] = task.tokens[split][positions]
    return TaskSample(contexts, labels)


@dataclass(frozen=True, eq=False)
class Judge:
    """Measures rankings of labels by the observed token and by the exact classifier's winner."""

    observed: Array
    winners: Array
    unambiguous: Bools
    candidates: Array

    @classmethod
    def from_exact(cls, exact: MemoryClassifier, X: Array, y: Array) -> Judge:
        """Ask the exact classifier for its winners, and where they are unique."""
        winners = []
        unambiguous = []
        # all scores of a whole vocabulary of labels would take gigabytes
        for start in range(0, len(X), 500):
            scores = exact.class_scores(X[start : start + 500])
            best = np.partition(scores, -2, axis=1)[:, -2:]
            winners.append(scores.argmax(axis=1))
            unambiguous.append(best[:, 1] > best[:, 0])
        return cls(
            observed=y,
            winners=exact.classes_[np.concatenate(winners)],
            unambiguous=np.concatenate(unambiguous),
            candidates=exact.classes_,
        )

    def measures(self, ranking: Array) -> dict[str, float]:
        """Return the paper's four measures of a ranking of five labels a query, in percent."""
        first = ranking[:, 0]
        macro = f1_score(
            self.observed, first, labels=self.candidates, average="macro", zero_division=0
        )
        shares = {
            "top1": (first == self.observed).mean(),
            "top5": (ranking == self.observed[:, None]).any(axis=1).mean(),
            "macro_f1": macro,
            "agreement": (first == self.winners)[self.unambiguous].mean(),
        }
        return {name: 100 * float(share) for name, share in shares.items()}


def evaluate(sample: TaskSample, settings: TaskSettings, draw: int, h: int) -> Row:
    """Return the measures of every method on one draw and h, and what validation chose."""
    X, y = sample.split("train", h)
    queries, observed = sample.split("test", h)
    exact = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    judge = Judge.from_exact(exact, queries, observed)
    models: dict[str, MemoryClassifier | SuffixBackoff] = {
        "sum prototype": exact,
        "mean prototype": MemoryClassifier("positional", memory=Exact(), vote="mean").fit(X, y),
        "suffix backoff": SuffixBackoff(5, ties="frequency").fit(X, y),
    }
    rows = {name: judge.measures(model.top_k(queries, 5)) for name, model in models.items()}
    ranking, svm = linear_svm(sample, h)
    rows["linear SVM"] = judge.measures(ranking)
    neighbours = choose_neighbours(sample, h)
    rows["Hamming k-NN"] = judge.measures(neighbours.top_k(queries, 5))
    variants = (SuffixBackoff(5), HammingNeighbors(neighbours.n_neighbors))
    for name, variant in zip(VARIANTS, variants, strict=True):
        rows[name] = judge.measures(variant.fit(X, y).top_k(queries, 5))
    for d in settings.dimensions:
        by_codebook = []
        for i in range(settings.codebooks):
            seed = key_words(settings.seed, "codebook", draw, h, d, i)[0]
            memo = MeMoClassifier(d, random_state=seed).fit(X, y)
            by_codebook.append(judge.measures(memo.compile().top_k(queries, 5)))
        rows[f"MeMo, d = {d}"] = _mean_over_codebooks(by_codebook)
    return {
        "draw": draw,
        "h": h,
        "unambiguous": 100 * float(judge.unambiguous.mean()),
        "neighbours": neighbours.n_neighbors,
        "svm": svm,
        "rows": rows,
    }


def _mean_over_codebooks(by_codebook: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each measure, then the standard deviations (``…_sd``)."""
    values = {name: [measures[name] for measures in by_codebook] for name in MEASURES}
    means = {name: float(np.mean(values[name])) for name in MEASURES}
    spreads = {f"{name}_sd": float(np.std(values[name], ddof=1)) for name in MEASURES}
    return means | spreads


def linear_svm(sample: TaskSample, h: int) -> tuple[Array, Row]:
    """Return the test ranking of the best linear SVM on validation, and its parameters."""
    X, y = sample.split("train", h)
    encoder = SiteOneHot().fit(X)
    features = encoder.transform(X)
    valid_contexts, valid_labels = sample.split("valid", h)
    valid_features = encoder.transform(valid_contexts)
    svms = [
        SGDClassifier(loss="hinge", random_state=0, **grid).fit(features, y) for grid in SVM_GRID
    ]
    scores = [float(svm.score(valid_features, valid_labels)) for svm in svms]
    best = int(np.argmax(scores))  # the first among equals
    queries, _ = sample.split("test", h)
    decisions = svms[best].decision_function(encoder.transform(queries))
    return svms[best].classes_[top_columns(decisions, 5)], SVM_GRID[best]


def choose_neighbours(sample: TaskSample, h: int) -> HammingNeighbors:
    """Return the k-NN classifier whose k is best on validation, the smallest among equals."""
    X, y = sample.split("train", h)
    valid_contexts, valid_labels = sample.split("valid", h)
    models = [HammingNeighbors(k, ties="frequency").fit(X, y) for k in NEIGHBOURS]
    return max(
        models, key=lambda model: float((model.predict(valid_contexts) == valid_labels).mean())
    )


def run(
    task: Task, settings: TaskSettings, jobs: int = 2, on_progress: OnProgress = ignore_progress
) -> list[Row]:
    """Return `evaluate` of every draw and context length, computed on several cores."""
    samples = [draw_sample(task, settings, draw) for draw in range(settings.draws)]
    arguments = [
        (samples[draw], settings, draw, h)
        for h in sorted(settings.context_lengths, reverse=True)  # the longest first
        for draw in range(settings.draws)
    ]
    outcomes = in_parallel(evaluate, arguments, jobs, on_progress)
    return sorted(outcomes, key=lambda outcome: (outcome["h"], outcome["draw"]))


def summary(task: Task, settings: TaskSettings, outcomes: list[Row]) -> Row:
    """Return all figures as plain numbers: per draw, over draws, and beside the paper's.

    Beside the paper's only where samples are as large as its own.
    """
    has_paper_sizes = settings.sizes == TaskSettings.sizes
    methods = outcomes[0]["rows"]
    table = []
    for h in settings.context_lengths:
        of_length = [outcome["rows"] for outcome in outcomes if outcome["h"] == h]
        for method in methods:
            rows = [rows_of_draw[method] for rows_of_draw in of_length]
            table.append(_over_draws(h, method, rows, beside_paper=has_paper_sizes))
    return {
        "settings": asdict(settings),
        "task": {"types": len(task.vocabulary), "coverage": task.coverage()},
        "table": table,
        "draws": outcomes,
    }


def _over_draws(h: int, method: str, rows: list[dict[str, float]], *, beside_paper: bool) -> Row:
    row: Row = {"h": h, "method": method}
    paper = None
    if beside_paper and h == _H:
        paper = PAPER.get(VARIANTS.get(method, method))
    for i, name in enumerate(MEASURES):
        row.update(averages(rows, [name]))
        if f"{name}_sd" in rows[0]:
            row[f"{name}_codebook_sd"] = float(np.mean([entry[f"{name}_sd"] for entry in rows]))
        if paper is not None:
            error = row[f"{name}_sd"] * np.sqrt(1 + 1 / len(rows))
            row[f"{name}_paper"] = paper[i]
            distance = row[name] - paper[i]
            row[f"{name}_apart"] = float(distance / error) if error > 0 else 0.0
    return row


def whole_vocabulary(
    task: Task,
    dimensions: tuple[int, ...] = (1024, 4096),
    *,
    n_train: int | None = None,
    n_test: int = 5000,
    seed: int = 20270,
    on_progress: OnProgress = ignore_progress,
) -> list[Row]:
    """Return one row for the exact classifier and one for each dimension of MeMo."""
    rng = generator(seed, "full vocabulary")
    X = task.contexts["train"][:n_train, LONGEST - _H :]
    y = task.tokens["train"][:n_train]
    places = rng.choice(len(task.tokens["test"]), n_test, replace=False)
    queries = task.contexts["test"][places, LONGEST - _H :]
    observed = task.tokens["test"][places]
    models: dict[str, MemoryClassifier] = {
        "exact": MemoryClassifier("positional", memory=Exact(), vote="sum")
    }
    for d in dimensions:
        models[f"MeMo, d = {d}"] = MeMoClassifier(d, random_state=seed)
    classes = np.arange(len(task.vocabulary))
    rows: list[Row] = []
    judge: Judge | None = None
    for name, model in models.items():
        learn_seconds = seconds(model.partial_fit, X, y, classes, clock=time.perf_counter)
        if judge is None:  # the exact classifier comes first
            judge = Judge.from_exact(model, queries, observed)
        started = time.perf_counter()
        ranking = model.top_k(queries, 5)
        answer_seconds = time.perf_counter() - started
        measures = judge.measures(ranking)
        rows.append(
            {
                "method": name,
                "labels": len(model.classes_),
                "examples": len(y),
                "queries": n_test,
                "agreement": measures["agreement"],
                "top1": measures["top1"],
                "top5": measures["top5"],
                "state_mebibytes": _state_bytes(model) / 2**20,
                "learn_seconds": learn_seconds,
                "answer_seconds": answer_seconds,
                "unambiguous": 100 * float(judge.unambiguous.mean()),
            }
        )
        on_progress(len(rows), len(models))
    return rows


def _state_bytes(model: MemoryClassifier) -> int:
    """Return what answering needs: the canonical counts, or projected codes, C and Z (float32)."""
    if not isinstance(model, MeMoClassifier):
        return model.memory_.nbytes
    codes = model.memory_.codes
    n_numbers = (
        len(model.memory_.input_codes.rows) * codes.d_h
        + model.memory_.C.size
        + len(model.classes_) * codes.d
    )
    return int(4 * n_numbers)
