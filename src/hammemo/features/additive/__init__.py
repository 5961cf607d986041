"""Additive functions of the columns of a table, fitted to labels or to numbers: the base of a table's answer.

Imports `tokens` and `_arrays`; cells hold such a function, and votes weigh it.
"""

from hammemo.features.additive.additive import AdditiveBase, AdditiveDesign
from hammemo.features.additive.fit_classes import class_base
from hammemo.features.additive.fit_numbers import Gram, number_base

__all__ = ["AdditiveBase", "AdditiveDesign", "Gram", "class_base", "number_base"]
