"""
Margins and certificates
========================

A query is safe in a small memory when its winner leads clearly. The *margin* of the
exact classifier is the lead of its winner over the runner-up; this is what decides
whether a sketch gives the same answer, and whether it can prove it.
"""

import matplotlib.pyplot as plt
import numpy as np

from hammemo import Exact, Hashed, MemoryClassifier

rng = np.random.default_rng(2)
frequency = 1 / np.arange(1, 2001)
X = rng.choice(2000, size=(34_000, 4), p=frequency / frequency.sum())
y = np.where(rng.random(len(X)) < 0.7, X[:, -1], X[:, -2]) % 12
train, test = slice(0, 30_000), slice(30_000, None)

exact = MemoryClassifier(memory=Exact(), vote="sum").fit(X[train], y[train])
small = MemoryClassifier(memory=Hashed(buckets=64, reserved=32), vote="sum").fit(
    X[train], y[train]
)

# %%
# Every query falls in one of three groups: proven, right but not proven, and different
# from the exact answer.

scores = np.sort(exact.class_scores(X[test]), axis=1)
margin = scores[:, -1] - scores[:, -2]
proven = small.certify(X[test])
same = small.predict(X[test]) == exact.predict(X[test])
groups = {"proven": proven, "the same, not proven": same & ~proven, "different": ~same}
print({name: int(members.sum()) for name, members in groups.items()})
assert same[proven].all()

# %%
# Different answers have small margins: there the exact classifier hesitates, too.
# Proofs need large ones.

figure, axes = plt.subplots(figsize=(7, 4.2))
edges = np.geomspace(0.25, margin.max() * 1.01, 28)
axes.hist(
    [np.maximum(margin[members], 0.25) for members in groups.values()],
    bins=edges,
    stacked=True,
    label=list(groups),
    color=["#009E73", "#56B4E9", "#D55E00"],
)
axes.set(
    xscale="log", xlabel="margin of the exact classifier (matches)", ylabel="queries"
)
axes.xaxis.set_major_formatter("{x:g}")
axes.legend()
plt.show()
