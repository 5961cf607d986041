"""One edit that forgets rows and learns rows, so that no reader sees the moment between.

A source of changes, such as the log of a database, also has a *position*: a string of its own that
says up to where it was read. It is stored with the edit that it belongs to, so that both are there
or neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hammemo.edits.forget import forget, forget_everything
from hammemo.edits.learn import admit, learn

if TYPE_CHECKING:
    from hammemo.edits.settings import EditSettings
    from hammemo.edits.state import ModelState
    from hammemo.edits.task import L, M, ReadRows, V

EVERYTHING: Final = "everything"
LONGEST_POSITION: Final = 1_024
"""The most characters of a position."""


def apply(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V] | None,
    learned: Any,
    forgotten: Any,
    read: ReadRows,
    *,
    choose: bool,
) -> ModelState[L, M, V]:
    """Forget rows, or everything, and then learn rows.

    Both are pairs (X, y), which `read` checks as rows of a state.
    """
    if forgotten is not None and state is not None:
        if isinstance(forgotten, str) and forgotten == EVERYTHING:
            state = forget_everything(settings, state)
        else:
            X, y = _pair(forgotten, "forget")
            state = forget(settings, state, read(X, y, state).examples())
    if learned is not None:
        X, y = _pair(learned, "learn")
        if state is not None:
            state = admit(settings, state, X, choose_again=choose)
        state = learn(settings, state, read(X, y, state), choose_again=choose)
    if state is None:
        raise ValueError("There is nothing to learn: give rows with learn=(X, y).")
    return state


def check_position(position: Any) -> str:
    """Return a position, or refuse it.

    Examples
    --------
    >>> from hammemo.edits.apply import check_position
    >>> check_position("0/16B3748")
    '0/16B3748'
    """
    if not isinstance(position, str) or not 1 <= len(position) <= LONGEST_POSITION:
        raise ValueError(
            f"position={str(position)[:40]!r} is not a string of 1 to {LONGEST_POSITION:,} "
            "characters."
        )
    try:
        position.encode()
    except UnicodeEncodeError:
        raise ValueError("position: the string is not Unicode.") from None
    return position


def _pair(rows: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        also = ""
        if name == "forget":
            also = f", or {EVERYTHING!r}"
        raise TypeError(f"{name}= takes (X, y){also}, not a {type(rows).__name__}.")
    return rows[0], rows[1]
