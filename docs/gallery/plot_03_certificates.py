"""
Margins and certificates
========================

A query is safe in a small memory when its winner leads clearly. The *margin* of the
exact classifier is the lead of its winner over the runner-up; this is what decides
whether a sketch gives the same answer, and whether it can prove it.
"""

import matplotlib.pyplot as plt
import numpy as np

from hammemo import MemoryClassifier
from hammemo.datasets import load_table
from hammemo.memories import Exact, Hashed

# %%
# Where does a flight from New York go, given its airline, number, plane, airport and
# hour? 10,000 flights of 2013, 96 destinations, thousands of planes and numbers.

flights, _ = load_table("flights", as_frame=True)
X = flights[["carrier", "flight", "tailnum", "origin", "hour"]]
y = flights["dest"]
train, test = slice(0, 8000), slice(8000, None)

exact = MemoryClassifier(memory=Exact(), vote="sum").fit(X[train], y[train])
small = MemoryClassifier(memory=Hashed(buckets=48, reserved=32), vote="sum")
small.fit(X[train], y[train])

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

for name, members in groups.items():
    print(f"{name}: median margin {np.median(margin[members]):.1f} matches")
figure, axes = plt.subplots(figsize=(7, 4.2))
edges = np.geomspace(0.1, margin.max() * 1.01, 28)
axes.hist(
    [np.maximum(margin[members], 0.1) for members in groups.values()],
    bins=edges,
    stacked=True,
    label=list(groups),
    color=["#009E73", "#56B4E9", "#D55E00"],
)
axes.set(
    xscale="log", xlabel="margin of the exact classifier (matches)", ylabel="queries"
)
axes.xaxis.set_major_formatter("{x:g}")
axes.legend(loc="upper left")
plt.show()
