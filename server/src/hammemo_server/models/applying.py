"""Edits applied to a model, many at a time, with the result of one at a time.

Edits that follow each other and are of one kind become one call of `partial_fit` or `forget`,
or, if they are of whole documents, of `partial_fit_stream` or `forget_stream`. Where that is
refused, its halves are tried, down to the single edits that are at fault: a refusal changes
nothing, so the result is that of trying each in turn. (Together they succeed only if each would
succeed in turn: forgetting takes counts down only, learnt edits are put together only where
their labels are all strings or all whole numbers, and documents of which nothing can be learnt
are found edit by edit.)

A model whose layout is open learns its first edit alone: then the layout is that of the first
edit, however edits were grouped, and a restart gives the same bytes.

A refit is fitted once, by the writer. The log keeps the weights, or also the sites that were chosen
(:mod:`hammemo_server.edits.refits`), and every other process takes them from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hammemo._versions import cached_property
from hammemo.edits.editing import mute_forgetting_warning, take_state
from hammemo.edits.refit import note_fitted_weights
from hammemo.memories.errors import NotStoredError
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo_server.edits import operations as edits
from hammemo_server.edits.refits import (
    chooses_at_refit,
    pack_choice,
    pack_weights,
    take_choice,
    take_weights,
)
from hammemo_server.store.log import LogDamaged, Overtaken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo.edits.state import AnyState
    from hammemo.estimators.learners import Learner
    from hammemo_server.edits.limits import Limits
    from hammemo_server.edits.settings import Settings
    from hammemo_server.erasure.journal import Journal
    from hammemo_server.store.base_log import Log

_MAX_CALL_ROWS: Final = 20_000
"""Rows of one call: what a refusal of a group costs stays small."""

_REPLAY_BODIES: Final = 2_000
"""Bodies that are read from the log at a time."""


@dataclass(frozen=True)
class State:
    """A model and its version; no model as long as the number of columns is not known."""

    model: Learner | None
    version: int

    @cached_property
    def is_empty(self) -> bool:
        """Whether there is nothing to answer with."""
        return self.model is None or not self.model.state.can_answer


@dataclass
class Applier:
    """Applies edits to a private version of a model.

    `model` is the result, `refused` what was not applied and why. `logged` has the bodies of
    refits that were fitted here: the log keeps them in place of what was sent.

    Parameters
    ----------
    model : MemoryClassifier, MemoryRegressor or None
        It is not changed.
    settings : Settings
        What a model is made of where there is none yet.
    limits : Limits, optional
        The bounds of a model that is made; none for what was accepted before.
    """

    model: Learner | None
    settings: Settings
    limits: Limits | None = None
    refused: dict[int, edits.ServiceError] = field(default_factory=dict)
    logged: dict[int, bytes] = field(default_factory=dict)
    _is_refitted: bool = field(default=False, init=False)
    """Whether nothing was learnt or forgotten since the vote was fitted here."""

    def __post_init__(self) -> None:
        if self.model is not None:
            self.model = self.model.snapshot()

    def apply(self, bodies: Sequence[edits.Content]) -> None:
        """Apply edits in this order, as far as they are not refused."""
        for first, last in _runs(bodies):
            start = first
            while start < last:
                stop = start + 1 if self._is_open() else last
                self._try(bodies, start, stop)
                start = stop

    def _is_open(self) -> bool:
        return self.model is None or self.model.state.is_layout_undecided

    def _try(self, bodies: Sequence[edits.Content], start: int, stop: int) -> None:
        first = bodies[start]
        try:
            if isinstance(first, edits.LoggedRefit):  # it is alone in its run
                self._refit(first, start)
            elif isinstance(first, edits.LoggedChoice):  # so is this
                self._take_choice(first)
            elif isinstance(first, edits.LoggedChange):  # and this
                self._apply(first)
            elif isinstance(first, edits.LoggedDocuments):
                self._change_documents(
                    [body for body in bodies[start:stop] if isinstance(body, edits.LoggedDocuments)]
                )
            else:
                self._change(
                    [body for body in bodies[start:stop] if isinstance(body, edits.LoggedRows)]
                )
        except MemoryError:
            raise
        except Exception as error:  # whatever it is, the edits beside it are not at fault
            if stop - start == 1:
                self.refused[start] = _refusal(error)
                return
            middle = (start + stop) // 2
            self._try(bodies, start, middle)
            self._try(bodies, middle, stop)

    def _change(self, run: Sequence[edits.LoggedRows]) -> None:
        """Learn or forget a run of edits, all of them or none."""
        model = self._for_rows(run[0])
        learn = run[0].kind == "learn"
        rows: list[list[edits.Token]] = [row for body in run for row in body.rows]
        labels: list[Any] = [label for body in run for label in body.labels]
        rows = self._with_dates(rows)
        is_fitted_to_rows = (
            model.state.holds_nothing and model.state.task.schedule.chooses_by_first_rows()
        )
        if len(rows) == 1 and not is_fitted_to_rows:
            if learn:
                model.learn_one(rows[0], labels[0])
            else:
                model.forget_one(rows[0], labels[0])
        elif learn:
            # an edit takes no longer than its rows do
            model.partial_fit(rows, labels, choose=False)
        else:
            model.forget(rows, labels)
        self.model = model
        self._is_refitted = False

    def _for_rows(self, first: edits.LoggedRows) -> Learner:
        """Return the model, opened if it was not, or refuse rows that it does not take."""
        if self.settings.documents is not None:
            raise edits.Malformed(
                "This model learns documents: send these with learn-stream and forget-stream."
            )
        model = self.model or self._open_model(first)
        columns = len(first.rows[0])  # that of all: `_group` puts only rows of one length together
        if columns != model.n_features_in_:
            raise edits.Malformed(
                f"A row of this model has {model.n_features_in_} tokens, not {columns}."
            )
        return model

    def _with_dates(self, rows: list[list[Any]]) -> list[list[Any]]:
        """Return rows with the dates that the settings name, which JSON has as strings."""
        places = self.settings.dates
        if not places:
            return rows
        dated = [list(row) for row in rows]
        for i, row in enumerate(dated):
            for j in places:
                row[j] = _date(row[j], i, j)
        return dated

    def _apply(self, change: edits.LoggedChange) -> None:
        """Forget and learn in one step, both or none."""
        if change.n_rows:
            model = self._for_rows(change.forgotten if change.gone else change.learnt)
        elif self.model is None:
            raise edits.Malformed(
                "It is not known how many columns this model has: name them when it is made."
            )
        else:
            model = self.model
        gone: Any = None
        if change.everything:
            gone = "everything"
        elif change.gone:
            gone = (self._with_dates(change.gone), change.gone_labels)
        learned: Any = None
        if change.rows:
            learned = (self._with_dates(change.rows), change.labels)
        model.apply(learned, gone, position=change.position, choose=False)
        self.model = model
        self._is_refitted = self._is_refitted and not change.n_rows and not change.everything

    def _change_documents(self, run: Sequence[edits.LoggedDocuments]) -> None:
        """Learn or forget the documents of a run of edits, all of them or none."""
        model = self.model
        settings = self.settings.documents
        if model is not None and not model.learns_documents:
            raise edits.Malformed(
                f"This model predicts {model.predicts}: "
                "send rows and labels, which are its targets."
            )
        cutting = None
        if model is not None:
            cutting = model.state.cutting if settings is None else settings.cutting
        if model is None or cutting is None:
            raise edits.Malformed(
                "It is not known how this model cuts documents into examples: it was not fitted "
                "to documents, or not all were cut alike, or its file is an old one. Send rows "
                "and labels, or fit a model with fit_stream, and upload it under another name."
            )
        n_context = model.n_features_in_ if cutting.short == "drop" else 0
        documents = [document for body in run for document in body.documents]
        if run[0].kind == "erasestream":  # nothing was learnt of documents that are too short
            documents = [document for document in documents if has_example(document, n_context)]
        else:
            for body in run:
                _check_long_enough(body, n_context)
        cut: Any = {} if settings is None else {"short": cutting.short, "pad": cutting.pad}
        if documents and run[0].learns:
            model.partial_fit_stream(documents, **cut)
        elif documents:
            model.forget_stream(documents, **cut)
        self._is_refitted = False

    def _refit(self, edit: edits.LoggedRefit, place: int) -> None:
        """Fit the vote again, or take what the writer of the log has fitted."""
        if self.model is None:
            raise edits.NothingLearnt(
                "The model holds no example, so there is nothing to fit its vote to: "
                "let it learn first."
            )
        if edit.fitted is None and not self._is_refitted and chooses_at_refit(self.model):
            self.logged[place] = self._choose_again(self.model).body()
        elif edit.fitted is None:
            self.logged[place] = edits.LoggedRefit(fitted=self._fit_again(self.model)).body()
        elif edit.fitted:
            take_weights(self.model, edit.fitted)
        # Also where the weights are as before.
        settings: Any = self.model.settings()
        take_state(self.model, note_fitted_weights(settings, self.model.state))

    def _choose_again(self, model: Learner) -> edits.LoggedChoice:
        """Choose sites and vote by all rows, and take them as every other process will."""
        choice = edits.LoggedChoice("choice", pack_choice(model.snapshot().refit()))
        self._take_choice(choice)
        self._is_refitted = True
        return choice

    def _take_choice(self, choice: edits.LoggedChoice) -> None:
        """Take the layout that was chosen by the rows of this version or of an earlier one."""
        if self.model is None:
            raise edits.NothingLearnt("The model holds no example, so no sites were chosen by any.")
        take_choice(self.model, choice.chosen)
        take_state(self.model, self.model.state.with_changes(stale=choice.late))
        self._is_refitted = False

    def _fit_again(self, model: Learner) -> bytes:
        """Fit the vote, and return its weights; nothing where they are as they were."""
        before: AnyState = model.state
        if self._is_refitted or not before.vote.fits_weights:
            return b""
        if before.kept is None:
            raise edits.NothingKept(
                "The model keeps no rows (keep=False or 'digests'), "
                "so its weights cannot be fitted again. Fit it again where the examples are, "
                "and upload it under another name."
            )
        fitted = model.snapshot().refit(what="weights")
        after: AnyState = fitted.state
        weights = b""
        if not after.vote.is_fitted_like(before.vote):
            weights = pack_weights(after.vote)
        self.model = fitted
        self._is_refitted = True
        return weights

    def _open_model(self, first: edits.LoggedRows) -> Learner:
        """Return a new model for rows as long as those of the first edit."""
        if first.kind == "forget":
            raise edits.NotStored("Nothing was learnt yet, so there is nothing to forget.")
        h = self.settings.width or len(first.rows[0])
        if self.limits is not None:
            self.settings.check_size(h, self.limits)
        model = self.settings.open_model(h)
        mute_forgetting_warning(model)  # `describe` says it
        return model


def _date(value: Any, i: int, j: int) -> datetime | None:
    """Return the date that a value says; None for a missing one."""
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise edits.Malformed(
            f"Row {i}, column {j}: "
            f"{str(value)[:40]!r} is not a date such as 2026-11-17 or 2026-11-17T08:00:00Z."
        ) from None


def has_example(document: Sequence[edits.Token], n_context: int) -> bool:
    """Return whether something is learned of a document: a token after the first `n_context`."""
    return any(token != NO_TOKEN for token in document[n_context:])


def _check_long_enough(body: edits.LoggedDocuments, n_context: int) -> None:
    """Refuse documents of which nothing would be learned or forgotten.

    A model that drops beginnings learns and forgets what comes after the first `n_context`
    tokens of a document.
    """
    if body.learns and not any(has_example(document, n_context) for document in body.documents):
        least = f"more than {n_context} tokens" if n_context else "a token other than NO_TOKEN"
        raise edits.Malformed(
            f"There is nothing to learn: a document of this model has {least}, and none here has."
        )
    shortest = min(map(len, body.documents))
    if not body.learns and shortest <= n_context:
        raise edits.Malformed(
            f"A document has {shortest} tokens, and this model learns what comes after the first "
            f"{n_context}: nothing of it would be forgotten. Nothing was changed; leave it out."
        )


def first_state(settings: Settings) -> State:
    """Return the state of a model that was just made."""
    return State(None if settings.width is None else settings.open_model(settings.width), 0)


def catch_up(
    log: Log, state: State | None, settings: Settings, journal: Journal | None = None
) -> State:
    """Return the state at the end of the log.

    What is new is applied to `state`, or to the newest snapshot. The bodies of a model with
    subjects are references to its journal.
    """
    loaded: int | None = None
    while True:
        try:
            if state is None:
                state = _restore_state(log, settings)
                if state.version == loaded:
                    raise LogDamaged(
                        f"The newest snapshot is of position {loaded}, "
                        "and edits after it are deleted."
                    )
                loaded = state.version
            return _replay(log, state, settings, journal)
        except Overtaken:  # by a newer snapshot
            state = None


def _restore_state(log: Log, settings: Settings) -> State:
    """Return the state that the newest snapshot holds, or that of a model that was just made."""
    snapshot = log.snapshot()
    if snapshot is not None:
        mute_forgetting_warning(snapshot[0])  # `describe` says it
        return State(*snapshot)
    if settings.uploaded:
        raise LogDamaged("The model was uploaded, and its snapshot is missing.")
    return first_state(settings)


def _replay(log: Log, state: State, settings: Settings, journal: Journal | None) -> State:
    while True:
        bodies = log.read(state.version, _REPLAY_BODIES)
        if not bodies:
            return state
        applier = Applier(state.model, settings)
        try:
            if journal is None:
                contents = [edits.decode_body(body) for body in bodies]
            else:
                contents = journal.contents(state.version, bodies)
            applier.apply(contents)
        except edits.UnknownKind as error:
            raise LogDamaged(
                f"The log has an edit of the kind {str(error)!r} after position {state.version}, "
                "which this version of hammemo does not know: "
                "use the version that wrote it, or a newer one."
            ) from None
        except msgspec.MsgspecError:
            raise LogDamaged(f"A body after position {state.version} is not an edit.") from None
        if applier.refused:
            position = state.version + 1 + min(applier.refused)
            raise LogDamaged(
                f"The edit at position {position} does not fit the snapshot before it."
            )
        state = State(applier.model, state.version + len(bodies))


def _runs(bodies: Sequence[edits.Content]) -> Iterator[tuple[int, int]]:
    """Yield the ends of runs of edits that can be applied together."""
    start = 0
    rows = 0
    before = None
    for i, body in enumerate(bodies):
        group = _group(body)
        if i > start and (group is None or group != before or rows + body.n_rows > _MAX_CALL_ROWS):
            yield start, i
            start = i
            rows = 0
        before = group
        rows += body.n_rows
    if start < len(bodies):
        yield start, len(bodies)


class _EditGroup(NamedTuple):
    """What edits must have in common to be applied together."""

    kind: str
    label_type: type
    width: int
    """Tokens of a row, 0 for documents."""


def _group(body: edits.Content) -> _EditGroup | None:
    """Return the group of an edit; None for one that is applied alone."""
    if isinstance(body, (edits.LoggedRefit, edits.LoggedChoice, edits.LoggedChange)):
        return None
    if isinstance(body, edits.LoggedDocuments):
        kinds = {type(token) for document in body.documents for token in document}
        width = 0
    else:
        kinds = set(map(type, body.labels))
        width = len(body.rows[0])
    label_type = kinds.pop() if len(kinds) == 1 else None
    if label_type is str or label_type is int:
        return _EditGroup(body.kind, label_type, width)
    return None


def _refusal(error: Exception) -> edits.ServiceError:
    if isinstance(error, edits.ServiceError):
        return error
    if isinstance(error, NotStoredError):
        return edits.NotStored(str(error))
    if isinstance(error, (ValueError, TypeError, OverflowError)):
        return edits.Malformed(str(error))
    return edits.Malformed(f"The model cannot take this edit ({type(error).__name__}).")
