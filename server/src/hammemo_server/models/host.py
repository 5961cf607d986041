"""All models of a folder or a database, by tenant and name.

A model is opened when it is first asked for, and stays open. One process writes a model; any
number may follow it.

What waits for a disk or for a writer (to open, make or delete a model, to keep a list) holds
the lock of its tenant, so other tenants never wait for it. The lock of the host is held only
while its dictionary of models changes.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hammemo.edits.editing import name_columns
from hammemo.estimators.learners import Learner
from hammemo.files.archive import FileError
from hammemo.files.inspecting import inspect
from hammemo.files.models import load, save
from hammemo.receipts.keys import drop_expired, read_keys, require_ed25519
from hammemo.tasks.labels.masking import ListedLabels
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import (
    Exists,
    Malformed,
    NoSuchModel,
    NothingLearnt,
    QuotaReached,
    ServiceError,
    TooLarge,
    Unavailable,
    check_name,
)
from hammemo_server.edits.quotas import (
    MODEL_BYTES,
    Quota,
    Usage,
    add_usages,
    list_bytes,
    measure_usage,
    most_allowed,
)
from hammemo_server.edits.settings import Settings, refuse_inexact
from hammemo_server.erasure.journal import Journal, vault_of
from hammemo_server.erasure.receipts import Signing
from hammemo_server.models.backups import remove_drafts
from hammemo_server.models.erasable import ErasableModel
from hammemo_server.models.health import Health
from hammemo_server.models.replica import ModelWithoutKeys, ReplicaModel
from hammemo_server.models.served import ServedModel, logger
from hammemo_server.models.waiting import Upkeep
from hammemo_server.models.writer import WrittenModel
from hammemo_server.store.label_lists import (
    LabelLists,
    NamedList,
    check_items,
    encode_items,
    join_as_array,
    no_such_list,
)
from hammemo_server.store.log import ListFacts, LogError
from hammemo_server.store.sqlite_log import FolderStore
from hammemo_server.store.vault import KeyGone, Vault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo_server.store.base_log import Log, Store


_LISTS: Final = ".lists"
"""Under which name a quota counts lists: no model can have it."""


class Host:
    """The models of a folder.

    Parameters
    ----------
    folder : str or path
        Where the models are, and temporary files; it is made if it is not there.
    log : str, optional
        Where the logs are: ``postgresql://…``, or a log in SQLite beside each model by default.
    replica : bool
        Whether only to answer, following what another process writes.
    limits : Limits, optional
    upkeep : Upkeep, optional
        When snapshots are made, and how long ids are kept.
    keys : str or path, optional
        The key file, which models with subjects and receipts need; outside `folder`, the
        database and their backups.

    Examples
    --------
    >>> import tempfile
    >>> from hammemo_server.models.host import Host
    >>> from hammemo_server.edits.operations import Edit
    >>> with tempfile.TemporaryDirectory() as folder, Host(folder) as host:
    ...     model = host.create("shop", "fruit", {"columns": 2})
    ...     edit = Edit("op-1", "learn", [["red", "round"]], ["apple"])
    ...     clf, version = model.answering(min_version=model.edit(edit).result().version)
    ...     clf.predict([["red", "long"]]).tolist(), version
    (['apple'], 1)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        log: str | None = None,
        *,
        replica: bool = False,
        limits: Limits | None = None,
        upkeep: Upkeep | None = None,
        keys: str | os.PathLike[str] | None = None,
    ) -> None:
        self.replica = replica
        self.limits = limits or Limits()
        self.upkeep = upkeep or Upkeep()
        self.folder = Path(folder)
        self.keys = None if keys is None else check_key_file(Path(keys), self.folder)
        if self.keys is not None and not replica:
            drop_expired(self.keys)
        self.health = Health(self._can_answer, self._unwritable)
        with _reaching("The logs cannot be reached"):
            self.store = store_of(self.folder, log, replica=replica)
            if not replica:
                remove_drafts(self.store, self.keys)
        self._lists = LabelLists(self.store, self.limits.resident_items)
        self._models: dict[tuple[str, str], ServedModel] = {}
        self._quotas: dict[str, Quota] = {}
        self._tenants: dict[str, threading.RLock] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self, tenant: str, name: str, settings: dict[str, Any]) -> ServedModel:
        """Make a model.

        One that was made with the same settings is returned as it is, another one is refused.
        """
        checked = Settings.from_client(settings, self.limits)
        if checked.has_subjects and self.keys is None:
            raise Malformed("subjects: this service has no key file. Start it with one, keys=.")
        with self._writing(tenant), _reaching(f"The model {name!r} cannot be made", tenant, name):
            self._check_free(tenant, name)
            if name not in self.store.names(tenant):
                self.quota(tenant).check(Usage(bytes=MODEL_BYTES))
            is_new = self.store.create(tenant, name, checked.text(), None)
            model = self.get(tenant, name)
            if not is_new and (model.settings.uploaded or model.settings.given != checked.given):
                raise Exists(
                    f"There is a model {name!r} with other settings: "
                    "delete it first, or take another name."
                )
            return model

    def find_open(self, tenant: str, name: str) -> ServedModel | None:
        """Return a model if it is open; this takes no lock, so an event loop may call it."""
        model = self._models.get((tenant, name))
        return None if model is None or model.is_gone else model

    def get(self, tenant: str, name: str) -> ServedModel:
        """Return a model, opened if it was not; `NoSuchModel` if there is none."""
        model = self.find_open(tenant, name)
        if model is not None:
            return model
        check_name("tenant", tenant)
        check_name("model", name)
        with self._of_tenant(tenant):
            model = self.find_open(tenant, name)
            if model is not None:
                return model
            gone = self._models.pop((tenant, name), None)
            if gone is not None:
                gone.close()
            if not self._closed.is_set():
                model = self._open(tenant, name)
                with self._lock:
                    if not self._closed.is_set():
                        self._models[tenant, name] = model
                        return model
                model.close()  # the host was closed meanwhile
            raise Unavailable("The service stops: try again later.")

    def _of_tenant(self, tenant: str) -> threading.RLock:
        """Return the lock under which models and lists of a tenant are opened, made and deleted."""
        return self._tenants.setdefault(tenant, threading.RLock())

    def _can_answer(self) -> bool:
        """Return whether a question can be answered: a model opens, or there is none yet."""
        if not self.store.is_there():
            return False
        if self.open_models():
            return True
        try:
            places = [(tenant, name) for tenant in self.tenants() for name in self.names(tenant)]
        except ServiceError:
            return False
        for tenant, name in places:
            with suppress(ServiceError):
                self.get(tenant, name)
                return True
        return not places

    def _unwritable(self) -> list[str] | None:
        """Return the open models, as tenant/name, whose edits cannot be durable.

        None if the store takes none.
        """
        if self.replica or not self.store.is_there():
            return None
        try:
            self.store.check_writable()
        except LogError:
            return None
        written = [model for model in self.open_models() if isinstance(model, WrittenModel)]
        return sorted(f"{model.tenant}/{model.name}" for model in written if not model.can_edit)

    def names(self, tenant: str) -> list[str]:
        """Return the names of a tenant's models."""
        with _reaching("The logs cannot be reached", tenant):
            return self.store.names(tenant)

    def tenants(self) -> list[str]:
        """Return the tenants that have, or had, a model."""
        with _reaching("The logs cannot be reached"):
            return self.store.tenants()

    def open_models(self) -> list[ServedModel]:
        """Return the models that are open."""
        return list(self._models.values())

    def aliases(self, tenant: str) -> dict[str, str]:
        """Return the names that stand for models of a tenant in questions, and these models."""
        with _reaching("The logs cannot be reached", tenant):
            return self.store.aliases(tenant)

    def set_alias(self, tenant: str, alias: str, model: str) -> None:
        """Let a name stand for a model in questions, in one step: no question is unanswered."""
        self.get(tenant, model)  # it is open when the first question comes
        with self._writing(tenant), _reaching(f"The alias {alias!r} cannot be kept", tenant, alias):
            if alias in self.store.names(tenant):
                raise Exists(f"There is a model {alias!r}: choose another name for the alias.")
            if len(self.store.aliases(tenant) | {alias: model}) > self.limits.models:
                raise QuotaReached(
                    f"A tenant may have {self.limits.models} aliases: delete one first."
                )
            self.store.set_alias(tenant, alias, model)

    def delete_alias(self, tenant: str, alias: str) -> None:
        """Let a name stand for no model any more."""
        with (
            self._writing(tenant),
            _reaching(f"The alias {alias!r} cannot be deleted", tenant, alias),
        ):
            if alias not in self.store.aliases(tenant):
                raise NoSuchModel(f"There is no alias {alias!r}.")
            self.store.set_alias(tenant, alias, None)

    def lists(self, tenant: str) -> dict[str, ListFacts]:
        """Return the named lists of labels of a tenant: versions, and how many items they have."""
        with _reaching("The lists cannot be reached", tenant):
            return self.store.lists(tenant)

    def read_list(self, tenant: str, name: str) -> tuple[ListFacts, bytes]:
        """Return a named list of labels, its items as a JSON array."""
        with _reaching(f"The list {name!r} cannot be read", tenant, name, "list"):
            entry = self.store.read_list(tenant, name)
        if entry is None:
            raise no_such_list(name)
        facts, data = entry
        return facts, join_as_array(data)

    def set_list(self, tenant: str, name: str, items: Sequence[Any]) -> ListFacts:
        """Keep a named list of labels in place of the one of that name, in one durable step."""
        tokens = check_items(items, self.limits)
        data = encode_items(tokens)
        with (
            self._writing(tenant),
            _reaching(f"The list {name!r} cannot be kept", tenant, name, "list"),
        ):
            sizes = self._list_sizes(tenant)
            if len(sizes.keys() | {name}) > self.limits.lists:
                raise QuotaReached(
                    f"A tenant may have {self.limits.lists} lists: delete one first."
                )
            needed = list_bytes(len(data), len(tokens)) - sizes.get(name, 0)
            self.quota(tenant).take(_LISTS, Usage(bytes=max(0, needed)))
            try:
                labels = ListedLabels(tokens)
                facts = self.store.keep_list(tenant, name, len(labels), data)
                self._lists.note_change(tenant, name, NamedList(facts.version, labels))
            finally:
                self.quota(tenant).note(_LISTS, self._lists_usage(tenant))
        return facts

    def check_room(self, tenant: str, size: int, replaced: str = "") -> None:
        """Refuse a body of so many bytes before it is read: a model file or a list."""
        with _reaching("The lists cannot be reached"):
            freed = self._list_sizes(tenant).get(replaced, 0) if replaced else 0
        self.quota(tenant).check(Usage(bytes=max(0, size - freed)))

    def _list_sizes(self, tenant: str) -> dict[str, int]:
        """Return how many bytes each list of a tenant holds, on the disk and in memory."""
        sizes = self.store.list_sizes(tenant)
        return {
            name: list_bytes(sizes.get(name, 0), facts.items)
            for name, facts in self.store.lists(tenant).items()
        }

    def _lists_usage(self, tenant: str) -> Usage:
        """Return what the lists of a tenant hold; a store that is out of reach counts as empty."""
        with suppress(LogError):
            return Usage(bytes=sum(self._list_sizes(tenant).values()))
        return Usage()

    def delete_list(self, tenant: str, name: str) -> None:
        """Delete a named list of labels; questions that name it are refused from then on."""
        with (
            self._writing(tenant),
            _reaching(f"The list {name!r} cannot be deleted", tenant, name, "list"),
        ):
            if not self.store.drop_list(tenant, name):
                raise no_such_list(name)
            self._lists.note_change(tenant, name)
            self.quota(tenant).note(_LISTS, self._lists_usage(tenant))

    def find_list(self, tenant: str, name: str, age: float) -> NamedList | None:
        """Return a named list of labels that was looked up in the last `age` seconds, or None."""
        return self._lists.find_resident(tenant, name, age)

    def get_list(self, tenant: str, name: str, age: float = 0.0) -> NamedList:
        """Return a named list of labels for questions.

        Its version was looked up in the last `age` seconds.
        """
        with _reaching(f"The list {name!r} cannot be read", tenant, name, "list"):
            return self._lists.get(tenant, name, age)

    def _check_free(self, tenant: str, name: str) -> None:
        """Refuse the name of an alias for a model."""
        if name in self.store.aliases(tenant):
            raise Exists(
                f"The name {name!r} stands for another model: "
                "delete the alias first, or take another name."
            )

    def delete(self, tenant: str, name: str) -> None:
        """Delete a model, its log and its snapshot; one that an alias stands for is refused."""
        with (
            self._writing(tenant),
            _reaching(f"The model {name!r} cannot be deleted", tenant, name),
        ):
            alias = next(
                (alias for alias, model in self.store.aliases(tenant).items() if model == name),
                None,
            )
            if alias is not None:
                raise Exists(
                    f"The alias {alias!r} stands for the model {name!r}: "
                    "point it to another model first."
                )
            model = self._models.pop((tenant, name), None)
            vault = self._vault(tenant, name)
            if model is not None:
                model.close(last_snapshot=False)
            if not self.store.delete(tenant, name):
                raise NoSuchModel(f"There is no model {name!r}.")
            self.quota(tenant).drop(name)
            if vault is not None:
                vault.drop_all()

    def upload(self, tenant: str, name: str, path: str | os.PathLike[str]) -> ServedModel:
        """Make a model of a model file, which is checked as `load` does and not changed."""
        check_name("tenant", tenant)
        check_name("model", name)
        size = os.path.getsize(path)
        self.quota(tenant).check(Usage(bytes=size))  # before it is read
        model = self._load(path).snapshot()
        names = name_columns(model, None)  # the settings keep them: rows come without names
        settings = Settings.for_upload(None if names is None else names.tolist())
        with self._writing(tenant), _reaching(f"The model {name!r} cannot be made"):
            self.quota(tenant).check(measure_usage(model, size, 0)[0])
            self._check_free(tenant, name)
            if not self.store.create(tenant, name, settings.text(), model):
                raise Exists(f"There is a model {name!r}: delete it first, or take another name.")
            return self.get(tenant, name)

    def write_file(self, tenant: str, name: str, path: str | os.PathLike[str]) -> int:
        """Write the model as it is now to a file, and return its version."""
        hosted = self.get(tenant, name)
        state = hosted.state()
        model = hosted.with_names(state)
        if model is None:
            raise NothingLearnt(
                "The model does not know yet how many columns it has: "
                "let it learn an example first."
            )
        try:
            save(model.snapshot(), path, force=True)
        except OSError as error:
            raise Unavailable(f"The file could not be written: {error.strerror}.") from error
        return state.version

    def close(self) -> None:
        """Finish the edits that wait, refuse later ones, and close all models."""
        with self._lock:
            self._closed.set()
            models = list(self._models.values())
            self._models = {}
        closers = [threading.Thread(target=model.close) for model in models]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()

    def _writing(self, tenant: str) -> AbstractContextManager[Any]:
        """Return the lock under which models are made and deleted; a replica never does."""
        if self.replica:
            raise Unavailable("This process only answers: ask the process that writes.")
        return self._of_tenant(tenant)

    def _open(self, tenant: str, name: str) -> ServedModel:
        with _reaching(f"The model {name!r} cannot be opened"):
            log = self.store.open(tenant, name, replica=self.replica)
            try:
                has_subjects = Settings.from_text(log.settings).has_subjects
                if has_subjects and self.keys is None:
                    return ModelWithoutKeys(tenant, name, log)
                journal = self._journal(name, log) if has_subjects else None
                if self.replica:
                    return ReplicaModel(tenant, name, log, journal)
                written = self._open_writer(tenant, name, log, journal)
                written.count_in(self.quota(tenant))
                return written
            except BaseException:
                log.close()
                raise

    def _open_writer(
        self, tenant: str, name: str, log: Log, journal: Journal | None
    ) -> WrittenModel:
        if journal is not None:
            return ErasableModel(
                tenant,
                name,
                log,
                limits=self.limits,
                upkeep=self.upkeep,
                journal=journal,
            )
        signing = None
        if self.keys is not None:
            signing = Signing(log, partial(read_keys, self.keys))
        return WrittenModel(
            tenant,
            name,
            log,
            limits=self.limits,
            upkeep=self.upkeep,
            signing=signing,
        )

    def quota(self, tenant: str) -> Quota:
        """Return what a tenant may store."""
        quota = self._quotas.get(tenant)
        if quota is None:
            quota = self._quotas.setdefault(tenant, Quota(most_allowed(self.limits)))
            quota.note(_LISTS, self._lists_usage(tenant))
        return quota

    def usage(self, tenant: str) -> Usage:
        """Return what the lists and the open models of a tenant hold."""
        models = (model.usage() for model in self.open_models() if model.tenant == tenant)
        return add_usages((self._lists_usage(tenant), *models))

    def _vault(self, tenant: str, name: str) -> Vault | None:
        """Return the secrets of a model that is about to be deleted, if it has any."""
        if self.keys is None:
            return None
        with (
            suppress(NoSuchModel, LogError),
            closing(self.store.open(tenant, name, replica=True)) as log,
        ):
            if Settings.from_text(log.settings).has_subjects:
                return vault_of(log, self.keys)
        return None

    def _journal(self, name: str, log: Log) -> Journal:
        """Return the journal of a model with subjects."""
        assert self.keys is not None
        try:
            log.vault = vault_of(log, self.keys)
            journal = Journal(log, log.vault, writer=not self.replica)
            journal.check_keys(name)
            return journal
        except (KeyGone, ValueError, OSError) as error:
            public = (
                f"The model {name!r} cannot be opened: the key file is missing, or is another one."
            )
            raise Unavailable(
                f"The model {name!r} cannot be opened: {error}", public=public
            ) from error

    def _load(self, path: str | os.PathLike[str]) -> Learner:
        """Return the model in a file that a client sent, or refuse it."""
        size = os.path.getsize(path)
        if size > self.limits.file:
            raise TooLarge(
                f"The file has {size:,} bytes, and a model file may have {self.limits.file:,}."
            )
        try:
            if inspect(path)["needs_key"]:
                raise Malformed(
                    "The model has a secret key, which this service does not keep: "
                    "upload one without."
                )
            model = load(path)
        except FileError as error:
            raise Malformed(str(error).replace(os.fspath(path), "the file")) from None
        if not isinstance(model, Learner):
            raise Malformed(
                "The file holds a model compiled for answering, which cannot learn: "
                "upload the classifier."
            )
        refuse_inexact(model.state.memory)
        _refuse_half_characters(model)
        return model


def _refuse_half_characters(model: Learner) -> None:
    """Refuse a model whose answers or description could not be written as JSON."""
    pad = None if model.state.cutting is None else model.state.cutting.pad
    for text in chain(model.state.labels.strings, getattr(model, "feature_names_in_", ()), [pad]):
        try:
            str(text).encode()
        except UnicodeEncodeError:
            raise Malformed(
                f"The model has {ascii(text)[:80]} as a label, a column or a pad token: "
                "half of a surrogate pair is not a character, so no answer could name it. "
                "Replace it, fit the model again, and upload that."
            ) from None


def check_key_file(path: Path, folder: Path) -> Path:
    """Return the key file; refuse one that cannot be used or lies with the data it protects."""
    if path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(
            f"The key file {path} is in {folder}, with the data that it protects: put it elsewhere."
        )
    require_ed25519()
    read_keys(path)
    return path


def store_of(folder: Path, log: str | None, *, replica: bool) -> Store:
    """Return where the logs are: in the folder, or in a database."""
    if log is None:
        store = FolderStore(folder)
        if not replica:
            store.remove_leftovers()
        return store
    if log.partition("://")[0] in ("postgresql", "postgres"):
        from hammemo_server.store.postgres_log import PostgresStore

        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return PostgresStore(log)
    raise ValueError(
        f"log={log.partition('://')[0]!r} is not known: give postgresql://…, or nothing for SQLite."
    )


@contextmanager
def _reaching(
    what: str, tenant: str | None = None, name: str | None = None, kind: str = "model"
) -> Iterator[None]:
    """Refuse what can be no name, and turn a failure of the log into a refusal."""
    if tenant is not None:
        check_name("tenant", tenant)
    if name is not None:
        check_name(kind, name)
    try:
        yield
    except LogError as error:
        logger.error("%s: %s", what, error)  # which holds no example
        raise Unavailable(
            f"{what}: {error}", public=f"{what}: the server's log says why."
        ) from error
