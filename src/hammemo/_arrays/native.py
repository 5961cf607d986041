"""Whether the compiled loops are here, and what to say where they are not.

Everything the extension module ``_native`` does, NumPy does too, only slower: the compiled loops are tested against it.
Where the module was not built (no compiler when hammemo was installed) the first model that could use it says so, once.
Set the environment variable ``HAMMEMO_NATIVE=0`` to use NumPy on purpose.
"""

from __future__ import annotations

import importlib
import os
import warnings
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    import hammemo._native as compiled


class CompiledLoops(Protocol):
    """The extension module ``_native``, with the types of its stub file ``_native.pyi``."""

    DamagedError: type[compiled.DamagedError]
    DenseRatios: type[compiled.DenseRatios]
    Finder: type[compiled.Finder]
    Forest: type[compiled.Forest]
    Layout: type[compiled.Layout]
    LiveMixture: type[compiled.LiveMixture]
    LiveRule: type[compiled.LiveRule]
    LiveSingle: type[compiled.LiveSingle]
    LiveVersion: type[compiled.LiveVersion]
    LogRatios: type[compiled.LogRatios]
    PartTable: type[compiled.PartTable]
    RefusedError: type[compiled.RefusedError]
    ScoreTable: type[compiled.ScoreTable]
    SiteScan: type[compiled.SiteScan]
    StepCoder: type[compiled.StepCoder]
    Table: type[compiled.Table]
    TooWideError: type[compiled.TooWideError]

    @staticmethod
    def add_row_shares(
        contexts: NDArray[np.int64],
        weights: NDArray[np.float64],
        kept: NDArray[np.float64],
        lost: NDArray[np.float64],
        lengths: NDArray[np.int64],
        columns: NDArray[np.int64],
        counts: NDArray[np.int64],
        scores: NDArray[np.float64],
    ) -> None:
        """See `hammemo.votes.mixture.shares`."""
        ...

    @staticmethod
    def pack_rows(
        lengths: NDArray[np.int64], labels: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """See `hammemo.memories.exact.parts.packed`."""
        ...

    @staticmethod
    def portable_log(values: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        """See `hammemo._arrays.logarithms`."""
        ...

    @staticmethod
    def portable_log1p(values: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        """See `hammemo._arrays.logarithms`."""
        ...

    @staticmethod
    def solve_positive(a: NDArray[np.float64], ridge: float, b: NDArray[np.float64], x: NDArray[np.float64]) -> bool:
        """Solve (a + ridge) x = b for several b; return False if a + ridge is not positive."""
        ...

    @staticmethod
    def unpack_rows(
        packed: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64], n_labels: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """See `hammemo.memories.exact.parts.packed`."""
        ...

    @staticmethod
    def grow_tree(
        codes: NDArray[np.uint8],
        names: NDArray[np.uint8],
        labels: NDArray[np.int32],
        weights: NDArray[np.int32],
        bag: NDArray[np.int32],
        n_labels: int,
        min_weight: int,
        max_columns: int,
        random_split: bool,
        seed: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32], NDArray[np.int64]]:
        """See `hammemo.kernels.cells.plain_trees`."""
        ...

    @staticmethod
    def tree_features(
        leaves: NDArray[np.int32],
        is_out: NDArray[np.uint8],
        cells: NDArray[np.int32],
        counts: NDArray[np.int64],
        labels: NDArray[np.int32],
        kinds: NDArray[np.int32],
        n_kinds: int,
        label_logs: NDArray[np.float64],
        label_starts: NDArray[np.int64],
        total_logs: NDArray[np.float64],
        out: NDArray[np.float32],
    ) -> None:
        """See `hammemo.votes.tree_weights`."""
        ...

    @staticmethod
    def paths() -> list[str]:
        """Return the names of the loops that this processor can run, the fastest first."""
        ...


@cache
def native() -> CompiledLoops | None:
    """Return the compiled loops, or None where they are not to be used."""
    if os.environ.get("HAMMEMO_NATIVE", "") == "0":
        return None
    try:
        return cast("CompiledLoops", importlib.import_module("hammemo._native"))
    except ImportError as error:
        warnings.warn(
            f"hammemo's compiled loops are not installed ({error}), so NumPy is used: the same answers, more slowly. "
            "Reinstall hammemo where there is a C++17 compiler, or set HAMMEMO_NATIVE=0 to use NumPy on purpose.",
            stacklevel=3,
        )
        return None
