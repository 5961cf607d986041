"""Why this label?
===============

Every score is a sum over the sites of a context.
:meth:`hammemo.MemoryClassifier.explain` shows its terms: which tokens voted for which
labels, and how much. Here the events of a web shop are predicted from the three events
before.
"""

import numpy as np

from hammemo import (
    Exact,
    Hashed,
    LogLinear,
    MeMoClassifier,
    MemoryClassifier,
    PositionalHamming,
    Suffixes,
    windows,
)

rng = np.random.default_rng(7)


def case() -> list[str]:
    """Return the events of one order."""
    second = rng.choice(["pay", "cancel", "fraud alert"], p=[0.6, 0.25, 0.15])
    follow = {
        "pay": ["ship", rng.choice(["deliver", "return", "lost"], p=[0.7, 0.2, 0.1])],
        "cancel": ["refund", "close"],
        "fraud alert": ["call customer", rng.choice(["pay", "cancel"])],
    }
    return [
        "order",
        str(second),
        *map(str, follow[str(second)]),
        str(rng.choice(["rate", "complain", "reorder"])),
    ]


X, y = windows([case() for _ in range(500)], h=3)

# %%
# Exact counts
# ------------
# The table has a row for each position, counted from the end, and a column for each
# leading label.

exact = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y)
explanation = exact.explain(["order", "pay", "ship"])
print(explanation)

# %%
# The same as a figure. A bar is as long as the label's score.

ax = explanation.plot()

# %%
# Hashed counts: hard bounds
# --------------------------
# Tokens without a row of their own share buckets, so their counts are estimates. The
# black line holds the exact score for certain, and where the lines leave no doubt the
# answer is proven.

hashed = MemoryClassifier(memory=Hashed(buckets=4, reserved=2), vote="sum").fit(X, y)
ax = hashed.explain(["order", "pay", "ship"]).plot()

# %%
# The paper's memory: standard errors
# -----------------------------------
# A correlation matrix of random codes gives estimates with a standard error, over the
# draw of the codes.

memo = MeMoClassifier(d=256).fit(X, y)
ax = memo.explain(["order", "pay", "ship"]).plot()

# %%
# Log-linear votes
# ----------------
# Scores are log-probabilities: the prior, and what each site says for a label (to the
# right) or against it (to the left).

sure = MemoryClassifier(
    PositionalHamming() + Suffixes(3), Exact(), vote=LogLinear()
).fit(X, y)
ax = sure.explain(["order", "pay", "ship"]).plot()
