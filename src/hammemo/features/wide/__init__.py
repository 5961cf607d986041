"""Tables with many columns of numbers: a few columns are chosen, and a linear function of all of them is fitted.

Imports `tokens`, `additive`, the codes of `cells` and `_arrays`; cells hold what is chosen here.
"""
