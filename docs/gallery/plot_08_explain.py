"""
Why this label?
===============

Every score is a sum over the sites of a context.
:meth:`hammemo.MemoryClassifier.explain` shows its terms: which values voted for which
labels, and how much. Here it is how acceptable a car is (UCI's repository).
"""

from hammemo import MeMoClassifier, MemoryClassifier
from hammemo.datasets import load_table
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.memories import Exact, Hashed
from hammemo.votes import LogLinear

X, y = load_table("car", as_frame=True)
car = ["low", "low", "4", "4", "big", "high"]  # in the order of the columns

# %%
# Exact counts
# ------------
# The table has a row for each column and a column for each leading label. The paper's
# sum counts matches, so the most frequent label leads, whatever the car.

exact = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y)
explanation = exact.explain(car)
print(explanation)

# %%
# The same as a figure, for the best label: each bar starts where the one above it ends,
# and all add up to the score.

ax = explanation.plot()

# %%
# Hashed counts: hard bounds
# --------------------------
# Values without a row of their own share buckets, so their counts are estimates. The
# black line holds the exact score for certain, and where the lines leave no doubt the
# answer is proven.

hashed = MemoryClassifier(memory=Hashed(buckets=2, reserved=2), vote="sum").fit(X, y)
ax = hashed.explain(car).plot()

# %%
# The paper's memory: standard errors
# -----------------------------------
# A correlation matrix of random codes gives estimates with a standard error, over the
# draw of the codes.

memo = MeMoClassifier(d=256).fit(X, y)
ax = memo.explain(car).plot()

# %%
# Log-linear votes
# ----------------
# Differences of scores are log-odds: the prior, and what each site says for the best
# label (to the right) or for the next one (to the left). Here two columns are looked at
# together, too. They are weighed, and this car is a very good one.

kernel = PositionalHamming() + SiteKernel([("persons", "safety"), ("buying", "maint")])
sure = MemoryClassifier(kernel, Exact(), vote=LogLinear()).fit(X, y)
explanation = sure.explain(car)
print(explanation)
ax = explanation.plot()
