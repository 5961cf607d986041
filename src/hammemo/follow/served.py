"""A model behind ``hammemo serve`` that follows a table: whole transactions make an edit."""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hammemo.client import Client, ServerError
from hammemo.files.models import load, save
from hammemo.follow.position import FollowError, NeedsCheck, Position
from hammemo.follow.targets import FileTarget, PositionAfter, check_bounds, check_kind, first_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hammemo.edits.sync import Synced
    from hammemo.estimators.learners import Learner
    from hammemo.follow.values import Followed, FollowedTable, Rows

_ROWS: Final = 10_000
"""Rows that a server takes in one edit."""
_NOTHING: Final = ((), ())
_ASKED: Final = 200
"""New rows on which a refit is compared with the model before it."""


class ServedTarget:
    """A model of one tenant on a server."""

    batch_rows = _ROWS // 2

    def __init__(self, client: Client, url: str, model: str, receipts: Path | None = None) -> None:
        self._client = client
        self._model = model
        self._receipts = receipts
        self.name = f"{url.rstrip('/')}/{model}"
        self._facts: dict[str, Any] | None = None
        self.reload()

    def reload(self) -> None:
        """Ask the server what it holds."""
        try:
            self._facts = self._client.describe(self._model)
        except ServerError as error:
            if error.status != 404:
                raise
            self._facts = None

    def position(self) -> Position | None:
        """Return up to where the model has followed."""
        if self._facts is None or self._facts["position"] is None:
            return None
        return Position.decode(self._facts["position"])

    def columns(self) -> list[str] | None:
        """Return the names of the model's columns."""
        return None if self._facts is None else self._facts["column_names"]

    def check_bounds(self, followed: Followed) -> None:
        """Refuse bounds that are not those of a model that exists."""
        if self._facts is not None:
            check_bounds(self.name, followed, self._facts.get("bounds"))

    def n_rows(self) -> int:
        """Return how many rows the model holds."""
        if self._facts is None:
            return 0
        return int(self._facts["examples"])

    def sync(
        self, followed: Followed, table: FollowedTable, position: PositionAfter
    ) -> Synced | None:
        """Send what makes the model equal to a table as one edit, or upload a first model."""
        if followed.subject is not None and self.position() is None:
            self._learn_by_subject(followed, table, position(None))
            return None
        if self._facts is None:
            model = first_model(followed, table).apply(position=position(None).encode())
            with tempfile.TemporaryDirectory() as folder:
                save(model, f"{folder}/model")
                self._client.upload(self._model, f"{folder}/model")
            self.reload()
            return None
        check_kind(self.name, followed, self._facts["predicts"])
        synced: Synced = self._download().sync(table.values, table.labels, dry_run=True)
        if followed.subject is not None and not synced.is_equal:
            raise FollowError(
                f"The model differs from {followed.table} ({str(synced).rstrip('.')} would "
                "be needed), and a server does not tell which person a row belongs to, "
                "so the model cannot be repaired. Delete it on the server and start again."
            )
        if synced.gone is None:  # the model has digests only
            self._apply(_in_json(table.pair), "everything", position(synced))
        else:
            learn = _in_json(synced.learnt_rows())
            self._apply(learn, _in_json(synced.forgotten_rows()), position(synced))
        return synced

    def _learn_by_subject(
        self, followed: Followed, table: FollowedTable, position: Position
    ) -> None:
        """Make a model with subjects, which learns in pieces: it has a position after the last."""
        X, y, subjects = table
        assert subjects is not None
        if self._facts is None:
            dates = [
                column.name for column in followed.columns if column.kind in ("date", "moment")
            ]
            kind: dict[str, Any] = {}
            if followed.is_target:
                kind["predicts"] = "numbers"
            if followed.bounds is not None:
                kind["bounds"] = list(followed.bounds)
            self._client.create(
                self._model, columns=followed.names, dates=dates, subjects="required", **kind
            )
        for start in range(0, max(1, len(y)), self.batch_rows):
            end = start + self.batch_rows
            rows, labels = _in_json((X.slice(start, self.batch_rows), y[start:end]))
            # what a run that was killed has left goes with the first piece
            gone: Any = _NOTHING
            if start == 0 and self.n_rows():
                gone = "everything"
            piece = (rows, labels, subjects[start:end])
            if end < len(y):
                self._apply(piece, gone, None)
            else:
                self._apply(piece, gone, position)

    def change(
        self, followed: Followed, learn: Rows, forget: Rows | str, position: Position | None
    ) -> None:
        """Forget and learn rows as one edit."""
        if position is None:
            raise FollowError(_too_large(followed.table))
        gone: Any
        if isinstance(forget, str):
            gone = forget
        else:
            gone = _rows_in_json(followed, forget)
        self._apply(_rows_in_json(followed, learn), gone, position)

    def _apply(self, learn: Any, forget: Any, position: Position | None) -> None:
        try:
            self._client.apply(
                self._model,
                learn if len(learn[1]) else None,
                forget if isinstance(forget, str) or len(forget[1]) else None,
                position=None if position is None else position.encode(),
            )
        except ServerError as error:
            if error.status == 409:
                raise NeedsCheck(
                    f"the model does not hold a row that was deleted ({error})"
                ) from None
            if error.status == 413:
                raise FollowError(f"{error} {_too_large('the table')}") from None
            raise
        self.reload()

    def _download(self) -> Learner:
        with tempfile.TemporaryDirectory() as folder:
            self._client.download(self._model, f"{folder}/model")
            return load(f"{folder}/model")  # type: ignore[no-any-return]

    def can_refit(self) -> bool:
        """Return True: the server refuses a refit for which it keeps no rows."""
        return True

    def digest(self) -> str:
        """Return the digest of the model."""
        return self._download().digest()

    def refit(
        self,
        position: Position,
        table: FollowedTable | None,  # noqa: ARG002  the server has the rows
        last: Any,
        request: str | None,
    ) -> float | None:
        """Refit, and return the share of labels that changed on the last rows."""
        before: list[Any] = []
        last_rows: list[Any] = []
        has_labels = self._facts is not None and bool(self._facts["classes"])
        if last is not None and self.n_rows() and has_labels:
            last_rows, _ = _in_json((last.slice(max(0, len(last) - _ASKED)), []))
            before = self._client.predict(self._model, last_rows)
        op = None
        if request is not None:
            op = re.sub(r"[^!-~]+", "_", request)[:128]
        signs = self._receipts is not None and op is not None
        done = self._client.refit(self._model, op=op, receipt=signs)
        if self._receipts is not None and done.receipt:
            with self._receipts.open("a", encoding="utf-8") as file:
                file.write(f"{done.receipt}\n")
        self._apply(_NOTHING, _NOTHING, position)
        if not before:
            return None
        after = self._client.predict(self._model, last_rows)
        return float(sum(a != b for a, b in zip(before, after, strict=True)) / len(before))


Target: TypeAlias = FileTarget | ServedTarget
"""The model that follows, and what was done with it last; an edit is whole, or it is not."""


@contextmanager
def connect_to_model(url: str, name: str, receipts: Path | None) -> Iterator[ServedTarget]:
    """Connect to a server for the time of a block."""
    with Client(url) as client:
        try:
            yield ServedTarget(client, url, name, receipts)
        except ServerError as error:
            raise FollowError(f"The server refused it: {error}") from None


def _too_large(table: str) -> str:
    return (
        f"A change of {table} has more than {_ROWS:,} rows, the most that a server "
        "takes in one edit, and readers must see all of a transaction or nothing. "
        "Follow with a model file and serve that, or write smaller transactions."
    )


def _rows_in_json(followed: Followed, rows: Rows) -> tuple[list[Any], ...]:
    """Return rows, labels and perhaps subjects as a server takes them."""
    frame = followed.frame(rows)
    if frame.subjects is None:
        return _in_json(frame.pair)
    return (*_in_json(frame.pair), frame.subjects)


def _in_json(pair: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return values and labels as JSON says them: a date as a string."""
    X, y = pair
    if hasattr(X, "columns"):  # an Arrow table
        rows = zip(*[column.to_pylist() for column in X.columns], strict=True)
    else:
        rows = X.tolist()
    plain = [
        [value.isoformat() if isinstance(value, date) else value for value in row] for row in rows
    ]
    return plain, list(y)
