"""Pictures and tables of models of numbers: what the artists show, and that names and values are only text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from hammemo import MemoryClassifier, MemoryRegressor
from hammemo.evaluation.measures import evaluate, evaluate_numbers
from hammemo.evaluation.splits import TableMaterial, folds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo.explain.explanations import NumberExplanation

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def houses(n: int = 200) -> tuple[pd.DataFrame, Any]:
    """Return rows with fractions of 17 digits, and prices far from zero."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(90, 30, n), "age": rng.integers(0, 90, n), "town": rng.choice(list("abc"), n)})
    price = 900_000 + 2000 * X["size"] + 30_000 * (X["town"] == "b") - 500 * X["age"] + rng.normal(0, 9000, n)
    return X, price.to_numpy()


@pytest.fixture(scope="module")
def explanation() -> NumberExplanation:
    X, y = houses()
    return MemoryRegressor().fit(X, y).explain(X.iloc[3])


def check_waterfall(explanation: NumberExplanation, axes: Any) -> None:
    """Check that bars begin at the base, each where the one before ends, and end at the prediction."""
    starts, lengths = np.array([[bar.get_x(), bar.get_width()] for bar in axes.patches]).T
    base = explanation.base[0]
    np.testing.assert_allclose(starts, base + np.cumsum([0, *lengths[:-1]]), atol=1e-9 * abs(base))
    assert starts[-1] + lengths[-1] == pytest.approx(explanation.scores[0], abs=1e-9)
    dots = axes.collections[0].get_offsets()
    assert np.asarray(dots)[:, 0].tolist() == [base, explanation.scores[0]]


def test_the_waterfall_of_a_number_starts_at_the_base(explanation: NumberExplanation) -> None:
    axes: Any = explanation.plot()
    check_waterfall(explanation, axes)
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert (names[0], names[-1]) == ("base", "prediction, 80 % interval")
    assert len(axes.patches) == len(names) - 2 == 3
    left, right = axes.get_xlim()
    assert 0 < left < min(explanation.interval[0], explanation.scores[0])
    assert right > explanation.interval[1]
    assert axes.get_legend() is None


def test_numbers_stand_beside_what_they_say(explanation: NumberExplanation) -> None:
    axes: Any = explanation.plot()
    last = axes.texts[-1]
    assert last.xy[0] == explanation.interval[1]  # not on the line of the interval
    assert last.get_text() == f"{explanation.scores[0]:,.0f}"
    steps = [text.get_text() for text in axes.texts[1:-1]]
    assert sorted(steps) == sorted(f"{added:+,.0f}" for added in explanation.contributions[:, 0])
    for bar, text in zip(axes.patches, axes.texts[1:-1], strict=True):
        assert text.xy[0] == pytest.approx(max(bar.get_x(), bar.get_x() + bar.get_width()))
    assert "e+" not in axes.get_title(loc="left") + str(explanation)


def test_values_have_at_most_six_digits(explanation: NumberExplanation) -> None:
    size = houses()[0]["size"][3]
    assert len(repr(size)) > 16
    shown = [tick.get_text() for tick in explanation.plot().get_yticklabels()]
    assert f"size: {size:.6g}" in shown
    assert f"size: {size:.6g} " in str(explanation)
    assert explanation.to_dict()["columns"][0]["value"] == size  # all digits


def test_bounds_are_a_step_of_the_waterfall() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = MemoryRegressor(bounds=(0, None)).fit(X, np.exp(X[:, 0]))
    row = X[model.set_params(bounds=None).predict(X).argmin()] - [2, 0, 0]
    explanation = model.set_params(bounds=(0, None)).explain(row)
    assert explanation.by_bounds > 0
    axes: Any = explanation.plot()
    check_waterfall(explanation, axes)
    assert "bounds of the model" in [tick.get_text() for tick in axes.get_yticklabels()]


def test_an_infinite_interval_ends_at_the_axis() -> None:
    explanation = MemoryRegressor().fit([[1.0], [2.0]], [1, 5]).explain([1.5])
    assert explanation.interval == (-np.inf, np.inf)
    assert explanation.to_dict()["interval"] == [None, None]
    assert "between -infinity and infinity" in explanation.verdict()
    axes: Any = explanation.plot()
    [line] = [line for line in axes.lines if line.get_label() == "80 % interval"]
    assert tuple(line.get_xdata()) == axes.get_xlim()


class Tags(HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Take a tag."""
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_data(self, data: str) -> None:
        """Take text."""
        self.texts.append(data)


@pytest.mark.parametrize("of_numbers", [True, False])
def test_names_and_values_in_html_are_text(of_numbers: bool) -> None:
    hostile = ["<script>alert(1)</script>", "'><img src=x onerror=alert(1)>", "</td></table>&amp;"]
    X = pd.DataFrame({name: ["<b>bold</b>", "x' onclick='y"] * 40 for name in hostile})
    y = [0.0, 1.0] * 40 if of_numbers else ["<i>no</i>", "yes"] * 40
    model: Any = MemoryRegressor() if of_numbers else MemoryClassifier()
    explanation = model.fit(X, y).explain(X.iloc[0])
    page = Tags()
    page.feed(explanation._repr_html_())
    assert page.tags <= {"table", "thead", "tbody", "tr", "th", "td", "p"}
    text = "".join(page.texts)
    for name in hostile:
        assert f"{name}: '<b>bold</b>'" in text
    assert text.endswith(explanation.verdict() if of_numbers else "exact counts.")
    assert page.texts.count("prediction" if of_numbers else "score") == 1


class Mean:
    """A peer that always says the same."""

    def fit(self, _: Any, y: Any) -> Mean:
        """Learn the mean, or the labels."""
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares = counts / counts.sum()
        return self

    def predict(self, X: Any) -> Any:
        """Return the most frequent label, or the first number."""
        return np.full(len(X), self.classes_[self.shares.argmax()])

    def predict_proba(self, X: Any) -> Any:
        """Return the shares."""
        return np.tile(self.shares, (len(X), 1))

    def top_k(self, X: Any, k: int) -> Any:
        """Return the most frequent labels."""
        return np.tile(self.classes_[np.argsort(-self.shares, kind="stable")[:k]], (len(X), 1))


def test_the_figures_of_an_evaluation_name_both_learners_and_cut_no_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = houses()
    rows = X.to_numpy(object)
    material = TableMaterial(rows, y, is_target=True)
    monkeypatch.setattr(TableMaterial, "fit", lambda self, peer, rows: peer.fit(*self.examples(rows)))
    panels: Any = evaluate_numbers(MemoryRegressor(), material, folds(material, 2), peers={"peer": Mean()}).plot().axes
    left, right = panels
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["this model", "peer"]
    [_, coverage] = right.get_lines()
    assert not coverage.get_clip_on()
    labels = np.where(X["size"] > 90, "large", "small").astype(object)
    material = TableMaterial(rows, labels)
    panels = evaluate(MemoryClassifier(), material, folds(material, 2), peers={"peer": Mean()}).plot().axes
    right = panels[1]
    assert {text.get_text() for text in right.get_legend().get_texts()} == {"this model", "peer"}
    assert not any(dots.get_clip_on() for dots in right.collections)


def test_two_columns_are_drawn_by_the_means_of_their_pairs() -> None:
    X = pd.DataFrame({"town": list("aabbc") * 3, "kind": list("xyxyx") * 3})
    y = np.arange(15.0)
    model = MemoryRegressor().fit(X, y)
    axes: Any = model.plot_column("town", 1)
    shown = np.ma.filled(axes.images[0].get_array(), np.nan)
    means = X.assign(y=y).pivot_table(index="town", columns="kind", values="y")
    rows = [tick.get_text() for tick in axes.get_yticklabels()]
    columns = [tick.get_text() for tick in axes.get_xticklabels()]
    np.testing.assert_allclose(shown, means.loc[rows, columns])
    assert sorted(text.get_text() for text in axes.texts) == ["3"] * 5
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("town", "kind")
    with pytest.raises(ValueError, match="are the same column"):
        model.plot_column("town", 0)


def test_the_report_draws_what_columns_are_worth() -> None:
    X, y = houses()
    model = MemoryRegressor().fit(X, y)
    axes: Any = model.report().plot(most=2)
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == sorted(model.feature_importances_, reverse=True)[:2]
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert names[0] == "size"
