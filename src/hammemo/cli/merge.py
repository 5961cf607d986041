"""``hammemo merge``: add model files, or subtract some."""

from __future__ import annotations

import warnings
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

from hammemo.cli.console import check_model_writable, describe_examples, print_result
from hammemo.cli.options import AsJson, KeyFile, Refit, Wait, argument, option, read_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo.cli.models import OpenModel


def merge_models(
    models: Annotated[list[Path], argument("MODEL", "Model files of the same layout.")],
    *,
    out: Annotated[Path, option("FILE", "The model file to write.")],
    minus: Annotated[
        list[Path] | None, option("MODEL", "Subtract this model (repeatable).")
    ] = None,
    refit: Refit = False,
    key_file: KeyFile = None,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Write the sum of models; parameters, vote and notes are those of the first."""
    from hammemo.cli.models import changing, open_model
    from hammemo.cli.refit import refit as fit_again
    from hammemo.memories import LayoutError, NotStoredError

    def combine(path: Path, operation: Callable[[Any], Any]) -> OpenModel:
        other = open_model(path, key)
        try:
            operation(other.learner(path))
        except LayoutError as error:
            raise LayoutError(
                f"{path} and {models[0]} cannot be added: {str(error).rstrip('.')}. Fit one with "
                "--layout and the other's name, the same --memory, --kernel and --seed."
            ) from error
        except NotStoredError as error:
            raise NotStoredError(
                f"{path} cannot be subtracted: its examples are not in the sum. Nothing was "
                "written."
            ) from error
        return other

    check_model_writable(out)
    key = read_key(key_file)
    with changing(out, [*models, *(minus or ())], wait), warnings.catch_warnings():
        if refit:  # then it does not matter whose weights are kept
            warnings.filterwarnings("ignore", "The two models have different fitted weights")
        total = open_model(models[0], key)
        learner = total.learner(models[0])
        for path in models[1:]:
            total.take_kinds_of(combine(path, learner.merge))
        for path in minus or ():
            combine(path, learner.unmerge)
        refit_facts: dict[str, Any] = {}
        refit_sentence = ""
        if refit:
            refit_facts, refit_sentence = fit_again(learner, models[0])
        total.write(out, wait)
    facts = {**total.held_facts, **refit_facts, "out": str(out)}
    sentences = (f"{describe_examples(facts)}.", refit_sentence, f"Written to {out}")
    text = " ".join(sentence for sentence in sentences if sentence)
    print_result(facts, text, total.describe_pending_refit(out), as_json=as_json)
