"""What a table's vote combines: an additive base that is fitted to classes or numbers."""

from hammemo.parts.additive import AdditiveBase, AdditiveDesign
from hammemo.parts.fit_classes import class_base
from hammemo.parts.fit_numbers import Gram, number_base

__all__ = ["AdditiveBase", "AdditiveDesign", "Gram", "class_base", "number_base"]
