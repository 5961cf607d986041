"""A model behind ``hammemo serve`` that follows a table: each part of whole transactions is one edit."""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hammemo.client import Client, ServerError
from hammemo.files.models import load, save
from hammemo.follow.position import FollowError, NeedsCheck, Position
from hammemo.follow.targets import FileTarget, PositionAfter, check_kind, first_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hammemo.edits.sync import Synced
    from hammemo.estimators.learners import Learner
    from hammemo.follow.values import Followed, Frame, Rows

_ROWS: Final = 10_000
"""Rows that a server takes in one edit."""
_NOTHING: Final = ((), ())
_ASKED: Final = 200
"""New rows on which a refit is compared with the model before it."""


class ServedTarget:
    """A model of one tenant on a server."""

    batch_rows = _ROWS // 2

    def __init__(self, client: Client, url: str, model: str, receipts: Path | None = None) -> None:
        self._client, self._model, self._receipts = client, model, receipts
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
        text = None if self._facts is None else self._facts["position"]
        return None if text is None else Position.decoded(text)

    def columns(self) -> list[str] | None:
        """Return the names of the model's columns."""
        return None if self._facts is None else self._facts["column_names"]

    @property
    def _predicts_numbers(self) -> bool:
        return self._facts is not None and self._facts["predicts"] == "numbers"

    def n_rows(self) -> int:
        """Return how many rows the model holds."""
        return 0 if self._facts is None else int(self._facts["examples"])

    def sync(self, followed: Followed, table: Frame, position: PositionAfter) -> Synced | None:
        """Send what makes the model equal to a table as one edit, or upload a first model."""
        if followed.subject is not None and self.position() is None:
            self._learn_by_subject(followed, table, position(None))
            return None
        if self._facts is None:
            model = first_model(followed, table[:2]).apply(position=position(None).encoded())
            with tempfile.TemporaryDirectory() as folder:
                save(model, f"{folder}/model")
                self._client.upload(self._model, f"{folder}/model")
            self.reload()
            return None
        check_kind(self.name, followed, is_target=self._predicts_numbers)
        synced: Synced = self._downloaded().sync(*table[:2], dry_run=True)
        if followed.subject is not None and not synced.is_equal:
            raise FollowError(
                f"The model differs from {followed.table} ({str(synced).rstrip('.')} would be needed), and a server "
                "does not tell which person a row belongs to, so the model cannot be repaired. Delete it on the "
                "server and start again."
            )
        if synced.gone is None:  # the model has digests only
            edit: tuple[Any, Any] = (_in_json(table[:2]), "everything")
        else:
            edit = (_in_json(synced.learnt_rows()), _in_json(synced.forgotten_rows()))
        self._apply(*edit, position(synced))
        return synced

    def _learn_by_subject(self, followed: Followed, table: Frame, position: Position) -> None:
        """Make a model with subjects, which learns in pieces: it has a position when it has learnt the last one."""
        X, y, subjects = table
        assert subjects is not None
        if self._facts is None:
            dates = [column.name for column in followed.columns if column.kind in ("date", "moment")]
            kind = {"predicts": "numbers"} if followed.is_target else {}
            self._client.create(self._model, columns=followed.names, dates=dates, subjects="required", **kind)
        for start in range(0, max(1, len(y)), self.batch_rows):
            end = start + self.batch_rows
            piece = (*_in_json((X.slice(start, self.batch_rows), y[start:end])), subjects[start:end])
            first = "everything" if start == 0 and self.n_rows() else _NOTHING
            self._apply(piece, first, position if end >= len(y) else None)

    def change(self, followed: Followed, learn: Rows, forget: Rows | str, position: Position | None) -> None:
        """Forget and learn rows as one edit."""
        if position is None:
            raise FollowError(_too_large(followed.table))
        gone: Any = forget if isinstance(forget, str) else _rows_in_json(followed, forget)
        self._apply(_rows_in_json(followed, learn), gone, position)

    def _apply(self, learn: Any, forget: Any, position: Position | None) -> None:
        pair = [part if isinstance(part, str) or len(part[1]) else None for part in (learn, forget)]
        try:
            self._client.apply(self._model, *pair, position=None if position is None else position.encoded())
        except ServerError as error:
            if error.status == 409:
                raise NeedsCheck(f"the model does not hold a row that was deleted ({error})") from None
            if error.status == 413:
                raise FollowError(f"{error} {_too_large('the table')}") from None
            raise
        self.reload()

    def _downloaded(self) -> Learner:
        with tempfile.TemporaryDirectory() as folder:
            self._client.download(self._model, f"{folder}/model")
            return load(f"{folder}/model")  # type: ignore[no-any-return]

    def can_refit(self) -> bool:
        """Return True: the server refuses a refit for which it keeps no rows."""
        return True

    def digest(self) -> str:
        """Return the digest of the model."""
        return self._downloaded().digest()

    def refit(self, position: Position, table: Frame | None, last: Any, request: str | None) -> float | None:  # noqa: ARG002
        """Refit, and return the share of labels that changed on the last rows."""
        skips = last is None or not self.n_rows() or self._predicts_numbers
        asked = None if skips else _in_json((last.slice(max(0, len(last) - _ASKED)), []))[0]
        before = None if asked is None else self._client.predict(self._model, asked)
        op = None if request is None else re.sub(r"[^!-~]+", "_", request)[:128]
        signs = self._receipts is not None and op is not None
        done = self._client.refit(self._model, op=op, receipt=signs)
        if self._receipts is not None and done.receipt:
            with self._receipts.open("a", encoding="utf-8") as file:
                file.write(f"{done.receipt}\n")
        self._apply(_NOTHING, _NOTHING, position)
        if before is None or asked is None:
            return None
        after = self._client.predict(self._model, asked)
        return float(sum(a != b for a, b in zip(before, after, strict=True)) / len(before))


Target: TypeAlias = FileTarget | ServedTarget
"""The model that follows, and what was done with it last; an edit is whole, or it is not."""


@contextmanager
def served_model(url: str, name: str, receipts: Path | None) -> Iterator[ServedTarget]:
    """Connect to a server for the time of a block."""
    with Client(url) as client:
        try:
            yield ServedTarget(client, url, name, receipts)
        except ServerError as error:
            raise FollowError(f"The server refused it: {error}") from None


def _too_large(table: str) -> str:
    return (
        f"A change of {table} has more than {_ROWS:,} rows, the most that a server takes in one edit, and readers "
        "must see all of a transaction or nothing. Follow with a model file and serve that, or write smaller "
        "transactions."
    )


def _rows_in_json(followed: Followed, rows: Rows) -> tuple[list[Any], ...]:
    """Return rows, labels and perhaps subjects as a server takes them."""
    X, y, subjects = followed.frame(rows)
    return (*_in_json((X, y)), *([] if subjects is None else [subjects]))


def _in_json(pair: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return values and labels as JSON says them: a date as a string."""
    X, y = pair
    rows = zip(*(column.to_pylist() for column in X.columns), strict=True) if hasattr(X, "columns") else X.tolist()
    return [[v.isoformat() if isinstance(v, date) else v for v in row] for row in rows], list(y)
