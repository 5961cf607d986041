"""One-pass, editable, mergeable classification of categorical sequences."""

from importlib.metadata import version

from hammemo.baselines import HammingNeighbors, SuffixBackoff
from hammemo.classifiers import MeMoClassifier, MemoryClassifier
from hammemo.contexts import windows
from hammemo.files import FileError, load, save
from hammemo.kernels import PositionalHamming, SiteKernel, SiteOneHot
from hammemo.memories import Exact, Gaussian, Hashed, LayoutError, Ledgered, NotStoredError, Tiered
from hammemo.predictor import Predictor
from hammemo.rolling import Rolling
from hammemo.tokens import NO_TOKEN

__version__ = version("hammemo")

__all__ = [
    "NO_TOKEN",
    "Exact",
    "FileError",
    "Gaussian",
    "HammingNeighbors",
    "Hashed",
    "LayoutError",
    "Ledgered",
    "MeMoClassifier",
    "MemoryClassifier",
    "NotStoredError",
    "PositionalHamming",
    "Predictor",
    "Rolling",
    "SiteKernel",
    "SiteOneHot",
    "SuffixBackoff",
    "Tiered",
    "load",
    "save",
    "windows",
]
