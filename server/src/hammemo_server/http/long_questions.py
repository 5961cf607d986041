"""Long questions, answered where nothing waits for them: in processes, or in a few threads.

An answer with many rows is made by Python code for seconds, and threads of one process take
turns at that. Long questions go to other processes, which run this module. They are started
when they are first needed and end after a while without questions, or with their standard
input, from which they read questions. Such a process never writes. It follows the log as a
worker does: it opens a model when it is first asked, and answers when it has reached the
version that the server has published, so no answer is older than an acknowledged edit. It costs
a copy of each model that is queried.

Tenants share the processes (:mod:`hammemo_server.http.tenant_slots`). A question that is no
longer wanted is stopped between two blocks of rows, and the process goes on to the next one.
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import msgspec

from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import NoSuchModel, ServiceError, Unavailable
from hammemo_server.http import logs
from hammemo_server.http.messages import Failed, Refused, code_of
from hammemo_server.http.questions import KINDS, Stopping, answer_long
from hammemo_server.http.tenant_slots import SharedThreads, Shares
from hammemo_server.models.host import Host

if TYPE_CHECKING:
    from hammemo_server.models.served import ServedModel

_IDLE_SECONDS: Final = 300.0
"""How long a process waits for another question before it ends."""
_STUCK_SECONDS: Final = 60.0
"""How long a process that was told to stop may take before it is killed: it may have to load a
model first."""
_BUFFER: Final = 2**20
_LENGTH: Final = 4
"""Bytes of the length of a message; a message without bytes stops the question before."""
_NICENESS: Final = 10
"""Where processors are scarce, the server comes first."""
_LOOK: Final = 0.02


class Asked(msgspec.Struct, frozen=True):
    """A question."""

    ask: str
    tenant: str
    model: str
    identity: str
    at_least: int
    seconds: float
    body: bytes


class Answered(msgspec.Struct, frozen=True):
    """An answer. One with a code is a refusal."""

    version: int = 0
    body: bytes = b""
    status: int = 200
    code: str = ""
    message: str = ""
    places: list[str] = []
    """Where in the code an error was, for the log."""


class InThreads:
    """Answers long questions in threads of this process; other threads are slower meanwhile."""

    def __init__(self, host: Host, threads: int = 2) -> None:
        self._host = host
        self._threads = SharedThreads(threads, "long")

    async def ask(self, hosted: ServedModel, ask: str, body: bytes) -> tuple[bytes, int]:
        """Return an answer, and the version that gave it."""
        deadline = self._host.limits.deadline
        stop = Stopping(deadline)
        work = partial(
            answer_long,
            self._host,
            hosted,
            KINDS[ask],
            body,
            at_least=hosted.version,
            stop=stop,
        )
        try:
            return await self._threads.run(hosted.tenant, work, most_seconds=deadline / 2)
        finally:
            stop.now()

    async def end(self) -> None:
        """End the threads."""
        self._threads.close()


class InProcesses:
    """Answers long questions in other processes.

    Parameters
    ----------
    processes : int
        The most processes, one question each.
    limits : Limits
    settings : dict
        What a process needs to open the models: folder, log, keys and limits.
    """

    def __init__(self, processes: int, limits: Limits, settings: dict[str, Any]) -> None:
        self._limits = limits
        self._given = msgspec.json.encode(settings)
        self._shares = Shares(processes)
        self._idle: dict[_Process, asyncio.TimerHandle] = {}
        """Processes that wait for a question, and what ends each if none comes."""
        self._all: set[_Process] = set()

    async def ask(self, hosted: ServedModel, ask: str, body: bytes) -> tuple[bytes, int]:
        """Return an answer, and the version that gave it."""
        tenant = hosted.tenant
        await self._shares.enter_within(tenant, self._limits.deadline / 2)
        question = Asked(
            ask=ask,
            tenant=tenant,
            model=hosted.name,
            identity=hosted.identity,
            at_least=hosted.version,
            seconds=self._limits.deadline,
            body=body,
        )
        stop = asyncio.Event()
        asking = asyncio.ensure_future(self._ask(question, stop))
        asking.add_done_callback(lambda _: self._shares.leave(tenant))
        try:
            answered = await asyncio.shield(asking)
        finally:
            stop.set()
        if answered.places:
            raise Failed(answered.code, answered.places)
        if answered.code:
            raise Refused(answered.status, answered.code, answered.message)
        return answered.body, answered.version

    async def _ask(self, question: Asked, stop: asyncio.Event) -> Answered:
        if self._idle:
            process, retiring = self._idle.popitem()
            retiring.cancel()
        else:
            process = _Process()
        self._all.add(process)
        try:
            answer = await process.ask(self._given, question, stop)
        except (OSError, EOFError, TimeoutError):  # killed, or out of memory
            self._all.discard(process)
            await process.end()
            raise Unavailable("The process that was to answer has ended: ask again.") from None
        self._idle[process] = asyncio.get_running_loop().call_later(
            _IDLE_SECONDS, self._retire, process
        )
        return answer

    def _retire(self, process: _Process) -> None:
        del self._idle[process]
        self._all.discard(process)
        process.close()

    async def end(self) -> None:
        """End the processes."""
        for retiring in self._idle.values():
            retiring.cancel()
        await asyncio.gather(*(process.end() for process in self._all))


class _Process:
    """One process, which answers one question at a time."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, settings: bytes, question: Asked, stop: asyncio.Event) -> Answered:
        """Return the answer to a question, or a refusal soon after `stop` is set."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "hammemo_server.http.long_questions",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                limit=_BUFFER,
            )
            await self._send(settings)
        await self._send(msgspec.msgpack.encode(question))
        reading = asyncio.ensure_future(self._receive())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await self._send(b"")
            async with asyncio.timeout(_STUCK_SECONDS):
                return await reading
        finally:
            reading.cancel()
            stopping.cancel()

    async def _send(self, message: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(len(message).to_bytes(_LENGTH, "big") + message)
        await self._process.stdin.drain()

    async def _receive(self) -> Answered:
        assert self._process is not None
        assert self._process.stdout is not None
        length = int.from_bytes(await self._process.stdout.readexactly(_LENGTH), "big")
        return msgspec.msgpack.decode(await self._process.stdout.readexactly(length), type=Answered)

    def close(self) -> None:
        """Let it end by itself."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def end(self) -> None:
        """End it now; it holds nothing that could be lost."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()


LongQuestions: TypeAlias = InThreads | InProcesses
"""What answers long questions."""


# In a process


def main() -> None:
    """Answer until standard input ends: what a process does."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # a signal to the whole group: the server says when
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a library prints is no answer
        if hasattr(os, "nice"):
            os.nice(_NICENESS)
        first = _message(sys.stdin.buffer)
        if first is not None:
            _answer_all(msgspec.json.decode(first), answers)


def _answer_all(settings: dict[str, Any], answers: BinaryIO) -> None:
    logs.begin(settings["log_level"])
    limits = Limits(**settings["limits"])
    questions: queue.SimpleQueue[tuple[Asked, Stopping] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(questions,), daemon=True).start()
    with Host(
        settings["folder"], settings["log"], replica=True, limits=limits, keys=settings["keys"]
    ) as host:
        while (question := questions.get()) is not None:
            answered = msgspec.msgpack.encode(_answer(host, *question))
            answers.write(len(answered).to_bytes(_LENGTH, "big") + answered)
            answers.flush()


def _read(questions: queue.SimpleQueue[tuple[Asked, Stopping] | None]) -> None:
    """Hand over questions; stop the last one when it is no longer wanted."""
    stop = Stopping(0)
    while (message := _message(sys.stdin.buffer)) is not None:
        if message:
            question = msgspec.msgpack.decode(message, type=Asked)
            stop = Stopping(question.seconds)
            questions.put((question, stop))
        else:
            stop.now()
    stop.now()
    questions.put(None)


def _message(source: BinaryIO) -> bytes | None:
    """Return the next message; None at the end."""
    length = source.read(_LENGTH)
    return source.read(int.from_bytes(length, "big")) if len(length) == _LENGTH else None


def _answer(host: Host, question: Asked, stop: Stopping) -> Answered:
    try:
        hosted = _model(host, question, stop)
        body, version = answer_long(
            host,
            hosted,
            KINDS[question.ask],
            question.body,
            at_least=question.at_least,
            stop=stop,
        )
        return Answered(version, body)
    except ServiceError as error:
        return Answered(status=error.status, code=code_of(error), message=str(error))
    except Exception as error:
        return Answered(status=500, code=type(error).__name__, places=logs.places(error))


def _model(host: Host, question: Asked, stop: Stopping) -> ServedModel:
    """Return the model that was asked about; one of its name that was deleted is another one."""
    while True:
        hosted = host.get(question.tenant, question.model)
        if hosted.identity == question.identity:
            return hosted
        if not stop.left:
            raise NoSuchModel(f"There is no model {question.model!r}.")
        time.sleep(_LOOK)


if __name__ == "__main__":
    main()
