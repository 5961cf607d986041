"""`sync` against its plain twins: a difference of two counters, and `fit`."""

from __future__ import annotations

import datetime
import threading
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo.edits import sync
from hammemo.memories import Exact
from hammemo.stores import Digests
from hammemo.stores.digest_store import DigestStore
from hammemo.stores.kept_rows import KeptRows
from hammemo.tokens.contexts import Examples

if TYPE_CHECKING:
    from pathlib import Path

Row = tuple[Any, ...]
KNOWN = ["auto", "digests", "auto+digests", Digests(rows=3), Digests(rows=True, key=b"k" * 16)]
"""Values of keep with which a model knows all its rows."""

row = st.tuples(st.sampled_from(["a", "b", "3"]), st.sampled_from([1.5, 2.0, None]), st.sampled_from("xy"))
tables = st.lists(row, min_size=1, max_size=12)


def pair(listed: list[Row]) -> tuple[list[list[Any]], list[Any]]:
    return [list(row[:-1]) for row in listed], [row[-1] for row in listed]


def model(**given: Any) -> MemoryClassifier:
    return MemoryClassifier(random_state=1, **given)


def frame(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    days = pd.to_timedelta(rng.integers(0, 900, n), "D")
    plans, since = rng.choice(list("abc"), n), pd.Timestamp("2020-01-01") + days
    return pd.DataFrame({"plan": plans, "calls": rng.normal(size=n), "since": since}), rng.choice(["no", "yes"], n)


@pytest.mark.parametrize("is_digested", [False, True])
@given(held=tables, given_rows=tables)
def test_a_difference_is_that_of_two_counters(is_digested: bool, held: list[Row], given_rows: list[Row]) -> None:
    store: Any = DigestStore(2, 0) if is_digested else KeptRows.empty(2, 0)
    as_names = [(one, str(two), label) for one, two, label in held]
    table = [(one, str(two), label) for one, two, label in given_rows]
    found = sync.difference(store.edit(Examples.of(*pair(as_names)), 1), Examples.of(*pair(table)))
    assert found is not None
    gone, new = Counter(as_names) - Counter(table), Counter(table) - Counter(as_names)
    assert (found.n_gone, found.n_new, found.n_same) == (gone.total(), new.total(), len(table) - new.total())
    times = dict(zip(found.places.tolist(), found.times.tolist(), strict=True))
    assert Counter({table[place]: times[place] for place in times}) == new
    if not is_digested:
        assert found.gone is not None
        tokens, labels = found.gone.contexts.vocabulary.tolist(), found.gone.labels.tolist()
        ranks = zip(found.gone.contexts.ranks.tolist(), found.gone.label_ranks.tolist(), strict=True)
        rows = [(*(tokens[rank] for rank in row), labels[label]) for row, label in ranks]
        assert Counter(dict(zip(rows, found.gone.multiplicity.tolist(), strict=True))) == gone


@pytest.mark.parametrize("keep", KNOWN, ids=str)
@settings(max_examples=12, deadline=None)
@given(history=st.lists(tables, min_size=2, max_size=4), refits=st.booleans())
def test_after_any_history_a_refit_is_what_fit_makes_of_the_table(
    keep: Any, history: list[list[Row]], refits: bool
) -> None:
    clf = model(keep=keep).fit(*pair(history[0]))
    for before, table in pairwise(history):
        plan = clf.sync(*pair(table), dry_run=True)
        done = clf.sync(*pair(table), refit=refits)
        gone, new = Counter(before) - Counter(table), Counter(table) - Counter(before)
        assert (plan.forgotten, plan.learnt) == (done.forgotten, done.learnt) == (gone.total(), new.total())
        assert done.unchanged == len(table) - new.total()
        assert clf.sync(*pair(table), dry_run=True).is_equal
    fresh = model(keep=keep).fit(*pair(history[-1]))
    if clf.state.all_kept is not None and not refits:
        assert clf.refit().digest(parts=True) == fresh.digest(parts=True)
    clf.sync(*pair(history[-1]), refit=True)
    assert clf.digest(parts=True) == fresh.digest(parts=True)


@pytest.mark.parametrize("keep", [*KNOWN, False, 5], ids=str)
def test_with_refit_it_is_a_fit_for_every_keep(keep: Any) -> None:
    X, y = frame(300)
    more, labels = frame(40, 1)
    table, after = pd.concat([X[25:], more]), np.concatenate([y[25:], labels])
    clf = model(keep=keep).fit(X, y)
    clf.sync(table, after, refit=True, position="7")
    assert clf.digest(parts=True) == model(keep=keep).fit(table, after).digest(parts=True)
    assert clf.position_ == "7"
    assert not clf.state.stale


@pytest.mark.parametrize("keep", [True, "digests", "auto+digests", Digests(rows=20)], ids=str)
def test_without_refit_layout_and_weights_stay_and_counts_are_those_of_the_table(keep: Any) -> None:
    X, y = frame(300)
    clf = model(keep=keep).fit(X, y)
    weights, layout = clf.digest(parts=True)["weights"], clf.digest(parts=True)["layout"]
    twin = clf.empty_like().partial_fit(X[25:], y[25:], choose=False)
    clf.sync(X[25:], y[25:])
    mine, theirs = clf.digest(parts=True), twin.digest(parts=True)
    assert (mine["counts"], mine["weights"], mine["layout"].split()) == (theirs["counts"], weights, layout.split())
    assert clf.state.stale
    assert clf.state.n_examples == 275


def test_a_model_with_digests_only_says_that_it_counted_anew() -> None:
    X, y = frame(100)
    clf = model(keep="digests").fit(X, y)
    done = clf.sync(X[10:], y[10:])
    assert done.how == "counted"
    assert "only digests of the rows that are gone" in str(done)
    with pytest.raises(ValueError, match="does not store the content"):
        done.forgotten_rows()
    assert clf.sync(X, y).how == "edited"  # nothing is gone


@pytest.mark.parametrize("given_keep", [False, 20])
def test_a_model_that_does_not_know_its_rows_needs_a_refit(given_keep: Any) -> None:
    X, y = frame(100)
    clf = model(keep=given_keep).fit(X, y)
    before = clf.digest()
    for dry_run in (False, True):
        with pytest.raises(ValueError, match=r"does not know all of its rows .*: pass refit=True"):
            clf.sync(X[5:], y[5:], dry_run=dry_run)
    assert clf.digest() == before
    done = clf.sync(X[5:], y[5:], refit=True)
    assert (done.forgotten, done.learnt, done.unchanged, done.is_equal) == (None, None, None, False)
    assert "did not know which rows it held" in str(done)


@pytest.mark.parametrize("keep", [*KNOWN, False], ids=str)
def test_a_table_without_rows_forgets_everything(keep: Any) -> None:
    X, y = frame(80)
    clf = model(keep=keep).fit(X, y)
    done = clf.sync(X[:0], y[:0])
    assert (done.forgotten, done.learnt, done.unchanged, clf.state.n_examples) == (80, 0, 0, 0)
    if keep is not False:
        assert clf.sync(X, y, refit=True).learnt == 80
        assert clf.digest() == model(keep=keep).fit(X, y).digest()
    again = clf.sync(X, y, sample_weight=np.zeros(80, int))
    assert (again.learnt, clf.state.n_examples) == (0, 0)


def test_nothing_is_done_in_a_dry_run_of_a_table_without_rows() -> None:
    X, y = frame(80)
    clf = model().fit(X, y)
    done = clf.sync(X[:0], y[:0], dry_run=True)
    assert (done.forgotten, len(done.forgotten_rows()[1]), clf.state.n_examples, clf.version_) == (80, 80, 80, 1)


def test_one_label_and_a_model_that_has_learnt_nothing() -> None:
    X, y = frame(60)
    clf = model()
    assert clf.sync(X, y, dry_run=True).learnt == 60
    assert not hasattr(clf, "classes_")
    assert str(clf.sync(X, y)) == "0 rows forgotten, 60 learnt, 0 unchanged. The model was fitted to the table."
    only = y == "yes"
    clf.sync(X[only], y[only], refit=True)
    assert clf.classes_.tolist() == ["yes"]
    assert clf.digest() == model().fit(X[only], y[only]).digest()
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        model().sync(X[:0], y[:0])


@pytest.mark.parametrize("keep", KNOWN, ids=str)
def test_copies_and_weights_count(keep: Any) -> None:
    X, y = [["a", "b"], ["c", None]], ["x", "y"]
    clf = model(keep=keep).fit(X, y, sample_weight=[3, 1])
    done = clf.sync([["a", "b"]] * 5 + [["c", None]], ["x"] * 5 + ["y"])
    assert (done.forgotten, done.learnt, done.unchanged) == (0, 2, 4)
    assert done.learnt_rows()[0].tolist() == [["a", "b"]] * 2
    done = clf.sync(X, y, sample_weight=[2, 0])
    assert (done.forgotten, done.learnt, done.unchanged, clf.state.n_examples) == (4, 0, 2, 2)


def test_values_are_compared_by_their_types() -> None:
    clf = model().fit([["3", "u"], [3, "u"]], ["x", "x"])
    done = clf.sync([["3", "u"], ["3", "u"]], ["x", "x"])
    assert (done.forgotten, done.learnt) == (1, 1)
    assert done.forgotten_rows()[0].tolist() == [[3, "u"]]
    assert done.learnt_rows()[0].tolist() == [["3", "u"]]
    days = [datetime.date(2020, 1, day) for day in range(1, 9)]
    clf = model().fit(pd.DataFrame({"day": days}), list("xyxyxyxy"))
    moved = clf.sync(pd.DataFrame({"day": [*days[1:], datetime.date(2021, 1, 1)]}), list("yxyxyxyx"))
    assert (moved.forgotten, moved.learnt, moved.unchanged) == (1, 1, 7)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda X: X[["calls", "plan", "since"]], "same order"),
        (lambda X: X.drop(columns="calls"), "calls"),
        (lambda X: X.assign(region="north"), "region"),
        (lambda X: X.assign(calls="many"), "calls"),
    ],
)
@pytest.mark.parametrize("refits", [False, True])
def test_other_columns_are_refused_by_name_and_nothing_changes(change: Any, named: str, refits: bool) -> None:
    X, y = frame(60)
    clf = model().fit(X, y)
    before = clf.digest()
    with pytest.raises(ValueError, match=named):
        clf.sync(change(X), y, refit=refits)
    assert (clf.digest(), clf.version_) == (before, 1)


def test_columns_that_get_their_first_values() -> None:
    X, y = frame(60)
    empty = X.assign(calls=None)
    clf = model().fit(empty, y)
    assert clf.sync(X, y).learnt == 60
    assert clf.refit().digest() == model().fit(X, y).digest()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_what_fails_in_the_middle_changes_nothing(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = frame(60)
    clf = model().fit(X, y)
    before = clf.digest()

    def fail(*_: Any, **__: Any) -> None:
        assert clf.state.n_examples == 60  # rows are forgotten by now, but no reader sees it
        raise error

    monkeypatch.setattr(sync, "learn", fail)
    more, labels = frame(70, 1)
    with pytest.raises(error):
        clf.sync(more, labels, position="9")
    monkeypatch.undo()
    assert (clf.digest(), clf.position_, clf.version_) == (before, None, 1)
    assert clf.sync(more, labels, position="9").learnt == 70


def test_an_interrupt_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = frame(60)
    clf, before = model().fit(X, y), model().fit(X, y).digest()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sync, "difference", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clf.sync(X[10:], y[10:])
    assert clf.digest() == before


def test_readers_see_the_table_before_or_after_and_threads_queue() -> None:
    X, y = frame(200)
    clf = model(vote="sum", memory=Exact(), keep=True).fit(X, y)
    sizes, seen, done = {200, 120}, set[int](), threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(clf.state.n_examples)

    def change(n: int) -> None:
        for _ in range(10):
            clf.sync(X[:n], y[:n])

    reader, *writers = [threading.Thread(target=read), *(threading.Thread(target=change, args=(n,)) for n in sizes)]
    reader.start()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert seen <= sizes
    n = clf.state.n_examples
    assert clf.refit().digest() == model(vote="sum", memory=Exact(), keep=True).fit(X[:n], y[:n]).digest()


def test_models_of_documents_are_refused() -> None:
    for keep in ("auto", "digests", False):
        clf = MemoryClassifier(keep=keep).fit_stream([["a", "b", "c"]] * 3, h=2)
        with pytest.raises(ValueError, match="this model learnt documents: use forget_stream"):
            clf.sync([["a", "b"]], ["c"])


def test_a_given_layout_and_declared_labels_stay() -> None:
    X, y = frame(200)
    base = model().fit(X, y)
    clf = model().partial_fit(X, y, layout=base, classes=["maybe"])
    cells = clf.state.layout.cells
    clf.sync(X[50:], y[50:], refit=True)
    assert clf.state.layout.cells == cells
    assert clf.classes_.tolist() == ["maybe", "no", "yes"]
    twin = base.empty_like().partial_fit(X[50:], y[50:], classes=["maybe"], choose=False).refit()
    assert clf.digest(parts=True)["counts"] == twin.digest(parts=True)["counts"]
    declared = model().fit(X, y, classes=["maybe"])
    declared.sync(X[50:], y[50:], refit=True)
    assert declared.digest() == model().fit(X[50:], y[50:], classes=["maybe"]).digest()


def test_a_seed_that_was_drawn_stays() -> None:
    X, y = frame(100)
    clf = MemoryClassifier(random_state=None).fit(X, y)
    seed = clf.memory_.seed
    clf.sync(X[1:], y[1:], refit=True)
    assert clf.memory_.seed == seed


def test_a_position_is_checked_first() -> None:
    X, y = frame(20)
    clf = model().fit(X, y)
    with pytest.raises(ValueError, match="position="):
        clf.sync(X[1:], y[1:], position="")
    assert clf.state.n_examples == 20


@pytest.mark.parametrize("missing", ["token", "empty"])
def test_the_rows_that_differ_can_be_given_to_forget_and_learn(missing: str) -> None:
    X, y = frame(200)
    X.loc[3:5, "since"], X.loc[4:9, "calls"], X.loc[7:8, "plan"] = None, np.nan, None
    one, two = (model(missing=missing).fit(X[:190], y[:190]) for _ in range(2))
    done = one.sync(X[10:], y[10:])
    gone, new = done.forgotten_rows(), done.learnt_rows()
    assert gone[0][:, 2].tolist().count(None) == 3
    assert Counter(map(tuple, new[0].tolist())) == Counter(map(tuple, X[190:].astype(object).values.tolist()))
    two.forget(pd.DataFrame(gone[0], columns=X.columns), gone[1])
    two.partial_fit(pd.DataFrame(new[0], columns=X.columns), new[1])
    assert one.digest(parts=True) == two.digest(parts=True)


def numbers_table(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Return rows with a number, a name and a missing value, and numbers as targets; some rows come twice."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.integers(0, 30, n) / 4, "b": rng.choice(list("xyz"), n)})
    table.loc[::7, "a"] = None
    return table, (table["a"].fillna(1) * 2 + rng.integers(0, 3, n)).to_numpy()


@pytest.mark.parametrize("seed", range(4))
def test_a_model_of_numbers_follows_a_table(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    X, y = numbers_table(120, seed)
    reg = MemoryRegressor(random_state=0).fit(X[:80], y[:80])
    held = rng.choice(120, 70)
    told = reg.sync(X.iloc[held], y[held], dry_run=True)
    done = reg.sync(X.iloc[held], y[held], position="7")
    assert (told.forgotten, told.learnt, told.unchanged) == (done.forgotten, done.learnt, done.unchanged)
    assert reg.sync(X.iloc[held], y[held]).is_equal
    expected = MemoryRegressor(random_state=0).fit(X.iloc[held], y[held]).digest()
    save(reg.refit(), tmp_path / "model")
    assert load(tmp_path / "model").position_ == "7"
    assert reg.digest() == expected
    reg.apply(learn=(X[:40], y[:40]), forget="everything", position="8")
    assert (reg.refit().digest(), reg.position_) == (MemoryRegressor(random_state=0).fit(X[:40], y[:40]).digest(), "8")
    again = MemoryRegressor(random_state=0, keep=20).fit(X, y)
    with pytest.raises(ValueError, match="does not know all of its rows"):
        again.sync(X[5:], y[5:])
    again.sync(X[5:], y[5:], refit=True)
    assert again.digest() == MemoryRegressor(random_state=0, keep=20).fit(X[5:], y[5:]).digest()
    assert reg.sync(X[:0], y[:0]).forgotten == 40
    assert reg.refit().state.holds_nothing
