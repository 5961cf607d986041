"""
Splice sites of DNA
===================

Where does a gene's text stop, and where does it go on? A splice site is a short word
with preferences at each place, and some neighbours go together. Contexts are windows
of 60 letters; the labels are a site of one kind (EI), of the other (IE), and neither.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from hammemo import MemoryClassifier
from hammemo.datasets import load_table
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.memories import Exact
from hammemo.votes import LogLinear

# %%
# 3,190 windows of DNA of primates (UCI's repository), two thirds to learn.

X, y = load_table("splice")
order = np.random.default_rng(0).permutation(len(y))
train, test = order[1000:], order[:1000]
middle = slice(20, 40)
print("".join(X[0, middle]), "in the middle of a window:", y[0])

# %%
# Single letters, neighbouring pairs, and all pairs of the twelve places in the middle:
# a site of the kernel is a tuple of positions.

neighbours = [(i, i + 1) for i in range(59)]
pairs = [(i, j) for i in range(24, 36) for j in range(i + 1, 36)]
kernels = {
    "letters": PositionalHamming(),
    "letters and neighbours": PositionalHamming() + SiteKernel(neighbours),
    "letters and pairs in the middle": PositionalHamming() + SiteKernel(pairs),
}

figure, axes = plt.subplots(figsize=(5.4, 5))
for (name, kernel), style in zip(kernels.items(), (":", "--", "-"), strict=True):
    clf = MemoryClassifier(kernel, Exact(), vote=LogLinear(per_label=False))
    clf.fit(X[train], y[train])
    chance = 1 - clf.predict_proba(X[test])[:, list(clf.classes_).index("N")]
    wrong, found, _ = roc_curve(y[test] != "N", chance)
    area = roc_auc_score(y[test] != "N", chance)
    right = 100 * clf.score(X[test], y[test])
    print(f"{name}: area {area:.4f}, {right:.1f} % of three labels right")
    axes.plot(wrong, found, style, lw=2, label=f"{name}: area {area:.3f}")
axes.set(xlabel="background taken for sites", ylabel="sites found")
axes.set(xlim=(-0.005, 0.2), ylim=(0.8, 1.005))
axes.legend(loc="lower right", fontsize=9)
plt.show()

# %%
# Letters alone find nearly all sites; pairs change little, and help to tell the two
# kinds apart. Which places matter? Their shares, in bits a window, lie around the
# middle.

named, _ = load_table("splice", as_frame=True)  # columns -30 to -1, and +1 to +30
clf = MemoryClassifier(PositionalHamming(), Exact(), LogLinear())
clf.fit(named.iloc[train], y[train])
clf.report().plot(most=12)
plt.show()
