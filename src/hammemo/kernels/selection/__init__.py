"""Which sites a table asks for, chosen from its examples."""

from hammemo.kernels.selection.auto_sites import AutoSites, FoldTrial, Selection
from hammemo.kernels.selection.site_ratios import SMOOTHING

__all__ = ["SMOOTHING", "AutoSites", "FoldTrial", "Selection"]
