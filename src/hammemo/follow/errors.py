"""What stops a follower, and what makes it compare the whole table."""

from __future__ import annotations


class FollowError(RuntimeError):
    """Raised when a table cannot be followed; the message names the way out."""


class ProtocolError(FollowError):
    """Raised for a message of the log that is cut or has an unknown form."""


class NeedsCheck(Exception):  # noqa: N818  (no error: the follower compares the whole table and goes on)
    """Raised when the log cannot be applied to the model: the whole table must be compared."""
