"""Arrays: whole numbers, checks of arrays from outside, sets of tuples, threads, BLAS.

The lowest package: it imports nothing of hammemo, and every package may import it. It is private.
"""
