"""One model, many threads: every answer is that of one version, and of none older than an edit that had returned.

    python tests/stress/threads.py [SECONDS IN ALL [SEED [PATTERN]]]
    python tests/stress/threads.py 3300 1 "^(Hashed|Gaussian|Tiered)"      300 s for each of 11 pairs

The pattern chooses pairs by how "memory, vote" is printed; 60 s for all pairs without arguments.
For every memory and vote, two threads edit (learn and forget; new tokens and new labels too) while four ask (labels,
scores, leading labels, explanations, copies, pickles, compiled forms, files). Each edit is noted in the order in which
it was published. An asker reads `version_` before and after its question; afterwards the edits are repeated one by one
in one thread, and each answer must be that of a version between the two. At the end the bytes are those of the serial
result.
"""

from __future__ import annotations

import copy
import hashlib
import pickle
import re
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from hammemo import MemoryClassifier, load, save
from hammemo.kernels import Bag, Copy, Suffixes, Together
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.votes import LogLinear, Mixture

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORIES = [
    Exact(),
    Hashed(32, 8),
    Gaussian(d=32, exact=True),
    Tiered(Hashed(32, 8)),
]
VOTES: list[Any] = ["sum", "mean", LogLinear(weights=[0.5, 1.0, 2.0, 1.0]), Mixture()]
READERS, WRITERS = 4, 2
H = 4


class Noted(MemoryClassifier):
    """A classifier that notes its edits in the order in which they are published."""

    journal: list[Any]
    doing = threading.local()

    def apply_edit(self, change: Callable[[Any], Any]) -> Any:
        def noted(model: Any) -> Any:
            result = change(model)
            self.journal.append(Noted.doing.edit)  # edits queue, so this is the order of the versions
            return result

        return super().apply_edit(noted)


def example(rng: np.random.Generator) -> tuple[list[list[Any]], list[Any]]:
    """Return one or a few examples with frequent tokens, and now and then with new ones."""
    m = int(rng.integers(1, 4))
    X = rng.integers(0, 12, (m, H)).tolist()
    if rng.random() < 0.2:
        X[0][0] = int(rng.integers(10**6))
    return X, rng.integers(0, 30 if rng.random() < 0.1 else 4, m).tolist()


def write(model: Noted, seed: int, until: float) -> None:
    """Learn and forget examples until the time is up, then forget what is left of them."""
    rng = np.random.default_rng(seed)
    mine: list[Any] = []
    while time.monotonic() < until or mine:
        if time.monotonic() < until and (len(mine) < 5 or rng.random() < 0.5):
            edit = ("partial_fit", *example(rng))
            mine.append(edit[1:])
        else:
            edit = ("forget", *mine.pop(int(rng.integers(len(mine)))))
        Noted.doing.edit = edit
        getattr(model, edit[0])(*edit[1:])
        time.sleep(0)


def questions(folder: Path) -> dict[str, Callable[[Any, Any], Any]]:
    """Return the queries, each a function from a model and contexts to something that can be compared."""

    def saved(model: Any, _: Any) -> Any:
        path = folder / f"{threading.get_ident()}.safetensors"
        plain = MemoryClassifier(kernel=model.kernel, memory=model.memory, vote="sum")
        version = model.snapshot()
        plain.__dict__.update({name: value for name, value in vars(version).items() if name != "journal"})
        save(plain, path)
        return load(path).memory_.state_bytes()

    return {
        "predict": lambda model, X: model.predict(X).tolist(),
        "scores": lambda model, X: model.class_scores(X).tolist(),
        "top_k": lambda model, X: model.top_k(X, 3).tolist(),
        "explain": lambda model, X: str(model.explain(X[0])),
        "compile": lambda model, X: model.compile().class_scores(X).tolist(),
        "bytes": lambda model, X: model.memory_.state_bytes(),
        "copy": lambda model, X: copy.deepcopy(model.memory_).state_bytes(),
        "pickle": lambda model, X: pickle.loads(pickle.dumps(model.memory_)).state_bytes(),  # noqa: S301
        "save": saved,
    }


def digest(answer: Any) -> bytes:
    return hashlib.blake2b(repr(answer).encode(), digest_size=16).digest()


def ask(model: Noted, seed: int, until: float, folder: Path, answers: list[Any], errors: list[str]) -> None:
    rng, asked = np.random.default_rng(seed), questions(folder)
    X = queries()
    while time.monotonic() < until:
        name = list(asked)[int(rng.integers(len(asked)))]
        before = model.version_
        try:
            answer = digest(asked[name](model, X))
        except Exception as error:
            errors.append(f"{name}: {error!r}")
            return
        answers.append((name, before, model.version_, answer))


def queries() -> Any:
    return np.random.default_rng(5).integers(0, 13, (6, H))


def model_of(cls: Any, memory: Any, vote: Any) -> Any:
    """Return a new model; a mixture reads sites without a position, too."""
    kernel = Suffixes(2) + Bag(3) + Together(3) + Copy(2) if isinstance(vote, Mixture) else "auto"
    return cls(kernel, clone(memory), vote)


def is_possible(memory: Any, vote: Any) -> bool:
    """Return whether a vote can read a memory."""
    if isinstance(vote, Mixture):
        return isinstance(memory, Exact)
    return not (isinstance(memory, Gaussian) and isinstance(vote, LogLinear))


def first_examples() -> tuple[Any, Any]:
    rng = np.random.default_rng(7)
    return rng.integers(0, 12, (200, H)), rng.integers(0, 4, 200)


def trial(memory: Any, vote: Any, seconds: float, seed: int, folder: Path) -> Counter[str]:
    """Run writers and readers, then compare with one thread; return what was counted."""
    model = model_of(Noted, memory, vote)
    model.journal = []
    Noted.doing.edit = None
    model.fit(*first_examples())
    until = time.monotonic() + seconds
    answers: list[Any] = []
    errors: list[str] = []
    threads = [threading.Thread(target=write, args=(model, seed + i, until)) for i in range(WRITERS)]
    threads += [
        threading.Thread(target=ask, args=(model, seed + 100 + i, until, folder, answers, errors))
        for i in range(READERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = Counter({"answers": len(answers), "edits": len(model.journal), "errors": len(errors)})
    for error in errors:
        print(error, file=sys.stderr)
    counted["wrong answers"] = wrong_answers(memory, vote, model.journal, answers, folder)
    fresh = model_of(MemoryClassifier, memory, vote).fit(*first_examples())
    counted["wrong bytes at the end"] = int(model.memory_.state_bytes() != fresh.memory_.state_bytes())
    return counted


def wrong_answers(memory: Any, vote: Any, journal: list[Any], answers: list[Any], folder: Path) -> int:
    """Repeat the edits one by one; return how many answers are those of no version between the two that were seen."""
    starting: dict[int, list[Any]] = defaultdict(list)
    for answer in answers:
        starting[answer[1]].append(answer)
    asked, X, serial = questions(folder), queries(), model_of(MemoryClassifier, memory, vote)
    wrong, open_answers = 0, []
    for version, edit in enumerate(journal, start=1):
        if edit is None:
            serial.fit(*first_examples())
        else:
            getattr(serial, edit[0])(*edit[1:])
        open_answers += starting.pop(version, [])
        right = {name: digest(asked[name](serial, X)) for name in {answer[0] for answer in open_answers}}
        unlike = [answer for answer in open_answers if right[answer[0]] != answer[3]]
        open_answers = [answer for answer in unlike if answer[2] > version]  # it may be that of a later version
        wrong += len(unlike) - len(open_answers)
    return wrong + len(open_answers) + sum(map(len, starting.values()))


def main(seconds: float, seed: int, pattern: str) -> int:
    combinations = [
        (memory, vote)
        for memory in MEMORIES
        for vote in VOTES
        if is_possible(memory, vote) and re.search(pattern, f"{memory!r}, {vote!r}")
    ]
    sys.setswitchinterval(1e-5)
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for memory, vote in combinations:
            counted = trial(memory, vote, seconds / len(combinations), seed, Path(folder))
            print(f"{memory!r}, {vote!r}:", dict(counted), flush=True)
            total += counted
    print("in all:", dict(total))
    return int(total["errors"] + total["wrong answers"] + total["wrong bytes at the end"])


if __name__ == "__main__":
    seconds, seed, pattern = sys.argv[1:] + ["60", "0", ""][len(sys.argv) - 1 :]
    sys.exit(bool(main(float(seconds), int(seed), pattern)))
