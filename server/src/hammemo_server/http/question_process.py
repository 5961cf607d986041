"""A process that answers long questions; the server starts it, and sends questions to its standard input.

It follows the log of each model that it gets questions about and never writes. It ends with its standard input.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import NoSuchModel, ServiceError
from hammemo_server.http import logs
from hammemo_server.http.long_questions import LENGTH, Answered, Asked
from hammemo_server.http.messages import code_of
from hammemo_server.http.questions import KINDS, Stopping, answer_long
from hammemo_server.models.host import Host

if TYPE_CHECKING:
    from hammemo_server.models.served import ServedModel

_NICENESS = 10
"""Where processors are scarce, the server comes first."""
_LOOK = 0.02


def main() -> None:
    """Answer until standard input ends."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # a signal to the whole group: the server says when
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a library prints is no answer
        if hasattr(os, "nice"):
            os.nice(_NICENESS)
        first = _message(sys.stdin.buffer)
        if first is not None:
            _answer_all(msgspec.json.decode(first), answers)


def _answer_all(given: dict[str, Any], answers: BinaryIO) -> None:
    logs.begin(given["log_level"])
    limits = Limits(**given["limits"])
    asked: queue.SimpleQueue[tuple[Asked, Stopping] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked,), daemon=True).start()
    with Host(given["folder"], given["log"], replica=True, limits=limits, keys=given["keys"]) as host:
        while (question := asked.get()) is not None:
            answered = msgspec.msgpack.encode(_answered(host, *question))
            answers.write(len(answered).to_bytes(LENGTH, "big") + answered)
            answers.flush()


def _read(asked: queue.SimpleQueue[tuple[Asked, Stopping] | None]) -> None:
    """Hand over questions; stop the last one when it is no longer wanted."""
    stop = Stopping(0)
    while (found := _message(sys.stdin.buffer)) is not None:
        if found:
            question = msgspec.msgpack.decode(found, type=Asked)
            stop = Stopping(question.seconds)
            asked.put((question, stop))
        else:
            stop.now()
    stop.now()
    asked.put(None)


def _message(source: BinaryIO) -> bytes | None:
    """Return the next message; None at the end."""
    length = source.read(LENGTH)
    return source.read(int.from_bytes(length, "big")) if len(length) == LENGTH else None


def _answered(host: Host, asked: Asked, stop: Stopping) -> Answered:
    try:
        hosted = _model(host, asked, stop)
        found, version = answer_long(host, hosted, KINDS[asked.ask], asked.body, asked.at_least, stop)
        return Answered(version, found)
    except ServiceError as error:
        return Answered(status=error.status, code=code_of(error), message=str(error))
    except Exception as error:
        return Answered(status=500, code=type(error).__name__, places=logs.places(error))


def _model(host: Host, asked: Asked, stop: Stopping) -> ServedModel:
    """Return the model that was asked about; one of its name that was deleted is another one."""
    while True:
        hosted = host.get(asked.tenant, asked.model)
        if hosted.identity == asked.identity:
            return hosted
        if not stop.left:
            raise NoSuchModel(f"There is no model {asked.model!r}.")
        time.sleep(_LOOK)


if __name__ == "__main__":
    main()
