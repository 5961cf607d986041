"""Classification of tables, clicks, event logs and text; the paper's single-layer MeMo.

Every name is imported when it is first used (:mod:`hammemo._lazy`).
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from hammemo._lazy import lazy_names

if TYPE_CHECKING:
    from hammemo.files.archive import FileError as FileError
    from hammemo.files.compacting import compact as compact
    from hammemo.files.editing import editing as editing
    from hammemo.files.models import load as load
    from hammemo.files.models import save as save
    from hammemo.kernels import AutoSites as AutoSites
    from hammemo.kernels import Bag as Bag
    from hammemo.kernels import Copy as Copy
    from hammemo.kernels import Decaying as Decaying
    from hammemo.kernels import Joined as Joined
    from hammemo.kernels import Pairs as Pairs
    from hammemo.kernels import PositionalHamming as PositionalHamming
    from hammemo.kernels import Recent as Recent
    from hammemo.kernels import SiteKernel as SiteKernel
    from hammemo.kernels import SiteOneHot as SiteOneHot
    from hammemo.kernels import SkipPairs as SkipPairs
    from hammemo.kernels import Suffixes as Suffixes
    from hammemo.kernels import Together as Together
    from hammemo.memories import Exact as Exact
    from hammemo.memories import Gaussian as Gaussian
    from hammemo.memories import Hashed as Hashed
    from hammemo.memories import LayoutError as LayoutError
    from hammemo.memories import Ledgered as Ledgered
    from hammemo.memories import NotStoredError as NotStoredError
    from hammemo.memories import Tiered as Tiered
    from hammemo.models.baselines import HammingNeighbors as HammingNeighbors
    from hammemo.models.baselines import SuffixBackoff as SuffixBackoff
    from hammemo.models.classifiers import MemoryClassifier as MemoryClassifier
    from hammemo.models.explanations import Explanation as Explanation
    from hammemo.models.memo import MeMoClassifier as MeMoClassifier
    from hammemo.models.predictor import Predictor as Predictor
    from hammemo.models.rolling import Rolling as Rolling
    from hammemo.theory import plan as plan
    from hammemo.tokens.contexts import windows as windows
    from hammemo.tokens.vocabulary import NO_TOKEN as NO_TOKEN
    from hammemo.votes import LogLinear as LogLinear
    from hammemo.votes import Mixture as Mixture

__version__ = version("hammemo")

_HOMES = {
    "files": ("FileError", "compact", "editing", "load", "save"),
    "kernels": (
        "AutoSites",
        "Bag",
        "Copy",
        "Decaying",
        "Joined",
        "Pairs",
        "PositionalHamming",
        "Recent",
        "SiteKernel",
        "SiteOneHot",
        "SkipPairs",
        "Suffixes",
        "Together",
    ),
    "memories": ("Exact", "Gaussian", "Hashed", "LayoutError", "Ledgered", "NotStoredError", "Tiered"),
    "models.baselines": ("HammingNeighbors", "SuffixBackoff"),
    "models.classifiers": ("MemoryClassifier",),
    "models.explanations": ("Explanation",),
    "models.memo": ("MeMoClassifier",),
    "models.predictor": ("Predictor",),
    "models.rolling": ("Rolling",),
    "theory": ("plan",),
    "tokens": ("NO_TOKEN",),
    "tokens.contexts": ("windows",),
    "votes": ("LogLinear", "Mixture"),
}
_PACKAGES = (
    "checks",
    "datasets",
    "engines",
    "experiments",
    "files",
    "kernels",
    "memories",
    "models",
    "receipts",
    "sources",
    "theory",
    "tokens",
    "votes",
)

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES, _PACKAGES)
