"""Predictors for other runtimes: the same gathers and sums as a graph, for torch and for ONNX.

Imports `votes`, `memories`, `kernels` and `tokens`; the predictors of `estimators` build on it. One
module each imports torch and onnx, when they are needed.
"""
