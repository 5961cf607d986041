r"""How every peer is measured: one loop, one clock, one definition of each figure.

The clock is the processor's: seconds that this process, which has one thread, was computing. So
other work on the machine does not change who is faster.

Temperature: :math:`T > 0` minimises the log-loss of ``softmax(scores / T)`` on validation, by
golden section on :math:`\log T` after the scores were divided by their standard deviation.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from hammemo.paper.experiments.measuring import Row, seconds
from hammemo.paper.experiments.wikitext import Judge
from hammemo.tokens.labels import top_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from .peer import Choice, Peer, PeerData

_PATIENCE = 3.0
"""Seconds after which a slow model is not asked a second time for its rate."""


def missing(peer: Peer) -> str | None:
    """Return why the peer cannot be asked here and how to mend it, or None."""
    module, name = peer.package
    if importlib.util.find_spec(module) is not None:
        return None
    return f"{peer.name}: left out, as {module} is not installed here: pip install {name}"


def measure_peer(make: Callable[[], Peer], data: PeerData) -> Row:
    """Return all figures of one peer."""
    peer, choice, fit, tuning = _choose_settings(make, data)
    scores = peer.scores(data.test.X)
    checked = peer.scores(data.valid.X)
    ranking = top_columns(scores, 5)
    observed = data.test.y
    judge = Judge(observed, observed, np.ones(len(observed), bool), np.arange(data.n_labels))
    shares = judge.measures(ranking)
    return {
        "model": peer.name,
        "sees": peer.sees,
        "examples": len(data.train.first(peer.most).y),
        **{name: shares[name] for name in ("top1", "top5", "macro_f1")},
        "log_loss": log_loss(scores, observed) if peer.probabilistic else None,
        "tempered_log_loss": log_loss(scores / temperature(checked, data.valid.y), observed),
        "fit_seconds": fit,
        "tuning_seconds": tuning,
        "queries_per_second": rate(peer, data.test.X),
        "state_mebibytes": peer.state_bytes() / 2**20,
        "online": peer.online,
        "forgets": peer.forgets,
        "choice": choice,
    }


class BestPeer(NamedTuple):
    """The peer that is best on validation."""

    peer: Peer
    choice: Choice
    fit_seconds: float
    tuning_seconds: float
    """The seconds of the fits with all settings."""


def _choose_settings(make: Callable[[], Peer], data: PeerData) -> BestPeer:
    """Fit a peer with each of its settings, and return the best."""
    best: tuple[float, Peer, Choice, float] | None = None
    tuning = 0.0
    for choice in make().choices:
        peer = make()
        took = seconds(peer.fit, data, choice)
        tuning += took
        accuracy = float((peer.scores(data.valid.X).argmax(axis=1) == data.valid.y).mean())
        if best is None or accuracy > best[0]:
            best = accuracy, peer, choice, took
        del peer  # some hold gigabytes
    assert best is not None
    _, peer, choice, took = best
    return BestPeer(peer, choice, took, tuning)


def log_loss(scores: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the mean of minus the logarithm of what softmax gives to the label, in nats."""
    return float(-log_softmax(scores, axis=1)[np.arange(len(labels)), labels].mean())


def temperature(scores: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the T that fits softmax(scores / T) to the labels."""
    unit = float(scores.std()) or 1.0
    minimum = minimize_scalar(
        lambda power: log_loss(scores / (unit * np.exp(power)), labels), bounds=(-8, 8)
    )
    return unit * float(np.exp(minimum.x))


def rate(peer: Peer, X: NDArray[np.int64]) -> float:
    """Return how many contexts a second the peer answers.

    This is the best of three runs, or one run if that was slow.
    """
    took = seconds(peer.answers, X)
    if took <= _PATIENCE:
        took = min(took, *(seconds(peer.answers, X) for _ in range(2)))
    return len(X) / took
