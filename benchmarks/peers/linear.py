"""scikit-learn's naive Bayes and linear models.

They see one-hot positions, the sites that ours sees, or hashed ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import CategoricalNB, MultinomialNB

from hammemo.kernels import SiteOneHot
from votes import H, kernel

from .peer import Choice, Peer, PeerData, Peers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

SMOOTHING = tuple({"alpha": alpha} for alpha in (0.01, 0.1, 1.0))
MARGINS = tuple({"alpha": alpha} for alpha in (1e-4, 3e-4))  # 1e-5 and 3e-5 were worse
STRENGTHS = tuple({"alpha": alpha} for alpha in (3e-5, 1e-4))


class HashedSites:
    """Every site as a string, hashed to one of the columns by scikit-learn's `FeatureHasher`."""

    def __init__(self, columns: int) -> None:
        self._hasher = FeatureHasher(columns, input_type="string", alternate_sign=False)
        self._sites = kernel().resolve(H).positions

    def fit(self, X: NDArray[np.int64]) -> HashedSites:  # noqa: ARG002  a hash needs no vocabulary
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


@dataclass(eq=False)
class Linear(Peer):
    """An encoder and a model with one coefficient for each column and label.

    Both are made anew for each fit.
    """

    encoder: Callable[[], Any] = lambda: SiteOneHot(kernel(), normalize=False)
    make: Callable[..., Any] = SGDClassifier

    def fit(self, data: PeerData, choice: Choice) -> None:
        """Encode and fit."""
        self._encoder = self.encoder().fit(data.train.X)
        self._model = self.make(**choice).fit(self._encoder.transform(data.train.X), data.train.y)

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
        """Return the size of the coefficients, or of naive Bayes' tables of logarithms."""
        if isinstance(self._model, MultinomialNB):
            return int(self._model.feature_log_prob_.nbytes + self._model.class_log_prior_.nbytes)
        return int(self._model.coef_.nbytes + self._model.intercept_.nbytes)


class BayesPositions(Peer):
    """Naive Bayes of the eight tokens, which are numbers; a weight of -1 takes an example back."""

    def fit(self, data: PeerData, choice: Choice) -> None:
        """Count."""
        self._model = CategoricalNB(min_categories=data.n_tokens, **choice).fit(
            data.train.X, data.train.y
        )

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


def _positions() -> Any:
    return SiteOneHot(normalize=False)


def _make_hashed_sites() -> Any:
    return HashedSites(2**18)


_svm = partial(SGDClassifier, average=True, random_state=0)
_logistic = partial(SGDClassifier, "log_loss", average=True, random_state=0)
_one_against_all = {
    "svm": partial(Linear, "linear SVM (SGD)", make=_svm),
    "logistic": partial(Linear, "logistic regression (SGD)", make=_logistic, probabilistic=True),
}
_grids = {"svm": MARGINS, "logistic": STRENGTHS}
PEERS: Peers = {
    "bayes-positions": partial(
        BayesPositions, "CategoricalNB", "positions", SMOOTHING, probabilistic=True, forgets=True
    ),
    "bayes-sites": partial(
        Linear,
        "MultinomialNB",
        "16 sites",
        SMOOTHING,
        make=MultinomialNB,
        probabilistic=True,
        forgets=True,
    ),  # a weight of -1 takes an example back
}
for _name, _peer in _one_against_all.items():
    PEERS[f"{_name}-positions"] = partial(_peer, "positions", _grids[_name], encoder=_positions)
    PEERS[f"{_name}-sites"] = partial(_peer, "16 sites", _grids[_name])
    _hashed = ({"alpha": 1e-5}, {"alpha": 1e-4})
    PEERS[f"{_name}-hashed"] = partial(
        _peer, "16 sites, hashed to 2^18", _hashed, encoder=_make_hashed_sites
    )
