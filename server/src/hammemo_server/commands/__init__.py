"""The server's commands of ``hammemo``.

The library finds them by the entry point ``hammemo.commands``.

Imports all of the server and of the library; nothing imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo_server.commands.audit import audit_folder
from hammemo_server.commands.backup import back_up_folder, restore_files
from hammemo_server.commands.send import erase_subject, send_files
from hammemo_server.commands.serve import serve_folder
from hammemo_server.commands.tokens import tokens

if TYPE_CHECKING:
    from hammemo.cli.commands import Commands


def add_commands(app: Commands, panel: str) -> None:
    """Add the server's commands to those of the library.

    Parameters
    ----------
    app : Commands
        All commands of ``hammemo``.
    panel : str
        The heading under which the help lists them.
    """
    for name, function, summary in (
        ("serve", serve_folder, "Serve models over HTTP; no acknowledged edit is lost."),
        ("send", send_files, "Let a served model learn tables, or remove their rows."),
        ("erase", erase_subject, "Erase a subject from a served model."),
        ("audit", audit_folder, "List the edits of served models, and check their chain."),
        ("backup", back_up_folder, "Back up served models while they are served."),
        ("restore", restore_files, "Restore served models; erased persons stay erased."),
    ):
        app.command(name, short_help=summary, rich_help_panel=panel)(function)
    app.add_typer(tokens, name="tokens", rich_help_panel=panel)
