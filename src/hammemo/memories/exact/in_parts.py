r"""Memories whose exact table may lie in parts, in the files of a folder.

Such a memory has one table of exact counts (:mod:`hammemo.memories.exact`) and perhaps more beside it, which is small
and stays in memory: a sketch of the same examples. The files of a folder hold the rows of the table; all else of the
state is in its head. So whoever writes, reads or learns a table in parts asks for the table and for what is beside it,
and need not know which memory this is.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.tensor_files import Spec, file_order, file_start
from hammemo.memories.base import Memory
from hammemo.memories.exact.parted import Parted
from hammemo.memories.exact.parts.digest import PartedState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.memories.exact.table import CountTable
    from hammemo.memories.label_counts import LabelCounts

Self = TypeVar("Self", bound="InParts")


class InParts(Memory):
    """Base class of memories whose exact table may lie in parts."""

    table_prefix: ClassVar[str] = ""
    """How the names of the arrays of the table begin in the state."""

    @abstractmethod
    def table(self) -> CountTable:
        """Return the exact counts of all that is stored, in memory."""

    @property
    @abstractmethod
    def n_entries(self) -> int:
        """How many entries the table has, or more while it is not added up."""

    @property
    @abstractmethod
    def parted(self) -> Parted | None:
        """The table in parts, if it lies so."""

    @property
    def beside(self) -> Memory | None:
        """What is kept beside the table: a memory of the same examples, or None."""
        return None

    @abstractmethod
    def beside_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what the state has beside the labels and the table, under the names that it has there."""

    @abstractmethod
    def hold_parts(self, stored: Parted, beside: Memory | None = None) -> None:
        """Store what a table in parts has counted, and what is beside it, in place of all that is stored."""

    @abstractmethod
    def without_table(self: Self) -> Self:
        """Return a memory with an empty table, and all that is stored beside it."""

    @abstractmethod
    def restore_around(
        self, all_labels: LabelCounts, stored: StoredArrays, opened: Callable[[LabelCounts, StoredArrays], Parted]
    ) -> None:
        """Take a state whose table lies in parts; `opened` returns it, given the labels and its arrays of the head."""

    def as_parts(self) -> Parted:
        """Return the table in parts; one in memory as a table that has none yet."""
        version = self._now()
        return version.parted or Parted.of(version.table())

    def head_state(self, table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the state with other arrays in place of the table: in a head, what its parts do not say."""
        version = self._now()
        named = {f"{version.table_prefix}{name}": array for name, array in table.items()}
        return {**version.frame().arrays(), **version.beside_arrays(), **named}

    def restore_parts(
        self,
        state: Mapping[str, NDArray[Any]],
        sites: Sites,
        seed: int,
        declared: NDArray[Any],
        opened: Callable[[LabelCounts, StoredArrays], Parted],
    ) -> None:
        """Start with a table in parts and what `head_state` returned, checked; `opened` as in `restore_around`."""

        def take(memory: InParts, all_labels: LabelCounts, stored: StoredArrays) -> None:
            memory.restore_around(all_labels, stored, opened)

        self._restore(StoredArrays(state), sites, seed, declared, take)

    def state_digest(self) -> str:
        """Return BLAKE2b-256 of `state_bytes`; of a table in parts, made range by range."""
        version = self._now()
        if version.parted is None:
            return super().state_digest()
        known, state, prefix = version.head_state({}), PartedState(version.parted, version.labels), self.table_prefix
        specs = {name: Spec(array.dtype, array.shape) for name, array in known.items()}
        specs |= {f"{prefix}{name}": spec for name, spec in state.specs().items()}
        digest = hashlib.blake2b(file_start(specs, {"layout": json.dumps(version.layout())}), digest_size=32)
        for name in file_order(specs):
            for piece in [known[name]] if name in known else state.pieces(name.removeprefix(prefix)):
                digest.update(np.ascontiguousarray(piece, specs[name].dtype).data)
        return digest.hexdigest()
