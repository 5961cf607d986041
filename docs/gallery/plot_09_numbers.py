"""
Columns of measurements
=======================

A table of measurements needs no preparation: `fit` grows trees of cuts, counts labels
in their cells, and every row can be forgotten.

The table is scikit-learn's own breast cancer data: 569 rows, 30 measurements, two
labels.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from hammemo import MemoryClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)

# %%
# Five folds, beside gradient boosting. Both have their defaults.

folds = StratifiedKFold(5, shuffle=True, random_state=0)
for model in (MemoryClassifier(), HistGradientBoostingClassifier(random_state=0)):
    probabilities = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    accuracy = accuracy_score(y, probabilities.argmax(axis=1))
    loss = log_loss(y, probabilities)
    print(f"{type(model).__name__}: accuracy {accuracy:.3f}, log-loss {loss:.3f}")

# %%
# Which columns matter? Their shares, in bits an example, add up to what the model
# gains over the labels alone.

clf = MemoryClassifier().fit(X, y)
clf.report().plot(most=15)
plt.show()

# %%
# Rows are forgotten as for names. `refit` chooses cuts and trees again, by the rows
# that are left.

clf.forget(X[:20], y[:20]).refit()
print(clf.report())
