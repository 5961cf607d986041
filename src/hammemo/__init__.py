"""Classification of tables, clicks, event logs and text; the paper's single-layer MeMo.

Every name is imported when it is first used (:mod:`hammemo._lazy`).
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from hammemo._lazy import lazy_names

try:
    from hammemo import _native as _native
except ImportError as error:
    _way_out = "Reinstall hammemo from a wheel, or with a C++17 compiler."
    raise ImportError(f"hammemo's compiled module is missing ({error}). {_way_out}") from error

if TYPE_CHECKING:
    from hammemo.estimators.classifiers import MemoryClassifier as MemoryClassifier
    from hammemo.estimators.predictor import Predictor as Predictor
    from hammemo.estimators.regressor import MemoryRegressor as MemoryRegressor
    from hammemo.estimators.rolling import Rolling as Rolling
    from hammemo.files.archive import FileError as FileError
    from hammemo.files.models import compact as compact
    from hammemo.files.models import editing as editing
    from hammemo.files.models import load as load
    from hammemo.files.models import save as save
    from hammemo.memories import LayoutError as LayoutError
    from hammemo.memories import NotStoredError as NotStoredError
    from hammemo.paper.memo import MeMoClassifier as MeMoClassifier
    from hammemo.tokens.contexts import windows as windows
    from hammemo.tokens.vocabulary import NO_TOKEN as NO_TOKEN

__version__ = version("hammemo")

_HOMES = {
    "files": ("FileError", "compact", "editing", "load", "save"),
    "memories": ("LayoutError", "NotStoredError"),
    "estimators.classifiers": ("MemoryClassifier",),
    "estimators.regressor": ("MemoryRegressor",),
    "paper.memo": ("MeMoClassifier",),
    "estimators.predictor": ("Predictor",),
    "estimators.rolling": ("Rolling",),
    "tokens": ("NO_TOKEN",),
    "tokens.contexts": ("windows",),
}
_PACKAGES = (
    "datasets",
    "engines",
    "files",
    "kernels",
    "memories",
    "paper",
    "planning",
    "receipts",
    "sources",
    "tokens",
    "votes",
)

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES, _PACKAGES)
