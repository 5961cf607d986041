"""Which sites a table asks for, chosen from its examples."""

from hammemo.kernels.selection.auto_sites import AutoSites, Selection
from hammemo.kernels.selection.features import SMOOTHING
from hammemo.kernels.selection.growth import FoldTrial

__all__ = ["SMOOTHING", "AutoSites", "FoldTrial", "Selection"]
