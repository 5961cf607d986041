"""``hammemo explain``: which tokens voted for which labels."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hammemo.cli.console import check_writable, console, say_where_from
from hammemo.cli.input_options import InputOptions  # noqa: TC001  (typer reads annotations at run time)
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
            raise ValueError(f"--plot {self.plot} has no ending of a figure: use one of {', '.join(_FIGURES)}.")


def explain_contexts(
    model: Model,
    words: Annotated[list[str] | None, argument("TOKENS", _WORDS, "the rows or documents of --file")] = None,
    file: Annotated[str, option("FILE", "Rows or documents to explain.", "standard input")] = "-",
    *,
    shown: ExplainOptions,
    given: InputOptions,
    key_file: KeyFile = None,
    as_json: Annotated[bool, flag("--json", "Print one JSON object per context, one per line.")] = False,
) -> None:
    """Show how much each token of a context adds to each label's score, and whether the answer is proven."""
    from hammemo.cli.models import open_model, say_what_is_left

    shown.check()
    opened = open_model(model, read_key(key_file))
    say_what_is_left(opened, model)
    opened.schema = given.changed(opened.schema)
    contexts = iter([_typed(opened, words)] if words else _read(opened, file, given.file_format))
    done = 0
    for done, context in enumerate(islice(contexts, shown.first), 1):
        explanation = _explained(opened, context, shown.k)
        if as_json:
            typer.echo(json.dumps(explanation.to_dict()))
        else:
            console().print(explanation)
        if shown.plot is not None and done == 1:
            explanation.plot().figure.savefig(shown.plot, dpi=150)
    if not done:
        raise ValueError("There is nothing to explain: the input has no row or document.")
    if next(contexts, None) is not None:
        typer.echo(f"Explained the first {shown.first} only, and there are more: --first N explains N.", err=True)


def _explained(opened: OpenModel, context: list[Any], k: int) -> Any:
    names = getattr(opened.schema, "columns", None)
    if hasattr(opened.model, "predict_interval"):
        found = opened.model.explain(context)
        return found if names is None else replace(found, names=names)
    return replace(opened.model.explain(context, k), names=names)


def _read(opened: OpenModel, file: str, file_format: str | None) -> Iterator[list[Any]]:
    say_where_from([file])
    for queries in opened.schema.queries([file], opened.h, file_format):
        yield from queries.X.tolist()


def _typed(opened: OpenModel, words: list[str]) -> list[Any]:
    context: list[Any] = opened.schema.context(words, opened.h)[0].tolist()
    return context if opened.notes or not hasattr(opened.model, "label_dtype_") else as_known(context, opened.model)


def as_known(texts: list[str], model: Any) -> list[int | str]:
    """Return the tokens of a model that came from Python, without notes of what it learnt: numbers or strings.

    What looks like a whole number may be either. Where the model knows that one of the two was never seen, it is the
    other; where it cannot tell, the labels decide, which are tokens too in a model of a stream.
    """
    numbers = [_number_or_text(text) for text in texts]
    if numbers == texts:
        return numbers
    seen = zip(model.explain(numbers, 1).seen, model.explain(texts, 1).seen, strict=True)
    whole_labels = model.label_dtype_.kind in "iub"
    is_number = [
        text_seen is False if (number_seen is False) != (text_seen is False) else whole_labels
        for number_seen, text_seen in seen
    ]
    return [number if chosen else text for number, text, chosen in zip(numbers, texts, is_number, strict=True)]


def _number_or_text(text: Any) -> Any:
    try:
        return int(text) if isinstance(text, str) else text
    except ValueError:
        return text
