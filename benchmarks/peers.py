"""Log-linear votes beside scikit-learn's classifiers that see exactly the same features.

One draw of the paper's WikiText-2 task (h = 8). Every peer gets a one-hot block for each site of the kernel
(`SiteOneHot`), so all differences are those of the rule that is learnt. Strengths of regularisation and smoothing are
chosen on the validation split; the test split is asked once. Seconds are those of the final fit, on one core; "tuning"
is all fits of the choice together, which the log-linear vote does not need.

    python benchmarks/peers.py --data FOLDER [--stored 100000]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score
from sklearn.naive_bayes import CategoricalNB, MultinomialNB
from sklearn.preprocessing import OrdinalEncoder

from hammemo import Exact, LogLinear, MemoryClassifier, SiteOneHot
from hammemo.experiments.votes import H, kernel
from hammemo.experiments.wikitext import Settings, build_task, draw_sample, read_folder
from hammemo.labels import top_columns

Row = dict[str, Any]


def measured(scores: Any, classes: Any, observed: Any, *, logarithms: bool) -> Row:
    """Return top-1, top-5 and macro-F1 in percent, and the log-loss of scores that are logarithms of probabilities."""
    ranking = classes[top_columns(np.asarray(scores, np.float64), 5)]
    loss = None
    if logarithms:
        shifted = scores - scores.max(axis=1, keepdims=True)
        columns = np.searchsorted(classes, observed)
        loss = float((np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(columns)), columns]).mean())
    return {
        "top1": 100 * float((ranking[:, 0] == observed).mean()),
        "top5": 100 * float((ranking == observed[:, None]).any(axis=1).mean()),
        "macro_f1": 100 * f1_score(observed, ranking[:, 0], labels=classes, average="macro", zero_division=0),
        "log_loss": loss,
    }


def best(candidates: list[Any], features: Any, y: Any, held_out: Any, expected: Any) -> tuple[Any, float, float]:
    """Return the candidate with the highest accuracy on validation, its seconds and those of all fits."""
    outcomes = []
    for model in candidates:
        started = time.perf_counter()
        model.fit(features, y)
        outcomes.append((float(model.score(held_out, expected)), time.perf_counter() - started, model))
    chosen = max(outcomes, key=lambda outcome: outcome[0])
    return chosen[2], chosen[1], sum(seconds for _, seconds, _ in outcomes)


def peers(data: Path, stored: int, draw: int) -> list[Row]:
    """Return a row for each classifier."""
    sample = draw_sample(build_task(read_folder(data)), Settings(sizes=(stored, 2_000, 5_000)), draw)
    (X, y), (held_out, expected), (queries, observed) = (sample.split(name, H) for name in ("train", "valid", "test"))
    rows = []

    started = time.perf_counter()
    ours = MemoryClassifier(kernel(), Exact(), LogLinear()).fit(X, y)
    seconds = time.perf_counter() - started
    found = measured(ours.class_scores(queries), ours.classes_, observed, logarithms=True)
    rows.append({"model": "log-linear vote, exact counts", **found, "fit": seconds, "tuning": 0.0, "edits": "yes"})

    encoder = SiteOneHot(kernel(), normalize=False).fit(X)
    features, checked, asked = (encoder.transform(part) for part in (X, held_out, queries))
    strengths = (1e-6, 3e-6, 1e-5, 3e-5)
    grids = {
        "multinomial naive Bayes, same sites": [MultinomialNB(alpha=a) for a in (0.01, 0.1, 1.0)],
        "averaged SVM (SGD), same sites": [SGDClassifier(alpha=a, average=True, random_state=0) for a in strengths],
        "averaged logistic regression (SGD), same sites": [
            SGDClassifier("log_loss", alpha=a, average=True, random_state=0) for a in strengths
        ],
    }
    for name, candidates in grids.items():
        model, seconds, tuning = best(candidates, features, y, checked, expected)
        bayes = isinstance(model, MultinomialNB)
        scores = model.predict_joint_log_proba(asked) if bayes else model.decision_function(asked)
        found = measured(scores, model.classes_, observed, logarithms=bayes)
        rows.append({"model": name, **found, "fit": seconds, "tuning": tuning, "edits": "no"})

    numbered = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(X)
    tokens, checked, asked = (numbered.transform(part) + 1 for part in (X, held_out, queries))  # 0: unknown
    sizes = [len(values) + 1 for values in numbered.categories_]
    candidates = [CategoricalNB(alpha=a, min_categories=sizes) for a in (0.01, 0.1, 1.0)]
    model, seconds, tuning = best(candidates, tokens, y, checked, expected)
    found = measured(model.predict_joint_log_proba(asked), model.classes_, observed, logarithms=True)
    rows.append({"model": "CategoricalNB, positions", **found, "fit": seconds, "tuning": tuning, "edits": "no"})
    return rows


def main() -> None:
    """Print the table, or the rows as JSON."""
    parser = argparse.ArgumentParser(description="Log-linear votes beside scikit-learn's classifiers, same features.")
    parser.add_argument("--data", type=Path, required=True, help="folder with wiki.train.tokens, .valid and .test")
    parser.add_argument("--stored", type=int, default=100_000, help="training examples")
    parser.add_argument("--draw", type=int, default=0, help="which draw of positions")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    rows = peers(arguments.data, arguments.stored, arguments.draw)
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print("| model | top-1 | top-5 | macro-F1 | log-loss | fit (s) | tuning (s) | can forget |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        loss = "none" if row["log_loss"] is None else f"{row['log_loss']:.3f}"
        shares = " | ".join(f"{row[name]:.2f}" for name in ("top1", "top5", "macro_f1"))
        print(f"| {row['model']} | {shares} | {loss} | {row['fit']:.1f} | {row['tuning']:.1f} | {row['edits']} |")


if __name__ == "__main__":
    main()
