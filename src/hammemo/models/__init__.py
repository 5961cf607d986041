"""Models: the classifiers, what answers questions for them, the compiled predictor, explanations, and baselines.

Imports votes, memories, kernels and tokens; files, theory, engines and the command line build on it.
"""
