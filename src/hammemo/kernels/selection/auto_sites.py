"""Sites chosen from the examples: single columns, and the tuples of columns that together say more than apart.

Paths of growing sets of sites (:mod:`hammemo.kernels.selection.growth`) are grown on the examples without one outer
fold, all folds together, until their mean loss on the folds left out has not fallen for two rounds. Taken is the
shortest path within one paired standard error of the best. Up to 8,000 examples two of five folds are used, with the
standard error that all five would have, and the path is then grown on everything; above, one fold is the holdout and
its path is taken.

The choice is a function of the multiset of examples and the seed: neither the order of the rows nor how equal rows are
written matters (:mod:`hammemo.kernels.selection.copies`). The budget counts tuples, candidates and numbers, so the same
examples give the same sites on a slow machine; an optional stop in seconds is off.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.blas import one_blas_thread
from hammemo._arrays.checked import is_number
from hammemo._arrays.threads import in_threads
from hammemo._progress import progress_bar
from hammemo.kernels.kernels import PositionalHamming, SiteKernel
from hammemo.kernels.selection.copies import Copies
from hammemo.kernels.selection.features import SMOOTHING, SiteRatios
from hammemo.kernels.selection.growth import MAX_COLUMNS, Growth, looked_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo._arrays.types import Floats
    from hammemo.kernels.selection.growth import FoldTrial, PathStep
    from hammemo.kernels.sites import Site, Sites
    from hammemo.tokens.contexts import Examples

OUTER_FOLDS: Final = 5
SMALL_TABLE_FOLDS: Final = 2
SMALL_TABLE_EXAMPLES: Final = 8000
"""Examples up to which this many outer folds are used; with more, one is."""
MIN_EXAMPLES: Final = 50
"""Examples from which on tuples are chosen; with fewer, positions are taken."""
_MIN_SAMPLED_EXAMPLES: Final = 500


@dataclass(frozen=True, eq=False)
class Selection:
    """What was chosen, and what it was chosen by."""

    kernel: SiteKernel
    tuples: list[Site]
    """The chosen tuples of columns, the first found first."""
    losses: tuple[float, ...] = ()
    """The mean loss on the folds left out after each round; the first entry is for single columns."""
    taken: int = 0
    """Which of these rounds was taken."""
    trials: tuple[FoldTrial, ...] = ()
    reason: str | None = None
    """Why nothing was tried, if so."""


class AutoSites(SiteKernel):
    """Positions, and the tuples of columns that `MemoryClassifier.fit` finds in its examples.

    The result is the model's `kernel_`, a plain `SiteKernel`. Without examples to choose from (`partial_fit`,
    streams) it compares positions.

    Parameters
    ----------
    budget : int
        The most tuples.
    order : int
        The most columns of a tuple.
    seconds : float, optional
        Start no further round after this many seconds. The choice then depends on the speed of the machine.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.kernels import AutoSites
    >>> from hammemo.tokens.contexts import Examples
    >>> X = np.random.default_rng(0).integers(0, 2, (400, 4))
    >>> AutoSites().choose(Examples.of(X, X[:, 0] ^ X[:, 2])).tuples[0]
    (0, 2)
    """

    def __init__(self, budget: int = 48, order: int = 6, seconds: float | None = None) -> None:
        self.budget = budget
        self.order = order
        self.seconds = seconds

    def resolve(self, h: int) -> Sites:
        """Return one site for each position: what is compared where nothing was chosen."""
        self._check()
        return PositionalHamming().resolve(h)

    def least_sites(self, h: int) -> int:
        """Return h."""
        return h

    @one_blas_thread
    def choose(self, examples: Examples, seed: int = 0, folds: int | None = None) -> Selection:
        """Return the sites that these examples ask for.

        Parameters
        ----------
        examples : Examples
        seed : int
            Decides the folds, and which examples are looked at where there are many.
        folds : int, optional
            How many of the five folds are held out in turn: by default two for a small table, else one.
        """
        self._check()
        copies = Copies.of(examples, seed)
        reason = self._reason_against(copies)
        if reason is not None:
            return Selection(PositionalHamming(), [], reason=reason)
        with progress_bar("Choosing sites, rounds") as tell:
            return self._chosen(_outer_folds(copies, folds), copies, tell)

    def _chosen(self, folds: list[SiteRatios], copies: Copies, tell: Callable[[int, int | None], None]) -> Selection:
        growths = in_threads(lambda ratios: Growth(ratios, self.budget, self.order), folds)
        paths, losses = self._paths(growths, tell)
        taken = _shortest(losses, (len(growths) / OUTER_FOLDS) ** 0.5 if len(growths) > 1 else 1.0)
        trials = tuple(growth.trial(path[taken]) for growth, path in zip(growths, paths, strict=True))
        sites = paths[0][taken].sites
        if len(trials) > 1:
            whole = Growth(SiteRatios(copies, len(copies)), self.budget, self.order)
            for done, step in zip(range(taken + 1), whole.steps(), strict=False):
                sites = step.sites
                tell(len(losses) * len(growths) + done, None)
        tuples = [site for site in sites if len(site) > 1]
        kernel = SiteKernel([*range(copies.codes.shape[1]), *tuples]) if tuples else PositionalHamming()
        return Selection(kernel, tuples, tuple(losses.mean(axis=1).tolist()), taken, trials)

    def _paths(
        self, growths: list[Growth], tell: Callable[[int, int | None], None]
    ) -> tuple[list[list[PathStep]], Floats]:
        """Grow paths round by round; one that has ended keeps its last step. Return them, and losses: (rounds, m)."""
        begun = time.monotonic()
        running = [growth.steps() for growth in growths]
        paths = [[step] for step in in_threads(next, running)]
        losses = [_held_out(paths)]
        ended: set[int] = set()
        while len(ended) < len(running) and len(losses) - 1 - int(np.mean(losses, axis=1).argmin()) < 2:
            if self.seconds is not None and time.monotonic() - begun > self.seconds:
                break
            for i, step in enumerate(in_threads(lambda steps: next(steps, None), running)):
                if step is None:
                    ended.add(i)
                paths[i].append(step or paths[i][-1])
            tell((len(losses) + 1) * len(running), None)
            losses.append(_held_out(paths))
        return paths, np.array(losses)

    def _reason_against(self, copies: Copies) -> str | None:
        """Return why there is no choice to make, or None."""
        n, n_labels = len(copies), copies.n_labels
        if n < MIN_EXAMPLES:
            return f"{n} examples are too few to choose tuples by: {MIN_EXAMPLES} are needed"
        if n_labels < 2:
            return "there is one label only"
        columns = int((copies.sizes > 1).sum())
        looked = looked_at(n, n_labels, len(SMOOTHING) * (min(max(columns, 1), MAX_COLUMNS) + self.budget))
        if looked < min(n, _MIN_SAMPLED_EXAMPLES):
            return f"{n_labels:,} labels and {columns:,} columns are too many to choose tuples with bounded work"
        return None

    def _check(self) -> None:
        for name, least in (("budget", 0), ("order", 1)):
            value: Any = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name}={value!r} is a whole number of at least {least}.")
        if self.seconds is not None and not (is_number(self.seconds) and self.seconds > 0):
            raise ValueError(f"seconds={self.seconds!r} is a number above zero, or None for no limit.")


def _outer_folds(copies: Copies, number: int | None) -> list[SiteRatios]:
    """Return the copies without one fold, the fold behind them for testing: this many folds, or one of many copies."""
    folds, found = copies.folds(OUTER_FOLDS), []
    most = number or (1 if len(copies) > SMALL_TABLE_EXAMPLES else SMALL_TABLE_FOLDS)
    for fold in range(OUTER_FOLDS):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if len(inside) and len(outside):
            found.append(SiteRatios(copies.taken(np.concatenate([inside, outside])), len(inside)))
        if len(found) == most:
            break
    return found


def _held_out(paths: list[list[PathStep]]) -> Floats:
    """Return the losses of all test rows, each by the last step of the path that has not seen it."""
    return np.concatenate([path[-1].losses for path in paths if path[-1].losses is not None])


def _shortest(losses: Floats, errors: float = 1.0) -> int:
    """Return the first round whose loss is within this many paired standard errors of the best.

    Shapes
    ------
    losses : (rounds, rows)
    """
    best = int(losses.mean(axis=1).argmin())
    for taken in range(best):
        excess = losses[taken] - losses[best]
        if excess.mean() <= errors * excess.std() / len(excess) ** 0.5:
            return taken
    return best
