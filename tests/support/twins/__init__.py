"""The loops of ``src/native`` in NumPy, as their definitions say it: what tests compare the compiled loops with."""
