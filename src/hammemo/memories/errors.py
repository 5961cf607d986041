"""What a memory raises when it refuses: it is unchanged then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class NotStoredError(ValueError):
    """Raised when an example to be removed is not stored; the state is unchanged."""


def never_stored() -> NotStoredError:
    """Return the error for examples that the counts show were never stored, all of them."""
    return NotStoredError(
        "At least one example to be removed was never stored: a count would become negative. "
        "Nothing was changed."
    )


def not_held(rows: Sequence[int], n_examples: int) -> NotStoredError:
    """Return the error for rows that are not stored as often as they are to be removed."""
    verb = "is" if len(rows) == 1 else "are"
    return NotStoredError(
        f"{len(rows)} of {n_examples} examples to be removed {verb} not stored, "
        f"or not that many times: row {rows[0]} is the first of them. Nothing was changed."
    )


def fewer_stored(label: object) -> NotStoredError:
    """Return the error for more examples of a label than there are."""
    return NotStoredError(
        f"Label {label!r} has fewer stored examples than are to be removed. Nothing was changed."
    )


class LayoutError(ValueError):
    """Raised when the layouts of two memories differ, so their states cannot be added."""
