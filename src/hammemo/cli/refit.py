"""``hammemo refit``, and ``--refit`` of the commands that change a model: fit the vote to what the model keeps.

The weights of a fitted vote depend on forgotten examples until they are fitted again. A model keeps a sample of its
examples for this (:mod:`hammemo.stores.kept`), so no data is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.cli.console import counted, print_result
from hammemo.cli.options import ModelChange  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.receipts import ReceiptOptions  # noqa: TC001  (typer reads annotations at run time)

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.edits.state import AnyState
    from hammemo.estimators.learners import Learner


_ASKED_ROWS: Final = 1000
"""Kept rows whose labels are compared: the last ones, and these lie in the order of their hashes."""


def refit_model(change: ModelChange, recording: ReceiptOptions) -> None:
    """Choose sites and fit weights again from the rows that MODEL keeps; no data is needed.

    After hammemo forget and hammemo refit, the model is the one that never learnt the forgotten examples.
    """
    with recording.evidence(change) as evidence, change.opened() as opened:
        if evidence.is_done(opened):
            return
        refitted, said = refit(opened.learner(change.model), change.model)
        writes = refitted["weights"] != "none" or "layout" in refitted or change.out is not None or evidence.is_signed
        if writes:
            evidence.write(opened)
    done = f"{said} {f'Written to {change.target}' if writes else f'{change.model} is as it was.'}"
    share = refitted.get("changed_labels")
    changed = "" if share is None else f"The refit changed {100 * share:.1f} % of the labels of the last kept rows."
    facts = {**refitted, "out": str(change.target), **evidence.facts}
    print_result(facts, done, changed, evidence.sentence, as_json=change.as_json)


def refit(learner: Learner, path: Path) -> tuple[dict[str, Any], str]:
    """Fit the vote of a model again, if it has weights; `path` is how a refusal calls the model.

    Return, as facts and as a sentence, what became of the weights: "changed", "unchanged", or "none" where the vote has
    none; and the share of labels that changed on the last kept rows, unless rows are not kept or columns changed.
    """
    check_can_refit(learner, path)
    kept = counted(len(learner.state.kept or ()), "kept example")
    before: AnyState = learner.state
    if not before.vote.fits_weights:
        return _choose_layout_again(learner)
    labels = learner.label_kept_rows(_ASKED_ROWS)
    after: AnyState = learner.refit().state
    facts, sentence = _fitted_to(kept, is_same=after.vote.is_fitted_like(before.vote))
    if not after.vote.state():
        return facts, f"There are too few examples to fit weights to ({kept}): all are the same."
    if labels is not None and after.columns.kinds == before.columns.kinds:
        labels_after = learner.label_kept_rows(_ASKED_ROWS)
        facts["changed_labels"] = float(np.mean(labels_after != labels))
    return facts, sentence


def _choose_layout_again(learner: Learner) -> tuple[dict[str, Any], str]:
    """Refit a model whose vote has no weights: its kinds of columns and its cuts still depend on rows."""
    if learner.state.kept is None:
        return {"weights": "none"}, "The vote has no weights to fit."
    before = learner.digest(parts=True)["layout"]
    after = learner.refit().digest(parts=True)["layout"]
    kept = counted(len(learner.state.kept), "kept example")
    if after == before:
        return {"weights": "none", "layout": "unchanged"}, f"The layout was chosen by {kept} and is as it was."
    return {"weights": "none", "layout": "changed"}, f"The layout was chosen by {kept} and has changed."


def _fitted_to(kept: str, *, is_same: bool) -> tuple[dict[str, Any], str]:
    weights, how = ("unchanged", "are as they were") if is_same else ("changed", "have changed")
    return {"weights": weights}, f"The weights were fitted to {kept} and {how}."


def check_can_refit(learner: Learner, path: Path) -> None:
    """Refuse a model with weights that keeps nothing to fit them to."""
    if learner.state.kept is not None or not learner.state.vote.fits_weights:
        return
    raise ValueError(
        f"{path} keeps no sample of its examples, so its weights cannot be fitted again; it is as it was. Fit it "
        f"again with hammemo fit, which keeps one, or {learner.way_to_fit_weights}."
    )
