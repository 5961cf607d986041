"""The mixture vote against plain loops over dictionaries: reading, leaving cases out, editing, forgetting."""

from __future__ import annotations

import math
import pickle
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN, MemoryClassifier, NotStoredError, load, save
from hammemo.kernels import Bag, Copy, Suffixes, Together
from hammemo.memories import Exact, Hashed
from hammemo.memories.exact import SignedSum, SparseCounts
from hammemo.memories.exact.score_rows import TableRows
from hammemo.votes import Mixture
from hammemo.votes.mixture.gates import BUCKETS, MIN_SHARE, NEAREST, compute_discounts, compute_probabilities
from hammemo.votes.mixture.label_terms import MIN_REMAINING, LabelTerms
from hammemo.votes.mixture.static_tables import get_static_tables
from mixture_kernels import KERNELS, H

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.kernels.sites import Sites

DOCUMENTS = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=9), min_size=2, max_size=8)
WEIGHTS = st.integers(0, 2**32 - 1)


@dataclass
class Plain:
    """Tables of counts as dictionaries, and the mixture by its definition."""

    sites: Sites
    continuation: bool
    labels: list[int] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)
    rows: dict[Any, Counter[Any]] = field(default_factory=lambda: defaultdict(Counter))

    def learn(self, documents: list[list[int]], sign: int = 1) -> Plain:
        for context, label in windows_of(documents):
            self.counts[label] += sign
            for key, other in self._entries(context, label):
                self.rows[key][other] += sign
        return self

    def _entries(self, context: list[int], label: int) -> list[tuple[Any, int]]:
        found: list[tuple[Any, int]] = []
        for k, site in enumerate(self.sites.positions):
            tokens = tuple(context[r] for r in site)
            if NO_TOKEN not in tokens:
                found.append((("site", k, tokens), label))
        for k, free in enumerate(self.sites.free):
            for token in nearest(context, free.reach):
                if free.kind == "bag":
                    found.append((("free", k, token), label))
                elif free.kind == "together" and token != label:
                    found += [(("free", k, token), label), (("free", k, label), token)]
        return found

    def row(self, key: Any) -> dict[int, int]:
        return {label: n for label, n in self.rows.get(key, Counter()).items() if n}

    def continued(self) -> list[tuple[int, int]]:
        pairs, before = [], -1
        for length in range(1, self.sites.h + 1):
            suffix = tuple(range(self.sites.h - length, self.sites.h))
            if not self.continuation or suffix not in self.sites.positions:
                break
            place = self.sites.positions.index(suffix)
            pairs.append((place, before))
            before = place
        return pairs

    def continuation_row(self, longer: int, tokens: tuple[int, ...]) -> dict[int, int]:
        found: Counter[int] = Counter()
        for key in list(self.rows):
            if key[0] == "site" and key[1] == longer and key[2][1:] == tokens:
                found.update(dict.fromkeys(self.row(key), 1))
        return dict(found)

    def discounts(self) -> list[np.ndarray[Any, Any]]:
        entries: list[list[int]] = [[] for _ in self.sites.positions]
        tabled = [k for k, free in enumerate(self.sites.free) if free.kind in ("bag", "together")]
        free_entries: dict[int, list[int]] = {k: [] for k in tabled}
        for key in list(self.rows):
            (entries[key[1]] if key[0] == "site" else free_entries[key[1]]).extend(self.row(key).values())
        continued = []
        for longer, _ in self.continued():
            ends = {key[2][1:] for key in self.rows if key[0] == "site" and key[1] == longer}
            continued.append([n for end in ends for n in self.continuation_row(longer, end).values()])
        lists = [*entries, *continued, *free_entries.values()]
        return [compute_discounts(np.array(found, np.int64)) for found in lists]

    def probability(self, context: list[int], weights: Any, discounts: Any) -> dict[int, float]:
        """Return the probability of each label; with the same discounts the counts may be those of fewer cases."""
        total = sum(max(self.counts[label], 0) for label in self.labels) + 0.5 * len(self.labels)
        parts = [(math.exp(weights[0][0]), {c: (max(self.counts[c], 0) + 0.5) / total for c in self.labels})]
        component = 1
        for k, site in enumerate(self.sites.positions):
            parts += self._row_part(
                self.row(("site", k, tuple(context[r] for r in site))), weights[component], discounts[k]
            )
            component += 1
        table = len(self.sites.positions)
        for longer, shorter in self.continued():
            tokens = () if shorter < 0 else tuple(context[r] for r in self.sites.positions[shorter])
            found = {} if NO_TOKEN in tokens else self.continuation_row(longer, tokens)
            parts += self._row_part(found, weights[component], discounts[table])
            component, table = component + 1, table + 1
        for k, free in enumerate(self.sites.free):
            last = [token for token in context[H - free.reach :] if token in self.labels]
            places = nearest(context, free.reach)
            if free.kind == "recent":
                if last:
                    parts.append((math.exp(weights[component][0]), {c: last.count(c) / len(last) for c in set(last)}))
                component += 1
                continue
            length = sum(token != NO_TOKEN for token in context[H - free.reach :])
            for token, distance in places.items():
                values = weights[component + min(distance, NEAREST) - 1]
                if free.kind == "copy":
                    parts += [(math.exp(values[min(length - 1, 7)]), {token: 1.0})] if token in self.labels else []
                else:
                    parts += self._row_part(self.row(("free", k, token)), values, discounts[table])
            component += NEAREST
            table += free.kind != "copy"
        whole = sum(trust for trust, _ in parts)
        return {c: sum(trust * said.get(c, 0.0) for trust, said in parts) / whole for c in self.labels}

    def _row_part(self, row: dict[int, int], weights: Any, lost: Any) -> list[tuple[float, dict[int, float]]]:
        total = sum(row.values())
        discounted = sum(lost[min(n, 3)] for n in row.values())
        if not total or total - discounted <= MIN_REMAINING:
            return []
        share = min(max(discounted / total, MIN_SHARE), 1 - MIN_SHARE)
        trust = math.exp(weights[min(int(math.log2(total)), BUCKETS - 1)]) * (1 - share) / share
        return [(trust, {c: max(n - lost[min(n, 3)], 0) / (total - discounted) for c, n in row.items()})]


def nearest(context: list[int], reach: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for distance in range(1, reach + 1):
        if context[H - distance] != NO_TOKEN:
            found.setdefault(context[H - distance], distance)
    return found


def windows_of(documents: list[list[int]]) -> list[tuple[list[int], int]]:
    padded = [[NO_TOKEN] * H + document for document in documents]
    return [(tokens[i - H : i], tokens[i]) for tokens in padded for i in range(H, len(tokens))]


def model_of(kernel: str, documents: list[list[int]], seed: int, *, continuation: bool = False) -> Any:
    """Return a model with random weights, and the discounts of what it learnt."""
    vote = Mixture(continuation=continuation)
    clf = MemoryClassifier(KERNELS[kernel], Exact(), vote).fit_stream(documents, h=H, short="pad")
    return with_random_weights(clf, seed)


def with_random_weights(clf: Any, seed: int) -> Any:
    components = clf.vote_.components(clf.sites_)
    clf.vote_.weights_ = np.random.default_rng(seed).normal(size=(components.n, BUCKETS))
    clf.vote_.discounts_ = get_static_tables(clf.memory_.static_reader(), components).discounts()
    return clf


def plain_of(clf: Any, documents: list[list[int]]) -> Plain:
    plain = Plain(clf.sites_, clf.vote_.continuation, labels=clf.classes_.tolist())
    return plain.learn(documents)


@pytest.mark.examples(7)
@pytest.mark.parametrize("continuation", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@given(documents=DOCUMENTS, seed=WEIGHTS, query=st.lists(st.integers(-1, 8), min_size=H, max_size=H))
@settings(max_examples=15)
def test_probabilities_are_those_of_the_definition(
    kernel: str, continuation: bool, documents: list[list[int]], seed: int, query: list[int]
) -> None:
    clf = model_of(kernel, documents, seed, continuation=continuation)
    plain = plain_of(clf, documents)
    np.testing.assert_allclose(clf.vote_.discounts_, plain.discounts(), rtol=1e-12, atol=1e-12)
    contexts = [*(context for context, _ in windows_of(documents[:2])), [NO_TOKEN if t < 0 else t for t in query]]
    found = clf.predict_proba(np.array(contexts))
    for row, context in zip(found, contexts, strict=True):
        expected = plain.probability(context, clf.vote_.weights_, clf.vote_.discounts_)
        np.testing.assert_allclose(row, list(expected.values()), rtol=1e-9, atol=1e-15)
        explanation = clf.explain(context, k=3)
        np.testing.assert_allclose(explanation.base + explanation.contributions.sum(axis=0), explanation.scores)
    np.testing.assert_allclose(clf.class_scores(np.array(contexts)).sum(axis=1), 1.0)


@pytest.mark.examples(7)
@pytest.mark.parametrize("continuation", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@given(documents=DOCUMENTS, seed=WEIGHTS)
@settings(max_examples=15)
def test_a_case_is_left_out_as_if_it_had_never_been_learnt(
    kernel: str, continuation: bool, documents: list[list[int]], seed: int
) -> None:
    documents = [list(document) for document in dict.fromkeys(map(tuple, documents))]
    clf = model_of(kernel, documents, seed, continuation=continuation)
    sample = clf.state.store.fitting_sample(clf.vote_)
    tables = get_static_tables(clf.memory_.static_reader(), clf.vote_.components(clf.sites_))
    terms = LabelTerms(tables, clf.vote_.discounts_, sample, leave_out=True).compute()
    found = compute_probabilities(terms, clf.vote_.weights_, len(sample))
    tokens, labels = [*sample.contexts.vocabulary.tolist(), NO_TOKEN], sample.labels.tolist()
    rows = [[tokens[rank] for rank in context] for context in sample.contexts.ranks.tolist()]
    for case in np.unique(sample.cases):
        inside = np.flatnonzero(sample.cases == case)
        document = [labels[sample.label_ranks[i]] for i in inside]
        plain = plain_of(clf, documents).learn([document], -1)
        for i in inside:
            expected = plain.probability(rows[i], clf.vote_.weights_, clf.vote_.discounts_)
            assert found[i] == pytest.approx(expected[labels[sample.label_ranks[i]]], rel=1e-9)


@given(documents=DOCUMENTS, seed=WEIGHTS)
@settings(max_examples=15)
def test_losses_of_a_stream_are_those_of_all_probabilities(documents: list[list[int]], seed: int) -> None:
    clf = model_of("all", documents, seed)
    losses = clf.log_loss_stream([*documents, [99]], short="pad")
    contexts, targets = zip(*windows_of(documents), strict=True)
    columns = np.searchsorted(clf.classes_, targets)
    expected = clf.predict_log_proba(np.array(contexts))[np.arange(len(columns)), columns]
    np.testing.assert_allclose(losses[:-1], -expected, rtol=1e-9)
    assert losses[-1] == np.inf  # no label


@pytest.mark.parametrize("keep", ["auto", "auto+digests"])
@given(documents=DOCUMENTS, forgotten=st.integers(0, 7), seed=WEIGHTS)
@settings(max_examples=20)
def test_what_was_forgotten_leaves_no_trace(keep: str, documents: list[list[int]], forgotten: int, seed: int) -> None:
    clf: Any = MemoryClassifier(KERNELS["all"], Exact(), Mixture(), keep=keep).fit_stream(documents, h=H, short="pad")
    clf.predict([[1, 2, 3, 4, 5]])  # the tables are live from here on
    gone = documents[forgotten % len(documents)]
    rest = [document for k, document in enumerate(documents) if k != forgotten % len(documents)]
    fresh = clf.empty_like().partial_fit_stream(rest, h=H, short="pad").refit()
    clf.forget_stream([gone], short="pad").refit()
    assert clf.memory_.state_bytes() == fresh.memory_.state_bytes()
    queries = np.random.default_rng(seed).integers(0, 8, (20, H))
    assert clf.predict_proba(queries).tobytes() == fresh.predict_proba(queries).tobytes()
    assert clf.state.store.state()["codes"].tobytes() == fresh.state.store.state()["codes"].tobytes()
    before = pickle.dumps(clf.memory_.state_bytes())
    with pytest.raises(NotStoredError):
        clf.forget_stream([[71, 72, 73]], short="pad")
    assert pickle.dumps(clf.memory_.state_bytes()) == before


@given(documents=DOCUMENTS, seed=WEIGHTS)
@settings(max_examples=15)
def test_models_merge_and_answer_like_one(documents: list[list[int]], seed: int) -> None:
    whole = MemoryClassifier(KERNELS["all"], vote=Mixture()).fit_stream(documents, h=H, short="pad")
    half = len(documents) // 2
    parts = [
        whole.empty_like().partial_fit_stream(part, h=H, short="pad") for part in (documents[:half], documents[half:])
    ]
    merged = (parts[0] + parts[1]).refit()
    whole.refit()
    assert merged.memory_.state_bytes() == whole.memory_.state_bytes()
    queries = np.random.default_rng(seed).integers(0, 8, (20, H))
    assert merged.predict_proba(queries).tobytes() == whole.predict_proba(queries).tobytes()
    assert (merged - parts[0]).memory_.state_bytes() == parts[1].memory_.state_bytes()


def test_files_hold_all_of_it(tmp_path: Path) -> None:
    documents = np.random.default_rng(0).integers(0, 9, (40, 12)).tolist()
    clf = MemoryClassifier(KERNELS["all"], vote=Mixture(continuation=True)).fit_stream(documents, h=H, short="pad")
    queries = np.random.default_rng(1).integers(0, 11, (30, H))
    models: list[Any] = [clf, clf.compile()]
    for number, model in enumerate(models):
        save(model, tmp_path / str(number))
        for verify in (True, False):
            again = load(tmp_path / str(number), verify=verify)
            assert again.predict_proba(queries).tobytes() == model.predict_proba(queries).tobytes()
    again = load(tmp_path / "0").forget_stream(documents[:3], short="pad").refit()
    assert again.memory_.state_bytes() == clf.forget_stream(documents[:3], short="pad").refit().memory_.state_bytes()
    assert again.predict_proba(queries).tobytes() == clf.predict_proba(queries).tobytes()
    copied = pickle.loads(pickle.dumps(clf))  # noqa: S301  (our own bytes)
    assert copied.predict_proba(queries).tobytes() == clf.predict_proba(queries).tobytes()


def test_tables_that_are_not_live_answer_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = np.random.default_rng(3).integers(0, 9, (40, 12)).tolist()
    queries = np.random.default_rng(4).integers(0, 11, (30, H))
    fast = (
        MemoryClassifier(KERNELS["all"], vote=Mixture())
        .fit_stream(documents, h=H, short="pad")
        .forget_stream(documents[:2], short="pad")
    )
    expected = fast.predict_proba(queries)
    monkeypatch.setattr(SignedSum, "takes_rows", lambda *_: False)
    monkeypatch.setattr(
        SparseCounts, "rows", property(lambda self: TableRows(self._stored, self.labels, by_batch=False))
    )
    plain = (
        MemoryClassifier(KERNELS["all"], vote=Mixture())
        .fit_stream(documents, h=H, short="pad")
        .forget_stream(documents[:2], short="pad")
    )
    np.testing.assert_allclose(plain.predict_proba(queries), expected, rtol=1e-12)


def test_single_examples_are_cases_of_their_own() -> None:
    X = np.random.default_rng(5).integers(0, 5, (200, 4))
    y = X[:, 3]
    clf = MemoryClassifier(Suffixes(2) + Bag(3), vote=Mixture()).fit(X, y)
    assert clf.score(X, y) > 0.9
    rest = clf.empty_like().partial_fit(X[50:], y[50:]).refit()
    clf.forget(X[:50], y[:50]).refit()
    assert clf.predict_proba(X).tobytes() == rest.predict_proba(X).tobytes()
    clf.learn_one([1, 2, 3, 4], 9).forget_one([1, 2, 3, 4], 9)
    assert clf.memory_.state_bytes() == rest.memory_.state_bytes()


def test_refusals_say_what_to_do() -> None:
    documents = [[1, 2, 3, 4]] * 3
    with pytest.raises(TypeError, match="Use memory='exact'"):
        MemoryClassifier(Suffixes(1) + Bag(2), Hashed(), Mixture()).fit_stream(documents, h=2)
    with pytest.raises(TypeError, match="use memory='exact'"):
        MemoryClassifier(Suffixes(1), Hashed(), Mixture()).fit_stream(documents, h=2).predict([[1, 2]])
    with pytest.raises(ValueError, match="compares no position"):
        MemoryClassifier(Bag(2), vote=Mixture()).fit_stream(documents, h=2)
    with pytest.raises(TypeError, match="no similarity"):
        Bag(2)([1, 2], [2, 1])
    for name, value in (("ridge", 0), ("sample", 0), ("steps", True)):
        with pytest.raises(ValueError, match=name):
            MemoryClassifier(Suffixes(1), vote=Mixture().set_params(**{name: value})).fit_stream(documents, h=2)


def test_one_label_and_no_token_seen() -> None:
    clf = MemoryClassifier(Suffixes(1) + Together(2) + Copy(2), vote=Mixture()).fit_stream([[1, 1, 1]] * 5, h=2)
    assert clf.predict_proba([[7, 8], [1, 1]]).tolist() == [[1.0], [1.0]]
