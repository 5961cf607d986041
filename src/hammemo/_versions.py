"""Objects that any number of threads may use: what they hold is a version that never changes, replaced as a whole.

All that an object knows is in its dictionary of attributes. An edit works on a private copy of that dictionary and
publishes it by one store, so

- a question at the same time sees the version before or the version after, never a mixture;
- an edit that fails at any point, by a refusal, an error or an interrupt, leaves the version before;
- edits of one object queue, and queries take no lock;
- an edit inside an edit of the same object, as an iterator that is read may start it, is refused: it would be lost.

For this to hold, an edit *replaces* the values of attributes and never changes what they hold: versions share all that
an edit does not replace. Only caches are written into a published version, each by one assignment, and they are the
same whichever thread fills them.

`cached_property` is what those caches use: that of functools has one lock for all objects of a class in Python 3.11, so
that the versions of different models would wait for each other, and a process forked while another thread fills a
cache would find the lock taken for ever.
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
        """`functools.cached_property` without a lock: threads may compute a value twice, and all get the first one."""

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))  # one store in C


class Cached:
    """What versions share and what fills caches of its own: it can be copied and pickled while another thread does."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)  # a copy, made at once: the dictionary itself may grow while it is gone through


class Remembered:
    """The last result of a function of objects that never change; the same objects are not asked for again."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._last: tuple[tuple[Any, ...], Any] = ((), None)

    def __call__(self, *given: Any) -> Any:
        """Return the result for these objects."""
        known, result = self._last
        if len(known) != len(given) or any(one is not other for one, other in zip(known, given, strict=True)):
            result = self._make(*given)
            self._last = (given, result)  # one store: every thread makes the same
        return result


class Versioned:
    """An object whose attributes are one version, replaced as a whole."""

    def snapshot(self: Self) -> Self:
        """Return an object of its own that holds this version: what either learns later, the other does not see.

        It costs no more than a few references, because versions share what they hold.
        """
        copied = object.__new__(type(self))
        copied.__dict__ = dict(self.__dict__)
        return copied

    def now(self: Self) -> Self:
        """Return this version for reading: it stays as it is, and the caches that it fills are those of the version."""
        version = object.__new__(type(self))
        version.__dict__ = self.__dict__
        return version

    def edited(self: Self, change: Callable[[Self], Result]) -> Result:
        """Let `change` work on a private version, then publish that; return what it returned."""
        lock = lock_of(self)
        if lock._is_owned():  # noqa: SLF001  (by this thread; a lock has no public way to ask)
            raise RuntimeError(
                f"This {type(self).__name__} is being edited already, by what this call is part of: an iterator or an "
                "array that an edit reads edits the same object. This call changed nothing: the other edit would "
                "overwrite it. Make a list of what is to be learnt first, or edit after the other edit has returned."
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
    return _locks.setdefault(owner, threading.RLock())  # one store in C: no lock around it is needed


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks.clear)  # the threads that held them are not in the child
