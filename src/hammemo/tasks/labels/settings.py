"""The parameters of a classifier as one frozen value: what an edit takes for an estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hammemo.edits.settings import choose_seed, read_row_limit
from hammemo.kernels import AutoSites
from hammemo.stores.digest_store import Digests, DigestStore
from hammemo.stores.kept_documents import KeptDocuments
from hammemo.stores.kept_rows import KeptRows
from hammemo.tasks.labels.automatic import make_memory, make_vote
from hammemo.tasks.labels.names import is_auto
from hammemo.votes import LogLinear, Vote

if TYPE_CHECKING:
    from hammemo.memories import Memory
    from hammemo.stores.kept import Kept, ModelStore
    from hammemo.tasks.labels.layout import LabelSteps


class ModelSettings(NamedTuple):
    """The parameters of `MemoryClassifier`, as they are now.

    A tuple and no dataclass, because single edits, which make one, take microseconds.

    Parameters
    ----------
    task
        Labels.
    kernel, vote, random_state, missing, keep, class_weight
        As given.
    ordered
        As given.
    numeric
        The same; None for a model without this parameter, whose columns are names.
    memory
        As given; or a function that makes a memory, for a model without this parameter.
    """

    task: LabelSteps
    kernel: Any
    vote: Any
    random_state: Any
    missing: str
    keep: Any
    numeric: Any
    class_weight: Any
    memory: Any
    ordered: Any = None

    @property
    def kernel_is_automatic(self) -> bool:
        """Whether sites are chosen by rows, where memory and vote allow it."""
        return is_auto(self.kernel) or isinstance(self.kernel, AutoSites)

    @property
    def memory_is_auto(self) -> bool:
        """Whether the memory is chosen."""
        return is_auto(self.memory)

    def new_memory(self) -> Memory:
        """Return a memory that is not open yet."""
        if callable(self.memory) and not isinstance(self.memory, type):  # a class is refused
            memory: Memory = self.memory()
            return memory
        return make_memory(self.memory)

    def seed(self) -> int:
        """Return the seed of a model that begins; for None, a new one."""
        return choose_seed(self.random_state)

    def with_seed(self, seed: int) -> ModelSettings:
        """Return the same parameters with this seed."""
        return self._replace(random_state=seed)

    def vote_for(self, n_labels: int, memory: Memory | None = None) -> Vote:
        """Return the vote; "auto" depends on what the memory keeps and on the number of labels."""
        if memory is None:
            memory = self.new_memory()
        return make_vote(self.vote, memory, n_labels)

    def with_class_weight(self, vote: Vote) -> Vote:
        """Return a vote with the class weights of the model, if it has any."""
        if self.class_weight is None:
            return vote
        if not isinstance(vote, LogLinear):
            raise ValueError(
                f"class_weight= multiplies the odds of labels, and vote={vote!r} has no odds: "
                "use vote='log-linear', or leave out class_weight."
            )
        if isinstance(self.vote, LogLinear) and self.vote.class_weight is not None:
            raise ValueError(
                "class_weight= is given twice, to the model and to its vote: leave out one of them."
            )
        return vote.with_class_weight(self.class_weight)

    def empty_store(
        self, h: int, seed: int, vote: Vote, *, documents: bool = False
    ) -> ModelStore | None:
        """Return what rows or documents are stored in; None where nothing is."""
        digests = Digests.of(self.keep)
        if digests is None:
            return self._empty_kept(self.keep, h, seed, vote=vote, documents=documents)
        kept_examples = self._empty_kept(digests.rows, h, seed, vote=vote, documents=documents)
        return DigestStore(h, seed, digests.key, beside=kept_examples)

    def keep_after_fit(self, store: ModelStore | None) -> ModelStore | None:
        """Return what is stored after a fit: the same as while it ran."""
        return store

    def _empty_kept(
        self, keep: Any, h: int, seed: int, *, vote: Vote, documents: bool
    ) -> Kept | None:
        """Return what rows or documents are kept in.

        None where none are kept: `keep` says so, or nothing needs them.
        """
        limit = read_row_limit(keep, digests=True)
        is_needed = vote.fits_weights or isinstance(self.kernel, AutoSites)
        if keep is False or (keep == "auto" and not is_needed):
            return None
        if documents:
            return KeptDocuments.empty(h, seed, limit)
        return KeptRows.empty(h, seed, limit)
