"""Whole documents over HTTP, and questions of any length: the answers are those of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import running_servers as serving
from hammemo import NO_TOKEN, MemoryClassifier, save
from hammemo.client import Client, ServerError
from hammemo.edits.editing import name_columns
from hammemo_server.http import answering
from hammemo_server.http.answering import ReadyVersion, table
from visit_models import Visits, learn_visits, list_contents, list_published, visits, visits_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["visits_file"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Running]:
    with serving.in_thread(tmp_path_factory.mktemp("served")) as running:
        yield running


def test_a_client_learns_and_forgets_visits(server: serving.Running, visits_file: Path) -> None:
    with Client(server.url) as client:
        client.upload("m", visits_file)
        arrays: Any = (np.array(visit) for visit in ([1, 60, 2], [3]))
        assert client.learn_stream("m", [[1, 60, 2], (3,)], op="a") == (1, "applied", "")
        assert client.learn_stream("m", arrays, op="a") == (1, "repeated", "")
        assert client.forget_stream("m", [[1, 60, 2]]).version == 2
        twin = learn_visits(visits()).partial_fit_stream([[3]])
        assert list_published(
            next(model for model in server.service.host.open_models() if model.name == "m")
        ) == list_contents(twin)
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
    clf = learn_visits(visits())
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
        for lists in ({"exclude": "seen"}, {"exclude": [1, 2], "allow": [row[:1] for row in rows] or None}):
            found = clf.top_k(question, 4, **lists).tolist() if rows else []
            left = [[label for label in row if label is not None] for row in found]
            assert client.top_k("asked", question, 4, **lists) == left
        assert client.certify("asked", question) == (clf.certify(rows).tolist() if rows else [])
        _, found = client.probabilities("asked", question)
        assert np.allclose(found, clf.predict_proba(rows) if rows else [], rtol=1e-12, atol=0)
        assert list(client.explain("asked", question)) == [clf.explain(row).to_dict() for row in rows]


@pytest.mark.parametrize("row", [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4], ["1"], [99, None], [2.5]], ids=str)
def test_the_short_way_takes_rows_of_any_length(row: list[Any], asked: tuple[Client, Any]) -> None:
    ready = ReadyVersion(asked[1], 1).prepare()
    (cut,) = ready.cut([row])
    short = ready.predict_one(cut)
    long = [[NO_TOKEN] * (3 - len(row)) + row[-3:]]
    assert short is None or [short] == asked[1].predict(table(long)).tolist()


@pytest.mark.parametrize("row", [[1], [2**62, 1], [1, NO_TOKEN, 2], [True, 2, 3], [1.0, 2, 3], ["1", 2, 3]], ids=str)
def test_integers_are_answered_as_all_tokens_are(row: list[Any], asked: tuple[Client, Any]) -> None:
    client, clf = asked
    whole = [NO_TOKEN] * (3 - len(row)) + row
    assert client.top_k("asked", [row], 5) == clf.top_k(table([whole]), 5).tolist()
    with pytest.raises(ServerError, match="64 bits") as refused:
        client.top_k("asked", [[*row[:2], 2**63]], 5)
    assert refused.value.status == 422


def test_the_inference_protocol_takes_any_length(server: serving.Running, asked: tuple[Client, Any]) -> None:
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
    save(learn_visits(visits(), "drop"), tmp_path / "m")
    client.upload("dropped", tmp_path / "m")
    assert (
        client.predict("dropped", [[1, 2], [5, 1, 2]]) == learn_visits(visits(), "drop").predict([[1, 2]] * 2).tolist()
    )
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
    with pytest.raises(ServerError, match="a row may have") as long:
        client.predict("asked", [[1] * (server.service.limits.columns + 1)])
    assert long.value.status == 413
    monkeypatch.setattr(answering, "_MAX_FILLED_TOKENS", 10)
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
def test_what_is_no_edit_is_refused(server: serving.Running, visits_file: Path, ask: str, sent: Any) -> None:
    with Client(server.url) as client:
        if "whole" not in client.models():
            client.upload("whole", visits_file)
        answer = httpx.post(f"{server.url}/v1/models/whole/{ask}", json=sent)
        assert (answer.status_code, client.describe("whole")["version"]) == (422, 0)


def test_the_document_has_them(server: serving.Running) -> None:
    told = httpx.get(f"{server.url}/openapi.json").json()
    for ask, role, statuses in (("learn", "learn", {"404", "422"}), ("forget", "forget", {"404", "409", "422"})):
        found = told["paths"][f"/v1/models/{{model}}/{ask}-stream"]["post"]
        assert found["description"] == f"Needs the role {role}."
        assert {"200", "413", *statuses} <= set(found["responses"])
    schema = told["components"]["schemas"]["StreamBody"]
    assert schema["required"] == ["op", "documents"]


@pytest.mark.parametrize("what", ["pad", "label", "column"])
def test_a_model_that_no_answer_could_name_is_refused(server: serving.Running, what: str, tmp_path: Path) -> None:
    half = "\ud800"
    clf = MemoryClassifier(memory="exact", vote="sum")
    if what == "column":
        clf.fit([["a"], ["b"]], ["x", "y"])
        name_columns(clf, np.array([half], object))
    elif what == "pad":
        clf.fit_stream([["a", "b"]], 2, short="pad", pad=half)
    else:
        clf.fit_stream([["a", half]], 2, short="pad")
    save(clf, tmp_path / "half")
    with Client(server.url) as client:
        with pytest.raises(ServerError, match="half of a surrogate pair") as refused:
            client.upload("half", tmp_path / "half")
        assert refused.value.status == 422
        assert "half" not in client.models()


def test_a_tensor_of_empty_contexts_is_named(server: serving.Running, visits_file: Path) -> None:
    with Client(server.url) as client:
        client.upload("tensors", visits_file)
    tensor = {"name": "rows", "shape": [2, 0], "datatype": "INT64", "data": []}
    answer = httpx.post(f"{server.url}/v2/models/tensors/infer", json={"inputs": [tensor]})
    assert answer.status_code == 422
    assert "contexts of 0 tokens" in answer.text


@pytest.mark.parametrize("rows", ["tea", ["tea", "pot"], [["tea"], b"pot"], np.array(["tea", "pot"])])
def test_a_row_that_is_a_string_is_not_taken_for_its_characters(asked: tuple[Client, Any], rows: Any) -> None:
    client, _ = asked
    for ask in (client.predict, client.top_k, lambda model, rows: client.learn(model, rows, ["x"])):
        with pytest.raises(TypeError, match=r"send a single one as \[tokens\]"):
            ask("asked", rows)
