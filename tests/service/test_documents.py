"""Whole documents on a server: the same bytes as in the library, once, also after a crash and for whoever follows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import running_servers as serving
from hammemo import NO_TOKEN, Bag, Exact, Hashed, Ledgered, MemoryClassifier, Mixture, Suffixes, save
from hammemo.client import Client, ServerError
from hammemo.service import writing
from hammemo.service.applying import Applier
from hammemo.service.host import Host
from hammemo.service.http import asking
from hammemo.service.http.asking import Asked, table
from hammemo.service.log import LogError
from hammemo.service.operations import (
    Documents,
    Edit,
    Limits,
    Malformed,
    NothingKept,
    NotStored,
    OpReused,
    Receipt,
    TooLarge,
    Unavailable,
    decoded,
    encoded,
)
from hammemo.service.settings import Settings
from hammemo.service.sqlite_log import SqliteLog
from hammemo.service.writing import Upkeep
from hammemo.tokens.cutting import Cutting
from pace import patience
from postgres_server import Server, needs_postgres, one_server, postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hammemo.service.hosted import HostedModel
    from hammemo.service.operations import Content

__all__ = ["postgres"]

Visits = list[list[Any]]


def visits(n: int = 120, seed: int = 0) -> Visits:
    rng = np.random.default_rng(seed)
    walks = rng.integers(0, 12, (n, 1)) + np.cumsum(rng.integers(0, 3, (n, 6)), axis=1)
    return [walk[: rng.integers(1, 7)].tolist() for walk in walks]


def learnt(documents: Visits, short: Literal["drop", "pad"] = "pad") -> MemoryClassifier:
    h = 3 if short == "pad" else 2
    return MemoryClassifier(Suffixes(1) + Bag(h), vote=Mixture()).fit_stream(documents, h=h, short=short)


def held(clf: MemoryClassifier | None) -> tuple[Any, ...]:
    """Return everything that an edit may change: the state, the kept sample and the weights, as bytes."""
    assert clf is not None
    sample = clf.sample_
    kept = None if sample is None else {name: array.tobytes() for name, array in sample.packed().items()}
    fitted = {name: array.tobytes() for name, array in clf.vote_.state().items()}
    return clf.memory_.state_bytes(), kept, fitted, clf.classes_.tolist()


def now(model: HostedModel) -> tuple[Any, ...]:
    return held(model.state().model)


def learn(op: str, documents: Visits) -> Edit:
    return Edit(op, "learn", documents=documents)


def forget(op: str, documents: Visits) -> Edit:
    return Edit(op, "forget", documents=documents)


def done(model: HostedModel, edit: Edit) -> Receipt:
    return model.edit(edit).result()


@pytest.fixture
def uploaded(tmp_path: Path) -> Path:
    """Return the file of a model of visits."""
    save(learnt(visits()), tmp_path / "visits.model")
    return tmp_path / "visits.model"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[needs_postgres, one_server])])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Return a function that opens the same models again and again; all are closed in the end."""
    log = None
    if request.param == "postgres":
        server: Server = request.getfixturevalue("postgres")
        log = server.address
    made: list[Host] = []

    def make(**options: Any) -> Host:
        made.append(Host(tmp_path / "models", log, **options))
        return made[-1]

    first = make()
    for name in first.names("t"):
        first.delete("t", name)
    first.close()
    yield make
    for host in made:
        host.close()


def test_edits_are_those_of_the_library(hosts: Callable[..., Host], uploaded: Path) -> None:
    new = [[50, 51, 52, 50, 53], [51], [1, 2]]
    twin = learnt(visits())
    host = hosts(upkeep=Upkeep(at_close=False))
    model = host.upload("t", "m", uploaded)
    assert done(model, learn("1", new)) == Receipt(1, "applied")
    assert now(model) == held(twin.partial_fit_stream(new))
    assert done(model, forget("2", visits()[:5])) == Receipt(2, "applied")
    assert now(model) == held(twin.forget_stream(visits()[:5]))
    assert done(model, learn("1", new)) == Receipt(1, "repeated")
    assert now(model) == held(twin)
    host.close()
    again = hosts().get("t", "m")
    assert (again.version, again.replayed) == (2, 2)
    assert now(again) == held(twin)
    again.snapshot()
    done(again, learn("3", new))
    assert now(again) == held(twin.partial_fit_stream(new))


def test_after_forget_and_refit_the_model_is_that_of_the_rest(hosts: Callable[..., Host], uploaded: Path) -> None:
    model = hosts(upkeep=Upkeep(at_close=False)).upload("t", "m", uploaded)
    rest = model.answering()[0].empty_like().partial_fit_stream(visits()[7:]).refit()
    done(model, forget("1", visits()[:7]))
    assert now(model) != held(rest)  # the weights
    assert done(model, Edit("2", "refit")) == Receipt(2, "applied")
    assert now(model) == held(rest)


def test_a_follower_has_the_same_bytes(hosts: Callable[..., Host], uploaded: Path) -> None:
    model = hosts().upload("t", "m", uploaded)
    followed = hosts(follower=True).get("t", "m")
    for n, visit in enumerate(visits()[:3]):
        done(model, forget(f"a{n}", [visit]))
        done(model, learn(f"b{n}", [[70 + n, 1]]))
        version = done(model, Edit(f"c{n}", "refit")).version
        assert held(followed.answering(version, wait=patience(60))[0]) == now(model)


def test_an_id_belongs_to_one_edit(tmp_path: Path, uploaded: Path) -> None:
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", uploaded)
        done(model, learn("1", [[1, 2, 3]]))
        before = now(model)
        others = [
            learn("1", [[1, 2]]),
            learn("1", [[1, 2], [3]]),
            forget("1", [[1, 2, 3]]),
            Edit("1", "learn", [[1, 2, 3]], [4]),
        ]
        for other in others:
            with pytest.raises(OpReused):
                done(model, other)
        assert (model.version, now(model)) == (1, before)


def test_what_is_not_stored_changes_nothing(tmp_path: Path, uploaded: Path) -> None:
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", uploaded)
        before = now(model)
        for n, missing in enumerate([[[99]], [visits()[0], [1, 99]], [visits()[0]] * 200, [["1", "2"]]]):
            with pytest.raises(NotStored):
                done(model, forget(f"{n}", missing))
            assert (model.version, now(model)) == (0, before)
        done(model, learn("0", [[99]]))  # the id of a refused edit is free
        done(model, forget("5", [[99]]))
        assert now(model) == before


@pytest.mark.parametrize(
    "documents",
    [
        [[]],
        [[1], []],
        [[None]],
        [[float("nan")]],
        [["a", 1]],
        [[1.5]],
        [[2**63]],
        [[2**70]],
        [["\ud800"]],
        [[NO_TOKEN]],
    ],
    ids=repr,
)
def test_crafted_documents_are_refused_and_change_nothing(documents: Visits, tmp_path: Path, uploaded: Path) -> None:
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", uploaded)
        before = now(model)
        with pytest.raises(Malformed):
            done(model, learn("1", documents))
        assert (model.version, now(model)) == (0, before)


@pytest.mark.parametrize("documents", [[[1.0]], [[1.0, "a"]], [[1], ["a"]], [[True]]], ids=repr)
def test_a_model_of_strings_stays_one(documents: Visits, tmp_path: Path) -> None:
    save(learnt([["a", "b"], ["b", "c"]]), tmp_path / "m")
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", tmp_path / "m")
        before = now(model)
        with pytest.raises(Malformed):
            done(model, learn("1", documents))
        assert now(model) == before


def test_a_document_too_short_for_its_model_is_refused(tmp_path: Path) -> None:
    twin = learnt(visits(), "drop")
    save(twin, tmp_path / "m")
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", tmp_path / "m")
        before = now(model)
        with pytest.raises(Malformed, match=r"nothing to learn.*more than 2 tokens"):
            done(model, learn("1", [[1], [1, 2]]))
        assert (model.version, now(model)) == (0, before)
        done(model, learn("2", [[1], [1, 2, 3]]))
        assert now(model) == held(twin.partial_fit_stream([[1], [1, 2, 3]]))
        with pytest.raises(Malformed, match=r"2 tokens.*first 2.*leave it out"):
            done(model, forget("3", [[1, 2, 3], [1, 2]]))
        done(model, forget("3", [[1, 2, 3]]))
        assert now(model) == before


@pytest.mark.parametrize("made", [{"columns": 4}, {}])
def test_a_model_that_was_not_made_of_documents_says_what_to_do(made: dict[str, Any], tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        model = host.create("t", "m", made)
        for edit in (learn("1", [["a", "b"]]), forget("2", [["a", "b"]])):
            with pytest.raises(Malformed, match=r"not fitted to documents.*rows and labels.*fit_stream.*upload"):
                done(model, edit)
        assert done(model, Edit("1", "learn", [["a"] * 4], ["x"])).version == 1


@pytest.mark.parametrize(
    ("limits", "documents", "said"),
    [
        (Limits(documents=2), [[1]] * 3, "3 documents.*send parts"),
        (Limits(tokens=5), [[1, 2], [3, 4], [5, 6]], "6 tokens.*several edits"),
        (Limits(document=3), [[1, 2, 3, 4]], "4 tokens.*another document"),
        (Limits(text=3), [["abcd"]], "3 characters"),
        (Limits(body=40), [["abcd"]] * 20, "bytes"),
    ],
)
def test_limits(limits: Limits, documents: Visits, said: str) -> None:
    for kind in ("learn", "forget"):
        with pytest.raises(TooLarge, match=said):
            encoded(Edit("op", kind, documents=documents), limits)
    encoded(learn("op", documents[:1]), Limits())


def test_an_edit_has_documents_or_rows() -> None:
    with pytest.raises(Malformed, match="not both"):
        encoded(Edit("op", "learn", [["a"]], ["x"], [["a"]]), Limits())
    with pytest.raises(Malformed, match="no documents"):
        encoded(Edit("op", "refit", documents=[["a"]]), Limits())


TOKENS = st.one_of(st.text(max_size=3), st.integers(-(2**63), 2**64 - 1), st.booleans(), st.none(), st.just(1.0))


@given(documents=st.lists(st.lists(TOKENS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_what_the_log_keeps_is_what_was_sent(documents: Visits) -> None:
    for edit in (learn("op", documents), forget("op", documents)):
        again = decoded(encoded(edit, Limits()))
        assert isinstance(again, Documents)
        assert repr(again.documents) == repr(documents)  # 1, 1.0 and True differ
        assert again.learns == (edit.kind == "learn")


def test_older_versions_can_name_the_kind() -> None:
    """They take a kind for one only where it is a plain word, and else say that the log is damaged."""
    for edit in (learn("op", [["a", 1]]), forget("op", [["a", 1]])):
        kind, *_ = msgspec.msgpack.decode(encoded(edit, Limits()))
        assert re.fullmatch(r"[a-z]{1,20}", kind)
    assert encoded(learn("op", [["a", 1]]), Limits()) == b"\x92\xablearnstream\x91\x92\xa1a\x01"  # kept over upgrades


@pytest.mark.parametrize("wrong", [[], [[]], [["a"], []], "a", [[["a"]]], {}, [1]])
def test_damaged_bodies_are_no_documents(wrong: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoded(msgspec.msgpack.encode(["learnstream", wrong]))
    with pytest.raises(msgspec.ValidationError):
        decoded(msgspec.msgpack.encode(["forgetstream", [["a"]], 1]))


def test_a_visit_learnt_by_rows_and_forgotten_as_a_whole_ends_the_sample(tmp_path: Path, uploaded: Path) -> None:
    """The counts are exact whichever way; the sample of whole visits cannot tell, and a refit says so."""
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", uploaded)
        state = now(model)[0]
        done(model, Edit("1", "learn", [[NO_TOKEN, NO_TOKEN, 80], [NO_TOKEN, 80, 81]], [81, 82]))
        done(model, Edit("2", "learn", [[NO_TOKEN] * 3], [80]))
        done(model, forget("3", [[80, 81, 82]]))
        assert now(model)[0] == state
        with pytest.raises(NothingKept, match="otherwise than it was learnt"):
            done(model, Edit("4", "refit"))


def test_threads_edit_at_once(tmp_path: Path, uploaded: Path) -> None:
    receipts: list[Receipt] = []
    with Host(tmp_path / "models", upkeep=Upkeep(at_close=False)) as host:
        model = host.upload("t", "m", uploaded)

        def edit(k: int) -> None:
            for n in range(8):
                receipts.append(done(model, learn(f"{k}+{n}", [[k, n, k, 90], [k]])))
                receipts.append(done(model, forget(f"{k}-{n}", [[k, n, k, 90]])))

        threads = [threading.Thread(target=edit, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        twin = learnt(visits()).partial_fit_stream([[k] for k in range(4)] * 8)
        assert sorted(receipt.version for receipt in receipts) == list(range(1, 65))
        assert now(model) == held(twin)
    with Host(tmp_path / "models") as host:
        again = host.get("t", "m")
        assert (again.replayed, now(again)) == (64, held(twin))


def test_a_lease_is_prolonged_while_many_are_learnt(
    tmp_path: Path, uploaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tended, learn_documents = threading.Event(), MemoryClassifier.partial_fit_stream

    def slow(self: MemoryClassifier, documents: Visits) -> MemoryClassifier:
        tended.clear()
        assert tended.wait(patience(60)), "nobody looks after the log"
        return learn_documents(self, documents)

    monkeypatch.setattr(writing, "_IDLE", 0.01)
    monkeypatch.setattr(SqliteLog, "tend", lambda _: tended.set())
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", uploaded)
        monkeypatch.setattr(MemoryClassifier, "partial_fit_stream", slow)
        assert done(model, learn("1", [[1, 2]] * 500)).version == 1


@pytest.mark.parametrize("written", [False, True])
def test_a_commit_that_fails_is_in_doubt_and_sent_again(
    written: bool, tmp_path: Path, uploaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = SqliteLog.append

    def failing(*arguments: Any) -> None:
        if written:
            append(*arguments)
        monkeypatch.undo()
        raise LogError("as if")

    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", uploaded)
        before, edit = now(model), learn("1", [[1, 60, 2]])
        monkeypatch.setattr(SqliteLog, "append", failing)
        with pytest.raises(Unavailable):
            done(model, edit)
        assert now(model) == before
        assert done(model, edit) == Receipt(1, "repeated" if written else "applied")
        assert now(model) == held(learnt(visits()).partial_fit_stream(edit.documents))


KILLED = """
import os, signal, sys
from hammemo.service.host import Host
from hammemo.service.operations import Edit
from hammemo.service.writing import Upkeep
sys.path.insert(0, sys.argv[2])
from test_documents import done, forget, learn, now, visits
host = Host(sys.argv[1], upkeep=Upkeep(at_close=False))
model = host.get("t", "m")
done(model, forget("1", visits()[:9]))
done(model, Edit("2", "refit"))
done(model, learn("3", [[1, 60, 2]]))
print(repr(now(model)), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_after_kill_the_bytes_are_the_same(tmp_path: Path, uploaded: Path) -> None:
    with Host(tmp_path / "models") as host:
        host.upload("t", "m", uploaded)
    script = [sys.executable, "-c", KILLED, str(tmp_path / "models"), os.path.dirname(__file__)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(script, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    with Host(tmp_path / "models") as host:
        again = host.get("t", "m")
        assert (again.replayed, repr(now(again))) == (3, ended.stdout.strip())


# In groups

MODELS = [
    (Cutting("pad"), Exact()),
    (Cutting("pad", 3), Ledgered(Exact())),
    (Cutting("drop"), Exact()),
    (Cutting("drop"), Ledgered(Hashed(buckets=4, reserved=2))),
]


@st.composite
def edits(draw: st.DrawFn) -> list[Content]:
    crafted = draw(st.booleans())
    plain = [1, 2, 3]
    tokens = st.sampled_from([*plain, 1.0, True, "1", "a", 2**63, NO_TOKEN] if crafted else plain)
    documents = st.lists(st.lists(tokens, min_size=1, max_size=5), min_size=1, max_size=3)
    kinds: Any = st.sampled_from(["learnstream", "learnstream", "forgetstream"])
    return draw(st.lists(st.builds(Documents, kinds, documents), max_size=10))


@pytest.mark.parametrize(("cutting", "memory"), MODELS, ids=repr)
@given(bodies=edits())
@settings(max_examples=50)
def test_groups_equal_single_edits(cutting: Cutting, memory: Any, bodies: list[Content]) -> None:
    vote: Any = "sum" if isinstance(memory, Ledgered) and isinstance(memory.memory, Hashed) else Mixture()
    start = MemoryClassifier(Suffixes(2), memory, vote, 0)
    start.fit_stream([[1, 2, 3, 1], [2, 1, 3]], h=2, short=cutting.short, pad=cutting.pad)
    chosen = Settings.of_file(None)
    together = Applier(start, chosen, Limits())
    together.apply(bodies)
    model, refused = start, {}
    for i, body in enumerate(bodies):
        single = Applier(model, chosen, Limits())
        single.apply([body])
        assert single.model is not None
        model = single.model
        if single.refused:
            refused[i] = type(single.refused[0])
    assert {i: type(error) for i, error in together.refused.items()} == refused
    assert held(together.model) == held(model)
    again = Applier(start, chosen)  # what was accepted is applied by whoever replays
    again.apply([body for i, body in enumerate(bodies) if i not in refused])
    assert not again.refused
    assert held(again.model) == held(model)


# Over HTTP


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Running]:
    with serving.in_thread(tmp_path_factory.mktemp("served")) as running:
        yield running


def test_a_client_learns_and_forgets_visits(server: serving.Running, uploaded: Path) -> None:
    import httpx

    with Client(server.url) as client:
        client.upload("m", uploaded)
        arrays: Any = (np.array(visit) for visit in ([1, 60, 2], [3]))
        assert client.learn_stream("m", [[1, 60, 2], (3,)], op="a") == (1, "applied")
        assert client.learn_stream("m", arrays, op="a") == (1, "repeated")
        assert client.forget_stream("m", [[1, 60, 2]]).version == 2
        twin = learnt(visits()).partial_fit_stream([[3]])
        assert now(next(model for model in server.service.host.opened() if model.name == "m")) == held(twin)
        with pytest.raises(ServerError) as missing:
            client.forget_stream("m", [[1, 60, 2]])
        assert (missing.value.status, missing.value.code) == (409, "not_stored")
        with pytest.raises(ServerError) as other:
            client.learn_stream("m", [[1]], op="a")
        assert (other.value.status, other.value.code) == (422, "op_reused")
        lines = httpx.get(f"{server.url}/metrics").text.splitlines()
        assert 'hammemo_edits_total{kind="learn",model="m",status="applied"} 1.0' in lines
        assert 'hammemo_edits_total{kind="learn",model="m",status="repeated"} 1.0' in lines
        assert 'hammemo_edited_documents_total{kind="learn",model="m"} 2.0' in lines
        assert 'hammemo_edited_documents_total{kind="forget",model="m"} 1.0' in lines
        assert 'hammemo_requests_total{ask="forget-stream",status="409"} 1.0' in lines


ANY_ROWS = st.lists(st.lists(st.integers(0, 30), max_size=6), max_size=4)


@pytest.fixture(scope="module")
def asked(server: serving.Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Any]]:
    """Return a client and a model of visits, which is on its server as "asked"."""
    clf = learnt(visits())
    path = tmp_path_factory.mktemp("asked") / "m"
    save(clf, path)
    with Client(server.url) as client:
        client.upload("asked", path)
        yield client, clf


@given(rows=ANY_ROWS)
@settings(max_examples=25)
def test_questions_of_any_length_are_those_of_the_library(asked: tuple[Client, Any], rows: Visits) -> None:
    client, clf = asked
    whole = [[NO_TOKEN] * (3 - len(row)) + row[-3:] for row in rows]
    for question in (rows, whole):
        assert client.predict("asked", question) == (clf.predict(rows).tolist() if rows else [])
        assert client.top_k("asked", question, 4) == (clf.top_k(rows, 4).tolist() if rows else [])
        assert client.certify("asked", question) == (clf.certify(rows).tolist() if rows else [])
        _, found = client.probabilities("asked", question)
        assert np.allclose(found, clf.predict_proba(rows) if rows else [], rtol=1e-12, atol=0)
        assert list(client.explain("asked", question)) == [clf.explain(row).to_dict() for row in rows]


@pytest.mark.parametrize("row", [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4], ["1"], [99, None], [2.5]], ids=str)
def test_the_short_way_takes_rows_of_any_length(row: list[Any], asked: tuple[Client, Any]) -> None:
    ready = Asked(asked[1], 1).prepare()
    (cut,) = ready.cut([row])
    short = ready.predict_one(cut)
    long = [[NO_TOKEN] * (3 - len(row)) + row[-3:]]
    assert short is None or [short] == asked[1].predict(table(long)).tolist()


def test_the_inference_protocol_takes_any_length(server: serving.Running, asked: tuple[Client, Any]) -> None:
    import httpx

    for rows in ([[1], [2]], [[1, 2, 3, 4, 5]]):
        data = {"name": "rows", "shape": [len(rows), len(rows[0])], "datatype": "INT64", "data": rows}
        told = httpx.post(f"{server.url}/v2/models/asked/infer", json={"inputs": [data]}).json()
        assert told["outputs"][0]["data"] == asked[1].predict(rows).tolist()
    assert httpx.get(f"{server.url}/v2/models/asked").json()["inputs"][0]["shape"] == [-1, -1]
    assert asked[0].describe("asked")["cutting"] == {"short": "pad", "pad": None}


def test_rows_that_no_model_can_read_are_refused(
    server: serving.Running, asked: tuple[Client, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = asked
    save(learnt(visits(), "drop"), tmp_path / "m")
    client.upload("dropped", tmp_path / "m")
    assert client.predict("dropped", [[1, 2], [5, 1, 2]]) == learnt(visits(), "drop").predict([[1, 2]] * 2).tolist()
    with pytest.raises(ServerError, match="no beginnings"):
        client.predict("dropped", [[1, 2], [1]])
    client.create("table", columns=2)
    client.learn("table", [["a", "b"]], ["x"])
    others: list[Visits] = [[["a"]], [["a", "b"], ["a", "b", "c"]], [[]]]
    for rows in others:
        for question in ("predict", "top-k", "probabilities", "explain", "certify"):
            with pytest.raises(ServerError, match="2 tokens; one of these has") as refused:
                client.ask("table", question, rows)
            assert refused.value.status == 422
    with pytest.raises(ServerError, match="longer than") as long:
        client.predict("asked", [[1] * (server.service.limits.tokens + 1)])
    assert long.value.status == 413
    monkeypatch.setattr(asking, "_MOST_FILLED", 10)
    with pytest.raises(ServerError, match="filled up") as many:
        client.top_k("asked", [[1]] * 4)
    assert many.value.status == 413
    assert len(client.top_k("asked", [[1]] * 3)) == 3


@pytest.mark.parametrize("documents", ["abc", ["abc"], [1, 2], [[1], 2], [b"abc"]])
def test_a_client_refuses_what_is_no_list_of_documents(documents: Any) -> None:
    with Client("http://127.0.0.1:1", patience=0) as client, pytest.raises(TypeError, match=r"\[tokens\]"):
        client.learn_stream("m", documents)


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"op": "a"},
        {"op": "a", "documents": []},
        {"op": "a", "documents": [[]]},
        {"op": "a", "documents": [["a"], "b"]},
        {"op": "a", "documents": [[["a"]]]},
        {"op": "a", "documents": [[None]]},
        {"op": "a", "documents": [["a"]], "rows": [["a"]], "labels": ["a"]},
        {"op": "a", "documents": [[10**30]]},
    ],
    ids=str,
)
@pytest.mark.parametrize("ask", ["learn-stream", "forget-stream"])
def test_what_is_no_edit_is_refused(server: serving.Running, uploaded: Path, ask: str, sent: Any) -> None:
    import httpx

    with Client(server.url) as client:
        if "whole" not in client.models():
            client.upload("whole", uploaded)
        answer = httpx.post(f"{server.url}/v1/models/whole/{ask}", json=sent)
        assert (answer.status_code, client.describe("whole")["version"]) == (422, 0)


def test_the_document_has_them(server: serving.Running) -> None:
    import httpx

    told = httpx.get(f"{server.url}/openapi.json").json()
    for ask, role, statuses in (("learn", "learn", {"404", "422"}), ("forget", "forget", {"404", "409", "422"})):
        found = told["paths"][f"/v1/models/{{model}}/{ask}-stream"]["post"]
        assert found["description"] == f"Needs the role {role}."
        assert {"200", "413", *statuses} <= set(found["responses"])
    schema = told["components"]["schemas"]["StreamBody"]
    assert schema["required"] == ["op", "documents"]
