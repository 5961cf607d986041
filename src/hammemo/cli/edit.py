"""``hammemo add`` and ``hammemo forget``: change what a model file has learnt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hammemo.cli import options as opt
from hammemo.cli.console import (
    UsageError,
    check_model_writable,
    counted,
    one_line_errors,
    print_result,
    say_where_from,
)
from hammemo.cli.input_options import InputOptions, KnownLabel  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.options import option
from hammemo.cli.receipts import Note, ReceiptFiles, ReceiptOptions, say_done
from hammemo.sources.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.sources.schemas import Schema


@dataclass(frozen=True)
class FileEdit:
    """Which model file changes, by which examples."""

    model: opt.Model
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Examples: rows or documents.", show_default="standard input"),
    ] = None
    out: Annotated[Path | None, option("FILE", "Write the changed model here.", "MODEL itself")] = None
    label: KnownLabel = None
    refit: opt.Refit = False
    wait: opt.Wait = None


def add_files(edit: FileEdit, given: InputOptions, key_file: opt.KeyFile = None, as_json: opt.AsJson = False) -> None:
    """Learn more examples; MODEL is replaced when all of them are learnt, otherwise it does not change."""
    with one_line_errors():
        _change(edit, given, key_file, "added", ReceiptFiles(), as_json=as_json)


def forget_files(
    edit: FileEdit,
    given: InputOptions,
    recording: ReceiptOptions,
    only: Annotated[
        list[str] | None,
        option("CASE", "Event logs: forget only this case (repeatable). Without FILE, the model finds its events."),
    ] = None,
    key_file: opt.KeyFile = None,
    as_json: opt.AsJson = False,
) -> None:
    """Remove examples, as if they had never been learnt; unknown examples are refused, and nothing changes.

    The weights still depend on them until they are fitted again: now with --refit, or later with hammemo refit.

    hammemo forget MODEL --only u5, without a file, forgets all events of the case u5 that MODEL has learnt.

    A model fitted with --keep digests refuses every example it has not learnt; others refuse those they can detect.

    --receipt adds a signed receipt to a file; hammemo verify checks it.
    """
    with one_line_errors(), recording.evidence(edit.wait) as evidence:
        _change(edit, given, key_file, "forgotten", evidence, as_json=as_json, only=only or ())


def _check_only(only: Sequence[str], schema: Schema) -> None:
    from hammemo.sources.schemas import TableSchema

    if only and (isinstance(schema, TableSchema) or not schema.is_log):
        raise UsageError("--only names cases of an event log: this model learnt none. Leave it out.")


def _change(
    edit: FileEdit,
    given: InputOptions,
    key_file: Path | None,
    verb: str,
    evidence: ReceiptFiles,
    *,
    as_json: bool,
    only: Sequence[str] = (),
) -> None:
    from hammemo.cli.batches import forget_batches, held_facts, learn_batches, read_batches, shown_facts
    from hammemo.cli.models import changing, left_to_do, open_model
    from hammemo.cli.refit import NOT_ASKED, check_can_refit, refit

    target = edit.model if edit.out is None else edit.out
    check_model_writable(target)
    files = edit.files or [STANDARD_INPUT]
    with changing(target, [edit.model], edit.wait):
        opened = open_model(edit.model, opt.read_key(key_file))
        learner: Any = opened.learner(edit.model)
        schema = given.changed(opened.rows_schema, edit.label)
        _check_only(only, schema)
        reading = (learner, schema, files, given.file_format, only)
        by_id = bool(only) and not edit.files
        if not by_id:
            say_where_from(files)

        def read(note: Note) -> None:
            if by_id:
                note(("case", case) for case in only)
            else:
                read_batches(*reading, note)

        if evidence.is_done(opened, edit.model, read):
            say_done(evidence, as_json=as_json)
            return
        if edit.refit:
            check_can_refit(learner, edit.model)  # before anything is read
        if verb == "added":
            changed = learn_batches(learner, schema, files, given.file_format)[1]["examples"]
        elif by_id:
            read(evidence.note)
            before = learner.state.n_examples
            changed = before - learner.forget_cases(only).state.n_examples
        else:
            changed = forget_batches(*reading, evidence.note)
        refitted = refit(learner, edit.model) if edit.refit else NOT_ASKED
        evidence.write(opened, edit.model, target, edit.wait)
    facts: dict[str, Any] = {
        verb: changed,
        **held_facts(learner),
        **refitted.facts,
        **({"stale": learner.state.stale} if verb == "forgotten" else {}),
        "out": str(target),
        **evidence.facts,
    }
    did = f"{counted(changed, 'example')} {verb}; the model holds {shown_facts(facts)}."
    told = " ".join(filter(None, (did, refitted.sentence, f"Written to {target}")))
    left = left_to_do(learner, target) if verb == "forgotten" else ""
    print_result(facts, told, left, evidence.sentence, as_json=as_json)
