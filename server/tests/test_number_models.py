"""Models that predict numbers, on a server: made or uploaded, edited, asked, refitted, erased, and opened again."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo.client import Client, ServerError
from hammemo.receipts.keys import new_key_file
from running_servers import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def houses(n: int = 120) -> tuple[list[list[Any]], list[float]]:
    rng = np.random.default_rng(0)
    rows: list[list[Any]] = [
        [float(size), str(town)] for size, town in zip(rng.normal(90, 30, n), rng.choice(list("abc"), n), strict=True)
    ]
    noise = rng.normal(0, 5, n)
    return rows, [2 * size + 30 * (town == "b") + noise[i] for i, (size, town) in enumerate(rows)]


def fitted(rows: list[list[Any]], targets: list[float], **given: Any) -> MemoryRegressor:
    table = np.empty((len(rows), 2), object)
    table[:] = rows
    return MemoryRegressor(**given).fit(table, targets)


@contextmanager
def client(folder: Path) -> Iterator[Client]:
    if not (folder / "keys").exists():
        new_key_file(folder / "keys")
    with in_thread(folder / "models", keys=folder / "keys") as running, Client(running.url, patience=5) as made:
        yield made


def downloaded(server: Client, folder: Path) -> MemoryRegressor:
    server.download("houses", folder / "downloaded.model")
    return load(folder / "downloaded.model")  # type: ignore[no-any-return]


def test_an_uploaded_model_is_edited_asked_refitted_and_opened_again(tmp_path: Path) -> None:
    rows, targets = houses()
    save(fitted(rows[:100], targets[:100]), tmp_path / "houses.model")
    plain = fitted(rows[:100], targets[:100])
    with client(tmp_path) as server:
        server.upload("houses", tmp_path / "houses.model")
        server.learn("houses", rows[100:119], targets[100:119])
        server.learn("houses", rows[119:], targets[119:])
        done = server.forget("houses", rows[:10], targets[:10], receipt=True)
        assert done.receipt
        facts = server.describe("houses")
        assert (facts["predicts"], facts["examples"], facts["classes"], facts["stale"]) == ("numbers", 110, [], True)
        plain.partial_fit(rows[100:], targets[100:], choose=False).forget(rows[:10], targets[:10])
        assert downloaded(server, tmp_path).digest() == plain.digest()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert server.predict("houses", rows[:5]) == plain.predict(rows[:5]).tolist()
            wanted = plain.predict_interval(rows[:5], 0.5).tolist()
        assert server.predict_interval("houses", rows[:5], 0.5) == wanted
        with pytest.raises(ServerError, match="is not stored") as refused:
            server.forget("houses", rows[:1], targets[:1])
        assert refused.value.status == 409
        server.refit("houses")
        fresh = fitted(rows[10:], targets[10:])
        assert downloaded(server, tmp_path).digest() == fresh.digest()
        server.apply("houses", (rows[:10], targets[:10]), (rows[100:], targets[100:]), position="p")
    with client(tmp_path) as server:  # the log has what was chosen
        facts = server.describe("houses")
        assert (facts["examples"], facts["position"]) == (100, "p")
        fresh.partial_fit(rows[:10], targets[:10], choose=False).forget(rows[100:], targets[100:])
        assert downloaded(server, tmp_path).digest() == fresh.digest()
        server.apply("houses", None, "everything")
        with pytest.raises(ServerError, match="holds no example"):
            server.predict("houses", rows[:1])
        server.learn("houses", rows[:1], targets[:1])
        assert server.predict("houses", rows[:1]) == pytest.approx(targets[:1])


def test_a_model_with_subjects_is_made_here_and_erases_a_person(tmp_path: Path) -> None:
    rows, targets = houses()
    owners = [f"p{i % 10}" for i in range(len(rows))]
    with client(tmp_path) as server:
        server.create("houses", columns=["size", "town"], predicts="numbers", subjects="required", seed=1)
        for start in (0, 1, 60):
            end = {0: 1, 1: 60, 60: 120}[start]
            server.learn("houses", rows[start:end], targets[start:end], subjects=owners[start:end])
        server.forget_subject("houses", "p3")
        assert server.describe("houses")["examples"] == 108
        left = [i for i, owner in enumerate(owners) if owner != "p3"]
        table = pd.DataFrame([rows[i] for i in left], columns=["size", "town"])
        fresh = MemoryRegressor(random_state=1).fit(table, [targets[i] for i in left])
        found = downloaded(server, tmp_path)
        assert found.digest() == fresh.digest()
    with client(tmp_path) as server:
        assert downloaded(server, tmp_path).digest() == found.digest()


def test_what_is_not_for_numbers_is_refused(tmp_path: Path) -> None:
    rows, targets = houses(20)
    with client(tmp_path) as server:
        server.create("houses", columns=2, predicts="numbers")
        server.learn("houses", rows, targets)
        for ask in ("top-k", "probabilities", "certify", "explain"):
            with pytest.raises(ServerError, match="predicts numbers") as refused:
                server.ask("houses", ask, rows[:1])
            assert refused.value.status == 422
        with pytest.raises(ServerError, match="target is a number"):
            server.learn("houses", rows[:2], ["cheap", "dear"])
        with pytest.raises(ServerError, match="predicts numbers"):
            server.learn_stream("houses", [["a", "b", "c"]])
        for wrong in (
            {"predicts": "dates"},
            {"predicts": "numbers", "vote": "sum"},
            {"predicts": "numbers", "keep": False},
        ):
            with pytest.raises(ServerError) as refused:
                server.create("other", columns=2, **wrong)
            assert refused.value.status == 422
        save(MemoryClassifier().fit([["a"], ["b"]], ["x", "y"]), tmp_path / "names.model")
        server.upload("names", tmp_path / "names.model")
        with pytest.raises(ServerError, match="predicts labels"):
            server.predict_interval("names", [["a"]])


@pytest.mark.filterwarnings("ignore:The errors of .* rows are known")
def test_bounds_are_a_setting_and_intervals_without_ends_are_null(tmp_path: Path) -> None:
    rows, targets = houses(60)
    with client(tmp_path) as server:
        server.create("houses", columns=2, predicts="numbers", seed=1, bounds=[1, None])
        with pytest.raises(ServerError, match="below bounds"):
            server.learn("houses", rows[:1], [-3.0])
        server.learn("houses", rows, targets)
        made = downloaded(server, tmp_path)
        assert made.bounds == (1.0, None)
        assert server.describe("houses")["bounds"] == [1.0, None]
        save(made.set_params(bounds=(180, None)), tmp_path / "bounded.model")
        server.upload("bounded", tmp_path / "bounded.model")
        assert min(server.predict("houses", rows)) < 180
        assert server.predict("bounded", rows) == made.predict(rows).tolist()
        assert min(server.predict("bounded", rows)) == 180
        assert server.predict_interval("bounded", rows) == made.predict_interval(rows).tolist()
        assert min(low for low, _ in server.predict_interval("bounded", rows)) == 180
        answer = server.ask("bounded", "predict", rows[:1], interval=0.999)
        assert answer["intervals"] == [[180, None]]
        assert server.predict_interval("bounded", rows[:1], 0.999) == [[180, np.inf]]
        wrong: list[dict[str, Any]] = [
            {"predicts": "numbers", "bounds": [2, 1]},
            {"predicts": "numbers", "bounds": "0,"},
            {"bounds": [0, None]},
        ]
        for settings in wrong:
            with pytest.raises(ServerError, match="bounds") as refused:
                server.create("other", columns=2, **settings)
            assert refused.value.status == 422
