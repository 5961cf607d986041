"""One served model: a version to ask, which edits replace as a whole.

What is published is a `State`, a model and its version, and a state never changes: an answer is
that of one version, and a question takes no lock. Only durable edits are published: an answer
never tells of an edit that a crash could still undo.

`WrittenModel` (:mod:`hammemo_server.models.writer`) edits; `ReplicaModel`
(:mod:`hammemo_server.models.replica`) only follows the log of another process.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._versions import cached_property
from hammemo.edits.editing import name_columns
from hammemo.edits.task import NO_ANSWERS
from hammemo.receipts.receipt import SignedReceipt
from hammemo_server.edits.operations import (
    Acknowledgement,
    Edit,
    ErasureState,
    NothingLearnt,
    NotReached,
    Unavailable,
)
from hammemo_server.edits.quotas import Usage, measure_usage
from hammemo_server.edits.settings import Settings
from hammemo_server.erasure.receipts import receipt_of
from hammemo_server.models.applying import State, catch_up
from hammemo_server.store.log import LogError
from hammemo_server.store.vault import KeyGone

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from hammemo.estimators.learners import Learner
    from hammemo_server.erasure.journal import Journal
    from hammemo_server.store.audit import Linked, Start
    from hammemo_server.store.base_log import Log


logger = logging.getLogger("hammemo_server")


class ServedModel:
    """A model that answers, restored from its log; here it only answers.

    Parameters
    ----------
    tenant, name : str
    log : Log
        Open; it is closed with the model.
    journal : Journal, optional
        Of a model with subjects.
    """

    def __init__(self, tenant: str, name: str, log: Log, journal: Journal | None = None) -> None:
        self.tenant = tenant
        self.name = name
        self._log = log
        self._journal = journal
        self.settings = Settings.from_text(log.settings)
        """What the model was made with."""
        self._changed = threading.Condition()
        began = time.perf_counter()
        self._state = self._first_state()
        self.replay_seconds = time.perf_counter() - began
        """How long it took to load the snapshot and to apply the log."""
        self.replayed = self._state.version - log.base()
        """How many edits were applied at that."""
        self._snapshot_version = log.base()
        self._snapshot_time: float | None = None
        self._last_digest: tuple[int, str | None] = (-1, None)
        """A version and its digest; the version itself is not kept: it may hold what was
        forgotten since."""

    def _first_state(self) -> State:
        """Return what the log holds."""
        return catch_up(self._log, None, self.settings, self._journal)

    @cached_property
    def identity(self) -> str:
        """What tells it from other models of its name, earlier or later, in every process."""
        return blake2b(self._log.key, digest_size=16, person=b"hammemo-identity").hexdigest()

    @property
    def version(self) -> int:
        """How many edits were acknowledged since the model was made."""
        return self._state.version

    def edit(self, edit: Edit, token: str = "") -> Future[Acknowledgement]:  # noqa: ARG002
        """Hand over an edit.

        The future has its acknowledgement when it is durable and applied, or a `ServiceError`.
        The audit record keeps the name of the token with which it was sent.
        """
        raise Unavailable(
            f"This process only answers: send the {edit.kind} to the process that writes."
        )

    def answering(self, min_version: int | None = None, wait: float = 0.0) -> tuple[Learner, int]:
        """Return a model to ask, which stays as it is, and its version.

        Parameters
        ----------
        min_version : int, optional
            The oldest version to answer from, such as that of an acknowledgement.
        wait : float
            The most seconds to wait for it; then `NotReached` is raised.
        """
        least_version = min_version or 0
        # an event loop never waits, and takes no lock
        if wait > 0 and self._state.version < least_version:
            with self._changed:
                self._changed.wait_for(lambda: self._state.version >= least_version, timeout=wait)
        state = self._state
        if state.version < least_version:
            raise NotReached(
                f"Version {least_version} is not reached: this is version {state.version}. "
                "Ask later."
            )
        if state.model is None or state.is_empty:
            raise NothingLearnt(
                "The model holds no example, so there is no label to answer with: "
                "let it learn first."
            )
        return state.model, state.version

    def state(self) -> State:
        """Return what is published now.

        The model is None as long as the number of columns is not known.
        """
        return self._state

    def with_names(self, state: State | None = None) -> Learner | None:
        """Return the model as its file holds it, with the names of its columns.

        None if it is not known how many.
        """
        model = (state or self._state).model
        names = self.settings.column_names
        if model is not None and names is not None:
            model = model.snapshot()
            name_columns(model, np.array(names, dtype=object))
        return model

    def usage(self) -> Usage:
        """Return what the model holds, on the disk and in memory."""
        snapshot_bytes, log_bytes = self._disk_bytes()
        usage, _ = measure_usage(self._state.model, snapshot_bytes, log_bytes)
        return usage

    def _disk_bytes(self) -> tuple[int, int]:
        """Return how large the newest snapshot and the log are.

        A log that cannot be reached counts as empty.
        """
        with suppress(LogError):
            return self._log.snapshot_bytes(), self._log.body_bytes()
        return 0, 0

    def describe(self, *, digest: bool = False) -> dict[str, Any]:
        """Return the settings of the model, what it holds, and where its log and its snapshot are.

        With `digest`, the digest of its file, too: all of the model is read for it, once a version.
        """
        state = self._state
        about = self.settings
        model = state.model
        snapshot_bytes, log_bytes = self._disk_bytes()
        cutting = None
        if model is not None and model.state.cutting is not None:
            cutting = asdict(model.state.cutting)
        answers = NO_ANSWERS if model is None else model.describe_answers()
        facts: dict[str, Any] = {
            "name": self.name,
            "settings": about.given,
            "uploaded": about.uploaded,
            "version": state.version,
            "columns": None if model is None else int(model.n_features_in_),
            "column_names": about.column_names,
            "cutting": cutting,
            "predicts": "labels" if model is None else model.predicts,
            "bounds": answers.bounds,
            "classes": answers.classes,
            "examples": 0 if model is None else model.state.n_examples,
            "stale": model is not None and model.state.stale,
            "position": None if model is None else model.position_,
            "snapshot_version": self._snapshot_version,
            "snapshot_time": self._snapshot_time,
            "replay_seconds": self.replay_seconds,
            "log_bytes": log_bytes,
            "bytes": snapshot_bytes + log_bytes,
        }
        facts.update(answers.parts)
        if digest:
            facts["digest"] = self._digest(state)
        return facts

    def _digest(self, state: State) -> str | None:
        version, digest = self._last_digest
        if version != state.version:
            model = self.with_names(state)
            digest = None if model is None else model.digest()
            self._last_digest = (state.version, digest)
        return digest

    def erasure(self, op: str) -> ErasureState | None:
        """Return how far the erasure of a subject is, by the id of its edit.

        None for an id that is not known. A receipt is there when the subject's key is destroyed.
        """
        if self._journal is None:
            return None
        try:
            erasure = self._log.erasure(self._journal.vault.hash_op(op))
            if erasure is None:
                return None
            receipt = receipt_of(self._journal, erasure)
            version = erasure.position
            if receipt:
                version = SignedReceipt.decode(receipt).receipt.version_after
            return ErasureState(version, erasure.state, receipt)
        except (LogError, KeyGone, ValueError) as error:
            raise Unavailable("Erasures cannot be read now: try again later.") from error

    def audit(self, after: int = 0, limit: int = 1_000) -> tuple[Start, list[Linked]]:
        """Return what the first line of the audit record is chained to, and some lines."""
        try:
            return self._log.audit(after, limit)
        except LogError as error:
            raise Unavailable("The audit record cannot be read now: try again later.") from error

    def snapshot(self) -> int:
        """Write a snapshot now, and return its version."""
        raise Unavailable("This process only answers: the process that writes makes the snapshots.")

    def close(self, *, last_snapshot: bool = True) -> None:  # noqa: ARG002
        """Finish what was begun, and let the log go."""
        self._log.close()

    @property
    def can_edit(self) -> bool:
        """Whether edits can be made durable, as far as is known."""
        return False

    @property
    def is_gone(self) -> bool:
        """Whether the model was deleted, by the process that writes it."""
        return False

    def _catch_up(self) -> None:
        """Apply what is new in the log."""
        state = catch_up(self._log, self._state, self.settings, self._journal)
        self._snapshot_version = self._log.base()
        if state is not self._state:
            self._publish(state)

    def _thread(self, what: str, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        """Start a thread of this model."""
        name = f"hammemo {what} {self.tenant}/{self.name}"
        thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
        thread.start()
        return thread

    def _report(self, what: str, error: BaseException) -> None:
        """Log a failure; of other errors than `LogError` the type: messages may hold examples."""
        text: Any = error if isinstance(error, LogError) else ""
        logger.error("%s: %s %s", what, type(error).__name__, text, extra=self._facts())

    def _facts(self) -> dict[str, object]:
        return {"tenant": self.tenant, "model": self.name, "version": self._state.version}

    def _publish(self, state: State) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()
