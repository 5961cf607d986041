"""Every kernel, memory and vote of the package passes the checks that ship with it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from contract_checks import BrokenPromiseError, check_kernel, check_memory, check_vote
from contract_checks.memories import default_sites
from contract_checks.promises import promise, require, require_refusal
from hammemo.files.registry import BUILT_IN
from hammemo.kernels import AutoSites, Decaying, Joined, Pairs, PositionalHamming, SiteKernel, SkipPairs, Suffixes
from hammemo.memories import Exact
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.votes import LogLinear, Mean, Mixture, Sum
from memory_catalogue import MEMORIES, Entry
from places import SUPPORT

if TYPE_CHECKING:
    from hammemo.votes import Vote

KERNELS = [
    PositionalHamming(),
    SiteKernel([0, -1, (0, -1)], weights=[1, 0, 2.5]),
    Decaying(0.3),
    Suffixes(3, base=2),
    SkipPairs(4),
    AutoSites(budget=3),
    Pairs(),
    Joined([PositionalHamming(), Suffixes(2)]),
]
FREE_KERNELS = {"Bag", "Together", "Copy", "Recent"}
"""Their sites have no position, so they have no similarity of two contexts: tests/votes/test_mixture.py tries them."""
VOTES: list[Vote] = [
    Sum(),
    Mean(),
    LogLinear(sample=40, steps=5),
    LogLinear(2.0, weights=[1, 0.5, 2, 1]),
    Mixture(sample=40, steps=5),
]


FIRST_OF_ITS_KIND = {type(entry.memory): entry for entry in reversed(MEMORIES)}.values()


@pytest.mark.parametrize(
    "entry",
    [pytest.param(e, id=str(e), marks=[pytest.mark.quick] * (e in FIRST_OF_ITS_KIND)) for e in MEMORIES],
)
def test_every_memory_passes(entry: Entry) -> None:
    lists = any(isinstance(value, list) for value in entry.memory.get_params().values())
    check_memory(entry.memory, sites=default_sites()[1:] if lists else None, forms=entry.forms, trials=2)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel_passes(kernel: SiteKernel) -> None:
    check_kernel(kernel, trials=4)


@pytest.mark.quick
@pytest.mark.parametrize("vote", VOTES, ids=repr)
def test_every_vote_passes(vote: Vote) -> None:
    check_vote(vote, trials=4)


def test_no_part_of_the_package_is_left_out() -> None:
    assert {type(entry.memory).__name__ for entry in MEMORIES} == set(BUILT_IN["memory"])
    assert {type(kernel).__name__ for kernel in KERNELS} | FREE_KERNELS == set(BUILT_IN["kernel"])
    assert {type(vote).__name__ for vote in VOTES} == set(BUILT_IN["vote"])


def test_what_is_not_a_part_is_refused() -> None:
    with pytest.raises(TypeError, match="an instance of a Memory, not 3"):
        check_memory(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an instance of a SiteKernel, not 'sum'"):
        check_kernel("sum")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an instance of a Vote, not 'sum'"):
        check_vote("sum")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pass lengths="):
        check_kernel(Suffixes(9))
    check_kernel(Suffixes(9), lengths=[9, 12], trials=2)


def test_a_check_names_the_promise_and_the_examples() -> None:
    @promise("numbers are even")
    def even(name: str, numbers: list[int]) -> None:
        require(all(number % 2 == 0 for number in numbers), "a number is odd")

    even("a list", [2])
    with pytest.raises(BrokenPromiseError, match=r"a list breaks a promise: numbers are even(.|\n)*odd(.|\n)*\[3\]"):
        even("a list", [3])
    with pytest.raises(BrokenPromiseError, match="TypeError"):
        even("a list", [None])  # type: ignore[list-item]


def test_a_check_names_empty_positions() -> None:
    @promise("nothing is empty")
    def full(name: str, context: list[int]) -> None:
        require(NO_TOKEN not in context, f"{context} is not full")

    with pytest.raises(BrokenPromiseError, match=r"\[1, NO_TOKEN\] is not full\nfull was called with \[1, NO_TOKEN\]$"):
        full("a context", [1, NO_TOKEN])


def test_a_refusal_that_says_something_else_is_found() -> None:
    def refuse() -> None:
        raise ValueError("no")

    require_refusal(ValueError, "no", refuse)
    with pytest.raises(AssertionError, match="says 'no', not 'yes'"):
        require_refusal(ValueError, "yes", refuse)
    with pytest.raises(AssertionError, match="ValueError was not raised"):
        require_refusal(ValueError, "", lambda: None)


def test_checks_do_their_work_without_pytest_hypothesis_and_assert_statements() -> None:
    code = (
        "import sys; from hammemo.memories import Exact; from contract_checks import check_memory;"
        "check_memory(Exact(), trials=1); print([m for m in ('pytest', 'hypothesis') if m in sys.modules]);"
        "from contract_checks.promises import require; require(False, 'still there')"
    )
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    command = [sys.executable, "-O", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]"
    assert "AssertionError: still there" in done.stderr


def test_the_memory_that_is_given_is_not_opened() -> None:
    memory = Exact()
    check_memory(memory, trials=1)
    assert not hasattr(memory, "sites")
