"""Import paths of version 0.1 that still work: each is the module that took its place, with a warning that names it.

CONTRIBUTING.md, "Deprecations", says what such a warning holds. `GOES_IN` is the version that has no old paths.

Loaded by `hammemo` itself; it imports nothing of hammemo until an old path is asked for.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType, ModuleType

GOES_IN: Final = "0.4"
MOVED: Final = {
    "archives": "files.archive",
    "baselines": "models.baselines",
    "classifiers": "models.classifiers",
    "codes": "memories.gaussian.codes",
    "contexts": "tokens.contexts",
    "explanation_plot": "models.explanation_plot",
    "explanations": "models.explanations",
    "hashing": "tokens.hashing",
    "labels": "tokens.labels",
    "memories.certificates": "memories.bounds",
    "memories.counts": "memories.exact.table",
    "memories.gaussian_errors": "memories.gaussian.errors",
    "memories.hashed_tables": "memories.hashed.readers",
    "memories.ledger": "memories.ledgered",
    "memories.rows": "memories.hashed.layout",
    "memories.rules": "memories.row_rules",
    "memories.site_scores": "memories.contributions",
    "memories.site_table": "memories.hashed.site_table",
    "memories.stream_counts": "memories.hashed.stream_counter",
    "predictor": "models.predictor",
    "readings": "sources.schemas",
    "rolling": "models.rolling",
    "streams": "tokens.streams",
    "tables": "sources.tables",
    "theory.growth": "theory.planning.growth",
    "theory.planner": "theory.planning.planner",
    "theory.reports": "theory.planning.reports",
    "theory.sizes": "theory.planning.sizes",
    "theory.trials": "theory.planning.trials",
    "vote_fitting": "votes.fitting",
}
"""From the module's name in 0.1 to its name now, both below `hammemo`."""


class MovedModules(MetaPathFinder, Loader):
    """Finds the modules of `MOVED` under their old names."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return how to load an old name, or None for every other one."""
        return ModuleSpec(fullname, self) if fullname.removeprefix("hammemo.") in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module that took the old one's place under the old name."""
        new = f"hammemo.{MOVED[module.__name__.removeprefix('hammemo.')]}"
        told = f"{module.__name__} has moved: import {new}. The old name goes in version {GOES_IN}."
        place = _place_of_use()
        warnings.warn_explicit(
            told,
            DeprecationWarning,
            place.f_code.co_filename,
            place.f_lineno,
            module=place.f_globals.get("__name__"),
            registry=place.f_globals.setdefault("__warningregistry__", {}),
        )
        sys.modules[module.__name__] = import_module(new)


def _place_of_use() -> FrameType:
    """Return the frame that asked for an old path, by ``import`` or as an attribute of `hammemo`.

    Python shows a `DeprecationWarning` only where it falls on the user's own code, so neither the import system nor
    `hammemo._lazy` may stand for it.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in ("importlib", "_frozen_importlib") and name not in (__name__, "hammemo._lazy"):
            break
        frame = frame.f_back
    assert frame is not None
    return frame
