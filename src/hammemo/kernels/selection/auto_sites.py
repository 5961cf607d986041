"""Sites chosen from the examples: single columns, and tuples that say more than their columns.

Paths of growing sets of sites (:mod:`hammemo.kernels.selection.growth`) are grown on the
examples without one outer fold, all folds together, until their mean loss on the folds left out
has not fallen for two rounds. Taken is the shortest path within one paired standard error of the
best. Up to 8,000 examples two of five folds are used, with the standard error that all five
would have, and the path is then grown on everything; above, one fold is the holdout and its path
is taken.

The choice is a function of the multiset of examples and the seed: neither the order of the rows
nor how equal rows are written matters (:mod:`hammemo.kernels.selection.copies`). The budget
counts tuples, candidates and numbers, so the same examples give the same sites on a slow
machine; an optional stop in seconds is off.
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
from hammemo.kernels.selection.copies import Copies
from hammemo.kernels.selection.growth import MAX_COLUMNS, Growth, count_path_rows
from hammemo.kernels.selection.site_features import SMOOTHING, SiteRatios
from hammemo.kernels.site_kernels import PositionalHamming, SiteKernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo._arrays.types import Floats
    from hammemo.kernels.selection.growth import FoldTrial, PathStep
    from hammemo.kernels.sites import Site, Sites
    from hammemo.tokens.contexts import Examples

OUTER_FOLDS: Final = 5
"""Folds that the examples are divided into; only the first few are held out."""

SMALL_TABLE_FOLDS: Final = 2
"""Outer folds that are held out in turn, in a small table; in a larger one, one is."""

SMALL_TABLE_EXAMPLES: Final = 8000
"""Examples of a small table, at most."""

MIN_EXAMPLES: Final = 50
"""Examples from which on tuples are chosen; with fewer, positions are taken."""

_MIN_SAMPLED_EXAMPLES: Final = 500
"""Examples that a path looks at, at least, in a table with more: by fewer, no tuples are chosen."""

_WORSE_ROUNDS: Final = 2
"""Rounds without a lower loss on the folds left out before all paths end."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The chosen sites, and what they were chosen by.

    Parameters
    ----------
    kernel : SiteKernel
    tuples : list of tuple of int
        The chosen tuples of columns, in the order in which paths added them.
    losses : tuple of float
        The mean loss on the folds left out after each round; the first is of single columns.
    taken : int
        Which of these rounds was taken.
    trials : tuple of FoldTrial
        What votes are tried on, for each fold left out.
    reason : str, optional
        Why nothing was tried, if so.
    """

    kernel: SiteKernel
    tuples: list[Site]
    losses: tuple[float, ...] = ()
    taken: int = 0
    trials: tuple[FoldTrial, ...] = ()
    reason: str | None = None


class AutoSites(SiteKernel):
    """Positions, and the tuples of columns that `MemoryClassifier.fit` finds in its examples.

    The result is the model's `kernel_`, a plain `SiteKernel`. Without examples to choose from
    (`partial_fit`, streams) it compares positions.

    Parameters
    ----------
    budget : int
        The most tuples.
    order : int
        The most columns of a tuple.
    seconds : float, optional
        Start no further round after this many seconds. The choice then depends on the speed of
        the machine.

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
            How many of the five folds are held out in turn: by default two for a small table,
            else one.
        """
        self._check()
        copies = Copies.from_examples(examples, seed)
        reason = self._reason_against(copies)
        if reason is not None:
            return Selection(PositionalHamming(), [], reason=reason)
        with progress_bar("Choosing sites, rounds") as tell:
            return self._grow_sites(_divide_copies(copies, folds), copies, tell)

    def _grow_sites(
        self, folds: list[SiteRatios], copies: Copies, tell: Callable[[int, int | None], None]
    ) -> Selection:
        """Return the sites of the round that rows left out ask for."""
        growths = in_threads(lambda ratios: Growth(ratios, self.budget, self.order), folds)
        paths = self._grow_paths(growths, tell)
        losses = paths.losses

        # Take the shortest path within one standard error of the best, of all five folds.
        errors = 1.0
        if len(growths) > 1:
            errors = (len(growths) / OUTER_FOLDS) ** 0.5
        chosen_round = _find_shortest(losses, errors)
        trials = []
        for growth, steps in zip(growths, paths.steps, strict=True):
            trials.append(growth.trial(steps[chosen_round]))
        sites = paths.steps[0][chosen_round].sites

        # In a small table the path is grown again, on everything.
        if len(trials) > 1:
            growth = Growth(SiteRatios(copies, len(copies)), self.budget, self.order)
            for done, step in zip(range(chosen_round + 1), growth.steps(), strict=False):
                sites = step.sites
                tell(len(losses) * len(growths) + done, None)

        tuples = [site for site in sites if len(site) > 1]
        kernel: SiteKernel = PositionalHamming()
        if tuples:
            kernel = SiteKernel([*range(copies.codes.shape[1]), *tuples])
        mean_losses = tuple(losses.mean(axis=1).tolist())
        return Selection(kernel, tuples, mean_losses, taken=chosen_round, trials=tuple(trials))

    def _grow_paths(self, growths: list[Growth], tell: Callable[[int, int | None], None]) -> _Paths:
        """Grow paths round by round, until rows left out say that no round is better.

        A path that has ended keeps its last step.
        """
        started = time.monotonic()
        running = [growth.steps() for growth in growths]
        paths = [[step] for step in in_threads(next, running)]
        losses = [_join_losses(paths)]
        ended: set[int] = set()
        while len(ended) < len(running):
            best_round = int(np.mean(losses, axis=1).argmin())
            if len(losses) - 1 - best_round >= _WORSE_ROUNDS:
                break
            if self.seconds is not None and time.monotonic() - started > self.seconds:
                break
            next_steps = in_threads(lambda steps: next(steps, None), running)
            for i, step in enumerate(next_steps):
                if step is None:
                    ended.add(i)
                paths[i].append(step or paths[i][-1])
            tell((len(losses) + 1) * len(running), None)
            losses.append(_join_losses(paths))
        return _Paths(paths, np.array(losses))

    def _reason_against(self, copies: Copies) -> str | None:
        """Return why there is no choice to make, or None."""
        n = len(copies)
        n_labels = copies.n_labels
        if n < MIN_EXAMPLES:
            return f"{n} examples are too few to choose tuples by: {MIN_EXAMPLES} are needed"
        if n_labels < 2:
            return "there is one label only"
        columns = int((copies.sizes > 1).sum())
        n_features = len(SMOOTHING) * (min(max(columns, 1), MAX_COLUMNS) + self.budget)
        if count_path_rows(n, n_labels, n_features) < min(n, _MIN_SAMPLED_EXAMPLES):
            return (
                f"{n_labels:,} labels and {columns:,} columns are too many to choose tuples "
                "with bounded work"
            )
        return None

    def _check(self) -> None:
        for name, least in (("budget", 0), ("order", 1)):
            value: Any = getattr(self, name)
            is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not is_whole or value < least:
                raise ValueError(f"{name}={value!r} is a whole number of at least {least}.")
        if self.seconds is not None and not (is_number(self.seconds) and self.seconds > 0):
            raise ValueError(
                f"seconds={self.seconds!r} is a number above zero, or None for no limit."
            )


@dataclass(frozen=True, eq=False)
class _Paths:
    """Paths that grew side by side, one for each fold left out.

    Parameters
    ----------
    steps : list of list of PathStep
        The steps of each path; all have as many.
    losses : ndarray of float64, shape (rounds, rows)
        The loss of each test row of all folds, after each round.
    """

    steps: list[list[PathStep]]
    losses: Floats


def _divide_copies(copies: Copies, number: int | None) -> list[SiteRatios]:
    """Return the copies without one fold, followed by the fold for testing, for a few folds.

    By default there are two of a small table, and one of a larger one.
    """
    if not number:
        number = 1 if len(copies) > SMALL_TABLE_EXAMPLES else SMALL_TABLE_FOLDS
    folds = copies.folds(OUTER_FOLDS)
    divided: list[SiteRatios] = []
    for fold in range(OUTER_FOLDS):
        inside = np.flatnonzero(folds != fold)
        outside = np.flatnonzero(folds == fold)
        if len(inside) and len(outside):
            ordered = copies.take(np.concatenate([inside, outside]))
            divided.append(SiteRatios(ordered, len(inside)))
        if len(divided) == number:
            break
    return divided


def _join_losses(paths: list[list[PathStep]]) -> Floats:
    """Return the losses of all test rows, each by the last step of the path that left it out."""
    return np.concatenate([path[-1].losses for path in paths if path[-1].losses is not None])


def _find_shortest(losses: Floats, errors: float = 1.0) -> int:
    """Return the first round whose loss is within this many paired standard errors of the best.

    Shapes
    ------
    losses : (rounds, rows)
    """
    best = int(losses.mean(axis=1).argmin())
    for candidate in range(best):
        excess = losses[candidate] - losses[best]
        if excess.mean() <= errors * excess.std() / len(excess) ** 0.5:
            return candidate
    return best
