"""Lines of JSON on standard error: what happened, never with what content.

A line has the time, a level, an event and a few facts. No fact is a token, a label, a body, a
query string or a message of an error, because each of these may repeat an example. What goes
wrong inside is told by the type of the error and the places in the code.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from typing import Any, Final

LOGGER: Final = "hammemo.serve"
CORE: Final = "hammemo_server"
"""The log of models, their writers and stores."""
NOTICE: Final = 60
"""What is always said: where the server listens."""
logging.addLevelName(NOTICE, "NOTICE")


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = getattr(record, "facts", {})
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "pid": record.process,
            "event": record.msg if record.name == LOGGER else "server",
            **facts,
        }
        if record.name == CORE:  # its messages hold no example
            model_facts = {
                name: getattr(record, name)
                for name in ("tenant", "model", "version")
                if hasattr(record, name)
            }
            line |= {"event": "core", "text": record.getMessage(), **model_facts}
        elif record.name != LOGGER:  # of uvicorn: its constant text, without what is put into it
            line["text"] = record.msg
        return json.dumps(line)


class _StandardError(logging.Handler):
    """Writes to what standard error is now, which may be another one than at the beginning."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def begin(level: str) -> None:
    """Write lines of our own logs, and of uvicorn's errors, to standard error."""
    handler = _StandardError()
    handler.setFormatter(_Lines())
    for name in (LOGGER, CORE, "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel("WARNING" if name == "uvicorn.error" else level.upper())


def places(error: BaseException) -> list[str]:
    """Return where an error came from: files and lines, without any value.

    Examples
    --------
    >>> from hammemo_server.http.logs import places
    >>> try:
    ...     int("a secret")
    ... except ValueError as error:
    ...     "secret" in str(places(error))
    False
    """
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in frames]
