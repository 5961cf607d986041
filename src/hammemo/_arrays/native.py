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
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import hammemo._native as compiled

    class CompiledLoops:
        """The extension module ``_native``, with the types of its stub file ``_native.pyi``."""

        AdditiveLevels = compiled.AdditiveLevels
        AdditiveModes = compiled.AdditiveModes
        AdditiveRows = compiled.AdditiveRows
        DamagedError = compiled.DamagedError
        DenseRatios = compiled.DenseRatios
        Finder = compiled.Finder
        Forest = compiled.Forest
        Layout = compiled.Layout
        LiveMixture = compiled.LiveMixture
        LiveRule = compiled.LiveRule
        LiveSingle = compiled.LiveSingle
        LiveVersion = compiled.LiveVersion
        LogRatios = compiled.LogRatios
        SegmentTable = compiled.SegmentTable
        RefusedError = compiled.RefusedError
        ScoreTable = compiled.ScoreTable
        SiteScan = compiled.SiteScan
        StepCoder = compiled.StepCoder
        StepRatios = compiled.StepRatios
        Table = compiled.Table
        TooWideError = compiled.TooWideError
        add_row_shares = staticmethod(compiled.add_row_shares)
        copies_in_bag = staticmethod(compiled.copies_in_bag)
        grow_tree = staticmethod(compiled.grow_tree)
        halved_cuts = staticmethod(compiled.halved_cuts)
        number_features = staticmethod(compiled.number_features)
        inverse_root = staticmethod(compiled.inverse_root)
        label_shares = staticmethod(compiled.label_shares)
        pack_rows = staticmethod(compiled.pack_rows)
        pair_scores = staticmethod(compiled.pair_scores)
        paths = staticmethod(compiled.paths)
        portable_log = staticmethod(compiled.portable_log)
        portable_log1p = staticmethod(compiled.portable_log1p)
        solve_positive = staticmethod(compiled.solve_positive)
        tree_features = staticmethod(compiled.tree_features)
        unpack_rows = staticmethod(compiled.unpack_rows)


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
