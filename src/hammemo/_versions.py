"""Objects that any number of threads may use: an edit replaces their whole state at once.

All that an object knows is in its dictionary of attributes, which is one version. An edit works on
a private copy of that dictionary and publishes it by one store, so

- a question at the same time sees the version before or the version after, never a mixture;
- an edit that fails at any point, by a refusal, an error or an interrupt, leaves the version
  before;
- edits of one object queue, and queries take no lock;
- an edit inside an edit of the same object, which an iterator that an edit reads may start, is
  refused: the outer edit would overwrite it.

For this to hold, an edit *replaces* the values of attributes and never changes what they hold:
versions share all that an edit does not replace. Only caches are written into a published version,
each by one assignment, and they are the same whichever thread fills them.

Those caches use the `cached_property` of this module. That of functools has one lock for all
objects of a class in Python 3.11: the versions of different models would wait for each other, and a
process that is forked while another thread fills a cache would find the lock taken for ever.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

Self = TypeVar("Self", bound="Versioned")
Result = TypeVar("Result")

_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


if TYPE_CHECKING:
    from functools import cached_property as cached_property  # noqa: TID251
else:

    class cached_property(functools.cached_property):  # noqa: N801, TID251
        """`functools.cached_property` without a lock.

        Two threads may compute a value twice, and all get the one that was stored first.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            # `setdefault` of a dictionary is one step in C: no thread comes between
            return instance.__dict__.setdefault(self.attrname, self.func(instance))


class Cached:
    """An object with caches that can be copied and pickled while another thread fills them."""

    def __getstate__(self) -> dict[str, Any]:
        # a copy, made in one step: the dictionary itself may grow while its items are read
        return dict(self.__dict__)


class Remembered:
    """A function of objects that never change, with its last result.

    It is computed again only when an argument is another object.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._last: tuple[tuple[Any, ...], Any] = ((), None)

    def __call__(self, *arguments: Any) -> Any:
        """Return the result for these objects."""
        last_arguments, result = self._last
        if not _are_same(arguments, last_arguments):
            result = self._make(*arguments)
            self._last = (arguments, result)  # one store: every thread makes the same
        return result


def _are_same(objects: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether two tuples hold the very same objects."""
    if len(objects) != len(others):
        return False
    return all(value is other for value, other in zip(objects, others, strict=True))


class Versioned:
    """An object whose attributes are one version, replaced as a whole."""

    def snapshot(self: Self) -> Self:
        """Return another object with this version: edits of one do not change the other.

        It costs no more than a few references, because versions share what they hold.
        """
        copied = object.__new__(type(self))
        copied.__dict__ = dict(self.__dict__)
        return copied

    def now(self: Self) -> Self:
        """Return this version for reading: it stays as it is; its caches are the object's."""
        version = object.__new__(type(self))
        version.__dict__ = self.__dict__
        return version

    def apply_edit(self: Self, change: Callable[[Self], Result]) -> Result:
        """Let `change` work on a private version, then publish that; return what it returned."""
        lock = lock_of(self)
        if lock._is_owned():  # noqa: SLF001  (by this thread; a lock has no public way to ask)
            raise RuntimeError(
                f"This {type(self).__name__} is being edited already, by what this call "
                "is part of: an iterator or an array that an edit reads edits the same object. "
                "This call changed nothing: the other edit would overwrite it. Make a list "
                "of what is to be learnt first, or edit after the other edit has returned."
            )
        with lock:
            private = self.snapshot()
            result = change(private)
            self.__dict__ = private.__dict__
            return result


def lock_of(owner: object) -> Any:
    """Return the lock in which edits of an object queue; the thread that has it may take it again.

    A forked process has locks of its own: the threads that held these are not there.
    """
    return _locks.setdefault(owner, threading.RLock())


if hasattr(os, "register_at_fork"):
    # the threads that held the locks are not in the child
    os.register_at_fork(after_in_child=_locks.clear)
