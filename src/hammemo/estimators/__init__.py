"""Estimators: `MemoryClassifier`, `MemoryRegressor`, `Rolling` and the predictors.

They are thin fronts of edits and tasks.

Imports tasks, edits and all below; files, engines and the command line build on it.
"""
