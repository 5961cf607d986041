"""
When the world changes
======================

A stream whose rule changes at two moments. A model that keeps everything is slow to
believe it; `hammemo.Rolling` keeps the last 1,500 examples and forgets the rest,
exactly, at a cost that does not depend on the length of the window.
"""

import matplotlib.pyplot as plt
import numpy as np

from hammemo import MemoryClassifier, Rolling
from hammemo.memories import Exact

# %%
# Invented, so that we know when the rule changes: each phase has its own rule from the
# last token to the label; one label in ten is noise.

rng = np.random.default_rng(5)
rules = [rng.permutation(30) % 10 for _ in range(3)]
X = rng.integers(30, size=(15_000, 3))
y = np.concatenate(
    [rule[part[:, -1]] for rule, part in zip(rules, np.split(X, 3), strict=True)]
)
y = np.where(rng.random(len(y)) < 0.1, rng.integers(10, size=len(y)), y)

# %%
# Test, then train: each batch is first predicted, then learnt.

models = {
    "keeps everything": MemoryClassifier("positional", Exact(), "sum"),
    "Rolling, the last 1,500": Rolling(
        MemoryClassifier("positional", Exact(), "sum"), last=1500
    ),
}
BATCH = 250
accuracy = {name: [] for name in models}
for start in range(0, len(X), BATCH):
    batch = slice(start, start + BATCH)
    for name, model in models.items():
        if start:
            accuracy[name].append(100 * np.mean(model.predict(X[batch]) == y[batch]))
        model.partial_fit(X[batch], y[batch])

# %%

for name, values in accuracy.items():
    print(f"{name}: {np.mean(values):.1f} % right")
figure, axes = plt.subplots(figsize=(7, 4.2))
seen = np.arange(BATCH, len(X), BATCH)
for (name, values), style in zip(accuracy.items(), ("s--", "o-"), strict=True):
    axes.plot(seen, values, style, markersize=4, label=name)
for change in (5000, 10_000):
    axes.axvline(change, color="0.5", linestyle=":")
axes.annotate(
    "the rule changes",
    (5000, 97),
    xytext=(6, 0),
    textcoords="offset points",
    fontsize=9,
    color="0.3",
)
axes.set(xlabel="examples seen", ylabel="accuracy on the next 250 (%)", ylim=(0, 102))
axes.xaxis.set_major_formatter("{x:,.0f}")
axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
plt.show()
