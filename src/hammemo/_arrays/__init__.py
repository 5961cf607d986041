"""Arrays: whole numbers, arrays checked as they come from outside, sets of tuples, and the compiled loops.

The lowest package: it imports nothing of hammemo, and every package may import it. It is private.
"""
