"""``hammemo add`` and ``hammemo forget``: change what a model file has learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from hammemo.cli.console import (
    UsageError,
    describe_examples,
    format_count,
    print_result,
    say_where_from,
)
from hammemo.cli.input_options import InputOptions, KnownLabel  # noqa: TC001  (read at run time)
from hammemo.cli.options import ModelChange, Refit, argument, option
from hammemo.cli.receipts import Note, ReceiptFiles, ReceiptOptions
from hammemo.sources.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class FileEdit(ModelChange):
    """Which model file changes, by which examples."""

    files: Annotated[
        list[str] | None, argument("FILE", "Examples: rows or documents.", "standard input")
    ] = None
    label: KnownLabel = None
    refit: Refit = False


def add_files(edit: FileEdit, reading: InputOptions) -> None:
    """Learn more examples.

    MODEL is replaced when all of them are learnt, otherwise it does not change.
    """
    _change(edit, reading, "added", evidence=ReceiptFiles(edit))


def forget_files(
    edit: FileEdit,
    reading: InputOptions,
    recording: ReceiptOptions,
    only: Annotated[
        list[str] | None,
        option(
            "CASE",
            "Event logs: forget only this case (repeatable). Without FILE, the model finds its "
            "events.",
        ),
    ] = None,
) -> None:
    """Remove examples, as if they had never been learnt.

    Unknown examples are refused, and nothing changes. The weights still depend on the removed ones
    until they are fitted again: now with --refit, or later with hammemo refit.

    hammemo forget MODEL --only u5, without a file, forgets all events of the case u5 that MODEL has
    learnt.

    A model fitted with --keep digests refuses every example it has not learnt; others refuse those
    they can detect.

    --receipt adds a signed receipt to a file; hammemo verify checks it.
    """
    with recording.evidence(edit) as evidence:
        _change(edit, reading, "forgotten", evidence=evidence, only=only or ())


def _change(
    edit: FileEdit,
    options: InputOptions,
    verb: str,
    *,
    evidence: ReceiptFiles,
    only: Sequence[str] = (),
) -> None:
    """Learn or forget the examples of files, write the model, and say what has changed.

    `verb` is "added" or "forgotten"; `only` names the cases that are forgotten.
    """
    from hammemo.cli.batches import Reading, forget_batches, learn_batches, read_batches
    from hammemo.cli.refit import check_can_refit, refit

    files = edit.files or [STANDARD_INPUT]
    with edit.open() as opened:
        learner: Any = opened.learner(edit.model)
        schema = options.apply_to(opened.rows_schema, edit.label)
        reading = Reading(schema, files, options.file_format)
        if only and not getattr(schema, "is_log", False):
            raise UsageError(
                "--only names cases of an event log: this model learnt none. Leave it out."
            )
        is_by_case = bool(only) and not edit.files
        if not is_by_case:
            say_where_from(files)

        def read(note: Note) -> None:
            if is_by_case:
                note(("case", case) for case in only)
            else:
                read_batches(learner, reading, only, note)

        if evidence.is_done(opened, read):
            return
        if edit.refit:
            check_can_refit(learner, edit.model)  # before anything is read
        if verb == "added":
            learned = learn_batches(learner, reading)
            opened.take_columns_of(learned.schema)
            n_changed = learned.n_examples
        elif is_by_case:
            read(evidence.note)
            before = learner.state.n_examples
            n_changed = before - learner.forget_cases(only).state.n_examples
        else:
            n_changed = forget_batches(learner, reading, only, evidence.note)
        refit_facts: dict[str, Any] = {}
        refit_sentence = ""
        if edit.refit:
            refit_facts, refit_sentence = refit(learner, edit.model)
        evidence.write(opened)
    facts: dict[str, Any] = {verb: n_changed, **opened.held_facts, **refit_facts}
    pending = ""
    if verb == "forgotten":
        facts["stale"] = learner.state.stale
        pending = opened.describe_pending_refit(edit.target)
    facts.update(out=str(edit.target), **evidence.facts)
    sentences = (
        f"{format_count(n_changed, 'example')} {verb}; the model holds {describe_examples(facts)}.",
        refit_sentence,
        f"Written to {edit.target}",
    )
    text = " ".join(sentence for sentence in sentences if sentence)
    print_result(facts, text, pending, evidence.sentence, as_json=edit.as_json)
