r"""The contract that every memory keeps.

A memory is an additive state. For site k and label c it estimates :math:`N_{k,c}(x)`, how many stored examples of label
c hold x at site k, and it answers with weighted sums of these counts over the sites of a query q:

.. math:: \texttt{scores}(q, w)_c \approx \sum_k w_k \, N_{k,c}(q_k).

`add` and `remove` are inverse, so are `merge` and `unmerge` (the sum and the difference of two states), and no order
matters: to the byte where the state is made of integers, to rounding where it is made of floats. What must agree for
two states to be added is the *layout*. The state has one canonical form, returned by `state`; `state_bytes` is what
"the same state" means everywhere in this library.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
import safetensors.numpy
from sklearn.base import BaseEstimator, clone

from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.integers import narrow, row_pieces
from hammemo.memories.bounds import Bounded
from hammemo.tokens.contexts import MAX_EXAMPLES
from hammemo.tokens.labels import top_columns
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.memories.contributions import SiteScores
    from hammemo.tokens.contexts import Contexts, Examples
    from hammemo.tokens.streams import Block

Self = TypeVar("Self", bound="Memory")


class NotStoredError(ValueError):
    """Raised when an example is to be removed that the memory cannot hold; the state is unchanged."""


def never_stored() -> NotStoredError:
    """Return the error for examples that the counts show were never stored, all of them."""
    return NotStoredError(
        "At least one example to be removed was never stored: a count would become negative. Nothing was changed."
    )


class LayoutError(ValueError):
    """Raised when two memories differ in what must agree before their states can be added."""


class Reader(Protocol):
    """What answers queries: a memory, or what it compiles to."""

    @property
    def labels(self) -> Vocabulary:
        """The labels, in the order of the columns of `scores`."""
        ...

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """How many stored examples each label has."""
        ...

    @property
    def row_width(self) -> int:
        """How many numbers one query needs while it is answered; batches are cut to bound their memory."""
        ...

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return, for each query and label, the weighted sum over sites of the (estimated) counts."""
        ...

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return the terms of these sums for the labels in some columns, and what is known of their error."""
        ...

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it: 1, 0, or -1 where that cannot be told."""
        ...


@runtime_checkable
class Ranker(Protocol):
    """A reader that finds the best labels itself, faster than by way of all scores."""

    def winners(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the column of the highest score of each context, the first one among equals."""
        ...

    def leaders(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64], k: int
    ) -> NDArray[np.int64]:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        ...


def leaders_by_scores(
    reader: Reader, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64], k: int
) -> NDArray[np.int64]:
    """Return what `Ranker.leaders` does, for any reader: by way of all scores, in parts that bound the memory taken."""
    parts = [
        top_columns(reader.scores(contexts[part], weights) / divisor, k)
        for part in row_pieces(len(contexts), len(divisor))
    ]
    return np.concatenate(parts) if parts else np.empty((0, min(k, len(divisor))), np.int64)


class CompiledMemory(Reader, Protocol):
    """A read-only form of a memory, made for answering only."""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs, the numbering of the tokens not counted."""
        ...

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs besides the frame: named arrays and a small description, fit for JSON."""
        ...

    @classmethod
    def restored(
        cls, frame: Frame, stored: StoredArrays, description: dict[str, Any], key: bytes | None = None
    ) -> CompiledMemory:
        """Return the compiled form that `stored` described, or raise ValueError: all of it is checked first."""
        ...


@dataclass(frozen=True, eq=False)
class Frame:
    """What every compiled form has: the sites it compares, its labels, and how many examples each label has."""

    sites: Sites
    labels: Vocabulary
    label_counts: NDArray[np.int64]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the labels and their counts as canonical arrays."""
        labels = {f"labels.{name}": array for name, array in self.labels.arrays().items()}
        return {**labels, "label_counts": narrow(self.label_counts)}

    @classmethod
    def from_arrays(cls, sites: Sites, stored: StoredArrays) -> Frame:
        """Return the frame with these arrays, checked: undo `arrays`."""
        labels = Vocabulary.from_arrays(stored.part("labels"))
        counts = stored.whole_numbers("label_counts", (len(labels),), below=MAX_EXAMPLES)
        if counts.sum(dtype=np.float64) >= MAX_EXAMPLES:
            raise ValueError("the labels have more than 2^53 examples together")
        return cls(sites, labels, counts.astype(np.int64))


class SecretKey:
    """A parameter that holds a secret of 16 to 64 bytes, or None, and is never shown.

    The bytes are kept with a repr of their own, because scikit-learn prints the parameters of nested estimators without
    asking those estimators.

    Examples
    --------
    >>> from hammemo import Hashed, MemoryClassifier
    >>> MemoryClassifier(memory=Hashed(key=b"sixteen bytes or more"))
    MemoryClassifier(memory=Hashed(key=<secret>))
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else instance.__dict__[self.name]

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = _Hidden(value) if type(value) is bytes else value  # the same object for `clone`


class _Hidden(bytes):
    def __repr__(self) -> str:
        return "<secret>"


def check_secret(key: Any) -> None:
    """Refuse what is no secret key, without showing it."""
    if key is not None and not (isinstance(key, bytes) and 16 <= len(key) <= 64):
        raise ValueError("key is a secret of 16 to 64 bytes, for example secrets.token_bytes(32).")


def secret_digest(key: bytes | None) -> str | None:
    """Return what a layout may say of a secret key: a digest that two holders of it can compare."""
    return None if key is None else hashlib.blake2b(key, digest_size=16, person=b"layout").hexdigest()


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """How many examples each label has; labels with none are not held."""

    labels: Vocabulary = field(default_factory=Vocabulary)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def plus(self, other: LabelCounts, sign: int = 1) -> LabelCounts:
        """Return the sum, or with sign -1 the difference, or refuse to go below zero."""
        labels = self.labels.union(other.labels)
        totals = np.zeros(len(labels), np.int64)
        totals[labels.find(self.labels)] += self.counts
        totals[labels.find(other.labels)] += sign * other.counts
        if (totals < 0).any():
            label = list(labels)[int(np.flatnonzero(totals < 0)[0])]
            raise NotStoredError(
                f"Label {label!r} has fewer stored examples than are to be removed. Nothing was changed."
            )
        return LabelCounts(labels, totals).positive()

    def positive(self) -> LabelCounts:
        """Return the labels that have examples."""
        return LabelCounts(self.labels.keep(self.counts > 0), self.counts[self.counts > 0])


class Memory(BaseEstimator, ABC):
    """Base class of the memories: parameters first, a state after `open`.

    Subclasses hold the state; this class holds what is the same for all: the sites, the seed, the declared labels,
    the layout and the canonical bytes.
    """

    sites: Sites
    seed: int
    declared: Vocabulary

    secret: ClassVar[str | None] = None
    """The name of a parameter that must not be written to a file, if there is one."""

    def open(self: Self, sites: Sites, seed: int = 0, declared: Vocabulary | None = None) -> Self:
        """Start with nothing stored.

        Parameters
        ----------
        sites : Sites
            What is compared, from ``kernel.resolve(h)``.
        seed : int
            Seed of all that is random in the codes.
        declared : Vocabulary, optional
            Labels that are kept as candidates even while they have no example.
        """
        self.sites = sites
        self.seed = seed
        self.declared = Vocabulary() if declared is None else declared
        self._open()
        return self

    def restore(
        self: Self,
        state: Mapping[str, NDArray[Any]],
        sites: Sites,
        seed: int = 0,
        declared: NDArray[Any] | None = None,
        *,
        trusted: bool = False,
    ) -> Self:
        """Start with what `state` of another memory with the same parameters returned, after checking all of it.

        Parameters
        ----------
        state : mapping from names to arrays
            They may be changed by later learning, so pass copies of what must stay.
        sites, seed
            As in `open`.
        declared : ndarray of int, optional
            Which of the state's labels were declared, as ascending ranks; those without examples must be.
        trusted : bool
            Whether checks that read whole arrays are skipped: for memory-mapped arrays of a file known to be good.

        Examples
        --------
        >>> from hammemo import Exact, MemoryClassifier
        >>> memory = MemoryClassifier(memory=Exact()).fit([["a", "b"], ["a", "c"]], ["x", "y"]).memory_
        >>> copy = Exact().restore(memory.state(), memory.sites)
        >>> copy.state_bytes() == memory.state_bytes()
        True
        """
        stored = StoredArrays(state, trusted=trusted)
        frame = Frame.from_arrays(sites, stored)
        mask = np.zeros(len(frame.labels), bool)
        mask[np.empty(0, np.int64) if declared is None else declared] = True
        if (~mask & (frame.label_counts == 0)).any():
            raise ValueError("a label has no example and was not declared")
        self.sites, self.seed, self.declared = sites, seed, frame.labels.keep(mask)
        self._restore(LabelCounts(frame.labels, frame.label_counts), stored)
        stored.finish()
        return self

    def _restore_inside(self, whole: Memory, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take the part of a state that is kept for this memory inside another one."""
        self.sites, self.seed, self.declared = whole.sites, whole.seed, whole.declared
        self._restore(all_labels, stored)

    def declare(self, labels: Vocabulary) -> None:
        """Keep these labels as candidates, with or without examples."""
        self.declared = self.declared.union(labels)

    def empty_like(self: Self) -> Self:
        """Return a memory of the same layout with nothing stored: a shard that can be merged back."""
        fresh: Self = clone(self)
        return fresh.open(self.sites, self.seed)

    @abstractmethod
    def add(self, examples: Examples) -> None:
        """Store examples."""

    def add_blocks(self, blocks: Iterable[Block], labels: Vocabulary | None = None) -> None:
        """Store the windows of a stream, block by block; with `labels`, only those that have one of them."""
        for block in blocks:
            examples = block.examples()
            self.add(examples if labels is None else examples.only(labels))

    @abstractmethod
    def remove(self, examples: Examples) -> None:
        """Take examples back: all of them, or none and an error where that is known to be impossible."""

    def merge(self, other: Memory) -> None:
        """Add the state of another memory of the same layout; what is still open in a layout is taken from the other's.

        Declared labels are taken over. A memory that refuses is unchanged.
        """
        self._check_layout(other)
        self._merge(other, 1)
        self.declare(other.declared)

    def unmerge(self, other: Memory) -> None:
        """Subtract the state of another memory of the same layout: the exact inverse of `merge`.

        Raises `NotStoredError`, with nothing changed, where a count would become negative: the other is then no part of
        this one. Labels that lose their last example are no longer labels, except those declared here.
        """
        self._check_layout(other)
        self._merge(other, -1)

    def _check_layout(self, other: Memory) -> None:
        theirs = other.layout() if isinstance(other, Memory) else {"memory": type(other).__name__}
        mine = self.layout()
        settled = [name for name in mine if name not in self._undecided()]
        for name in settled:
            if theirs.get(name) != mine[name] and not (isinstance(other, Memory) and name in other._undecided()):
                raise LayoutError(
                    f"States can be added and subtracted when their layouts agree; {name} is {mine[name]!r} here and "
                    f"{theirs.get(name)!r} there. Learn every shard from the layout of one model: "
                    "start it with empty_like() of that model, or with partial_fit(X, y, layout=that_model)."
                )

    def _undecided(self) -> AbstractSet[str]:
        """Return the names of the parts of the layout that the first examples will settle."""
        return frozenset()

    def certifier(self) -> Bounded | None:
        """Return what bounds the exact counts: this memory, or the one it wraps; None where nothing does."""
        return self if isinstance(self, Bounded) else None

    @abstractmethod
    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the (estimated) counts.

        Shapes
        ------
        contexts : m of them; weights : (S,); returned : (m, number of labels)
        """

    @abstractmethod
    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return the terms of the sums that `scores` returns, and what is known of their error.

        Shapes
        ------
        contexts : m of them; weights : (S,); columns : (K,), which labels; returned values : (m, S, K)
        """

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position.

        1 means seen and 0 never, for certain; -1 that the memory cannot tell, as a sketch in general cannot.
        """
        return np.full(len(tokens), -1, np.int8)

    @abstractmethod
    def compile(self, form: str | None = None, vocabulary: Vocabulary | None = None) -> CompiledMemory:
        """Return a read-only form made for answering; `vocabulary` names the tokens it carries data for."""

    @property
    def labels(self) -> Vocabulary:
        """Observed and declared labels, in canonical order."""
        return self._observed().labels.union(self.declared)

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """How many stored examples each of `labels` has."""
        observed, labels = self._observed(), self.labels
        counts = np.zeros(len(labels), np.int64)
        counts[labels.find(observed.labels)] = observed.counts
        return counts

    def layout(self) -> dict[str, Any]:
        """Return what must agree for two states to be added, by name."""
        return {
            "memory": type(self).__name__,
            "h": self.sites.h,
            "sites": [list(site) for site in self.sites.positions],
        }

    def fingerprint(self) -> str:
        """Return a short name of the layout: equal fingerprints can be merged."""
        return hashlib.blake2b(json.dumps(self.layout()).encode(), digest_size=16).hexdigest()

    def frame(self) -> Frame:
        """Return the sites, the labels and their counts as they are now."""
        return Frame(self.sites, self.labels, self.label_counts)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the canonical form of all that is stored, as named arrays."""
        return {**self.frame().arrays(), **self._state()}

    def state_bytes(self) -> bytes:
        """Return the canonical form as bytes: equal bytes, equal states."""
        arrays = {name: np.ascontiguousarray(array) for name, array in self.state().items()}
        return safetensors.numpy.save(arrays, metadata={"layout": json.dumps(self.layout())})

    @property
    def nbytes(self) -> int:
        """Size of the canonical form in bytes, without the names."""
        return sum(array.nbytes for array in self.state().values())

    @property
    @abstractmethod
    def row_width(self) -> int:
        """How many numbers one query needs while it is answered."""

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _restore(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take a state; `all_labels` has the declared labels too, with their counts, zero for those without examples.

        Shapes are compared with the parameters before anything of a declared size is allocated.
        """

    @abstractmethod
    def _merge(self, other: Any, sign: int) -> None:
        """Add the state of a memory of this layout or, with sign -1, subtract it: all of it, or none and an error."""

    @abstractmethod
    def _observed(self) -> LabelCounts: ...

    @abstractmethod
    def _state(self) -> dict[str, NDArray[Any]]: ...
