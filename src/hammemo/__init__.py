"""One-pass, editable, mergeable classification of categorical sequences.

Names are imported when they are first used: scikit-learn takes more than a second to load, and a command's help or the
Tab key of a shell need not wait for it.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hammemo.files.archive import FileError as FileError
    from hammemo.files.models import load as load
    from hammemo.files.models import save as save
    from hammemo.kernels import Decaying as Decaying
    from hammemo.kernels import Joined as Joined
    from hammemo.kernels import PositionalHamming as PositionalHamming
    from hammemo.kernels import SiteKernel as SiteKernel
    from hammemo.kernels import SiteOneHot as SiteOneHot
    from hammemo.kernels import SkipPairs as SkipPairs
    from hammemo.kernels import Suffixes as Suffixes
    from hammemo.memories import Exact as Exact
    from hammemo.memories import Gaussian as Gaussian
    from hammemo.memories import Hashed as Hashed
    from hammemo.memories import LayoutError as LayoutError
    from hammemo.memories import Ledgered as Ledgered
    from hammemo.memories import NotStoredError as NotStoredError
    from hammemo.memories import Tiered as Tiered
    from hammemo.models.baselines import HammingNeighbors as HammingNeighbors
    from hammemo.models.baselines import SuffixBackoff as SuffixBackoff
    from hammemo.models.classifiers import MeMoClassifier as MeMoClassifier
    from hammemo.models.classifiers import MemoryClassifier as MemoryClassifier
    from hammemo.models.explanations import Explanation as Explanation
    from hammemo.models.predictor import Predictor as Predictor
    from hammemo.models.rolling import Rolling as Rolling
    from hammemo.theory import plan as plan
    from hammemo.tokens.contexts import windows as windows
    from hammemo.tokens.vocabulary import NO_TOKEN as NO_TOKEN
    from hammemo.votes import LogLinear as LogLinear

__version__ = version("hammemo")

_HOMES = {
    "files": ("FileError", "load", "save"),
    "kernels": ("Decaying", "Joined", "PositionalHamming", "SiteKernel", "SiteOneHot", "SkipPairs", "Suffixes"),
    "memories": ("Exact", "Gaussian", "Hashed", "LayoutError", "Ledgered", "NotStoredError", "Tiered"),
    "models.baselines": ("HammingNeighbors", "SuffixBackoff"),
    "models.classifiers": ("MeMoClassifier", "MemoryClassifier"),
    "models.explanations": ("Explanation",),
    "models.predictor": ("Predictor",),
    "models.rolling": ("Rolling",),
    "theory": ("plan",),
    "tokens": ("NO_TOKEN",),
    "tokens.contexts": ("windows",),
    "votes": ("LogLinear",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = ("engines", "experiments", "files", "kernels", "memories", "models", "sources", "theory", "tokens", "votes")

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"hammemo.{_HOME[name]}"), name)
        globals()[name] = value  # the next time it is here
        return value
    if name in _PACKAGES:
        return import_module(f"hammemo.{name}")
    raise AttributeError(f"module 'hammemo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
