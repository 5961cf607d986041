"""Every promise of `checks`, for every memory of the package, on batches that Hypothesis looks for.

`tests/checks/test_built_in.py` runs the checks as a user does. Here they get examples
that are shrunk when one fails: the error names the promise.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract_checks.memories import check_once
from memory_catalogue import KERNELS, MEMORIES, TOKENS, batches, examples
from places import SUPPORT

if TYPE_CHECKING:
    from contract_checks.batches import Batch
    from contract_checks.subject import Subject


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(entry.subject(sites), id=f"{kind}-{entry}")
        for kind, sites in zip(["positions", "tuples"], KERNELS, strict=True)
        for entry in MEMORIES
    ],
)
@pytest.mark.examples(2)
@given(parts=st.tuples(batches, batches, batches), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_every_promise_is_kept(subject: Subject, parts: tuple[Batch, Batch, Batch], seed: int) -> None:
    check_once(subject, list(parts), seed)


_OTHER_PROCESS = """
import hashlib, sys
sys.path.insert(0, {support!r})
from memory_catalogue import KERNELS, MEMORIES, TOKENS, examples
for entry in MEMORIES:
    for sites in KERNELS:
        memory = entry.open_memory(sites)
        memory.add(examples([([t, TOKENS[-2], TOKENS[0]], "yes", 1) for t in reversed(TOKENS)]))
        print(hashlib.sha256(memory.state_bytes()).hexdigest())
"""


def test_processes_agree_without_exchanging_a_codebook() -> None:
    batch: Batch = [([token, TOKENS[-2], TOKENS[0]], "yes", 1) for token in reversed(TOKENS)]
    here = []
    for entry in MEMORIES:
        for sites in KERNELS:
            memory = entry.open_memory(sites)
            memory.add(examples(batch))
            here.append(hashlib.sha256(memory.state_bytes()).hexdigest())
    script = _OTHER_PROCESS.format(support=str(SUPPORT))
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert there.stdout.split() == here
