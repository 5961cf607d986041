"""
Are the probabilities honest?
=============================

With a log-linear vote a model gives probabilities. They are honest if, of the answers
given with 70 %, about 70 % are right. A reliability diagram shows it. Naive Bayes on
the same positions stands beside it: it takes every position for news, also where one
repeats another, and is too sure of itself.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.naive_bayes import CategoricalNB

from hammemo import Exact, LogLinear, MemoryClassifier

# %%
# Four columns of a table, each with eight values, say something about the label. They
# are followed by copies of themselves, as codes are by their names in many tables.

rng = np.random.default_rng(4)
LABELS, VALUES = 5, 8
evidence = rng.normal(scale=0.8, size=(4, VALUES, LABELS))


def draw(number):
    X = rng.integers(VALUES, size=(number, 4))
    score = sum(evidence[k, X[:, k]] for k in range(4)) + rng.gumbel(
        size=(number, LABELS)
    )
    return np.hstack([X, X]), score.argmax(axis=1)


X, y = draw(6000)
queries, answers = draw(6000)
models = {
    "log-linear vote": MemoryClassifier(memory=Exact(), vote=LogLinear()).fit(X, y),
    "naive Bayes": CategoricalNB(min_categories=VALUES).fit(X, y),
}

# %%
# Answers are put into groups by how sure the model was; in each group we count how many
# were right.


def reliability(probabilities, groups=10):
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == answers
    group = np.minimum((sure * groups).astype(int), groups - 1)
    filled = [g for g in range(groups) if (group == g).sum() >= 30]
    error = sum(
        (group == g).mean() * abs(sure[group == g].mean() - right[group == g].mean())
        for g in filled
    )
    return (
        [sure[group == g].mean() for g in filled],
        [right[group == g].mean() for g in filled],
        error,
    )


figure, axes = plt.subplots(figsize=(5.4, 5))
axes.plot([0, 1], [0, 1], color="0.5", linestyle=":", label="honest")
for (name, model), style in zip(models.items(), ("o-", "s--"), strict=True):
    said, happened, error = reliability(model.predict_proba(queries))
    axes.plot(said, happened, style, label=f"{name}: calibration error {error:.2f}")
axes.set(
    xlabel="probability that the model gives its answer",
    ylabel="share of these answers that are right",
)
axes.set(xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")
axes.legend(loc="upper left", fontsize=9)
plt.show()
