"""Models: one state, the steps that choose, count and weigh, the edits made of them, and the classifier in front.

Imports explain, stores, votes, memories, kernels and tokens; files, theory, engines and the command line build on it.
"""
