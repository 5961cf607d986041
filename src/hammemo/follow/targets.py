"""What follows a table: here a model file, which is replaced with rows and position in one step."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.estimators.learners import Learner
from hammemo.estimators.regressor import MemoryRegressor
from hammemo.files.models import load, read_notes, save
from hammemo.follow.position import FollowError, NeedsCheck, Position
from hammemo.follow.values import EXAMPLES, Followed, FollowedTable, Rows
from hammemo.memories.errors import NotStoredError
from hammemo.sources.schemas import TableSchema
from hammemo.votes.bounds import Bounds

if TYPE_CHECKING:
    from hammemo.edits.sync import Synced
    from hammemo.receipts import Keys, ReceiptFile

KEEP: Final = "auto+digests"
"""Rows for refits up to the budget, and digests of all rows, so that any table can be compared."""
PositionAfter = Callable[["Synced | None"], Position]
"""Which position a model has after it was compared; None if it was fitted."""


class FileTarget:
    """A model file; its readers see it before or after a batch of whole transactions."""

    batch_rows = 20_000

    def __init__(
        self,
        path: str | os.PathLike[str],
        receipts: ReceiptFile | None = None,
        keys: Keys | None = None,
    ):
        self.path = Path(path)
        self.name = os.path.realpath(path)
        self._receipts = receipts
        self._keys = keys
        self._model: Learner | None = None
        self._notes: dict[str, str] = {}
        self.reload()

    def reload(self) -> None:
        """Read the file again."""
        if self.path.exists():
            self._model = load(self.path)
            self._notes = read_notes(self.path)
            if not isinstance(self._model, Learner):
                raise FollowError(
                    f"{self.path} is compiled for serving and cannot change: name another file."
                )
        else:
            self._model = None
            self._notes = {}

    @property
    def model(self) -> Learner:
        """The model, which is there."""
        assert self._model is not None
        return self._model

    def position(self) -> Position | None:
        """Return up to where the model has followed."""
        if self._model is None or self._model.position_ is None:
            return None
        return Position.decode(self._model.position_)

    def columns(self) -> list[str] | None:
        """Return the names of the model's columns."""
        names = getattr(self._model, "feature_names_in_", None)
        if names is None:
            return None
        return [str(name) for name in names]

    def check_bounds(self, followed: Followed) -> None:
        """Refuse bounds that are not those of a model that exists."""
        if self._model is not None:
            check_bounds(str(self.path), followed, self._model.describe_answers().bounds)

    def n_rows(self) -> int:
        """Return how many rows the model holds."""
        if self._model is None:
            return 0
        return int(self._model.state.n_examples)

    def sync(
        self, followed: Followed, table: FollowedTable, position: PositionAfter
    ) -> Synced | None:
        """Make the model equal to a table, or fit a first one, and save it."""
        synced = None
        if self._model is None:
            self._model = first_model(followed, table)
            self._notes = TableSchema(label=followed.label.name).notes()
        else:
            check_kind(str(self.path), followed, self._model.predicts)
            has_digests = self._model.takes_digests  # else only kept rows can be compared
            fits = not has_digests and not self.can_refit()
            synced = self._model.sync(table.values, table.labels, refit=fits)
        self._model.apply(position=position(synced).encode())
        self._save()
        return synced

    def change(
        self, followed: Followed, learn: Rows, forget: Rows | str, position: Position | None
    ) -> None:
        """Forget and learn rows; the file changes with the position."""
        text = None
        if position is not None:
            text = position.encode()
        gone: Any = None
        if isinstance(forget, str):
            gone = forget
        elif forget:
            gone = followed.frame(forget).pair
        new = None
        if learn:
            new = followed.frame(learn).pair
        try:
            self.model.apply(new, gone, position=text, choose=False)
        except NotStoredError as error:
            raise NeedsCheck(f"the model does not hold a row that was deleted ({error})") from None
        if position is not None:
            self._save()

    def can_refit(self) -> bool:
        """Return whether the model keeps all its rows."""
        rows = self.model.state.rows
        return rows is not None and rows.holds_all

    def digest(self) -> str:
        """Return the digest of the model."""
        return self.model.digest()

    def refit(
        self, position: Position, table: FollowedTable | None, last: Any, request: str | None
    ) -> float | None:
        """Refit, save, and return the share of labels that changed on the last rows."""
        from hammemo.receipts import recorded

        rows = None
        if table is not None:
            rows = table.pair
        before = self.model.snapshot()
        receipts = self._receipts
        keys = self._keys
        if request is None or receipts is None or keys is None:
            self.model.apply(position=position.encode()).refit(rows=rows)
            self._save()
        else:
            with receipts.locked():
                previous = receipts.settle(load(self.path).digest(), keys)
                self.model.apply(position=position.encode())
                with recorded(self.model, keys, request, previous=previous) as record:
                    self.model.refit(rows=rows)
                receipts.add(record.signed, self._save)
        return None if last is None else before.share_of_changed_labels(self.model, last)

    def _save(self) -> None:
        save(self.model, self.path, notes=self._notes)


_OPTIONS: Final = {"labels": "label", "numbers": "target"}
"""The option that names the column of what a model predicts."""


def check_kind(name: str, followed: Followed, predicts: str) -> None:
    """Refuse a model of labels for a column of targets, and the reverse."""
    if predicts != followed.predicts:
        raise FollowError(
            f"{name} predicts {predicts}: use {_OPTIONS[predicts]}={followed.label.name!r}, "
            "or name another model."
        )


def check_bounds(name: str, followed: Followed, bounds: Any) -> None:
    """Refuse bounds that are given and are not those of a model that exists."""
    followed_bounds = Bounds.from_parameter(followed.bounds)
    if followed.bounds is not None and followed_bounds != Bounds.from_parameter(bounds):
        raise FollowError(
            f"{name} has bounds={bounds}, not {followed_bounds.parameter}: leave the option out, "
            "set them with set_params(bounds=...) and save, or name another model."
        )


def first_model(followed: Followed, table: FollowedTable) -> Learner:
    """Return a model fitted to a table, which may be empty."""
    model: Learner
    if followed.is_target:
        model = MemoryRegressor(bounds=followed.bounds)
    else:
        model = MemoryClassifier(keep=KEEP)
    if len(table.labels):
        return model.fit(table.values, table.labels)
    # the types of the columns are known without any row: learn an example, and forget it
    example = followed.frame([tuple(EXAMPLES[column.kind] for column in followed.all)])
    labels = example.labels
    if followed.bounds is not None:  # any target inside the bounds: nothing of it is left
        labels = Bounds.from_parameter(followed.bounds).clip(labels)
    return model.fit(example.values, labels).apply(forget="everything")
