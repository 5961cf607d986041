"""``hammemo verify``: compare a model with a new fit, and check its receipts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Final

import typer
from rich.table import Table

from hammemo.cli.console import UsageError, console, format_count, print_error, print_json
from hammemo.cli.input_options import InputOptions, KnownLabel  # noqa: TC001  (read at run time)
from hammemo.cli.options import AsJson, KeyFile, Model, read_key, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hammemo.cli.models import OpenModel
    from hammemo.estimators.learners import Learner
    from hammemo.receipts.receipt import SignedReceipt

_NOT_REFITTED: Final = "still depends on removed rows: hammemo refit chooses and fits again"


@dataclass(frozen=True)
class VerifiedEvidence:
    """What the model is compared with."""

    receipt: Path | None = setting(
        "FILE", "Check the receipts in this file, and compare the last one."
    )
    public_key: Path | None = setting(
        "FILE", "The operator's public key, as printed by hammemo keys public."
    )
    rows: list[str] | None = setting(
        "REMAINING", "All rows or documents that should remain (repeatable)."
    )
    label: KnownLabel = None


@dataclass(frozen=True)
class Verdict:
    """The result of a verification.

    Parameters
    ----------
    result, sentence : str
        In a few words, and in plain ones.
    rows : int
        How many rows it was made again from.
    same : mapping of str to bool
        Which parts came out the same; empty where it was not made again.
    problem : str
        What is wrong, and the way out; empty where nothing is.
    """

    result: str
    sentence: str
    rows: int
    same: Mapping[str, bool]
    problem: str = ""


def verify_model(
    model: Model,
    evidence: VerifiedEvidence,
    reading: InputOptions,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to the rows that should remain and compare it with MODEL; check its receipt.

    There are three results. Proven: the model equals, to the byte, one that never saw other rows.
    Counts proven, layout or weights not refitted: hammemo refit is missing. Beyond the budget of
    kept rows, counts proven under the given layout: the model holds these rows alone, but its
    layout may still depend on others.

    Without --rows, a model is fitted to the rows that MODEL keeps: that shows that MODEL was
    refitted, not which rows it holds. The output names what only the operator states.

    Exit with 1 if a receipt is wrong, if the model holds other rows, or if it was not refitted.
    """
    from hammemo.cli.models import open_model

    opened = open_model(model, read_key(key_file))
    learner = opened.as_written(model)  # names of columns are part of the digest
    receipts = _read_receipts(evidence, learner.digest())
    signed = receipts[-1] if receipts else None
    if evidence.rows:
        verdict = _compare_with_rows(opened, evidence, reading, signed)
    else:
        verdict = _compare_with_kept_rows(model, learner, signed)
    statements = _list_statements(evidence, receipts)
    if as_json:
        facts = {
            "result": verdict.result,
            "sentence": verdict.sentence,
            "digest": learner.digest(),
            "rows": verdict.rows,
            "parts": learner.digest(parts=True),
            "same": verdict.same,
            "stated": statements,
        }
        if signed is not None:
            facts["receipt"] = signed.receipt.to_json()
            facts["public_key"] = signed.public_key
        print_json(facts)
    else:
        _print(verdict, learner, signed, statements)
    if verdict.problem:
        print_error(f"{model} {verdict.problem}.")
        raise typer.Exit(1)


def _compare_with_rows(
    opened: OpenModel,
    evidence: VerifiedEvidence,
    reading: InputOptions,
    signed: SignedReceipt | None,
) -> Verdict:
    """Compare the model with a new one of the remaining rows.

    Both have no names of columns: the schema has them, and finds the values of a row by name.
    """
    from hammemo.cli.batches import list_declared_labels
    from hammemo.receipts import check_documents, check_rows
    from hammemo.receipts.verifying import Result, compare_origin
    from hammemo.sources.schemas import SequenceSchema

    schema = reading.apply_to(opened.rows_schema, evidence.label)
    files = evidence.rows or []
    if isinstance(schema, SequenceSchema):
        cases = []
        documents = []
        for name, tokens in schema.documents(files, reading.file_format):
            cases.append(name)
            documents.append(tokens)
        check = check_documents(
            opened.model,
            documents,
            list_declared_labels(opened.model) if schema.chosen else None,
            cases if schema.is_log else None,
        )
    else:
        batches = schema.examples(files, reading.file_format)
        check = check_rows(opened.model, ((batch.X, batch.y) for batch in batches))
    sentence = check.sentence
    if signed is not None and check.result is not Result.PROVEN:
        other_origin = compare_origin(signed.receipt)
        if other_origin:
            sentence += (
                " The model was made elsewhere, and the last bits of weights may differ: "
                f"{other_origin}."
            )
    problem = ""
    if check.result is Result.COUNTS:
        problem = _NOT_REFITTED
    elif check.result is Result.REFUTED:
        problem = "does not hold just the rows that should remain"
    return Verdict(check.result.value, sentence, check.rows, check.same, problem=problem)


def _compare_with_kept_rows(path: Path, learner: Learner, signed: SignedReceipt | None) -> Verdict:
    """Compare the model with a new one of the rows that it keeps itself."""
    store = learner.state.kept
    if store is None or not store.holds_all:
        sentence = (
            f"{path} does not keep all rows that it has learnt, so it cannot be made again from "
            "them. Give the rows that should remain: --rows FILE."
        )
        if signed is None:
            raise ValueError(sentence)
        return Verdict("not made again", sentence, 0, {})
    digests = learner.digest(parts=True)
    refitted_digests = learner.snapshot().refit().digest(parts=True)
    same = {part: digest == refitted_digests[part] for part, digest in digests.items()}
    rows = format_count(len(store), "distinct row")
    if all(same.values()):
        sentence = f"The model is what fit makes of the {rows} that it keeps."
        return Verdict("refitted", sentence, len(store), same)
    sentence = f"The model is not what fit makes of the {rows} that it keeps."
    return Verdict("not refitted", sentence, len(store), same, problem=_NOT_REFITTED)


def _read_receipts(evidence: VerifiedEvidence, digest: str) -> list[SignedReceipt]:
    """Return the receipts of the file, checked; none if no file is named."""
    if evidence.receipt is None:
        if evidence.public_key is not None:
            raise UsageError("--public-key is for a receipt: name its file with --receipt.")
        return []
    from hammemo.receipts import ReceiptFile
    from hammemo.receipts.keys import public_key_of, require_ed25519
    from hammemo.receipts.verifying import check_receipts

    require_ed25519()
    public_key = None
    if evidence.public_key is not None:
        public_key = public_key_of(evidence.public_key.read_bytes())
    file = ReceiptFile(evidence.receipt)
    file.refuse_waiting()
    receipts = file.read()
    check_receipts(receipts, digest, public_key, where=str(evidence.receipt))
    return receipts


def _list_statements(evidence: VerifiedEvidence, receipts: list[SignedReceipt]) -> list[str]:
    """Return what is not proven, but stated by the operator."""
    statements = []
    if not evidence.rows:
        statements.append(
            "that the rows it keeps are those that should remain (check it with --rows FILE)"
        )
    if not receipts:
        return statements
    signed = receipts[-1]
    receipt = signed.receipt
    removed = f"{format_count(receipt.rows, 'row')} and {format_count(receipt.labels, 'label')}"
    statements.append(
        f"that request {receipt.request} removed {removed}, the time {receipt.time}, and the model "
        "before"
    )
    for name, expires in receipt.backups:
        statements.append(f"that the backup {name} holds the rows until {expires}")
    if receipts[0].receipt.previous is not None:
        statements.append(
            f"the receipts before line 1 of {evidence.receipt}, which are not in the file"
        )
    if evidence.public_key is None:
        statements.append(
            f"that the public key {signed.public_key} is theirs (check it with --public-key FILE)"
        )
    return statements


def _print(
    verdict: Verdict, learner: Learner, signed: SignedReceipt | None, statements: list[str]
) -> None:
    if verdict.same:
        table = Table("part", "digest", "made again from the rows")
        for part, digest in learner.digest(parts=True).items():
            if part in verdict.same:
                table.add_row(
                    part, f"{digest[:16]}…", "the same" if verdict.same[part] else "DIFFERENT"
                )
        table.add_row(
            "all", learner.digest(), "the same" if all(verdict.same.values()) else "DIFFERENT"
        )
        console().print(table)
    typer.echo(verdict.sentence)
    if signed is not None:
        typer.echo(
            f"The receipt of request {signed.receipt.request} is signed, and is about this model."
        )
    for statement in statements:
        typer.echo(f"Only stated by the operator: {statement}.")
