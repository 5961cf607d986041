"""
Which kernel sees what?
=======================

The default kernel compares positions one by one. It cannot see that two tokens matter
*together*. Suffixes and skip pairs can, at the price of more counts, which need more
examples to fill.
"""

import matplotlib.pyplot as plt
import numpy as np

from hammemo import (
    Exact,
    LogLinear,
    MemoryClassifier,
    PositionalHamming,
    SkipPairs,
    Suffixes,
)

# %%
# A toy grammar in which two words that are not neighbours must fit together. The next
# word depends on the *pair* (last word, third word from the end), and each of the two
# alone says nothing about it. One word in five is noise.

rng = np.random.default_rng(1)
WORDS = 12


def sentences(number):
    X = rng.integers(WORDS, size=(number, 5))
    y = (X[:, -1] + 5 * X[:, -3]) % WORDS
    noise = rng.random(number) < 0.2
    return X, np.where(noise, rng.integers(WORDS, size=number), y)


# %%
# Four kernels, the same log-linear vote, more and more examples.

kernels = {
    "positions": PositionalHamming(),
    "suffixes of up to 3": Suffixes(3),
    "skip pairs": SkipPairs(4),
    "positions + suffixes + skip pairs": PositionalHamming()
    + Suffixes(3)
    + SkipPairs(4),
}
sizes = [250, 500, 1000, 2000, 4000, 8000]
X, y = sentences(max(sizes))
queries, answers = sentences(4000)

figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
for (name, kernel), marker in zip(kernels.items(), "os^D", strict=True):
    accuracy = []
    for size in sizes:
        clf = MemoryClassifier(kernel, Exact(), vote=LogLinear(per_label=False)).fit(
            X[:size], y[:size]
        )
        accuracy.append(100 * clf.score(queries, answers))
    axes.plot(sizes, accuracy, marker=marker, label=name)
axes.axhline(
    100 * (0.8 + 0.2 / WORDS), color="0.4", linestyle=":", label="the best there can be"
)
axes.axhline(100 / WORDS, color="0.7", linestyle=":", label="chance")
axes.set(xscale="log", xlabel="examples", ylabel="accuracy (%)", ylim=(0, 100))
axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
axes.minorticks_off()
figure.legend(loc="outside lower center", ncols=2, fontsize=9)
plt.show()

# %%
# Positions alone stay at chance whatever the number of examples. A suffix of three sees
# the pair, but mixed with the word between the two, so it needs many more examples than
# the skip pair, which sees the pair itself. All kernels together cost nothing here: the
# vote learns which sites to believe.
