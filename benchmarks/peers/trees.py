"""LightGBM's boosted trees on the eight tokens as categories."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .peer import Choice, Peer, PeerData, Peers

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LightGBM(Peer):
    """Multi-class boosting; the validation part tells when to stop."""

    def fit(self, data: PeerData, choice: Choice) -> None:
        """Add rounds of trees, one for each label, until validation loss has not fallen for ten."""
        import lightgbm

        columns = list(range(data.train.X.shape[1]))
        options = {
            "objective": "multiclass",
            "num_class": data.n_labels,
            "num_threads": 1,
            "verbosity": -1,
            "seed": 0,
        }
        train = lightgbm.Dataset(
            data.train.X.astype(np.float64),
            data.train.y,
            categorical_feature=columns,
            params={"max_bin": 255},
        )
        valid = lightgbm.Dataset(data.valid.X.astype(np.float64), data.valid.y, reference=train)
        stop = lightgbm.early_stopping(10, verbose=False)
        self._model = lightgbm.train(
            {**options, "max_bin": 255, **choice}, train, 250, valid_sets=[valid], callbacks=[stop]
        )

    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return logarithms of probabilities, up to a number a row."""
        return np.asarray(self._model.predict(X.astype(np.float64), raw_score=True, num_threads=1))

    def answers(self, X: NDArray[np.int64]) -> NDArray[Any]:
        """Return the labels of the highest probability."""
        return np.asarray(self._model.predict(X.astype(np.float64), num_threads=1).argmax(axis=1))

    def state_bytes(self) -> int:
        """Return the size of the model as LightGBM writes it, text."""
        return len(self._model.model_to_string().encode())


PEERS: Peers = {
    "lightgbm": partial(
        LightGBM,
        "LightGBM",
        "positions as categories",
        (
            {"num_leaves": 15, "learning_rate": 0.1, "min_data_per_group": 20, "cat_smooth": 5},
            {"num_leaves": 31, "learning_rate": 0.05, "min_data_per_group": 100, "cat_smooth": 10},
        ),
        ("lightgbm", "lightgbm"),
        probabilistic=True,
        online=False,
    )
}
