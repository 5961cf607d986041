"""One-pass, editable, mergeable classification of categorical sequences."""

from importlib.metadata import version

from hammemo.baselines import HammingNeighbors, SuffixBackoff
from hammemo.classifiers import MeMoClassifier, MemoryClassifier
from hammemo.contexts import windows
from hammemo.files import FileError, load, save
from hammemo.kernels import Decaying, Joined, PositionalHamming, SiteKernel, SiteOneHot, SkipPairs, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, LayoutError, Ledgered, NotStoredError, Tiered
from hammemo.predictor import Predictor
from hammemo.rolling import Rolling
from hammemo.theory.planner import plan
from hammemo.tokens import NO_TOKEN
from hammemo.votes import LogLinear

__version__ = version("hammemo")

__all__ = [
    "NO_TOKEN",
    "Decaying",
    "Exact",
    "FileError",
    "Gaussian",
    "HammingNeighbors",
    "Hashed",
    "Joined",
    "LayoutError",
    "Ledgered",
    "LogLinear",
    "MeMoClassifier",
    "MemoryClassifier",
    "NotStoredError",
    "PositionalHamming",
    "Predictor",
    "Rolling",
    "SiteKernel",
    "SiteOneHot",
    "SkipPairs",
    "SuffixBackoff",
    "Suffixes",
    "Tiered",
    "load",
    "plan",
    "save",
    "windows",
]
