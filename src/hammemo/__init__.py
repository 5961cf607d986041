"""One-pass, editable, mergeable classification of categorical sequences."""

from importlib.metadata import version

from hammemo.baselines import HammingNeighbors, SuffixBackoff
from hammemo.classifiers import MeMoClassifier, MemoryClassifier, Predictor
from hammemo.contexts import windows
from hammemo.files import FileError, load, save
from hammemo.kernels import PositionalHamming, SiteKernel, SiteOneHot
from hammemo.memories import Exact, Gaussian, Hashed, LayoutError, NotStoredError
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
    "MeMoClassifier",
    "MemoryClassifier",
    "NotStoredError",
    "PositionalHamming",
    "Predictor",
    "SiteKernel",
    "SiteOneHot",
    "SuffixBackoff",
    "load",
    "save",
    "windows",
]
