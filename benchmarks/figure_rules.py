"""The rules that turn what benchmarks wrote into figures, by the run of ``measured.json``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import mixed
import tables
from deletion_curve import CURVES, find_crossing_sizes, ratios
from hammemo.paper.experiments.measuring import Row, table
from sessions.data import PURCHASES
from sessions.measures import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Sets = dict[str, dict[str, Row]]
PAIR = ("accuracy", "log_loss")
VARIANTS = ("ours, in 10 pieces", "log-linear, columns", "sum vote")
"""Other settings of ours, which the command prints and the page's table leaves out."""


def lines(texts: Iterable[str]) -> list[str]:
    """Return single lines."""
    return [line for part in texts for line in part.split("\n")]


def of_learners(sets: Sets) -> dict[str, Any]:
    """Return the means of each learner that was run on all sets, and the lead of ours.

    The means are those of accuracy and log-loss.
    """
    figures: dict[str, Any] = {"sets": len(sets)}
    for learner in dict.fromkeys(learner for row in sets.values() for learner in row):
        rows = [row[learner] for row in sets.values() if learner in row]
        if len(rows) == len(sets) and all(row["log_loss"] is not None for row in rows):
            figures[learner] = (
                np.mean([[row[name] for name in PAIR] for row in rows], axis=0).round(6).tolist()
            )
    for learner in [name for name in figures if name not in ("sets", "ours")]:
        (more, loss) = figures["ours"]
        (accuracy, most) = figures[learner]
        figures[f"lead over {learner}"] = [round(more - accuracy, 6), round(most - loss, 6)]
    return figures


def prices(sets: Sets, learner: str = "LightGBM") -> Any:
    """Return the time of each fit of ours, as a multiple of that of another learner."""
    return np.array(
        [row["ours"]["fit_seconds"] / row[learner]["fit_seconds"] for row in sets.values()]
    )


def sum_fit_seconds(sets: Sets, learner: str) -> float:
    """Return the time of all fits."""
    return float(sum(row[learner]["fit_seconds"] for row in sets.values()))


def names(rows: list[Row], seed: int = 0) -> dict[str, Any]:
    """Return the figures of tables of names."""
    sets = tables.by_set([row for row in rows if row["seed"] == seed])
    comparisons = [line for line in tables.comparisons(sets) if "in 10 pieces, beside" not in line]
    shown = {
        name: {one: row[one] for one in row if one not in VARIANTS} for name, row in sets.items()
    }
    price = prices(sets)
    times = [
        {**row["ours"], "theirs": row["LightGBM"]["fit_seconds"], "price": ratio}
        for row, ratio in zip(sets.values(), price, strict=True)
    ]
    return {
        **of_learners(sets),
        "table": lines(tables.summary(shown)),
        "comparisons": [
            f"- {line}"
            for line in comparisons
            if line.startswith(("ours beside", "a tenth", "in 10"))
        ],
        "price": round(float(np.median(price)), 3),
        "highest price": round(float(price.max()), 3),
        "times": lines(
            table(
                times,
                "set | fit (s) | LightGBM's fit (s) | ratio | MiB | forget a row (µs) | "
                "a tenth forgotten, then `refit`, to the byte",
                "{set} | {fit_seconds:.2f} | {theirs:.2f} | {price:.1f} | {mebibytes:.2f} | "
                "{forget_microseconds:.0f} | {forgets_exactly:equal/NOT EQUAL}",
            )
        ),
    }


def rates(rows: list[Row]) -> dict[str, Any]:
    """Return the table of predictions a second."""
    text = "{set} | {ours_per_second:,.0f} | {LightGBM_per_second:,.0f} | {ratio:.1f}"
    return {"table": lines(table(rows, "set | predictions/s | LightGBM's | ratio", text))}


def numbers(rows: list[Row]) -> dict[str, Any]:
    """Return the figures of tables with numbers."""
    sets = tables.by_set([row for row in rows if row["seed"] == 0])
    figures = {**of_learners(sets), "table": lines(mixed.summary(sets))}
    figures["price"] = round(sum_fit_seconds(sets, "ours") / sum_fit_seconds(sets, "LightGBM"), 3)
    if "CatBoost" in figures:
        figures["price of CatBoost"] = round(
            sum_fit_seconds(sets, "CatBoost") / sum_fit_seconds(sets, "ours"), 3
        )
    return figures


def targets(rows: list[Row]) -> dict[str, Any]:
    """Return the figures of predicted numbers."""
    from regression import ONE_SPLIT_ROWS  # needs a module that Windows lacks

    sets = tables.by_set(rows)
    figures = dict[str, Any]()
    for learner in ("LightGBM", "LightGBM, early stopping"):
        ratio = np.array([row["ours"]["rmse"] / row[learner]["rmse"] for row in sets.values()])
        figures[f"RMSE, {learner}"] = round(float(np.exp(np.log(ratio).mean())), 4)
        figures[f"lower than {learner}"] = [int((ratio < 1).sum()), len(ratio)]
    price = prices(sets)
    covered = [row["ours"]["coverage"] for row in sets.values()]
    large = [row["ours"]["rows"] >= ONE_SPLIT_ROWS for row in sets.values()]
    figures["coverage"] = round(float(np.mean(covered)), 4)
    figures["least and most coverage"] = [round(min(covered), 4), round(max(covered), 4)]
    figures["price"], figures["price, large"] = (
        round(float(np.median(of)), 3) for of in (price, price[large])
    )
    columns = {
        "ours": "ours",
        "theirs": "LightGBM",
        "early": "LightGBM, early stopping",
        "ridge": "ridge",
    }
    shown = [
        {
            **row["ours"],
            **{name: row[of]["rmse"] for name, of in columns.items()},
            "fit": row["LightGBM"]["fit_seconds"],
        }
        for row in sets.values()
    ]
    text = (
        "{set} | {rows:,} | {ours:.3f} | {theirs:.3f} | {early:.3f} | {ridge:.3f} | "
        "{coverage:.3f} | "
    )
    figures["table"] = lines(
        table(
            shown,
            "table | rows | ours | LightGBM | early stopping | ridge | coverage | fit, "
            "ours / LightGBM",
            text + "{fit_seconds:.2f} / {fit:.2f} s",
        )
    )
    return figures


def deletion(rows: list[Row]) -> dict[str, Any]:
    """Return the figures of deleting a hundred rows."""
    kept = sorted((row for row in rows if row["seed"] == 0), key=lambda row: int(row["rows"]))
    whole = ratios(kept, "forget_refit")
    text = " | ".join(["{rows:,}", *(f"{{{name}:.3g|}}" for name in CURVES)])
    return {
        "rows": [{name: row[name] for name in ("rows", *CURVES)} for row in kept],
        "table": lines(table(kept, " | ".join(["rows", *CURVES.values()]), text)),
        **(
            {"crossing": int(round(find_crossing_sizes(whole)[0], -3))}
            if find_crossing_sizes(whole)
            else {}
        ),
        **{f"price at {size:,}": round(ratio, 3) for size, ratio in whole},
    }


def calm(documents: list[Row]) -> dict[str, Any]:
    """Return the share of labels that a refit changes after one row was deleted."""
    rows = [
        row
        for one in documents
        for row in one["calm"]
        if row["learner"] == "ours" and row["edit"] == -1
    ]
    text = "{table} | {rows:,} | {labels:.2f} % | {kept:.1f|} %"
    return {
        "labels": round(
            next(row["labels"] for row in rows if row["table"] == "made up, 20,000"), 3
        ),
        "table": lines(table(rows, "table | rows learnt | labels changed | nodes kept", text)),
    }


def of_sessions(name: str, rows: list[Row]) -> dict[str, Any]:
    """Return the two measures of each learner on one set."""
    (one,) = (row for row in rows if row["set"] == name)
    measures = NAMES["purchases" if name in PURCHASES else "clicks"]
    return {
        f"{row['learner']}, {measure}": round(row[place], 6)
        for row in one["learners"]
        for measure, place in zip(measures, ("first", "second"), strict=True)
    }


RULES: dict[str, Callable[[list[Row]], dict[str, Any]]] = {
    "names": names,
    "names, seed 1": lambda rows: names(rows, seed=1),
    "rates": rates,
    "numbers": numbers,
    "wheels": numbers,
    "targets": targets,
    "deletion": deletion,
    "calm": calm,
    **{name: partial(of_sessions, name) for name in ("bol", "beauty", "toys")},
}
