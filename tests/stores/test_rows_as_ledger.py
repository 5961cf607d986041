"""While a model keeps all its rows, they are the ledger of its memory: no row is stored twice."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from hammemo import MemoryClassifier, Rolling, load, save
from hammemo.files.archive import FileError
from hammemo.files.contents import file_bytes
from hammemo.memories import Exact, Hashed, Ledgered
from hammemo.memories.errors import NotStoredError
from hammemo.models.editing import take_state
from hammemo.tokens.contexts import Examples

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(0)
X = RNG.integers(0, 6, (80, 3))
Y, X = X[:, 0] % 2, X.astype(str)
MEMORIES = [Ledgered(Exact()), Ledgered(Hashed(64, 4), key=bytes(range(16)))]


def has_ledger(clf: MemoryClassifier) -> bool:
    assert isinstance(clf.memory_, Ledgered)
    assert clf.memory_._noted == ()
    return clf.memory_.has_ledger


def with_keys(keep: Any, memory: Any) -> MemoryClassifier:
    return MemoryClassifier(memory=memory, keep=keep)


@pytest.mark.parametrize("memory", MEMORIES)
def test_no_digest_is_stored_while_all_rows_are_kept(memory: Any, tmp_path: Path) -> None:
    clf = with_keys("auto", memory).fit(X, Y)
    assert not has_ledger(clf)
    save(clf, tmp_path / "m")
    assert not any("ledger" in name for name in load_file(tmp_path / "m"))
    again = load(tmp_path / "m", key=memory.key)
    assert again.digest() == clf.digest()
    for model in (clf, again, pickle.loads(pickle.dumps(clf))):  # noqa: S301
        with pytest.raises(NotStoredError, match=r"1 of 2 examples to be removed is not stored \(so often\): row 1"):
            model.forget([X[0], [5, 0, 9]], [Y[0], 0])
        with pytest.raises(NotStoredError, match="row 0"):
            model.forget_one([5, 0, 9], 0)
        assert model.digest() == clf.digest()
    with pytest.raises(ValueError, match="are its ledger"):
        clf.memory_.holds(Examples.of(X[:1], Y[:1]))


@pytest.mark.parametrize("memory", MEMORIES)
def test_digests_are_made_when_rows_are_dropped(memory: Any) -> None:
    """Learn row by row and in batches, over the number that is kept; the ledger is that of a model without rows."""
    seeds = range(6)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        clf, twin = with_keys(20, memory), with_keys(False, memory)
        clf.fit(X[:5], Y[:5]), twin.fit(X[:5], Y[:5])
        place = 5
        while place < 60:
            n = int(rng.integers(1, 9))
            if n == 1:
                for model in (clf, twin):
                    model.learn_one(X[place], Y[place])
            else:
                for model in (clf, twin):
                    model.partial_fit(X[place : place + n], Y[place : place + n], choose=False)
            place += n
            gone = int(rng.integers(0, place))
            for model in (clf, twin):
                model.forget_one(X[gone], Y[gone])
                model.learn_one(X[gone], Y[gone])
            kept = clf.state.store
            assert kept is not None
            assert has_ledger(clf) == (not kept.holds_all)
        assert has_ledger(clf)
        held = Examples.of(X, Y)
        assert np.array_equal(clf.memory_.holds(held), twin.memory_.holds(held))
        for model in (clf, twin):
            model.forget(X[:place], Y[:place])
        with pytest.raises(NotStoredError):
            clf.forget(X[:1], Y[:1])


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.filterwarnings("ignore:The two models have different fitted weights")
def test_models_with_and_without_digests_are_merged(memory: Any) -> None:
    rows, digests = with_keys("auto", memory).fit(X[:40], Y[:40]), with_keys(False, memory)
    digests.partial_fit(X[40:], Y[40:], layout=rows)
    assert has_ledger(digests)
    assert not has_ledger(rows)
    for merged in (rows + digests, digests + rows):
        assert has_ledger(merged)
        assert merged.memory_.holds(Examples.of(X, Y)).min() > 0
        assert merged.forget(X, Y).memory_.n_examples == 0
    both = rows + digests
    assert both.unmerge(rows).memory_.state_bytes() == digests.memory_.state_bytes()
    few = with_keys(30, memory).fit(X[:25], Y[:25])
    more = few.empty_like().partial_fit(X[40:], Y[40:])
    assert not has_ledger(few)
    assert (few + more).forget(X[:25], Y[:25]).forget(X[40:], Y[40:]).memory_.n_examples == 0
    with pytest.raises(NotStoredError):
        rows.unmerge(with_keys("auto", memory).fit(X[40:], Y[40:] + 7))


def test_no_forgotten_row_is_noted() -> None:
    rows = [["secret-row", "b"], ["c", "d"], ["e", "f"]] * 3
    clf = with_keys("auto", Ledgered(Exact())).fit(rows, list("xyzxyzxyz"))
    for _ in range(3):
        clf.forget_one(["secret-row", "b"], "x")
    assert b"secret-row" not in pickle.dumps(clf)
    assert b"secret-row" not in file_bytes(clf)
    window = Rolling(with_keys("auto", Ledgered(Exact())), last=2).partial_fit(rows[:3], list("xyz"))
    assert not has_ledger(window.estimator_)
    assert b"secret-row" not in pickle.dumps(window)


def test_rows_set_free_leave_a_ledger() -> None:
    clf = with_keys("auto", Ledgered(Exact())).fit(X, Y).set_params(keep=False).refit()
    assert clf.state.store is None
    assert has_ledger(clf)
    assert clf.forget(X, Y).memory_.n_examples == 0
    opened = with_keys("auto", Ledgered(Exact())).open(3)
    assert (
        opened.memory_.state_bytes()
        == with_keys("auto", Ledgered(Exact())).fit(X, Y).empty_like().memory_.state_bytes()
    )


def test_a_file_without_ledger_and_rows_is_refused(tmp_path: Path) -> None:
    clf = with_keys(False, Ledgered(Exact())).fit(X, Y)
    assert isinstance(clf.memory_, Ledgered)
    clf.memory_.drop_ledger()
    save(clf, tmp_path / "m")
    with pytest.raises(FileError, match="neither a ledger nor all rows"):
        load(tmp_path / "m")
    clf = with_keys("auto", Ledgered(Exact())).fit(X, Y)
    other = with_keys("auto", Ledgered(Exact())).fit(X[1:], Y[1:])
    take_state(clf, clf.state.but(store=other.state.store))
    save(clf, tmp_path / "m")
    with pytest.raises(FileError, match="not those that it counts"):
        load(tmp_path / "m")
