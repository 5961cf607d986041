"""Is a commit slower than another? Two installed versions of hammemo, measured in turns in one run.

    python benchmarks/commits.py --before old/bin/python --after new/bin/python
    python benchmarks/commits.py --before … --after … --data ../shared/wikitext-2 --rounds 9
    python benchmarks/commits.py --before … --after … --only "Hashed.*predict"
    python benchmarks/commits.py --before … --after … --only "^start|load"

Each interpreter belongs to an environment with one version installed. One process of each stays alive and measures when
it is asked to: before, after, after, before, … for every measurement, so that whatever else the machine does falls on
both. Only public names that both versions have are used. Predict, edit, fit and load (with one question) are measured
for every model; start is a fresh interpreter that imports hammemo, imports the classifier, or prints the help.

The figure is a rate (rows, tokens or calls a second), and the ratio is that of the version after to the version before:
1 is equal, below 1 is slower. "median" is the median of the rounds' ratios, "best" the ratio of the best rates. A
median below 0.95 is marked. One thread; the time is the processor's, which other work on the machine disturbs least
(`--clock wall` takes the clock on the wall). On a busy machine two processes of one version differ by a tenth and more
even so: compare a version with itself, and take more rounds, before you believe a mark.

The data are Zipf tokens (33,278 types, contexts of 8) with a fixed seed, or the text of WikiText-2 with `--data`. Both
versions must also give the same states and answers for them; the last line says whether they do.
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
N_TOKENS: Final = 33_278
N_EXAMPLES: Final = 20_000
N_QUERIES: Final = 5_000
N_SINGLE: Final = 500
N_STREAM: Final = 60_000
MARKED_BELOW: Final = 0.95
CLOCKS: Final = {"cpu": time.process_time, "wall": time.perf_counter}

_SUMS: Final = "Exact, Hashed, Gaussian, Gaussian exact, Exact digests, Hashed digests, Tiered, Hashed suffixes"
MODELS: Final = [
    (memory, vote, n_labels)
    for n_labels in (64, 1024)
    for memory, vote in (
        *((name, "sum") for name in _SUMS.split(", ")),
        ("Exact", "log-linear"),
        ("Hashed", "log-linear"),
    )
]
QUESTIONS: Final = (
    *("predict, ints", "predict, strings", "one query, ints", "one query, strings"),
    *("fit", "fit_stream", "edits", "load"),
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
    weighed = LogLinear(sample=1000, steps=10)  # else almost all of `fit` would be its optimizer
    kernel = Suffixes(5) if memory.endswith("suffixes") else PositionalHamming()
    keep = "digests" if memory.endswith("digests") else "auto"
    return MemoryClassifier(kernel, memories[memory], weighed if vote == "log-linear" else vote, keep=keep)


@dataclass
class LabelledTokens:
    """Contexts as ints and as strings, labels, and a stream; the first `N_QUERIES` rows are the queries."""

    X: NDArray[np.int64]
    words: NDArray[Any]
    y: NDArray[np.int64]
    stream: NDArray[np.int64]
    classes: NDArray[np.int64]


@cache
def task_of(n_labels: int, data: str | None) -> LabelledTokens:
    """Return a task whose labels are the `n_labels` most frequent tokens; token 0 is the most frequent one."""
    rng = np.random.default_rng(n_labels)
    if data is None:
        mass = np.cumsum(1 / np.arange(1, N_TOKENS + 1))
        tokens = np.searchsorted(mass, rng.random(10 * N_EXAMPLES) * mass[-1]).astype(np.int64)
        words = np.array([f"word{token}" for token in range(N_TOKENS)])
    else:
        text = Path(data, "wiki.train.tokens").read_text(encoding="utf-8").split()
        ranked = [word for word, _ in Counter(text).most_common()]
        rank = {word: number for number, word in enumerate(ranked)}
        tokens = np.array([rank[word] for word in text], np.int64)
        words = np.array(ranked)
    places = np.flatnonzero(tokens[H:] < n_labels)
    places = rng.choice(places, N_EXAMPLES, replace=False)
    X, y = np.lib.stride_tricks.sliding_window_view(tokens, H)[places], tokens[places + H]
    return LabelledTokens(X, words[X], y, tokens[:N_STREAM], np.arange(n_labels))


class FittedModel:
    """One model of one version, ready to be measured."""

    def __init__(self, memory: str, vote: str, n_labels: int, data: str | None, clock: str) -> None:
        import hammemo

        self.axes = memory, vote
        self.task = task_of(n_labels, data)
        self.clock = CLOCKS[clock]
        self.model = new_model(*self.axes).fit(self.task.X, self.task.y)
        self.predictor = self.model.compile()
        self.strings_model = new_model(*self.axes).fit(self.task.words, self.task.y)
        self.strings_predictor = self.strings_model.compile()
        self.cycle = 0
        self.folder = TemporaryDirectory()
        self.file = Path(self.folder.name, "model")
        hammemo.save(self.model, self.file)

    def facts(self) -> dict[str, str]:
        """Return digests of the states and of the answers, which no version may change."""
        answers = [self.predictor.predict(self.task.X[:N_QUERIES])]
        answers += [self.strings_predictor.predict(self.task.words[:N_QUERIES])]
        return {
            "state": _digest(self.model.memory_.state_bytes() + self.strings_model.memory_.state_bytes()),
            "answers": _digest(np.concatenate(answers).astype("<i8").tobytes()),
        }

    def rates(self, question: str, seconds: float) -> dict[str, float]:
        """Measure for about so many seconds."""
        if question == "edits":
            return self._edits(seconds)
        task, strings = self.task, question.endswith("strings")
        predictor, contexts = (self.strings_predictor, task.words) if strings else (self.predictor, task.X)
        queries, singles = contexts[:N_QUERIES], contexts[:N_SINGLE].tolist()
        fresh = new_model(*self.axes)  # fit_stream starts it anew each time
        action, units = {
            "predict": (lambda: predictor.predict(queries), N_QUERIES),
            "one query": (lambda: [predictor(context) for context in singles], N_SINGLE),
            "load": (self._load, 1),
            "fit": (lambda: new_model(*self.axes).fit(task.X, task.y), N_EXAMPLES),
            "fit_stream": (lambda: fresh.fit_stream(task.stream, H, classes=task.classes), N_STREAM),
        }[question.partition(", ")[0]]
        return {question: self._rate(action, units, seconds)}

    def _load(self) -> Any:
        """Load the file and ask one question, so that nothing is put off."""
        import hammemo

        return hammemo.load(self.file).predict(self.task.X[:1])

    def _rate(self, action: Callable[[], Any], units: int, seconds: float) -> float:
        """Return units a second of the fastest call."""
        best, spent = float("inf"), 0.0
        while spent < seconds:
            start = self.clock()
            action()
            taken = self.clock() - start
            best, spent = min(best, taken), spent + max(taken, 1e-6)
        return units / best

    def _edits(self, seconds: float) -> dict[str, float]:
        """Learn a row, predict one, forget the row, predict one, then both again the short way. The state stays."""
        model, task, spent = self.model, self.task, 0.0
        times: dict[str, list[float]] = {}
        while spent < seconds or len(times["forget"]) < 3:
            at = self.cycle % N_EXAMPLES
            self.cycle += 1
            X, y = task.X[at : at + 1], np.roll(task.y, 1)[at : at + 1]
            row, label = X[0].tolist(), int(y[0])
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
                taken = self.clock() - start
                times.setdefault(name, []).append(taken)
                spent += taken
        return {name: 1 / median(values) for name, values in times.items()}


def start_rate(question: str, clock: str) -> dict[str, float]:
    """Return fresh interpreters a second: the better of two; processor time is that of the child."""
    best = float("inf")
    for _ in range(2):
        before, began = os.times(), time.perf_counter()
        command = [sys.executable, *STARTS[question]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        after, wall = os.times(), time.perf_counter() - began
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        best = min(best, wall if clock == "wall" else spent)
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
                measured = FittedModel(memory, vote, n_labels, data, clock)
                answer: dict[str, Any] = measured.facts()
            elif request["question"] in STARTS:
                answer = start_rate(request["question"], clock)
            else:
                assert measured is not None
                answer = measured.rates(request["question"], request["seconds"])
        except Exception as error:  # the other measurements are still worth having
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


# The process that asks.


class Version:
    """One version's process."""

    def __init__(self, name: str, python: str, data: str | None, clock: str) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for limit in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[limit] = "1"
        command = [python, os.path.abspath(__file__), "--serve", "--clock", clock]
        command += [] if data is None else ["--data", os.path.abspath(data)]
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.place = str(self._line()["from"])

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to one request."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"The process of the version {self.name} ended; its own message is above.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Let the process end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(
    before: Version, after: Version, rounds: int, seconds: float, only: re.Pattern[str]
) -> Iterator[dict[str, Any]]:
    """Yield one row a figure; a row with "equal" for each model; a row with "error" where a version failed."""
    for question in STARTS:
        if only.search(f"start: {question}"):
            yield from _one_question(before, after, "start", question, rounds, seconds)
    for memory, vote, n_labels in MODELS:
        name = f"{memory}, {vote}, {n_labels:,} labels"
        questions = [question for question in QUESTIONS if only.search(f"{name}: {question}")]
        if not questions:
            continue
        facts = [version.ask(model=(memory, vote, n_labels)) for version in (before, after)]
        failed = _errors(name, (before, after), facts)
        if failed:
            yield from failed
            continue
        yield {"model": name, "equal": {key: facts[0][key] == facts[1][key] for key in facts[0]}}
        for question in questions:
            yield from _one_question(before, after, name, question, rounds, seconds)


def _one_question(
    before: Version, after: Version, name: str, question: str, rounds: int, seconds: float
) -> Iterator[dict[str, Any]]:
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for number in range(-1, rounds):  # the first round warms both up and is not counted
        order = (before, after) if number % 2 == 0 else (after, before)
        answers = {version.name: version.ask(question=question, seconds=seconds) for version in order}
        pair = answers[before.name], answers[after.name]
        failed = _errors(f"{name}: {question}", (before, after), pair)
        if failed:
            yield from failed
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


def _errors(what: str, versions: tuple[Version, Version], answers: Any) -> list[dict[str, Any]]:
    return [
        {"model": what, "error": f"{version.name}: {answer['error']}"}
        for version, answer in zip(versions, answers, strict=True)
        if "error" in answer
    ]


def print_table(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print rows as they come and return them."""
    kept, heading = [], ""
    for row in rows:
        kept.append(row)
        if "error" in row:
            print(f"{row['model']}\n  failed, {row['error']}", flush=True)
            continue
        if row["model"] != heading:
            heading = row["model"]
            print(f"{heading:40}{'before/s':>14}{'after/s':>14}{'median':>9}{'best':>7}")
        if "equal" in row:
            different = [what for what, equal in row["equal"].items() if not equal]
            print(f"  DIFFERENT: {', '.join(different)}\n" if different else "", end="", flush=True)
            continue
        mark = "  slower" if row["median"] < MARKED_BELOW else ""
        digits = 0 if min(row["before"], row["after"]) >= 100 else 2  # starts are a few a second
        rates = f"{row['before']:14,.{digits}f}{row['after']:14,.{digits}f}{row['median']:9.2f}{row['best']:7.2f}"
        print(f"  {row['figure']:38}{rates}{mark}", flush=True)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="interpreter of the environment with the one version")
    parser.add_argument("--after", help="interpreter of the environment with the other version")
    parser.add_argument("--data", help="folder with wiki.train.tokens; by default Zipf tokens")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.05, help="the least time of one measurement")
    parser.add_argument("--only", default="", help='pattern of "model: question", such as "Exact, sum, 64.*predict"')
    parser.add_argument("--clock", choices=CLOCKS, default="cpu", help="processor time, or the clock on the wall")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.data, args.clock)
        return
    if not args.before or not args.after or args.rounds < 1:
        parser.error("--before and --after name two interpreters, and there must be at least one round.")
    before, after = (Version(name, getattr(args, name), args.data, args.clock) for name in ("before", "after"))
    rows = compare(before, after, args.rounds, args.seconds, re.compile(args.only))
    if args.json:
        kept = list(rows)
        print(json.dumps({"before": before.place, "after": after.place, "rows": kept}, indent=2, ensure_ascii=False))
    else:
        print(f"before: {before.place}\nafter:  {after.place}")
        kept = print_table(rows)
        models = [row["equal"] for row in kept if "equal" in row]
        slower = sum(row.get("median", 1) < MARKED_BELOW for row in kept)
        equal = sum(all(found.values()) for found in models)
        print(f"{slower} figures are marked. States and answers are equal in {equal} of {len(models)} models.")
    for version in (before, after):
        version.close()
    if any("error" in row for row in kept):
        sys.exit(1)


if __name__ == "__main__":
    main()
