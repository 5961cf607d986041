"""Where the logs of all models are, and what tenants name: what both engines have in common."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Protocol

from hammemo_server.edits.operations import KEY_BYTES
from hammemo_server.store.log import Copied, ListFacts

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from hammemo.models.learners import Learner
    from hammemo_server.store.base_log import Log


class Store(Protocol):
    """Where the logs of all models are, and what tenants name: aliases, and lists of labels.

    Both engines have the same tables for names, so this class has the statements.
    """

    def tenants(self) -> list[str]:
        """Return the tenants that have a model, sorted."""

    def names(self, tenant: str) -> list[str]:
        """Return the names of a tenant's models, sorted."""

    def create(self, tenant: str, name: str, settings: str, model: Learner | None) -> bool:
        """Make an empty log, with `model` as the snapshot of position 0; return False if there is one of that name."""
        return self.receive(tenant, name, Copied(settings, secrets.token_bytes(KEY_BYTES), 0, 0, model, (), None))

    def open(self, tenant: str, name: str, *, replica: bool) -> Log:
        """Open a log; raise `NoSuchModel`, or `InUse` where another process writes it."""

    def delete(self, tenant: str, name: str) -> bool:
        """Delete a log that is not open here; return False if there is none."""

    def receive(self, tenant: str, name: str, copied: Copied) -> bool:
        """Make a log of what a backup holds, whole or not at all; return False if there is one of that name.

        Nothing of a model with subjects is in plain text.
        """

    def restoring(self, wait: float) -> AbstractContextManager[None]:
        """Be the only process that restores models; `InUse` if another one does for so many seconds."""

    def drafts(self) -> list[tuple[str, str]]:
        """Return tenants and names of models that are being restored, or were when a process was killed."""

    def rename(self, tenant: str, name: str, to: tuple[str, str]) -> bool:
        """Give a log that is not open another tenant and name; return False if there is one of that name."""

    def is_there(self) -> bool:
        """Return whether what was opened is still there: a folder was not deleted or replaced."""
        return True  # models that are open answer without a database

    def check_writable(self) -> None:
        """Write something and make it durable; `LogError` where that fails."""

    def _naming(self, tenant: str, *, writes: bool = False) -> AbstractContextManager[Callable[..., list[Any]]]:
        """Yield what runs a statement on the tables of a tenant's names, all in one durable transaction."""

    def aliases(self, tenant: str) -> dict[str, str]:
        """Return the models behind other names, by these names."""
        with self._naming(tenant) as run:
            return dict(run("select alias, model from hammemo_aliases where tenant = %s", tenant))

    def set_alias(self, tenant: str, alias: str, model: str | None) -> None:
        """Let a name stand for a model, or for none any more, durably and in one step."""
        with self._naming(tenant, writes=True) as run:
            if model is None:
                run("delete from hammemo_aliases where tenant = %s and alias = %s", tenant, alias)
            else:
                run(
                    "insert into hammemo_aliases values(%s, %s, %s) "
                    "on conflict (tenant, alias) do update set model = excluded.model",
                    tenant, alias, model,
                )  # fmt: skip

    def lists(self, tenant: str) -> dict[str, ListFacts]:
        """Return the lists of labels that a tenant has, by their names."""
        with self._naming(tenant) as run:
            rows = run("select name, version, items from hammemo_lists where tenant = %s", tenant)
        return {name: ListFacts(*facts) for name, *facts in rows}

    def list_sizes(self, tenant: str) -> dict[str, int]:
        """Return how many bytes each list of labels has, by their names."""
        with self._naming(tenant) as run:
            return dict(run("select name, length(data) from hammemo_lists where tenant = %s", tenant))

    def read_list(self, tenant: str, name: str) -> tuple[ListFacts, bytes] | None:
        """Return a list of labels as it was kept, or None if there is none of that name."""
        with self._naming(tenant) as run:
            rows = run("select version, items, data from hammemo_lists where tenant = %s and name = %s", tenant, name)
        return (ListFacts(*rows[0][:2]), bytes(rows[0][2])) if rows else None

    def keep_list(self, tenant: str, name: str, items: int, data: bytes) -> ListFacts:
        """Keep a list of labels in the place of the one of that name, durably and in one step.

        The number that versions are taken from stays when a list is deleted.
        """
        with self._naming(tenant, writes=True) as run:
            ((version,),) = run(
                "insert into hammemo_list_versions values(%s, 1) "
                "on conflict (tenant) do update set newest = hammemo_list_versions.newest + 1 returning newest",
                tenant,
            )
            run(
                "insert into hammemo_lists values(%s, %s, %s, %s, %s) on conflict (tenant, name) do update "
                "set version = excluded.version, items = excluded.items, data = excluded.data",
                tenant, name, version, items, data,
            )  # fmt: skip
        return ListFacts(version, items)

    def drop_list(self, tenant: str, name: str) -> bool:
        """Delete a list of labels, durably; return False if there is none."""
        with self._naming(tenant, writes=True) as run:
            return bool(run("delete from hammemo_lists where tenant = %s and name = %s returning name", tenant, name))
