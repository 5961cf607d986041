"""``hammemo evaluate``: how good a model of these files would be on data it has not learned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from rich.table import Column, Table

from hammemo.cli.console import (
    UsageError,
    check_writable,
    console,
    format_count,
    print_json,
    progress_bar,
    say_where_from,
)
from hammemo.cli.input_options import (  # noqa: TC001  (read at run time)
    NewInputOptions,
    SequenceOptions,
)
from hammemo.cli.learn import set_table_parameters
from hammemo.cli.model_options import ModelOptions  # noqa: TC001  (read at run time)
from hammemo.cli.options import AsJson, argument, setting

if TYPE_CHECKING:
    from hammemo.cli.model_columns import InputColumns
    from hammemo.estimators.learners import Learner
    from hammemo.evaluation.measures import Evaluation, NumberEvaluation
    from hammemo.evaluation.splits import DocumentMaterial, Material, Split, TableMaterial
    from hammemo.sources.schemas import Schema, SequenceSchema, TableSchema

_DEFAULT_FOLDS: Final = 5
_DEFAULT_SHARE: Final = 0.2
"""The share that is held out if only --time is given."""


@dataclass(frozen=True)
class MeasuringOptions:
    """What is held out, and what is measured and drawn beside the model."""

    folds: int | None = setting(
        "N", "The number of folds; each is predicted from the others.", "5", min=2
    )
    holdout: float | None = setting(
        "SHARE",
        "Hold out this share instead: a random one, with --time the latest.",
        "0.2 with --time",
    )
    plot: Path | None = setting(
        "FILE", "Draw confusion and calibration, or predictions and coverage: .png, .svg or .pdf."
    )
    peer: str | None = setting(
        "NAME", "Measure another learner, too: lightgbm (pip install lightgbm)."
    )

    def check(self, schema: Schema) -> None:
        """Refuse what cannot be done, before any work."""
        if self.folds is not None and self.holdout is not None:
            raise UsageError(
                "--folds and --holdout both choose the held-out data: give one of them."
            )
        if self.plot is not None:
            _check_figure(self.plot)
        if self.peer is not None:
            _check_peer(self.peer, schema)

    def peers(self, model: Learner) -> dict[str, Any]:
        """Return the learner that is to be measured, too, by its name."""
        from hammemo.evaluation.peers import LIGHTGBM, NAMES

        if self.peer is None:
            return {}
        peer = LIGHTGBM[model.predicts](numeric=model.numeric, ordered=model.ordered)
        return {NAMES[self.peer]: peer}


def _check_figure(plot: Path) -> None:
    """Refuse a file that no figure can be written to."""
    if plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UsageError(f"--plot {plot}: the name of a figure ends in .png, .svg or .pdf.")
    check_writable(plot, "--plot")


def _check_peer(peer: str, schema: Schema) -> None:
    """Refuse a learner that is not known, cannot learn this input, or is not installed."""
    from hammemo.evaluation.peers import NAMES, library
    from hammemo.sources.schemas import TableSchema

    if peer not in NAMES:
        raise UsageError(f"--peer {peer} is not known: use {', '.join(NAMES)}.")
    if not isinstance(schema, TableSchema):
        raise UsageError(
            f"--peer {peer} learns rows of a table: leave it out for documents and cases."
        )
    library()  # raises if it is not installed


def evaluate_files(
    files: Annotated[
        list[str], argument("FILE", "All the data, as for fit; - for standard input.")
    ],
    *,
    measuring: MeasuringOptions,
    reading: NewInputOptions,
    sequences: SequenceOptions,
    parameters: ModelOptions,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy on held-out data, compared with naive Bayes and the majority.

    The options are those of fit. Rows of a table are split by label (stratified); documents and
    cases stay whole. All examples are held in memory. With --target: RMSE, MAE, R², pinball loss
    and coverage of intervals, compared with the mean.
    """
    from hammemo.sources.reading_notes import name_columns_in_warnings
    from hammemo.sources.schemas import TableSchema

    if parameters.layout is not None:
        raise UsageError(
            f"--layout {parameters.layout}: that model may have seen the held-out data. Leave it "
            "out."
        )
    schema, classes = sequences.refine(reading.schema())
    measuring.check(schema)
    model, _ = parameters.build_learners(schema)
    say_where_from(files)
    material: Material
    column_names = None
    if isinstance(schema, TableSchema):
        set_table_parameters(model, schema)
        rows = _read_rows(schema, files, reading.file_format)
        material = rows.material
        column_names = rows.column_names
        model.set_params(**rows.columns.parameters)
    else:
        material = _read_documents(schema, files, reading.file_format, classes)
    split = _split(material, measuring.folds, measuring.holdout, parameters.seed)
    from hammemo.evaluation.measures import evaluate, evaluate_numbers

    measures: dict[str, Any] = {"labels": evaluate, "numbers": evaluate_numbers}
    measure = measures[model.predicts]
    peers = measuring.peers(model)
    with progress_bar("Evaluating") as on_progress, name_columns_in_warnings(column_names):
        evaluation = measure(model, material, split, on_progress=on_progress, peers=peers)
    if measuring.plot is not None:
        evaluation.plot().savefig(measuring.plot, dpi=150)
    if as_json:
        print_json(evaluation.to_dict())
        return
    _print(evaluation)
    if measuring.plot is not None:
        typer.echo(f"Drawn in {measuring.plot}")


class _EvaluatedRows(NamedTuple):
    """All rows of tables, the names of their columns, and what these hold."""

    material: TableMaterial
    column_names: tuple[str, ...] | None
    columns: InputColumns


def _read_rows(schema: TableSchema, files: list[str], file_format: str | None) -> _EvaluatedRows:
    """Return all rows of tables; refuse files without a row."""
    from hammemo.cli.model_columns import InputColumns
    from hammemo.evaluation.splits import TableMaterial
    from hammemo.tokens.contexts import join_tokens

    contexts: list[Any] = []
    labels: list[Any] = []
    moments: list[Any] = []
    n_rows = 0
    last_batch = None
    with progress_bar("Reading") as on_progress:
        for batch in schema.examples(files, file_format):
            contexts.append(batch.X)
            labels.append(batch.y)
            if schema.time is not None and batch.batch is not None:
                moments += schema.moments(batch.batch)
            n_rows += len(batch.y)
            last_batch = batch
            on_progress(n_rows, None)
    if last_batch is None or not n_rows:
        raise ValueError("There is nothing to evaluate: the input has no row beyond its header.")
    material = TableMaterial(
        join_tokens(contexts),
        join_tokens(labels),
        None if schema.time is None else moments,
        is_target=schema.is_target,
    )
    # What columns hold is settled before the first batch, so any batch says it.
    return _EvaluatedRows(material, last_batch.columns, InputColumns.of_batch(last_batch))


def _read_documents(
    schema: SequenceSchema,
    files: list[str],
    file_format: str | None,
    classes: list[Any] | int | None,
) -> DocumentMaterial:
    """Return all documents of files that are long enough to learn or to predict a token.

    `classes` are the tokens that are predicted; or how many of the most frequent ones.
    """
    from hammemo.evaluation.splits import DocumentMaterial
    from hammemo.tokens.contexts import windows
    from hammemo.tokens.labels import most_frequent_labels

    is_padded = schema.short == "pad"
    longest_useless = 0 if is_padded else schema.h
    documents: list[Any] = []
    moments: list[Any] = []
    with progress_bar("Reading") as on_progress:
        for timed in schema.documents_with_times(files, file_format):
            if len(timed.tokens) > longest_useless:
                documents.append(timed.tokens)
                moments.append(timed.time)
            on_progress(len(documents), None)
    if not documents:
        reason = f"no document has more than h={schema.h} tokens"
        if is_padded:
            reason = "no document has a token"
        raise ValueError(f"There is nothing to evaluate: {reason}.")
    if isinstance(classes, int):
        short: Any = schema.short
        _, next_tokens = windows(documents, schema.h, short=short)
        classes = most_frequent_labels(next_tokens, classes)
    return DocumentMaterial(
        documents,
        schema.h,
        schema.short,
        classes,
        moments=None if schema.time is None else moments,
        unit="cases" if schema.is_log else "documents",
    )


def _split(material: Material, n_folds: int | None, share: float | None, seed: int) -> Split:
    """Split as the options say; --time alone holds out the last fifth."""
    from hammemo.evaluation import splits

    if n_folds is not None:
        return splits.folds(material, n_folds, seed)
    if material.moments is not None:
        return splits.last_in_time(material, _DEFAULT_SHARE if share is None else share)
    if share is not None:
        return splits.holdout(material, share, seed)
    return splits.folds(material, _DEFAULT_FOLDS, seed)


def _print(evaluation: Evaluation | NumberEvaluation) -> None:
    n_labels = getattr(evaluation, "n_labels", None)
    labels = ""
    if n_labels is not None:
        labels = f"{format_count(n_labels, 'label')}; "
    typer.echo(
        f"{format_count(evaluation.n_asked, 'answer')}, {evaluation.split}; {labels}"
        f"{evaluation.n_learnt:,.0f} examples learnt in {evaluation.fit_seconds:.1f} s per fit."
    )
    figures = {name: _format_measures(measures) for name, measures in evaluation.measures.items()}
    # A figure that no learner has is left out; one that some have is a dash for the others.
    all_titles = next(iter(figures.values()))
    titles = [
        title for title in all_titles if any(cells[title] is not None for cells in figures.values())
    ]
    table = Table("", *(Column(title, justify="right") for title in titles))
    for name, cells in figures.items():
        table.add_row(name, *(cells[title] or _format(None, "") for title in titles))
    console().print(table)
    n_not_learnt = getattr(evaluation, "n_not_learnt", 0)
    if n_not_learnt:
        typer.echo(
            f"{format_count(n_not_learnt, 'answer')} could not be right, because the label was not "
            "learnt: counted as wrong, and left out of the log-loss."
        )


def _format_measures(measures: Any) -> dict[str, str | None]:
    """Return the figures of one learner by their titles; None for optional ones that it lacks."""
    if not hasattr(measures, "accuracy"):
        return {
            "RMSE": _format(measures.rmse, ".4g"),
            "MAE": _format(measures.mae, ".4g"),
            "R²": _format(measures.r2, ".4g"),
            "pinball": _format(measures.pinball, ".4g"),
            "in 80 % interval": _format(measures.coverage, ".4g"),
        }
    accuracy = _format(measures.accuracy, ".4f")
    if measures.accuracy_sd is not None:
        accuracy = f"{accuracy} ± {measures.accuracy_sd:.4f}"
    optional: dict[str, float | None] = {
        "top-5": measures.top_5,
        "ROC AUC": measures.roc_auc,
        "top-20": measures.top_20,
        "MRR@20": measures.reciprocal_rank_20,
    }
    return {
        "accuracy": accuracy,
        **{
            title: None if value is None else _format(value, ".4f")
            for title, value in optional.items()
        },
        "log-loss": _format(measures.log_loss, ".4f"),
        "calibration error": _format(measures.calibration_error, ".4f"),
    }


def _format(number: float | None, spec: str) -> str:
    if number is None:
        return "none"
    return format(number, spec)
