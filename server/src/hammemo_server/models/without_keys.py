"""A model with subjects without its key file: it answers from its newest snapshot, and nothing else is possible.

Edits after the snapshot are ciphertexts that nothing opens, and so is the journal: whose each row is cannot be told any
more, and no subject can be erased. In PostgreSQL snapshots are encrypted, too: such a model cannot be opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hammemo_server.edits.operations import Acknowledgement, Edit, ErasureState, Unavailable
from hammemo_server.models.applying import State
from hammemo_server.models.served import ServedModel, logger
from hammemo_server.store.log import LogError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hammemo_server.store.base_log import Log


class ModelWithoutKeys(ServedModel):
    """A model whose key file is not there; the parameters are those of `ServedModel`."""

    def __init__(self, tenant: str, name: str, log: Log) -> None:
        super().__init__(tenant, name, log)
        self._lost = log.head() - self.version
        """How many edits after the snapshot cannot be read."""
        logger.error("no key file: the journal and %d edits cannot be read", self._lost, extra=self._facts())

    def _first_state(self) -> State:
        try:
            found = self._log.snapshot()
        except LogError as error:
            raise Unavailable(
                f"The model {self.name!r} has subjects, and all of it is encrypted: name the key file, keys=. Without "
                "it the model is lost."
            ) from error
        return State(*found) if found is not None else State(None, 0)

    def edit(self, edit: Edit, token: str = "") -> Future[Acknowledgement]:  # noqa: ARG002
        """Refuse an edit."""
        raise self._refusal()

    def erasure(self, op: str) -> ErasureState | None:  # noqa: ARG002
        """Refuse to say how far an erasure is."""
        raise self._refusal()

    def describe(self, *, digest: bool = False) -> dict[str, Any]:
        """Return what is known of the model, and that its journal is lost."""
        return {**super().describe(digest=digest), "journal": "lost", "unreadable_edits": self._lost}

    def _refusal(self) -> Unavailable:
        return Unavailable(
            f"The model {self.name!r} has subjects, and the server has no key file (keys=): the journal cannot be "
            f"read. Questions are answered from version {self.version}; {self._lost} later edits cannot be read."
        )
