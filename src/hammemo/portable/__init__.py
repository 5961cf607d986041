"""Predictors for other runtimes: the same gathers and sums as a graph for torch and for ONNX."""
