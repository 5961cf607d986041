"""A tenant whose writer, disk or refit is held stops no other tenant and no probe, whatever it asks."""

from __future__ import annotations

import inspect
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import running_servers as serving
from hammemo import MemoryClassifier, save
from hammemo.client import Client
from hammemo.receipts.keys import new_key_file
from hammemo_server.edits.limits import Limits
from hammemo_server.http.app import OPERATIONS
from hammemo_server.models.writer import WrittenModel
from hammemo_server.store.sqlite_log import FolderStore, SqliteLog
from pace import patience, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from hammemo_server.models.host import Host

pytest.importorskip("cryptography")

ROW = {"rows": [["a"]]}
EXAMPLE = {**ROW, "labels": ["x"]}
TENSOR = {"inputs": [{"name": "rows", "shape": [1, 1], "datatype": "BYTES", "data": ["a"]}]}
ROUTES: dict[str, tuple[str, str, Any]] = {
    "list": ("GET", "/v1/models", None),
    "create": ("PUT", "/v1/models/new", {"columns": 1}),
    "describe": ("GET", "/v1/models/m", None),
    "learn": ("POST", "/v1/models/m/learn", {"op": "2", **EXAMPLE}),
    "forget": ("POST", "/v1/models/m/forget", {"op": "3", **EXAMPLE}),
    "apply": ("POST", "/v1/models/m/apply", {"op": "5", "learn": EXAMPLE}),
    "learn-stream": ("POST", "/v1/models/visits/learn-stream", {"op": "2", "documents": [["a", "b"]]}),
    "forget-stream": ("POST", "/v1/models/visits/forget-stream", {"op": "3", "documents": [["a", "b"]]}),
    "refit": ("POST", "/v1/models/m/refit", {"op": "4"}),
    "forget-subject": ("POST", "/v1/models/people/forget-subject", {"op": "2", "subject": "one"}),
    "predict": ("POST", "/v1/models/m/predict", ROW),
    "top-k": ("POST", "/v1/models/m/top-k", {**ROW, "k": 1, "allow": {"list": "l"}}),
    "probabilities": ("POST", "/v1/models/m/probabilities", ROW),
    "explain": ("POST", "/v1/models/m/explain", {**ROW, "k": 1}),
    "certify": ("POST", "/v1/models/m/certify", ROW),
    "v2-infer": ("POST", "/v2/models/m/infer", TENSOR),
    "v2-version-infer": ("POST", "/v2/models/m/versions/1/infer", TENSOR),
    "v2-model": ("GET", "/v2/models/m", None),
    "v2-model-ready": ("GET", "/v2/models/m/ready", None),
    "v2-version": ("GET", "/v2/models/m/versions/1", None),
    "v2-version-ready": ("GET", "/v2/models/m/versions/1/ready", None),
    "aliases": ("GET", "/v1/aliases", None),
    "set-alias": ("PUT", "/v1/aliases/live", {"model": "visits"}),
    "delete-alias": ("DELETE", "/v1/aliases/live", None),
    "lists": ("GET", "/v1/lists", None),
    "read-list": ("GET", "/v1/lists/l", None),
    "set-list": ("PUT", "/v1/lists/l", {"items": ["x"]}),
    "delete-list": ("DELETE", "/v1/lists/l", None),
    "snapshot": ("POST", "/v1/models/m/snapshot", None),
    "upload": ("PUT", "/v1/models/sent/file", b"model"),
    "download": ("GET", "/v1/models/m/file", None),
    "audit": ("GET", "/v1/models/m/audit", None),
    "metrics": ("GET", "/metrics", None),
    "openapi": ("GET", "/openapi.json", None),
    "docs": ("GET", "/docs", None),
    "delete": ("DELETE", "/v1/models/m", None),  # last: afterwards the model has to be opened, which fails
}


def test_all_routes_of_tenants_are_asked() -> None:
    assert set(ROUTES) == {operation.ask for operation in OPERATIONS if operation.role is not None}


class Held:
    """Stops tenant a where `wait` is called, until the event is set."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.reached.set()
        self.go_on.wait()

    def before(self, function: Callable[..., Any], is_held: Callable[..., bool]) -> Callable[..., Any]:
        """Return the function, which waits first where `is_held` says so of what it is given."""

        def held(*given: Any, **named: Any) -> Any:
            if is_held(*given):
                self.wait()
            return function(*given, **named)

        return held


def hold_writer(held: Held, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WrittenModel, "_commit", held.before(WrittenModel._commit, lambda model, _: model.tenant == "a"))


def hold_refit(held: Held, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryClassifier, "refit", held.before(MemoryClassifier.refit, lambda *_: True))


def hold_disk(held: Held, patch: pytest.MonkeyPatch) -> None:
    """Let everything that tenant a reads or writes wait, files on their way and the token file."""
    for name, function in inspect.getmembers(FolderStore, inspect.isfunction):
        if next(iter([*inspect.signature(function).parameters][1:]), "") == "tenant":
            patch.setattr(FolderStore, name, held.before(function, lambda _, tenant, *rest: tenant == "a"))
    for name, function in inspect.getmembers(SqliteLog, inspect.isfunction):
        if not name.startswith("_"):
            of_a: Callable[..., bool] = lambda log, *_: log.folder.parent.name == "a"  # noqa: E731
            patch.setattr(SqliteLog, name, held.before(function, of_a))
    patch.setattr(tempfile, "mkdtemp", held.before(tempfile.mkdtemp, lambda *_: True))
    from hammemo_server.http import tokens

    patch.setattr(tokens, "_content_of", held.before(tokens._content_of, lambda *_: True))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    found = Held()
    yield found
    found.go_on.set()


def ask(http: httpx.Client, route: tuple[str, str, Any]) -> int:
    method, path, body = route
    sent: Any = {"content": body, "headers": {"content-type": "application/octet-stream"}}
    if not isinstance(body, bytes):
        sent = {} if body is None else {"json": body}
    return http.request(method, path, **sent).status_code


def make_models(host: Host, client: Client, other: Client) -> None:
    """Make what the routes name: for tenant a a model of rows, one of documents and one with subjects."""
    for one in (client, other):
        one.create("m", columns=1)
        one.learn("m", [["a"]] * 3, ["x"] * 3)
    client.create("visits", documents={"h": 1, "short": "pad"})
    client.learn_stream("visits", [["a", "b"]] * 2)
    client.create("people", columns=1, subjects="required")
    client.learn("people", [["a"]], ["x"], subjects=["one"])
    client.set_list("l", ["x"])
    assert {model.tenant for model in host.open_models()} == {"a", "b"}


def authorization(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def check_others(client: Client, probing: httpx.Client, turn: int) -> None:
    """Let tenant b and the probes ask; each of these returns only if nothing waits for tenant a."""
    assert client.predict("m", [["a"]]) == ["x"]
    assert client.learn("m", [["a"]], ["x"]).status == "applied"
    assert "m" in client.models()
    assert client.describe("m")["examples"] == 4 + turn
    assert client.top_k("m", [["a"]], 1) == [["x"]]
    client.create("more", columns=1)
    client.set_list("l", ["x"])
    client.delete("more")
    for path in ("/v2/health/live", "/v2/health/ready", "/readyz", "/readyz/edits", "/metrics"):
        assert probing.get(path).status_code == 200, path


@pytest.mark.parametrize("hold", [hold_writer, hold_disk, hold_refit])
def test_no_route_of_a_tenant_stops_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: Held, hold: Callable[[Held, pytest.MonkeyPatch], None]
) -> None:
    tokens = serving.token_file(tmp_path / "tokens.json", a=(), b=())
    new_key_file(tmp_path / "keys.json")
    save(MemoryClassifier().fit([["a"]], ["x"]), tmp_path / "file")
    routes = {**ROUTES, "upload": ("PUT", "/v1/models/sent/file", (tmp_path / "file").read_bytes())}
    limits = Limits(deadline=600.0, wait_seconds=600.0)
    with (
        serving.in_thread(tmp_path / "models", tmp_path / "tokens.json", limits, tmp_path / "keys.json") as server,
        Client(server.url, tokens["a"]) as own,
        Client(server.url, tokens["b"]) as other,
        httpx.Client(base_url=server.url, headers=authorization(tokens["a"]), timeout=600) as http,
        httpx.Client(base_url=server.url, headers=authorization(tokens["b"]), timeout=patience(60)) as probing,
        ThreadPoolExecutor(64) as threads,
    ):
        make_models(server.service.host, own, other)

        def send(*asks: str) -> list[Future[int]]:
            return [threads.submit(ask, http, routes[name]) for name in asks]

        try:
            hold(held, monkeypatch)
            sent = send("refit")
            assert held.reached.wait(patience(60))
            sent += send(*list(routes)[:-1])
            check_others(other, probing, 0)
            sent += send("delete")
            if hold is not hold_disk:  # there it waits before it begins
                assert wait_until(lambda: ("a", "m") not in server.service.host._models, 60)
            sent += send("predict", "describe", "create", "delete", "learn")
            check_others(other, probing, 1)
            assert not held.go_on.is_set()
        finally:
            held.go_on.set()
        monkeypatch.undo()
        # 503: an edit that came while its model was being deleted
        assert not {answer.result() for answer in sent} - {200, 201, 404, 409, 422, 503}
