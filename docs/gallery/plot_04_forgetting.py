"""
Forgetting equals never having learnt
=====================================

A model is a sum over its examples. To forget is to subtract, and when the last wrong
example is gone, the model is the one that never saw them, to the byte.
"""

import matplotlib.pyplot as plt
import numpy as np

from hammemo import MemoryClassifier
from hammemo.datasets import load_table

# %%
# The car evaluations of UCI's repository, three quarters to learn, one to test. Then
# a user sends 1,200 cars with labels that are wrong on purpose.

X, y = load_table("car")
rng = np.random.default_rng(3)
order = rng.permutation(len(y))
learnt, asked = order[432:], order[:432]
poison = X[rng.choice(learnt, 1200)]
wrong = rng.permutation(y)[:1200]

clean = MemoryClassifier().fit(X[learnt], y[learnt])
model = clean.empty_like().partial_fit(X[learnt], y[learnt]).partial_fit(poison, wrong)


def accuracy(clf):
    return 100 * clf.score(X[asked], y[asked])


# %%
# The poisoned cars are removed, 100 at a time, and the weights fitted to what is
# left.

forgotten, measured = [0], [accuracy(model.refit())]
for start in range(0, 1200, 100):
    batch = slice(start, start + 100)
    model.forget(poison[batch], wrong[batch]).refit()
    forgotten.append(start + 100)
    measured.append(accuracy(model))
print(f"accuracy: {measured[0]:.1f} % poisoned, {measured[-1]:.1f} % at the end")

clean.refit()
same_state = model.memory_.state_bytes() == clean.memory_.state_bytes()
same_answers = np.array_equal(model.predict_proba(X), clean.predict_proba(X))
print("the same state:", same_state, "- the same probabilities:", same_answers)

# %%

figure, axes = plt.subplots(figsize=(7, 4.2))
axes.plot(forgotten, measured, "o-", label="the poisoned model, forgetting")
axes.axhline(
    accuracy(clean), color="0.35", linestyle="--", label="the model that never saw them"
)
axes.set(xlabel="poisoned cars removed", ylabel="accuracy (%)", ylim=(85, 101))
axes.xaxis.set_major_formatter("{x:,.0f}")
axes.legend(loc="lower right")
plt.show()
