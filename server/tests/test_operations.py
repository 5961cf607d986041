"""Edits are checked before anything is done with them, and so is what a log gives back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import (
    Edit,
    LoggedRows,
    Malformed,
    ServiceError,
    TooLarge,
    check_edit,
    check_name,
    decode_body,
    digest_body,
)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"op": ""}, Malformed),
        ({"op": "a b"}, Malformed),
        ({"op": "ü"}, Malformed),
        ({"op": "a" * 129}, Malformed),
        ({"op": "a\n"}, Malformed),
        ({"kind": "delete"}, Malformed),
        ({"rows": []}, Malformed),
        ({"rows": [], "labels": []}, Malformed),
        ({"rows": [["a"], ["b"]]}, Malformed),
        ({"rows": [[]]}, Malformed),
        ({"rows": [["a"], ["a", "b"]], "labels": ["x", "y"]}, Malformed),
        ({"rows": [["a"] * 11]}, TooLarge),
        ({"rows": [["a"]] * 6, "labels": ["x"] * 6}, TooLarge),
        ({"rows": [["a" * 21]]}, TooLarge),
        ({"labels": ["a" * 21]}, TooLarge),
        ({"rows": [[float("nan")]]}, Malformed),
        ({"rows": [[float("inf")]]}, Malformed),
        ({"rows": [[["a"]]]}, Malformed),
        ({"rows": [[{"a": 1}]]}, Malformed),
        ({"rows": [[b"a"]]}, Malformed),
        ({"rows": [["\ud800"]]}, Malformed),
        ({"rows": [[2**70]]}, Malformed),
        ({"labels": [2**63]}, Malformed),
        ({"rows": [["a" * 20] * 10] * 5, "labels": ["x"] * 5}, TooLarge),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_is_no_edit_is_refused(change: dict[str, Any], error: type[ServiceError]) -> None:
    edit = Edit(**{"op": "op", "kind": "learn", "rows": [["a"]], "labels": ["x"], **change})
    with pytest.raises(error):
        check_edit(edit, Limits(rows=5, columns=10, text=20, logged=1000))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        msgspec.msgpack.encode(["learn", [["a"]]]),
        msgspec.msgpack.encode(["learn", [], []]),
        msgspec.msgpack.encode(["learn", [[]], ["x"]]),
        msgspec.msgpack.encode(["learn", [["a"], ["b", "c"]], ["x", "y"]]),
        msgspec.msgpack.encode(["learn", [["a"]], ["x", "y"]]),
        msgspec.msgpack.encode(["other", [["a"]], ["x"]]),
        msgspec.msgpack.encode(["learn", [[{"a": 1}]], ["x"]]),
        msgspec.msgpack.encode(["learn", [["a"]], ["x"], 1]),
    ],
)
def test_a_damaged_body_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_body(body)


def test_tokens_keep_their_kinds_in_digests() -> None:
    values: list[Any] = [1, 1.0, "1", True, None]
    made = {digest_body(check_edit(Edit("op", "learn", [[value]], ["x"]), Limits())[1], b"k" * 32) for value in values}
    assert len(made) == 5
    assert LoggedRows("learn", [[1]], ["x"]).n_rows == 1


@pytest.mark.parametrize("name", ["", "-a", "_a", "A", "a/b", "..", "a.b", "a" * 65, "ä", "a\n", None, 1])
def test_names_are_plain(name: Any) -> None:
    with pytest.raises(Malformed):
        check_name("model", name)
    assert check_name("model", "0a_-9" + "z" * 59)
