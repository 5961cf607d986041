"""Arrays that another thread rewrites while the compiled loops read them: wrong answers at worst, never a crash.

A number is compared with its bound and then followed. Were it loaded twice, the second load could bring another number.
Whether something outside an array was touched is not always noticed here: `test_native_builds` runs this with
AddressSanitizer.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hammemo import MemoryClassifier
from hammemo.memories import Hashed
from native_cases import PATHS, _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

M, H, N_LABELS, SECONDS = (
    512,
    4,
    8,
    0.25,
)  # few contexts, so that they are rewritten often; NumPy does it without the GIL
FAR = {np.dtype(np.int64): 2**40, np.dtype(np.int32): 2**30, np.dtype(np.uint32): 2**30, np.dtype(np.uint64): 2**60}
POSITIONS = [[k] for k in range(H)]
PAIRS = [[k, (k + 1) % H] for k in range(H)]


@contextlib.contextmanager
def rewritten(array: NDArray[Any]) -> Iterator[None]:
    """Let another thread fill an array, in turn, with its own numbers and with numbers far outside every bound."""
    stop, own, far = threading.Event(), array.copy(), FAR.get(array.dtype, 1e300)

    def rewrite() -> None:
        while not stop.is_set():
            array[...] = far
            array[...] = own

    thread, interval = threading.Thread(target=rewrite), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def keep_calling(call: Callable[[], Any], array: NDArray[Any]) -> int:
    """Return how many calls went through while the array was rewritten; the others were refused at the door."""
    done, end = 0, time.monotonic() + SECONDS
    with rewritten(array):
        while time.monotonic() < end:
            with contextlib.suppress(ValueError, OverflowError):
                call()
                done += 1
    return done


def none_reserved(n_groups: int) -> list[Any]:
    nothing = np.empty(0, np.uint64)
    return [
        *([nothing] * n_groups, [nothing.reshape(0, 1)] * n_groups, nothing, nothing.astype(np.uint32)),
        *(nothing.reshape(0, 2), nothing.astype(np.uint32)),
    ]


def layout_of(positions: list[list[int]]) -> Any:
    groups = [0] * H if len(positions[0]) == 1 else list(range(H))
    return _native.Layout(
        H, positions, [3] * H, [5] * H, groups, *none_reserved(max(groups) + 1), [64] * H, (1, 2), False
    )


def table_of(layout: Any, path: str, value: int = 1) -> Any:
    values = np.full((layout.n_rows, N_LABELS), value)
    values[:, 3] += 2
    return _native.Table(layout, values, None, 1.0, path)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["int64", "int32", "ranks"])
@pytest.mark.parametrize("positions", [POSITIONS, PAIRS], ids=["positions", "pairs"])
def test_tokens(positions: list[list[int]], kind: str, path: str) -> None:
    layout = layout_of(positions)
    table, upper = table_of(layout, path), table_of(layout, path, 2)
    tokens = np.zeros((M, H), np.int32 if kind == "int32" else np.int64)
    ranks = kind == "ranks"
    source: Any = (tokens, np.arange(3, dtype=np.uint64), np.full(3, -1, np.int32)) if ranks else (tokens, None, None)
    out, leaders, scores = np.empty(M, np.int32), np.empty((M, 2), np.int32), np.empty((M, N_LABELS))
    rows, verdicts, answers = np.zeros((M, H), np.uint32), np.empty(M, np.uint8), np.zeros(M, np.int32)
    columns, cells = np.zeros(M, np.int32), np.zeros((layout.n_rows + 1, N_LABELS), np.uint32)
    stream = tokens.reshape(-1)[:M]

    def everything() -> None:
        table.winners(*source, out)
        table.leaders(*source, leaders, 2)
        table.scores(*source, scores)
        table.prove(upper, *source, answers, verdicts)
        layout.rows(*source, rows, path)
        layout.count(*source, columns, None, cells, path)
        layout.count_stream(stream, *source[1:], columns, cells, path)
        if not ranks:
            _native.Finder(np.array([7], np.uint64), (1, 2), False).find(stream, out, path)

    keep_calling(everything, tokens)
    table.winners(*source, out)
    assert (out == 3).all()  # rows differ, but all of them say the same
    assert rows.max() <= layout.n_rows


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["columns", "multiplicity", "hashes", "places", "answers", "leaders", "values"])
def test_other_arrays(name: str, path: str) -> None:
    layout = layout_of(POSITIONS)
    table, upper = table_of(layout, path), table_of(layout, path, 2)
    tokens = np.zeros((M, H), np.int64)
    cells = np.zeros((layout.n_rows + 1, N_LABELS), np.uint32)
    arrays: dict[str, NDArray[Any]] = {
        "columns": np.zeros(M, np.int32),
        "multiplicity": np.ones(M, np.uint32),
        "hashes": np.arange(3, dtype=np.uint64),
        "places": np.zeros(3, np.int32),
        "answers": np.zeros(M, np.int32),
        "leaders": np.zeros((M, 5), np.int32),
        "values": np.full((layout.n_rows, N_LABELS), 2**20),
    }

    def count() -> None:
        layout.count(tokens, arrays["hashes"], arrays["places"], arrays["columns"], arrays["multiplicity"], cells, path)
        layout.count_stream(tokens.reshape(-1)[:M], arrays["hashes"], arrays["places"], arrays["columns"], cells, path)

    verdicts, out = np.empty(M, np.uint8), np.empty(M, np.int32)
    calls: dict[str, Callable[[], Any]] = {
        "answers": lambda: table.prove(upper, tokens, None, None, arrays["answers"], verdicts),
        "leaders": lambda: table.leaders(tokens, None, None, arrays["leaders"]),
        "values": lambda: _native.Table(layout, arrays["values"], None, 1.0, path).winners(tokens, None, None, out),
    }
    keep_calling(calls.get(name, count), arrays[name])


@pytest.mark.parametrize("name", ["contexts", "lengths", "columns", "counts", "weights", "kept", "lost"])
def test_row_shares(name: str) -> None:
    names = ("contexts", "lengths", "columns", "counts")
    rows: dict[str, NDArray[Any]] = {key: np.ones(M, np.int64) for key in names}
    rows |= {"weights": np.ones(M), "kept": np.ones(M), "lost": np.zeros((M, 4))}
    order = ("contexts", "weights", "kept", "lost", "lengths", "columns", "counts")
    around = np.zeros((4, N_LABELS))
    scores = around[1:3]  # two contexts; what lies before and behind them stays as it is

    keep_calling(lambda: _native.add_row_shares(*(rows[key] for key in order), scores), rows[name])
    assert not around[[0, 3]].any()
    scores[:] = 0
    _native.add_row_shares(*(rows[key] for key in order), scores)
    assert scores[1, 1] == M
    assert scores.sum() == M


@pytest.mark.parametrize("method", ["predict", "certify", "class_scores", "partial_fit"])
def test_a_classifier(method: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 500, (M, 8)), rng.integers(0, N_LABELS, M)
    clf = MemoryClassifier(memory=Hashed(64, 32), random_state=0, vote="sum").fit(X, y)
    expected, asked = clf.predict(X), X.copy()
    call = getattr(clf, method)
    keep_calling(lambda: call(asked, y) if method == "partial_fit" else call(asked), asked)
    if method != "partial_fit":
        np.testing.assert_array_equal(clf.predict(asked), expected)


@pytest.mark.parametrize("path", PATHS)
def test_many_threads_read_one_table(path: str) -> None:
    """Nothing is rewritten here: ThreadSanitizer says whether readers share memory that one of them writes."""
    layout, rng = layout_of(POSITIONS), np.random.default_rng(0)
    table, upper = table_of(layout, path), table_of(layout, path, 2)
    tokens = rng.integers(0, 2**17, (3 * 4096, H))
    expected = np.empty((len(tokens), N_LABELS))
    table.scores(tokens, None, None, expected)
    found: list[bool] = []

    def read() -> None:
        winners, leaders = np.empty(len(tokens), np.int32), np.empty((len(tokens), 2), np.int32)
        verdicts, scores = np.empty(len(tokens), np.uint8), np.empty_like(expected)
        cells = np.zeros((layout.n_rows + 1, N_LABELS), np.uint32)
        for _ in range(3):
            table.winners(tokens, None, None, winners, 3)
            table.leaders(tokens, None, None, leaders, 3)
            table.scores(tokens, None, None, scores, 3)
            table.prove(upper, tokens, None, None, winners, verdicts, 3)
            layout.count(tokens, None, None, winners, None, cells, path)
            table.one(tokens[0].tolist(), {})
            found.append(bool((scores == expected).all() and (winners == leaders[:, 0]).all()))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 12
