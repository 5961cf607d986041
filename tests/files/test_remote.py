"""Models in segments on object storage: moto's S3 server on loopback; pages are fetched once, and checked."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import object_store

pytest.importorskip("moto", reason="moto is not installed: pip install --group ray-tests")
pytest.importorskip("pyarrow")

from engine_fits import fit_docs
from hammemo import FileError, MemoryClassifier, load, save
from hammemo.files.folders import HEAD
from hammemo.files.remote import Remote
from hammemo.memories import Exact
from hammemo.sources.documents import open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.xdist_group("cluster"),  # with the tests of Ray: both start servers
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def rows(n: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 400, (n, 3)), rng.integers(0, 300, n)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    save(MemoryClassifier("positional", memory=Exact(), vote="sum").fit(*rows(200_000, 0)), path, segments=3)
    (path / f"{HEAD}.lock").unlink(missing_ok=True)
    return path


@pytest.fixture
def address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    for name, value in object_store.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with object_store.bucket(folder) as found:
        yield found


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the size of each requested range is added."""
    sizes: list[int] = []
    ranges = Remote.read_ranges

    def counted(self: Remote, name: str, edges: list[tuple[int, int]]) -> list[bytes]:
        sizes.extend(stop - first for first, stop in edges)
        return ranges(self, name, edges)

    monkeypatch.setattr(Remote, "read_ranges", counted)
    return sizes


def test_a_query_fetches_the_pages_that_it_touches_once(
    folder: Path, address: Callable[[str], str], fetched: list[int], tmp_path: Path
) -> None:
    plain, asked = load(folder), rows(50, 9)[0]
    model = load(address("data"), cache=tmp_path / "cache")
    opened = sum(fetched)
    assert model.predict(asked[:1]).tolist() == plain.predict(asked[:1]).tolist()
    size = sum(path.stat().st_size for path in folder.glob("segment-*"))
    assert opened < sum(fetched) < size / 2
    np.testing.assert_array_equal(model.class_scores(asked), plain.class_scores(asked))
    once = len(fetched)
    np.testing.assert_array_equal(model.class_scores(asked), plain.class_scores(asked))
    assert len(fetched) == once
    again = load(address("data"), cache=tmp_path / "cache")  # a later process
    np.testing.assert_array_equal(again.class_scores(asked), plain.class_scores(asked))
    assert len(fetched) == once
    assert again.memory_.state_digest() == plain.memory_.state_digest()


def test_edits_on_top_are_saved_to_a_folder_of_this_machine(
    folder: Path, address: Callable[[str], str], tmp_path: Path
) -> None:
    plain, model = load(folder), load(address("data"))
    X, y = rows(200_000, 0)
    for one in (plain, model, pickle.loads(pickle.dumps(model))):  # noqa: S301
        one.learn_one([1, 2, 3], 7).forget(X[:30], y[:30])
        np.testing.assert_array_equal(one.class_scores(X[:20]), plain.class_scores(X[:20]))
    save(model, tmp_path / "own")
    assert load(tmp_path / "own").memory_.state_digest() == plain.memory_.state_digest()
    with pytest.raises(FileError, match="object storage"):
        save(model, address("data"))


def test_damage_and_wrong_caches_are_named(folder: Path, address: Callable[[str], str], tmp_path: Path) -> None:
    victim = sorted(folder.glob("segment-*"))[1]
    remote = Remote(address("data"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    with remote._system.open_output_stream(f"{remote._path}/{victim.name}") as file:
        file.write(bytes(data))
    with pytest.raises(FileError, match=victim.name):
        load(address("data")).class_scores(rows(3000, 5)[0])
    remote._system.delete_file(f"{remote._path}/{victim.name}")
    with pytest.raises(FileError, match=victim.name):
        load(address("data"))
    with pytest.raises(FileError, match="head"):
        load(address("nothing"))
    load(folder)
    with pytest.raises(FileError, match="cache="):
        load(folder, cache=tmp_path)
    (tmp_path / "other").write_text("mine")
    with pytest.raises(FileError, match="holds files of others"):
        load(address("data"), cache=tmp_path)


def test_load_beside_another_model_that_is_written_gives_that_one(
    address: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segments of the head that was read first are deleted before they are opened."""
    save(MemoryClassifier("positional", memory=Exact(), vote="sum").fit(*rows(50, 3)), tmp_path, segments=2)
    prepare = Remote.prepare

    def beside(self: Remote, folder: str, name: str, size: int) -> None:
        monkeypatch.setattr(Remote, "prepare", prepare)
        self.put(str(tmp_path), HEAD, [path.name for path in tmp_path.glob("segment-*")])
        prepare(self, folder, name, size)

    monkeypatch.setattr(Remote, "prepare", beside)
    assert load(address("data")).memory_.state_digest() == load(tmp_path).memory_.state_digest()


def test_a_fit_writes_to_it(address: Callable[[str], str], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = [" ".join(map(str, rng.integers(0, 50, 20))) for _ in range(200)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    source = open_source(str(tmp_path / "text.txt"), tokens="words")
    estimator = MemoryClassifier("positional", memory=Exact(), vote="sum")
    plain = fit_docs(estimator, source, 3)
    for where in ("new/model", "data"):  # a folder that holds another model is replaced
        made = fit_docs(estimator, source, 3, segments=3, out=address(where))
        for model in (made, load(address(where))):
            assert model.memory_.state_digest() == plain.memory_.state_digest()
    with pytest.raises(ValueError, match="workers of Ray"):
        fit_docs(estimator, source, 3, segments=3, out=address("ray"), engine="ray")
