"""Models in MLflow: what is logged is the model file, and its own server gives the labels of `predict`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from hammemo import FileError, MemoryClassifier
from hammemo.memories import Hashed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

mlflow = pytest.importorskip("mlflow")

import hammemo.mlflow as tracked  # noqa: E402  (after the package that it needs)

pytestmark = [
    pytest.mark.filterwarnings("default"),  # MLflow warns of itself, and of what it imports
    pytest.mark.xdist_group("mlflow"),
]

FRAME = pd.DataFrame({"colour": ["red", "blue", "red", "green"] * 20, "size": [1, 2, 3, 4] * 20})
LABELS = ["warm", "cold", "warm", "cold"] * 20


@pytest.fixture(scope="module", autouse=True)
def _tracker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("tracker")
    before = os.getcwd()
    os.chdir(folder)  # artifacts go below it
    mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
    yield
    os.chdir(before)


@pytest.fixture
def clf() -> MemoryClassifier:
    return MemoryClassifier().fit(FRAME, LABELS)


def test_a_logged_model_is_the_same_model(clf: MemoryClassifier) -> None:
    with mlflow.start_run() as run:
        tracked.log_report(clf)
        logged = tracked.log_model(clf, input_example=FRAME[:2])
    back = tracked.load_model(logged.model_uri)
    assert back.memory_.state_bytes() == clf.memory_.state_bytes()
    assert back.predict_proba(FRAME).tobytes() == clf.predict_proba(FRAME).tobytes()
    assert back.forget(FRAME[:5], LABELS[:5]).report().n_examples == 75
    data = mlflow.get_run(run.info.run_id).data
    assert data.metrics["hammemo.examples"] == 80
    assert data.metrics["hammemo.labels"] == 2
    assert data.params["hammemo.memory"] == "Exact()"
    text = mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/hammemo_report.txt")
    assert text == f"{clf.report()}\n"


def test_what_is_logged_is_a_model_file_and_no_pickle(clf: MemoryClassifier, tmp_path: Path) -> None:
    tracked.save_model(clf, tmp_path / "model", input_example=FRAME[:2])
    files = {path.relative_to(tmp_path / "model").as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    described = {"MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt"}
    assert files == {"data/model.safetensors", "input_example.json", "serving_input_example.json", *described}
    flavors = mlflow.models.Model.load(str(tmp_path / "model")).flavors
    assert flavors["python_function"]["loader_module"] == "hammemo.mlflow"
    assert flavors["hammemo"]["kind"] == "MemoryClassifier"
    assert "hammemo==" in (tmp_path / "model" / "requirements.txt").read_text()


@pytest.mark.parametrize("compiled", [False, True])
def test_functions_answer_as_the_model(clf: MemoryClassifier, compiled: bool, tmp_path: Path) -> None:
    model: Any = clf.compile() if compiled else clf
    tracked.save_model(model, tmp_path / "model", input_example=FRAME[:2])
    function = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert function.predict(FRAME).tolist() == clf.predict(FRAME).tolist()
    probabilities = function.predict(FRAME, params={"method": "predict_proba"})
    assert probabilities.tobytes() == clf.predict_proba(FRAME).tobytes()
    with pytest.raises(ValueError, match="'predict', 'predict_proba' or 'class_scores'"):
        function.predict(FRAME, params={"method": "forget"})


def test_arrays_and_missing_values(tmp_path: Path) -> None:
    X = np.array([["a", "b"], ["c", None], ["c", "d"]], object)
    model = MemoryClassifier(vote="sum").fit(X, [1, 2, 3])
    tracked.save_model(model, tmp_path / "model")
    function = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    for given in (X, pd.DataFrame(X, columns=["first", "second"])):
        assert function.predict(given).tolist() == [1, 2, 3]


def test_a_secret_key_is_not_logged(tmp_path: Path) -> None:
    X = np.arange(12).reshape(6, 2)
    model = MemoryClassifier(memory=Hashed(8, 2, key=b"k" * 16), vote="sum").fit(X, X[:, 0])
    tracked.save_model(model, tmp_path / "model")
    with pytest.raises(FileError, match="key"):
        tracked.load_model(str(tmp_path / "model"))
    assert tracked.load_model(str(tmp_path / "model"), key=b"k" * 16).predict(X).tolist() == X[:, 0].tolist()


def test_a_model_of_another_flavor_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    mlflow.pyfunc.save_model(
        str(tmp_path / "other"), loader_module="json", data_path=str(tmp_path / "data"), pip_requirements=[]
    )
    with pytest.raises(ValueError, match=r"not a model of hammemo.*mlflow\.pyfunc\.load_model"):
        tracked.load_model(str(tmp_path / "other"))


def test_mlflows_own_server_answers_as_the_model(clf: MemoryClassifier, tmp_path: Path) -> None:
    tracked.save_model(clf, tmp_path / "model", input_example=FRAME[:2])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "--model-uri", str(tmp_path / "model")]
    with (tmp_path / "said").open("w") as said:
        server = subprocess.Popen(
            [*command, "--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)],
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"},  # uvicorn
            start_new_session=True,
        )
    try:
        _wait_for(server, f"http://127.0.0.1:{port}/ping", tmp_path / "said")
        asked = FRAME[:4].to_dict(orient="split", index=False)
        url = f"http://127.0.0.1:{port}/invocations"
        assert _posted(url, {"dataframe_split": asked}) == {"predictions": clf.predict(FRAME[:4]).tolist()}
        answer = _posted(url, {"dataframe_split": asked, "params": {"method": "predict_proba"}})
        assert answer == {"predictions": clf.predict_proba(FRAME[:4]).tolist()}
    finally:
        if server.poll() is None:
            os.killpg(server.pid, 15)
        server.wait()


def _wait_for(server: subprocess.Popen[bytes], url: str, said: Path) -> None:
    """Return when a server answers; fail where it has ended."""
    while True:
        assert server.poll() is None, said.read_text()
        try:
            with urllib.request.urlopen(url):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)


def _posted(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)
