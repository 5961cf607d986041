"""Answers over HTTP: those of the library, of one version, in the forms that the document shows."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import running_servers as serving
from hammemo import MemoryClassifier, save
from hammemo.client import Client, ServerError
from hammemo.memories import Exact, Hashed
from hammemo_server.edits.operations import Malformed
from hammemo_server.http.answering import ReadyVersion, table
from hammemo_server.http.connections import JoinedHead
from hammemo_server.http.service import Results

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = [["red", "small"], ["green", "large"], ["red", "large"], ["green", "small"]]
LABELS = ["cherry", "melon", "apple", "grape"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Running]:
    with serving.in_thread(tmp_path_factory.mktemp("models")) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: serving.Running) -> Iterator[Client]:
    with Client(server.url) as made:
        made.create("fruit", columns=["colour", "size"], seed=0)
        made.learn("fruit", ROWS, LABELS, op="first")
        yield made


@pytest.fixture(scope="module")
def twin() -> MemoryClassifier:
    """The same model, in this process."""
    return MemoryClassifier(memory=Exact(), keep="auto+digests", random_state=0).partial_fit(ROWS, LABELS)


def test_explanations_of_an_uploaded_model_name_its_columns_also_after_a_restart(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(ROWS, columns=["colour", "size"])
    clf = MemoryClassifier().fit(frame, LABELS)
    save(clf, tmp_path / "m")
    wanted = str(clf.explain(ROWS[0]))
    assert "colour: 'red'" in wanted
    for restarted in (False, True):
        with serving.in_thread(tmp_path / "models") as server, Client(server.url) as client:
            if not restarted:
                client.upload("m", tmp_path / "m")
            assert str(client.explain("m", ROWS[:1])) == wanted
            assert client.describe("m")["column_names"] == ["colour", "size"]
            if not restarted:
                client.learn("m", [["blue", "huge"]], ["whale"])
                client.forget("m", [["blue", "huge"]], ["whale"])
                assert client.snapshot("m") == 2
                client.create("nameless", columns=2)
            assert client.describe("nameless")["column_names"] is None


def test_answers_are_those_of_the_library(client: Client, twin: MemoryClassifier) -> None:
    asked: list[list[str | None]] = [*map(list[str | None], ROWS), ["red", None], ["blue", "large"]]
    X = table(asked)
    assert client.predict("fruit", asked) == twin.predict(X).tolist()
    assert client.top_k("fruit", asked, 3) == twin.top_k(X, 3).tolist()
    assert client.top_k("fruit", asked, 3, exclude="seen") == twin.top_k(X, 3, exclude="seen").tolist()
    with pytest.raises(ServerError, match="exclude"):
        client.ask("fruit", "top-k", asked, exclude="all")
    with pytest.raises(ServerError, match="2 lists or labels for"):
        client.top_k("fruit", asked, allow=[["pear"], ["plum"]])
    best, scores = twin.top_k(X, 2, exclude=twin.classes_[:1], return_scores=True)
    answer = client.top_k("fruit", asked, 2, exclude=twin.classes_[:1], return_scores=True)
    assert answer == (best.tolist(), scores.tolist())
    assert client.certify("fruit", asked) == twin.certify(X).tolist()
    classes, probabilities = client.probabilities("fruit", asked)
    assert classes == twin.classes_.tolist()
    assert np.allclose(probabilities, twin.predict_proba(X), rtol=1e-12, atol=0)
    (explained,) = client.explain("fruit", [["red", "small"]], 2)
    assert explained["labels"] == ["cherry", "apple"]


def test_explanations_print_as_those_of_the_library(client: Client, twin: MemoryClassifier) -> None:
    found = client.explain("fruit", ROWS[:2], 2)
    wanted = [replace(twin.explain(row, 2), names=("colour", "size")) for row in ROWS[:2]]
    assert str(found) == "\n\n".join(map(str, wanted))
    assert str(found[0]) == str(wanted[0])
    assert found[0].explanation().to_dict() == wanted[0].to_dict()
    assert json.loads(json.dumps(found)) == client.ask("fruit", "explain", ROWS[:2], k=2)["explanations"]
    assert str(client.explain("fruit", [])) == ""


def test_every_answer_names_its_version(client: Client) -> None:
    for question in ("predict", "top-k", "probabilities", "explain", "certify"):
        assert client.ask("fruit", question, ROWS[:1])["version"] == 1


def test_no_rows_have_no_answers(client: Client) -> None:
    assert client.predict("fruit", []) == []
    assert client.top_k("fruit", []) == []
    assert client.certify("fruit", []) == []
    assert client.explain("fruit", []) == []
    assert client.probabilities("fruit", [])[1] == []


def test_an_edit_is_applied_once_and_can_be_taken_back(client: Client) -> None:
    client.create("edits")
    assert client.learn("edits", [["a"]], ["x"], op="one") == (1, "applied", "")
    assert client.learn("edits", [["a"]], ["x"], op="one") == (1, "repeated", "")
    assert client.describe("edits")["examples"] == 1
    with pytest.raises(ServerError) as reused:
        client.learn("edits", [["b"]], ["x"], op="one")
    assert (reused.value.status, reused.value.code) == (422, "op_reused")
    with pytest.raises(ServerError) as never:
        client.forget("edits", [["b"]], ["x"])
    assert (never.value.status, never.value.code) == (409, "not_stored")
    client.learn("edits", [["b"]], ["y"])
    assert client.forget("edits", [["a"]], ["x"]).version == 3
    assert client.describe("edits")["classes"] == ["y"]


def test_tokens_keep_their_kind(client: Client) -> None:
    client.create("kinds", vote="sum")
    rows: list[list[Any]] = [["1"], [1], [True], [None]]
    labels = ["text", "number", "truth", "nothing"]
    version = client.learn("kinds", rows, labels).version
    twin = MemoryClassifier(memory=Exact(), keep="auto+digests", vote="sum").partial_fit(table(rows), labels)
    assert client.predict("kinds", rows, min_version=version) == twin.predict(table(rows)).tolist()


@pytest.mark.parametrize("label", ["text", 3, True, 2.0])
def test_labels_keep_their_kind(client: Client, label: Any) -> None:
    name = f"label-{type(label).__name__}"
    client.create(name)
    client.learn(name, [["a"]], [label])
    (found,) = client.predict(name, [["a"]])
    twin = MemoryClassifier(memory=Exact()).partial_fit([["a"]], [label])
    assert [found] == twin.predict([["a"]]).tolist()
    assert type(found) is type(label)


def test_a_version_that_is_not_reached_is_said(server: serving.Running, client: Client) -> None:
    answer = httpx.post(f"{server.url}/v1/models/fruit/predict", json={"rows": ROWS[:1], "min_version": 99})
    assert answer.status_code == 425
    assert answer.json()["error"]["code"] == "not_reached"


def test_a_model_without_examples_says_so(client: Client) -> None:
    client.create("empty", columns=1)
    with pytest.raises(ServerError) as empty:
        client.predict("empty", [["a"]])
    assert (empty.value.status, empty.value.code) == (409, "nothing_learnt")


def test_questions_that_a_model_cannot_answer(client: Client) -> None:
    client.create("sums", vote="sum")
    client.learn("sums", [["a"]], ["x"])
    with pytest.raises(ServerError, match="probabilities") as refused:
        client.probabilities("sums", [["a"]])
    assert refused.value.status == 422
    with pytest.raises(ServerError, match="tokens") as wide:
        client.predict("sums", [["a", "b"]])
    assert wide.value.status == 422


def test_models_are_listed_described_and_removed(client: Client) -> None:
    client.create("passing")
    assert "passing" in client.models()
    client.delete("passing")
    assert "passing" not in client.models()
    for lost in (lambda: client.describe("passing"), lambda: client.delete("passing")):
        with pytest.raises(ServerError) as gone:
            lost()
        assert gone.value.status == 404


def test_a_description_names_at_most_a_thousand_labels(client: Client) -> None:
    client.create("many")
    client.learn("many", [[str(i)] for i in range(1_500)], [f"label {i}" for i in range(1_500)])
    told = client.describe("many")
    assert (told["n_classes"], len(told["classes"])) == (1_500, 1_000)


def test_a_description_has_the_digest_of_the_file(client: Client, tmp_path: Path) -> None:
    from hammemo import load

    assert client.create("audited", columns=["colour", "size"])["digest"] is not None
    for n, colour in enumerate(["red", "blue"]):
        client.learn("audited", [[colour, "small"]], ["fruit"])
        told = client.describe("audited")
        client.download("audited", tmp_path / f"{n}.model")
        assert told["digest"] == load(tmp_path / f"{n}.model").digest() == client.describe("audited")["digest"]
    assert client.create("open")["digest"] is None


def test_a_file_is_uploaded_and_downloaded(client: Client, twin: MemoryClassifier, tmp_path: Path) -> None:
    from hammemo import load, save

    save(twin, tmp_path / "here.model")
    client.upload("there", tmp_path / "here.model")
    client.learn("there", [["blue", "small"]], ["plum"])
    client.download("there", tmp_path / "back.model")
    back = load(tmp_path / "back.model")
    wanted = twin.snapshot().partial_fit([["blue", "small"]], ["plum"])
    assert back.memory_.state_bytes() == wanted.memory_.state_bytes()
    with pytest.raises(ServerError) as again:
        client.upload("there", tmp_path / "here.model")
    assert again.value.status == 409
    (tmp_path / "no.model").write_bytes(b"no model at all")
    with pytest.raises(ServerError) as wrong:
        client.upload("wrong", tmp_path / "no.model")
    assert wrong.value.status == 422
    assert str(tmp_path) not in str(wrong.value)


def test_files_on_their_way_leave_nothing_behind(server: serving.Running, client: Client, tmp_path: Path) -> None:
    folder = server.service.host.folder
    client.download("fruit", tmp_path / "fruit.model")
    assert not list(folder.glob(".*"))
    left, recent = folder / ".transfer-left", folder / ".transfer-recent"
    for path in (left, recent):
        path.mkdir()
    os.utime(left, (0, 0))
    server.service.remove_leftovers()
    assert [path.name for path in folder.glob(".*")] == [recent.name]
    recent.rmdir()


def test_the_inference_protocol(server: serving.Running, client: Client) -> None:
    with httpx.Client(base_url=server.url) as http:
        check_protocol(http, client)


def check_protocol(http: httpx.Client, client: Client) -> None:
    assert http.get("/v2").json()["name"] == "hammemo"
    assert http.get("/v2/health/live").json() == {"live": True}
    assert http.get("/v2/health/ready").json() == {"ready": True}
    assert http.get("/v2/models/fruit").json()["inputs"][1] == {"name": "size", "datatype": "BYTES", "shape": [-1]}
    assert http.get("/v2/models/fruit/ready").json()["ready"] is True
    assert http.get("/v2/models/none/ready").status_code == 404
    tensor = {"name": "rows", "shape": [2, 2], "datatype": "BYTES", "data": ["red", "small", "green", "large"]}
    told = http.post("/v2/models/fruit/infer", json={"id": "7", "inputs": [tensor]}).json()
    assert told == {
        "model_name": "fruit",
        "model_version": "1",
        "outputs": [{"name": "label", "shape": [2], "datatype": "BYTES", "data": ["cherry", "melon"]}],
        "id": "7",
    }
    nested = {**tensor, "data": [["red", "small"], ["green", "large"]]}
    assert http.post("/v2/models/fruit/infer", json={"inputs": [nested]}).json()["outputs"] == told["outputs"]
    changes: tuple[dict[str, Any], ...] = (
        {"shape": [3, 2]},
        {"datatype": "INT64"},
        {"datatype": "FP32"},
        {"data": []},
        {"shape": [0, 0]},
    )
    for wrong in changes:
        answer = http.post("/v2/models/fruit/infer", json={"inputs": [{**tensor, **wrong}]})
        assert answer.status_code == 422, wrong
    client.create("whole")
    client.learn("whole", [[1, 2]], [5])
    numbers = {"name": "rows", "shape": [2], "datatype": "INT64", "data": [1, 2]}
    output = http.post("/v2/models/whole/infer", json={"inputs": [numbers]}).json()["outputs"][0]
    assert output == {"name": "label", "shape": [1], "datatype": "INT64", "data": [5]}


def test_metrics_tell_of_requests_edits_and_models(server: serving.Running, client: Client) -> None:
    client.create("counted")
    client.learn("counted", [["a"]], ["x"], op="1")
    client.learn("counted", [["a"]], ["x"], op="1")
    client.snapshot("counted")
    text = httpx.get(f"{server.url}/metrics").text
    for line in (
        'hammemo_edits_total{kind="learn",model="counted",status="applied"} 1.0',
        'hammemo_edits_total{kind="learn",model="counted",status="repeated"} 1.0',
        'hammemo_edited_examples_total{kind="learn",model="counted"} 1.0',
        'hammemo_model_version{model="counted"} 1.0',
        'hammemo_model_snapshot_version{model="counted"} 1.0',
        'hammemo_requests_total{ask="snapshot",status="200"} 1.0',
    ):
        assert line in text.splitlines(), line
    for family in ("request_seconds_bucket", "model_replay_seconds", "model_snapshot_age_seconds", "model_log_bytes"):
        assert f"hammemo_{family}" in text
    assert "process_resident_memory_bytes" in text


def test_the_document_describes_every_operation(server: serving.Running) -> None:
    told = httpx.get(f"{server.url}/openapi.json").json()
    assert told["openapi"].startswith("3.1")
    learn = told["paths"]["/v1/models/{model}/learn"]["post"]
    assert learn["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/EditBody"}
    assert set(told["components"]["schemas"]["EditBody"]["required"]) == {"op", "rows", "labels"}
    page = httpx.get(f"{server.url}/docs")
    assert "/v1/models/{model}/learn" in page.text
    assert "content-security-policy" in page.headers


MEMORIES = {
    "exact, sum": (Exact(), "sum"),
    "exact, mean": (Exact(), "mean"),
    "exact, log-linear": (Exact(), "log-linear"),
    "hashed, sum": (Hashed(16, 8), "sum"),
    "hashed, log-linear": (Hashed(16, 8), "log-linear"),
}
tokens = st.one_of(
    st.sampled_from("abcd"), st.integers(-3, 3), st.none(), st.booleans(), st.text(max_size=3), st.floats(-2, 2)
)


@pytest.mark.parametrize("name", MEMORIES)
@settings(max_examples=40)
@given(
    rows=st.lists(st.lists(st.sampled_from("abcd"), min_size=2, max_size=2), min_size=1, max_size=20),
    asked=st.lists(tokens, min_size=2, max_size=2),
    data=st.data(),
)
def test_the_short_way_gives_the_answers_of_the_long_one(
    name: str, rows: list[list[str]], asked: list[Any], data: st.DataObject
) -> None:
    memory, vote = MEMORIES[name]
    labels = data.draw(st.lists(st.sampled_from("xyz"), min_size=len(rows), max_size=len(rows)))
    model = MemoryClassifier(memory=memory, vote=vote).partial_fit(table(rows), labels)
    short = ReadyVersion(model, 1).prepare().predict_one(asked)
    assert short is None or [short] == model.predict(table([asked])).tolist()


def numbers_and_names(n: int = 120) -> tuple[list[list[Any]], list[str]]:
    """Return rows of a whole number, a fraction and a name, some of each missing, as JSON has them."""
    rng = np.random.default_rng(0)
    ages, prices = rng.integers(17, 80, n).tolist(), rng.normal(0, 100, n).round(2).tolist()
    rows = [[age, price, job] for age, price, job in zip(ages, prices, rng.choice(["cook", "clerk"], n), strict=True)]
    labels = ["yes" if price + 50 * (job == "cook") > 0 else "no" for _, price, job in rows]
    for i, row in enumerate(rows):
        row[2] = str(row[2])
        if i % 7 == 0:
            row[i % 3] = None
    return rows, labels


def test_a_model_with_numbers_learns_forgets_and_answers(client: Client, tmp_path: Path) -> None:
    rows, labels = numbers_and_names()
    clf = MemoryClassifier(numeric=[0, 1]).fit(table(rows[:100]), labels[:100])
    save(clf, tmp_path / "numbers.model")
    client.upload("numbers", tmp_path / "numbers.model")

    def check() -> None:
        for asked in (rows, rows[:1], rows[1:2]):  # a single row takes the short way
            assert client.predict("numbers", asked) == clf.predict(table(asked)).tolist()
        classes, probabilities = client.probabilities("numbers", rows)
        assert classes == clf.classes_.tolist()
        assert np.allclose(probabilities, clf.predict_proba(table(rows)), rtol=1e-12, atol=0)
        assert str(client.explain("numbers", rows[:2])) == "\n\n".join(str(clf.explain(row)) for row in rows[:2])
        assert client.describe("numbers")["examples"] == clf.memory_.label_counts.sum()

    check()
    client.learn("numbers", rows[100:], labels[100:])
    clf.partial_fit(table(rows[100:]), labels[100:], choose=False)
    check()
    for part in (slice(0, 10), slice(10, 11)):
        client.forget("numbers", rows[part], labels[part])
        clf.forget(table(rows[part]), labels[part])
    check()
    with pytest.raises(ServerError, match="holds numbers, and 'old' is not one") as refused:
        client.learn("numbers", [["old", 1.5, "cook"]], ["yes"])
    assert refused.value.status == 422
    check()


@pytest.fixture(scope="module")
def ready_for_numbers() -> ReadyVersion:
    rows, labels = numbers_and_names()
    return ReadyVersion(MemoryClassifier(numeric=[0, 1]).fit(table(rows), labels), 1).prepare()


def test_floats_take_the_short_way(ready_for_numbers: ReadyVersion) -> None:
    assert ready_for_numbers.predict_one([30, 99.5, "cook"]) == "yes"


@settings(max_examples=60)
@given(
    st.tuples(
        st.one_of(st.integers(10, 90), st.none(), st.booleans()),
        st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-200, 200), st.integers(-200, 200)),
        st.one_of(st.sampled_from(["cook", "clerk", "judge"]), st.none(), st.floats(0, 1)),
    )
)
def test_the_short_way_with_numbers(ready_for_numbers: ReadyVersion, asked: tuple[Any, ...]) -> None:
    short = ready_for_numbers.predict_one([*asked])
    assert short is None or [short] == ready_for_numbers.model.predict(table([asked])).tolist()


def test_half_a_file_is_no_file(server: serving.Running, client: Client, tmp_path: Path) -> None:
    whole, calls = server.service.in_thread, []

    async def failing(call: Any, work: Any) -> Any:
        calls.append(work)
        if len(calls) == 3:  # the file is written, and the head of the answer is sent
            raise OSError("the disk is gone")
        return await whole(call, work)

    client.describe("fruit")
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(server.service, "in_thread", failing)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{server.url}/v1/models/fruit/file")
    client.download("fruit", tmp_path / "whole.model")
    assert (tmp_path / "whole.model").exists()


class Written:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self) -> None:
        self.is_closed = True


def test_head_and_body_are_one_write() -> None:
    inner = Written()
    transport = JoinedHead(cast("asyncio.Transport", inner))
    transport.write(b"HTTP/1.1 100 \r\n\r\n")  # the client waits for this one before it sends a body
    assert inner.writes == [b"HTTP/1.1 100 \r\n\r\n"]
    for part in (b"HTTP/1.1 200 OK\r\n\r\n", b"first", b"HTTP/1.1 in a body", b"HTTP/1.1 204 No Content\r\n\r\n"):
        transport.write(part)
    assert inner.writes[1:] == [b"HTTP/1.1 200 OK\r\n\r\nfirst", b"HTTP/1.1 in a bodyHTTP/1.1 204 No Content\r\n\r\n"]
    transport.write(b"HTTP/1.1 500 Failed\r\n\r\n")
    transport.close()  # half an answer is sent, too
    assert (inner.writes[-1], inner.is_closed) == (b"HTTP/1.1 500 Failed\r\n\r\n", True)


def test_results_of_a_group_wake_the_loop_once() -> None:
    async def run() -> list[Any]:
        loop = asyncio.get_running_loop()
        results = Results(loop)
        futures: list[Future[int]] = [Future() for _ in range(20)]
        awaited = [results.of(future) for future in futures]
        awaited[3].cancel()

        def resolve() -> None:
            for number, future in enumerate(futures):
                future.set_exception(Malformed("no")) if number == 5 else future.set_result(number)

        thread = threading.Thread(target=resolve)
        with patch.object(loop, "call_soon_threadsafe", wraps=loop.call_soon_threadsafe) as wake:
            thread.start()
            thread.join()  # the loop stands still meanwhile
            found = await asyncio.gather(*awaited, return_exceptions=True)
            later: Future[int] = Future()
            last = results.of(later)
            later.set_result(7)
            return [*found, await last, wake.call_count]

    *found, last, woken = asyncio.run(run())
    assert (last, woken) == (7, 2)
    assert isinstance(found[3], asyncio.CancelledError)
    assert isinstance(found[5], Malformed)
    assert [value for value in found if isinstance(value, int)] == [n for n in range(20) if n not in (3, 5)]
