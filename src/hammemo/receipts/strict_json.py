"""JSON from outside: one canonical form, and every value checked before it is used.

The canonical form has sorted names, no blanks and ASCII only. What is signed is read in this
form alone, so that a text with one other byte is another text.

By hand, because no reader of JSON (msgspec's strict mode, for example) refuses another order of
names or other blanks, and because who verifies a receipt needs no package but this one.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BYTES: Final = 2**22
"""The most bytes of a text that is read."""

MAX_NUMBER: Final = 2**63

TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


def canonical(value: Any) -> bytes:
    r"""Return JSON in its canonical form.

    Examples
    --------
    >>> from hammemo.receipts.strict_json import canonical
    >>> canonical({"b": [1, "é"], "a": None})
    b'{"a":null,"b":[1,"\\u00e9"]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def read_object(text: bytes, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the JSON object of which a text is the canonical form."""
    if len(text) > max_bytes:
        raise ValueError(f"it has more than {max_bytes:,} bytes")
    try:
        value = json.loads(text)
        same = canonical(value) == text
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    if not same:
        raise ValueError(
            "it is not written in the canonical form: a byte was changed, or it was reformatted"
        )
    return value


def check_names(value: Any, names: Iterable[str], what: str) -> dict[str, Any]:
    """Return a JSON object with exactly these names, or refuse it."""
    expected = sorted(names)
    if not isinstance(value, dict) or sorted(value) != expected:
        raise ValueError(
            f"{what} does not have the entries {', '.join(expected)}, and no other ones"
        )
    return value


def check_number(value: Any, what: str) -> int:
    """Return a whole number, zero or more."""
    if type(value) is not int or not 0 <= value < MAX_NUMBER:
        raise ValueError(f"{what} is not a whole number from 0 to 2^63")
    return value


def check_truth(value: Any, what: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} is neither true nor false")
    return value


def check_line(value: Any, what: str, max_length: int = 200) -> str:
    """Return one line of text."""
    if not isinstance(value, str) or not 1 <= len(value) <= max_length or not value.isprintable():
        raise ValueError(f"{what} is not a line of 1 to {max_length} printable characters")
    return value


def check_hex(value: Any, what: str, n_bytes: int = 32) -> str:
    """Return bytes in lowercase hexadecimal digits."""
    if not isinstance(value, str) or not re.fullmatch(
        f"[0-9a-f]{{{2 * n_bytes}}}", value, re.ASCII
    ):
        raise ValueError(f"{what} is not {2 * n_bytes} hexadecimal digits")
    return value


def check_secret(value: Any, what: str) -> bytes:
    """Return 32 bytes that are written in lowercase hexadecimal digits."""
    return bytes.fromhex(check_hex(value, what))


def check_time(value: Any, what: str) -> str:
    """Return a time in UTC, such as 2026-11-17T08:00:00Z."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError(f"{what} is not a time such as 2026-11-17T08:00:00Z")
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{what} is not a time such as 2026-11-17T08:00:00Z") from None
    return value


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime(TIME_FORMAT)
