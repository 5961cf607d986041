"""The parameters of a model as edits take them, and what `random_state` and `keep` mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from sklearn.utils import check_random_state

from hammemo.edits.task import L, M, V
from hammemo.stores.digest_store import NAMES as DIGEST_NAMES

if TYPE_CHECKING:
    from hammemo.edits.state import ModelState
    from hammemo.edits.task import ModelTask
    from hammemo.stores.kept import ModelStore


class EditSettings(Protocol[L, M, V]):
    """The parameters of a model as one frozen value, which edits take in place of an estimator."""

    @property
    def task(self) -> ModelTask[ModelState[L, M, V], L, M, V]:
        """Labels or numbers."""

    @property
    def random_state(self) -> Any:
        """As given."""

    @property
    def missing(self) -> str:
        """As given."""

    @property
    def keep(self) -> Any:
        """As given."""

    @property
    def numeric(self) -> Any:
        """As given; None for a model without this parameter, whose columns are names."""

    @property
    def ordered(self) -> Any:
        """As given."""

    @property
    def kernel_is_automatic(self) -> bool:
        """Whether the layout is chosen by rows, where memory and vote allow it."""

    def seed(self) -> int:
        """Return the seed of a model that begins; for None, a new one."""

    def with_seed(self, seed: int) -> EditSettings[L, M, V]:
        """Return the same parameters with this seed."""

    def vote_for(self, n_labels: int) -> V:
        """Return the vote that is meant, without weights."""

    def empty_store(
        self, h: int, seed: int, vote: V, *, documents: bool = False
    ) -> ModelStore | None:
        """Return what rows or documents are stored in while a model is fitted.

        None if nothing is stored.
        """

    def keep_after_fit(self, store: ModelStore | None) -> ModelStore | None:
        """Return what is stored after a fit of what was stored while it ran."""


def read_row_limit(keep: Any, *, digests: bool = False) -> int | None:
    """Return how many rows are kept at most, by the parameter `keep`, or refuse it.

    None stands for a parameter that gives no number. With `digests`, the error names the ways to
    store digests, too.
    """
    if isinstance(keep, bool) or (isinstance(keep, str) and keep == "auto"):
        return None
    if not isinstance(keep, (int, np.integer)):
        names = "', '".join(["auto", *(DIGEST_NAMES if digests else ())])
        end = ", a number of rows, or Digests()." if digests else " or a number of rows."
        raise ValueError(f"keep={keep!r} is not known: use '{names}', True, False{end}")
    if keep < 1:
        raise ValueError(f"keep={keep!r} is a number of rows, at least 1; keep=False keeps none.")
    return int(keep)


def choose_seed(random_state: Any) -> int:
    """Return the seed of a model; of None, a new one."""
    if isinstance(random_state, bool):  # numpy takes it for 0 or 1; as JSON it would be no number
        raise ValueError(f"random_state={random_state} is not a seed: use a whole number.")
    if isinstance(random_state, (int, np.integer)):
        if abs(int(random_state)) >= 2**64:  # the limit of parameters in files
            raise ValueError(
                f"random_state={random_state} does not fit in 64 bits: use a smaller seed."
            )
        return int(random_state)
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    return int(check_random_state(random_state).randint(2**31))
