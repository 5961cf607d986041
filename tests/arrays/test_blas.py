"""One thread of BLAS while weights are fitted: the number of threads is afterwards what it was."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import ThreadpoolController, threadpool_limits

from hammemo import MemoryClassifier
from hammemo._arrays import blas
from hammemo._arrays.blas import OneBlasThread, one_blas_thread
from hammemo.kernels import AutoSites, PositionalHamming
from hammemo.memories import Exact, Hashed
from hammemo.votes import LogLinear, Mixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RNG = np.random.default_rng(0)
X = RNG.integers(0, 3, (600, 4))
Y = (X[:, 0] + X[:, 1]) % 3


def threads() -> set[int]:
    """Return the numbers of threads of the BLAS libraries."""
    return {library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Two threads, whatever the machine has and whatever the environment says; any thread may set another number."""
    with threadpool_limits(2, "blas"):
        if threads() != {2}:
            pytest.skip("no BLAS here whose threads can be set")
        for library in blas._libraries():
            getattr(library, "clear_controlling_thread", lambda: None)()
        yield


def test_of_a_block() -> None:
    with one_blas_thread:
        assert threads() == {1}
        with one_blas_thread:
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {2}


def test_of_a_block_that_fails() -> None:
    with pytest.raises(KeyError), one_blas_thread:
        raise KeyError("a")
    assert threads() == {2}


def test_of_blocks_in_threads_that_overlap() -> None:
    """The first to enter leaves first: the other one still has the limit, and takes it back."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with one_blas_thread:
            entered.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    one_blas_thread.__enter__()
    leave.set()
    thread.join()
    assert threads() == {1}
    one_blas_thread.__exit__(None, None, None)
    assert threads() == {2}


def test_of_many_threads_at_once() -> None:
    seen: list[set[int]] = []

    def use() -> None:
        for _ in range(30):
            with one_blas_thread:
                seen.append(threads())

    workers = [threading.Thread(target=use) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [{1}] * 120
    assert threads() == {2}


def test_a_number_that_someone_else_set_is_left_alone() -> None:
    with one_blas_thread:
        ThreadpoolController().limit(limits=3, user_api="blas")
    assert threads() == {3}


def test_a_limit_of_another_thread_that_ends_meanwhile_is_not_brought_back() -> None:
    begin, begun, end = threading.Event(), threading.Event(), threading.Event()

    def other() -> None:
        begin.wait()
        with threadpool_limits(1, "blas"):
            begun.set()
            end.wait()

    thread = threading.Thread(target=other)
    thread.start()
    begin.set()
    begun.wait()
    with one_blas_thread:
        end.set()
        thread.join()
    assert threads() == {2}


def test_one_thread_stays_one() -> None:
    with threadpool_limits(1, "blas"):
        with one_blas_thread:
            pass
        assert threads() == {1}


class Library:
    """A library whose call number `fails_at` is interrupted."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.threads, self.calls, self.fails_at = 4, 0, fails_at

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, number: int) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise KeyboardInterrupt
        self.threads = number


def test_an_interrupt_while_the_limit_is_set_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = [Library(), Library(fails_at=1)]
    monkeypatch.setattr(blas, "_libraries", lambda: libraries)
    with pytest.raises(KeyboardInterrupt), OneBlasThread():
        raise AssertionError("the block is not entered")
    assert [library.threads for library in libraries] == [4, 4]


def test_an_interrupt_while_it_is_taken_back_is_mended_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries, limit = [Library(fails_at=2), Library()], OneBlasThread()
    monkeypatch.setattr(blas, "_libraries", lambda: libraries)
    with pytest.raises(KeyboardInterrupt), limit:
        pass
    with limit:
        assert [library.threads for library in libraries] == [1, 1]
    assert [library.threads for library in libraries] == [4, 4]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="forking beside threads warns")
def test_a_child_forked_while_the_lock_is_held_can_use_it() -> None:
    with one_blas_thread._lock:
        child = os.fork()
        if not child:
            with one_blas_thread:
                os._exit(17)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="forking beside threads warns")
def test_a_fork_waits_until_no_number_is_being_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the lock of the library, which was taken in the parent, would stay taken in the child."""
    begun, lock = threading.Event(), threading.Lock()

    class Slow(Library):
        def set_num_threads(self, number: int) -> None:
            with lock:
                begun.set()
                time.sleep(0.2)
                super().set_num_threads(number)

    libraries = [Slow()]
    monkeypatch.setattr(blas, "_libraries", lambda: libraries)
    monkeypatch.setattr(blas, "_FORK_SECONDS", 600.0)

    def use() -> None:
        with one_blas_thread:
            pass

    other = threading.Thread(target=use)
    other.start()
    begun.wait()
    child = os.fork()
    if not child:
        os._exit(17 if lock.acquire(blocking=False) else 1)
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    use()  # the lock is free in the parent, too
    assert libraries[0].threads == 4


def fit_table() -> MemoryClassifier:
    return MemoryClassifier(AutoSites(), Exact(), "auto", random_state=0).fit(X.astype(str), Y)


def fit_shared() -> MemoryClassifier:
    return MemoryClassifier(PositionalHamming(), Hashed(64), LogLinear(per_label=False)).fit(X, Y)


def fit_mixture() -> MemoryClassifier:
    visits = [row.tolist() for row in RNG.integers(0, 5, (100, 6))]
    return MemoryClassifier(vote=Mixture()).fit_stream(visits, h=3, short="pad")


@pytest.mark.parametrize("fit", [fit_shared, fit_mixture])
def test_every_optimisation_of_weights_has_one_thread(
    fit: Callable[[], MemoryClassifier], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[int]] = []

    def watched(*given: Any, **named: Any) -> Any:
        seen.append(threads())
        return minimize(*given, **named)

    for module in ("votes.fitting", "votes.sparse_fitting", "votes.mixture.gates"):
        monkeypatch.setattr(f"hammemo.{module}.minimize", watched)
    model = fit()
    assert threads() == {2}
    model.refit()
    assert threads() == {2}
    assert len(seen) >= 2
    assert all(found == {1} for found in seen)


def test_sites_are_chosen_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    original = np.linalg.solve

    def watched(*given: Any) -> Any:
        seen.append(threads())
        return original(*given)

    monkeypatch.setattr("numpy.linalg.solve", watched)
    fit_table()
    assert seen
    assert all(found == {1} for found in seen)


def test_fits_that_fail_in_threads_leave_the_number_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(1000))

    def every_other_fails(*given: Any, **named: Any) -> Any:
        if next(calls) % 2:
            raise MemoryError("no memory left")
        return minimize(*given, **named)

    monkeypatch.setattr("hammemo.votes.fitting.minimize", every_other_fails)
    ends: list[str] = []

    def fit() -> None:
        for _ in range(5):
            try:
                fit_shared()
                ends.append("fitted")
            except MemoryError:
                ends.append("failed")

    workers = [threading.Thread(target=fit) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(ends) == ["failed"] * 10 + ["fitted"] * 10
    assert threads() == {2}


def test_weights_do_not_depend_on_the_number_of_threads() -> None:
    """Without the limit they differ here in the last bits: two threads add in another order."""
    rows = np.random.default_rng(0).integers(0, 40, (20_000, 3))
    labels = (rows[:, 0] + rows[:, 1]) % 3
    labels[::3] = 0
    found = []
    for number in (1, 2, 4):
        with threadpool_limits(number, "blas"):
            model = MemoryClassifier(PositionalHamming(), Exact(), LogLinear()).fit(rows, labels)
            found.append({name: array.tobytes() for name, array in model.vote_.state().items()})
    assert found[0] == found[1] == found[2]
