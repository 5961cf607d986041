"""The files of `server/deploy/`, run for real: nginx, Prometheus, PostgreSQL and systemd's checks, without containers.

Debian's packages have all of them (``.ci/nightly deployment`` installs them); what is missing is skipped.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]
from typer.testing import CliRunner

from hammemo.cli.app import app
from hammemo.client import Client
from hammemo.receipts.keys import new_key_file
from hammemo_server.http.tokens import new_token, read_entries, write_entries
from pace import patience, wait_until
from places import ROOT
from postgres_server import Server, needs_postgres, one_server, postgres
from running_servers import Process, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["postgres"]

COMPOSE = ROOT / "server" / "deploy" / "compose"
DASHBOARD = json.loads((COMPOSE / "dashboard.json").read_text("utf-8"))
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
ALERTS = [
    rule for group in yaml.safe_load((COMPOSE / "alerts.yml").read_text("utf-8"))["groups"] for rule in group["rules"]
]
HOST = "models.example.org"


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@contextmanager
def running(*command: str | Path) -> Iterator[None]:
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def replaced(file: Path, to: Path, **places: object) -> Path:
    """Write a file of `server/deploy/` with other places than those inside a container."""
    text = file.read_text("utf-8")
    for old, new in places.items():
        assert old in text
        text = text.replace(old, str(new))
    to.write_text(text, "utf-8")
    return to


@contextmanager
def prometheus(folder: Path, target: str, token: str) -> Iterator[str]:
    """Run Prometheus with the files of `server/deploy/`, and yield its address."""
    (folder / "metrics-token").write_text(token)
    shutil.copy(COMPOSE / "alerts.yml", folder)
    places = {"/etc/prometheus": folder, "hammemo:9101": target, "15s": "1s"}
    config = replaced(COMPOSE / "prometheus.yml", folder / "prometheus.yml", **places)
    port = free_port()
    arguments = (
        f"--config.file={config}",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with running("prometheus", *arguments):
        yield f"http://127.0.0.1:{port}"


def found(url: str, query: str) -> list[Any]:
    answer = httpx.get(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}").json()
    assert answer["status"] == "success", (query, answer)
    result: list[Any] = answer["data"]["result"]
    return result


def is_found(url: str, query: str) -> bool:
    return bool(found(url, query))


def reached(url: str) -> bool:
    try:
        return httpx.get(url, verify=False).status_code < 500
    except httpx.TransportError:
        return False


@pytest.mark.slow
@one_server
@needs_postgres
@needs("nginx", "prometheus", "promtool", "openssl")
def test_proxy_database_and_figures(tmp_path: Path, postgres: Server) -> None:
    made = [new_token("shop", ["read", "learn", "admin"]), new_token("shop", ["metrics"])]
    (client_token, metrics_token), tokens = [token for token, _ in made], tmp_path / "tokens.json"
    write_entries(tokens, [entry for _, entry in made])
    (tmp_path / "certs").mkdir()
    subject = ("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST},DNS:localhost")
    cert, key = tmp_path / "certs" / "cert.pem", tmp_path / "certs" / "key.pem"
    made_by = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {cert}"
    subprocess.run([*made_by.split(), *subject], check=True, capture_output=True)
    health, tls = free_port(), free_port()
    options = yaml.safe_load((COMPOSE / "compose.yaml").read_text("utf-8"))["services"]["hammemo"]["command"]
    keys = tmp_path / "keys.json"
    new_key_file(keys)
    places = {"0.0.0.0": "127.0.0.1", "/tokens/tokens.json": str(tokens), "/keys/keys.json": str(keys)}
    places |= {"172.30.0.10": "127.0.0.1", "9101": str(health)}
    given = [*(places.get(option, option) for option in options), "--max-examples", "1000000"]
    with Process(tmp_path / "models", *given, environment={"HAMMEMO_LOG": postgres.address}) as server:
        nginx = {"/tmp/nginx.pid": tmp_path / "pid", "hammemo:8080": server.url.removeprefix("http://")}
        nginx |= {"listen 443": f"listen 127.0.0.1:{tls}", "/certs": tmp_path / "certs"}
        config = replaced(COMPOSE / "nginx.conf", tmp_path / "nginx.conf", **nginx)
        target = f"127.0.0.1:{health}"
        with (
            running("nginx", "-p", tmp_path, "-e", tmp_path / "errors", "-c", config, "-g", "daemon off;"),
            prometheus(tmp_path, target, metrics_token) as figures,
        ):
            assert wait_until(lambda: reached(f"https://127.0.0.1:{tls}/v2/health/live"), patience(60))
            assert wait_until(lambda: reached(f"{figures}/-/ready"), patience(60))
            ask_through_the_proxy(tls, cert, client_token)
            for query in QUERIES:
                assert wait_until(partial(is_found, figures, query), patience(60)), query
            known = set(httpx.get(f"{figures}/api/v1/label/__name__/values").json()["data"])
            for alert in ALERTS:
                assert found(figures, alert["expr"]) == [], alert["alert"]
                assert set(re.findall(r"hammemo_\w+", alert["expr"])) <= known
        subprocess.run(
            ["promtool", "check", "config", str(tmp_path / "prometheus.yml")], check=True, capture_output=True
        )
        with Client(server.url, client_token) as client:
            client.delete("fruit")


def ask_through_the_proxy(port: int, cert: Path, token: str) -> None:
    trusted = ssl.create_default_context(cafile=str(cert))
    headers = {"authorization": f"Bearer {token}", "host": HOST}
    with httpx.Client(base_url=f"https://localhost:{port}", verify=trusted, headers=headers) as http:
        assert http.put("/v1/models/fruit", json={"columns": 1}).status_code == 201
        rows = {"op": "1", "rows": [["a"], ["b"]], "labels": ["x", "y"]}
        assert http.post("/v1/models/fruit/learn", json=rows).json() == {"version": 1, "status": "applied"}
        assert http.post("/v1/models/fruit/snapshot").json() == {"version": 1}
        for _ in range(20):
            assert http.post("/v1/models/fruit/predict", json={"rows": [["a"]]}).json()["labels"] == ["x"]
        assert http.get("/metrics").status_code == 404
        assert http.get("/v1/models", headers={"authorization": "Bearer none"}).status_code == 401


@pytest.mark.slow
@needs("systemd-analyze")
def test_the_unit_of_systemd(tmp_path: Path) -> None:
    """It is checked, and what it starts is started: as this user, with the folders of a test."""
    unit = (ROOT / "server" / "deploy" / "hammemo.service").read_text("utf-8")
    command = tmp_path / "hammemo"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hammemo "$@"\n')
    command.chmod(0o755)
    (tmp_path / "hammemo.service").write_text(unit.replace("/opt/hammemo/bin/hammemo", str(command)))
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "hammemo.service"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    tokens = tmp_path / "tokens.json"
    write_entries(tokens, [new_token("shop", ["read"])[1]])
    line = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    new_key_file(tmp_path / "keys.json")
    words = shlex.split(line.removeprefix("ExecStart=").replace("/etc/hammemo/tokens.json", str(tokens)))
    words[words.index("--keys") + 1] = str(tmp_path / "keys.json")
    words[words.index("--health-port") + 1] = str(free_port())
    assert words[1:3] == ["serve", "/var/lib/hammemo"]
    with Process(tmp_path / "models", *words[3:]) as server:
        assert httpx.get(f"{server.url}/readyz").status_code == 200


def test_the_files_agree() -> None:
    """What needs nothing: names, and queries of figures that the server has."""
    from hammemo_server.http.metrics import Metrics

    metrics = Metrics(lambda _: [("m", {})], lambda _: {"labels": (1, 2)}, lambda: 0)
    metrics.count("t", "predict", 200, 0.1)
    metrics.count_edit("t", "m", "learn", "applied", rows=1)
    text = metrics.text("t").decode()
    named = set(re.findall(r"hammemo_\w+", " ".join([*QUERIES, *(alert["expr"] for alert in ALERTS)])))
    assert named
    assert {name for name in named if not re.search(rf"^(# HELP )?{name}\b", text, re.MULTILINE)} == set()
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text("utf-8"))["services"]
    assert "--health-port" in services["hammemo"]["command"]
    assert "hammemo:9101" in (COMPOSE / "prometheus.yml").read_text("utf-8")


@pytest.mark.parametrize("name", ["Containerfile", "hammemo.service", "kubernetes.yaml", "compose/compose.yaml"])
def test_the_commands_give_all_that_the_guide_needs(name: str, tmp_path: Path) -> None:
    """Clients get a token that can create models, and the server a key file, so that people can be erased."""
    text = (ROOT / "server" / "deploy" / name).read_text("utf-8")
    commands = [shlex.split(found, comments=True) for found in re.findall(r"hammemo (tokens add [^\n]*)", text)]
    for _, add, _, *options in commands:
        given = options[: options.index(">")] if ">" in options else options
        assert CliRunner().invoke(app, ["tokens", add, str(tmp_path / "tokens.json"), *given]).exit_code == 0
    clients = read_entries(tmp_path / "tokens.json")[0]
    assert {"admin", "read", "learn", "forget"} <= set(clients.roles)
    assert "hammemo keys new" in text
    assert re.search(r"--keys\W+/\S+keys\.json", text)
    assert "tokens.json:/" not in text  # a mounted file stays the old one when another takes its place


def test_prometheus_finds_its_port_in_kubernetes() -> None:
    stateful, service = yaml.safe_load_all((ROOT / "server" / "deploy" / "kubernetes.yaml").read_text("utf-8"))
    container = stateful["spec"]["template"]["spec"]["containers"][0]
    port = container["args"][container["args"].index("--health-port") + 1]
    offered = {one["targetPort"]: one["port"] for one in service["spec"]["ports"]}
    assert (
        offered["health"] == int(port) == next(p["containerPort"] for p in container["ports"] if p["name"] == "health")
    )
    assert service["metadata"]["annotations"]["prometheus.io/port"] == port
    mounted = {one["name"] for one in container["volumeMounts"]}
    claims = {one["metadata"]["name"] for one in stateful["spec"]["volumeClaimTemplates"]}
    assert mounted == claims | {one["name"] for one in stateful["spec"]["template"]["spec"]["volumes"]}


USER = "10001"
"""The user of the container."""


def may_be_contained() -> str:
    """Return why a server cannot be started in a mount namespace as the user of the container; nothing if it can."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        return "not installed: unshare or setpriv"
    command = ["unshare", "-m", *as_user(), sys.executable, "-c", "import hammemo_server"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"needs leave to unshare, and a Python that user {USER} can run" if done.returncode else ""


def as_user() -> tuple[str, ...]:
    return ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")


def contained(place: Path, mounted: str) -> Process:
    """Serve in a mount namespace as a container does, with the folder of the token file, or the file, mounted."""
    target = place / f"in-{mounted}"
    target.mkdir()
    source, file = place / "tokens", target / "tokens.json"
    if mounted == "file":
        source, target = source / "tokens.json", file
        file.touch()
    mount = f'mount --bind {source} {target} && mount -o remount,ro,bind {target} && exec "$@"'
    models = place / f"models-{mounted}"
    models.mkdir()
    shutil.chown(models, int(USER))
    before = ("unshare", "-m", "sh", "-c", mount, "sh", *as_user())
    return Process(models, "--token-file", str(file), fresh=True, before=before)


def test_a_token_is_revoked_in_a_container() -> None:
    """The file is of mode 0600 and belongs to the user of the container; root changes it outside."""
    if reason := may_be_contained():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place, tokens = Path(folder), Path(folder, "tokens", "tokens.json")
        place.chmod(0o755)  # of a test's own folders others can read nothing
        tokens.parent.mkdir()
        (kept, first), (revoked, second) = new_token("acme", ["read"]), new_token("acme", ["read"])
        write_entries(tokens, [first, second])
        for path in (tokens.parent, tokens):
            shutil.chown(path, int(USER))
        with ThreadPoolExecutor(2) as threads:
            servers = list(threads.map(partial(contained, place), ["folder", "file"]))
        for server in servers:
            stack.enter_context(server)
            assert [status(server.url, token) for token in (kept, revoked)] == [200, 200]
        assert CliRunner().invoke(app, ["tokens", "remove", str(tokens), second.id]).exit_code == 0
        for server in servers:
            assert wait_until(lambda url=server.url: status(url, revoked) == 401, patience(60))  # type: ignore[misc]
            assert status(server.url, kept) == 200
        found = tokens.stat()
        assert (found.st_uid, found.st_mode & 0o777) == (int(USER), 0o600)


def status(url: str, token: str) -> int:
    return httpx.get(f"{url}/v1/models", headers={"authorization": f"Bearer {token}"}, timeout=60).status_code
