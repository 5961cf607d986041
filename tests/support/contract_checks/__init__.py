"""Does a memory, a kernel or a vote keep its contract? For those of hammemo, and for your own.

A check needs neither pytest nor Hypothesis: it takes an instance, tries every promise of the
contract on seeded random examples, and raises `BrokenPromiseError`, which says which promise was
broken and on which examples. The tests of hammemo call the same functions (`memory_states`,
`memory_answers`) for every memory of the package.

It is not in the wheel. To check a class of yours, put ``tests/support`` of a checkout on Python's
path.
"""

from contract_checks.kernels import check_kernel
from contract_checks.memories import check_memory
from contract_checks.promises import BrokenPromiseError
from contract_checks.votes import check_vote

__all__ = ["BrokenPromiseError", "check_kernel", "check_memory", "check_vote"]
