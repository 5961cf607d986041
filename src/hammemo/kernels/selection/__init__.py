"""Which sites a table asks for, chosen from its examples."""

from hammemo.kernels.selection.auto_sites import AutoSites, Selection
from hammemo.kernels.selection.growth import FoldTrial
from hammemo.kernels.selection.site_features import SMOOTHING

__all__ = ["SMOOTHING", "AutoSites", "FoldTrial", "Selection"]
