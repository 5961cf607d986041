"""Arrays: whole numbers, arrays checked as they come from outside, sets of tuples, compiled loops, threads of BLAS.

The lowest package: it imports nothing of hammemo, and every package may import it. It is private.
"""
