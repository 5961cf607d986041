"""``hammemo verify``: what a model is made of, by the rows that it keeps or by those that should remain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Final

import typer
from rich.table import Table

from hammemo.cli.console import UsageError, console, counted, print_error, print_json
from hammemo.cli.input_options import InputOptions, KnownLabel  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.options import AsJson, KeyFile, Model, read_key, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hammemo.cli.models import OpenModel
    from hammemo.estimators.learners import Learner
    from hammemo.receipts.receipt import SignedReceipt

_NOT_REFITTED: Final = "still depends on removed rows: hammemo refit chooses and fits again"


@dataclass(frozen=True)
class Given:
    """What is known beside the model."""

    receipt: Path | None = setting("FILE", "Check the receipts in this file, and compare the last one.")
    public_key: Path | None = setting("FILE", "The operator's public key, as printed by hammemo keys public.")
    rows: list[str] | None = setting("REMAINING", "All rows or documents that should remain (repeatable).")
    label: KnownLabel = None


@dataclass(frozen=True)
class Verdict:
    """What was found out about a model.

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
    model: Model, given: Given, read: InputOptions, key_file: KeyFile = None, as_json: AsJson = False
) -> None:
    """Fit a model to the rows that should remain and compare it with MODEL; check its receipt.

    There are three results. Proven: the model equals, to the byte, one that never saw other rows. Counts proven,
    layout or weights not refitted: hammemo refit is missing. Beyond the budget of kept rows, counts proven under the
    given layout: the model holds these rows alone, but its layout may still depend on others.

    Without --rows, a model is fitted to the rows that MODEL keeps: that shows that MODEL was refitted, not which rows
    it holds. The output names what only the operator states.

    Exit with 1 if a receipt is wrong, if the model holds other rows, or if it was not refitted.
    """
    from hammemo.cli.models import open_model

    opened = open_model(model, read_key(key_file))
    learner = opened.as_written(model)  # with the names of its columns, which are part of the digest
    receipts = _checked_receipts(given, learner.digest())
    signed = receipts[-1] if receipts else None
    verdict = _by_rows(opened, given, read, signed) if given.rows else _by_kept(model, learner, signed)
    stated = _stated(given, receipts)
    if as_json:
        receipt = {} if signed is None else {"receipt": signed.receipt.to_json(), "public_key": signed.public_key}
        digests = {"digest": learner.digest(), "rows": verdict.rows, "parts": learner.digest(parts=True)}
        found = {"result": verdict.result, "sentence": verdict.sentence, **digests, "same": verdict.same}
        print_json({**found, "stated": stated, **receipt})
    else:
        _print(verdict, learner, signed, stated)
    if verdict.problem:
        print_error(f"{model} {verdict.problem}.")
        raise typer.Exit(1)


def _by_rows(opened: OpenModel, given: Given, read: InputOptions, signed: SignedReceipt | None) -> Verdict:
    """Compare the model with one of the remaining rows; both without the names of columns, by which rows are read."""
    from hammemo.cli.batches import declared
    from hammemo.receipts import check_documents, check_rows
    from hammemo.receipts.verifying import Result, compare_origin
    from hammemo.sources.schemas import SequenceSchema

    schema, files = read.changed(opened.rows_schema, given.label), given.rows or []
    if isinstance(schema, SequenceSchema):
        named = list(schema.documents(files, read.file_format))
        cases = [name for name, _ in named] if schema.is_log else None
        classes = sorted(declared(opened.model)) if schema.chosen else None
        check = check_documents(opened.model, [tokens for _, tokens in named], classes, cases)
    else:
        check = check_rows(opened.model, ((batch.X, batch.y) for batch in schema.examples(files, read.file_format)))
    sentence, elsewhere = check.sentence, "" if signed is None else compare_origin(signed.receipt)
    if elsewhere and check.result is not Result.PROVEN:
        sentence += f" The model was made elsewhere, and the last bits of weights may differ: {elsewhere}."
    problem = {Result.COUNTS: _NOT_REFITTED, Result.REFUTED: "does not hold just the rows that should remain"}
    return Verdict(check.result.value, sentence, check.rows, check.same, problem.get(check.result, ""))


def _by_kept(path: Path, learner: Learner, signed: SignedReceipt | None) -> Verdict:
    """Make the model again from the rows that it keeps itself."""
    kept = learner.state.kept
    if kept is None or not kept.holds_all:
        sentence = f"{path} does not keep all rows that it has learnt, so it cannot be made again from them."
        way_out = "Give the rows that should remain: --rows FILE."
        if signed is None:
            raise ValueError(f"{sentence} {way_out}")
        return Verdict("not made again", f"{sentence} {way_out}", 0, {})
    mine, again = learner.digest(parts=True), learner.snapshot().refit().digest(parts=True)
    same, rows = {part: mine[part] == again[part] for part in mine}, counted(len(kept), "distinct row")
    if all(same.values()):
        return Verdict("refitted", f"The model is what fit makes of the {rows} that it keeps.", len(kept), same)
    sentence = f"The model is not what fit makes of the {rows} that it keeps."
    return Verdict("not refitted", sentence, len(kept), same, _NOT_REFITTED)


def _checked_receipts(given: Given, digest: str) -> list[SignedReceipt]:
    """Return the receipts of the file, checked; none where no file is given."""
    if given.receipt is None:
        if given.public_key is not None:
            raise UsageError("--public-key is for a receipt: name its file with --receipt.")
        return []
    from hammemo.receipts import ReceiptFile
    from hammemo.receipts.keys import public_key_of, require_ed25519
    from hammemo.receipts.verifying import check_receipts

    require_ed25519()
    key = None if given.public_key is None else public_key_of(given.public_key.read_bytes())
    file = ReceiptFile(given.receipt)
    file.refuse_waiting()
    receipts = file.read()
    check_receipts(receipts, digest, key, where=str(given.receipt))
    return receipts


def _stated(given: Given, receipts: list[SignedReceipt]) -> list[str]:
    """Return what is not proven, but stated by the operator."""
    found = [] if given.rows else ["that the rows it keeps are those that should remain (check it with --rows FILE)"]
    if not receipts:
        return found
    signed, receipt = receipts[-1], receipts[-1].receipt
    removed = f"{counted(receipt.rows, 'row')} and {counted(receipt.labels, 'label')}"
    found.append(f"that request {receipt.request} removed {removed}, the time {receipt.time}, and the model before")
    found += [f"that the backup {name} holds the rows until {expires}" for name, expires in receipt.backups]
    if receipts[0].receipt.previous is not None:
        found.append(f"the receipts before line 1 of {given.receipt}, which are not in the file")
    if given.public_key is None:
        found.append(f"that the public key {signed.public_key} is theirs (check it with --public-key FILE)")
    return found


def _print(verdict: Verdict, learner: Learner, signed: SignedReceipt | None, stated: list[str]) -> None:
    if verdict.same:
        table = Table("part", "digest", "made again from the rows")
        for part, digest in learner.digest(parts=True).items():
            if part in verdict.same:
                table.add_row(part, f"{digest[:16]}…", "the same" if verdict.same[part] else "DIFFERENT")
        table.add_row("all", learner.digest(), "the same" if all(verdict.same.values()) else "DIFFERENT")
        console().print(table)
    typer.echo(verdict.sentence)
    if signed is not None:
        typer.echo(f"The receipt of request {signed.receipt.request} is signed, and is about this model.")
    for what in stated:
        typer.echo(f"Only stated by the operator: {what}.")
