"""Explanations: the terms of a model's own sum, with an error that is true, shown in three ways."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from hammemo import NO_TOKEN, MeMoClassifier, MemoryClassifier, Rolling
from hammemo.edits.editing import take_state
from hammemo.explain.explanations import Explanation
from hammemo.kernels import Bag, Decaying, PositionalHamming, SiteKernel, SkipPairs, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.memories.row_rules import RowRule
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.votes import LogLinear
from memory_catalogue import MEMORIES, Entry, batches

if TYPE_CHECKING:
    from hammemo.estimators.predictor import Predictor

Batch = list[tuple[list[Any], str, int]]

VOTES: dict[str, Any] = {"sum": "sum", "mean": "mean", "log-linear": LogLinear(smoothing=(1, 10), steps=3)}
KERNELS = [
    PositionalHamming(),
    SiteKernel([0, 2, (0, 2), (-3, -2, -1)], weights=[1, 2, 3, 4]),
    Suffixes(3, base=0.3) + SkipPairs(3),
    Decaying(0.7),
]

ORDERS = [
    (["order", "pay", "ship"], "deliver", 5),
    (["order", "pay", "ship"], "return", 2),
    (["order", "cancel", "refund"], "close", 3),
    (["gift", "pay", "ship"], "deliver", 4),
]


def objects(batch: Batch) -> Any:
    X = np.empty((len(batch), 3), object)
    X[:] = [context for context, _, _ in batch]
    return X


def fitted(model: MemoryClassifier, batch: Batch) -> MemoryClassifier:
    fresh: MemoryClassifier = clone(model)
    return fresh.fit(objects(batch), [label for _, label, _ in batch], [count for _, _, count in batch])


def keeps_rows(entry: Entry) -> bool:
    return not isinstance(entry.memory, Gaussian)


CASES = [(entry, vote) for entry in MEMORIES for vote in VOTES if vote != "log-linear" or keeps_rows(entry)]


@pytest.mark.parametrize(("entry", "vote"), CASES, ids=lambda part: str(part))
@pytest.mark.examples(5)
@given(batch=batches, query=batches, kernel=st.sampled_from(KERNELS), k=st.integers(1, 6))
@settings(max_examples=20, deadline=None)
def test_contributions_add_up_to_the_scores_of_the_leading_labels(
    entry: Entry, vote: str, batch: Batch, query: Batch, kernel: SiteKernel, k: int
) -> None:
    memory = entry.for_sites(len(kernel.resolve(3).positions))
    clf = fitted(MemoryClassifier(kernel, memory, VOTES[vote], numeric="none"), batch)
    x = query[0][0]
    check_explanation(clf, clf.explain(x, k), objects(query[:1]), k)
    served = clf.compile()
    in_float32 = not keeps_rows(entry)
    check_explanation(served, served.explain(x, k), objects(query[:1]), k, rounding=2e-4 if in_float32 else 1e-11)
    explanation = clf.explain(x, k)
    reader = clf.memory_.reader()
    if not reader.has_bounds or (vote == "log-linear" and not reader.is_exact):
        assert explanation.certified is None
    else:
        assert explanation.certified is bool(clf.certify(objects(query[:1]))[0])


def check_explanation(
    model: MemoryClassifier | Predictor, explanation: Explanation, X: Any, k: int, rounding: float = 1e-11
) -> None:
    """Hold an explanation against what the model says by its other ways."""
    assert list(explanation.labels) == model.top_k(X, k)[0].tolist()
    scores = dict(zip(model.classes_.tolist(), model.class_scores(X)[0].tolist(), strict=True))
    assert explanation.scores.tolist() == [scores[label] for label in explanation.labels]
    summed = explanation.base + explanation.contributions.sum(axis=0)
    np.testing.assert_allclose(summed, explanation.scores, rtol=0, atol=rounding)
    ranked = sorted(scores.values(), reverse=True)
    assert explanation.margin == (ranked[0] - ranked[1] if len(ranked) > 1 else None)
    assert [token if token is not None else NO_TOKEN for token in explanation.tokens] == X[0].tolist()
    told = json.loads(json.dumps(explanation.to_dict()))
    assert told["labels"] == list(explanation.labels)
    assert str(explanation).startswith(" ")
    again = Explanation.from_dict(told)
    assert (again.to_dict(), str(again)) == (told, str(explanation))


@pytest.mark.parametrize("vote", VOTES)
@given(batch=batches, query=batches, kernel=st.sampled_from(KERNELS))
@settings(max_examples=30, deadline=None)
def test_hard_bounds_hold_what_the_exact_twin_says(vote: str, batch: Batch, query: Batch, kernel: SiteKernel) -> None:
    sketch = fitted(MemoryClassifier(kernel, Hashed(3, 2), VOTES[vote], numeric="none"), batch)
    twin = fitted(MemoryClassifier(kernel, Exact(), VOTES[vote], numeric="none"), batch)
    take_state(twin, twin.state.with_changes(vote=sketch.vote_))  # the same weights
    x, n_labels = query[0][0], len(sketch.classes_)
    mine, exact = sketch.explain(x, n_labels), twin.explain(x, n_labels)
    places = [exact.labels.index(label) for label in mine.labels]
    assert mine.low is not None
    assert mine.high is not None
    slack = 2.0**-13 + 1e-12 if vote == "log-linear" else 1e-12  # the sketch's rule is rounded to steps of 2^-12
    assert (mine.low <= exact.contributions[:, places] + slack).all()
    assert (exact.contributions[:, places] <= mine.high + slack).all()
    bounds = mine.score_bounds
    assert bounds is not None
    many = slack * (len(mine.sites) + 1)
    assert (bounds[0] <= exact.scores[places] + many).all()
    assert (exact.scores[places] <= bounds[1] + many).all()
    assert (mine.contributions <= mine.high + 1e-12).all()


@given(
    low=st.lists(st.integers(0, 5), min_size=4, max_size=4),
    more=st.lists(st.integers(0, 5), min_size=4, max_size=4),
    shares=st.lists(st.floats(0, 1), min_size=4, max_size=4),
    weights=st.lists(st.floats(-2, 2), min_size=8, max_size=8),
)
@settings(max_examples=200, deadline=None)
def test_a_rule_is_bounded_by_its_bounds_on_every_row_between(
    low: list[int], more: list[int], shares: list[float], weights: list[float]
) -> None:
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    rule = RowRule((0.5, 20.0), np.reshape(weights, (1, 2, 4)), prior, np.zeros(4))
    least = np.array([low], float)
    most = least + more
    between = least + np.array(shares) * more
    below, above = rule.row_bounds(0, least, most)
    value = rule.rows(0, between)
    assert (below <= value + 1e-9).all()
    assert (value <= above + 1e-9).all()
    for bound in rule.row_bounds(0, between, between):
        np.testing.assert_allclose(bound, value, atol=1e-9)


def test_a_row_of_one_s_own_is_exact_and_a_bucket_is_not() -> None:
    clf = fitted(
        MemoryClassifier(memory=Hashed(buckets=1, reserved=2), vote="sum"), ORDERS
    )  # "pay" and "ship" have own rows
    explanation = clf.explain(["order", "pay", "ship"], k=2)
    assert explanation.precision == "bounds"
    assert explanation.low is not None
    assert explanation.high is not None
    np.testing.assert_array_equal(explanation.low[1:], explanation.high[1:])
    assert explanation.low[0].tolist() == [0, 0]
    assert explanation.high[0].tolist() == [
        pytest.approx(3),
        pytest.approx(2 / 3),
    ]  # all of the one bucket, over three sites
    empty = (
        MemoryClassifier(memory=Hashed(2, 0), vote="sum")
        .fit([["a"], ["b"], ["c"], ["d"]], ["x", "x", "x", "y"])
        .explain(["a"])
    )
    assert empty.contributions.tolist()[0][1] < 0
    assert "-1 [0, 0]" in str(empty)  # known to be zero, and counted as less
    assert empty.precision == "bounds"
    own = clf.explain([NO_TOKEN, "pay", "ship"], k=2)
    assert own.precision == "exact"
    assert own.tokens == (None, "pay", "ship")
    assert own.seen == (None, True, True)
    assert "position -3: missing" in str(own)


@pytest.mark.parametrize("way", ["token", "empty"])
def test_missing_values_and_truth_values_are_shown_as_what_they_are(way: str) -> None:
    frame = pd.DataFrame({"age": [39.5, None, 20.0] * 20, "job": ["a", None, "b"] * 20, "smokes": [True, False] * 30})
    clf = MemoryClassifier(missing=way).fit(frame, ["x", "y", "y"] * 20)
    shown = str(clf.explain(frame.iloc[1], k=2))
    for name in ("age: missing", "job: missing", "smokes: False"):
        assert f"\n{name}" in shown
    assert "nothing" not in shown
    assert clf.explain(frame.iloc[0]).tokens[2] is True
    assert Explanation.from_dict(clf.explain(frame.iloc[0]).to_dict()).tokens[2] is True
    named = MemoryClassifier(missing=way).fit(frame[["job", "smokes"]], ["x", "y", "y"] * 20)
    assert "\njob: missing" in str(named.explain([None, np.True_]))
    assert "\nsmokes: True" in str(named.explain([None, np.True_]))
    assert "\nsmokes: 1" in str(named.explain([None, 1]))


def test_standard_errors_have_the_size_and_the_coverage_of_the_true_errors() -> None:
    """Over 1,000 draws of the codes.

    Two standard errors cover 92 to 95 % (measured over 2,000 other draws): a cover of 92 % falls below 88 % with
    probability 2e-6. The mean of the squared errors has a relative error of about 6 %, so that five of these are 30 %;
    the estimate itself is right to the first order of 1/d and 1/d_h, 4 % here.
    """
    rng = np.random.default_rng(5)
    X = np.minimum(rng.geometric(0.25, (120, 3)), 9)
    stored = Examples.of(X, (X[:, 2] + rng.integers(0, 3, 120)) % 5)
    sites, query, columns = PositionalHamming().resolve(3), Contexts.of(np.array([[1, 1, 2]])), np.arange(5)
    exact = Exact().open(sites)
    exact.add(stored)
    truth = exact.reader().site_scores(query, sites.weights, columns)
    errors, said = [], []
    for seed in range(10_000, 11_000):
        memory = Gaussian(d=96, d_h=32).open(sites, seed)
        memory.add(stored)
        terms = memory.reader().site_scores(query, sites.weights, columns)
        assert terms.errors is not None
        assert terms.total_errors is not None
        errors.append(np.vstack([(terms.values - truth.values)[0], terms.totals() - truth.totals()]))
        said.append(np.vstack([terms.errors[0], terms.total_errors]))
    covered = (np.abs(errors) <= 2 * np.array(said)).mean(axis=0)
    assert (covered[-1] > 0.88).all()
    assert (covered < 0.995).all()
    ratio = np.square(said).mean(axis=0) / np.square(errors).mean(axis=0)
    assert (ratio > 0.7).all()
    assert (ratio < 1.35).all()


def test_tied_codes_and_the_fused_form_have_no_standard_error() -> None:
    model = fitted(MeMoClassifier(d=64), ORDERS)
    assert model.explain(["order", "pay", "ship"]).precision == "standard errors"
    assert model.compile("two-stage").explain(["order", "pay", "ship"]).precision == "standard errors"
    assert model.compile("fused").explain(["order", "pay", "ship"]).precision == "unknown"
    tied = fitted(MeMoClassifier(d=64, tied=True), ORDERS).explain(["order", "pay", "ship"])
    assert (tied.errors, tied.score_errors, tied.precision) == (None, None, "unknown")


def test_a_site_that_holds_nothing_adds_nothing_for_certain() -> None:
    explanation = fitted(MeMoClassifier(d=64), ORDERS).explain([NO_TOKEN, "pay", "ship"])
    assert explanation.errors is not None
    assert not explanation.errors[0].any()
    assert not explanation.contributions[0].any()
    assert explanation.errors[1:].all()


@pytest.mark.parametrize("memory", [Exact(), Tiered(Hashed(4, 2))], ids=repr)
def test_exact_tables_know_what_was_never_seen(memory: Any) -> None:
    for kernel in (PositionalHamming(), Suffixes(3)):
        clf = fitted(MemoryClassifier(kernel, memory, vote="sum"), ORDERS)
        explanation = clf.explain(["ship", "gift", "never"])
        assert explanation.seen == (True, True, False)
        assert explanation.never_seen == ("never",)
        assert "* never seen: 'never'" in str(explanation)
        assert clf.compile().explain(["ship", "gift", "never"]).seen == explanation.seen


def test_an_empty_bucket_proves_that_a_token_was_never_seen_and_a_full_one_nothing() -> None:
    clf = fitted(MemoryClassifier(memory=Hashed(buckets=4096, reserved=2), vote="sum"), ORDERS)
    assert clf.explain(["order", "pay", "never"]).seen == (None, True, False)
    crowded = fitted(MemoryClassifier(memory=Hashed(buckets=1, reserved=2), vote="sum"), ORDERS)
    assert crowded.explain(["order", "pay", "never"]).seen == (None, True, None)
    assert fitted(MeMoClassifier(d=32), ORDERS).explain(["order", "pay", "never"]).seen == (None, None, None)
    tuples = fitted(MemoryClassifier(Suffixes(3), Hashed(4096, 2), vote="sum"), ORDERS)
    assert tuples.explain(["order", "never", "never"]).seen == (None, None, None)  # -2 is compared in tuples only


def test_the_text_says_who_leads_and_what_is_proven() -> None:
    exact = fitted(MemoryClassifier(memory=Exact(), vote="sum"), ORDERS)
    assert str(exact.explain(["order", "pay", "ship"], k=2)).splitlines() == [
        "                      'deliver'  'return'",
        "position -3: 'order'       1.67      0.67",
        "position -2: 'pay'         3.00      0.67",
        "position -1: 'ship'        3.00      0.67",
        "score                      7.67      2.00",
        "'deliver' leads 'return' by 5.67; exact counts.",
    ]
    assert "'deliver' leads the next label by" in str(exact.explain(["order", "pay", "ship"], k=1))
    assert "'close' ties with 'deliver'" in exact.explain(["no", "such", "tokens"]).verdict()
    unproven = fitted(MemoryClassifier(memory=Hashed(1, 0), vote="sum"), ORDERS).explain(["order", "pay", "ship"])
    assert "not proven to be the exact classifier's answer; estimates, in brackets" in unproven.verdict()
    assert "prior" in str(fitted(MemoryClassifier(memory=Exact(), vote="log-linear"), ORDERS).explain(["a", "b", "c"]))
    one = MemoryClassifier(memory=Exact(), vote="sum", numeric="none").fit([["a"]], ["x"]).explain(["a"])
    assert one.verdict().startswith("'x' is the only label; exact")
    big = MemoryClassifier(memory=Exact(), vote="sum").fit([["a"]], ["x"], sample_weight=[1234567]).explain(["a"])
    assert "1,234,567" in str(big)


def test_a_rolling_window_explains_what_is_in_it() -> None:
    rolling = Rolling(MemoryClassifier(memory=Exact(), vote="sum"), last=1).partial_fit([["a"], ["b"]], ["x", "y"])
    assert rolling.explain(["a"]).never_seen == ("a",)


def test_sites_without_a_position_and_names_come_back_from_a_dict() -> None:
    shop = MemoryClassifier(Suffixes(1) + Bag(3), vote="mixture").fit_stream(
        [["tea", "cup", "pot"]] * 9, h=3, short="pad"
    )
    table = MemoryClassifier().fit(pd.DataFrame({"a": ["x", "y"], "b": ["z", "z"]}), ["l", "m"])
    for found in (
        shop.explain(["pen", "tea", "cup"]),
        shop.explain([NO_TOKEN, "tea", "cup"]),
        table.explain(["x", "z"]),
    ):
        again = Explanation.from_dict(json.loads(json.dumps(found.to_dict())))
        assert (str(again), again.to_dict()) == (str(found), found.to_dict())


def test_numbers_stay_numbers() -> None:
    clf = MemoryClassifier("positional", memory=Exact(), vote="sum").fit([[1, 2], [1, 3]], [3, 4])
    facts = json.loads(json.dumps(clf.explain(np.array([1, 2])).to_dict()))
    assert (facts["tokens"], facts["labels"], facts["sites"][1]["contributions"]) == ([1, 2], [3, 4], [0.5, 0.0])
    assert (facts["precision"], facts["certified"], facts["margin"]) == ("exact", True, 0.5)


def test_the_table_in_a_terminal_shows_the_same_and_no_markup() -> None:
    console_module = pytest.importorskip("rich.console")
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit([["[red]", "b"], ["c", "d"]], ["[bold]", "y"])
    out = io.StringIO()
    console_module.Console(file=out, width=100).print(clf.explain(["[red]", "x"]))
    for part in (
        "'[bold]'",
        "position -2: '[red]'",
        "position -1: 'x' *",
        "score",
        "leads 'y' by 0.5",
        "never seen: 'x'",
    ):
        assert part in out.getvalue()


MODELS = {
    "exact": MemoryClassifier(memory=Exact(), vote="sum"),
    "hashed": MemoryClassifier(memory=Hashed(buckets=2, reserved=1), vote="sum"),
    "gaussian": MeMoClassifier(d=64),
    "log-linear": MemoryClassifier(Suffixes(3) + PositionalHamming() + SkipPairs(3), Hashed(2, 1), vote="log-linear"),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_figure_is_a_waterfall_from_the_prior_to_the_score(name: str) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    explanation = fitted(MODELS[name], ORDERS).explain(["order", "pay", "ship"])
    for label in (None, explanation.labels[1]):
        axes: Any = explanation.plot(label=label)
        at = 0 if label is None else 1
        has_odds = name == "log-linear"
        starts, lengths = np.array([[bar.get_x(), bar.get_width()] for bar in axes.patches]).T
        np.testing.assert_allclose(starts[1:-1], np.cumsum(lengths)[:-2], atol=1e-9)
        assert lengths[:-1].sum() == pytest.approx(lengths[-1])
        score = explanation.scores[at] - has_odds * explanation.scores[1 - at]
        assert lengths[-1] == pytest.approx(score)
        texts = [tick.get_text() for tick in axes.get_yticklabels()]
        assert "position -1: 'ship'" in texts
        assert ("prior" in texts) == has_odds
        legend = [] if axes.get_legend() is None else [text.get_text() for text in axes.get_legend().get_texts()]
        assert ("± two standard errors" in legend) == (name == "gaussian")
        assert ("bounds of the exact score" in legend) == (name in ("hashed", "log-linear"))
        title = axes.get_title(loc="left")
        assert title.startswith(f"{explanation.labels[0]!r} ")
        assert ("proven" in title) == (name == "hashed")  # exact counts need no proof
        assert ("Probabilities: " in title) == has_odds
        pyplot.close(axes.figure)
    with pytest.raises(ValueError, match="'nothing' is not explained"):
        explanation.plot(label="nothing")


def test_a_figure_is_drawn_where_it_is_asked_for_and_many_sites_are_one_bar() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    X = [[f"token {i}" * 9 for i in range(15)]]
    explanation = MemoryClassifier(memory=Exact(), vote="sum").fit(X, ["x" * 99]).explain(X[0])
    assert explanation.plot(axes) is axes
    texts = [tick.get_text() for tick in axes.get_yticklabels()]
    assert texts[-2] == "4 other sites"
    assert all(len(text) <= 52 for text in texts)


def test_numbers_are_shown_with_their_ranges_and_labels_with_probabilities() -> None:
    pytest.importorskip("matplotlib").use("agg")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(40, 10, 300).round(1), "job": rng.choice(["a", "b"], 300)})
    y = np.where(X["age"] > 40, "old", "young")
    for clf in (MemoryClassifier().fit(X, y), MemoryClassifier(vote="sum").fit(X, y)):
        explanation = clf.explain(X.iloc[0])
        assert clf.state.layout.cells is not None
        wanted = clf.state.layout.cells.range_of(0, X["age"][0])
        assert explanation.ranges == (wanted, None)
        names = [tick.get_text() for tick in explanation.plot().get_yticklabels()]
        assert any(name.startswith("age: ") and str(wanted) in name for name in names)
        again = Explanation.from_dict(json.loads(json.dumps(explanation.to_dict())))
        assert again.ranges == explanation.ranges
        if clf.vote == "auto":
            assert again.probabilities is not None
            assert again.probabilities == pytest.approx(np.sort(clf.predict_proba(X[:1])[0])[::-1])
    pytest.importorskip("matplotlib.pyplot").close("all")


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    explanation = fitted(MODELS["exact"], ORDERS).explain(["order", "pay", "ship"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'hammemo\[plot\]'"):
        explanation.plot()
    monkeypatch.setitem(sys.modules, "rich.table", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'hammemo\[cli\]'"):
        explanation.__rich__()


def test_what_is_no_single_context_is_refused_with_the_way_out() -> None:
    clf = fitted(MODELS["exact"], ORDERS)
    with pytest.raises(ValueError, match="one row, not a batch"):
        clf.explain([["order", "pay", "ship"]])
    with pytest.raises(TypeError, match="a list of its values in order, not 'order pay ship'"):
        clf.explain("order pay ship")
    with pytest.raises(TypeError, match=r"a list of its values in order, not \{'order': 1"):
        clf.explain({"order": 1, "pay": 2, "ship": 3})
    with pytest.raises(ValueError, match="k=0"):
        clf.explain(["order", "pay", "ship"], k=0)
    with pytest.raises(ValueError, match="3 values; those of X have 2"):
        clf.explain(["order", "pay"])
    with pytest.raises(ValueError, match="The memory is empty"):
        clf.empty_like().explain(["order", "pay", "ship"])
    with pytest.raises(TypeError, match="log-linear vote reads rows"):
        MemoryClassifier(memory=Gaussian(32), vote="log-linear").partial_fit([["a"]], ["x"]).explain(["a"])


def test_columns_of_a_data_frame_name_the_positions() -> None:
    frame = pd.DataFrame({"colour": ["red", "green"], "size": ["small", "large"]})
    model = MemoryClassifier(Suffixes(2), Exact(), vote="sum").fit(frame, ["cherry", "melon"])
    explanation = model.explain(frame.iloc[0].tolist(), k=1)  # no warning about missing names: a row has none
    assert explanation.names == ("colour", "size")
    assert [explanation.site_name(k) for k in range(2)] == ["size: 'small'", "colour, size: 'red', 'small'"]
    assert explanation.to_dict()["names"] == ["colour", "size"]
    assert model.explain(frame.iloc[0], k=1).tokens == ("red", "small")
    with pytest.raises(ValueError, match=r"the model \['colour', 'size'\]"):
        model.explain(frame[["size", "colour"]].iloc[0])
    for batch in (frame, frame.head(1), pl.DataFrame(frame.to_dict("list"))):
        with pytest.raises(ValueError, match="not a frame"):
            model.explain(batch)
