"""``hammemo explain``: which tokens voted for which labels."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hammemo.cli.console import check_writable, console, say_where_from
from hammemo.cli.input_options import InputOptions  # noqa: TC001  (read at run time)
from hammemo.cli.options import KeyFile, Model, argument, flag, option, read_key, setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo.cli.models import OpenModel

_WORDS = "One context: a value for each column, or the text or events before the predicted token."
_FIGURES = (".png", ".svg", ".pdf", ".jpg", ".webp")


@dataclass(frozen=True)
class ExplainOptions:
    """How many contexts and labels are shown, and where one is drawn."""

    first: int = setting("N", "Explain the first rows or documents, this many.", default=10, min=1)
    k: int = setting("N", "Number of labels, best first.", default=5, min=1)
    plot: Path | None = setting("FILE", "Draw the first context to this file, such as votes.png.")

    def check(self) -> None:
        """Refuse a figure that cannot be written."""
        if self.plot is None:
            return
        check_writable(self.plot, "--plot")
        if self.plot.suffix.lower() not in _FIGURES:
            raise ValueError(
                f"--plot {self.plot} has no ending of a figure: use one of {', '.join(_FIGURES)}."
            )


def explain_contexts(
    model: Model,
    words: Annotated[
        list[str] | None, argument("TOKENS", _WORDS, "the rows or documents of --file")
    ] = None,
    file: Annotated[str, option("FILE", "Rows or documents to explain.", "standard input")] = "-",
    *,
    showing: ExplainOptions,
    reading: InputOptions,
    key_file: KeyFile = None,
    as_json: Annotated[
        bool, flag("--json", "Print one JSON object per context, one per line.")
    ] = False,
) -> None:
    """Show how much each token of a context adds to each label's score.

    It also shows whether the answer is proven.
    """
    from hammemo.cli.models import open_model, say_what_is_left

    showing.check()
    opened = open_model(model, read_key(key_file))
    say_what_is_left(opened, model)
    opened.schema = reading.apply_to(opened.schema)
    if words:
        contexts = iter([_parse_words(opened, words)])
    else:
        contexts = _read_contexts(opened, file, reading.file_format)
    n_explained = 0
    for context in islice(contexts, showing.first):
        explanation = _explain(opened, context, showing.k)
        if as_json:
            typer.echo(json.dumps(explanation.to_dict()))
        else:
            console().print(explanation)
        if showing.plot is not None and n_explained == 0:
            explanation.plot().figure.savefig(showing.plot, dpi=150)
        n_explained += 1
    if n_explained == 0:
        raise ValueError("There is nothing to explain: the input has no row or document.")
    if next(contexts, None) is not None:
        typer.echo(
            f"Explained the first {showing.first} only, and there are more: --first N explains N.",
            err=True,
        )


def _explain(opened: OpenModel, context: list[Any], k: int) -> Any:
    names = getattr(opened.schema, "columns", None)
    if not hasattr(opened.model, "predict_interval"):
        return replace(opened.model.explain(context, k), names=names)
    explanation = opened.model.explain(context)
    if names is None:
        return explanation
    return replace(explanation, names=names)


def _read_contexts(opened: OpenModel, file: str, file_format: str | None) -> Iterator[list[Any]]:
    say_where_from([file])
    for queries in opened.schema.queries([file], opened.h, file_format):
        yield from queries.X.tolist()


def _parse_words(opened: OpenModel, words: list[str]) -> list[Any]:
    """Return the context that a user has written on the command line."""
    context: list[Any] = opened.schema.context(words, opened.h)[0].tolist()
    if opened.notes or not hasattr(opened.model, "label_dtype_"):
        return context
    return choose_token_types(context, opened.model)


def choose_token_types(texts: list[str], model: Any) -> list[int | str]:
    """Return texts as tokens of a model that came from Python: as numbers or as strings.

    Such a model has no notes of what it learned, and what looks like a whole number may be either.
    If the model has seen only one of the two, it is that one. Otherwise the labels decide: in a
    model of a stream they are tokens, too.
    """
    numbers = [_parse_number(text) for text in texts]
    if numbers == texts:
        return numbers
    has_number_labels = model.label_dtype_.kind in "iub"
    seen_numbers = model.explain(numbers, 1).seen
    seen_texts = model.explain(texts, 1).seen
    tokens = []
    for i, (number, text) in enumerate(zip(numbers, texts, strict=True)):
        # `seen` is None where the model cannot tell.
        number_is_unseen = seen_numbers[i] is False
        text_is_unseen = seen_texts[i] is False
        is_number = has_number_labels
        if number_is_unseen != text_is_unseen:
            is_number = text_is_unseen
        tokens.append(number if is_number else text)
    return tokens


def _parse_number(text: Any) -> Any:
    """Return the whole number that a text is, or the value as it is."""
    if not isinstance(text, str):
        return text
    try:
        return int(text)
    except ValueError:
        return text
