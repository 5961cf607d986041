"""The additive base: a function that adds up terms of single columns and of a few pairs.

The stages of a fit are functions, each of its arguments alone:

- `choose_design`: knots and frequent names, which make coordinates of columns;
- `fit_class_base` and `fit_number_base`: coefficients of these coordinates, their penalties, and
  pairs of columns (`penalties`), in rounds.

Imports `tokens` and `_arrays`. Cells hold such a function, and votes weigh it.
"""

from hammemo.features.additive.additive_base import AdditiveBase
from hammemo.features.additive.choose_design import choose_design
from hammemo.features.additive.design import AdditiveDesign
from hammemo.features.additive.fit_classes import fit_class_base
from hammemo.features.additive.fit_numbers import fit_number_base
from hammemo.features.additive.gram import Gram

__all__ = [
    "AdditiveBase",
    "AdditiveDesign",
    "Gram",
    "choose_design",
    "fit_class_base",
    "fit_number_base",
]
