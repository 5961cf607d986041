"""``hammemo refit``, and ``--refit`` of the commands that change a model.

The weights of a fitted vote depend on forgotten examples until they are fitted again. A model keeps
a sample of its examples for this (:mod:`hammemo.stores.kept`), so no data is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.cli.console import format_count, print_result
from hammemo.cli.options import ModelChange  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.receipts import ReceiptOptions  # noqa: TC001  (read at run time)

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.edits.state import AnyState
    from hammemo.estimators.learners import Learner


_COMPARED_ROWS: Final = 1000
"""Kept rows whose labels are compared: the last ones in the order of hashes, so at random."""


def refit_model(change: ModelChange, recording: ReceiptOptions) -> None:
    """Choose sites and fit weights again from the rows that MODEL keeps; no data is needed.

    After hammemo forget and hammemo refit, the model is the one that never learnt the forgotten
    examples.
    """
    with recording.evidence(change) as evidence, change.open() as opened:
        if evidence.is_done(opened):
            return
        refit_facts, sentence = refit(opened.learner(change.model), change.model)
        has_changed = refit_facts["weights"] != "none" or "layout" in refit_facts
        if has_changed or change.out is not None or evidence.is_signed:
            evidence.write(opened)
            sentence = f"{sentence} Written to {change.target}"
        else:
            sentence = f"{sentence} {change.model} is as it was."
    changes = ""
    if "changed_labels" in refit_facts:
        percent = 100 * refit_facts["changed_labels"]
        changes = f"The refit changed {percent:.1f} % of the labels of the last kept rows."
    facts = {**refit_facts, "out": str(change.target), **evidence.facts}
    print_result(facts, sentence, changes, evidence.sentence, as_json=change.as_json)


def refit(learner: Learner, path: Path) -> tuple[dict[str, Any], str]:
    """Fit the vote of a model again, if it has weights; errors call the model `path`.

    Return, as facts and as a sentence, what became of the weights: "changed", "unchanged", or
    "none" where the vote has none; and the share of labels that changed on the last kept rows,
    unless rows are not kept or columns changed.
    """
    check_can_refit(learner, path)
    n_kept = format_count(len(learner.state.kept or ()), "kept example")
    before: AnyState = learner.state
    if not before.vote.fits_weights:
        return _choose_layout_again(learner)
    labels = learner.predict_kept_rows(_COMPARED_ROWS)
    after: AnyState = learner.refit().state
    facts, sentence = _describe_weights(n_kept, is_same=after.vote.is_fitted_like(before.vote))
    if not after.vote.state():
        return facts, f"There are too few examples to fit weights to ({n_kept}): all are the same."
    # The same rows are other tokens where columns have other kinds: then the labels do not compare.
    if labels is not None and after.columns.kinds == before.columns.kinds:
        labels_after = learner.predict_kept_rows(_COMPARED_ROWS)
        facts["changed_labels"] = float(np.mean(labels_after != labels))
    return facts, sentence


def _choose_layout_again(learner: Learner) -> tuple[dict[str, Any], str]:
    """Refit a model whose vote has no weights: kinds of columns and cuts depend on rows, too."""
    if learner.state.kept is None:
        return {"weights": "none"}, "The vote has no weights to fit."
    before = learner.digest(parts=True)["layout"]
    after = learner.refit().digest(parts=True)["layout"]
    n_kept = format_count(len(learner.state.kept), "kept example")
    if after == before:
        facts = {"weights": "none", "layout": "unchanged"}
        return facts, f"The layout was chosen by {n_kept} and is as it was."
    facts = {"weights": "none", "layout": "changed"}
    return facts, f"The layout was chosen by {n_kept} and has changed."


def _describe_weights(n_kept: str, *, is_same: bool) -> tuple[dict[str, Any], str]:
    if is_same:
        sentence = f"The weights were fitted to {n_kept} and are as they were."
        return {"weights": "unchanged"}, sentence
    return {"weights": "changed"}, f"The weights were fitted to {n_kept} and have changed."


def check_can_refit(learner: Learner, path: Path) -> None:
    """Refuse a model with weights that keeps nothing to fit them to."""
    if learner.state.kept is not None or not learner.state.vote.fits_weights:
        return
    raise ValueError(
        f"{path} keeps no sample of its examples, so its weights cannot be fitted again; it is as "
        "it was. Fit it again with hammemo fit, which keeps one, or "
        f"{learner.way_to_fit_weights}."
    )
