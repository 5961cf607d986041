"""``hammemo serve``: serve models over HTTP without losing an acknowledged edit."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import Annotated

import typer

from hammemo.cli.console import UsageError, one_line_errors

_SAFE, _LIMITS = "Access and encryption", "Limits"


def serve_folder(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the models; created if it does not exist.")
    ],
    port: Annotated[int, typer.Option(min=0, metavar="N", help="The port to listen on; 0 for any free port.")] = 8080,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on; other machines need the options below.")
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Access tokens and their roles; `hammemo tokens add` writes it. It is read again when it changes.",
            rich_help_panel=_SAFE,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A certificate, PEM.", rich_help_panel=_SAFE)
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key, PEM.", rich_help_panel=_SAFE)] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy", help="A proxy in front of the server encrypts connections.", rich_help_panel=_SAFE
        ),
    ] = False,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Trust X-Forwarded-For from this proxy, an address or a network (repeatable).",
            rich_help_panel=_SAFE,
        ),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Answer health and metrics on a separate port, too."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name that clients use (repeatable).", rich_help_panel=_SAFE),
    ] = None,
    workers: Annotated[int, typer.Option(min=0, metavar="N", help="Additional processes that only answer.")] = 0,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Keep the log in a PostgreSQL server: postgresql://… (or the variable HAMMEMO_LOG).",
            envvar="HAMMEMO_LOG",
            show_envvar=False,
            show_default="SQLite beside each model",
        ),
    ] = None,
    replica: Annotated[
        bool, typer.Option("--replica", help="Only answer; another node writes the log of --log.")
    ] = False,
    snapshot_seconds: Annotated[
        float,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Write a snapshot at most this long after an edit; then the log drops its examples.",
        ),
    ] = 300,
    retry_days: Annotated[
        float, typer.Option(min=0, metavar="DAYS", help="How long a repeated edit is recognised.")
    ] = 7,
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The keys of models with subjects; `hammemo keys new` writes it. Keep it on another disk than DIR.",
            rich_help_panel=_SAFE,
        ),
    ] = None,
    audit_days: Annotated[
        float, typer.Option(min=1, metavar="DAYS", help="How long the audit record keeps a line.")
    ] = 1095,
    rate: Annotated[
        float,
        typer.Option(min=0.1, metavar="N", help="Requests per second and tenant.", rich_help_panel=_LIMITS),
    ] = 10_000,
    max_body: Annotated[
        int, typer.Option(min=1024, metavar="BYTES", help="The largest JSON body.", rich_help_panel=_LIMITS)
    ] = 4 * 2**20,
    max_file: Annotated[
        int, typer.Option(min=1024, metavar="BYTES", help="The largest model file.", rich_help_panel=_LIMITS)
    ] = 2**30,
    max_models: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of models per tenant.", rich_help_panel=_LIMITS)
    ] = 256,
    max_labels: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Maximum number of labels per tenant; 0 for any.", rich_help_panel=_LIMITS
        ),
    ] = 0,
    max_examples: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Maximum number of examples per tenant; 0 for any.", rich_help_panel=_LIMITS
        ),
    ] = 0,
    max_stored: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="BYTES",
            help="Maximum size of snapshots and logs per tenant; 0 for any.",
            rich_help_panel=_LIMITS,
        ),
    ] = 0,
    deadline: Annotated[
        float,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="Answer 504 after this time; edits continue, and have longer.",
            rich_help_panel=_LIMITS,
        ),
    ] = 10,
    question_processes: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Processes for long queries, started when needed; 0 answers them in threads of the server.",
            rich_help_panel=_LIMITS,
        ),
    ] = 2,
    address_connections: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Connections per address; behind a trusted proxy, simultaneous requests per address.",
            rich_help_panel=_LIMITS,
        ),
    ] = 256,
    log_level: Annotated[
        str, typer.Option(metavar="NAME", help="info (one line per request), warning or error.")
    ] = "info",
) -> None:
    """Serve the models of a folder over HTTP; an edit is acknowledged when it is on disk."""
    with one_line_errors():
        if log_level not in ("info", "warning", "error"):
            raise UsageError(f"--log-level {log_level!r} is not known: use info, warning or error.")
        if replica and workers:
            raise UsageError("--replica and --workers: a replica is a worker by itself. Start several replicas.")
        from hammemo_server.http.server import ServerSettings, run

        settings = ServerSettings(
            str(folder),
            host,
            port,
            None if token_file is None else str(token_file),
            log,
            workers,
            replica,
            None if tls_cert is None else str(tls_cert),
            None if tls_key is None else str(tls_key),
            behind_proxy,
            tuple(allow_host or ()),
            log_level,
            {
                "rate": rate,
                "body": max_body,
                "file": max_file,
                "models": max_models,
                "deadline": deadline,
                "address_connections": address_connections,
                "stored_labels": max_labels,
                "stored_examples": max_examples,
                "stored_bytes": max_stored,
            },
            {"snapshot_seconds": snapshot_seconds, "retention": retry_days * 86_400, "audit": audit_days * 86_400},
            None if keys is None else str(keys),
            question_processes,
            tuple(trusted_proxy or ()),
            health_port,
        )
        try:
            settings.check()
        except ValueError as error:
            raise UsageError(str(error)) from error
        run(settings)
