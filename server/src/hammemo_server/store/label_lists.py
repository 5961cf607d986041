"""Named lists of labels, such as the items in stock: settings of a host beside its models.

A list belongs to a tenant, has a version, and is replaced in one step. It is in no model and in
no digest: a question names it (`allow`, `exclude`), and the answer says the version that was
read. The store keeps it as lines of JSON, so that no step of reading it takes long: while a
thread runs one call of compiled code, all others wait.

A process keeps the lists that it was asked about as `ListedLabels`, which know their columns
among the labels of a model: a question costs nothing of the size of the list. Another process
of the same store may replace a list, so versions are looked up again after a while, which the
caller says.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hammemo.tasks.labels.masking import ListedLabels
from hammemo.tokens.vocabulary import as_token
from hammemo_server.edits.operations import Malformed, NoSuchList, TooLarge
from hammemo_server.store.log import LogDamaged, LogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hammemo_server.edits.limits import Limits
    from hammemo_server.store.base_log import Store

_LINE: Final = 4_096
"""Items of one line."""
_PAUSE: Final = 5.0
"""Seconds for which a store that did not answer is not asked again."""

_decode: Final = msgspec.json.Decoder(list[str | int | float]).decode


def check_items(items: Sequence[Any], limits: Limits) -> dict[Any, None]:
    """Return the items of a list as tokens, each once, in their order.

    Refuse what is no token, and too much.
    """
    if len(items) > limits.list_items:
        raise TooLarge(
            f"A list has at most {limits.list_items:,} items, and this one has {len(items):,}."
        )
    tokens: dict[Any, None] = {}
    for place, item in enumerate(items):
        if isinstance(item, str) and len(item) > limits.text:
            raise TooLarge(
                f"Item {place} of the list has {len(item):,} characters, more than {limits.text:,}."
            )
        try:
            tokens[as_token(item)] = None
        except (ValueError, TypeError, OverflowError) as error:
            raise Malformed(
                f"Item {place} of the list: {' '.join(str(error).split())[:300]}"
            ) from None
    return tokens


def encode_items(items: Iterable[Any]) -> bytes:
    """Return items as lines of JSON.

    Examples
    --------
    >>> from hammemo_server.store.label_lists import encode_items
    >>> encode_items(["a", 2])
    b'["a",2]'
    """
    listed = list(items)
    return b"\n".join(
        msgspec.json.encode(listed[at : at + _LINE]) for at in range(0, len(listed), _LINE)
    )


def join_as_array(data: bytes) -> bytes:
    """Return lines of JSON as one array.

    Examples
    --------
    >>> from hammemo_server.store.label_lists import join_as_array, encode_items
    >>> join_as_array(encode_items(["a", 2])), join_as_array(b"")
    (b'["a",2]', b'[]')
    """
    return b"[" + b",".join(line[1:-1] for line in data.splitlines()) + b"]"


def no_such_list(name: str) -> NoSuchList:
    """Return the refusal of a name that no list has."""
    return NoSuchList(
        f"There is no list {name!r}: send it with PUT /v1/lists/{name}, "
        "or name one of GET /v1/lists."
    )


class NamedList(NamedTuple):
    """A list of labels as questions use it."""

    version: int
    labels: ListedLabels


class LabelLists:
    """The lists that this process was asked about.

    Parameters
    ----------
    store : Store
    most_items : int
        Items of all lists that are kept in memory; the one that was asked last is always kept.
    """

    def __init__(self, store: Store, most_items: int) -> None:
        self._store = store
        self._most_items = most_items
        self._lock = threading.Lock()
        self._resident: OrderedDict[tuple[str, str], tuple[float, NamedList]] = OrderedDict()
        """Lists, and when the store was asked whether they are the newest."""
        self._asking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """Held while a list of a tenant is looked up in the store, so that what was replaced
        meanwhile is not kept."""

    def find_resident(self, tenant: str, name: str, age: float) -> NamedList | None:
        """Return a list that is in memory and was looked up in the last `age` seconds, or None."""
        with self._lock:
            at, named = self._resident.get((tenant, name), (-math.inf, None))
            if named is not None:
                self._resident.move_to_end((tenant, name))
        return named if time.monotonic() - at <= age else None

    def get(self, tenant: str, name: str, age: float = 0.0) -> NamedList:
        """Return a list.

        Its version is looked up again where that was longer than `age` seconds ago, and a new
        version is read.
        """
        fresh = self.find_resident(tenant, name, age)
        if fresh is not None:
            return fresh
        with self._asking[tenant]:
            at = time.monotonic()
            named = self.find_resident(tenant, name, math.inf)
            try:
                facts = self._store.lists(tenant).get(name)
                if facts is None or named is None or named.version < facts.version:
                    named = None if facts is None else self._read(tenant, name)
            except LogDamaged:
                raise
            except LogError:
                if named is None:
                    raise
                at += _PAUSE  # what is in memory is used for as long as the store does not answer
            self._keep(tenant, name, named, at)
        if named is None:
            raise no_such_list(name)
        return named

    def note_change(self, tenant: str, name: str, new: NamedList | None = None) -> None:
        """Take note that a list was replaced or deleted.

        What was looked up before counts no more.
        """
        with self._asking[tenant]:
            self._keep(tenant, name, new, time.monotonic())

    def _read(self, tenant: str, name: str) -> NamedList | None:
        """Return a list from the store; None if it was deleted meanwhile."""
        facts, data = self._store.read_list(tenant, name) or (None, b"")
        if facts is None:
            return None
        named = NamedList(facts.version, ListedLabels(_items(data)))
        if len(named.labels) != facts.items:
            raise LogDamaged(f"The list {name!r} is damaged: send it again.")
        return named

    def _keep(self, tenant: str, name: str, named: NamedList | None, at: float) -> None:
        """Keep a list in memory; where that is too much, drop those that were asked longest ago."""
        with self._lock:
            self._resident.pop((tenant, name), None)
            if named is not None:
                self._resident[tenant, name] = at, named
            n_items = sum(len(resident.labels) for _, resident in self._resident.values())
            while n_items > self._most_items and len(self._resident) > 1:
                n_items -= len(self._resident.popitem(last=False)[1][1].labels)


def _items(data: bytes) -> Iterator[str | int | float]:
    try:
        for line in data.splitlines():
            yield from _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise LogDamaged("A list is damaged: send it again.") from None
