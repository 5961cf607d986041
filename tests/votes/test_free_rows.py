"""Sites without a position with votes that read one row a site, against plain loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN, MemoryClassifier, NotStoredError, load, save
from hammemo.kernels import Bag, Copy, Recent, Suffixes, Together
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.memories.exact.reader import FreeRows
from hammemo.votes import LogLinear

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

H = 4
KERNEL = Suffixes(2) + Bag(3) + Copy(2) + Together(4) + Recent(3)
N_SITES = 6
DOCUMENTS = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=8), min_size=2, max_size=6)
QUERIES = st.lists(st.lists(st.integers(-1, 8), min_size=H, max_size=H), min_size=1, max_size=4)
VOTES: dict[str, Any] = {
    "sum": "sum",
    "mean": "mean",
    "log-linear": LogLinear(weights=[0.5, 1.0, 0.25, 2.0, 1.5, 0.75], smoothing=(1.0, 10.0)),
}


def windows_of(documents: Any) -> list[tuple[list[int], int]]:
    padded = [[NO_TOKEN] * H + list(document) for document in documents]
    return [(tokens[i - H : i], tokens[i]) for tokens in padded for i in range(H, len(tokens))]


def nearest(context: list[int], reach: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for distance in range(1, reach + 1):
        if context[H - distance] != NO_TOKEN:
            found.setdefault(context[H - distance], distance)
    return found


class Plain:
    """Tables of counts as dictionaries."""

    def __init__(self, examples: list[tuple[list[int], int]]) -> None:
        self.labels = sorted({label for _, label in examples})
        self.counts = Counter(label for _, label in examples)
        self.tables: list[Any] = [defaultdict(Counter) for _ in range(4)]
        for context, label in examples:
            for length in (1, 2):
                if NO_TOKEN not in context[-length:]:
                    self.tables[length - 1][tuple(context[-length:])][label] += 1
            for token in nearest(context, 3):
                self.tables[2][token][label] += 1
            for token in nearest(context, 4):
                if token != label:
                    self.tables[3][token][label] += 1
                    self.tables[3][label][token] += 1

    def rows(self, context: list[int]) -> NDArray[np.float64]:
        """Return the row of each site: suffixes, bag, copy, together, recent."""
        found = np.zeros((N_SITES, len(self.labels)))
        for c, label in enumerate(self.labels):
            found[0, c] = self.tables[0].get((context[-1],), {}).get(label, 0)
            found[1, c] = self.tables[1].get(tuple(context[-2:]), {}).get(label, 0)
            for k, table, reach in ((2, 2, 3), (4, 3, 4)):
                for token, d in nearest(context, reach).items():
                    found[k, c] += self.tables[table].get(token, {}).get(label, 0) / d
            found[3, c] = 1.0 / nearest(context, 2).get(label, np.inf)
            found[5, c] = context[-3:].count(label)
        return found

    def scores(self, context: list[int], vote: str) -> NDArray[np.float64]:
        rows, counts = self.rows(context), np.array([self.counts[label] for label in self.labels])
        if vote == "sum":
            return np.asarray(rows.sum(axis=0) / N_SITES)
        if vote == "mean":
            return np.asarray(rows.sum(axis=0) / N_SITES / counts)
        prior = (counts + 0.5) / (counts + 0.5).sum()
        score = np.log(prior)
        for row, weight in zip(rows, VOTES[vote].weights, strict=True):
            for amount in (1.0, 10.0):
                score += weight / 2 * np.log((row + amount * prior) / (row.sum() + amount) / prior)
        return np.asarray(score)


def in_tokens(queries: Any) -> list[list[int]]:
    return [[NO_TOKEN if token < 0 else token for token in query] for query in queries]


@pytest.mark.parametrize("vote", VOTES)
@given(documents=DOCUMENTS, queries=QUERIES)
@settings(max_examples=10)
def test_scores_are_those_of_plain_loops(vote: str, documents: Any, queries: Any) -> None:
    clf: Any = MemoryClassifier(KERNEL, Exact(), VOTES[vote]).fit_stream(documents, h=H, short="pad")
    plain, contexts = Plain(windows_of(documents)), in_tokens(queries)
    assert clf.classes_.tolist() == plain.labels
    found = clf.class_scores(np.array(contexts))
    for row, context in zip(found, contexts, strict=True):
        np.testing.assert_allclose(row, plain.scores(context, vote), rtol=1e-10, atol=1e-12)
        explanation = clf.explain(context, k=3)
        np.testing.assert_allclose(explanation.base + explanation.contributions.sum(axis=0), explanation.scores)
    best = clf.top_k(np.array(contexts), 3)
    order = np.argsort(-found, axis=1, kind="stable")[:, : best.shape[1]]
    assert best.tolist() == clf.classes_[order].tolist()
    assert clf.certify(np.array(contexts)).all()


@given(documents=DOCUMENTS, place=st.integers(0, 100))
@settings(max_examples=15)
def test_what_an_example_has_added_to_its_rows(documents: Any, place: int) -> None:
    examples = windows_of(documents)
    context, label = examples.pop(place % len(examples))
    if not any(label == other for _, other in examples):
        return
    whole: Any = MemoryClassifier(KERNEL, Exact(), "sum").fit_stream(documents, h=H, short="pad")
    reader = FreeRows(whole.memory_.reader(), whole.sites_)
    contexts = whole.contexts(np.array([context]))
    column = whole.classes_.tolist().index(label)
    left = reader.site_counts(contexts)[0, :, column] - reader.compute_example_counts(contexts, np.array([column]))[0]
    rest = Plain(examples)
    expected = rest.rows(context)[:, rest.labels.index(label)]
    np.testing.assert_allclose(np.maximum(left, 0), expected, atol=1e-12)


@pytest.mark.parametrize("vote", ["sum", "mean", "log-linear"])
@given(documents=DOCUMENTS, gone=st.integers(0, 5))
@settings(max_examples=8)
def test_what_was_forgotten_leaves_no_trace(vote: str, documents: Any, gone: int) -> None:
    clf: Any = MemoryClassifier(KERNEL, Exact(), vote).fit_stream(documents, h=H, short="pad")
    clf.predict([[1, 2, 3, 4]])
    place = gone % len(documents)
    rest = [document for k, document in enumerate(documents) if k != place]
    fresh = clf.empty_like().partial_fit_stream(rest, h=H, short="pad")
    clf.forget_stream([documents[place]], short="pad")
    if vote == "log-linear":
        clf.refit(), fresh.refit()
    assert clf.memory_.state_bytes() == fresh.memory_.state_bytes()
    X = np.random.default_rng(0).integers(0, 8, (10, H))
    assert clf.class_scores(X).tobytes() == fresh.class_scores(X).tobytes()
    with pytest.raises(NotStoredError):
        clf.forget_stream([[71, 72, 73]], short="pad")
    half = clf.empty_like().partial_fit_stream(documents[:1], h=H, short="pad")
    assert ((clf + half) - half).memory_.state_bytes() == clf.memory_.state_bytes()


@pytest.mark.parametrize("vote", ["sum", "mean", "log-linear"])
def test_files_and_compiled_forms_answer_the_same(vote: str, tmp_path: Path) -> None:
    documents = np.random.default_rng(0).integers(0, 6, (60, 9)).tolist()
    clf = MemoryClassifier(KERNEL, Exact(), vote).fit_stream(documents, h=H, short="pad")
    X = np.random.default_rng(1).integers(0, 8, (20, H))
    models: list[Any] = [clf, clf.compile()]
    for number, model in enumerate(models):
        save(model, tmp_path / str(number))
        for verify in (True, False):
            again: Any = load(tmp_path / str(number), verify=verify)
            assert again.class_scores(X).tobytes() == clf.class_scores(X).tobytes()


def test_a_log_linear_vote_gains_by_a_bag() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, (1500, 6))
    X[np.arange(1500), rng.integers(0, 6, 1500)] = rng.integers(40, 44, 1500)
    y = np.array([row[row >= 40][-1] - 40 for row in X])  # one of six places says the label
    plain = MemoryClassifier(Suffixes(1), Exact(), "log-linear").fit(X[:1000], y[:1000])
    bag = MemoryClassifier(Suffixes(1) + Bag(6), Exact(), "log-linear").fit(X[:1000], y[:1000])
    assert bag.score(X[1000:], y[1000:]) > 0.9 > 0.6 > plain.score(X[1000:], y[1000:])
    assert "bag of 6" in str(bag.report().bits())


@pytest.mark.parametrize("memory", [Hashed(), Tiered(), Gaussian(d=32)])
def test_sketches_refuse_and_say_what_to_do(memory: Any) -> None:
    with pytest.raises(TypeError, match="Use memory='exact'"):
        MemoryClassifier(Suffixes(1) + Bag(2), memory, "sum").fit_stream([[1, 2, 3, 4]] * 3, h=2)
