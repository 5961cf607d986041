"""Messages of PostgreSQL's log: what is whole is read back, what is cut or damaged is refused with a sentence."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo.follow.changes import add_up
from hammemo.follow.pgoutput import UNCHANGED, Begin, Change, Commit, Relation, Truncate, Values, decode
from hammemo.follow.position import NeedsCheck, Position, ProtocolError, is_shown
from hammemo.follow.values import Column, Followed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.follow.pgoutput import Message

pytestmark = pytest.mark.quick

numbers, words = st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1)
names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)
values = st.lists(st.one_of(st.none(), st.just(UNCHANGED), st.binary(max_size=20)), max_size=8)


def row(found: Sequence[object]) -> bytes:
    kinds = {None: b"n", UNCHANGED: b"u"}
    parts = [b"t" + struct.pack(">I", len(v)) + v if isinstance(v, bytes) else kinds[v] for v in found]  # type: ignore[index]
    return struct.pack(">H", len(found)) + b"".join(parts)


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, object]:
    kind = draw(st.sampled_from("BCRTIUD"))
    number = draw(numbers)
    if kind == "B":
        commit = draw(words)
        return b"B" + struct.pack(">QqI", commit, 5, number), Begin(commit, number)
    if kind == "C":
        end = draw(words)
        return b"C" + struct.pack(">BQQq", 0, 1, end, 10**6), Commit(end, 946_684_801.0)
    if kind == "T":
        tables = draw(st.lists(numbers, max_size=4))
        return b"T" + struct.pack(f">IB{len(tables)}I", len(tables), 0, *tables), Truncate(tuple(tables))
    if kind == "R":
        columns = draw(st.lists(st.tuples(names, numbers), max_size=4))
        data = b"R" + struct.pack(">I", number) + b"s\0t\0f" + struct.pack(">H", len(columns))
        data += b"".join(b"\1" + name.encode() + b"\0" + struct.pack(">Ii", oid, -1) for name, oid in columns)
        return data, Relation(number, "s", "t", "f", tuple(columns))
    old, new, letter = draw(values), draw(values), draw(st.sampled_from("KO"))
    head = kind.encode() + struct.pack(">I", number)
    if kind == "I":
        return head + b"N" + row(new), Change(number, None, new)
    if kind == "D":
        return head + letter.encode() + row(old), Change(number, old, None, letter == "K")
    if draw(st.booleans()):
        return head + b"N" + row(new), Change(number, None, new, is_update=True)
    whole = head + letter.encode() + row(old) + b"N" + row(new)
    return whole, Change(number, old, new, letter == "K", is_update=True)


@given(messages())
def test_what_is_whole_is_read_and_what_is_cut_is_refused(message: tuple[bytes, object]) -> None:
    data, meant = message
    assert decode(data) == meant
    for end in range(len(data)):
        with pytest.raises(ProtocolError, match="cannot be read"):
            decode(data[:end])


@given(messages(), st.data())
def test_damaged_messages_are_read_or_refused(message: tuple[bytes, object], data: st.DataObject) -> None:
    damaged = bytearray(message[0])
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        decode(bytes(damaged))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ProtocolError):
        decode(data)


def test_what_says_nothing_about_rows_is_left_out() -> None:
    assert [decode(kind + b"anything") for kind in (b"O", b"Y", b"M")] == [None] * 3


FOLLOWED = Followed("t", (Column("a", 25),), Column("y", 25))
TABLE = Relation(7, "public", "t", "f", (("id", 23), ("y", 25), ("a", 25)))
AT = Position("slot", 100, "t", "l")


def _values(text: str | None) -> Values | None:
    """A row of a letter for the label ("-" for none) and a value."""
    return None if text is None else [b"1", None if text[0] == "-" else text[:1].encode(), text[1:].encode()]


def change(old: str | None = None, new: str | None = None) -> Change:
    made = [_values(text) for text in (old, new)]
    return Change(7, made[0], made[1], is_update=old is not None and new is not None)


def test_transactions_are_added_up_and_those_that_are_applied_are_skipped() -> None:
    told: list[Message] = [
        Begin(90, 5), TABLE, change(new="ya"), Commit(99, 1.0),
        Begin(101, 6), change(new="yb"), change(new="-c"), change("yb", "nb"), change("-c", "yc"), Commit(110, 2.0),
        Begin(111, 7), change("nb"), Commit(120, 3.0),
    ]  # fmt: skip
    [part] = add_up(told, AT, FOLLOWED, rows=10)
    assert part.net() == ([("c", "y")], [])
    assert (part.end, part.skipped, part.transactions, part.changes) == (120, 1, 2, 5)


def test_a_large_transaction_comes_in_parts_of_which_only_the_last_is_whole() -> None:
    told: list[Message] = [Begin(101, 6), TABLE, *(change(new=f"y{i}") for i in range(25)), Commit(110, 2.0)]
    parts = list(add_up(told, AT, FOLLOWED, rows=5))
    assert [(part.is_whole, len(part.counts)) for part in parts] == [(False, 10), (False, 10), (True, 5), (True, 0)]
    assert [part.end for part in parts] == [100, 100, 110, 110]


def test_a_truncate_makes_all_before_it_void() -> None:
    told: list[Message] = [Begin(101, 6), TABLE, change(new="ya"), Truncate((7,)), change(new="yb"), Commit(110, 2.0)]
    [part] = add_up(told, AT, FOLLOWED, rows=5)
    assert (part.is_emptied, part.net()) == (True, ([("b", "y")], []))


@pytest.mark.parametrize(
    "told",
    [Change(7, [b"1", None, None], None, only_key=True), Change(7, None, [b"1", b"y", b"a"], is_update=True),
     Change(7, None, [b"1", b"y", UNCHANGED]), Change(7, None, [b"1"]), Change(7, None, [b"1", b"y", b"\xff"])],
)  # fmt: skip
def test_rows_that_are_not_whole_ask_for_a_comparison(told: Change) -> None:
    with pytest.raises(NeedsCheck):
        list(add_up([Begin(101, 6), TABLE, told], AT, FOLLOWED, rows=5))


def test_what_no_server_sends_is_refused() -> None:
    wrong: list[list[Message]] = [[Begin(101, 6), change(new="ya")], [Commit(5, 1.0)]]
    for told in wrong:
        with pytest.raises(ProtocolError):
            list(add_up(told, AT, FOLLOWED, rows=5))


@given(st.integers(3, 2**40), st.sets(st.integers(0, 20)), st.integers(-30, 30))
def test_numbers_of_transactions_may_turn(least: int, running: set[int], offset: int) -> None:
    shown = f"{least}:{least + 21}:{','.join(str(least + i) for i in sorted(running))}"
    xid = least + offset
    assert is_shown(xid % 2**32, shown) == (offset < 0 or (offset <= 20 and offset not in running))
