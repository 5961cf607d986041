"""What all operations share: models, callers, threads for what takes long, and ready versions.

Questions are answered from one version of a model and say which. A version is made ready once,
in a thread; then single rows are answered at once, and everything longer in a few threads, so
that the event loop is free for others.

Work of different length never shares threads: lists and figures wait for no question, short
questions for no file, and long questions have processes of their own
(:mod:`hammemo_server.http.long_questions`). In each, tenants take turns.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import tempfile
import time
from collections import defaultdict, deque
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from weakref import WeakKeyDictionary

from hammemo_server.edits.operations import NoSuchModel, TooMany, Unavailable
from hammemo_server.edits.quotas import most_allowed
from hammemo_server.http import metrics
from hammemo_server.http.admission import Admission, Rate, Strangers
from hammemo_server.http.answering import ReadyVersion
from hammemo_server.http.long_questions import InThreads, LongQuestions
from hammemo_server.http.messages import Answer, Refused, header, unless_gone
from hammemo_server.http.questions import list_names, with_lists
from hammemo_server.http.tenant_slots import SharedThreads
from hammemo_server.http.tokens import LOCAL_CALLER, Caller, Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from concurrent.futures import Future

    from hammemo_server.http.messages import Call, Scope
    from hammemo_server.models.host import Host
    from hammemo_server.models.served import ServedModel
    from hammemo_server.store.label_lists import NamedList

    Relay = Callable[[Call, float], Awaitable[Answer]]

Lane = Literal["lists", "short", "files"]
_THREADS: Final[dict[Lane, int]] = {"lists": 2, "short": 2, "files": 3}
"""Threads for lists and figures, for short questions, and for what reads or writes whole models
and long bodies.

Threads take turns at Python code, so more of them would not answer more, and the event loop
would wait for each.
"""
_TIMES_A_SECOND: Final = 1.0
"""Questions of one tenant that take some milliseconds, and are answered here."""
_KNOWN_SECONDS: Final = 0.2
"""How long aliases and named lists that other processes may change are taken as they were."""
_TRANSFER: Final = ".transfer-"
_LOOK: Final = 0.005
"""Seconds between two looks whether a version is reached."""

Result = TypeVar("Result")


class Results:
    """Hands results of other threads to an event loop: those of a group of edits by waking it once.

    `asyncio.wrap_future` wakes the loop for every result, which is a call of the system each time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_waking = False

    def of(self, future: Future[Result]) -> asyncio.Future[Result]:
        """Return the result of a future, to be awaited in the loop."""
        awaited: asyncio.Future[Result] = self.loop.create_future()
        future.add_done_callback(lambda done: self._wake(awaited, done))
        return awaited

    def _wake(self, awaited: asyncio.Future[Any], done: Future[Any]) -> None:
        self._done.append((awaited, done))
        if not self._is_waking:
            self._is_waking = True
            with suppress(RuntimeError):  # the loop was closed, so nothing waits
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_waking = False  # first: what is appended from now on wakes the loop again
        while self._done:
            awaited, done = self._done.popleft()
            if awaited.done():  # the request was cancelled
                continue
            error = done.exception()
            if error is None:
                awaited.set_result(done.result())
            else:
                awaited.set_exception(error)


class Service:
    """What all operations share.

    Parameters
    ----------
    host : Host
        The core: all models, and the limits.
    tokens : Tokens or None
        None for a server on a loopback address that belongs to one person.
    forward : function, optional
        In a process that only answers: sends an edit to the writer and returns its answer; the
        number is the most seconds to wait.
    long : LongQuestions, optional
        What answers long questions; by default threads of this process.
    """

    def __init__(
        self,
        host: Host,
        tokens: Tokens | None = None,
        forward: Relay | None = None,
        long: LongQuestions | None = None,
    ) -> None:
        self.host = host
        self.limits = host.limits
        self.tokens = tokens
        self.forward = forward
        self.draining = False
        self.admission = Admission(self.limits)
        self.metrics = metrics.Metrics(
            self._describe_models, self.quotas, lambda: self.admission.inside
        )
        self._local = LOCAL_CALLER
        self._strangers = Strangers()
        self._threads = {lane: SharedThreads(threads, lane) for lane, threads in _THREADS.items()}
        self._long: LongQuestions = InThreads(host) if long is None else long
        self._times: defaultdict[str, Rate] = defaultdict(lambda: Rate(_TIMES_A_SECOND))
        self._aliases: dict[str, tuple[float, dict[str, str]]] = {}
        self._sending = defaultdict[str, asyncio.Semaphore](
            lambda: asyncio.Semaphore(self.limits.lists_at_once)
        )
        self._ready: WeakKeyDictionary[ServedModel, tuple[int, asyncio.Future[ReadyVersion]]] = (
            WeakKeyDictionary()
        )
        self._results: Results | None = None

    def caller(self, scope: Scope) -> Caller:
        """Return who is asking, or refuse."""
        if self.tokens is None:
            return self._local
        authorization = (header(scope, b"authorization") or b"").split(b" ", 1)
        if len(authorization) == 2 and authorization[0].lower() == b"bearer":
            caller = self.tokens.caller(authorization[1].strip().decode("latin-1"))
            if caller is not None:
                return caller
        self.metrics.refused.inc()
        if not self._strangers.may_ask((scope.get("client") or ("", 0))[0]):
            raise TooMany(
                "Too many requests without a token that is known come from this address: "
                "try again later."
            )
        raise Refused(
            401, "unauthorised", "Send a token that is known: Authorization: Bearer hm_..."
        )

    async def in_thread(
        self, call: Call, work: Callable[[], Result], lane: Lane = "files"
    ) -> Result:
        """Do what takes long, or waits, in a thread."""
        return await self._threads[lane].run(call.caller.tenant, work)

    def may_take_time(self, call: Call) -> bool:
        """Return whether this process may spend some milliseconds on a question of this tenant."""
        return self._times[call.caller.tenant].take()

    async def long_answer(self, call: Call, ask: str) -> Answer:
        """Answer a long question, as long as its caller waits for the answer."""
        if self.forward is not None:
            return await self.forward(call, self.limits.deadline)
        hosted = await self.model(call)
        hosted.answering()  # refuses where nothing is learnt
        body, call.facts["version"] = await unless_gone(
            call, self._long.ask(hosted, ask, call.body)
        )
        return Answer(body)

    def result_of(self, future: Future[Result]) -> asyncio.Future[Result]:
        """Return the result of a writer's thread, to be awaited."""
        results = self._results
        loop = asyncio.get_running_loop()
        if results is None or results.loop is not loop:
            results = self._results = Results(loop)
        return results.of(future)

    async def model(self, call: Call) -> ServedModel:
        """Return the model that a call names."""
        tenant = call.caller.tenant
        name = call.model
        open_model = self.host.find_open(tenant, name)
        if open_model is not None:
            return open_model
        # it may have to be loaded
        return await self.in_thread(call, lambda: self.host.get(tenant, name))

    async def model_behind(self, call: Call, name: str) -> str:
        """Return the name of the model that answers questions to a name.

        Its own, or that behind an alias.
        """
        tenant = call.caller.tenant
        if self.host.find_open(tenant, name) is not None:
            return name
        read, aliases = self._aliases.get(tenant, (-math.inf, {}))
        if time.monotonic() - read > _KNOWN_SECONDS:
            with suppress(Unavailable):  # else what is known still holds
                aliases = await self.in_thread(call, lambda: self.host.aliases(tenant), "lists")
                self._aliases[tenant] = (time.monotonic(), aliases)
        return aliases.get(name, name)

    def forget_aliases(self, tenant: str) -> None:
        """Look at the aliases of a tenant again."""
        self._aliases.pop(tenant, None)

    async def with_lists(self, call: Call, question: Any, ready: ReadyVersion) -> Any:
        """Return a question with its named lists, which are ready for a version of a model."""
        lists: dict[str, NamedList] = {}
        for name in list_names(question).values():
            lists[name] = named = await self._get_list(call, name)
            if named.labels.get_cached(ready.labels) is None:
                await self.in_thread(call, partial(named.labels.among, ready.labels))
        return with_lists(question, lists.__getitem__) if lists else question

    async def _get_list(self, call: Call, name: str) -> NamedList:
        tenant = call.caller.tenant
        resident = self.host.find_list(tenant, name, _KNOWN_SECONDS)
        if resident is not None:
            return resident
        return await self.in_thread(call, lambda: self.host.get_list(tenant, name, _KNOWN_SECONDS))

    def sending_list(self, tenant: str) -> asyncio.Semaphore:
        """Return what is held while a list of a tenant is sent.

        Refuse it while as many others are as may be.
        """
        sending = self._sending[tenant]
        if sending.locked():
            raise TooMany("Other lists of this tenant are being sent: send this one after them.")
        return sending

    async def ready_version(self, call: Call, min_version: int | None) -> ReadyVersion:
        """Return the newest version of a model, ready for questions; not before `min_version`."""
        hosted = await self.model(call)
        if min_version is not None:
            await self._wait_for_version(hosted, min_version)
        model, version = hosted.answering(min_version)
        ready_number, preparing = self._ready.get(hosted, (-1, None))
        if (
            preparing is None
            or ready_number < version
            or preparing.get_loop() is not asyncio.get_running_loop()
        ):
            new = ReadyVersion(model, version, hosted.settings.column_names)
            preparing = asyncio.ensure_future(
                self._threads["short"].run(hosted.tenant, new.prepare)
            )
            # requests meanwhile wait for the same work
            self._ready[hosted] = (version, preparing)
        ready = preparing.result() if preparing.done() else await asyncio.shield(preparing)
        call.facts["version"] = ready.version
        return ready

    async def _wait_for_version(self, hosted: ServedModel, version: int) -> None:
        """Wait for a version as long as the limit says.

        A thread for each that waits could be too many.
        """
        until = time.monotonic() + self.limits.wait_seconds
        while hosted.version < version and time.monotonic() < until:
            await asyncio.sleep(_LOOK)

    def _describe_models(self, tenant: str) -> list[metrics.Described]:
        models: list[metrics.Described] = []
        for name in self.host.names(tenant):
            with suppress(NoSuchModel):  # removed meanwhile
                models.append((name, self._facts(tenant, name)))
        return models

    def _facts(self, tenant: str, name: str) -> dict[str, Any]:
        try:
            hosted = self.host.get(tenant, name)
            facts = {**hosted.describe(), "is_open": 1, "can_edit": int(hosted.can_edit)}
        except Unavailable:  # damaged, or in use elsewhere
            return {"is_open": 0, "can_edit": 0}
        at = facts["snapshot_time"]
        return facts if at is None else {**facts, "snapshot_age_seconds": time.time() - at}

    def quotas(self, tenant: str) -> dict[str, tuple[int, int]]:
        """Return how much a tenant stores and may store, of models, labels, examples and bytes.

        A limit of 0 is none.
        """
        quotas = {"models": (len(self.host.names(tenant)), self.limits.models)}
        usage = self.host.usage(tenant)
        limit = most_allowed(self.limits)
        for what, stored, allowed in zip(usage._fields, usage, limit, strict=True):
            quotas[what] = (stored, allowed)
        return quotas

    @asynccontextmanager
    async def transfer(self, call: Call) -> AsyncIterator[Path]:
        """Yield the path for a file on its way, in the folder of models: it is private, too."""
        make = partial(tempfile.mkdtemp, prefix=_TRANSFER, dir=self.host.folder)
        folder = Path(await self.in_thread(call, make))
        try:
            yield folder / "model"
        finally:
            await self.in_thread(call, partial(shutil.rmtree, folder, ignore_errors=True))

    def count_edit(self, call: Call, kind: str, status: str, **sizes: int) -> None:
        """Count one acknowledged edit, unless its model was deleted meanwhile."""
        tenant = call.caller.tenant
        model = call.model
        if self.host.find_open(tenant, model) is not None:
            self.metrics.count_edit(tenant, model, kind, status, **sizes)

    def remove_leftovers(self) -> None:
        """Remove uploads and downloads that a crash has left: they are too old to be under way."""
        for folder in self.host.folder.glob(f"{_TRANSFER}*"):
            with suppress(OSError):
                if folder.stat().st_mtime < time.time() - 2 * self.limits.file_seconds:
                    shutil.rmtree(folder, ignore_errors=True)

    async def end(self) -> None:
        """End what answers long questions, and the threads."""
        await self._long.end()
        for threads in self._threads.values():
            threads.close()
