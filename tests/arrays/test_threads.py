"""Threads give what one thread gives, in order, and leave nothing running after an error or an interrupt."""

from __future__ import annotations

import signal
import threading

import pytest

from hammemo._arrays.threads import in_threads, thread_pieces, threads_used
from pace import patience

pytestmark = pytest.mark.quick


def test_two_items_run_at_the_same_time_and_come_in_order() -> None:
    both = threading.Barrier(2, timeout=patience(60))

    def met(item: int) -> tuple[int, str]:
        both.wait()
        return item, threading.current_thread().name

    with threads_used(2):
        found = in_threads(met, [7, 3])
    assert [item for item, _ in found] == [7, 3]
    assert len({name for _, name in found}) == 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hammemo-fit")]


def test_without_threads_and_for_one_item_the_caller_works() -> None:
    def name(_: int) -> str:
        return threading.current_thread().name

    mine = threading.current_thread().name
    assert in_threads(name, [1, 2]) == [mine, mine]
    with threads_used(1):
        assert in_threads(name, [1, 2]) == [mine, mine]
    with threads_used(4):
        assert in_threads(name, [1]) == [mine]


def test_a_thread_gets_no_threads_of_its_own() -> None:
    def inner(_: int) -> list[str]:
        return in_threads(lambda _: threading.current_thread().name, [1, 2, 3])

    with threads_used(2):
        for names in in_threads(inner, [1, 2, 3, 4]):
            assert len(set(names)) == 1
            assert thread_pieces(100) != [slice(0, 100)]
        assert in_threads(lambda _: thread_pieces(100), [1, 2]) == [[slice(0, 100)]] * 2


@pytest.mark.parametrize("n", [0, 1, 5, 8, 100])
def test_pieces_are_all_items_once(n: int) -> None:
    assert thread_pieces(n) == [slice(0, n)]
    with threads_used(2):
        pieces = thread_pieces(n, least=3)
        assert [i for part in pieces for i in range(n)[part]] == list(range(n))
        assert n < 3 or all(part.stop - part.start >= 3 for part in pieces)
        assert len(thread_pieces(n, each=1)) <= 2


def test_the_first_error_is_raised_and_nothing_runs_on() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        if item in (1, 2):
            raise ValueError(f"item {item}")
        return item

    with threads_used(2):
        with pytest.raises(ValueError, match="item 1"):
            in_threads(work, [*range(1000)])
        n = len(begun)
        assert in_threads(abs, [-1, -2]) == [1, 2]
        assert len(begun) == n


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals to threads are POSIX")
def test_an_interrupt_waits_for_what_has_begun_and_ends_the_rest() -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread")
    main, ended, interrupted = threading.get_ident(), [], threading.Event()

    def work(item: int) -> None:
        if item == 0:
            signal.pthread_kill(main, signal.SIGINT)
            interrupted.set()
        interrupted.wait(patience(60))
        ended.append(item)

    def refused(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, refused)
    try:
        with threads_used(2):
            with pytest.raises(KeyboardInterrupt):
                in_threads(work, [*range(100_000)])
            n = len(ended)
        assert len(ended) == n < 100_000
    finally:
        signal.signal(signal.SIGINT, before)
