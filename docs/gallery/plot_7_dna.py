"""
K-mers of DNA
=============

A signal in DNA, such as a splice site, is a short word with preferences at each
position, and some neighbours go together. Contexts are windows of nine letters; the
labels are *site* and *background*.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from hammemo import Exact, LogLinear, MemoryClassifier, PositionalHamming, SiteKernel

# %%
# An invented signal: a loose consensus ``CAGGTAAGT``, where the letters 0 and 8, and 4
# and 5, depend on each other, and each of these alone is as in the background.

rng = np.random.default_rng(6)
LETTERS = np.array(list("ACGT"))
CONSENSUS = np.array([1, 0, 2, 2, 3, 0, 0, 2, 3])


def draw(number):
    background = rng.integers(4, size=(number, 9))
    sites = np.where(
        rng.random((number, 9)) < 0.22, CONSENSUS, rng.integers(4, size=(number, 9))
    )
    for left, right in ((0, 8), (4, 5)):
        sites[:, left] = rng.integers(4, size=number)
        coupled = rng.random(number) < 0.6
        sites[:, right] = np.where(
            coupled, (sites[:, left] + 1) % 4, rng.integers(4, size=number)
        )
    labels = np.repeat(["site", "background"], number)
    return LETTERS[np.concatenate([sites, background])], labels


X, y = draw(4000)
queries, answers = draw(4000)
print("".join(X[0]), "is a", y[0])

# %%
# Single letters, neighbouring pairs, and all pairs: a site of the kernel is a tuple of
# positions.

neighbours = [(i, i + 1) for i in range(8)]
pairs = [(i, j) for i in range(9) for j in range(i + 1, 9)]
kernels = {
    "letters": PositionalHamming(),
    "letters and neighbours": PositionalHamming() + SiteKernel(neighbours),
    "letters and all pairs": PositionalHamming() + SiteKernel(pairs),
}

figure, axes = plt.subplots(figsize=(5.4, 5))
for (name, kernel), style in zip(kernels.items(), (":", "--", "-"), strict=True):
    clf = MemoryClassifier(kernel, Exact(), vote=LogLinear(per_label=False)).fit(X, y)
    chance = clf.predict_proba(queries)[:, list(clf.classes_).index("site")]
    wrong, found, _ = roc_curve(answers == "site", chance)
    axes.plot(
        wrong,
        found,
        style,
        lw=2,
        label=f"{name}: area {roc_auc_score(answers == 'site', chance):.2f}",
    )
axes.plot([0, 1], [0, 1], color="0.7", lw=1)
axes.set(xlabel="background taken for sites", ylabel="sites found", aspect="equal")
axes.legend(loc="lower right", fontsize=9)
plt.show()
