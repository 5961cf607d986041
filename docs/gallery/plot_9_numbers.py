"""
Columns of measurements
=======================

A token is equal to another or it is not: 3.1 is no nearer to 3.2 than to 300. So
columns of measurements are cut into a few ranges first, and each range is a token.
scikit-learn's `KBinsDiscretizer` does that, and a `ColumnTransformer` does it for the
columns that need it and leaves columns of names as they are.

The table is scikit-learn's own breast cancer data: 569 rows, 30 measurements, two
labels.
"""

import matplotlib.pyplot as plt
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

from hammemo import MemoryClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)

# %%
# Eight ranges a column, each with about as many rows. Columns of names are passed
# on, missing values in them too; the discretizer itself refuses missing
# measurements. With pandas' frames as output the names of the columns stay.

ranges = ColumnTransformer(
    [
        (
            "measurements",
            KBinsDiscretizer(8, encode="ordinal", strategy="quantile"),
            make_column_selector(dtype_include="number"),
        )
    ],
    remainder="passthrough",
    verbose_feature_names_out=False,
).set_output(transform="pandas")

# %%
# Five folds, beside gradient boosting on the measurements themselves. Both have
# their defaults; where the ranges lie is learnt from the training folds only.

models = {
    "ranges, hammemo": make_pipeline(ranges, MemoryClassifier()),
    "measurements, gradient boosting": HistGradientBoostingClassifier(random_state=0),
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
for name, model in models.items():
    probabilities = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    accuracy = accuracy_score(y, probabilities.argmax(axis=1))
    print(f"{name}: accuracy {accuracy:.3f}, log-loss {log_loss(y, probabilities):.3f}")

# %%
# Which columns and tuples of columns matter? Their shares, in bits an example, add
# up to what the model gains over the labels alone.

binned = ranges.fit_transform(X)
clf = MemoryClassifier().fit(binned, y)
clf.report().plot(most=15)
plt.show()

# %%
# A row is forgotten by its ranges, and `refit` fits the weights to the rest. The
# ranges themselves were learnt from all rows: cut them by hand, or learn them from
# data that stays, where that matters.

clf.forget(binned[:20], y[:20]).refit()
print(clf.report())
