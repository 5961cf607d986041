"""``hammemo serve``: serve models over HTTP without losing an acknowledged edit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated

import typer

from hammemo.cli.console import UsageError, one_line_errors

if TYPE_CHECKING:
    from hammemo_server.http.server import ServerSettings

_SAFE, _LIMITS = "Access and encryption", "Limits"


@dataclass(frozen=True)
class ListenOptions:
    """Where the server listens, and in how many processes."""

    port: Annotated[int, typer.Option(min=0, metavar="N", help="The port to listen on; 0 for any free port.")] = 8080
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on; other machines need the options below.")
    ] = "127.0.0.1"
    health_port: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Answer health and metrics on a separate port, too."),
    ] = None
    workers: Annotated[int, typer.Option(min=0, metavar="N", help="Additional processes that only answer.")] = 0
    log_level: Annotated[str, typer.Option(metavar="NAME", help="info (one line per request), warning or error.")] = (
        "info"
    )


@dataclass(frozen=True)
class AccessOptions:
    """Who may call the server, and how connections are encrypted."""

    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Access tokens and their roles; `hammemo tokens add` writes it. It is read again when it changes.",
            rich_help_panel=_SAFE,
        ),
    ] = None
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A certificate, PEM.", rich_help_panel=_SAFE)
    ] = None
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key, PEM.", rich_help_panel=_SAFE)] = None
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy", help="A proxy in front of the server encrypts connections.", rich_help_panel=_SAFE
        ),
    ] = False
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Trust X-Forwarded-For from this proxy, an address or a network (repeatable).",
            rich_help_panel=_SAFE,
        ),
    ] = None
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name that clients use (repeatable).", rich_help_panel=_SAFE),
    ] = None
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The keys of models with subjects; `hammemo keys new` writes it. Keep it on another disk than DIR.",
            rich_help_panel=_SAFE,
        ),
    ] = None


@dataclass(frozen=True)
class LogOptions:
    """Where edits are logged, and how long."""

    log: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Keep the log in a PostgreSQL server: postgresql://… (or the variable HAMMEMO_LOG).",
            envvar="HAMMEMO_LOG",
            show_envvar=False,
            show_default="SQLite beside each model",
        ),
    ] = None
    replica: Annotated[bool, typer.Option("--replica", help="Only answer; another node writes the log of --log.")] = (
        False
    )
    snapshot_seconds: Annotated[
        float,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Write a snapshot at most this long after an edit; then the log drops its examples.",
        ),
    ] = 300
    retry_days: Annotated[
        float, typer.Option(min=0, metavar="DAYS", help="How long a repeated edit is recognised.")
    ] = 7
    audit_days: Annotated[
        float, typer.Option(min=1, metavar="DAYS", help="How long the audit record keeps a line.")
    ] = 1095

    @property
    def upkeep(self) -> dict[str, float]:
        """The settings of the upkeep of logs, in seconds."""
        days = 86_400
        return {
            "snapshot_seconds": self.snapshot_seconds,
            "retention": self.retry_days * days,
            "audit": self.audit_days * days,
        }


@dataclass(frozen=True)
class LimitOptions:
    """What a tenant or an address may use."""

    rate: Annotated[
        float,
        typer.Option(min=0.1, metavar="N", help="Requests per second and tenant.", rich_help_panel=_LIMITS),
    ] = 10_000
    max_body: Annotated[
        int, typer.Option(min=1024, metavar="BYTES", help="The largest JSON body.", rich_help_panel=_LIMITS)
    ] = 4 * 2**20
    max_file: Annotated[
        int, typer.Option(min=1024, metavar="BYTES", help="The largest model file.", rich_help_panel=_LIMITS)
    ] = 2**30
    max_models: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of models per tenant.", rich_help_panel=_LIMITS)
    ] = 256
    max_labels: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Maximum number of labels per tenant; 0 for any.", rich_help_panel=_LIMITS
        ),
    ] = 1_000_000
    max_examples: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Maximum number of examples per tenant; 0 for any.", rich_help_panel=_LIMITS
        ),
    ] = 20_000_000
    max_stored: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="BYTES",
            help="Maximum size of models and lists per tenant, on disk and in memory; 0 for any.",
            rich_help_panel=_LIMITS,
        ),
    ] = 2 * 2**30
    deadline: Annotated[
        float,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="Answer 504 after this time; edits continue, and have longer.",
            rich_help_panel=_LIMITS,
        ),
    ] = 10
    question_processes: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Processes for long queries, started when needed; 0 answers them in threads of the server.",
            rich_help_panel=_LIMITS,
        ),
    ] = 2
    address_connections: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Connections per address; behind a trusted proxy, simultaneous requests per address.",
            rich_help_panel=_LIMITS,
        ),
    ] = 256

    @property
    def limits(self) -> dict[str, float]:
        """The limits by the names that the server gives them."""
        return {
            "rate": self.rate,
            "body": self.max_body,
            "file": self.max_file,
            "models": self.max_models,
            "deadline": self.deadline,
            "address_connections": self.address_connections,
            "stored_labels": self.max_labels,
            "stored_examples": self.max_examples,
            "stored_bytes": self.max_stored,
        }


def serve_folder(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the models; created if it does not exist.")
    ],
    *,
    listen: ListenOptions,
    logs: LogOptions,
    access: AccessOptions,
    limits: LimitOptions,
) -> None:
    """Serve the models of a folder over HTTP; an edit is acknowledged when it is on disk."""
    with one_line_errors():
        if listen.log_level not in ("info", "warning", "error"):
            raise UsageError(f"--log-level {listen.log_level!r} is not known: use info, warning or error.")
        if logs.replica and listen.workers:
            raise UsageError("--replica and --workers: a replica is a worker by itself. Start several replicas.")
        from hammemo_server.http.server import run

        settings = _settings(folder, listen, logs, access, limits)
        try:
            settings.check()
        except ValueError as error:
            raise UsageError(str(error)) from error
        run(settings)


def _settings(
    folder: Path, listen: ListenOptions, logs: LogOptions, access: AccessOptions, limits: LimitOptions
) -> ServerSettings:
    from hammemo_server.http.server import ServerSettings

    return ServerSettings(
        str(folder),
        host=listen.host,
        port=listen.port,
        health_port=listen.health_port,
        workers=listen.workers,
        level=listen.log_level,
        log=logs.log,
        replica=logs.replica,
        upkeep=logs.upkeep,
        token_file=_text(access.token_file),
        tls_cert=_text(access.tls_cert),
        tls_key=_text(access.tls_key),
        keys=_text(access.keys),
        behind_proxy=access.behind_proxy,
        trusted_proxies=tuple(access.trusted_proxy or ()),
        allowed_hosts=tuple(access.allow_host or ()),
        limits=limits.limits,
        question_processes=limits.question_processes,
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
