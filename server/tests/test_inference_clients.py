"""Clients of the Open Inference Protocol as they come: Triton's, and KServe's where it is installed elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

import running_servers as serving
from hammemo import MemoryClassifier
from hammemo.client import Client
from hammemo_server.edits.operations import Malformed
from hammemo_server.http.tensors import LENGTH, InferenceRequest, as_json, question_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = [["red", "small"], ["green", "large"], ["red", "large"], ["green", "small"]]
LABELS = ["cherry", "melon", "apple", "grape"]
SIZES: list[list[Any]] = [["red", 1.5], ["green", 9.25], ["red", 7.0], ["green", None]] * 30


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Running]:
    with serving.in_thread(tmp_path_factory.mktemp("models")) as running, Client(running.url) as client:
        client.create("fruit", columns=["colour", "size"], seed=0)
        client.learn("fruit", ROWS, LABELS, op="first")
        client.create("whole")
        client.learn("whole", [[1, 2], [3, 4]], [5, 6])
        client.create("mixed", columns=["colour", "size"], seed=0)
        client.learn("mixed", SIZES, [row[1] is not None and row[1] > 5 for row in SIZES], op="first")
        client.refit("mixed", op="second")
        yield running


@pytest.fixture(scope="module")
def client(server: serving.Running) -> Iterator[Any]:
    made = triton.InferenceServerClient(f"127.0.0.1:{server.port}")
    yield made
    made.close()


def tensor(name: str, values: Any, *, binary: bool = True) -> Any:
    array = np.array(values)
    array = array.astype(object) if array.dtype.kind == "U" else array
    made = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def strings(result: Any) -> list[str]:
    return [value.decode() if isinstance(value, bytes) else value for value in result.as_numpy("label").tolist()]


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("fruit")
    assert client.is_model_ready("fruit", "1")
    assert not client.is_model_ready("fruit", "2")
    assert not client.is_model_ready("none")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    told = client.get_model_metadata("fruit")
    assert [column["name"] for column in told["inputs"]] == ["colour", "size"]
    assert told["outputs"] == [{"name": "label", "datatype": "BYTES", "shape": [-1]}]
    kinds = [column["datatype"] for column in client.get_model_metadata("mixed")["inputs"]]
    assert kinds == ["BYTES", "FP64"]
    assert client.get_model_metadata("whole", "1")["outputs"][0]["datatype"] == "INT64"


@pytest.mark.parametrize("binary", [True, False])
def test_default_calls(client: Any, binary: bool) -> None:
    result = client.infer("fruit", [tensor("rows", ROWS, binary=binary)], request_id="7")
    assert strings(result) == LABELS
    assert result.get_response()["id"] == "7"
    assert result.get_response()["model_version"] == "1"
    outputs = [triton.InferRequestedOutput("label", binary_data=binary)]
    assert strings(client.infer("fruit", [tensor("rows", ROWS, binary=binary)], outputs=outputs)) == LABELS
    assert client.infer("whole", [tensor("rows", [[1, 2], [3, 4]], binary=binary)]).as_numpy("label").tolist() == [5, 6]


@pytest.mark.parametrize("binary", [True, False])
def test_a_tensor_for_each_column(server: serving.Running, client: Any, binary: bool) -> None:
    sizes = np.array([np.nan if row[1] is None else row[1] for row in SIZES])
    if not binary:
        sizes = np.where(np.isnan(sizes), 2.0, sizes)  # JSON has no NaN
    colours = [row[0] for row in SIZES]
    rows = [[row[0], None if np.isnan(size) else size] for row, size in zip(SIZES, sizes.tolist(), strict=True)]
    with Client(server.url) as own:
        expected = own.predict("mixed", rows)
    told = client.infer("mixed", [tensor("size", sizes, binary=binary), tensor("colour", colours, binary=binary)])
    assert told.as_numpy("label").dtype == bool
    assert told.as_numpy("label").tolist() == list(expected)
    wide = [tensor("colour", [[colour] for colour in colours], binary=binary), tensor("size", sizes, binary=binary)]
    assert client.infer("mixed", wide).as_numpy("label").tolist() == list(expected)


def test_columns_are_named(client: Any) -> None:
    for names, text in (
        (("colour", "weight"), "'weight' is not a column"),
        (("colour", "colour"), "'size' has no tensor"),
        (("colour", "size", "size"), "there twice"),
    ):
        with pytest.raises(InferenceServerException, match=text):
            client.infer("fruit", [tensor(name, ["a"]) for name in names])
    with pytest.raises(InferenceServerException, match=r"shape \[2, 2\]"):
        client.infer("fruit", [tensor("colour", ["a", "b"]), tensor("size", [["a", "b"], ["c", "d"]])])


def test_a_version_answers_or_is_refused(client: Any) -> None:
    assert strings(client.infer("fruit", [tensor("rows", ROWS)], model_version="1")) == LABELS
    with pytest.raises(InferenceServerException, match="answers at version 1") as caught:
        client.infer("fruit", [tensor("rows", ROWS)], model_version="0")
    assert caught.value.status() == "404"


def test_refusals_can_be_printed(server: serving.Running, client: Any) -> None:
    with pytest.raises(InferenceServerException, match="no model") as caught:
        client.infer("none", [tensor("rows", ROWS)])
    assert caught.value.status() == "404"
    with pytest.raises(InferenceServerException, match="A row of this model has 2 tokens"):
        client.infer("fruit", [tensor("rows", [["a"]])])
    for path in ("/v2/nothing", "/v2/models/NONE/infer"):
        assert isinstance(httpx.get(f"{server.url}{path}").json()["error"], str)
    assert isinstance(httpx.get(f"{server.url}/v1/nothing").json()["error"], dict)


def test_long_bodies_go_another_way(client: Any) -> None:
    rows = ROWS * 2000
    assert strings(client.infer("fruit", [tensor("rows", rows)])) == LABELS * 2000


def test_other_types_are_refused(server: serving.Running) -> None:
    url, body = f"{server.url}/v2/models/fruit/infer", b'{"inputs":[]}'
    for headers, status in (
        ({"content-type": "text/plain"}, 415),
        ({"content-encoding": "gzip"}, 415),
        ({LENGTH.decode(): "x"}, 400),
        ({LENGTH.decode(): "99"}, 422),
    ):
        assert httpx.post(url, content=body, headers=headers).status_code == status, headers


def request(datatype: str, n: int, size: int) -> bytes:
    parameters = {"binary_data_size": size}
    tensor = {"name": "rows", "shape": [n, 1], "datatype": datatype, "parameters": parameters}
    return json.dumps({"inputs": [tensor]}).encode()


DTYPES = {"INT8": "<i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "<u1", "UINT64": "<u8", "FP64": "<f8"}


@given(st.sampled_from(sorted(DTYPES)), st.binary(max_size=64))
@example("FP64", np.array([1.0, np.inf]).tobytes())  # random bytes are hardly ever infinite
@example("FP64", np.array([-np.inf, np.nan]).tobytes())
@settings(max_examples=200)
def test_numbers_are_those_of_numpy(datatype: str, data: bytes) -> None:
    dtype = np.dtype(DTYPES[datatype])
    values = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
    body = request(datatype, len(values), values.nbytes)
    if np.isinf(values).any():
        with pytest.raises(Malformed, match="infinite"):
            as_json(body + values.tobytes(), len(body))
        return
    rows = question_of(json_request(as_json(body + values.tobytes(), len(body))[0]), "m").rows
    assert rows == [[None if value != value else value] for value in values.tolist()]


@given(st.lists(st.text("aé€😀", max_size=5), min_size=1, max_size=6))
def test_strings_are_those_of_utf8(texts: list[str]) -> None:
    data = b"".join(len(text.encode()).to_bytes(4, "little") + text.encode() for text in texts)
    body = request("BYTES", len(texts), len(data))
    assert question_of(json_request(as_json(body + data, len(body))[0]), "m").rows == [[text] for text in texts]


@given(
    st.sampled_from([*sorted(DTYPES), "BYTES", "BOOL", "FP32"]), st.integers(0, 5), st.binary(max_size=40), st.data()
)
@settings(max_examples=300)
def test_crafted_bodies_are_refused_or_read(datatype: str, n: int, data: bytes, draw: st.DataObject) -> None:
    body = request(datatype, n, draw.draw(st.integers(0, 45)))
    length = draw.draw(st.integers(0, len(body) + 50) | st.just(len(body)))
    with suppress(Malformed):
        question_of(json_request(as_json(body + data, length)[0]), "m")


def json_request(body: bytes) -> InferenceRequest:
    import msgspec

    return msgspec.json.decode(body, type=InferenceRequest)


KSERVE = """
import asyncio, sys
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig

async def ask():
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
    rows = np.array([["red", "small"], ["green", "large"]], object)
    assert await client.is_server_live(sys.argv[1])
    assert await client.is_model_ready(sys.argv[1], "fruit")
    for binary in (False, True):
        tensor = InferInput("rows", [2, 2], "BYTES")
        tensor.set_data_from_numpy(rows, binary_data=binary)
        told = await client.infer(sys.argv[1], InferRequest("fruit", [tensor]), model_name="fruit")
        print([value.decode() if isinstance(value, bytes) else value for value in told.outputs[0].as_numpy().tolist()])

asyncio.run(ask())
"""


@pytest.mark.skipif("HAMMEMO_KSERVE" not in os.environ, reason="HAMMEMO_KSERVE names a Python with kserve: .ci/nightly")
def test_the_client_of_kserve(server: serving.Running) -> None:
    line = [os.environ["HAMMEMO_KSERVE"], "-c", KSERVE, server.url]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [str(["cherry", "melon"])] * 2, done.stderr


def test_the_answers_are_those_of_the_library(client: Any) -> None:
    twin = MemoryClassifier(random_state=0).fit(ROWS, LABELS)
    assert strings(client.infer("fruit", [tensor("rows", ROWS[::-1])])) == twin.predict(ROWS[::-1]).tolist()
