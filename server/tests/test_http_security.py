"""Who may call: tenants, roles, hosts, other sites, tokens; and how much: sizes, rates, slow and silent callers."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import running_servers as serving
from hammemo import MemoryClassifier, save
from hammemo.client import Client, ServerError
from hammemo_server.edits.limits import Limits
from hammemo_server.http.app import OPERATIONS
from hammemo_server.http.server import ServerSettings, listen
from hammemo_server.http.tokens import ROLES, Tokens, new_token, read_entries, write_entries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JSON = {"content-type": "application/json"}
TENSORS = {"inputs": [{"name": "rows", "shape": [1, 1], "datatype": "BYTES", "data": ["a"]}]}
BODIES: dict[str, Any] = {
    "create": {},
    "learn": {"op": "theirs", "rows": [["a"]], "labels": ["x"]},
    "learn-stream": {"op": "theirs", "documents": [["a"]]},
    "forget": {"op": "theirs", "rows": [["a"]], "labels": ["x"]},
    "forget-stream": {"op": "theirs", "documents": [["a"]]},
    "refit": {"op": "theirs"},
    "set-alias": {"model": "secret"},
    "set-list": {"items": ["x"]},
    "v2-infer": TENSORS,
    "v2-version-infer": TENSORS,
}
GUARDED = [operation for operation in OPERATIONS if operation.role is not None]
OF_MODELS = [operation for operation in GUARDED if "{model}" in operation.path]


def send(url: str, operation: Any, token: str | None, model: str = "secret", **more: Any) -> httpx.Response:
    """Send a request that is right, for an operation and a model."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    content = b""
    if operation.body in ("json", "list", "tensors"):
        headers |= JSON
        content = json.dumps(BODIES.get(operation.ask, {"rows": [["a"]]})).encode()
    elif operation.body == "file":
        headers |= {"content-type": "application/octet-stream"}
        content = b"no model"
    path = (
        operation.path.replace("{model}", model)
        .replace("{version}", "1")
        .replace("{alias}", "other")
        .replace("{list}", "stock")
    )
    return httpx.request(operation.method, f"{url}{path}", headers={**headers, **more}, content=content, timeout=60)


def refusal(answer: httpx.Response) -> tuple[str, str]:
    """Return the code and the message of a refusal, in either form."""
    told = answer.json()
    error = told["error"]
    return (told["code"], error) if isinstance(error, str) else (error["code"], error["message"])


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    path = tmp_path_factory.mktemp("tokens") / "tokens.json"
    made = {role: new_token("owner", [role], role) for role in ROLES}
    made["owner"] = new_token("owner", ROLES)
    made["stranger"] = new_token("stranger", ROLES)
    write_entries(path, [entry for _, entry in made.values()])
    return path, {name: token for name, (token, _) in made.items()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tokens: tuple[Path, dict[str, str]]) -> Iterator[serving.Running]:
    path, known = tokens
    with serving.in_thread(tmp_path_factory.mktemp("models"), path) as running:
        with Client(running.url, known["owner"]) as owner:
            owner.create("secret")
            owner.learn("secret", [["a"]], ["x"], op="first")
        yield running


@pytest.mark.parametrize("operation", GUARDED, ids=lambda operation: operation.ask)
def test_without_a_token_nothing_is_open(server: serving.Running, operation: Any) -> None:
    for token in (None, "hm_", "hm_000000000000_" + "a" * 43, "Basic abc"):
        answer = send(server.url, operation, token)
        assert (answer.status_code, refusal(answer)[0]) == (401, "unauthorised")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("operation", OF_MODELS, ids=lambda operation: operation.ask)
def test_a_token_of_another_tenant_opens_nothing(
    server: serving.Running, tokens: tuple[Path, dict[str, str]], operation: Any
) -> None:
    _, known = tokens
    with Client(server.url, known["owner"]) as owner:
        before = owner.describe("secret")
        answer = send(server.url, operation, known["stranger"])
        if operation.ask == "create":  # a model of their own, of the same name
            assert answer.status_code == 201
            assert answer.json()["examples"] == 0
            assert send(server.url, _operation("delete"), known["stranger"]).status_code == 200
        elif operation.ask == "upload":
            assert answer.status_code == 422
        else:
            assert (answer.status_code, refusal(answer)[0]) == (404, "no_such_model")
            unknown = send(server.url, operation, known["owner"], "there-is-none")
            assert unknown.status_code == 404
            same = refusal(answer)[1].replace("secret", "there-is-none")
            assert same == refusal(unknown)[1]  # nothing tells that it exists
        assert owner.describe("secret") == before


def test_nothing_of_another_tenant_is_listed_or_counted(
    server: serving.Running, tokens: tuple[Path, dict[str, str]]
) -> None:
    _, known = tokens
    with Client(server.url, known["stranger"]) as stranger:
        assert stranger.models() == []
    text = httpx.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {known['stranger']}"}).text
    assert "secret" not in text
    assert "owner" not in text


def _operation(ask: str) -> Any:
    return next(operation for operation in OPERATIONS if operation.ask == ask)


@pytest.mark.parametrize("operation", GUARDED, ids=lambda operation: operation.ask)
def test_each_operation_needs_its_role(
    server: serving.Running, tokens: tuple[Path, dict[str, str]], operation: Any
) -> None:
    _, known = tokens
    for role in ROLES:
        if role != operation.role and (role, operation.role) != ("admin", "metrics"):
            answer = send(server.url, operation, known[role])
            assert (answer.status_code, refusal(answer)[0]) == (403, "forbidden")


def test_what_needs_no_token_tells_nothing() -> None:
    assert {operation.ask for operation in OPERATIONS if operation.role is None} == {
        "v2-server", "v2-live", "v2-ready", "readyz", "readyz-edits", "page", "script", "style", "icon",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "attacker.example"}, 421),
        ({"host": "127.0.0.1.attacker.example"}, 421),
        ({"host": "10.0.0.1"}, 421),
        ({"host": ""}, 421),
        ({"host": "localhost"}, 200),
        ({"host": "LOCALHOST:1234"}, 200),
        ({"host": "[::1]:80"}, 200),
        ({"origin": "http://attacker.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_pages_of_other_sites_are_refused(server: serving.Running, headers: dict[str, str], status: int) -> None:
    answer = httpx.get(f"{server.url}/v2/health/live", headers=headers)
    assert answer.status_code == status
    assert not any(name.startswith("access-control") or name == "set-cookie" for name in answer.headers)


def test_its_own_page_may_ask(server: serving.Running) -> None:
    assert httpx.get(f"{server.url}/v2/health/live", headers={"origin": server.url}).status_code == 200
    asked_first = httpx.options(f"{server.url}/v1/models", headers={"access-control-request-method": "POST"})
    assert asked_first.status_code == 405


def test_the_page_may_load_nothing_from_elsewhere(server: serving.Running) -> None:
    for path in ("/", "/page.js", "/page.css"):
        answer = httpx.get(f"{server.url}{path}")
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"):
            assert part in policy
        assert "://" not in answer.text.replace("http://www.w3.org", "")
        assert "style=" not in answer.text


def test_only_json_is_taken(server: serving.Running, tokens: tuple[Path, dict[str, str]]) -> None:
    owner = {"authorization": f"Bearer {tokens[1]['owner']}"}
    url = f"{server.url}/v1/models/secret/predict"
    body = json.dumps({"rows": [["a"]]})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "", "application/json5"):
        answer = httpx.post(url, content=body, headers={**owner, "content-type": kind})
        assert answer.status_code == 415, kind
    assert httpx.post(url, content=body, headers={**owner, **JSON, "content-encoding": "gzip"}).status_code == 415
    assert httpx.post(
        url, content=body, headers={**owner, "content-type": "application/json; charset=utf-8"}
    ).is_success


# The token file


def test_tokens_are_rotated_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    (old, first), (new, second) = new_token("acme", ["read"]), new_token("acme", ["admin", "read"])
    write_entries(path, [first])
    tokens = Tokens(path)
    assert tokens.caller(new) is None
    write_entries(path, [second])
    tokens.look()
    caller = tokens.caller(new)
    assert caller is not None
    assert (caller.tenant, caller.roles) == ("acme", frozenset({"admin", "read", "metrics"}))
    assert tokens.caller(old) is None


def test_a_broken_file_leaves_the_tokens_as_they_were(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tokens.json"
    token, entry = new_token("acme", ["read"])
    write_entries(path, [entry])
    tokens = Tokens(path)
    logger = logging.getLogger("hammemo.serve")
    logger.propagate = True
    for content in ("{", "[]", '{"tokens": [{}]}', '{"tokens": 3}', "\udcff"):
        path.write_text(content, encoding="utf-8", errors="surrogateescape")
        tokens.look()
        assert tokens.caller(token) is not None
        with pytest.raises(ValueError, match="is not a token file"):
            read_entries(path)
    path.unlink()
    tokens.look()
    assert tokens.caller(token) is not None
    assert "tokens_not_read" in caplog.text


def test_the_file_holds_no_secret_and_is_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token, entry = new_token("acme", ["read"], "a name")
    write_entries(path, [entry])
    assert token.rsplit("_", 1)[-1] not in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o620)
    with pytest.raises(ValueError, match="may be written by others"):
        read_entries(path)


@pytest.mark.parametrize(
    ("tenant", "roles"), [("Acme", ["read"]), ("../up", ["read"]), ("acme", ["root"]), ("acme", []), ("", ["read"])]
)
def test_tokens_that_cannot_be(tenant: str, roles: list[str]) -> None:
    with pytest.raises(ValueError, match=r"(tenant|roles)"):
        new_token(tenant, roles)


def test_small_answers_are_not_delayed() -> None:
    """asyncio sets TCP_NODELAY only on sockets that name their protocol; without it an answer takes 40 ms more."""
    with listen("127.0.0.1", 0, shared=False) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_server_for_others_needs_tokens_and_encryption(tmp_path: Path) -> None:
    def check(**given: Any) -> None:
        ServerSettings(str(tmp_path), **given).check()

    check()
    check(host="::1")
    for wrong in (
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": "example.org", "token_file": "t"},
        {"host": "192.168.0.1", "tls_cert": "c", "tls_key": "k"},
        {"behind_proxy": True},
        {"host": "0.0.0.0", "behind_proxy": True},
        {"tls_cert": "c"},
    ):
        with pytest.raises(ValueError, match=r"(token_file|tls_key)="):
            check(**wrong)
    check(host="0.0.0.0", token_file="t", behind_proxy=True)
    check(host="0.0.0.0", token_file="t", tls_cert="c", tls_key="k")


def test_the_client_sends_no_token_in_the_clear() -> None:
    with pytest.raises(ValueError, match="in the clear"):
        Client("http://example.org", "hm_token")


# Limits


SMALL = Limits(
    body=2_000, file=5_000, rows=20, columns=8, text=50, k=5, cells=40, explained=2, head_seconds=0.5,
    body_seconds=0.5, wait_seconds=0.05, connections=30,
)  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Running]:
    with serving.in_thread(tmp_path_factory.mktemp("models"), limits=SMALL) as running:
        with Client(running.url) as client:
            client.create("m", columns=1)
            client.learn("m", [[str(i)] for i in range(5)], list("abcde"))
        yield running


@pytest.mark.parametrize(
    ("ask", "body"),
    [
        ("predict", {"rows": [["a"]] * 21}),
        ("predict", {"rows": [["a"] * 9]}),
        ("predict", {"rows": [["a" * 51]]}),
        ("top-k", {"rows": [["a"]], "k": 6}),
        ("probabilities", {"rows": [["a"]] * 9}),
        ("explain", {"rows": [["a"]] * 3}),
        ("predict", {"rows": [["a" * 40] * 8] * 20}),
        ("learn", {"op": "1", "rows": [["a" * 5_000]], "labels": ["x"]}),
    ],
)
def test_more_than_a_limit_allows(small: serving.Running, ask: str, body: Any) -> None:
    answer = httpx.post(f"{small.url}/v1/models/m/{ask}", json=body)
    assert (answer.status_code, refusal(answer)[0]) == (413, "too_large")


def test_a_file_that_is_too_large_is_refused(small: serving.Running, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(6_000))
    with Client(small.url) as client, pytest.raises(ServerError) as refused:
        client.upload("large", tmp_path / "large")
    assert refused.value.status == 413


@pytest.mark.parametrize(
    "body",
    [
        {"rows": [["a"], ["a", "b"]]},
        {"rows": [[]]},
        {"rows": [[["a"]]]},
        {"rows": [[{}]]},
        {"rows": "a"},
        {"rows": [[2**63]]},
        {"rows": [["a"]], "more": 1},
        {"rows": [["a"]], "min_version": -1},
        {"rows": [["a"]], "min_version": 1.5},
        [],
        None,
        {},
    ],
)
def test_malformed_questions(small: serving.Running, body: Any) -> None:
    answer = httpx.post(f"{small.url}/v1/models/m/predict", content=json.dumps(body), headers=JSON)
    assert (answer.status_code, refusal(answer)[0]) == (422, "malformed")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"rows": [["\xff"]]}', b"[" * 1_900, b'{"rows":' * 200])
def test_what_is_no_json(small: serving.Running, content: bytes) -> None:
    for method, path in (("POST", "m/predict"), ("POST", "m/learn"), ("PUT", "new")):
        answer = httpx.request(method, f"{small.url}/v1/models/{path}", content=content, headers=JSON)
        assert answer.status_code == 422


@pytest.mark.parametrize("name", ["Upper", "a" * 65, "_a", "..", "%2e%2e", "a%00", "ä", "a b"])
def test_names_that_no_model_can_have(small: serving.Running, name: str) -> None:
    assert httpx.put(f"{small.url}/v1/models/{name}", json={}).status_code in (404, 405)
    assert httpx.get(f"{small.url}/v1/models/{name}").status_code in (404, 405)


def conversation(port: int, *parts: bytes, pause: float = 0.0) -> bytes:
    """Send parts of a request and return all that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for part in parts:
            try:
                connection.sendall(part)
            except OSError:
                break
            time.sleep(pause)
        held = b""
        try:
            while piece := connection.recv(65_536):
                held += piece
        except ConnectionError:
            pass
        return held


HEAD = b"POST /v1/models/m/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def test_a_silent_caller_is_sent_away(small: serving.Running) -> None:
    assert conversation(small.port) == b""
    assert conversation(small.port, b"POST / HT", b"TP/1.1\r\n", b"host", pause=0.3) == b""


def test_a_slow_body_is_not_waited_for(small: serving.Running) -> None:
    told = conversation(small.port, HEAD + b"content-length: 100\r\n\r\n", b"{", b'"', pause=0.3)
    assert told.startswith(b"HTTP/1.1 408")


def test_a_body_without_end_is_cut(small: serving.Running) -> None:
    piece = b"400\r\n" + b" " * 1024 + b"\r\n"
    told = conversation(small.port, HEAD + b"transfer-encoding: chunked\r\n\r\n", *[piece] * 5)
    assert told.startswith(b"HTTP/1.1 413")


def test_a_declared_length_is_refused_before_anything_is_sent(small: serving.Running) -> None:
    told = conversation(small.port, HEAD + b"content-length: 99999999999\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 413")


def test_what_is_no_http_gets_the_usual_form(small: serving.Running) -> None:
    told = conversation(small.port, b"\x16\x03\x01\x00nonsense\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 400")
    assert json.loads(told.split(b"\r\n\r\n")[1])["error"]["status"] == 400
    twice = conversation(small.port, HEAD + b"host: other\r\nconnection: close\r\n\r\n")
    assert twice.startswith(b"HTTP/1.1 400")


def test_connections_have_a_limit(small: serving.Running) -> None:
    held = [socket.create_connection(("127.0.0.1", small.port)) for _ in range(60)]
    try:
        time.sleep(0.1)
        closed = 0
        for connection in held:
            connection.settimeout(0.01)
            try:
                closed += connection.recv(1) == b""
            except TimeoutError:
                pass
            except ConnectionError:
                closed += 1
        assert closed >= 30
    finally:
        for connection in held:
            connection.close()


def test_rates_and_numbers_of_requests_have_a_limit(tmp_path: Path) -> None:
    with serving.in_thread(tmp_path, limits=Limits(rate=0.001, at_once=1)) as running:
        first, second = (httpx.get(f"{running.url}/v1/models") for _ in range(2))
        assert (first.status_code, second.status_code) == (200, 429)
        assert second.json()["error"]["code"] == "too_many"
        assert "retry-after" in second.headers
        assert httpx.get(f"{running.url}/v2/health/live").status_code == 200


def test_a_request_that_is_being_answered_counts(tmp_path: Path) -> None:
    with serving.in_thread(tmp_path, limits=Limits(at_once=1, wait_seconds=3.0)) as running:
        with Client(running.url) as client:
            client.create("m")
            client.learn("m", [["a"]], ["x"])
        waiting = {"rows": [["a"]], "min_version": 2}
        other = threading.Thread(
            target=httpx.post, args=(f"{running.url}/v1/models/m/predict",), kwargs={"json": waiting, "timeout": 60}
        )
        other.start()
        try:
            until = time.monotonic() + 60
            while running.service.admission.inside == 0 and time.monotonic() < until:
                time.sleep(0.005)
            assert httpx.get(f"{running.url}/v1/models").status_code == 429
        finally:
            other.join()


# Logs and failures


def test_logs_hold_no_example(tmp_path: Path) -> None:
    mark = "a-secret-example"
    save(MemoryClassifier(vote="sum").fit_stream([["a", "b"]], h=1), tmp_path / "visits")
    with serving.Process(tmp_path / "models") as process:
        with Client(process.url) as client:
            client.create("m")
            client.learn("m", [[mark]], [f"{mark}-label"])
            client.explain("m", [[mark]])
            with pytest.raises(ServerError):
                client.forget("m", [[f"{mark}-never"]], ["x"])
            with pytest.raises(ServerError):
                client.learn("m", [[mark, mark]], ["x"])
            client.upload("visits", tmp_path / "visits")
            client.learn_stream("visits", [[mark, mark]])
            with pytest.raises(ServerError):
                client.forget_stream("visits", [[mark, f"{mark}-never"]])
        httpx.get(f"{process.url}/v1/models?{mark}")
        assert process.end() == 0
    text = json.dumps(process.lines)
    assert mark not in text
    assert {line.get("ask") for line in process.lines} >= {
        "create", "learn", "explain", "forget", "list", "learn-stream", "forget-stream",
    }  # fmt: skip
    assert os.fspath(tmp_path) not in text


def test_a_failure_inside_is_told_without_details(
    server: serving.Running, tokens: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(server.service.host, "names", fail)
    answer = httpx.get(f"{server.url}/v1/models", headers={"authorization": f"Bearer {tokens[1]['owner']}"})
    assert answer.json() == {
        "error": {"status": 500, "code": "failed", "message": "The server failed; its log says where."}
    }
