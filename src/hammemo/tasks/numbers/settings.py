"""The parameters of a regressor as one frozen value: what an edit takes for an estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hammemo.edits.settings import choose_seed, read_row_limit
from hammemo.stores.kept_rows import KeptRows
from hammemo.tasks.numbers.vote import NO_VOTE
from hammemo.votes.bounds import UNBOUNDED, Bounds

if TYPE_CHECKING:
    from hammemo.stores.kept import ModelStore
    from hammemo.tasks.numbers.state import NumberSteps
    from hammemo.tasks.numbers.vote import NumberVote


class NumberSettings(NamedTuple):
    """The parameters of `MemoryRegressor`, as they are now."""

    task: NumberSteps
    random_state: Any
    missing: str
    keep: Any
    numeric: Any
    bounds: Bounds = UNBOUNDED
    ordered: Any = None

    @property
    def kernel_is_automatic(self) -> bool:
        """Whether whole numbers of lists and arrays are numbers: always."""
        return True

    def seed(self) -> int:
        """Return the seed of a model that begins; for None, a new one."""
        return choose_seed(self.random_state)

    def with_seed(self, seed: int) -> NumberSettings:
        """Return the same parameters with this seed."""
        return self._replace(random_state=seed)

    def vote_for(self, n_labels: int) -> NumberVote:
        """Return the vote before it is fitted."""
        del n_labels
        return NO_VOTE

    def empty_store(
        self, h: int, seed: int, vote: NumberVote, *, documents: bool = False
    ) -> KeptRows:
        """Return what rows are kept in while a model is fitted; with keep=False, not after that."""
        del vote, documents
        return KeptRows.empty(h, seed, read_row_limit(self.keep))

    def keep_after_fit(self, store: ModelStore | None) -> ModelStore | None:
        """Return what is stored after a fit: with keep=False, nothing."""
        if self.keep is False:
            return None
        return store
