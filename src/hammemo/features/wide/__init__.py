"""Tables with many columns of numbers: a few chosen columns, and linear scores of all of them.

Imports `tokens`, `additive`, the codes of `cells` and `_arrays`; cells hold what is chosen here.
"""
