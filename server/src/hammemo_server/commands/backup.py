"""``hammemo backup`` and ``hammemo restore``: served models in files of their own, and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.console import UsageError, format_count, print_result
from hammemo.cli.options import flag, option

if TYPE_CHECKING:
    from hammemo_server.models.backups import Restored, Written
    from hammemo_server.store.base_log import Store

    Place = tuple[str, str]

Url: TypeAlias = Annotated[
    str | None,
    option(
        "URL", "The log is in PostgreSQL: postgresql://…", envvar="HAMMEMO_LOG", show_envvar=False
    ),
]
_LOST = "The database that was backed up is lost: drop its keys, so that nothing can read it later."
KeyFile: TypeAlias = Annotated[
    Path | None, option("FILE", "The key file, which models with subjects need.")
]


def back_up_folder(  # noqa: PLR0917  typer takes these as options
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder that hammemo serve uses.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="A folder, in which each backup is a new file.")
    ],
    tenant: Annotated[str | None, option("NAME", "Only this tenant.", "all")] = None,
    model: Annotated[str | None, option("NAME", "Only this model.", "all")] = None,
    log: Url = None,
    keys: KeyFile = None,
    days: Annotated[
        float,
        option(
            "DAYS", "When the key of an encrypted backup expires; then nothing can read it.", min=0
        ),
    ] = 30,
    as_json: opt.AsJson = False,
) -> None:
    """Back up served models, each as it is at one moment, also while a server runs.

    A backup keeps the version, operation ids, the audit record and receipts. For a model with
    subjects it is encrypted with its own key in the key file; for other models it contains the
    rows in plain text.
    """
    from hammemo_server.models.backups import back_up

    if target.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{target} is in {folder}: keep backups elsewhere.")
    store, places = models_of(folder, log, tenant, model)
    written = [_call_plainly(back_up, store, t, m, target, keys=keys, days=days) for t, m in places]
    facts = [
        {"file": str(backup.path), "version": backup.version, "expires": backup.header.expires}
        for backup in written
    ]
    print_result(facts, *map(_describe_backup, written), as_json=as_json)


def _describe_backup(backup: Written) -> str:
    header = backup.header
    until = "" if header.expires is None else f", until {header.expires}"
    return f"{backup.path}: {header.tenant}/{header.model}, version {backup.version}{until}"


@dataclass(frozen=True)
class LossOptions:
    """What was lost since the backup."""

    original_lost: Annotated[bool, flag("--original-lost", _LOST)] = False
    receipts: Annotated[
        Path | None,
        option("FILE", "The receipts of the model: refuse if it does not know a request in them."),
    ] = None
    again: Annotated[
        list[str] | None,
        option("ID", "With --receipts: you will send this request again (repeatable)."),
    ] = None


def restore_files(
    backup: Annotated[
        Path,
        typer.Argument(
            metavar="BACKUP",
            help="A backup; or a folder, for the newest backup of each model in it.",
        ),
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder that hammemo serve uses.")
    ],
    to: Annotated[
        str | None, option("TENANT/NAME", "The name of the restored model.", "as it was")
    ] = None,
    log: Url = None,
    keys: KeyFile = None,
    *,
    lost: LossOptions,
    as_json: opt.AsJson = False,
) -> None:
    """Restore models from backups, also while a server runs; existing models are never replaced.

    Subjects erased since the backup are erased again before the model can be queried.
    """
    from hammemo_server.models.backups import newest_backups, restore
    from hammemo_server.models.host import store_of

    files = newest_backups(backup) if backup.is_dir() else [backup]
    place = None if to is None else tuple(to.split("/"))
    if place is not None and (len(place) != 2 or len(files) != 1):
        raise UsageError(f"--to {to} is not TENANT/NAME for one backup.")
    if lost.receipts is not None and len(files) != 1:
        raise UsageError("--receipts is for one backup: name its file.")
    if lost.again and lost.receipts is None:
        raise UsageError("--again names requests with receipts: name their file with --receipts.")
    options = {"keys": keys, "to": place, **asdict(lost), "again": lost.again or ()}
    store = store_of(folder, log, replica=True)
    restored = [_call_plainly(restore, store, file, **options) for file in files]
    print_result(
        [model._asdict() for model in restored], *map(_describe_restored, restored), as_json=as_json
    )


def _describe_restored(restored: Restored) -> str:
    erased = (
        f" {format_count(restored.erased, 'subject')} erased since the backup."
        if restored.erased
        else ""
    )
    return f"{restored.tenant}/{restored.model} is restored, version {restored.version}.{erased}"


def models_of(
    folder: Path, log: str | None, tenant: str | None, model: str | None
) -> tuple[Store, list[Place]]:
    """Return where the logs of a folder are, and the chosen models, by tenant and name."""
    if log is None and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name the one that hammemo serve is given.")
    from hammemo_server.models.host import store_of

    store = store_of(folder, log, replica=True)
    places = [
        (t, m)
        for t in store.tenants()
        for m in store.names(t)
        if tenant in (None, t) and model in (None, m)
    ]
    if not places:
        raise UsageError(f"{folder} has no such model.")
    return store, places


def _call_plainly(function: Any, *arguments: Any, **options: Any) -> Any:
    """Call a function; what a log or the service refuses is an error in one line."""
    from hammemo_server.edits.operations import ServiceError
    from hammemo_server.store.log import LogError

    try:
        return function(*arguments, **options)
    except (LogError, ServiceError) as error:
        raise ValueError(str(error)) from error
