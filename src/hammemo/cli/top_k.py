"""``hammemo top-k``: the best labels for each row or document."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hammemo.cli.console import one_line_errors
from hammemo.cli.input_options import InputOptions  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.options import flag
from hammemo.cli.predict import Questions, answer_files, probabilities

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.cli.predict import Answers
    from hammemo.sources.schemas import Queries


@dataclass(frozen=True)
class TopKOptions:
    """How many labels are printed, which of them, and with which numbers."""

    k: Annotated[int, typer.Option("--k", min=1, help="Number of labels.")] = 5
    scores: Annotated[bool, flag("--scores", "Add the labels' scores.")] = False
    proba: Annotated[bool, flag("--proba", "Add the labels' probabilities (log-linear vote or mixture).")] = False
    unseen: Annotated[bool, flag("--unseen", "Leave out labels that the row or document contains.")] = False
    exclude: Annotated[Path | None, flag("--exclude", "A file with labels to leave out, one per line.")] = None
    allow: Annotated[Path | None, flag("--allow", "A file with the allowed labels, one per line.")] = None


def top_k_rows(asked: Questions, wanted: TopKOptions, given: InputOptions) -> None:
    """Print the k most likely labels of each row or document, best first, separated by tabs."""

    def answer(model: Any, queries: Queries) -> Answers:
        if not hasattr(model, "top_k"):
            raise ValueError("The model predicts numbers, not labels: use hammemo predict --interval.")
        seen = queries.documents or "seen"
        gone, only = (
            None if path is None else _listed(path, model.classes_) for path in (wanted.exclude, wanted.allow)
        )
        if wanted.unseen and gone is not None:
            only = np.setdiff1d(model.classes_ if only is None else only, gone)
        best, of_best = model.top_k(
            queries.X, wanted.k, exclude=seen if wanted.unseen else gone, allow=only, return_scores=True
        )
        best = [[label for label in row if label is not None] for row in best.tolist()]
        answers: Answers = {"top": best}
        if wanted.scores:
            answers["score"] = [own[: len(row)] for own, row in zip(of_best.tolist(), best, strict=True)]
        if wanted.proba:
            places = [np.searchsorted(model.classes_, row) for row in best]
            found = probabilities(model, queries)
            answers["probability"] = [own[place].tolist() for own, place in zip(found, places, strict=True)]
        return answers

    with one_line_errors():
        answer_files(asked, given, answer)


def _listed(path: Path, classes: Array) -> Array:
    """Return the labels that a file names, one a line; whole numbers where those of the model are."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if classes.dtype.kind not in "iu":
        return np.array(lines, object)
    wrong = next((line for line in lines if not line.lstrip("-").isdecimal()), None)
    if wrong is not None:
        raise ValueError(f"{path} holds {wrong!r}, and the labels of the model are whole numbers: write one per line.")
    return np.array([int(line) for line in lines], object)
