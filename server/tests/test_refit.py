"""A refit on a server: an edit like others; the log keeps what was fitted and chosen: a crash changes no byte of it."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Final

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import running_servers as serving
from hammemo import MemoryClassifier, save
from hammemo.client import Client, ServerError
from hammemo.edits.editing import take_state
from hammemo.memories import Exact
from hammemo.stores.kept_rows import KeptRows
from hammemo.votes import LogLinear, Mixture
from hammemo_server.edits import refits as weights_module
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import (
    Acknowledgement,
    Content,
    Edit,
    LoggedRefit,
    LoggedRows,
    Malformed,
    NothingKept,
    NothingLearnt,
    NotStored,
    OpReused,
    ServiceError,
    TooLarge,
    Unavailable,
    UnknownKind,
    check_edit,
    decode_body,
)
from hammemo_server.edits.refits import pack_weights, take_weights
from hammemo_server.edits.settings import Settings
from hammemo_server.http.app import make_app
from hammemo_server.http.server import _passing_on
from hammemo_server.http.service import Service
from hammemo_server.models import writer as writing
from hammemo_server.models.applying import Applier, first_state
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep
from hammemo_server.store.sqlite_log import LOG, SqliteLog
from pace import patience
from postgres_server import postgres
from service_hosts import done, fail_next_commit, hosts, run_until_killed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hammemo_server.models.served import ServedModel

__all__ = ["hosts", "postgres"]

REFIT: Final = "refit"


def examples(n: int = 300, seed: int = 0) -> tuple[list[list[Any]], list[Any]]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, 3))
    y = np.where((X[:, 0] == X[:, 1]) ^ (rng.random(n) < 0.1), "same", "other")
    return X.tolist(), y.tolist()


def fitted(clf: MemoryClassifier) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in clf.vote_.state().items()}


def weights(model: ServedModel) -> dict[str, bytes]:
    clf = model.state().model
    assert clf is not None
    return fitted(clf)


@pytest.fixture
def uploaded(tmp_path: Path) -> Path:
    """Return the file of a model with fitted weights and digests."""
    X, y = examples()
    save(MemoryClassifier(memory=Exact(), keep="auto+digests").fit(X, y), tmp_path / "fitted.model")
    return tmp_path / "fitted.model"


def test_after_forget_and_refit_weights_are_those_of_the_rest(hosts: Callable[..., Host], uploaded: Path) -> None:
    X, y = examples()
    host = hosts(upkeep=Upkeep(at_close=False))
    model = host.upload("t", "m", uploaded)
    before = weights(model)
    never = MemoryClassifier(memory=Exact(), keep="auto+digests").fit(X[40:], y[40:])
    done(model, Edit("1", "forget", X[:40], y[:40]))
    assert weights(model) == before
    assert done(model, Edit("2", REFIT)) == Acknowledgement(2, "applied")
    assert weights(model) == fitted(never) != before
    assert done(model, Edit("2", REFIT)) == Acknowledgement(2, "repeated")
    assert done(model, Edit("3", REFIT)) == Acknowledgement(3, "applied")  # nothing has changed since
    assert weights(model) == fitted(never)
    with pytest.raises(OpReused):
        done(model, Edit("2", "learn", X[:1], y[:1]))
    with pytest.raises(OpReused):
        done(model, Edit("1", REFIT))
    host.close()
    again = hosts().get("t", "m")
    assert (again.version, again.replayed) == (3, 3)
    assert weights(again) == fitted(never)
    assert again.answering()[0].digest() == never.digest()
    assert again.answering()[0].predict_proba(X).tobytes() == never.predict_proba(X).tobytes()
    again.snapshot()
    assert weights(again) == fitted(never)


def test_a_model_made_on_the_server_gets_fitted_weights(tmp_path: Path) -> None:
    X, y = examples()
    with Host(tmp_path) as host:
        model = host.create("t", "m", {"columns": 3, "seed": 5})
        done(model, Edit("1", "learn", X[:100], y[:100]))
        assert weights(model) == {}
        done(model, Edit("2", REFIT))
        twin = MemoryClassifier(memory=Exact(), keep="auto+digests", random_state=5).fit(X[:100], y[:100])
        assert weights(model) == fitted(twin) != {}


def test_whoever_replays_or_follows_does_not_fit(
    hosts: Callable[..., Host], uploaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the log keeps are the weights: sums of another processor, or another sample, do not matter."""
    X, y = examples()
    host = hosts(upkeep=Upkeep(at_close=False))
    model = host.upload("t", "m", uploaded)
    done(model, Edit("1", "forget", X[:40], y[:40]))
    done(model, Edit("2", REFIT))
    wanted = weights(model)
    monkeypatch.setattr(MemoryClassifier, "refit", lambda *_, **__: pytest.fail("it was fitted again"))
    followed = hosts(replica=True).get("t", "m")
    assert fitted(followed.answering(2, wait=patience(60))[0]) == wanted
    host.close()
    assert weights(hosts().get("t", "m")) == wanted


def test_a_replica_gets_the_weights(hosts: Callable[..., Host], uploaded: Path) -> None:
    X, y = examples()
    writer, replica = hosts(), hosts(replica=True)
    model = writer.upload("t", "m", uploaded)
    followed = replica.get("t", "m")
    for n in range(3):
        done(model, Edit(f"a{n}", "forget", X[n : n + 1], y[n : n + 1]))
        version = done(model, Edit(f"b{n}", REFIT)).version
        assert fitted(followed.answering(version, wait=patience(60))[0]) == weights(model)
    with pytest.raises(Unavailable):
        followed.edit(Edit("c", REFIT))


@pytest.mark.parametrize("vote", ["sum", "mean"])
def test_a_vote_without_weights_has_nothing_to_do(vote: str, tmp_path: Path) -> None:
    X, y = examples(20)
    with Host(tmp_path) as host:
        model = host.create("t", "m", {"columns": 3, "vote": vote})
        done(model, Edit("1", "learn", X, y))
        assert done(model, Edit("2", REFIT)) == Acknowledgement(2, "applied")
        assert weights(model) == {}
    with Host(tmp_path) as host:
        assert host.get("t", "m").version == 2


def test_a_model_without_a_sample_says_what_to_do(tmp_path: Path) -> None:
    X, y = examples()
    save(MemoryClassifier(vote=LogLinear(), keep=False).fit(X, y), tmp_path / "m")
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", tmp_path / "m")
        before = weights(model)
        with pytest.raises(NothingKept, match=r"keep=False.*upload"):
            done(model, Edit("1", REFIT))
        assert (model.version, weights(model)) == (0, before)
        assert done(model, Edit("1", "learn", X[:1], y[:1])).version == 1  # the id of a refused edit is free


def test_a_model_that_holds_nothing(tmp_path: Path, uploaded: Path) -> None:
    X, y = examples()
    with Host(tmp_path / "models") as host:
        with pytest.raises(NothingLearnt, match="learn first"):
            done(host.create("t", "open", {}), Edit("1", REFIT))
        for vote in ("auto", "log-linear"):
            assert done(host.create("t", vote, {"columns": 2, "vote": vote}), Edit("1", REFIT)).version == 1
        model = host.upload("t", "m", uploaded)
        done(model, Edit("1", "forget", X, y))
        done(model, Edit("2", REFIT))  # the weights no longer depend on the person
        assert weights(model) == {}
    with Host(tmp_path / "models") as host:
        assert weights(host.get("t", "m")) == {}


def test_windows_of_kept_documents_are_refused_and_a_refit_goes_on(tmp_path: Path) -> None:
    documents = [[1, 2, 3, 4], [2, 3, 4, 5]] * 30
    save(MemoryClassifier(vote=Mixture()).fit_stream(documents, h=2, short="pad"), tmp_path / "m")
    with Host(tmp_path / "models", upkeep=Upkeep(at_close=False)) as host:
        model = host.upload("t", "m", tmp_path / "m")
        assert done(model, Edit("1", REFIT)).version == 1
        with pytest.raises(NotStored, match="forget_stream"):
            done(model, Edit("2", "forget", [[2, 3]], [4]))  # a window of a document that is kept whole
        assert done(model, Edit("3", REFIT)).version == 2
        before = weights(model)
    with Host(tmp_path / "models") as host:
        assert weights(host.get("t", "m")) == before != {}


def test_questions_are_answered_while_it_fits_and_edits_queue(
    tmp_path: Path, uploaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads edit while a third refits; each edit is applied once, in one order, and so a restart finds it."""
    X, y = examples()
    begun, go, refit = threading.Event(), threading.Event(), MemoryClassifier.refit

    def slow(self: MemoryClassifier, what: Any = "all") -> MemoryClassifier:
        begun.set()
        assert go.wait(patience(60))
        return refit(self, what)

    with Host(tmp_path / "models", upkeep=Upkeep(at_close=False)) as host:
        model = host.upload("t", "m", uploaded)
        before = weights(model)
        done(model, Edit("0", "forget", X[:40], y[:40]))
        monkeypatch.setattr(MemoryClassifier, "refit", slow)
        fitting = model.edit(Edit("1", REFIT))
        assert begun.wait(patience(60))
        clf, version = model.answering()
        assert (version, fitted(clf)) == (1, before)
        acknowledgements: list[Acknowledgement] = []

        def edit(k: int) -> None:
            for n in range(10):
                row, label = X[40 + 10 * k + n], y[40 + 10 * k + n]
                acknowledgements.append(done(model, Edit(f"{k}-{n}", "forget", [row], [label])))
                acknowledgements.append(done(model, Edit(f"{k}+{n}", "learn", [row], [label])))

        threads = [threading.Thread(target=edit, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        assert not fitting.done()
        assert model.version == 1
        go.set()
        for thread in threads:
            thread.join()
        assert fitting.result() == Acknowledgement(2, "applied")
        assert sorted(acknowledgement.version for acknowledgement in acknowledgements) == list(range(3, 43))
        never = MemoryClassifier(memory=Exact(), keep="auto+digests").fit(X[40:], y[40:])
        assert model.answering()[0].digest() == never.digest()
    with Host(tmp_path / "models") as host:
        again = host.get("t", "m")
        assert again.answering()[0].digest() == never.digest()


KILLED = """
import os, signal, sys
from hammemo_server.models.host import Host
from hammemo_server.edits.operations import Edit
from hammemo_server.models.waiting import Upkeep
from test_refit import examples
X, y = examples()
host = Host(sys.argv[1], upkeep=Upkeep(at_close=False))
model = host.get("t", "m")
model.edit(Edit("1", "forget", X[:40], y[:40])).result()
model.edit(Edit("2", "refit")).result()
model.edit(Edit("3", "forget", X[40:50], y[40:50])).result()
clf, _ = model.answering()
print(repr((clf.digest(parts=True), clf.predict_proba(X).tobytes())), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_after_kill_the_weights_are_the_same(tmp_path: Path, uploaded: Path) -> None:
    with Host(tmp_path / "models") as host:
        host.upload("t", "m", uploaded)
    printed = run_until_killed(KILLED, tmp_path / "models")
    X, _ = examples()
    with Host(tmp_path / "models") as host:
        again = host.get("t", "m")
        assert again.replayed == 3
        clf, _ = again.answering()
        assert repr((clf.digest(parts=True), clf.predict_proba(X).tobytes())) == printed


@pytest.mark.parametrize("written", [False, True])
def test_a_commit_that_fails_is_must_recover_and_sent_again(
    written: bool, tmp_path: Path, uploaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = examples()
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", uploaded)
        done(model, Edit("1", "forget", X[:40], y[:40]))
        never = MemoryClassifier(memory=Exact(), keep="auto+digests").fit(X[40:], y[40:])
        fail_next_commit(monkeypatch, written=written)
        with pytest.raises(Unavailable):
            done(model, Edit("2", REFIT))
        assert done(model, Edit("2", REFIT)) == Acknowledgement(2, "repeated" if written else "applied")
        assert weights(model) == fitted(never)


def test_a_fit_that_fails_changes_nothing(tmp_path: Path, uploaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = examples()

    def fail(self: MemoryClassifier) -> MemoryClassifier:
        raise FloatingPointError

    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", uploaded)
        before = weights(model)
        monkeypatch.setattr(MemoryClassifier, "refit", fail)
        futures = [model.edit(edit) for edit in (Edit("1", REFIT), Edit("2", "learn", X[:1], y[:1]))]
        assert isinstance(futures[0].exception(), ServiceError)
        assert futures[1].result() == Acknowledgement(1, "applied")
        assert weights(model) == before


def test_a_lease_is_prolonged_while_it_fits(tmp_path: Path, uploaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed, refit = threading.Event(), MemoryClassifier.refit

    def slow(self: MemoryClassifier, what: Any = "all") -> MemoryClassifier:
        renewed.clear()
        assert renewed.wait(patience(60)), "no process renews the lease of the log"
        return refit(self, what)

    monkeypatch.setattr(writing, "_IDLE_SECONDS", 0.01)
    monkeypatch.setattr(SqliteLog, "renew_lease", lambda _: renewed.set())
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", uploaded)
        monkeypatch.setattr(MemoryClassifier, "refit", slow)
        assert done(model, Edit("1", REFIT)).version == 1


def test_weights_that_no_log_can_keep_are_refused(
    tmp_path: Path, uploaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = examples()
    monkeypatch.setattr(weights_module, "MAX_BYTES", 100)
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", uploaded)
        before = weights(model)
        done(model, Edit("1", "forget", X[:40], y[:40]))
        with pytest.raises(TooLarge, match="download the model"):
            done(model, Edit("2", REFIT))
        assert weights(model) == before


# What the log keeps


def test_weights_go_through_bytes(uploaded: Path) -> None:
    X, y = examples()
    clf = MemoryClassifier().fit(X, y)
    other = clf.empty_like().partial_fit(X[100:], y[100:]).refit()
    version, wanted = clf.version_, fitted(other)
    take_weights(clf, pack_weights(other.vote_))
    assert (fitted(clf), clf.version_) == (wanted, version + 1)
    take_weights(clf, pack_weights(MemoryClassifier().open(2).vote_))  # one that was never fitted
    assert fitted(clf) == {}


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"x" + b, lambda b: b[:10], lambda b: b + b])
def test_damaged_weights_are_refused_and_nothing_changes(damage: Callable[[bytes], bytes]) -> None:
    X, y = examples()
    clf = MemoryClassifier().fit(X, y)
    before, good = fitted(clf), pack_weights(clf.vote_)
    with pytest.raises(ValueError, match="these are not weights"):
        take_weights(clf, damage(good))
    with pytest.raises(ValueError, match="shape"):  # those of a model with other sites
        take_weights(clf, pack_weights(MemoryClassifier("positional").fit([row[:2] for row in X], y).vote_))
    assert fitted(clf) == before


def test_a_refit_has_no_examples() -> None:
    with pytest.raises(Malformed, match="no rows"):
        check_edit(Edit("op", REFIT, [["a"]], ["x"]), Limits())
    body = check_edit(Edit("op", REFIT), Limits())[1]
    assert decode_body(body) == LoggedRefit()
    assert decode_body(LoggedRefit(fitted=b"abc").body()) == LoggedRefit(fitted=b"abc")
    assert LoggedRefit().n_rows == 0


def test_a_log_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    import msgspec

    with pytest.raises(UnknownKind):
        decode_body(msgspec.msgpack.encode(["reshape", 3]))
    for wrong in ([], ["secret example"], [7], "refit", ["refit", 3], ["refit", b"a", 1], ["choice"], ["choice", 3]):
        with pytest.raises(msgspec.MsgspecError) as refused:
            decode_body(msgspec.msgpack.encode(wrong))
        assert "secret" not in str(refused.value)
    with Host(tmp_path, upkeep=Upkeep(at_close=False)) as host:
        done(host.create("t", "m", {"columns": 1}), Edit("1", "learn", [["a"]], ["x"]))
    db = apsw.Connection(str(tmp_path / "t" / "m" / LOG))
    db.execute("insert into hammemo_edits values(1, 2, ?)", (msgspec.msgpack.encode(["reshape", 3]),))
    db.close()
    with Host(tmp_path) as host, pytest.raises(Unavailable, match=r"kind 'reshape'.*does not know.*newer"):
        host.get("t", "m")


@st.composite
def histories(draw: st.DrawFn) -> list[Content]:
    rows = st.lists(st.sampled_from(["a", "b", "c"]), min_size=2, max_size=2)
    body = st.builds(
        lambda kind, row, label: LoggedRows(kind, [row], [label]),
        st.sampled_from(["learn", "learn", "forget"]),
        rows,
        st.sampled_from(["x", "y"]),
    )
    return draw(st.lists(st.one_of(body, body, st.just(LoggedRefit())), max_size=14))


@pytest.mark.parametrize("vote", ["log-linear", "sum"])
@given(edits=histories(), most=st.sampled_from([2, 50_000]))
@settings(max_examples=40)
def test_a_replay_in_other_groups_has_the_same_bytes(vote: str, edits: list[Content], most: int) -> None:
    """Also where the sample is so small that what it holds depends on how edits were grouped."""
    chosen = Settings.from_client({"columns": 2, "vote": vote, "seed": 3}, Limits())
    start = first_state(chosen).model
    assert start is not None
    if start.state.store is not None:
        take_state(start, start.state.with_changes(store=KeptRows.empty(2, start.memory_.seed, most)))
    model: MemoryClassifier | None = start
    kept: list[Content] = []
    for edit in edits:  # as they were applied one by one
        single = Applier(model, chosen, Limits())
        single.apply([edit])
        model = single.model
        if not single.refused:
            kept.append(decode_body(single.logged[0]) if single.logged else edit)
    together = Applier(start, chosen)
    together.apply(kept)
    assert not together.refused
    assert model is not None
    assert together.model is not None
    assert together.model.memory_.state_bytes() == model.memory_.state_bytes()
    assert fitted(together.model) == fitted(model)


# Over HTTP


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Running]:
    with serving.in_thread(tmp_path_factory.mktemp("served")) as running:
        yield running


def test_a_client_refits(server: serving.Running, uploaded: Path) -> None:
    import httpx

    X, y = examples()
    with Client(server.url) as client:
        client.upload("m", uploaded)
        client.forget("m", X[:40], y[:40])
        acknowledgement = client.refit("m", op="r")
        assert acknowledgement == (2, "applied", "")
        assert client.refit("m", op="r") == (2, "repeated", "")
        twin = MemoryClassifier(memory=Exact(), keep="auto+digests").fit(X[40:], y[40:])
        _, found = client.probabilities("m", X[:5], min_version=acknowledgement.version)
        assert np.allclose(found, twin.predict_proba(X[:5]), rtol=1e-12, atol=0)
        lines = httpx.get(f"{server.url}/metrics").text.splitlines()
        assert 'hammemo_edits_total{kind="refit",model="m",status="applied"} 1.0' in lines
        assert 'hammemo_requests_total{ask="refit",status="200"} 2.0' in lines
        client.create("empty")
        with pytest.raises(ServerError) as empty:
            client.refit("empty")
        assert (empty.value.status, empty.value.code) == (409, "nothing_learnt")
        with pytest.raises(ServerError) as missing:
            client.refit("absent")
        assert missing.value.status == 404


def test_a_client_waits_longer_for_a_refit_than_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    waited: list[httpx.Timeout] = []

    def answer(*_: Any, timeout: httpx.Timeout, **__: Any) -> httpx.Response:
        waited.append(timeout)
        return httpx.Response(200, json={"version": 1, "status": "applied"})

    with Client("http://127.0.0.1:1", timeout=7) as client:
        monkeypatch.setattr(client._http, "request", answer)
        client.refit("m")
        client.refit("m", timeout=5)
        client.learn("m", [["a"]], ["x"])
    assert [(timeout.connect, timeout.read) for timeout in waited] == [(7, 600), (7, 5), (7, 7)]


def test_a_worker_waits_for_a_refit_as_long_as_the_client(tmp_path: Path) -> None:
    import asyncio
    import inspect

    import httpx

    waited: dict[str, float] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        waited[request.url.path.rsplit("/", 1)[1]] = request.extensions["timeout"]["read"]
        return httpx.Response(200, json={"version": 1, "status": "applied"})

    async def send(service: Service, path: str, sent: Any) -> None:
        app: Any = make_app(service, frozenset(["localhost"]), loopback=True)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            assert (await client.post(path, json=sent)).json() == {"version": 1, "status": "applied"}

    async def run(host: Host) -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as to_writer:
            service = Service(host, forward=_passing_on(to_writer, Limits()))
            await send(service, "/v1/models/m/refit", {"op": "1"})
            await send(service, "/v1/models/m/learn", {"op": "2", "rows": [["a"]], "labels": ["x"]})
            await service.end()

    with Host(tmp_path) as host:
        asyncio.run(run(host))
    assert waited == {"refit": inspect.signature(Client.refit).parameters["timeout"].default, "learn": 60.0}


def test_a_model_without_a_sample_is_a_409_over_http(server: serving.Running, tmp_path: Path) -> None:
    X, y = examples()
    save(MemoryClassifier(vote=LogLinear(), keep=False).fit(X, y), tmp_path / "m")
    with Client(server.url) as client:
        client.upload("kept-nothing", tmp_path / "m")
        with pytest.raises(ServerError, match="upload") as refused:
            client.refit("kept-nothing")
        assert (refused.value.status, refused.value.code) == (409, "nothing_kept")


@pytest.mark.parametrize("body", [{}, {"op": ""}, {"op": "a b"}, {"op": "a", "rows": [["a"]]}, [], "a"])
def test_what_is_no_refit_is_refused(server: serving.Running, body: Any) -> None:
    import httpx

    assert httpx.post(f"{server.url}/v1/models/m/refit", json=body).status_code in (404, 422)
    with Client(server.url) as client:
        client.create("there", columns=1)
    assert httpx.post(f"{server.url}/v1/models/there/refit", json=body).status_code == 422


def test_the_document_has_it(server: serving.Running) -> None:
    import httpx

    told = httpx.get(f"{server.url}/openapi.json").json()["paths"]["/v1/models/{model}/refit"]["post"]
    assert told["description"] == "Needs the role forget."
    assert {"200", "404", "409", "422"} <= set(told["responses"])
