"""Caches of versions, and the locks that a forked process inherits."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from hammemo._versions import cached_property, lock_of
from hammemo.files.locks import LockedError, locked
from pace import patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

forks = pytest.mark.skipif(
    not hasattr(os, "fork") or sys.version_info >= (3, 12), reason="no fork here, or forking beside threads warns"
)


class Square:
    """A number whose square is computed when it is first asked for; `compute` may take its time."""

    def __init__(self, number: int, compute: Callable[[int], float] = lambda number: float(number**2)) -> None:
        self.number, self._compute = number, compute

    @cached_property
    def square(self) -> float:
        """The square."""
        return self._compute(self.number)


def test_a_value_is_computed_once_and_kept_in_the_object() -> None:
    asked: list[int] = []

    def compute(number: int) -> float:
        asked.append(number)
        return number**2 + 0.5

    three = Square(3, compute)
    assert "square" not in vars(three)
    assert three.square == three.square == 9.5
    assert asked == [3]
    assert vars(three)["square"] is three.square
    assert Square.square.__doc__ == "The square."


def test_threads_that_compute_at_once_get_the_same_object() -> None:
    both = threading.Barrier(2)

    def compute(number: int) -> float:
        both.wait()  # which a lock around it would never let happen
        return float(f"{number}.5")

    shared = Square(3, compute)
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.append(shared.square)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is shared.square


def ends_with_17(ask: Callable[[], bool]) -> bool:
    """Return whether a forked process asks something and gets True, and does not wait for ever."""
    seconds = patience(20)
    child = os.fork()
    if not child:
        signal.setitimer(signal.ITIMER_REAL, seconds)  # which ends it
        os._exit(17 if ask() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17


def beside(hold: Callable[[threading.Event, threading.Event], None], ask: Callable[[], bool]) -> bool:
    """Return whether a process that is forked while another thread is inside `hold` can ask."""
    begun, end = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold, args=(begun, end))
    thread.start()
    begun.wait()
    try:
        return ends_with_17(ask)
    finally:
        end.set()
        thread.join()


@forks
def test_a_process_forked_while_a_value_is_computed_computes_its_own() -> None:
    def hold(begun: threading.Event, end: threading.Event) -> None:
        def compute(number: int) -> float:
            begun.set()
            end.wait()
            return number

        assert Square(2, compute).square == 2

    assert beside(hold, lambda: Square(3).square == 9)


@forks
def test_a_process_forked_during_an_edit_can_edit() -> None:
    owner = Square(1)

    def hold(begun: threading.Event, end: threading.Event) -> None:
        with lock_of(owner):
            begun.set()
            end.wait()

    assert beside(hold, lambda: bool(lock_of(owner).acquire()))


@forks
def test_a_process_forked_while_a_file_is_locked_finds_it_locked_until_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "a.model"

    def hold(begun: threading.Event, end: threading.Event) -> None:
        with locked(path):
            begun.set()
            end.wait()

    def is_refused() -> bool:
        try:
            with locked(path, wait=0):
                return False
        except LockedError:
            return True

    assert beside(hold, is_refused)
    assert ends_with_17(lambda: not is_refused())
