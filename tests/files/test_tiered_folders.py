"""Two tiers, the exact one in segments: they answer as two tiers in memory, and what is proven touches no segment."""

from __future__ import annotations

import json
import shutil
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from folder_cases import assert_same, rows
from hammemo import FileError, MemoryClassifier, compact, editing, load, save
from hammemo.files import inspect
from hammemo.files.archive import Archive, seal
from hammemo.files.folders import HEAD
from hammemo.memories import Exact, Hashed, Tiered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


KEY = bytes(range(32))


def fitted(n: int = 60, seed: int = 0, key: bytes | None = None) -> MemoryClassifier:
    return MemoryClassifier("positional", Tiered(Hashed(4, 3, key=key)), "sum").fit(*rows(n, seed))


def test_an_interrupt_between_the_tiers_changes_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = fitted()
    save(plain, tmp_path, segments=3)
    segmented = load(tmp_path)

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Hashed, "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            segmented.partial_fit(*rows(5, 1))
    assert_same(segmented, plain)


def test_answers_are_those_of_one_version_while_others_edit(tmp_path: Path) -> None:
    """A query while another thread edits gets the scores and the labels before or after an edit, nothing else."""
    plain, asked = fitted(n=200), rows(30, 9)[0]
    save(plain, tmp_path, segments=3)
    model, (X, y) = load(tmp_path), rows(40, 11)
    known = [(plain.class_scores(asked).tolist(), plain.predict(asked).tolist())]
    plain.partial_fit(X, y)
    known.append((plain.class_scores(asked).tolist(), plain.predict(asked).tolist()))
    plain.forget(X, y)
    assert known[0] != known[1]
    right: list[bool] = []
    begun, done = threading.Barrier(3), threading.Event()

    def ask() -> None:
        begun.wait()
        while not (done.is_set() and right):
            now = model.snapshot()
            right.append((now.class_scores(asked).tolist(), now.predict(asked).tolist()) in known)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    begun.wait()
    for _ in range(8):
        model.partial_fit(X, y).forget(X, y)
    done.set()
    for thread in threads:
        thread.join()
    assert right
    assert all(right)
    assert_same(model, plain)


def test_a_model_that_has_learnt_nothing(tmp_path: Path) -> None:
    model = MemoryClassifier("positional", memory=Tiered(Hashed(4, 2)), vote="sum").open(2)
    save(model, tmp_path, segments=2)
    again = load(tmp_path)
    assert again.memory_.list_undecided() == {"reserved"}
    for one in (model, again):
        one.partial_fit([[1, 2], [3, 2]], ["x", "y"])
    assert again.memory_.state_digest() == model.memory_.state_digest()


def test_a_keyed_sketch_needs_its_key_and_none_is_written(tmp_path: Path) -> None:
    plain = fitted(key=KEY)
    save(plain, tmp_path, segments=2)
    assert inspect(tmp_path)["needs_key"] is True
    for opened in (load, compact):
        with pytest.raises(FileError, match="key"):
            opened(tmp_path)
    with editing(tmp_path, key=KEY) as model:
        model.partial_fit(*rows(9, 4))
    plain.partial_fit(*rows(9, 4))
    compact(tmp_path, key=KEY)
    assert_same(load(tmp_path, key=KEY), plain)
    assert not any(KEY in path.read_bytes() for path in tmp_path.iterdir())


def touched(model: MemoryClassifier) -> int:
    """Return how many pages of segments were touched since the last call; count from now on."""
    touches = [signed.segment._touch for signed in model.memory_.segmented.files.segments.segments]
    pages = sum(len(touch.touched or ()) for touch in touches)
    for touch in touches:
        touch.touched = set()
    return pages


def test_what_the_sketch_proves_touches_no_page_of_any_segment(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frequent, label = rng.integers(0, 8, (20_000, 3)), rng.integers(0, 2, 20_000)
    X = np.concatenate([frequent * 10 + label[:, None], rng.integers(1000, 9000, (20_000, 3))])
    y = np.concatenate([label, rng.integers(0, 5, 20_000)])
    plain = MemoryClassifier("positional", memory=Tiered(Hashed(64, 64)), vote="sum").fit(X, y)
    save(plain, tmp_path, segments=4)
    sketch, exact = plain.memory_.sketch_.reader(), MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    contexts, ones = plain.contexts(X), np.ones(len(plain.classes_))
    weights = plain.sites_.weights
    proven = sketch.proven(contexts, weights, ones, sketch.winners(contexts, weights, ones))
    assert proven[:20_000].all()
    assert 0 < proven.sum() < len(X)
    model = load(tmp_path)
    touched(model)
    for asked in (X[proven], X[proven][:1]):
        assert model.predict(asked).tolist() == exact.predict(asked).tolist()
        assert model.compile().predict(asked).tolist() == exact.predict(asked).tolist()
    assert touched(model) == 0
    model.learn_one([10, 20, 30], 0)
    touched(model)  # an edit looks where the segments begin and end
    model.predict(X[:20_000])
    assert touched(model) == 0
    open_ones = X[~proven][:50]
    assert load(tmp_path).predict(open_ones).tolist() == exact.predict(open_ones).tolist()
    model.predict(open_ones)
    assert touched(model) > 0


def forged(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Change the arrays and the description of a head, and give it the right checksum."""
    archive = Archive(folder / HEAD, verify=True)
    arrays, about = (
        {name: np.array(array) for name, array in archive.arrays.items()},
        json.loads(json.dumps(archive.about)),
    )
    change(arrays, about)
    text = json.dumps({**about, "checksum": "0" * 64}, separators=(",", ":"))
    (folder / HEAD).write_bytes(b"".join(seal(arrays, text)))


def test_a_head_that_does_not_fit_its_segments_is_refused(tmp_path: Path) -> None:
    save(fitted(), tmp_path / "good", segments=2)
    save(fitted(60, 7), tmp_path / "other", segments=2)
    three = MemoryClassifier("positional", memory=Tiered(Hashed(4, 3)), vote="sum").fit(
        rows(60, 0)[0], ["x", "y", "z"] * 20
    )
    save(three, tmp_path / "three", segments=2)
    names = [name for name in Archive(tmp_path / "good" / HEAD, verify=True).arrays if "." in name]
    assert any(name.startswith("sketch.") for name in names)
    assert any(name.startswith("exact.empty.") for name in names)

    def sketch_of(other: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        theirs = Archive(tmp_path / other / HEAD, verify=True).arrays
        taken = {name: np.array(array) for name, array in theirs.items() if name.startswith("sketch.")}
        return lambda arrays, about: arrays.update(taken)

    def segments_of(other: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        theirs = Archive(tmp_path / other / HEAD, verify=True).about["segments"]
        return lambda arrays, about: about.update(segments=theirs)

    def less(arrays: dict[str, Any], about: dict[str, Any]) -> None:
        arrays["sketch.shared.0"][arrays["sketch.shared.0"] > 0] -= 1

    def unnamed(arrays: dict[str, Any], about: dict[str, Any]) -> None:
        arrays.update({name.removeprefix("exact."): arrays.pop(name) for name in list(arrays) if "empty" in name})

    changes: list[tuple[Callable[[dict[str, Any], dict[str, Any]], None], str]] = [
        (sketch_of("other"), "tables of site 0 count more|sketch has not counted"),
        (sketch_of("three"), r"sketch.own.0 has shape"),
        (less, "sketch has not counted the examples of its table at site 0"),
        (unnamed, "exact.empty"),
        (segments_of("other"), "missing"),
        (
            lambda arrays, about: about["fitted"].update(memory=about["fitted"]["memory"]["params"]["sketch"]),
            "segments|'",
        ),
        *((lambda arrays, about, name=name: arrays.pop(name), r"missing|sketch") for name in names),
    ]
    for number, (change, words) in enumerate(changes):
        folder = tmp_path / f"forged-{number}"
        shutil.copytree(tmp_path / "good", folder)
        forged(folder, change)
        with pytest.raises(FileError, match=words):
            load(folder)


def test_a_segment_of_another_model_is_named_and_never_answered_from(tmp_path: Path) -> None:
    save(fitted(n=400), tmp_path / "a", segments=2)
    save(fitted(400, 7), tmp_path / "b", segments=2)
    victim = sorted((tmp_path / "a").glob("segment-*"))[0]
    shutil.copy(sorted((tmp_path / "b").glob("segment-*"))[0], victim)
    with pytest.raises(FileError, match=victim.name):
        load(tmp_path / "a")
    assert inspect(tmp_path / "a")["wrong_segments"] == [victim.name]
