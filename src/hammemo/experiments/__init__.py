"""Experiments: the paper's tables and figures, and ours, each made again from a seed.

One module an experiment (`synthetic`, `wikitext`, `fidelity`, `bounds`, `votes`, `events`, `deletion`, `language`,
`throughput`, `vocabulary`, and the package `sessions`), and what they share: `measuring` has times, means and tables,
`records` writes results, `report` writes a page, `figures` and `drawing` draw. What measures our own speed is in
``benchmarks/`` of the repository. May import everything but the command line, which alone imports it.
"""
