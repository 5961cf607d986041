r"""The contract that every memory keeps.

A memory is an additive state. For site k and label c it estimates :math:`N_{k,c}(x)`, how many
stored examples of label c hold x at site k. `reader` returns what it holds now, for answering
(:mod:`hammemo.memories.reader`).

`add` and `remove` are inverse, so are `merge` and `unmerge` (the sum and the difference of two
states), and no order matters: to the byte where the state is made of integers, to rounding where it
is made of floats. What must agree for two states to be added is the *layout*. The state has one
canonical form, returned by `state`; `state_bytes` is what "the same state" means everywhere in this
library.

What is stored is a version that never changes (:mod:`hammemo._versions`): an edit works on a
private version and publishes it by one store, so one memory may be used by any number of threads,
and an edit that fails changes nothing.

A new memory is a subclass with these hooks; `check_memory` of tests/support/contract_checks tries
it against the contract. They replace the values of attributes and never change what those hold, for
other versions may share it:

- `clear`: hold nothing; parameters are checked here;
- `update`: add a batch of examples, or take it back;
- `add_state`: add the state of another memory of the same layout, or subtract it;
- `count_labels`: how many examples each label has;
- `make_reader` and, for serving, `compile`;
- `state_arrays` and `restore_arrays`: what is stored, as named arrays, and the way back;
- `layout`, extended by all that must agree, and `list_undecided`, where the first examples settle a
  part of it;
- `update_one` and `find_labels`, where one example, or the labels alone, can be had faster.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import safetensors.numpy
from sklearn.base import BaseEstimator, clone

from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.integers import row_pieces
from hammemo._versions import Versioned
from hammemo.kernels import PositionalHamming
from hammemo.memories.errors import LayoutError, NotStoredError
from hammemo.memories.label_counts import Frame, LabelCounts
from hammemo.tokens.contexts import Examples
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from hammemo._arrays.types import Array, Ints
    from hammemo.features.cells import Cells
    from hammemo.kernels.sites import Sites
    from hammemo.memories.ranker import Ranker
    from hammemo.memories.reader import Compiled, Reader
    from hammemo.tokens.stream_blocks import Block

__all__ = ["LayoutError", "Memory", "NotStoredError"]

Self = TypeVar("Self", bound="Memory")


class Memory(Versioned, BaseEstimator, ABC):
    """Base class of the memories: parameters first, a state after `open`.

    Subclasses hold the state; this class holds what is the same for all: the sites, the seed, the
    declared labels, the layout and the canonical bytes.
    """

    sites: Sites
    seed: int
    declared: Vocabulary
    known_reader: Reader | None = None
    known_ranker: tuple[tuple[Any, ...], Ranker] | None = None

    inner: ClassVar[tuple[str, ...]] = ()
    """The names of parameters that are memories themselves."""

    keeps_free_sites: bool = False
    """Whether it counts sites without a position, such as a bag."""

    has_exact_rows: ClassVar[bool] = True
    """Whether its rows of counts, if its reader has some, are those of an exact memory."""

    secret: ClassVar[str | None] = None
    """The name of a parameter that must not be written to a file, if there is one."""

    forgot_unchecked: bool = False
    """Whether it has removed examples that may never have been stored, so that its bounds on counts
    may be wrong.

    A sketch that cannot refuse such examples sets it in `update` and `add_state`. It is no part of
    the state.
    """

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

        def start(memory: Memory) -> None:
            memory._check_free(sites)
            memory.sites = sites
            memory.seed = seed
            memory.declared = Vocabulary() if declared is None else declared
            memory.forgot_unchecked = False
            memory.clear()

        self.apply_edit(start)
        return self

    def restore(
        self: Self,
        state: Mapping[str, Array],
        sites: Sites,
        seed: int = 0,
        declared: Array | None = None,
        *,
        trusted: bool = False,
    ) -> Self:
        """Start with what `state` of a memory with the same parameters returned, checked.

        Parameters
        ----------
        state : mapping from names to arrays
            They may be changed by later learning, so pass copies of what must stay.
        sites, seed
            As in `open`.
        declared : ndarray of int, optional
            Which of the state's labels were declared, as ascending ranks; those without examples
            must be.
        trusted : bool
            Whether checks that read whole arrays are skipped: for memory-mapped arrays of a file
            known to be good.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.memories import Exact
        >>> clf = MemoryClassifier(memory=Exact()).fit([["a", "b"], ["a", "c"]], ["x", "y"])
        >>> memory = clf.memory_
        >>> copy = Exact().restore(memory.state(), memory.sites)
        >>> copy.state_bytes() == memory.state_bytes()
        True
        """
        self.restore_stored(
            StoredArrays(state, trusted=trusted),
            sites,
            seed,
            declared,
            restore_arrays=type(self).restore_arrays,
        )
        return self

    def restore_stored(
        self: Self,
        stored: StoredArrays,
        sites: Sites,
        seed: int,
        declared: Array | None,
        restore_arrays: Callable[[Self, LabelCounts, StoredArrays], None],
    ) -> None:
        """Take a state, the labels and their counts here, all else by `restore_arrays`."""
        self._check_free(sites)
        frame = Frame.from_arrays(sites, stored)
        mask = np.zeros(len(frame.labels), bool)
        mask[np.empty(0, np.int64) if declared is None else declared] = True
        if (~mask & (frame.label_counts == 0)).any():
            raise ValueError("a label has no example and was not declared")

        def take(memory: Self) -> None:
            memory.sites = sites
            memory.seed = seed
            memory.declared = frame.labels.keep(mask)
            memory.forgot_unchecked = False
            restore_arrays(memory, LabelCounts(frame.labels, frame.label_counts), stored)
            stored.finish()

        self.apply_edit(take)

    def _check_free(self, sites: Sites) -> None:
        """Refuse sites without a position where there is no table for them."""
        if sites.free and not self.keeps_free_sites:
            raise TypeError(
                f"{type(self).__name__} keeps no sites without a position, "
                f"such as {sites.free[0].kind!r}: most rows of their tables hold few counts, "
                "which drown in a sketch's buckets. Use memory='exact'."
            )

    def restore_inside(self, whole: Memory, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take the part of a state that is kept for this memory inside another one."""
        self.sites = whole.sites
        self.seed = whole.seed
        self.declared = whole.declared
        self.restore_arrays(all_labels, stored)

    def declare(self, labels: Vocabulary) -> None:
        """Keep these labels as candidates, with or without examples."""
        self.apply_edit(lambda memory: memory.declare_labels(labels))

    def empty_like(self: Self) -> Self:
        """Return a memory of the same layout with nothing stored: a shard to merge back."""
        fresh: Self = clone(self)
        return fresh.open(self.sites, self.seed)

    def add(self, examples: Examples) -> None:
        """Store examples."""
        self.apply_edit(lambda memory: memory.update(examples, 1))

    def remove(self, examples: Examples) -> None:
        """Remove examples: all of them, or none with an error if one is known not to be stored."""
        self.apply_edit(lambda memory: memory.update(examples, -1))

    def add_cells(self, cells: Cells, examples: Examples) -> None:
        """Store rows with numbers: their cells are counted."""
        self.apply_edit(lambda memory: memory.update_cells(cells, examples, 1))

    def add_blocks(self, blocks: Iterable[Block], labels: Vocabulary | None = None) -> None:
        """Store the windows of a stream; with `labels`, only those that have one of them."""
        self.apply_edit(lambda memory: memory.update_from_blocks(blocks, labels))

    def merge(self, other: Memory) -> None:
        """Add the state of another memory of the same layout.

        What is still open in a layout is taken from the other's.

        Declared labels are taken over. A memory that refuses is unchanged.
        """
        other = _version_of(other)

        def add(memory: Memory) -> None:
            memory._check_layout(other)
            memory.add_state(other, 1)
            memory.declare_labels(other.declared)
            memory.forgot_unchecked |= other.forgot_unchecked

        self.apply_edit(add)

    def unmerge(self, other: Memory) -> None:
        """Subtract the state of another memory of the same layout: the exact inverse of `merge`.

        Raises `NotStoredError`, with nothing changed, where a count would become negative: the
        other is then no part of this one. Labels that lose their last example are no longer labels,
        except those declared here.
        """
        other = _version_of(other)

        def subtract(memory: Memory) -> None:
            memory._check_layout(other)
            memory.add_state(other, -1)

        self.apply_edit(subtract)

    def snapshot(self: Self) -> Self:
        """Return a memory of its own that holds this version.

        What either stores later, the other does not see. It costs no more than a few references,
        because versions share what they hold.
        """
        copy = super().snapshot()
        copy.known_reader = None
        copy.known_ranker = None
        return copy

    def _check_layout(self, other: Any) -> None:
        """Refuse another memory whose layout is another, in what both have settled."""
        layout = self.layout()
        if isinstance(other, Memory):
            other_layout = other.layout()
            undecided = self.list_undecided() | other.list_undecided()
        else:
            other_layout = {"memory": type(other).__name__}
            undecided = self.list_undecided()
        for name, value in layout.items():
            if name not in undecided and other_layout.get(name) != value:
                raise LayoutError(_describe_difference(name, value, other_layout.get(name)))

    def list_undecided(self) -> AbstractSet[str]:
        """Return the names of the parts of the layout that the first examples will settle."""
        return frozenset()

    def reader(self) -> Reader:
        """Return what is stored now, for answering: a version that later edits do not change."""
        version = self.now()
        reader = version.known_reader
        if reader is None:
            reader = version.make_reader()
            reader.forgot_unchecked = version.forgot_unchecked
            version.known_reader = reader
        return reader

    def ranker(self, vote: Any, sites: Sites) -> Ranker:
        """Return what a vote ranks this version by.

        It is made once for the vote, as it is, and the sites that were asked for last.
        """
        version = self.now()
        key = (vote, sites, *vars(vote).values())
        last = version.known_ranker
        if last is not None:
            last_key, ranker = last
            same = (value is other for value, other in zip(last_key, key, strict=False))
            if len(last_key) == len(key) and all(same):
                return ranker
        new_ranker: Ranker = vote.ranker(version.reader(), sites)
        version.known_ranker = (key, new_ranker)  # one assignment: other threads make an equal one
        return new_ranker

    def keeps_rows(self) -> bool:
        """Return whether its reader has rows of counts, which a log-linear vote needs.

        It is known before `open`, too: the reader of an empty memory with one site says so. A
        memory whose parameters need more sites overrides this.
        """
        one_site = PositionalHamming().resolve(1)
        return clone(self).open(one_site).reader().has_rows  # type: ignore[no-any-return]

    def static_reader(self) -> Reader:
        """Return a reader for going through the whole table once, where another one is cheaper."""
        return self.reader()

    @abstractmethod
    def compile(
        self, form: str | None = None, vocabulary: Vocabulary | None = None, threads: int = 1
    ) -> Compiled:
        """Return a read-only form made for serving.

        Parameters
        ----------
        form : str, optional
            Which one, of those that this memory knows.
        vocabulary : Vocabulary, optional
            The tokens that it carries data for, where that has to be said.
        threads : int
            How many it may use for a large batch.
        """

    @property
    def labels(self) -> Vocabulary:
        """Observed and declared labels, in canonical order."""
        version = self.now()
        return version.find_labels().union(version.declared)

    def find_labels(self) -> Vocabulary:
        """Return the labels that have examples."""
        return self.count_labels().labels

    @property
    def label_counts(self) -> Ints:
        """How many stored examples each of `labels` has."""
        return self.frame().label_counts

    def layout(self) -> dict[str, Any]:
        """Return what must agree for two states to be added, by name."""
        layout: dict[str, Any] = {
            "memory": type(self).__name__,
            "h": self.sites.h,
            "sites": [list(site) for site in self.sites.positions],
        }
        if self.sites.free:
            layout["free"] = [[site.kind, site.reach] for site in self.sites.free]
        return layout

    def fingerprint(self) -> str:
        """Return a short name of the layout: equal fingerprints can be merged."""
        return hashlib.blake2b(json.dumps(self.layout()).encode(), digest_size=16).hexdigest()

    def frame(self) -> Frame:
        """Return the sites, the labels and their counts as they are now."""
        version = self.now()
        observed = version.count_labels()
        labels = observed.labels.union(version.declared)
        return Frame(version.sites, labels, observed.counts_for(labels))

    def state(self) -> dict[str, Array]:
        """Return the canonical form of all that is stored, as named arrays."""
        version = self.now()
        return {**version.frame().arrays(), **version.state_arrays()}

    def state_bytes(self) -> bytes:
        """Return the canonical form as bytes: equal bytes, equal states."""
        version = self.now()
        arrays = {name: np.ascontiguousarray(array) for name, array in version.state().items()}
        return safetensors.numpy.save(arrays, metadata={"layout": json.dumps(version.layout())})

    def state_digest(self) -> str:
        """Return BLAKE2b-256 of `state_bytes`, in hexadecimal digits: equal digests, equal states.

        Examples
        --------
        >>> import hashlib
        >>> from hammemo import MemoryClassifier
        >>> memory = MemoryClassifier().fit([["a", "b"], ["a", "c"]], ["x", "y"]).memory_
        >>> digest = hashlib.blake2b(memory.state_bytes(), digest_size=32)
        >>> memory.state_digest() == digest.hexdigest()
        True
        """
        return hashlib.blake2b(self.state_bytes(), digest_size=32).hexdigest()

    @property
    def nbytes(self) -> int:
        """Size of the canonical form in bytes, without the names."""
        return sum(array.nbytes for array in self.state().values())

    @abstractmethod
    def clear(self) -> None:
        """Check the parameters and hold nothing; `sites`, `seed` and `declared` are set."""

    def check_parameters(self, sites: Sites) -> None:
        """Refuse parameters that `open` refuses for these sites, without making anything."""
        self._check_free(sites)

    @abstractmethod
    def update(self, examples: Examples, sign: int) -> None:
        """Add examples or, with sign -1, take them back: all of them, or none and an error."""

    def update_one(self, tokens: Sequence[Any], label: Any, by: int) -> None:
        """Add one example `by` times or, below zero, remove it.

        A memory that can do it faster says so here.
        """
        examples = Examples.of([list(tokens)], [label], [abs(by)])
        self.update(examples, 1 if by > 0 else -1)

    def update_cells(
        self, cells: Cells, examples: Examples, sign: int, *, tree_counts: Ints | None = None
    ) -> None:
        """Add rows with numbers or, with sign -1, remove them.

        Their cells are counted, part by part. `tree_counts` are the counts of the cells of trees
        where they are known, (cells, L): a memory may use them.
        """
        del tree_counts
        for piece in row_pieces(len(examples), cells.h):
            rows = np.arange(len(examples))[piece]
            self.update(cells.replace_rows(examples.rows(rows).with_used_labels()), sign)

    def update_one_row(self, cells: Cells, row: Sequence[Any], label: Any, by: int) -> None:
        """Add one row with numbers `by` times or, below zero, take it back."""
        self.update_one(cells.find_row_cells(row), label, by)

    def update_from_blocks(self, blocks: Iterable[Block], labels: Vocabulary | None = None) -> None:
        """Add the windows of a stream; with `labels`, only those that have one of them."""
        for block in blocks:
            examples = block.examples()
            if labels is not None:
                examples = examples.only(labels)
            self.update(examples, 1)

    def declare_labels(self, labels: Vocabulary) -> None:
        """Keep these labels as candidates; a memory around another tells that one too."""
        self.declared = self.declared.union(labels)

    @abstractmethod
    def add_state(self, other: Any, sign: int) -> None:
        """Add the state of a memory of this layout or, with sign -1, subtract it.

        It does all of it, or none and raises an error.
        """

    @abstractmethod
    def count_labels(self) -> LabelCounts:
        """Return the labels that have examples, and how many."""

    @abstractmethod
    def make_reader(self) -> Reader:
        """Return a reader of what is stored now; `reader` keeps it until the next edit."""

    @abstractmethod
    def state_arrays(self) -> dict[str, Array]:
        """Return the canonical form of what is stored, the labels and their counts left out."""

    @abstractmethod
    def restore_arrays(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take a state; `all_labels` has the declared labels, too.

        Their counts are zero for those without examples.

        Shapes are compared with the parameters before anything of a declared size is allocated.
        """

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "known_reader": None, "known_ranker": None}  # no caches


def _version_of(other: Any) -> Any:
    """Return the version that another memory holds now.

    What is not a memory is refused later, with the reason.
    """
    return other.now() if isinstance(other, Memory) else other


def _describe_difference(name: str, value: Any, other_value: Any) -> str:
    """Return the message for memories whose layouts differ."""
    texts = [
        text if len(text) < 200 else f"{text[:180]} …" for text in (repr(value), repr(other_value))
    ]
    advice = (
        "Learn every shard from the layout of one model: "
        "start it with empty_like() of that model, or with partial_fit(X, y, layout=that_model)"
    )
    if name.endswith("sites"):
        advice += (
            "; or fit it with kernel=a.kernel_ of that model, "
            "or on the command line with hammemo fit and layout="
        )
    differs = f"{name} is {texts[0]} here and {texts[1]} there"
    return f"States can be added and subtracted when their layouts agree; {differs}. {advice}."
