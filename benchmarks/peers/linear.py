"""scikit-learn's naive Bayes and linear models: on one-hot positions, on the sites that ours sees, on hashed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import CategoricalNB, MultinomialNB

from hammemo import SiteOneHot
from hammemo.experiments.votes import H, kernel

from .peer import Choice, Data, Peer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_SMOOTHING = tuple({"alpha": alpha} for alpha in (0.01, 0.1, 1.0))
_MARGINS = tuple({"alpha": alpha} for alpha in (1e-4, 3e-4))  # 1e-5 and 3e-5 were worse
_STRENGTHS = tuple({"alpha": alpha} for alpha in (3e-5, 1e-4))


class HashedSites:
    """Every site as a string, hashed to one of so many columns by scikit-learn's `FeatureHasher`."""

    def __init__(self, columns: int) -> None:
        self._hasher = FeatureHasher(columns, input_type="string", alternate_sign=False)
        self._sites = kernel().resolve(H).positions

    def fit(self, X: NDArray[np.int64]) -> HashedSites:  # noqa: ARG002  (a hash needs no vocabulary)
        """Return itself."""
        return self

    def transform(self, X: NDArray[np.int64]) -> Any:
        """Return the counts of each column."""
        return self._hasher.transform(self._strings(X))

    def _strings(self, X: NDArray[np.int64]) -> Iterator[list[str]]:
        named = [(f"{k}:", site) for k, site in enumerate(self._sites)]
        for row in X.tolist():
            words = list(map(str, row))
            yield [name + " ".join([words[r] for r in site]) for name, site in named]


class _Linear(Peer):
    """An encoder and a model with one coefficient for each column and label."""

    online = True  # by partial_fit, with the labels told at the start

    def encoder(self) -> Any:
        """Return what makes features of contexts."""
        return SiteOneHot(kernel(), normalize=False)

    def make(self, choice: Choice) -> Any:
        """Return the model, not fitted."""
        raise NotImplementedError

    def fit(self, data: Data, choice: Choice) -> None:
        """Encode and fit."""
        self._encoder = self.encoder().fit(data.train.X)
        self._model = self.make(choice).fit(self._encoder.transform(data.train.X), data.train.y)

    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return logarithms of probabilities, or distances to the planes."""
        features = self._encoder.transform(X)
        if not self.probabilistic:
            return np.asarray(self._model.decision_function(features))
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(self._model.predict_log_proba(features), -700.0))

    def answers(self, X: NDArray[np.int64]) -> NDArray[Any]:
        """Return the predicted labels."""
        return np.asarray(self._model.predict(self._encoder.transform(X)))

    def state_bytes(self) -> int:
        """Return the size of the coefficients."""
        return int(self._model.coef_.nbytes + self._model.intercept_.nbytes)


class BayesSites(_Linear):
    """Multinomial naive Bayes; `partial_fit` with a weight of -1 takes an example back."""

    name = "MultinomialNB"
    sees = "16 sites"
    forgets = True
    choices = _SMOOTHING
    probabilistic = True

    def make(self, choice: Choice) -> Any:
        """Return the model, not fitted."""
        return MultinomialNB(**choice)

    def state_bytes(self) -> int:
        """Return the size of the tables of logarithms."""
        return int(self._model.feature_log_prob_.nbytes + self._model.class_log_prior_.nbytes)


class BayesPositions(Peer):
    """Naive Bayes of the eight tokens, numbers as they are; a weight of -1 takes an example back here too."""

    name = "CategoricalNB"
    sees = "positions"
    choices = _SMOOTHING
    probabilistic = True
    online = True
    forgets = True

    def fit(self, data: Data, choice: Choice) -> None:
        """Count."""
        self._model = CategoricalNB(min_categories=data.n_tokens, **choice).fit(data.train.X, data.train.y)

    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return logarithms of probabilities."""
        return np.asarray(self._model.predict_log_proba(X))

    def answers(self, X: NDArray[np.int64]) -> NDArray[Any]:
        """Return the predicted labels."""
        return np.asarray(self._model.predict(X))

    def state_bytes(self) -> int:
        """Return the size of the tables of logarithms."""
        tables = (*self._model.feature_log_prob_, self._model.class_log_prior_)
        return int(sum(table.nbytes for table in tables))


class SvmPositions(_Linear):
    """One-against-all linear SVM on one-hot positions."""

    name = "linear SVM (SGD)"
    sees = "positions"
    choices = _MARGINS

    def encoder(self) -> Any:
        """Return what makes features of contexts."""
        return SiteOneHot(normalize=False)

    def make(self, choice: Choice) -> Any:
        """Return the model, not fitted."""
        return SGDClassifier(average=True, random_state=0, **choice)


class LogisticPositions(SvmPositions):
    """One-against-all logistic regression on one-hot positions."""

    name = "logistic regression (SGD)"
    choices = _STRENGTHS
    probabilistic = True

    def make(self, choice: Choice) -> Any:
        """Return the model, not fitted."""
        return SGDClassifier("log_loss", average=True, random_state=0, **choice)


class SvmSites(SvmPositions):
    """One-against-all linear SVM on the sites."""

    sees = "16 sites"

    def encoder(self) -> Any:
        """Return what makes features of contexts."""
        return SiteOneHot(kernel(), normalize=False)


class LogisticSites(LogisticPositions):
    """One-against-all logistic regression on the sites."""

    sees = "16 sites"

    def encoder(self) -> Any:
        """Return what makes features of contexts."""
        return SiteOneHot(kernel(), normalize=False)


class SvmHashed(SvmPositions):
    """One-against-all linear SVM on hashed sites."""

    sees = "16 sites, hashed to 2^18"
    choices = ({"alpha": 1e-5}, {"alpha": 1e-4})

    def encoder(self) -> Any:
        """Return what makes features of contexts."""
        return HashedSites(2**18)


class LogisticHashed(LogisticPositions):
    """One-against-all logistic regression on hashed sites."""

    sees = "16 sites, hashed to 2^18"
    choices = ({"alpha": 1e-5}, {"alpha": 1e-4})

    def encoder(self) -> Any:
        """Return what makes features of contexts."""
        return HashedSites(2**18)
