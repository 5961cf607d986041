"""Secret keys as parameters: checked, never shown, and known to a layout by a digest alone."""

from __future__ import annotations

import hashlib
from typing import Any


class SecretKey:
    """A parameter that holds a secret of 16 to 64 bytes, or None, and is never shown.

    The bytes are kept with a repr of their own, because scikit-learn prints the parameters of
    nested estimators without asking those estimators.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Hashed
    >>> MemoryClassifier(memory=Hashed(key=b"sixteen bytes or more"))
    MemoryClassifier(memory=Hashed(key=<secret>))
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else instance.__dict__[self.name]

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = (
            _Hidden(value) if type(value) is bytes else value
        )  # the same object for `clone`


class _Hidden(bytes):
    def __repr__(self) -> str:
        return "<secret>"


def check_secret(key: Any) -> None:
    """Refuse what is not a secret key, without showing it."""
    if key is not None and not (isinstance(key, bytes) and 16 <= len(key) <= 64):
        raise ValueError("key is a secret of 16 to 64 bytes, for example secrets.token_bytes(32).")


def secret_digest(key: bytes | None) -> str | None:
    """Return what a layout may say of a secret key: a digest that two holders of it can compare."""
    return (
        None if key is None else hashlib.blake2b(key, digest_size=16, person=b"layout").hexdigest()
    )
