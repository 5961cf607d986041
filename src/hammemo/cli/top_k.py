"""``hammemo top-k``: the best labels for each row or document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.console import one_line_errors
from hammemo.cli.input_options import InputOptions  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.predict import Files, Out, answer_files, probabilities

if TYPE_CHECKING:
    from hammemo.cli.answers import Answers
    from hammemo.sources.examples import Queries


def top_k_rows(
    model: opt.Model,
    files: Files = None,
    k: Annotated[int, typer.Option("--k", min=1, help="How many labels.")] = 5,
    scores: Annotated[bool, typer.Option("--scores", help="Add the labels' scores.")] = False,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the labels' probabilities (of a log-linear vote or a mixture).")
    ] = False,
    unseen: Annotated[bool, typer.Option("--unseen", help="Leave out labels that the row or document holds.")] = False,
    out: Out = None,
    *,
    given: InputOptions,
    key_file: opt.KeyFile = None,
    as_json: opt.AsJson = False,
) -> None:
    """Print the k most likely labels of each row or document, best first, with tabs between."""

    def answer(model: Any, queries: Queries) -> Answers:
        best = model.top_k(queries.X, k, exclude="seen" if unseen else None)
        answers: Answers = {"top": best.tolist()}
        place = np.searchsorted(model.classes_, best)
        if scores:
            answers["score"] = np.take_along_axis(model.class_scores(queries.X), place, axis=1).tolist()
        if proba:
            answers["probability"] = np.take_along_axis(probabilities(model, queries), place, axis=1).tolist()
        return answers

    with one_line_errors():
        answer_files(model, files, given, key_file, out, answer, as_json=as_json)
