"""The paper's experiments: its tables and figures, each made again from a seed.

One module for each experiment (`synthetic`, `bounds`, `wikitext`, `throughput`), and what they
share: `measuring` has times, means, tables and records, `expected` estimates durations, `report`
writes the pages, `figures` draws. Other measurements are in ``benchmarks/`` of the repository. May
import everything but the command line.
"""
