"""The paper's experiments: its tables and figures, each made again from a seed.

One module for each experiment (`synthetic`, `bounds`, `wikitext`, `throughput`, `vocabulary`), and what they share:
`measuring` has times, means and tables, `records` writes results, `report` writes a page, `figures` and `drawing` draw.
Other measurements are in ``benchmarks/`` of the repository. May import everything but the command line.
"""
