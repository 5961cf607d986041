"""``hammemo explain``: which tokens voted for which labels."""

from __future__ import annotations

import json
import sys
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated

import typer

from hammemo.cli.console import check_writable, console, one_line_errors

if TYPE_CHECKING:
    from hammemo.classifiers import MemoryClassifier
    from hammemo.explanations import Explanation
    from hammemo.predictor import Predictor


def explain_contexts(
    model: Annotated[Path, typer.Argument(help="A file that hammemo.save wrote.")],
    tokens: Annotated[
        list[str] | None,
        typer.Argument(help="One context, oldest token first.", show_default="standard input, one context a line"),
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="How many labels, the best ones.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a context, each on a line.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw one context to this file, such as votes.png.")] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="A file with the secret key, and nothing else, of a model that has one.")
    ] = None,
) -> None:
    """Show which tokens of a context voted for which labels, how much, and whether the answer is proven.

    On standard input tokens are separated by blanks. What looks like a whole number is one where the model has learnt
    whole numbers, and else a string.
    """
    from hammemo import load

    with one_line_errors():
        if plot is not None:
            check_writable(plot, "--plot")
        fitted = load(model, key=None if key_file is None else key_file.read_bytes())
        contexts = [tokens] if tokens else [line.split() for line in sys.stdin if line.split()]
        if not contexts:
            raise ValueError("There is no context: name its tokens after the model, or write one a line to this input.")
        if plot is not None and len(contexts) > 1:
            raise ValueError(f"--plot draws one context, and there are {len(contexts)}: name one after the model.")
        for context in contexts:
            explanation = fitted.explain(read_tokens(context, fitted), k)
            _show(explanation, as_json=as_json)
            if plot is not None:
                explanation.plot().figure.savefig(plot, dpi=150)


def _show(explanation: Explanation, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(explanation.to_dict()))
    else:
        console().print(explanation)


def read_tokens(texts: list[str], model: MemoryClassifier | Predictor) -> list[int | str]:
    """Return tokens as the model knows them: whole numbers where it has learnt such, strings elsewhere.

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


def _number_or_text(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text
