"""The paper's model at the size it is defined for: every token of the vocabulary is a candidate.

All eligible training positions of WikiText-2 (h = 8, 33,278 labels) are learnt by the exact classifier and by MeMo;
test positions are drawn without regard to their token. Reported: agreement with the exact winner where it is unique,
top-1, top-5, the size of the state, and the seconds to learn and to answer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.memories import Exact
from hammemo.models.classifiers import MemoryClassifier
from hammemo.paper.experiments.measuring import generator, seconds, unseen
from hammemo.paper.experiments.wikitext import LONGEST, Judge, Task
from hammemo.paper.memo import MeMoClassifier

if TYPE_CHECKING:
    from collections.abc import Callable


H = 8


def run(
    task: Task,
    dimensions: tuple[int, ...] = (1024, 4096),
    n_train: int | None = None,
    n_test: int = 5000,
    seed: int = 20270,
    on_progress: Callable[[int, int], None] = unseen,
) -> list[dict[str, Any]]:
    """Return one row for the exact classifier and one for each dimension of MeMo."""
    rng = generator(seed, "full vocabulary")
    X, y = task.contexts["train"][:n_train, LONGEST - H :], task.tokens["train"][:n_train]
    asked = rng.choice(len(task.tokens["test"]), n_test, replace=False)
    queries, observed = task.contexts["test"][asked, LONGEST - H :], task.tokens["test"][asked]
    models: list[tuple[str, MemoryClassifier]] = [("exact", MemoryClassifier("positional", memory=Exact(), vote="sum"))]
    models += [(f"MeMo, d = {d}", MeMoClassifier(d, random_state=seed)) for d in dimensions]
    rows: list[dict[str, Any]] = []
    judge: Judge | None = None
    for done, (name, model) in enumerate(models, 1):
        learn = seconds(model.partial_fit, X, y, np.arange(len(task.vocabulary)), clock=time.perf_counter)
        judge = Judge.of(model, queries, observed) if judge is None else judge
        started = time.perf_counter()
        ranking = model.top_k(queries, 5)
        answer = time.perf_counter() - started
        measures = judge.measures(ranking)
        rows.append(
            {
                "method": name,
                "labels": len(model.classes_),
                "examples": len(y),
                "queries": n_test,
                **{measure: measures[measure] for measure in ("agreement", "top1", "top5")},
                "state_mebibytes": _state_bytes(model) / 2**20,
                "learn_seconds": learn,
                "answer_seconds": answer,
                "unambiguous": 100 * float(judge.unambiguous.mean()),
            }
        )
        on_progress(done, len(models))
    return rows


def _state_bytes(model: MemoryClassifier) -> int:
    """Return what answering needs: the canonical counts, or in float32 the projected codes, C and Z."""
    if not isinstance(model, MeMoClassifier):
        return model.memory_.nbytes
    d, d_h = model.memory_.codes.d, model.memory_.codes.d_h
    return int(4 * (len(model.memory_.input_codes.rows) * d_h + model.memory_.C.size + len(model.classes_) * d))
