"""``hammemo serve``: serve models over HTTP without losing an acknowledged edit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from hammemo.cli.console import UsageError
from hammemo.cli.options import flag, option

_LOG = "Keep the log in a PostgreSQL server: postgresql://… (or the variable HAMMEMO_LOG)."
_TOKENS = (
    "Access tokens and their roles; `hammemo tokens add` writes it. "
    "It is read again when it changes."
)
_KEYS = (
    "The keys of models with subjects; `hammemo keys new` writes it. "
    "Keep it on another disk than DIR."
)
_DAY = 86_400.0
"""Seconds."""


@dataclass(frozen=True)
class ListenOptions:
    """Where the server listens, and in how many processes."""

    port: Annotated[int, option("N", "The port to listen on; 0 for any free port.", min=0)] = 8080
    host: Annotated[
        str, option("ADDRESS", "The address to listen on; other machines need the options below.")
    ] = "127.0.0.1"
    health_port: Annotated[
        int | None, option("N", "Answer health and metrics on a separate port, too.", min=0)
    ] = None
    workers: Annotated[int, option("N", "Additional processes that only answer.", min=0)] = 0
    log_level: Annotated[str, option("NAME", "info (one line per request), warning or error.")] = (
        "info"
    )


@dataclass(frozen=True)
class AccessOptions:
    """Who may call the server, and how connections are encrypted."""

    panel: ClassVar = "Access and encryption"

    token_file: Annotated[Path | None, option("FILE", _TOKENS)] = None
    tls_cert: Annotated[Path | None, option("FILE", "A certificate, PEM.")] = None
    tls_key: Annotated[Path | None, option("FILE", "Its key, PEM.")] = None
    behind_proxy: Annotated[
        bool, flag("--behind-proxy", "A proxy in front of the server encrypts connections.")
    ] = False
    trusted_proxy: Annotated[
        list[str] | None,
        option(
            "ADDRESS",
            "Trust X-Forwarded-For from this proxy, an address or a network (repeatable).",
        ),
    ] = None
    allow_host: Annotated[
        list[str] | None, option("NAME", "A host name that clients use (repeatable).")
    ] = None
    keys: Annotated[Path | None, option("FILE", _KEYS)] = None


@dataclass(frozen=True)
class LogOptions:
    """Where edits are logged, and how long."""

    log: Annotated[
        str | None,
        option("URL", _LOG, "SQLite beside each model", envvar="HAMMEMO_LOG", show_envvar=False),
    ] = None
    replica: Annotated[
        bool, flag("--replica", "Only answer; another node writes the log of --log.")
    ] = False
    snapshot_seconds: Annotated[
        float,
        option(
            "SECONDS",
            "Write a snapshot at most this long after an edit; then the log drops its examples.",
            min=1,
        ),
    ] = 300
    retry_days: Annotated[
        float, option("DAYS", "How long a repeated edit is recognised.", min=0)
    ] = 7
    audit_days: Annotated[
        float, option("DAYS", "How long the audit record keeps a line.", min=1)
    ] = 1095

    @property
    def upkeep(self) -> dict[str, float]:
        """The settings of the upkeep of logs, in seconds."""
        retention = self.retry_days * _DAY
        audit = self.audit_days * _DAY
        return {"snapshot_seconds": self.snapshot_seconds, "retention": retention, "audit": audit}


@dataclass(frozen=True)
class LimitOptions:
    """What a tenant or an address may use."""

    panel: ClassVar = "Limits"

    rate: Annotated[float, option("N", "Requests per second and tenant.", min=0.1)] = 10_000
    max_body: Annotated[int, option("BYTES", "The largest JSON body.", min=1024)] = 4 * 2**20
    max_file: Annotated[int, option("BYTES", "The largest model file.", min=1024)] = 2**30
    max_models: Annotated[int, option("N", "Maximum number of models per tenant.", min=1)] = 256
    max_labels: Annotated[
        int, option("N", "Maximum number of labels per tenant; 0 for any.", min=0)
    ] = 1_000_000
    max_examples: Annotated[
        int, option("N", "Maximum number of examples per tenant; 0 for any.", min=0)
    ] = 20_000_000
    max_stored: Annotated[
        int,
        option(
            "BYTES",
            "Maximum size of models and lists per tenant, on disk and in memory; 0 for any.",
            min=0,
        ),
    ] = 2 * 2**30
    deadline: Annotated[
        float,
        option("SECONDS", "Answer 504 after this time; edits continue, and have longer.", min=0.1),
    ] = 10
    question_processes: Annotated[
        int,
        option(
            "N",
            "Processes for long queries, started when needed; "
            "0 answers them in threads of the server.",
            min=0,
        ),
    ] = 2
    address_connections: Annotated[
        int,
        option(
            "N",
            "Connections per address; behind a trusted proxy, simultaneous requests per address.",
            min=1,
        ),
    ] = 256

    @property
    def limits(self) -> dict[str, float]:
        """The limits by the names that the server gives them."""
        stored = {
            "max_labels": "stored_labels",
            "max_examples": "stored_examples",
            "max_stored": "stored_bytes",
        }
        options = asdict(self)
        del options["question_processes"]
        return {
            stored.get(name, name.removeprefix("max_")): value for name, value in options.items()
        }


def serve_folder(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder of the models; created if it does not exist."
        ),
    ],
    *,
    listen: ListenOptions,
    logs: LogOptions,
    access: AccessOptions,
    limits: LimitOptions,
) -> None:
    """Serve the models of a folder over HTTP; an edit is acknowledged when it is on disk."""
    if listen.log_level not in ("info", "warning", "error"):
        raise UsageError(
            f"--log-level {listen.log_level!r} is not known: use info, warning or error."
        )
    if logs.replica and listen.workers:
        raise UsageError(
            "--replica and --workers: a replica is a worker by itself. Start several replicas."
        )
    from msgspec import convert

    from hammemo_server.http.server import ServerSettings, run

    options = {
        **asdict(listen),
        **asdict(access),
        "log": logs.log,
        "replica": logs.replica,
        "folder": folder,
        "upkeep": logs.upkeep,
        "limits": limits.limits,
        "question_processes": limits.question_processes,
    }
    plain = {
        name: str(value) if isinstance(value, Path) else value for name, value in options.items()
    }
    settings = convert(plain, ServerSettings)
    try:
        settings.check()
    except ValueError as error:
        raise UsageError(str(error)) from error
    run(settings)
