"""How fast a mixture answers.

Measured is `top_k(20)` over the items of a shop and the words of a text, beside VMIS-kNN.

    python -m benchmarks.sessions.rates --sessions FOLDER --wikitext FOLDER

The shop is the set bol of `benchmarks.sessions`, the text WikiText-2; a mixture learns each with
its defaults. VMIS-kNN answers the questions of the shop, with the settings that validation has
chosen (docs/recommending.md); the ratio is to its figures. *all scores*: the same questions by way
of one score a label, which is what the leading labels were found by before, and still are where
there are continuation counts. Times are those of the processor, one thread; a single question is
the median of 200.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

# before a library reads them
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))  # for python -m

import numpy as np  # noqa: E402

from hammemo import MemoryClassifier  # noqa: E402
from hammemo.paper.experiments.measuring import table  # noqa: E402
from hammemo.tokens.labels import top_columns  # noqa: E402
from language.ours import read_text  # noqa: E402
from measures import options  # noqa: E402

from .data import SessionQueries, read_task  # noqa: E402
from .neighbours import VMISkNN  # noqa: E402
from .ours import Ours  # noqa: E402
from .running import TIMED, speed  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .data import Session

H = 8
"""Tokens of a context of the text."""


class AllScores(Ours):
    """The same model, but every score is made."""

    def top_k(self, prefixes: Sequence[Session], k: int) -> NDArray[np.int64]:
        """Return the leading items by all scores."""
        scores = self.model.class_scores(self._contexts(prefixes))
        return np.asarray(self.model.classes_[top_columns(scores, k)], np.int64)


class TextMixture(Ours):
    """A mixture of a text; a prefix is a context of H words."""

    def _contexts(self, prefixes: Sequence[Session]) -> NDArray[np.int64]:
        return np.array(prefixes, np.int64)


class TextMixtureOfAllScores(TextMixture, AllScores):
    """The same, but every score is made."""


def of_shop(folder: Path) -> dict[str, Any]:
    """Return how fast the shop's learners answer, and the number of labels.

    Rates are of batches; microseconds are of a single question.
    """
    task = read_task(folder, "bol")
    queries = task.test.queries
    neighbours = VMISkNN(task.kind, m=100, k=100, last=3, again=False)
    neighbours.fit(task.test.sessions, task.test.n_items)
    ours = Ours(task.kind)
    ours.fit(task.test.sessions, task.test.n_items)
    dense = AllScores(task.kind)
    dense.model = ours.model
    rows = {"VMIS-kNN": neighbours, "mixture": ours, "mixture, all scores": dense}
    ours.top_k(queries.prefixes[:1], 1)  # the live table is made at the first question
    speeds = {name: speed(model, queries) for name, model in rows.items()}
    return {"labels": len(ours.model.classes_), "found": speeds}


def of_text(folder: Path) -> dict[str, Any]:
    """Return the same for the text."""
    text = read_text(folder)
    model = MemoryClassifier().fit_stream(text.train, H)
    model.top_k(text.test[None, :H], 1)  # the live table is made at the first question
    places = H + np.linspace(0, len(text.test) - H - 1, TIMED).astype(np.int64)
    contexts = [text.test[place - H : place].tolist() for place in places]
    queries = SessionQueries(contexts, np.zeros(len(contexts), np.int64), np.arange(len(contexts)))
    speeds = {}
    for name, kind in (("mixture", TextMixture), ("mixture, all scores", TextMixtureOfAllScores)):
        reader = kind("clicks")
        reader.model = model
        speeds[name] = speed(reader, queries)
    return {"labels": len(model.classes_), "found": speeds}


def main() -> None:
    """Print one table."""
    parser = options(__doc__)
    parser.add_argument(
        "--sessions", type=Path, required=True, help="folder with bol-train.tsv and the like"
    )
    parser.add_argument("--wikitext", type=Path, help="folder with wiki.train.tokens and the like")
    arguments = parser.parse_args()
    parts = {"bol": of_shop(arguments.sessions)}
    base_rate, base_single = parts["bol"]["found"]["VMIS-kNN"]
    if arguments.wikitext is not None:
        parts["WikiText-2"] = of_text(arguments.wikitext)
    rows = [
        {
            "data": data,
            "labels": part["labels"],
            "learner": learner,
            "rate": rate,
            "ratio": rate / base_rate,
        }
        | {"single": single, "single_ratio": single / base_single}
        for data, part in parts.items()
        for learner, (rate, single) in part["found"].items()
    ]
    names = (
        "data | labels | learner | top 20 a second | ratio to VMIS-kNN | one (µs) | "
        "ratio to VMIS-kNN"
    )
    each = (
        "{data} | {labels:,} | {learner} | {rate:~} | {ratio:.2f} | {single:~} | {single_ratio:.2f}"
    )
    print("\n".join(table(rows, names, each)))


if __name__ == "__main__":
    main()
