"""
The next item of a visit, and a visitor who asks to be forgotten
================================================================

A web shop learns which item comes next. Then one visitor wants to be forgotten: the
visit is removed, and the model is the one that never saw it.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from hammemo import NO_TOKEN, MemoryClassifier, windows
from hammemo.datasets import load_sessions

# %%
# Clicks of bol.com's shop, the example data of its recommender Serenade: the last 6,000
# visits of 23,753, and visits of the days after to ask about.

learnt, asked = load_sessions()
visits = learnt[-6000:]

# %%
# With many labels and short documents the default is a mixture of suffixes, a bag, what
# occurs together, and copies of what was seen.

shop = MemoryClassifier().fit_stream(visits, h=10, short="pad")
print(shop.kernel_)
print(f"{len(shop.classes_):,} items; {shop.vote_}")

# %%
# How often is the next item among the first k? Beside it: the most popular items, and
# what followed the last item most often.

queries, targets = windows(asked, h=10, short="pad")
begun = (queries[:, -1] != NO_TOKEN) & np.isin(targets, shop.classes_)
queries, targets = queries[begun], targets[begun]

n_items = 1 + max(map(max, learnt))
counts = np.bincount(np.concatenate(visits), minlength=n_items)
popular = np.argsort(-counts, kind="stable")[:20]
followed = [{} for _ in range(n_items)]
for visit in visits:
    for item, following in pairwise(visit):
        followed[item][following] = followed[item].get(following, 0) + 1


def after(item):
    known = sorted(followed[item], key=lambda other: -followed[item][other])
    return [*known, *(other for other in popular if other not in followed[item])][:20]


ranked = {
    "mixture": shop.top_k(queries, k=20),
    "what followed the last item": np.array([after(item) for item in queries[:, -1]]),
    "the most popular": np.tile(popular, (len(queries), 1)),
}
figure, axes = plt.subplots(figsize=(7, 4.2))
for name, leaders in ranked.items():
    hits = np.cumsum(leaders == targets[:, None], axis=1).mean(axis=0)
    axes.plot(np.arange(1, 21), 100 * hits, "o-", label=name, markersize=4)
    print(f"{name}: {100 * hits[-1]:.1f} % of {len(targets)} among the first 20")
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
same_answers = np.array_equal(
    shop.class_scores(queries[:50]), never.class_scores(queries[:50])
)
print("the same state:", same_state, "- the same answers:", same_answers)
