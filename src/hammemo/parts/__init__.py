"""Parts of a table's answer: an additive base, fitted to classes or to numbers.

Imports `kernels`, `tokens` and `_arrays`; models build on it.
"""

from hammemo.parts.additive import AdditiveBase, AdditiveDesign
from hammemo.parts.fit_classes import class_base
from hammemo.parts.fit_numbers import Gram, number_base

__all__ = ["AdditiveBase", "AdditiveDesign", "Gram", "class_base", "number_base"]
