"""A model that has forgotten rows knows it until the next refit, and so do its copies and files."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest

from hammemo import MemoryClassifier, engines, load, save
from hammemo.estimators.rolling import Rolling
from hammemo.files import inspect
from hammemo.files.contents import file_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = np.random.default_rng(0).integers(0, 3, (300, 3)).tolist()
Y = [str(row[0]) for row in X]
NUMBERS = np.random.default_rng(0).normal(size=(300, 2))

FITTED = MemoryClassifier().fit(X, Y)


def forgotten() -> MemoryClassifier:
    return FITTED.snapshot().forget(X[:5], Y[:5])


def warns(model: MemoryClassifier) -> bool:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.predict(X[:1])
    return any("still depends" in str(one.message) for one in told)


def loaded(model: MemoryClassifier, path: Path) -> MemoryClassifier:
    save(model, path)
    return load(path)  # type: ignore[no-any-return]


COPIES: dict[str, Callable[[MemoryClassifier, Path], MemoryClassifier]] = {
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),  # noqa: S301
    "copy": lambda model, _: copy.copy(model),
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "snapshot": lambda model, _: model.snapshot(),
    "file": loaded,
    "left of +": lambda model, _: model + FITTED,
    "right of +": lambda model, _: FITTED + model,
    "left of -": lambda model, _: model - FITTED.empty_like(),
    "empty_like": lambda model, _: model.empty_like().partial_fit(X, Y),
    "layout": lambda model, _: MemoryClassifier().partial_fit(X, Y, layout=model),
}


@pytest.mark.parametrize("way", COPIES)
def test_copies_know_that_rows_were_forgotten(way: str, tmp_path: Path) -> None:
    made = COPIES[way](forgotten(), tmp_path / "model")
    assert made.report().is_stale
    assert "stale: rows were forgotten" in str(made.report())
    assert warns(made)
    assert not warns(made)  # once
    clean = COPIES[way](FITTED.snapshot(), tmp_path / "model")
    assert not clean.report().is_stale
    assert not warns(clean)


@pytest.mark.parametrize("way", ["pickle", "deepcopy", "file"])
def test_a_new_object_warns_again(way: str, tmp_path: Path) -> None:
    model = forgotten()
    assert warns(model)
    assert warns(COPIES[way](model, tmp_path / "model"))


def test_to_subtract_a_model_is_to_forget_it() -> None:
    part = FITTED.empty_like().partial_fit(X[:9], Y[:9])
    assert (FITTED - part).report().is_stale
    assert not (FITTED - part).refit().report().is_stale


def test_digests_do_not_tell(tmp_path: Path) -> None:
    model = forgotten().partial_fit(X[:5], Y[:5], choose=False)
    assert model.report().is_stale
    assert model.digest(parts=True) == FITTED.digest(parts=True)
    assert loaded(model, tmp_path / "model").digest() == FITTED.digest()
    assert file_bytes(model.refit()) == file_bytes(FITTED)


@pytest.mark.parametrize("how", ["refit", "fit", "refit rows"])
def test_a_choice_ends_it(how: str) -> None:
    model = forgotten()
    ways: dict[str, Any] = {
        "refit": model.refit,
        "fit": lambda: model.fit(X, Y),
        "refit rows": lambda: model.refit(rows=(X[5:], Y[5:])),
    }
    ways[how]()
    assert not model.report().is_stale
    assert not warns(model)


def test_a_failed_edit_changes_nothing() -> None:
    model = FITTED.snapshot()
    with pytest.raises(ValueError, match="not stored"):
        model.forget([[91, 92, 93]], ["0"])
    assert not model.report().is_stale


def test_weights_alone_end_it_only_where_nothing_was_chosen_by_rows() -> None:
    fixed = MemoryClassifier("positional", vote="log-linear").fit(X, Y).forget(X[:5], Y[:5])
    assert fixed.report().is_stale
    assert not fixed.refit(what="weights").report().is_stale
    assert forgotten().refit(what="weights").report().is_stale
    cut = MemoryClassifier("positional").fit(NUMBERS, Y).forget(NUMBERS[:5], Y[:5])
    assert cut.refit(what="weights").report().is_stale


def test_a_model_that_keeps_some_rows_needs_the_others() -> None:
    model = MemoryClassifier(keep=20).fit(NUMBERS, Y).forget(NUMBERS[:5], Y[:5]).refit()
    with pytest.warns(UserWarning, match=r"until refit\(rows=\(X, y\)\), with the rows that are left"):
        model.predict(NUMBERS[:1])
    assert not model.refit(rows=(NUMBERS[5:], Y[5:])).report().is_stale


def test_files_say_it_and_only_the_truth(tmp_path: Path) -> None:
    save(forgotten(), tmp_path / "stale")
    save(FITTED, tmp_path / "clean")
    assert (inspect(tmp_path / "stale")["stale"], inspect(tmp_path / "clean")["stale"]) == (True, False)
    save(forgotten(), tmp_path / "segments", segments=2)
    assert load(tmp_path / "segments").report().is_stale


def test_engines_know_it(tmp_path: Path) -> None:
    table = pandas.DataFrame([[f"v{value}" for value in row] for row in X], columns=[*"abc"])
    labels = [f"l{label}" for label in Y]
    table.assign(y=labels).to_csv(tmp_path / "t.csv", index=False)
    model = engines.fit_table(MemoryClassifier(), tmp_path / "t.csv", "y")
    clean = engines.fit_table(MemoryClassifier(), tmp_path / "t.csv", "y", layout=model)
    model.forget(table[:5], labels[:5])
    shard = engines.fit_table(MemoryClassifier(), tmp_path / "t.csv", "y", layout=model)
    assert (clean.report().is_stale, shard.report().is_stale) == (False, True)


def test_a_window_does_not_warn() -> None:
    window = Rolling(MemoryClassifier(), last=250)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        window.partial_fit(X, Y).partial_fit(X[:20], Y[:20]).predict(X[:1])
    assert window.estimator_.report().is_stale


def test_documents(tmp_path: Path) -> None:
    visits: Any = [["tea", "cup", "pot"], ["pen", "ink", "pad"], ["tea", "pot", "cup"]] * 30
    shop = MemoryClassifier().fit_stream(visits, h=2, short="pad")
    assert not shop.report().is_stale
    shop.forget_stream(visits[:1])
    assert loaded(shop, tmp_path / "model").report().is_stale
    assert not shop.refit().report().is_stale
