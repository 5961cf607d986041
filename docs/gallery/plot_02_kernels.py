"""
Which kernel sees what?
=======================

The simplest kernel compares positions one by one. It cannot see that three squares
matter *together*, and in tic-tac-toe nothing else matters. Pairs see more, the eight
lines of the board see all; the default finds lines by itself.
"""

import matplotlib.pyplot as plt
import numpy as np

from hammemo import MemoryClassifier
from hammemo.datasets import load_table
from hammemo.kernels import AutoSites, Pairs, PositionalHamming, SiteKernel
from hammemo.memories import Exact
from hammemo.votes import LogLinear

# %%
# All 958 boards at the end of a game (UCI's repository). The label says whether the
# first player, x, has three in a row. A quarter of the boards is kept for testing.

boards, won = load_table("tic-tac-toe")
print(np.array(boards[0]).reshape(3, 3), won[0])
order = np.random.default_rng(0).permutation(len(won))
test, rest = order[:240], order[240:]

# %%
# Four kernels, the same log-linear vote, more and more boards.

lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8)]
lines += [(0, 4, 8), (2, 4, 6)]
kernels = {
    "squares": PositionalHamming(),
    "squares and pairs": PositionalHamming() + Pairs(),
    "the eight lines": SiteKernel(lines),
    "found by itself": AutoSites(),
}
sizes = [50, 100, 200, 400, len(rest)]

figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
for (name, kernel), marker in zip(kernels.items(), "os^D", strict=True):
    accuracy = []
    for size in sizes:
        clf = MemoryClassifier(kernel, Exact(), vote=LogLinear())
        clf.fit(boards[rest[:size]], won[rest[:size]])
        accuracy.append(100 * clf.score(boards[test], won[test]))
    print(f"{name}: {accuracy[-1]:.1f} % of {len(test)} boards with {sizes[-1]} learnt")
    axes.plot(sizes, accuracy, marker=marker, label=name)
majority = 100 * np.mean(won[test] == "positive")
axes.axhline(majority, color="0.5", linestyle=":", label="the majority")
axes.set(xscale="log", xlabel="boards learnt", ylabel="accuracy (%)", ylim=(50, 102))
axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
axes.minorticks_off()
figure.legend(loc="outside lower center", ncols=2, fontsize=9)
plt.show()

# %%
# Squares alone say little about the winner, whatever the number of boards. The first
# eight tuples that were found are the eight lines, which were not given.

found = [site for site in clf.sites_.positions if len(site) > 1]
print(found[:8], sorted(found[:8]) == sorted(lines))
