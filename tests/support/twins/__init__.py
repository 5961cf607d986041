"""The loops of ``src/native`` as their definitions have them: plain, slow and in NumPy.

Tests compare the compiled loops with them.
"""
