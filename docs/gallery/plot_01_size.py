"""
How small can it be?
====================

A hashed memory has a size of your choice. Tokens without a row of their own share rows,
so a small memory sometimes answers differently from the exact classifier. Here we see
how often, and how many answers it can *prove* to be those of the exact classifier.
"""

import matplotlib.pyplot as plt
import numpy as np

from hammemo import MemoryClassifier
from hammemo.memories import Exact, Hashed

# %%
# Invented, so that its size is ours to choose: 3,000 words with Zipf's frequencies. The
# label, one of 16, depends on the last word and a little on the one before; the other
# two words of the context say nothing.

rng = np.random.default_rng(0)
frequency = 1 / np.arange(1, 3001)
X = rng.choice(3000, size=(42_000, 4), p=frequency / frequency.sum())
y = np.where(rng.random(len(X)) < 0.8, X[:, -1], X[:, -2]) % 16
train, test = slice(0, 40_000), slice(40_000, None)

# %%
# The exact classifier is the yardstick: *agreement* is the share of queries that get
# its answer. One number counts the rows at each position: a third of them reserved for
# the most frequent words, the rest shared.

exact = MemoryClassifier("positional", Exact(), "sum").fit(X[train], y[train])
truth = exact.predict(X[test])
mebibytes, agreement, certified = [], [], []
for rows in (24, 48, 96, 192, 384, 768, 1536):
    memory = Hashed(buckets=2 * rows // 3, reserved=rows // 3)
    clf = MemoryClassifier("positional", memory, "sum").fit(X[train], y[train])
    answers, proven = clf.predict(X[test]), clf.certify(X[test])
    assert (answers[proven] == truth[proven]).all()  # a proof is a proof
    mebibytes.append(len(clf.memory_.state_bytes()) / 2**20)
    agreement.append(100 * np.mean(answers == truth))
    certified.append(100 * proven.mean())
    print(
        f"{rows:5} rows, {1024 * mebibytes[-1]:.0f} KiB: {agreement[-1]:.1f} % agree, "
        f"{certified[-1]:.1f} % proven"
    )

# %%
# A small memory is right more often than it can prove. The star is the sparse exact
# table: beyond its size a hashed memory saves no room, but it needs no vocabulary and
# does not grow.

figure, axes = plt.subplots(figsize=(7, 4.2))
axes.plot(mebibytes, agreement, "o-", label="agrees with the exact classifier")
axes.plot(mebibytes, certified, "^--", label="proven to agree")
axes.plot(
    len(exact.memory_.state_bytes()) / 2**20,
    100,
    "k*",
    markersize=13,
    label="sparse exact table",
)
axes.set(xscale="log", xlabel="state (MiB)", ylabel="percent of queries", ylim=(0, 104))
axes.xaxis.set_major_formatter("{x:g}")
axes.legend(loc="lower right")
plt.show()
