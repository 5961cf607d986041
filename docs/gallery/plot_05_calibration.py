"""
Are the probabilities honest?
=============================

With a log-linear vote a model gives probabilities. They are honest if, of the answers
given with 70 %, about 70 % are right. A reliability diagram shows it. Naive Bayes on
the same columns stands beside it: it takes every column for news, also where one
repeats another, and is too sure of itself.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.naive_bayes import CategoricalNB
from sklearn.preprocessing import OrdinalEncoder

from hammemo import MemoryClassifier
from hammemo.datasets import load_table
from hammemo.kernels import PositionalHamming
from hammemo.memories import Exact
from hammemo.votes import LogLinear

# %%
# Is a flight late? 10,000 flights from New York in 2013, half of them to learn. The
# columns repeat each other: the number of a flight says which airline it is, where it
# goes and when.

X, y = load_table("flights")
train, test = slice(0, 5000), slice(5000, None)
answers = y[test]
clf = MemoryClassifier(PositionalHamming(), Exact(), LogLinear())
clf.fit(X[train], y[train])
encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
codes = encoder.fit_transform(X[train]) + 1  # 0 is a value that was not seen
values = [len(column) + 1 for column in encoder.categories_]
bayes = CategoricalNB(min_categories=values).fit(codes, y[train])
probabilities = {
    "log-linear vote": clf.predict_proba(X[test]),
    "naive Bayes": bayes.predict_proba(encoder.transform(X[test]) + 1),
}
assert (clf.classes_ == bayes.classes_).all()

# %%
# Answers are put into groups by how sure the model was; in each group we count how many
# were right.


def reliability(probabilities, groups=10):
    sure = probabilities.max(axis=1)
    right = clf.classes_[probabilities.argmax(axis=1)] == answers
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
for (name, given), style in zip(probabilities.items(), ("o-", "s--"), strict=True):
    said, happened, error = reliability(given)
    print(f"{name}: calibration error {error:.3f}")
    axes.plot(said, happened, style, label=f"{name}: calibration error {error:.2f}")
axes.set(
    xlabel="probability that the model gives its answer",
    ylabel="share of these answers that are right",
)
axes.set(xlim=(0.48, 1.02), ylim=(0.48, 1.02), aspect="equal")
axes.legend(loc="upper left", fontsize=9)
plt.show()
