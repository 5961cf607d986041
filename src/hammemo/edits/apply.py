"""One edit that forgets rows and learns rows: state to state, so that no reader sees the moment between.

A source of changes, such as the log of a database, also has a *position*: a string of its own that says up to where it
was read. It is stored with the edit that it belongs to, so that both are there or neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sklearn.utils.validation import check_is_fitted

from hammemo.edits import forget as forgetting
from hammemo.edits import learn as learning
from hammemo.edits import refit as refitting
from hammemo.edits.editing import edit, known_state, read_rows
from hammemo.edits.sync import Synced, TableEdits, sync
from hammemo.tokens.labels import classes_array

if TYPE_CHECKING:
    from hammemo.edits.state import ModelState
    from hammemo.tokens.user_input import CheckedRows

EVERYTHING: Final = "everything"
LONGEST_POSITION: Final = 1_024
"""The most characters of a position."""


def apply(model: Any, learn: Any, forget: Any, position: str | None, *, choose: bool) -> Any:
    """Return the state of a model after it has forgotten rows, or everything, and then learnt rows."""
    edits: TableEdits = model.table_edits()
    state = known_state(model)
    if forget is not None:
        check_is_fitted(model)
        if isinstance(forget, str) and forget == EVERYTHING:
            state = edits.forget_everything(state)
        else:
            state = edits.forget(state, edits.read(*_pair(forget, "forget"), state, None).examples())
    if learn is not None:
        X, y = _pair(learn, "learn")
        if state is not None:
            state = edits.admit(state, X, choose=choose)
        state = edits.learn(state, edits.read(X, y, state, None), choose=choose)
    if state is None:
        raise ValueError("There is nothing to learn: give rows with learn=(X, y).")
    return state if position is None else state.but(position=checked_position(position))


def fit_rows(model: Any, X: Any, y: Any, sample_weight: Any, classes: Any) -> ModelState:
    """Return the state of a model after it has been fitted to a table."""
    settings, before = model.settings(), known_state(model)
    return learning.fit(settings, before, read_rows(model, X, y, None, sample_weight), classes)


def learn_rows(
    model: Any,
    state: ModelState | None,
    X: Any,
    y: Any,
    classes: Any = None,
    sample_weight: Any = None,
    layout: ModelState | None = None,
    *,
    choose: bool,
) -> ModelState:
    """Return the state of a model after it has learnt a batch of rows."""
    settings = model.settings()
    if state is not None:
        state = learning.admit(settings, state, X, choose_again=choose)
    rows = read_rows(model, X, y, state, sample_weight)
    return learning.learn(settings, state, rows, classes, layout, choose_again=choose)


def label_edits(model: Any) -> TableEdits:
    """Return the edits of a classifier, as `apply` and `sync` take them."""
    settings = model.settings()

    def fit(state: ModelState | None, rows: CheckedRows) -> ModelState:
        if state is None:
            return learning.fit(settings, None, rows, None)
        declared, seed = state.memory.declared, state.memory.seed
        classes = classes_array(declared, state.label_dtype) if len(declared) else None
        return learning.fit(settings._replace(random_state=seed), state, rows, classes).but(**state.carried)

    return TableEdits(
        read=lambda X, y, state, sample_weight: read_rows(model, X, y, state, sample_weight),
        admit=lambda state, X, choose=True: learning.admit(settings, state, X, choose_again=choose),
        forget=lambda state, examples: forgetting.forget(settings, state, examples),
        forget_everything=lambda state: forgetting.forget_everything(settings, state),
        learn=lambda state, rows, choose=True: learning.learn(settings, state, rows, None, choose_again=choose),
        fit=fit,
        refit=lambda state: refitting.refit(settings, state, "all"),
    )


def sync_model(
    model: Any, X: Any, y: Any, sample_weight: Any, position: str | None, *, refit: bool, dry_run: bool
) -> Synced:
    """Let a model hold just the rows of a table, in one edit; return what it was."""
    told = None if position is None else checked_position(position)
    made: list[Synced] = []

    def synced(private: Any) -> Any:
        after, found = sync(private.table_edits(), known_state(private), X, y, sample_weight, refit=refit)
        made.append(found)
        return after if told is None else after.but(position=told)

    if dry_run:
        now = model.snapshot()
        return sync(now.table_edits(), known_state(now), X, y, sample_weight, refit=refit, dry_run=True)[1]
    edit(model, synced)
    return made[0]


def checked_position(position: Any) -> str:
    """Return a position, or refuse it.

    Examples
    --------
    >>> from hammemo.edits.apply import checked_position
    >>> checked_position("0/16B3748")
    '0/16B3748'
    """
    if not isinstance(position, str) or not 1 <= len(position) <= LONGEST_POSITION:
        raise ValueError(f"position={str(position)[:40]!r} is not a string of 1 to {LONGEST_POSITION:,} characters.")
    try:
        position.encode()
    except UnicodeEncodeError:
        raise ValueError("position: the string is not Unicode.") from None
    return position


def _pair(given: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        also = f", or {EVERYTHING!r}" if name == "forget" else ""
        raise TypeError(f"{name}= takes (X, y){also}, not a {type(given).__name__}.")
    return given[0], given[1]
