"""How good a model is on rows that it has not seen: splits, measures, baselines and their figure.

Imports `estimators` and all below; the command line imports it.
"""
