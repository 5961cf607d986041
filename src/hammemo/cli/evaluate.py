"""``hammemo evaluate``: how good a model of these files would be on what it has not learnt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Column, Table

from hammemo.cli.console import UsageError, check_writable, console, counted, print_json, progress_bar, say_where_from
from hammemo.cli.input_options import NewInputOptions, SequenceOptions  # noqa: TC001  (read at run time)
from hammemo.cli.learn import set_table_parameters
from hammemo.cli.model_options import ModelOptions  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.options import AsJson, argument, setting

if TYPE_CHECKING:
    from hammemo.estimators.learners import Learner
    from hammemo.evaluation.measures import Evaluation, NumberEvaluation
    from hammemo.evaluation.splits import DocumentMaterial, Material, Split, TableMaterial
    from hammemo.sources.schemas import Schema, SequenceSchema, TableSchema

_FOLDS: Final = 5
_LAST: Final = 0.2
"""The share that is held out if only --time is given."""


@dataclass(frozen=True)
class MeasuringOptions:
    """What is held out, and what is measured and drawn beside the model."""

    folds: int | None = setting("N", "The number of folds; each is predicted from the others.", "5", min=2)
    holdout: float | None = setting(
        "SHARE", "Hold out this share instead: a random one, with --time the latest.", "0.2 with --time"
    )
    plot: Path | None = setting(
        "FILE", "Draw confusion and calibration, or predictions and coverage: .png, .svg or .pdf."
    )
    peer: str | None = setting("NAME", "Measure another learner, too: lightgbm (pip install lightgbm).")

    def check(self, schema: Schema) -> None:
        """Refuse what cannot be done, before any work."""
        if self.folds is not None and self.holdout is not None:
            raise UsageError("--folds and --holdout both choose the held-out data: give one of them.")
        if self.plot is not None:
            if self.plot.suffix.lower() not in (".png", ".svg", ".pdf"):
                raise UsageError(f"--plot {self.plot}: the name of a figure ends in .png, .svg or .pdf.")
            check_writable(self.plot, "--plot")
        if self.peer is None:
            return
        from hammemo.evaluation.peers import NAMES, library

        if self.peer not in NAMES:
            raise UsageError(f"--peer {self.peer} is not known: use {', '.join(NAMES)}.")
        if hasattr(schema, "h"):
            raise UsageError(f"--peer {self.peer} learns rows of a table: leave it out for documents and cases.")
        library()

    def peers(self, model: Learner, is_target: bool) -> dict[str, Any]:
        """Return the learner that is to be measured, too, by its name."""
        from hammemo.evaluation.peers import NAMES, LightGBM

        if self.peer is None:
            return {}
        return {NAMES[self.peer]: LightGBM(is_target, model.get_params(deep=False)["numeric"])}


def evaluate_files(
    files: Annotated[list[str], argument("FILE", "All the data, as for fit; - for standard input.")],
    *,
    measured: MeasuringOptions,
    given: NewInputOptions,
    sequences: SequenceOptions,
    parameters: ModelOptions,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy on held-out data, compared with naive Bayes and the majority.

    The options are those of fit. Rows of a table are split by label (stratified); documents and cases stay whole. All
    examples are held in memory. With --target: RMSE, MAE, R², pinball loss and coverage of intervals, compared with the
    mean.
    """
    from hammemo.sources.reading_notes import name_columns_in_warnings
    from hammemo.sources.schemas import TableSchema

    if parameters.layout is not None:
        raise UsageError(f"--layout {parameters.layout}: that model may have seen the held-out data. Leave it out.")
    schema, classes = sequences.refined(given.schema())
    measured.check(schema)
    model, _ = parameters.learners(schema)
    say_where_from(files)
    material: Material
    columns = None
    if isinstance(schema, TableSchema):
        material, columns = _rows(model, schema, files, given.file_format)
    else:
        material = _documents(schema, files, given.file_format, classes)
    split = _split(material, measured.folds, measured.holdout, parameters.seed)
    from hammemo.evaluation.measures import evaluate, evaluate_numbers

    is_target = getattr(material, "is_target", False)
    measure: Any = evaluate_numbers if is_target else evaluate
    with progress_bar("Evaluating") as tell, name_columns_in_warnings(columns):
        found = measure(model, material, split, tell, measured.peers(model, is_target))
    if measured.plot is not None:
        found.plot().savefig(measured.plot, dpi=150)
    if as_json:
        print_json(found.to_dict())
        return
    _print(found)
    if measured.plot is not None:
        typer.echo(f"Drawn in {measured.plot}")


def _rows(
    model: Learner, schema: TableSchema, files: list[str], file_format: str | None
) -> tuple[TableMaterial, tuple[str, ...] | None]:
    """Return all rows of tables and the names of their columns, and tell the model which columns are numbers."""
    from hammemo.evaluation.splits import TableMaterial
    from hammemo.sources.kinds import ordered_columns
    from hammemo.tokens.contexts import joined

    set_table_parameters(model, schema)
    parts: list[tuple[Any, Any]] = []
    moments: list[Any] = []
    found = 0
    columns = None
    with progress_bar("Reading") as tell:
        for batch in schema.examples(files, file_format):
            parts.append((batch.X, batch.y))
            columns = batch.columns
            model.set_params(numeric=ordered_columns(batch.kinds))
            if schema.time is not None and batch.batch is not None:
                moments += schema.moments(batch.batch)
            found += len(batch.y)
            tell(found, None)
    if not found:
        raise ValueError("There is nothing to evaluate: the input has no row beyond its header.")
    X, y = joined([X for X, _ in parts]), joined([y for _, y in parts])
    material = TableMaterial(X, y, None if schema.time is None else moments, is_target=schema.is_target)
    return material, columns


def _documents(schema: SequenceSchema, files: list[str], file_format: str | None, classes: Any) -> DocumentMaterial:
    """Return all documents of files."""
    from hammemo.evaluation.splits import DocumentMaterial
    from hammemo.tokens.contexts import windows
    from hammemo.tokens.labels import most_frequent_labels

    held: list[tuple[Any, Any]] = []
    with progress_bar("Reading") as tell:
        for _, tokens, moment in schema.timed_documents(files, file_format):
            if len(tokens) > (0 if schema.short == "pad" else schema.h):  # others have nothing to learn or to ask
                held.append((tokens, moment))
            tell(len(held), None)
    if not held:
        raise ValueError(f"There is nothing to evaluate: no document has more than h={schema.h} tokens.")
    documents = [tokens for tokens, _ in held]
    if isinstance(classes, int):
        short: Any = schema.short
        classes = most_frequent_labels(windows(documents, schema.h, short=short)[1], classes)
    moments = None if schema.time is None else [moment for _, moment in held]
    unit = "cases" if schema.is_log else "documents"
    return DocumentMaterial(documents, schema.h, schema.short, classes, moments, unit)


def _split(material: Material, number: int | None, share: float | None, seed: int) -> Split:
    """Return what the options mean; --time alone means the last fifth."""
    from hammemo.evaluation import splits

    if number is None and (share is not None or material.moments is not None):
        if material.moments is not None:
            return splits.last_in_time(material, _LAST if share is None else share)
        return splits.holdout(material, _LAST if share is None else share, seed)
    return splits.folds(material, _FOLDS if number is None else number, seed)


def _print(found: Evaluation | NumberEvaluation) -> None:
    n_labels, n_not_learnt = getattr(found, "n_labels", None), getattr(found, "n_not_learnt", 0)
    labels = "" if n_labels is None else f"{counted(n_labels, 'label')}; "
    typer.echo(
        f"{counted(found.n_asked, 'answer')}, {found.split}; {labels}"
        f"{found.n_learnt:,.0f} examples learnt in {found.fit_seconds:.1f} s per fit."
    )
    shown = {name: _cells(measures) for name, measures in found.measures.items()}
    table = Table("", *(Column(title, justify="right") for title in next(iter(shown.values()))))
    for name, cells in shown.items():
        table.add_row(name, *cells.values())
    console().print(table)
    if n_not_learnt:
        typer.echo(
            f"{counted(n_not_learnt, 'answer')} could not be right, because the label was not learnt: counted as "
            "wrong, and left out of the log-loss."
        )


def _cells(measures: Any) -> dict[str, str]:
    """Return the figures of one learner by their titles."""
    if not hasattr(measures, "accuracy"):
        titles = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "pinball": "pinball", "coverage": "in 80 % interval"}
        found = {title: getattr(measures, name) for name, title in titles.items()}
        return {title: "none" if number is None else f"{number:.4g}" for title, number in found.items()}
    spread = "" if measures.accuracy_sd is None else f" ± {measures.accuracy_sd:.4f}"
    titles = {"top_5": "top-5", "roc_auc": "ROC AUC", "top_20": "top-20", "reciprocal_rank_20": "MRR@20"}
    cells = {title: getattr(measures, name) for name, title in titles.items() if getattr(measures, name) is not None}
    cells |= {"log-loss": measures.log_loss, "calibration error": measures.calibration_error}
    texts = {title: "none" if number is None else f"{number:.4f}" for title, number in cells.items()}
    return {"accuracy": f"{measures.accuracy:.4f}{spread}", **texts}
