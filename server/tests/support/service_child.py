"""A process with a served model and its clients, made to be killed.

``main(FOLDER, LOG, SNAPSHOT_EDITS, *NEXT)``: client k begins with edit NEXT[k]. Standard output
has one line for each thing that happened, written at once: ``ready VERSION``, ``ack CLIENT NUMBER
VERSION``, ``wrong …``, ``snapshot begin|saved|end``. A client sends its next edit when the last one
is acknowledged, and asks for one acknowledgement in ten again. What is not acknowledged when the
process is killed is sent again by the next process.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from hammemo_server.edits.operations import NotStored, ServiceError
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep
from hammemo_server.store import postgres_log, sqlite_log
from service_history import SETTINGS, edit_of, is_refused

if TYPE_CHECKING:
    from hammemo_server.models.served import ServedModel


def say(*words: object) -> None:
    """Write a line whole: it survives this process."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def mark_snapshots() -> None:
    """Say when a snapshot begins, when its file is there, and when all is done."""
    writers: list[tuple[Any, Any, str]] = [
        (sqlite_log, sqlite_log.SqliteLog, "save"),
        (postgres_log, postgres_log.PostgresLog, "file_bytes"),
    ]
    for module, cls, name in writers:
        keep = cls.keep_snapshot
        save = getattr(module, name)

        def keep_and_say(log: Any, *arguments: Any, keep: Any = keep) -> None:
            say("snapshot begin")
            keep(log, *arguments)
            say("snapshot end")

        def save_and_say(*arguments: Any, save: Any = save, **options: Any) -> Any:
            result = save(*arguments, **options)
            say("snapshot saved")
            return result

        cls.keep_snapshot = keep_and_say
        setattr(module, name, save_and_say)


def send(model: ServedModel, client: int, number: int) -> None:
    """Send the edits of one client until the process ends."""
    while True:
        edit = edit_of(client, number)
        try:
            acknowledgement = model.edit(edit).result()
            if is_refused(number):
                say("wrong", client, number, "was not refused")
            if number % 10 == 0:
                again = model.edit(edit).result()
                if (again.version, again.status) != (acknowledgement.version, "repeated"):
                    say("wrong", client, number, "was applied again")
            say("ack", client, number, acknowledgement.version)
        except NotStored:
            if not is_refused(number):
                say("wrong", client, number, "was refused")
            say("ack", client, number, 0)
        except ServiceError as error:  # the log is gone, or the disk is full: the same edit again
            say("unavailable", error.status)
            threading.Event().wait(0.05)
            continue
        number += 1


def main(folder: str, log: str, snapshot_edits: str, *first: str) -> None:
    """Serve and send."""
    mark_snapshots()
    address = None if log == "sqlite" else log
    host = Host(folder, address, upkeep=Upkeep(snapshot_edits=int(snapshot_edits)))
    model = host.create("t", "m", SETTINGS)
    say("ready", model.version)
    for client, number in enumerate(first):
        threading.Thread(target=send, args=(model, client, int(number)), daemon=True).start()
    threading.Event().wait()
