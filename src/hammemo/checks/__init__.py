"""Checks: does a memory, a kernel or a vote keep its contract? For those of hammemo, and for your own.

A check needs neither pytest nor Hypothesis: it takes an instance, tries every promise of the contract on seeded random
examples, and raises `BrokenPromiseError`, which says which promise was broken and on which examples. The tests of
hammemo call the same functions (`memory_states`, `memory_answers`) for every memory of the package.

Imports `files` and all below it; nothing of the package needs it, and theory, engines, experiments and the command line
may import it.
"""

from hammemo.checks.kernels import check_kernel
from hammemo.checks.memories import check_memory
from hammemo.checks.promises import BrokenPromiseError
from hammemo.checks.votes import check_vote

__all__ = ["BrokenPromiseError", "check_kernel", "check_memory", "check_vote"]
