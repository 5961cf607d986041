"""The discount of popular labels: how it is chosen, where it applies, and that files keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hammemo import MemoryClassifier, load, save
from hammemo.kernels import Bag, Copy, Recent, Suffixes, Together
from hammemo.memories import Exact
from hammemo.tokens.labels import top_columns
from hammemo.votes import Mixture
from hammemo.votes.mixture import vote as vote_module
from hammemo.votes.mixture.label_terms import LabelTerms
from hammemo.votes.mixture.popularity import STEPS, choose_power, popularity, take_whole_cases
from hammemo.votes.mixture.ranker import MixtureRanker
from hammemo.votes.mixture.row_reads import LeftOutRows
from hammemo.votes.mixture.static_tables import get_static_tables
from mixture_kernels import with_weights

if TYPE_CHECKING:
    from pathlib import Path

H = 4
KERNEL = Suffixes(2) + Bag(3) + Together(4) + Copy(4) + Recent(2)


def visits(n: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [np.minimum(rng.geometric(0.2, rng.integers(2, 7)) - 1, 9).tolist() for _ in range(n)]


def test_scores_without_a_case_are_those_of_a_model_that_never_saw_it() -> None:
    documents = visits(60, 0)
    clf: Any = with_weights(MemoryClassifier(KERNEL, vote=Mixture()).fit_stream(documents, h=H, short="pad"), 3)
    components, reader = clf.vote_.components(clf.sites_), clf.memory_.static_reader()
    ranker = MixtureRanker(reader, components, clf.vote_.weights_, clf.vote_.discounts_)
    examples = clf.state.store.fitting_sample(Mixture())
    terms = LabelTerms(get_static_tables(reader, components), clf.vote_.discounts_, examples, leave_out=True)
    rows = LeftOutRows(terms)
    counts = np.asarray(clf.memory_.label_counts)
    for case in np.unique(terms.cases)[:8]:
        places = np.flatnonzero(terms.cases == case)
        part = slice(int(places[0]), int(places[-1]) + 1)
        left = counts - np.bincount(terms.labels[places], minlength=len(counts))
        found = ranker.scores_from(examples.contexts[part], rows.read(part), np.tile(left, (len(places), 1)))
        names = examples.labels.tolist()
        gone = [names[rank] for rank in examples.label_ranks[places]]
        fewer = clf.snapshot().forget_stream([gone], short="pad")
        assert fewer.classes_.tolist() == clf.classes_.tolist()
        expected = fewer.view().scorer.ranker.scores(examples.contexts[part])
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(("helps", "expected"), [(True, True), (False, False)])
def test_an_exponent_is_chosen_only_where_it_surely_helps(helps: bool, expected: bool) -> None:
    rng = np.random.default_rng(0)
    counts, m = np.repeat([400, 20], 20), 600
    labels = rng.integers(20, 40, m) if helps else rng.integers(0, 40, m)
    likely = rng.random((m, 40)) * (1 if helps else 0.1) + counts / 800 * helps
    likely[np.arange(m), labels] += 0.3
    power = choose_power(lambda part, _: likely[part], counts, labels, np.arange(m) // 3)
    assert (power > 0) is expected


def test_whole_cases_are_taken_and_powers_never_fall() -> None:
    cases = np.array([5, 5, 2, 2, 2, 9])
    assert take_whole_cases(cases, 4).tolist() == [2, 3, 4]
    assert take_whole_cases(cases, 5).tolist() == [0, 1, 2, 3, 4]
    assert not len(take_whole_cases(cases, 2))
    counts = np.concatenate([np.arange(3000), 2 ** np.arange(12, 52)])
    for power in (0, 1, 8, 63):
        assert (np.diff(popularity(counts, power)) >= 0).all()
        np.testing.assert_allclose(popularity(counts, power), (counts + 0.5) ** (power / STEPS), rtol=1e-13)


def test_it_applies_to_lists_only() -> None:
    documents = [[1, 0], [1, 0], [1, 2], [2, 0], [3, 0], [0, 0], [1, 2]] * 30
    plain: Any = MemoryClassifier(Suffixes(1), vote=Mixture()).fit_stream(documents, h=2, short="pad")
    clf: Any = MemoryClassifier(Suffixes(1), vote=Mixture(discount=0.9)).fit_stream(documents, h=2, short="pad")
    X = [[1], [2], [3], [0]]
    assert clf.predict(X).tolist() == plain.predict(X).tolist()
    assert clf.class_scores(X).tolist() == plain.class_scores(X).tolist()
    discounted = clf.class_scores(X) / popularity(np.asarray(clf.memory_.label_counts), round(0.9 * STEPS))
    assert clf.top_k(X, 4).tolist() == clf.classes_[top_columns(discounted, 4)].tolist()
    assert clf.top_k(X, 1)[:, 0].tolist() != plain.top_k(X, 1)[:, 0].tolist()
    assert clf.explain([1, 1], k=2).labels[0] == clf.predict([[1, 1]])[0]
    slow: Any = MemoryClassifier(Suffixes(2), vote=Mixture(continuation=True, discount=0.9))  # all scores are made
    slow.fit_stream(documents, h=2, short="pad")
    divided = slow.class_scores(X) / popularity(np.asarray(slow.memory_.label_counts), round(0.9 * STEPS))
    assert slow.top_k(X, 4).tolist() == slow.classes_[top_columns(divided, 4)].tolist()
    labels, scores = slow.top_k(X, 3, exclude=[0], return_scores=True)
    assert 0 not in labels
    assert np.isin(scores, divided).all()


def test_what_was_chosen_is_kept_in_files_and_is_a_function_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vote_module, "LEAST", 1)
    monkeypatch.setattr(vote_module, "choose_power", lambda *_: 8)
    documents = visits(80, 1)
    clf: Any = MemoryClassifier(KERNEL, Exact(), Mixture(discount="auto")).fit_stream(documents, h=H, short="pad")
    assert clf.vote_.discount_ == 0.125
    save(clf, tmp_path / "shop.hammemo")
    loaded = load(tmp_path / "shop.hammemo")
    assert loaded.vote_.discount_ == 0.125
    assert loaded.top_k([[1, 2]], 5).tolist() == clf.top_k([[1, 2]], 5).tolist()
    assert loaded.digest() == clf.digest()
    monkeypatch.setattr(vote_module, "choose_power", lambda *_: 0)
    assert loaded.refit().vote_.discount_ == 0.0
    assert "power" not in loaded.vote_.state()


def test_few_examples_choose_nothing_and_wrong_exponents_are_refused() -> None:
    clf: Any = MemoryClassifier(KERNEL, vote=Mixture(discount="auto")).fit_stream(visits(30, 2), h=H, short="pad")
    assert clf.vote_.discount_ == 0.0
    wrong: Any
    for wrong in ("none", -0.1, 1.0, float("nan"), True, None):
        with pytest.raises(ValueError, match="discount="):
            MemoryClassifier(KERNEL, vote=Mixture(discount=wrong)).fit_stream(visits(9, 2), h=H, short="pad")
