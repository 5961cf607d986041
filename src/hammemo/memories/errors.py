"""What a memory raises when it refuses: it is unchanged then."""

from __future__ import annotations


class NotStoredError(ValueError):
    """Raised when an example to be removed is not stored; the state is unchanged."""


def never_stored() -> NotStoredError:
    """Return the error for examples that the counts show were never stored, all of them."""
    return NotStoredError(
        "At least one example to be removed was never stored: a count would become negative. Nothing was changed."
    )


def fewer_stored(label: object) -> NotStoredError:
    """Return the error for more examples of a label than there are."""
    return NotStoredError(f"Label {label!r} has fewer stored examples than are to be removed. Nothing was changed.")


class LayoutError(ValueError):
    """Raised when the layouts of two memories differ, so their states cannot be added."""
