"""
Forgetting equals never having learnt
=====================================

A model is a sum over its examples. To forget is to subtract, and when the last wrong
example is gone, the model is the one that never saw them, to the byte.
"""

import matplotlib.pyplot as plt
import numpy as np

from hammemo import Hashed, MemoryClassifier

# %%
# Clean examples: the label is a function of the last token. Then 12,000 poisoned ones,
# with labels that are wrong on purpose, come in from somewhere; some tokens are hit
# harder than others.

rng = np.random.default_rng(3)
X = rng.integers(40, size=(8000, 4))
y = X[:, -1] % 8
harm = 1 / np.sqrt(np.arange(1, 41))
poison = rng.choice(40, size=(12_000, 4), p=harm / harm.sum())
poison_labels = (poison[:, -1] + 3) % 8
queries = rng.integers(40, size=(2000, 4))

clean = MemoryClassifier(memory=Hashed(buckets=64, reserved=40), vote="sum").fit(X, y)
model = clean.empty_like().partial_fit(X, y).partial_fit(poison, poison_labels)


def accuracy(clf):
    return 100 * np.mean(clf.predict(queries) == queries[:, -1] % 8)


# %%
# The poisoned examples are taken back, 1,000 at a time.

forgotten, measured = [0], [accuracy(model)]
for start in range(0, 12_000, 1000):
    model.forget(poison[start : start + 1000], poison_labels[start : start + 1000])
    forgotten.append(start + 1000)
    measured.append(accuracy(model))

print(
    "the same state, byte for byte:",
    model.memory_.state_bytes() == clean.memory_.state_bytes(),
)

# %%

figure, axes = plt.subplots(figsize=(7, 4.2))
axes.plot(forgotten, measured, "o-", label="the poisoned model, forgetting")
axes.axhline(
    accuracy(clean), color="0.35", linestyle="--", label="the model that never saw them"
)
axes.set(xlabel="poisoned examples taken back", ylabel="accuracy (%)", ylim=(0, 104))
axes.xaxis.set_major_formatter("{x:,.0f}")
axes.legend(loc="lower right")
plt.show()
