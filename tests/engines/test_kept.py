"""The sample that a model keeps, learnt in groups: the same whatever the groups, and good for `refit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from engine_fits import fit_docs
from hammemo import MemoryClassifier, load, save
from hammemo.kernels import Bag, Suffixes
from hammemo.paper.experiments.measuring import zipf_stream
from hammemo.sources.documents import Source, open_source
from hammemo.stores.kept import EVERYTHING
from hammemo.stores.kept_rows import KeptRows
from hammemo.tokens.contexts import Examples
from hammemo.votes import LogLinear, Mixture

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.engines import GroupReport


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("words") / "a.txt"
    text = [f"w{token}" for token in zipf_stream(6_000, 50).tolist()]
    path.write_text("\n".join(" ".join(text[first : first + 17]) for first in range(0, len(text), 17)))
    return open_source(path, tokens="words")


def kept(model: MemoryClassifier) -> list[bytes]:
    assert model.state.kept is not None
    return [array.tobytes() for array in model.state.kept.pack().values()]


def weights(model: MemoryClassifier) -> list[bytes]:
    return [array.tobytes() for array in model.vote_.state().values()]


def learnt(source: Source, sample: int = 200, **options: Any) -> MemoryClassifier:
    vote = LogLinear(sample=sample, steps=5)
    return fit_docs(MemoryClassifier(vote=vote, keep=sample), source, 2, classes=[f"w{i}" for i in range(5)], **options)


def test_the_sample_and_the_weights_do_not_depend_on_the_groups(words: Source, tmp_path: Path) -> None:
    whole = learnt(words, engine="threads", workers=1)
    assert whole.state.store is not None
    assert whole.state.kept is not None
    assert 150 < len(whole.state.store.state()["codes"]) <= 200
    assert whole.state.kept.threshold < EVERYTHING
    save(whole, tmp_path / "m")
    assert kept(load(tmp_path / "m")) == kept(whole)
    cuttings: list[dict[str, Any]] = [
        {"engine": "threads", "workers": 2, "shard_bytes": 500, "group_size": 1},
        {"engine": "threads", "workers": 2, "shard_bytes": 1700},
        {"engine": "processes", "workers": 2, "shard_bytes": 4000},
    ]
    for options in cuttings:
        other = learnt(words, **options)
        assert kept(other) == kept(whole)
        assert weights(other) == weights(whole)


def test_a_small_source_is_kept_whole_and_refit_gives_the_same_weights(words: Source) -> None:
    model = learnt(words, sample=50_000, engine="threads", shard_bytes=3000)
    assert model.state.kept is not None
    assert sum(int(batch.multiplicity.sum()) for batch in model.state.kept.batches()) == int(
        model.memory_.label_counts.sum()
    )
    before = weights(model)
    assert weights(model.refit()) == before
    classes = [f"w{i}" for i in range(5)]
    stream = MemoryClassifier(vote=model.vote, keep=50_000).fit_stream(words.documents(), 2, classes=classes)
    assert kept(stream) == kept(model)
    assert stream.digest() == model.refit().digest()
    gone = [next(iter(words.documents()))]
    assert model.forget_stream(gone, classes=classes).digest() != stream.digest()


def test_a_mixture_keeps_whole_documents_whatever_the_groups(words: Source) -> None:
    estimator = MemoryClassifier(Suffixes(2) + Bag(2), vote=Mixture(sample=300, steps=5))
    whole = fit_docs(estimator, words, 2, short="pad", engine="threads", workers=1)
    cuttings: list[dict[str, Any]] = [
        {"engine": "threads", "shard_bytes": 500},
        {"engine": "processes", "shard_bytes": 4000},
    ]
    for options in cuttings:
        other = fit_docs(estimator, words, 2, short="pad", workers=2, **options)
        assert other.memory_.state_bytes() == whole.memory_.state_bytes()
        assert kept(other) == kept(whole)
        assert weights(other) == weights(whole)
    streamed = MemoryClassifier(Suffixes(2) + Bag(2), vote=whole.vote).fit_stream(words.documents(), 2, short="pad")
    assert streamed.memory_.state_bytes() == whole.memory_.state_bytes()


def test_a_folder_remembers_the_sample(words: Source, tmp_path: Path) -> None:
    reports: list[GroupReport] = []
    options: dict[str, Any] = {"engine": "threads", "shard_bytes": 1000, "resume": str(tmp_path / "states")}
    first = learnt(words, **options)
    again = learnt(words, on_report=reports.append, **options)
    assert all(report.resumed for report in reports)
    assert all(report.kept is None for report in reports)
    assert kept(again) == kept(first)
    with pytest.raises(ValueError, match="belongs to another job: kept"):
        learnt(words, sample=100, **options)


def test_packed_samples_come_back_and_do_not_depend_on_groups() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 9, (500, 3)), rng.integers(0, 2, 500)
    empty = KeptRows.empty(h=3, seed=1, most=40)
    whole = empty.edit(Examples.of(X, y), 1)
    assert [a.tobytes() for a in empty.unpack(whole.pack()).pack().values()] == [
        a.tobytes() for a in whole.pack().values()
    ]
    full = KeptRows.empty(h=3, seed=1, most=10_000)
    assert empty.unpack(full.pack()).threshold == EVERYTHING
    parts = empty
    for rows in np.array_split(rng.permutation(500), 7):
        together = parts.plus(empty.edit(Examples.of(X[rows], y[rows]), 1), 1)
        assert together is not None
        parts = together
    assert 30 < len(parts) <= 40
    one, other = ([a.tobytes() for a in sample.pack().values()] for sample in (whole, parts))
    assert one == other
