"""Wrong arguments to the compiled loops: they raise TypeError or ValueError, or work.

What is read or written outside the arrays is not always noticed here: `test_native_builds` runs this with sanitizers.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import mmap
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo.tokens.labels import top_columns
from native_cases import PATHS, _native, thorough

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

H, N_LABELS, M = 3, 5, 40
RESERVED = np.array([5, 7, 2**64 - 1], np.uint64)
HASHES = np.arange(0, 11, dtype=np.uint64)
PLACES = np.arange(-3, 8, dtype=np.int32)
REFUSALS = (TypeError, ValueError)

LAYOUT: dict[str, Any] = {
    "h": H,
    "positions": [[0], [1], [2]],
    "multipliers": [3, 5, 7],
    "tuple_seeds": [1, 2, 3],
    "groups": [0, 0, 0],
    "reserved": [RESERVED],
    "entries": [np.empty((0, 1), np.uint64)],
    "token_hashes": RESERVED,
    "token_places": np.array([2, 0, 1], np.uint32),
    "token_checks": np.empty((0, 2), np.uint64),
    "single_rows": np.arange(3, dtype=np.uint32),
    "buckets": [4, 4, 4],
    "integer_key": (1, 2),
    "keyed": False,
}
TUPLES: dict[str, Any] = {
    **LAYOUT,
    "positions": [[0], [0, 2], [2, 1]],
    "groups": [0, 1, 1],
    "reserved": [RESERVED] * 2,
    "entries": [np.empty((0, 1), np.uint64), 2 * np.array([[0, 0], [1, 3], [2**62, 2]], np.uint64)],
    "token_checks": np.array([[0, 1], [5, 7], [2**64 - 1, 3]], np.uint64),
    "single_rows": np.array([1, 2**32 - 1, 0], np.uint32),
}


def arguments(method: str) -> dict[str, Any]:
    """Return valid arguments, all made again."""
    rng = np.random.default_rng(0)
    n_rows = 3 * (len(RESERVED) + 4)
    ranks, stream = rng.integers(-1, len(HASHES), (M, H)), rng.integers(-1, len(HASHES), M)
    columns = rng.integers(0, N_LABELS, M).astype(np.int32)
    cells = np.zeros((n_rows + 1, N_LABELS), np.uint32)
    values = rng.integers(-9, 9, (n_rows, N_LABELS))
    path: dict[str, Any] = {"path": "auto"}
    source: dict[str, Any] = {"tokens": ranks, "hashes": HASHES.copy(), "places": PLACES.copy()}
    chosen: dict[str, dict[str, Any]] = {
        "rows": {**source, "out": np.zeros((M, H), np.uint32), **path},
        "count": {**source, "columns": columns, "multiplicity": columns.astype(np.uint32), "cells": cells, **path},
        "count_stream": {**source, "tokens": stream, "columns": columns, "cells": cells, **path},
        "find": {"tokens": stream, "out": np.zeros(M, np.int32), **path},
        "Table": {"values": values, "divisor": np.arange(1.0, N_LABELS + 1), "scale": 1.0, **path},
        "winners": {**source, "out": np.zeros(M, np.int32), "threads": 1},
        "leaders": {**source, "out": np.zeros((M, 2), np.int32), "threads": 1},
        "scores": {**source, "out": np.zeros((M, N_LABELS)), "threads": 1},
        "one": {"tokens": [1, "a", 3], "known": {"a": bytes(12)}},
        "own_rows": {**source, "out": np.zeros((M, H), np.int64)},
        "centred_sums": {
            "rows": rng.integers(-1, 7, (M, H)),
            "counts": rng.integers(0, 9, (M, H, N_LABELS)),
            "shared_sums": rng.integers(0, 99, (H, N_LABELS)),
            "weights": np.arange(1.0, H + 1),
            "out": np.zeros((M, N_LABELS)),
            "scale": 0.25,
        },
        "replaced": {"rows": np.arange(n_rows)[::2].copy(), "values": values[::2].copy(), "divisor": np.ones(N_LABELS)},
    }
    return chosen[method]


METHODS = ["rows", "count", "count_stream", "find", "Table", "winners", "leaders", "scores", "one"]
METHODS += ["own_rows", "centred_sums", "replaced"]
OF_LAYOUTS = ("rows", "count", "count_stream", "own_rows", "centred_sums")


def call(method: str, given: dict[str, Any], layout: Any = None) -> Any:
    layout = _native.Layout(**LAYOUT) if layout is None else layout
    if method == "Table":
        return _native.Table(layout=layout, **given)
    if method == "find":
        return _native.Finder(RESERVED, (1, 2), False).find(**given)
    owner = layout if method in OF_LAYOUTS else _native.Table(layout, **arguments("Table"))
    return getattr(owner, method)(**given)


def wrong_array(array: NDArray[Any], how: str) -> Any:
    """Return something like an array, but not quite."""
    padded = np.zeros([2 * size for size in array.shape], array.dtype)
    frozen = array.copy()
    frozen.flags.writeable = False
    values = {"-2": -2, "large": 10**9, "lowest": np.iinfo(np.int64).min, "nan": np.nan, "infinite": -np.inf}
    if how in values:
        filled = array.copy()
        with np.errstate(invalid="ignore"):
            filled[...] = np.array(values[how]).astype(array.dtype)
        return filled
    if how in DTYPES:
        return array.astype(how)
    wrong: dict[str, Callable[[], Any]] = {
        "swapped": lambda: array.astype(array.dtype.newbyteorder()),
        "strided": lambda: padded[tuple(slice(None, None, 2) for _ in array.shape)],
        "reversed": lambda: array[::-1],
        "fortran": lambda: np.asfortranarray(array),
        "transposed": lambda: array.T,
        "broadcast": lambda: np.broadcast_to(array[:1], array.shape),
        "misaligned": lambda: np.frombuffer(b"\0" * (array.nbytes + 1), array.dtype, array.size, 1).reshape(
            array.shape
        ),
        "shorter": lambda: array[:-1].copy(),
        "longer": lambda: np.concatenate([array, array]),
        "none": lambda: array[:0],
        "no columns": lambda: array[..., :0].copy(),
        "wider": lambda: np.concatenate([array, array], axis=-1),
        "huge and empty": lambda: np.empty((0, 2**40), array.dtype),
        "scalar": lambda: array.ravel()[0],
        "no dimension": lambda: np.array(array.ravel()[0]),
        "one more dimension": lambda: array[None],
        "flat": array.ravel,
        "read-only": lambda: frozen,
        "list": array.tolist,
        "bytes": array.tobytes,
        "None": lambda: None,
        "memoryview": lambda: memoryview(array.data),
        "masked": lambda: np.ma.masked_array(array, mask=True),
    }
    return wrong[how]()


DTYPES = ["int8", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64", "bool", "complex64", "O", "U"]
HOW = [
    *DTYPES,
    *("-2", "large", "lowest", "nan", "infinite", "swapped", "strided", "reversed", "fortran", "transposed"),
    *("broadcast", "misaligned", "shorter", "longer", "none", "no columns", "wider", "huge and empty", "scalar"),
    *("no dimension", "one more dimension", "flat", "read-only", "list", "bytes", "None", "memoryview", "masked"),
]
JUNK = [None, -1, 0, 2**31, 2**32, 2**63, 2**64, 1.5, np.nan, "x", "", b"x", [], [[]], {}, (1,), (1, 2, 3), object()]


@given(method=st.sampled_from(METHODS), data=st.data(), tuples=st.booleans())
@thorough
def test_wrong_arguments_are_refused_or_work(method: str, data: st.DataObject, tuples: bool) -> None:
    chosen = arguments(method)
    for name in data.draw(st.lists(st.sampled_from(sorted(chosen)), min_size=1, max_size=3, unique=True)):
        if isinstance(chosen[name], np.ndarray) and data.draw(st.integers(0, 9)):
            chosen[name] = wrong_array(chosen[name], data.draw(st.sampled_from(HOW)))
        else:
            chosen[name] = data.draw(st.sampled_from(JUNK))
    # A table also refuses too large a sum, and Python too large an integer for a hash.
    overflow = (OverflowError,) if method in ("Table", "one", "replaced") else ()
    with contextlib.suppress(*REFUSALS, *overflow):
        call(method, chosen, _native.Layout(**(TUPLES if tuples else LAYOUT)))


@pytest.mark.parametrize("method", METHODS)
def test_right_arguments_work(method: str) -> None:
    call(method, arguments(method))


OUTPUTS = {"rows": "out", "count": "cells", "count_stream": "cells", "find": "out", "winners": "out", "scores": "out"}
OUTPUTS["centred_sums"] = "out"


@pytest.mark.parametrize("how", ["strided", "reversed", "int64", "float32", "swapped", "read-only", "broadcast"])
@pytest.mark.parametrize("method", OUTPUTS)
def test_no_answer_is_written_to_a_copy_and_lost(method: str, how: str) -> None:
    chosen = arguments(method)
    chosen[OUTPUTS[method]] = wrong_array(chosen[OUTPUTS[method]], how)
    with pytest.raises(TypeError):
        call(method, chosen)


WRONG_LAYOUTS: dict[str, list[Any]] = {
    "h": [0, -1, 2, 2049, 2**32, 1.5, None],
    "positions": [[], [[]], [[0], [1]], [0, 1, 2], *([[0], [1], site] for site in ([], [3], [-1], [2**32], [0, 3]))],
    "multipliers": [[], [1, 2], [1, 2, 3, 4], [1, 2, -3], [1, 2, 2**64]],
    "tuple_seeds": [[], [1, 2], [1, 2, 3, 4], [1, 2, "x"]],
    "groups": [[], [0, 0], [0, 0, 1], [0, 0, 2**32 - 1], [0, 0, -1]],
    "reserved": [
        *([], None, [[5, 7]], [RESERVED[::-1]], [RESERVED[::-1].copy()], [RESERVED.repeat(2)]),
        *([RESERVED.astype(float)], [RESERVED.view(np.int64)], [RESERVED[:, None]]),
    ],
    "entries": [[], None, [RESERVED], [RESERVED[:, None].astype(float)], [RESERVED[:, None]] * 2],
    "token_hashes": [None, RESERVED[::-1].copy(), RESERVED[:2], RESERVED.view(np.int64), RESERVED[:, None]],
    "token_places": [None, np.array([0, 1, 3], np.uint32), np.arange(2, dtype=np.uint32), np.arange(3)],
    "token_checks": [None, RESERVED, RESERVED[:2, None], np.ones((2, 2), np.uint64), np.ones((3, 3), np.uint64)],
    "single_rows": [None, np.arange(2, dtype=np.uint32), np.array([0, 1, 3], np.uint32), np.arange(3)],
    "buckets": [4, [], [4, 4], [0, 4, 4], *([4, 4, wrong] for wrong in (0, -1, 2**32 - 1, 2**32))],
    "integer_key": [(1,), (1, 2, 3), (-1, 2), (1, 2**64), 5],
    "keyed": [None, "yes", 2],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG_LAYOUTS.items() for value in values],
    ids=lambda part: repr(part)[:40],
)
def test_wrong_layouts_are_refused(name: str, value: Any) -> None:
    with pytest.raises(REFUSALS):
        _native.Layout(**{**LAYOUT, name: value})


@given(
    h=st.integers(0, 6),
    positions=st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=4),
    groups=st.lists(st.integers(0, 3), max_size=4),
    reserved=st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=5), max_size=3),
    buckets=st.integers(0, 4),
    kind=st.sampled_from([np.int32, np.int64]),
    length=st.integers(0, 3),
    missing=st.integers(0, 3),
    confirmed=st.booleans(),
)
@thorough
def test_any_layout_is_refused_or_works(
    h: int,
    positions: list[list[int]],
    groups: list[int],
    reserved: list[list[int]],
    buckets: int,
    kind: Any,
    length: int,
    missing: int,
    confirmed: bool,
) -> None:
    words = [np.array(sorted(values), np.uint64) for values in reserved]
    n_sites = len(positions)
    entries = [np.repeat(part[:, None], length, axis=1) for part in words]
    tokens = words[0] if words else np.empty(0, np.uint64)
    places, rows = np.arange(len(tokens), dtype=np.uint32), np.arange(len(tokens) + 2, dtype=np.uint32)
    rows[missing:] = 2**32 - 1
    checks = np.repeat(tokens[:, None], 2, axis=1)[: None if confirmed else 0]
    try:
        layout = _native.Layout(
            *(h, positions, [3] * n_sites, [1] * n_sites, groups, words, entries, tokens, places, checks, rows),
            *([buckets] * n_sites, (1, 2), True),
        )
    except REFUSALS:
        return
    asked, columns = np.arange(-9, 6 * h * 11 - 9).astype(kind), np.zeros(6 * h * 11, np.int32)
    for path in PATHS:
        found = np.empty((66, n_sites), np.uint32)
        layout.rows(asked.reshape(66, h), None, None, found, path)
        assert found.max() < layout.n_rows
        cells = np.zeros((layout.n_rows + 1, 1), np.uint32)
        layout.count_stream(asked, None, None, columns, cells, path)
        assert cells.sum() == (len(asked) - h) * n_sites


@pytest.mark.parametrize("path", ["", "sse", "AUTO", "avx512\0"])
def test_unknown_paths_are_named(path: str) -> None:
    with pytest.raises(ValueError, match="no such path"):
        call("rows", {**arguments("rows"), "path": path})


def test_divisors_that_are_no_numbers_still_give_columns_of_the_table() -> None:
    for divisor in (np.full(N_LABELS, np.nan), np.zeros(N_LABELS), np.array([1, np.nan, 0, np.inf, -1])):
        for path in PATHS:
            table = call("Table", {**arguments("Table"), "divisor": divisor, "path": path})
            for method in ("winners", "leaders"):
                out = {**arguments(method)}
                getattr(table, method)(**out)
                assert ((out["out"] >= 0) & (out["out"] < N_LABELS)).all()


def test_an_object_cannot_be_copied_or_made_without_its_arguments() -> None:
    layout = _native.Layout(**LAYOUT)
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            copied(layout)
    for kind in (_native.Layout, _native.Table, _native.Finder):
        with pytest.raises(TypeError):
            kind()
    with pytest.raises(TypeError):
        _native.Table(None, **arguments("Table"))


def test_a_table_keeps_its_layout_alive() -> None:
    table = call("Table", arguments("Table"))  # nothing else holds the layout
    chosen = arguments("scores")
    table.scores(**chosen)
    expected = top_columns(chosen["out"], 2)
    leaders = arguments("leaders")
    table.leaders(**leaders)
    np.testing.assert_array_equal(leaders["out"], expected)


def before_forbidden_memory(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy whose last byte is the last one of a page, with no access to the next page."""
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, size + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + size), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    start = size - array.nbytes
    copied = np.frombuffer(pages, array.dtype, array.size, start).reshape(array.shape)
    copied[...] = array
    return copied


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", [method for method in METHODS if method != "one"])
def test_nothing_behind_an_array_is_touched(method: str, path: str) -> None:
    """Sanitizers do not see what masked loads and gathers read; a forbidden page does."""
    for integers in (False, True):
        for layout in (LAYOUT, TUPLES):
            for tokens in (1, 2, 7, 8, 9, 33, M):
                chosen = arguments(method)
                if "path" in chosen:
                    chosen["path"] = path
                if method != "Table":
                    for name in set(chosen) & {"tokens", "columns", "multiplicity", "rows", "counts", "values"}:
                        chosen[name] = chosen[name][:tokens]
                    if "out" in chosen:
                        chosen["out"] = chosen["out"][:tokens]
                if integers and "hashes" in chosen:
                    chosen["hashes"] = chosen["places"] = None
                    chosen["tokens"] = chosen["tokens"].astype(np.int32)
                for name, value in chosen.items():
                    if isinstance(value, np.ndarray):
                        chosen[name] = before_forbidden_memory(value)
                call(method, chosen, _native.Layout(**layout))
