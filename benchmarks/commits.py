"""Is a commit slower than another? Two installed versions of hammemo, measured in turns in one run.

    python benchmarks/commits.py --before old/bin/python --after new/bin/python
    python benchmarks/commits.py --before … --after … --data ../shared/wikitext-2 --rounds 9
    python benchmarks/commits.py --before … --after … --only "Hashed.*predict"
    python benchmarks/commits.py --before … --after … --only "^start|load"

Each interpreter belongs to an environment with one version installed. One process of each stays
alive and measures when it is asked to: before, after, after, before, … for every measurement, so
that whatever else the machine does falls on both. Only public names that both versions have are
used. Predict, edit, fit and load (with one question) are measured for every model; start is a fresh
interpreter that imports hammemo, imports the classifier, or prints the help.

The figure is a rate (rows, tokens or calls a second), and the ratio is that of the version after to
the version before: 1 is equal, below 1 is slower. "median" is the median of the rounds' ratios,
"best" the ratio of the best rates. A median below 0.95 is marked. One thread; the time is the
processor's, which other work on the machine disturbs least (`--clock wall` takes the clock on the
wall). On a busy machine two processes of one version differ by a tenth and more even so: compare a
version with itself, and take more rounds, before you believe a mark.

The data are Zipf tokens (33,278 types, contexts of 8) with a fixed seed, or the text of WikiText-2
with `--data`. Both versions must also give the same states and answers for them; the last line says
whether they do.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hammemo import MemoryClassifier

H: Final = 8
"""The length of contexts."""
N_TOKENS: Final = 33_278
"""Types of the Zipf tokens: as many as WikiText-2 has."""

N_EXAMPLES: Final = 20_000
N_QUERIES: Final = 5_000
N_SINGLE: Final = 500
"""Queries that are asked one by one."""

N_STREAM: Final = 60_000
"""Tokens of the stream."""

MARKED_BELOW: Final = 0.95
"""A median below it is marked: two processes of one version often differ by less."""

CLOCKS: Final = {"cpu": time.process_time, "wall": time.perf_counter}

MEMORIES_AND_VOTES: Final = (
    ("Exact", "sum"),
    ("Hashed", "sum"),
    ("Gaussian", "sum"),
    ("Gaussian exact", "sum"),
    ("Exact digests", "sum"),
    ("Hashed digests", "sum"),
    ("Tiered", "sum"),
    ("Hashed suffixes", "sum"),
    ("Exact", "log-linear"),
    ("Hashed", "log-linear"),
)
MODELS: Final = [
    (memory, vote, n_labels) for n_labels in (64, 1024) for memory, vote in MEMORIES_AND_VOTES
]
QUESTIONS: Final = (
    "predict, ints",
    "predict, strings",
    "one query, ints",
    "one query, strings",
    "fit",
    "fit_stream",
    "edits",
    "load",
)
"""What a process can be asked to measure of a model; "edits" gives five figures."""
STARTS: Final = {
    "import hammemo": ["-c", "import hammemo"],
    "import MemoryClassifier": ["-c", "from hammemo import MemoryClassifier"],
    "hammemo --help": ["-m", "hammemo", "--help"],  # needs the extra cli
}


# The process of one version.


def new_model(memory: str, vote: str) -> MemoryClassifier:
    """Return an empty model of the installed version."""
    from hammemo import MemoryClassifier
    from hammemo.kernels import PositionalHamming, Suffixes
    from hammemo.memories import Exact, Gaussian, Hashed, Tiered
    from hammemo.votes import LogLinear

    hashed = Hashed(buckets=2048, reserved=1024)
    memories = {
        "Exact": Exact(),
        "Hashed": hashed,
        "Hashed suffixes": hashed,
        "Gaussian": Gaussian(d=128),
        "Gaussian exact": Gaussian(d=128, exact=True),
        "Exact digests": Exact(),
        "Hashed digests": hashed,
        "Tiered": Tiered(hashed),
    }
    fitted_vote: Any = vote
    if vote == "log-linear":
        # few rows and steps: else almost all of `fit` would be its optimizer
        fitted_vote = LogLinear(sample=1000, steps=10)
    kernel = Suffixes(5) if memory.endswith("suffixes") else PositionalHamming()
    keep = "digests" if memory.endswith("digests") else "auto"
    return MemoryClassifier(kernel, memories[memory], fitted_vote, keep=keep)


@dataclass
class LabelledTokens:
    """A task: predict the token after a context. The first `N_QUERIES` rows are the queries."""

    X: NDArray[np.int64]
    """Contexts as numbers of tokens, 0 for the most frequent one."""
    words: NDArray[Any]
    """The same contexts as strings."""
    y: NDArray[np.int64]
    """The token after each context."""
    stream: NDArray[np.int64]
    classes: NDArray[np.int64]


@cache
def make_task(n_labels: int, data: str | None) -> LabelledTokens:
    """Return a task whose labels are the `n_labels` most frequent tokens."""
    rng = np.random.default_rng(n_labels)
    if data is None:
        # Zipf's law: the k-th most frequent token has a mass of 1 / k
        mass = np.cumsum(1 / np.arange(1, N_TOKENS + 1))
        tokens = np.searchsorted(mass, rng.random(10 * N_EXAMPLES) * mass[-1]).astype(np.int64)
        words = np.array([f"word{token}" for token in range(N_TOKENS)])
    else:
        text = Path(data, "wiki.train.tokens").read_text(encoding="utf-8").split()
        by_frequency = [word for word, _ in Counter(text).most_common()]
        rank = {word: number for number, word in enumerate(by_frequency)}
        tokens = np.array([rank[word] for word in text], np.int64)
        words = np.array(by_frequency)
    places = np.flatnonzero(tokens[H:] < n_labels)
    places = rng.choice(places, N_EXAMPLES, replace=False)
    X = np.lib.stride_tricks.sliding_window_view(tokens, H)[places]
    y = tokens[places + H]
    return LabelledTokens(
        X=X, words=words[X], y=y, stream=tokens[:N_STREAM], classes=np.arange(n_labels)
    )


class FittedModel:
    """One model of one version, ready to be measured."""

    def __init__(self, memory: str, vote: str, n_labels: int, data: str | None, clock: str) -> None:
        import hammemo

        self.memory = memory
        self.vote = vote
        self.task = make_task(n_labels, data)
        self.clock = CLOCKS[clock]
        self.model = new_model(self.memory, self.vote).fit(self.task.X, self.task.y)
        self.predictor = self.model.compile()
        self.strings_model = new_model(self.memory, self.vote).fit(self.task.words, self.task.y)
        self.strings_predictor = self.strings_model.compile()
        self.n_edits = 0
        self.folder = TemporaryDirectory()
        self.file = Path(self.folder.name, "model")
        hammemo.save(self.model, self.file)

    def facts(self) -> dict[str, str]:
        """Return digests of the states and of the answers, which no version may change."""
        state = self.model.memory_.state_bytes() + self.strings_model.memory_.state_bytes()
        answers = np.concatenate(
            [
                self.predictor.predict(self.task.X[:N_QUERIES]),
                self.strings_predictor.predict(self.task.words[:N_QUERIES]),
            ]
        )
        return {
            "state": _digest(state),
            "answers": _digest(answers.astype("<i8").tobytes()),
        }

    def measure(self, question: str, seconds: float) -> dict[str, float]:
        """Measure for about this many seconds; return the rate of each figure."""
        if question == "edits":
            return self._measure_edits(seconds)
        task = self.task
        contexts: NDArray[Any] = task.X
        predictor = self.predictor
        if question.endswith("strings"):
            contexts = task.words
            predictor = self.strings_predictor
        queries = contexts[:N_QUERIES]
        singles = contexts[:N_SINGLE].tolist()
        streamed = new_model(self.memory, self.vote)  # each fit_stream starts it again

        def fit() -> Any:
            return new_model(self.memory, self.vote).fit(task.X, task.y)

        actions: dict[str, tuple[Callable[[], Any], int]] = {
            "predict": (lambda: predictor.predict(queries), N_QUERIES),
            "one query": (lambda: [predictor(context) for context in singles], N_SINGLE),
            "load": (self._load_and_ask, 1),
            "fit": (fit, N_EXAMPLES),
            "fit_stream": (
                lambda: streamed.fit_stream(task.stream, H, classes=task.classes),
                N_STREAM,
            ),
        }
        action, n_units = actions[question.partition(", ")[0]]
        return {question: self._measure_rate(action, n_units, seconds)}

    def _load_and_ask(self) -> Any:
        """Load the file and ask one question, so that nothing is put off."""
        import hammemo

        return hammemo.load(self.file).predict(self.task.X[:1])

    def _measure_rate(self, action: Callable[[], Any], n_units: int, seconds: float) -> float:
        """Return units a second of the fastest call."""
        best = float("inf")
        spent = 0.0
        while spent < seconds:
            start = self.clock()
            action()
            elapsed = self.clock() - start
            best = min(best, elapsed)
            spent += max(elapsed, 1e-6)  # a clock may stand still for one call
        return n_units / best

    def _measure_edits(self, seconds: float) -> dict[str, float]:
        """Learn a row and forget it, by batches of one row and by single rows.

        So the state stays. Each batch is followed by a question, which pays for what an edit puts
        off.
        """
        model = self.model
        task = self.task
        spent = 0.0
        times: dict[str, list[float]] = {}
        while spent < seconds or len(times["forget"]) < 3:
            place = self.n_edits % N_EXAMPLES
            self.n_edits += 1
            X = task.X[place : place + 1]
            y = np.roll(task.y, 1)[place : place + 1]
            row = X[0].tolist()
            label = int(y[0])
            for name, action in (
                ("partial_fit", partial(model.partial_fit, X, y)),
                ("predict after an edit", partial(model.predict, X)),
                ("forget", partial(model.forget, X, y)),
                ("predict after an edit", partial(model.predict, X)),
                ("learn_one", partial(model.learn_one, row, label)),
                ("forget_one", partial(model.forget_one, row, label)),
            ):
                start = self.clock()
                action()
                elapsed = self.clock() - start
                times.setdefault(name, []).append(elapsed)
                spent += elapsed
        return {name: 1 / median(values) for name, values in times.items()}


def measure_start(question: str, clock: str) -> dict[str, float]:
    """Return fresh interpreters a second: the better of two.

    Processor time is that of the child.
    """
    best = float("inf")
    for _ in range(2):
        times_before = os.times()
        wall_start = time.perf_counter()
        command = [sys.executable, *STARTS[question]]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode != 0:
            raise RuntimeError(process.stderr.strip().splitlines()[-1])
        times_after = os.times()
        wall = time.perf_counter() - wall_start
        user = times_after.children_user - times_before.children_user
        system = times_after.children_system - times_before.children_system
        best = min(best, wall if clock == "wall" else user + system)
    return {question: 1 / best}


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def serve(data: str | None, clock: str) -> None:
    """Answer requests, one JSON object a line, until the pipe is closed."""
    import hammemo

    print(json.dumps({"from": os.path.dirname(hammemo.__file__)}), flush=True)
    measured: FittedModel | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "model" in request:
                measured = None  # the memory of the last one is freed first
                memory, vote, n_labels = request["model"]
                measured = FittedModel(memory, vote, n_labels, data, clock=clock)
                answer: dict[str, Any] = measured.facts()
            elif request["question"] in STARTS:
                answer = measure_start(request["question"], clock)
            else:
                assert measured is not None
                answer = measured.measure(request["question"], request["seconds"])
        except Exception as error:  # the other measurements are still worth having
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


# The process that asks.


@dataclass(frozen=True)
class Measuring:
    """How figures are measured."""

    rounds: int
    seconds: float
    """The least time of one measurement."""
    only: re.Pattern[str]
    """What the name of a model and a question must match, as "model: question"."""


class Version:
    """One version's process."""

    def __init__(self, name: str, python: str, data: str | None, clock: str) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for limit in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[limit] = "1"
        command = [python, os.path.abspath(__file__), "--serve", "--clock", clock]
        if data is not None:
            command += ["--data", os.path.abspath(data)]
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.place = str(self._read_answer()["from"])

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to one request."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read_answer()

    def _read_answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(
                f"The process of the version {self.name} ended; its own message is above."
            )
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Let the process end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(before: Version, after: Version, measuring: Measuring) -> Iterator[dict[str, Any]]:
    """Yield one row a figure, and a row with "equal" for each model.

    Where a version fails, there is a row with "error".
    """
    only = measuring.only
    for question in STARTS:
        if only.search(f"start: {question}"):
            yield from _compare_figures(before, after, "start", question, measuring=measuring)
    for memory, vote, n_labels in MODELS:
        name = f"{memory}, {vote}, {n_labels:,} labels"
        questions = [question for question in QUESTIONS if only.search(f"{name}: {question}")]
        if not questions:
            continue
        facts = [version.ask(model=(memory, vote, n_labels)) for version in (before, after)]
        errors = _list_errors(name, (before, after), facts)
        if errors:
            yield from errors
            continue
        yield {"model": name, "equal": {key: facts[0][key] == facts[1][key] for key in facts[0]}}
        for question in questions:
            yield from _compare_figures(before, after, name, question, measuring=measuring)


def _compare_figures(
    before: Version, after: Version, name: str, question: str, *, measuring: Measuring
) -> Iterator[dict[str, Any]]:
    """Yield a row for each figure of a question, or one for each version that fails."""
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for number in range(-1, measuring.rounds):  # round -1 warms both up and is not counted
        order = (before, after) if number % 2 == 0 else (after, before)
        answers = {}
        for version in order:
            answers[version.name] = version.ask(question=question, seconds=measuring.seconds)
        pair = (answers[before.name], answers[after.name])
        errors = _list_errors(f"{name}: {question}", (before, after), pair)
        if errors:
            yield from errors
            return
        if number >= 0:
            pairs.append(pair)
    for figure in pairs[0][0]:
        rates = [(old[figure], new[figure]) for old, new in pairs]
        yield {
            "model": name,
            "figure": figure,
            "before": median(old for old, _ in rates),
            "after": median(new for _, new in rates),
            "median": median(new / old for old, new in rates),
            "best": max(new for _, new in rates) / max(old for old, _ in rates),
        }


def _list_errors(
    what: str, versions: tuple[Version, Version], answers: Any
) -> list[dict[str, Any]]:
    return [
        {"model": what, "error": f"{version.name}: {answer['error']}"}
        for version, answer in zip(versions, answers, strict=True)
        if "error" in answer
    ]


def print_table(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print rows as they come and return them."""
    printed_rows = []
    heading = ""
    for row in rows:
        printed_rows.append(row)
        if "error" in row:
            print(f"{row['model']}\n  failed, {row['error']}", flush=True)
            continue
        if row["model"] != heading:
            heading = row["model"]
            print(f"{heading:40}{'before/s':>14}{'after/s':>14}{'median':>9}{'best':>7}")
        if "equal" in row:
            different = [what for what, equal in row["equal"].items() if not equal]
            if different:
                print(f"  DIFFERENT: {', '.join(different)}", flush=True)
            continue
        mark = "  slower" if row["median"] < MARKED_BELOW else ""
        digits = 0 if min(row["before"], row["after"]) >= 100 else 2  # starts are a few a second
        rates = f"{row['before']:14,.{digits}f}{row['after']:14,.{digits}f}"
        ratios = f"{row['median']:9.2f}{row['best']:7.2f}"
        print(f"  {row['figure']:38}{rates}{ratios}{mark}", flush=True)
    return printed_rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", help="interpreter of the environment with the one version")
    parser.add_argument("--after", help="interpreter of the environment with the other version")
    parser.add_argument("--data", help="folder with wiki.train.tokens; by default Zipf tokens")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--seconds", type=float, default=0.05, help="the least time of one measurement"
    )
    parser.add_argument(
        "--only", default="", help='pattern of "model: question", such as "Exact, sum, 64.*predict"'
    )
    parser.add_argument(
        "--clock", choices=CLOCKS, default="cpu", help="processor time, or the clock on the wall"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of the table"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.data, args.clock)
        return
    if not args.before or not args.after or args.rounds < 1:
        parser.error(
            "--before and --after name two interpreters, and there must be at least one round."
        )
    before = Version("before", args.before, args.data, args.clock)
    after = Version("after", args.after, args.data, args.clock)
    measuring = Measuring(args.rounds, args.seconds, re.compile(args.only))
    if args.json:
        rows = list(compare(before, after, measuring))
        report = {"before": before.place, "after": after.place, "rows": rows}
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        print(f"before: {before.place}\nafter:  {after.place}")
        rows = print_table(compare(before, after, measuring))
        models = [row["equal"] for row in rows if "equal" in row]
        n_marked = sum(row.get("median", 1) < MARKED_BELOW for row in rows)
        n_equal = sum(all(equal.values()) for equal in models)
        print(
            f"{n_marked} figures are marked. "
            f"States and answers are equal in {n_equal} of {len(models)} models."
        )
    for version in (before, after):
        version.close()
    if any("error" in row for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
