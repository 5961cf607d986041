"""The default of every axis: what "auto" becomes, by name and by parameter, and that it can be seen."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.base import clone

from hammemo import MeMoClassifier, MemoryClassifier, load, save
from hammemo.kernels import AutoSites, PositionalHamming, SiteKernel, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.votes import LogLinear, Mean, Sum

if TYPE_CHECKING:
    from pathlib import Path


def exclusive_or(n: int = 200, seed: int = 0) -> tuple[Any, Any]:
    X = np.random.default_rng(seed).integers(0, 2, (n, 4))
    return X.astype(str), np.where(X[:, 0] ^ X[:, 2], "odd", "even")


@pytest.fixture(scope="module")
def fitted() -> MemoryClassifier:
    return MemoryClassifier().fit(*exclusive_or())


def test_the_default_finds_tuples_and_fits_weights(fitted: MemoryClassifier) -> None:
    assert isinstance(fitted.memory_, Exact)
    assert isinstance(fitted.vote_, LogLinear)
    assert isinstance(fitted.kernel_, SiteKernel)
    assert fitted.sites_.positions[:5] == ((0,), (1,), (2,), (3,), (0, 2))
    X, y = exclusive_or(seed=1)
    assert fitted.score(X, y) == 1.0
    assert fitted.predict_proba(X).max() > 0.98
    assert fitted.certify(X).all()


def test_the_order_of_rows_and_how_repetition_is_written_change_no_byte(fitted: MemoryClassifier) -> None:
    X, y = exclusive_or()
    distinct, first, counts = np.unique(X, axis=0, return_index=True, return_counts=True)
    order = np.random.default_rng(1).permutation(len(distinct))
    again = MemoryClassifier().fit(distinct[order], y[first][order], counts[order])
    assert again.kernel_.get_params() == fitted.kernel_.get_params()
    assert again.vote_.get_params() == fitted.vote_.get_params()
    assert again.predict_proba(X).tobytes() == fitted.predict_proba(X).tobytes()


def test_the_report_says_what_was_chosen_and_what_it_gained(fitted: MemoryClassifier) -> None:
    text = str(fitted.report())
    for part in ("200 rows, 4 columns, 2 labels", "(0, 2)", "log-loss on 2 folds left out", "Exact()", "LogLinear"):
        assert part in text
    assert fitted.report().choices.losses[0] > 0.6 > 0.1 > fitted.report().choices.losses[-1]
    few = MemoryClassifier().fit([["a", "b"], ["c", "b"]], ["x", "y"])
    assert "2 examples are too few" in str(few.report())
    given = MemoryClassifier(Suffixes(2), Hashed(), "sum").fit([["a", "b"], ["c", "b"]], ["x", "y"])
    assert str(given.report()).count("as given") == 3


def test_the_report_names_columns() -> None:
    pd = pytest.importorskip("pandas")
    X, y = exclusive_or()
    frame = pd.DataFrame(X, columns=["one", "two", "three", "four"]).astype(str)
    assert "(one, three)" in str(MemoryClassifier().fit(frame, y).report())
    hostile = frame.rename(columns={"one": "<b>"})
    assert "(&lt;b&gt;, three)" in MemoryClassifier().fit(hostile, y).report()._repr_html_()


@pytest.mark.parametrize(
    ("memory", "vote", "kernel_", "vote_"),
    [
        ("auto", "auto", SiteKernel, LogLinear),
        (Exact(), "log-linear", SiteKernel, LogLinear),
        ("exact", "sum", PositionalHamming, Sum),
        ("exact", LogLinear(weights=[1, 1, 1, 1]), PositionalHamming, LogLinear),
        ("hashed", "auto", PositionalHamming, LogLinear),
        (Tiered(), "auto", PositionalHamming, LogLinear),
        ("gaussian", "auto", PositionalHamming, Sum),
        (None, "mean", PositionalHamming, Mean),
    ],
)
def test_what_auto_becomes_beside_other_parts(memory: Any, vote: Any, kernel_: type, vote_: Any) -> None:
    clf = MemoryClassifier(memory=memory, vote=vote)
    assert hasattr(clf, "predict_proba") == vote_.has_probabilities
    clf.fit(*exclusive_or())
    assert type(clf.kernel_) is kernel_
    assert type(clf.vote_) is vote_
    assert hasattr(clf, "predict_proba") == vote_.has_probabilities


@pytest.mark.parametrize(
    ("name", "cls"), [("exact", Exact), ("hashed", Hashed), ("gaussian", Gaussian), ("tiered", Tiered)]
)
def test_memories_by_name(name: str, cls: type) -> None:
    assert type(MemoryClassifier(memory=name).fit([["a", "b"]], ["x"]).memory_) is cls


def test_kernels_by_name_and_none_as_before() -> None:
    X, y = [["a", "b", "c", "d"]] * 2, ["x", "y"]
    for name in ("positional", "decaying", "suffixes", "skip-pairs"):
        assert MemoryClassifier(kernel=name, vote="sum").fit(X, y).sites_.positions
    old = MemoryClassifier(None, None, "sum").fit(X, y)
    assert isinstance(old.kernel_, PositionalHamming)
    assert isinstance(old.memory_, Hashed)


def test_names_that_are_not_known_are_refused_with_those_that_are() -> None:
    for wrong, words in (
        ({"kernel": "triples"}, "'auto', 'positional', 'pairs', 'decaying:RATE'"),
        ({"memory": "big"}, "'auto', 'exact', 'hashed', 'gaussian', 'tiered'"),
        ({"vote": "most"}, "'auto', 'sum', 'mean', 'log-linear', 'mixture'"),
    ):
        with pytest.raises(ValueError, match=words):
            MemoryClassifier(**wrong).fit([["a"]], ["x"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is not a kernel"):
        MemoryClassifier(kernel=Exact()).fit([["a"]], ["x"])


def test_parameters_of_parts_can_be_set_on_auto() -> None:
    clf: Any = clone(MemoryClassifier()).set_params(memory__buckets=3, vote__ridge=2.0, kernel__order=2)
    assert clf.memory.buckets == 3
    assert clf.vote.ridge == 2.0
    assert clf.kernel.order == 2
    old: Any = MemoryClassifier(None, None).set_params(memory__buckets=3)
    assert old.memory.buckets == 3
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        MemoryClassifier().set_params(vote__nothing=1)


def test_auto_sites_are_chosen_for_any_memory_that_is_given_them() -> None:
    clf = MemoryClassifier(AutoSites(budget=1), Hashed(64, 16), "log-linear").fit(*exclusive_or())
    assert clf.sites_.positions[4:] == ((0, 2),)


def test_the_paper_s_model_is_unchanged() -> None:
    clf = MeMoClassifier(d=64)
    assert clf.get_params() == {
        "d": 64,
        "d_h": None,
        "tied": False,
        "exact": False,
        "codes": None,
        "output_codes": None,
        "projection": None,
        "distribution": "gaussian",
        "device": None,
        "verbose": 0,
        "kernel": None,
        "vote": "sum",
        "random_state": 0,
    }
    clf.fit(*exclusive_or())
    assert isinstance(clf.kernel_, PositionalHamming)
    assert isinstance(clf.vote_, Sum)
    assert not hasattr(clf, "predict_proba")


def test_streams_compare_positions_suffixes_and_skip_pairs() -> None:
    stream = np.random.default_rng(0).integers(0, 3, 400)
    clf = MemoryClassifier().fit_stream(stream, h=5)
    assert {(4,), (3, 4), (1, 2, 3, 4), (2, 4)} <= set(clf.sites_.positions)
    assert hasattr(clf.vote_, "labels_")
    assert MemoryClassifier(vote="sum").fit_stream(stream, h=5).sites_.positions == tuple((j,) for j in range(5))
    for h in (1, 2, 3):
        assert MemoryClassifier().fit_stream(stream, h=h).predict(stream[None, :h]).shape == (1,)


def test_with_many_labels_all_share_their_weights() -> None:
    rng = np.random.default_rng(0)
    many = MemoryClassifier().fit(rng.integers(0, 300, (2000, 2)), rng.integers(0, 300, 2000))
    assert not many.vote_.per_label
    X = rng.integers(0, 5, (600, 2))
    assert not MemoryClassifier().partial_fit(X, np.arange(600) % 300).vote_.per_label


def test_no_answer_costs_more_than_the_share_of_even_probabilities_allows(fitted: MemoryClassifier) -> None:
    share = fitted.vote_.uniform_share
    assert share > 0
    probabilities = fitted.predict_proba(exclusive_or()[0])
    assert probabilities.min() >= share / 2
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert np.log(probabilities) == pytest.approx(fitted.predict_log_proba(exclusive_or()[0]))
    assert (probabilities.argsort(axis=1) == fitted.class_scores(exclusive_or()[0]).argsort(axis=1)).all()


def test_a_layout_hands_sites_and_weights_to_an_auto_model(fitted: MemoryClassifier) -> None:
    X, y = exclusive_or(seed=2)
    other = MemoryClassifier().partial_fit(X, y, layout=fitted)
    assert other.sites_.positions == fitted.sites_.positions
    both = fitted + other
    assert both.memory_.label_counts.sum() == 400
    assert fitted.empty_like().partial_fit(X, y).memory_.state_bytes() == other.memory_.state_bytes()


def test_what_was_chosen_survives_files_copies_and_snapshots(fitted: MemoryClassifier, tmp_path: Path) -> None:
    X, _ = exclusive_or(seed=3)
    save(fitted, tmp_path / "model")
    loaded = load(tmp_path / "model")
    for other in (loaded, copy.deepcopy(fitted), fitted.snapshot(), fitted.compile()):
        assert other.predict_proba(X).tobytes() == fitted.predict_proba(X).tobytes()
    assert loaded.get_params() == fitted.get_params()
    assert "as loaded" in str(loaded.report())
