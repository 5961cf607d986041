"""The paper's experiments, and ours: each regenerates its tables and figures from a seed."""
