"""
The next item of a visit, and a visitor who asks to be forgotten
================================================================

A shop with a thousand items learns which item comes next. Then one visitor wants to be
forgotten: the visit is taken back, and the model is the one that never saw it.
"""

import matplotlib.pyplot as plt
import numpy as np

from hammemo import NO_TOKEN, MemoryClassifier

# %%
# Invented visits: each has one or two topics of 20 items, looks at items that are
# popular within a topic, and often comes back to one it has seen.

rng = np.random.default_rng(0)
popular = 1 / np.arange(1, 21) ** 0.8
popular /= popular.sum()


def visit():
    topics = rng.integers(0, 50, rng.integers(1, 3))
    items = []
    for _ in range(rng.integers(3, 12)):
        if items and rng.random() < 0.25:
            items.append(items[rng.integers(len(items))])
        else:
            items.append(int(20 * rng.choice(topics) + rng.choice(20, p=popular)))
    return items


visits = [visit() for _ in range(4000)]
test = [visit() for _ in range(400)]

# %%
# With many labels and short documents the default is a mixture of suffixes, a bag, what
# occurs together, and copies of what was seen.

shop = MemoryClassifier().fit_stream(visits, h=10, short="pad")
print(shop.kernel_)
print(len(shop.classes_), "items;", shop.vote_)

# %%
# How often is the next item among the first k? Beside it: the most popular items, and
# what followed the last item most often.


def contexts(documents):
    prefixes = [d[:i] for d in documents for i in range(1, len(d))]
    return np.array([[NO_TOKEN] * (10 - len(p[-10:])) + p[-10:] for p in prefixes])


targets = np.array([d[i] for d in test for i in range(1, len(d))])
queries = contexts(test)
counts = np.bincount(np.concatenate(visits), minlength=1000)
followed = np.zeros((1000, 1000))
for one in visits:
    np.add.at(followed, (one[:-1], one[1:]), 1)
ranked = {
    "mixture": shop.top_k(queries, k=20),
    "what followed the last item": np.argsort(
        -(followed + counts / counts.sum())[queries[:, -1]], axis=1
    )[:, :20],
    "the most popular": np.tile(np.argsort(-counts)[:20], (len(queries), 1)),
}
figure, axes = plt.subplots(figsize=(7, 4.2))
for name, leaders in ranked.items():
    hits = np.cumsum(leaders == targets[:, None], axis=1).mean(axis=0)
    axes.plot(np.arange(1, 21), 100 * hits, "o-", label=name, markersize=4)
    print(f"{name}: {100 * hits[-1]:.1f} % among the first 20")
axes.set(xlabel="k", ylabel="next item among the first k (%)", ylim=(0, 100))
axes.legend(loc="upper left")
plt.show()

# %%
# One visitor asks to be forgotten. ``forget_stream`` takes the visit back, ``refit``
# fits the weights again to the visits that are left. What remains is, to the byte, a
# model of the same layout that never saw it.

gone = 7
rest = visits[:gone] + visits[gone + 1 :]
never = shop.empty_like().partial_fit_stream(rest, h=10, short="pad").refit()
shop.forget_stream([visits[gone]], short="pad").refit()
same_state = shop.memory_.state_bytes() == never.memory_.state_bytes()
same_answers = np.array_equal(shop.class_scores(queries), never.class_scores(queries))
print("the same state:", same_state, "- the same answers:", same_answers)
