"""Named lists of labels, such as the items in stock: settings of a host beside its models, replaced in one step.

A list belongs to a tenant and has a version. It is in no model and in no digest: a question names it (`allow`,
`exclude`), and the answer says the version that was read. The store keeps it as lines of JSON, so that no step of
reading it takes long: while a thread runs one call of compiled code, all others wait.

A process keeps the lists that it was asked about as `ListedLabels`, which know their columns among the labels of a
model: a question costs nothing of the size of the list. Another process of the same store may replace a list, so
versions are looked up again after a while, which the caller says.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hammemo.models.masking import ListedLabels
from hammemo.tokens.vocabulary import as_token
from hammemo_server.edits.operations import Malformed, NoSuchList, TooLarge
from hammemo_server.store.log import ListFacts, LogDamaged, LogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hammemo_server.edits.limits import Limits
    from hammemo_server.store.model_store import Store

_LINE: Final = 4_096
"""Items of one line."""
_PAUSE: Final = 5.0
"""Seconds for which a store that did not answer is not asked again."""

_decode: Final = msgspec.json.Decoder(list[str | int | float]).decode


def checked_items(items: Sequence[Any], limits: Limits) -> dict[Any, None]:
    """Return the items of a list as tokens, each once, in their order; refuse what is no token, and too much."""
    if len(items) > limits.list_items:
        raise TooLarge(f"A list has at most {limits.list_items:,} items, and this one has {len(items):,}.")
    found: dict[Any, None] = {}
    for place, item in enumerate(items):
        if isinstance(item, str) and len(item) > limits.text:
            raise TooLarge(f"Item {place} of the list has {len(item):,} characters, more than {limits.text:,}.")
        try:
            found[as_token(item)] = None
        except (ValueError, TypeError, OverflowError) as error:
            raise Malformed(f"Item {place} of the list: {' '.join(str(error).split())[:300]}") from None
    return found


def encoded_items(items: Iterable[Any]) -> bytes:
    """Return items as lines of JSON.

    Examples
    --------
    >>> from hammemo_server.store.label_lists import encoded_items
    >>> encoded_items(["a", 2])
    b'["a",2]'
    """
    return b"\n".join(map(msgspec.json.encode, _pieces(list(items))))


def _pieces(items: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), _LINE):
        yield items[start : start + _LINE]


def as_array(data: bytes) -> bytes:
    """Return lines of JSON as one array.

    Examples
    --------
    >>> from hammemo_server.store.label_lists import as_array, encoded_items
    >>> as_array(encoded_items(["a", 2])), as_array(b"")
    (b'["a",2]', b'[]')
    """
    return b"[" + b",".join(line[1:-1] for line in data.splitlines()) + b"]"


def no_such_list(name: str) -> NoSuchList:
    """Return the refusal of a name that no list has."""
    return NoSuchList(f"There is no list {name!r}: send it with PUT /v1/lists/{name}, or name one of GET /v1/lists.")


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
        self._store, self._most_items = store, most_items
        self._lock = threading.Lock()
        self._facts: dict[str, tuple[float, dict[str, ListFacts]]] = {}
        self._turns: defaultdict[str, int] = defaultdict(int)
        self._resident: OrderedDict[tuple[str, str], NamedList] = OrderedDict()
        self._loading: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def known(self, tenant: str, name: str, age: float) -> NamedList | None:
        """Return a list if its version was looked up in the last `age` seconds and it is in memory: at once."""
        with self._lock:
            at, facts = self._facts.get(tenant, (-math.inf, {}))
            if time.monotonic() - at > age or name not in facts:
                return None
            return self._of_version(tenant, name, facts[name].version)

    def get(self, tenant: str, name: str, age: float = 0.0) -> NamedList:
        """Return a list, looked up again if its version is older than `age` seconds, and read if it is new."""
        found = self.known(tenant, name, age)
        while found is None:
            try:
                facts = self._looked_up(tenant).get(name)
                if facts is None:
                    raise no_such_list(name)
                with self._loading[tenant]:  # others that ask for the same wait for it
                    with self._lock:
                        found = self._of_version(tenant, name, facts.version)
                    found = found or self._read(tenant, name)
            except LogDamaged:
                raise
            except LogError:
                found = self._held(tenant, name)
                if found is None:
                    raise
        return found

    def _held(self, tenant: str, name: str) -> NamedList | None:
        """Return what is in memory for the time in which the store does not answer; it is tried again after a while."""
        with self._lock:
            found = self._resident.get((tenant, name))
            if found is not None:
                known = {
                    other: ListFacts(one.version, 0) for (own, other), one in self._resident.items() if own == tenant
                }
                self._facts[tenant] = time.monotonic() + _PAUSE, known
            return found

    def changed(self, tenant: str, name: str, new: NamedList | None = None) -> None:
        """Take note that a list was replaced or deleted: what was looked up before counts no more."""
        with self._lock:
            self._turns[tenant] += 1
            self._facts.pop(tenant, None)
            if new is None:
                self._resident.pop((tenant, name), None)
            else:
                self._keep(tenant, name, new)

    def _looked_up(self, tenant: str) -> dict[str, ListFacts]:
        """Return the lists of a tenant as they are now."""
        while True:
            with self._lock:
                turn = self._turns[tenant]
            at, found = time.monotonic(), self._store.lists(tenant)
            with self._lock:
                if self._turns[tenant] == turn:  # else one was changed meanwhile, and acknowledged
                    self._facts[tenant] = at, found
                    return found

    def _of_version(self, tenant: str, name: str, version: int) -> NamedList | None:
        """Return a list of this version or a newer one, if it is in memory; the lock is held."""
        found = self._resident.get((tenant, name))
        if found is None or found.version < version:
            return None
        self._resident.move_to_end((tenant, name))
        return found

    def _read(self, tenant: str, name: str) -> NamedList | None:
        """Return a list from the store; None if it was deleted meanwhile."""
        stored = self._store.read_list(tenant, name)
        if stored is None:
            return None
        facts, data = stored
        found = NamedList(facts.version, ListedLabels(_items(data)))
        if len(found.labels) != facts.items:
            raise LogDamaged(f"The list {name!r} is damaged: send it again.")
        with self._lock:
            self._keep(tenant, name, found)
        return found

    def _keep(self, tenant: str, name: str, found: NamedList) -> None:
        """Keep a list in memory, and drop those that were asked longest ago where it is too much; the lock is held."""
        known = self._resident.get((tenant, name))
        if known is not None and known.version > found.version:  # replaced while it was read
            return
        self._resident[tenant, name] = found
        self._resident.move_to_end((tenant, name))
        n_items = sum(len(one.labels) for one in self._resident.values())
        while n_items > self._most_items and len(self._resident) > 1:
            n_items -= len(self._resident.popitem(last=False)[1].labels)


def _items(data: bytes) -> Iterator[str | int | float]:
    try:
        for line in data.splitlines():
            yield from _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise LogDamaged("A list is damaged: send it again.") from None
