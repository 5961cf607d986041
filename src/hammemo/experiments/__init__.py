"""Experiments: the paper's tables and figures, and ours, each made again from a seed.

One module an experiment (`synthetic`, `wikitext`, `fidelity`, `bounds`, `votes`, `events`, `deletion`, `language`,
`speed`, `throughput`, `vocabulary`, and the package `sessions`), and what they share: `records` writes results,
`report` writes pages, `figures` and `drawing` draw. May import everything but the command line, which alone imports it.
"""
