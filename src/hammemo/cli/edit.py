"""``hammemo add`` and ``hammemo forget``: change what a model file has learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from hammemo.cli.console import UsageError, describe_examples, format_count, print_result, say_where_from
from hammemo.cli.input_options import InputOptions, KnownLabel  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.options import ModelChange, Refit, argument, option
from hammemo.cli.receipts import Note, ReceiptFiles, ReceiptOptions
from hammemo.sources.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class FileEdit(ModelChange):
    """Which model file changes, by which examples."""

    files: Annotated[list[str] | None, argument("FILE", "Examples: rows or documents.", "standard input")] = None
    label: KnownLabel = None
    refit: Refit = False


def add_files(edit: FileEdit, given: InputOptions) -> None:
    """Learn more examples; MODEL is replaced when all of them are learnt, otherwise it does not change."""
    _change(edit, given, "added", ReceiptFiles(edit))


def forget_files(
    edit: FileEdit,
    given: InputOptions,
    recording: ReceiptOptions,
    only: Annotated[
        list[str] | None,
        option("CASE", "Event logs: forget only this case (repeatable). Without FILE, the model finds its events."),
    ] = None,
) -> None:
    """Remove examples, as if they had never been learnt; unknown examples are refused, and nothing changes.

    The weights still depend on them until they are fitted again: now with --refit, or later with hammemo refit.

    hammemo forget MODEL --only u5, without a file, forgets all events of the case u5 that MODEL has learnt.

    A model fitted with --keep digests refuses every example it has not learnt; others refuse those they can detect.

    --receipt adds a signed receipt to a file; hammemo verify checks it.
    """
    with recording.evidence(edit) as evidence:
        _change(edit, given, "forgotten", evidence, only or ())


def _change(edit: FileEdit, given: InputOptions, verb: str, evidence: ReceiptFiles, only: Sequence[str] = ()) -> None:
    from hammemo.cli.batches import Reading, forget_batches, learn_batches, read_batches
    from hammemo.cli.refit import check_can_refit, refit

    files = edit.files or [STANDARD_INPUT]
    with edit.open() as opened:
        learner: Any = opened.learner(edit.model)
        reading = Reading(given.apply_to(opened.rows_schema, edit.label), files, given.file_format)
        if only and not getattr(reading.schema, "is_log", False):
            raise UsageError("--only names cases of an event log: this model learnt none. Leave it out.")
        by_id = bool(only) and not edit.files
        if not by_id:
            say_where_from(files)

        def read(note: Note) -> None:
            if by_id:
                note(("case", case) for case in only)
            else:
                read_batches(learner, reading, only, note)

        if evidence.is_done(opened, read):
            return
        if edit.refit:
            check_can_refit(learner, edit.model)  # before anything is read
        if verb == "added":
            schema, facts_of_learning = learn_batches(learner, reading)
            opened.take_columns_of(schema)
            changed = facts_of_learning["examples"]
        elif by_id:
            read(evidence.note)
            before = learner.state.n_examples
            changed = before - learner.forget_cases(only).state.n_examples
        else:
            changed = forget_batches(learner, reading, only, evidence.note)
        refitted, said = refit(learner, edit.model) if edit.refit else ({}, "")
        evidence.write(opened)
    stale = {"stale": learner.state.stale} if verb == "forgotten" else {}
    what: dict[str, Any] = {verb: changed, **opened.held_facts, **refitted, **stale}
    facts = {**what, "out": str(edit.target), **evidence.facts}
    did = f"{format_count(changed, 'example')} {verb}; the model holds {describe_examples(facts)}."
    told = " ".join(filter(None, (did, said, f"Written to {edit.target}")))
    left = opened.describe_pending_refit(edit.target) if verb == "forgotten" else ""
    print_result(facts, told, left, evidence.sentence, as_json=edit.as_json)
