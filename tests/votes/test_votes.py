"""Votes against a plain implementation with dictionaries, and every way of reading a rule against the definition."""

from __future__ import annotations

import copy
import math
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from hammemo import NO_TOKEN, MeMoClassifier, MemoryClassifier, load, save, windows
from hammemo._arrays.integers import object_array
from hammemo.kernels import PositionalHamming, SiteKernel, SkipPairs, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.memories.hashed.readers import RULE_BITS
from hammemo.memories.row_rules import RowRanker
from hammemo.tokens.contexts import Contexts
from hammemo.votes import LogLinear, softmax
from hammemo.votes.fitting import DenseLoss

pytestmark = pytest.mark.quick

randomly = settings(max_examples=60, deadline=None)
KERNEL = SiteKernel([0, 2, (0, 2), (-3, -2, -1)])
TOKENS = [0, 1, 2, 7, "a", "ß", NO_TOKEN]
Rows = list[tuple[list[Any], str, int]]
rows = st.lists(
    st.tuples(
        st.lists(st.sampled_from(TOKENS), min_size=3, max_size=3),
        st.sampled_from(["no", "yes", "ß"]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=14,
)
queries = st.lists(st.lists(st.sampled_from([*TOKENS, "never"]), min_size=3, max_size=3), min_size=1, max_size=6)
smoothings = st.lists(st.sampled_from([0.1, 1.0, 10.0]), min_size=1, max_size=2, unique=True)


def objects(contexts: list[list[Any]]) -> np.ndarray[Any, Any]:
    return np.stack([object_array(row) for row in contexts])


def learnt(clf: MemoryClassifier, batch: Rows) -> MemoryClassifier:
    X, y, multiplicity = zip(*batch, strict=True)
    return clf.partial_fit(objects(list(X)), list(y), sample_weight=list(multiplicity))


def by_dictionary(
    batch: Rows, asked: list[list[Any]], smoothing: list[float], weights: list[float]
) -> list[list[float]]:
    """Return the scores of `KERNEL` by the definition, one dictionary of counts a site."""
    sites = [(0,), (2,), (0, 2), (0, 1, 2)]
    labels = sorted({label for _, label, _ in batch})
    examples = Counter(dict.fromkeys(labels, 0))
    counts: list[Counter[Any]] = [Counter() for _ in sites]
    for context, label, multiplicity in batch:
        examples[label] += multiplicity
        for table, site in zip(counts, sites, strict=True):
            key = tuple(context[r] for r in site)
            if NO_TOKEN not in key:
                table[key, label] += multiplicity
    total = sum(examples.values()) + 0.5 * len(labels)
    prior = {label: (examples[label] + 0.5) / total for label in labels}
    scores = []
    for context in asked:
        row = [math.log(prior[label]) for label in labels]
        for table, site, weight in zip(counts, sites, weights, strict=True):
            key = tuple(context[r] for r in site)
            n = sum(table[key, label] for label in labels)
            for i, label in enumerate(labels):
                for a in smoothing:
                    ratio = (table[key, label] + a * prior[label]) / (n + a) / prior[label]
                    row[i] += weight / len(smoothing) * math.log(ratio)
        scores.append(row)
    return scores


@given(batch=rows, asked=queries, smoothing=smoothings)
@randomly
def test_a_log_linear_vote_is_its_definition(batch: Rows, asked: list[list[Any]], smoothing: list[float]) -> None:
    weights = [0.5, 1.0, -0.25, 2.0]
    expected = by_dictionary(batch, asked, smoothing, weights)
    for memory in (Exact(), Tiered(Hashed(2, 1))):
        clf = learnt(MemoryClassifier(KERNEL, memory, LogLinear(smoothing, weights)), batch)
        np.testing.assert_allclose(clf.class_scores(objects(asked)), expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(clf.compile().class_scores(objects(asked)), expected, rtol=0, atol=1e-10)
        if isinstance(memory, Exact):
            reader = clf.memory_.reader()
            rule = partial(clf.vote_.rule, reader, clf.sites_)
            plain = RowRanker(reader.site_counts, rule, clf.sites_.n, len(reader.labels))
            np.testing.assert_allclose(plain.scores(Contexts.of(objects(asked))), expected, rtol=0, atol=1e-10)


@given(batch=rows, asked=queries, smoothing=smoothings)
@randomly
def test_a_hashed_memory_with_a_row_for_everything_answers_as_the_exact_one(
    batch: Rows, asked: list[list[Any]], smoothing: list[float]
) -> None:
    weights = [0.5, 1.0, -0.25, 2.0]
    clf = learnt(MemoryClassifier(KERNEL, Hashed(8, 100), LogLinear(smoothing, weights)), batch)
    expected = by_dictionary(batch, asked, smoothing, weights)
    rounding = (len(weights) + 1) / 2 ** (RULE_BITS + 1)
    np.testing.assert_allclose(clf.class_scores(objects(asked)), expected, rtol=0, atol=rounding + 1e-9)


@given(batch=rows, asked=queries, buckets=st.integers(1, 5), reserved=st.integers(0, 3), seed=st.integers(0, 9))
@randomly
def test_compiled_loops_and_numpy_agree_to_the_bit(
    batch: Rows, asked: list[list[Any]], buckets: int, reserved: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    vote = LogLinear((1, 10), rng.normal(size=4).tolist())
    clf = learnt(MemoryClassifier(KERNEL, Hashed(buckets, reserved), vote, random_state=seed), batch)
    contexts = Contexts.of(objects(asked))
    ruled: Any = clf.vote_.ranker(clf.memory_.reader(), clf.sites_)
    scores = plain_scores(ruled, contexts)
    order = np.argsort(-scores, axis=1, kind="stable")
    for way in ("row by row", "compiled"):
        assert ("_table" in vars(ruled)) == (way == "compiled")
        assert ruled.scores(contexts).tolist() == scores.tolist()
        assert ruled.winners(contexts).tolist() == scores.argmax(axis=1).tolist()
        for k in (1, 2, 5):
            assert ruled.leaders(contexts, k).tolist() == order[:, :k].tolist()
        ruled.single()  # which compiles all rows
    predictor = clf.compile()
    assert [predictor(tokens) for tokens in asked] == clf.predict(objects(asked)).tolist()


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_integers_without_a_first_token_have_the_prior_too(kind: str) -> None:
    X = np.array([[1, 2], [1, 3], [2, 3], [2, 2]] * 5, kind)
    y = np.array([0, 0, 1, 1] * 5)
    clf = MemoryClassifier(memory=Hashed(8, 4), vote=LogLinear()).fit(X, y)
    asked = np.array([[NO_TOKEN, 2], [1, 2]])
    ruled: Any = clf.vote_.ranker(clf.memory_.reader(), clf.sites_)
    assert ruled.scores(Contexts.of(asked)).tolist() == plain_scores(ruled, Contexts.of(asked)).tolist()
    ruled.single()  # which compiles all rows
    assert ruled.scores(Contexts.of(asked)).tolist() == plain_scores(ruled, Contexts.of(asked)).tolist()
    assert clf.compile()([NO_TOKEN, 2]) == clf.predict(asked).tolist()[0]


def planted(m: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return contexts whose last token tells the label six times out of ten, the pair before it a little."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 12, (m, 4))
    told = rng.random(m)
    y = np.where(told < 0.6, X[:, 3] % 5, np.where(told < 0.75, (X[:, 1] + X[:, 2]) % 5, rng.integers(0, 5, m)))
    return X, y


def plain_features(X: Any, y: Any, clf: MemoryClassifier, smoothing: tuple[float, ...]) -> np.ndarray[Any, Any]:
    """Return log-ratios with each example left out: by forgetting it, asking, and learning it again."""
    prior = clf.vote_.rule(clf.memory_.reader(), clf.sites_).prior
    features = np.empty((len(prior), len(y), len(clf.sites_.positions) * len(smoothing)))
    for i, (context, label) in enumerate(zip(X, y, strict=True)):
        counts = clf.memory_.reader().site_counts(Contexts.of([context]))[0]
        column = int(np.searchsorted(clf.classes_, label))
        counts[:, column] -= 1
        ratios = [np.log((counts / prior + a) / (counts.sum(axis=1, keepdims=True) + a)) for a in smoothing]
        features[:, i] = np.stack(ratios, axis=1).reshape(-1, len(prior)).T
    return features


def plain_scores(ranker: Any, contexts: Contexts) -> Any:
    """Return the scores of a ranker of a hashed memory, by NumPy."""
    return ranker._sum_values(ranker._values(ranker._raw.layout.rows(contexts)))


def test_features_leave_each_example_out() -> None:
    from hammemo.votes.fitting import LabelledContexts, compute_features

    X, y = planted(60, 1)
    clf = MemoryClassifier(Suffixes(3), Exact(), LogLinear()).fit(X, y)
    prior = clf.vote_.rule(clf.memory_.reader(), clf.sites_).prior
    columns = np.searchsorted(clf.classes_, y)
    made = compute_features(clf.memory_.reader(), LabelledContexts(Contexts.of(X), columns, prior, (1.0, 7.0), True))
    np.testing.assert_allclose(made, plain_features(X, y, clf, (1.0, 7.0)), rtol=0, atol=1e-5)
    at_once = compute_features(
        clf.memory_.reader(), LabelledContexts(Contexts.of(X), columns, prior, (1.0, 7.0), False)
    )
    assert not np.allclose(made, at_once, atol=1e-2)


@pytest.mark.parametrize("per_label", [False, True])
def test_the_gradient_is_that_of_the_loss(per_label: bool) -> None:
    rng = np.random.default_rng(0)
    ratios = rng.normal(size=(3, 20, 2)).astype(np.float32)
    problem = DenseLoss(
        ratios,
        rng.integers(0, 3, 20),
        rng.integers(1, 4, 20),
        np.array([0.5, 0.3, 0.2]),
        np.full(2, 0.5),
        2.0,
        per_label,
    )
    point = rng.normal(size=problem.layout.size)
    step = 1e-2 * np.eye(problem.layout.size)  # wide: the features are multiplied in 32 bits
    slopes = [(problem(point + along)[0] - problem(point - along)[0]) / 2e-2 for along in step]
    np.testing.assert_allclose(problem(point)[1], slopes, rtol=0, atol=1e-3)


def test_fitted_weights_find_what_tells_the_label() -> None:
    X, y = planted(4000, 2)
    clf = MemoryClassifier(PositionalHamming(), Exact(), LogLinear(per_label=False)).fit(X, y)
    told = clf.vote_.site_weights_.sum(axis=1)
    assert told.argmax() == 3
    assert told[3] > 0.5
    asked, expected = planted(2000, 3)
    by_sum = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y)
    assert clf.score(asked, expected) >= by_sum.score(asked, expected)


@pytest.mark.parametrize("memory", [Exact(), Hashed(64, 16)], ids=repr)
def test_probabilities_are_calibrated(memory: Any) -> None:
    """The expected calibration error over ten bins, against what binomial noise alone explains.

    If each answer is right with the probability stated, a bin's gap has a standard deviation of at most
    sqrt(n_b) / 2, so over ten bins the mean of the error is at most sqrt(10 / n) / 2 < 0.023 for n = 5,000. An answer
    moves the error by at most 1 / n, so by McDiarmid's inequality it exceeds its mean by t with probability at most
    exp(-2 n t^2): passing 0.06, t = 0.037, has a false-alarm rate below 1.2e-6.
    """
    X, y = planted(20_000, 4)
    asked, observed = planted(5_000, 5)
    clf = MemoryClassifier(PositionalHamming() + Suffixes(2) + SkipPairs(3), memory, LogLinear()).fit(X, y)
    proba = clf.predict_proba(asked)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    sure, right = proba.max(axis=1), clf.classes_[proba.argmax(axis=1)] == observed
    bins = np.minimum((sure * 10).astype(int), 9)
    gaps = [abs(sure[bins == b].sum() - right[bins == b].sum()) for b in range(10)]
    assert sum(gaps) / len(asked) < 0.06


@pytest.mark.parametrize("memory", [Exact(), Hashed([8] * 4 + [32] * 2, 6)], ids=repr)
def test_after_forgetting_predictions_are_those_of_a_fresh_fit_with_the_same_weights(memory: Any) -> None:
    X, y = planted(1500, 6)
    gone = np.random.default_rng(0).permutation(len(y))[:150]
    kept = np.setdiff1d(np.arange(len(y)), gone)
    clf = MemoryClassifier(PositionalHamming() + SkipPairs(3), memory, LogLinear()).fit(X, y)
    before = clf.vote_.site_weights_.copy()
    clf.forget(X[gone], y[gone])
    assert np.array_equal(clf.vote_.site_weights_, before)
    fresh = clf.empty_like().partial_fit(X[kept], y[kept])
    beside = clone(clf).partial_fit(X[kept], y[kept], layout=clf)
    asked = planted(300, 7)[0]
    assert clf.class_scores(asked).tolist() == fresh.class_scores(asked).tolist()
    assert clf.class_scores(asked).tolist() == beside.class_scores(asked).tolist()
    assert not np.array_equal(clf.fit_vote(X[kept], y[kept]).vote_.site_weights_, before)


def documents(m: int, seed: int) -> Any:
    """Return m documents of 9 tokens, most of them told by the token before."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 6, (m, 9))
    for r in range(1, 9):
        tokens[:, r] = np.where(rng.random(m) < 0.8, (tokens[:, r - 1] * 5 + 1) % 6, tokens[:, r])
    return tokens.tolist()


@pytest.mark.parametrize("classes", [None, [1, 2, 4]])
@pytest.mark.parametrize("memory", [Exact(), Hashed(buckets=[4, 5, 6], reserved=3)], ids=repr)
def test_a_stream_fits_the_weights_that_its_windows_fit(memory: Any, classes: list[int] | None) -> None:
    docs = documents(60, 10)
    X, y = windows(docs, 2)
    chosen = np.isin(y, y if classes is None else classes)
    clf = MemoryClassifier(PositionalHamming() + Suffixes(2), memory, LogLinear())
    by_stream = clone(clf).fit_stream(docs, 2, classes=classes)
    apart = clone(clf).set_params(keep=False)
    by_windows = apart.partial_fit(X[chosen], y[chosen], layout=by_stream).fit_vote(X[chosen], y[chosen])
    assert by_stream.memory_.state_bytes() == by_windows.memory_.state_bytes()
    assert by_stream.vote_.site_weights_.tolist() == by_windows.vote_.site_weights_.tolist()
    assert by_stream.class_scores(X).tolist() == by_windows.class_scores(X).tolist()


def test_a_long_stream_fits_weights_to_a_sample_and_a_layout_brings_its_own() -> None:
    docs = documents(400, 11)
    clf = MemoryClassifier(Suffixes(2), Exact(), LogLinear(sample=200))
    fitted = clone(clf).fit_stream(iter(docs), 2)
    assert fitted.vote_.site_weights_[0].sum() > 0.5
    beside = clone(clf).fit_stream(docs[:200], 2, layout=fitted)
    assert beside.vote_.site_weights_.tolist() == fitted.vote_.site_weights_.tolist()
    given_weights = MemoryClassifier(Suffixes(2), Exact(), LogLinear(weights=[1, 1])).fit_stream(docs, 2)
    assert not hasattr(given_weights.vote_, "labels_")
    nothing = clone(clf).fit_stream(docs, 2, classes=[77, 78])
    assert not hasattr(nothing.vote_, "labels_")
    continued = clone(clf).partial_fit_stream(docs, 2)
    assert not hasattr(continued.vote_, "labels_")


def test_what_two_models_add_up_to_has_the_weights_of_the_left_one() -> None:
    X, y = planted(400, 12)
    clf = MemoryClassifier(memory=Exact(), vote=LogLinear(), numeric="none")
    left, right = clone(clf).fit(X[:200], y[:200]), clone(clf).fit(X[200:], y[200:])
    with pytest.warns(UserWarning, match="different fitted weights"):
        both = left + right
    assert both.vote_.site_weights_.tolist() == left.vote_.site_weights_.tolist()
    assert both.vote_.site_weights_.tolist() != right.vote_.site_weights_.tolist()
    whole = clone(clf).fit(X, y)
    assert both.fit_vote(X, y).class_scores(X[:9]).tolist() == whole.class_scores(X[:9]).tolist()


def test_a_label_that_comes_after_the_fit_has_the_shared_weights() -> None:
    X, y = planted(500, 8)
    clf = MemoryClassifier(memory=Exact(), vote=LogLinear()).fit(X, y)
    clf.partial_fit([[3, 3, 3, 99]] * 200, [77] * 200)
    assert clf.predict([[3, 3, 3, 99]]).tolist() == [77]
    rule = clf.vote_.rule(clf.memory_.reader(), clf.sites_)
    assert rule.weights[:, :, -1].tolist() == clf.vote_.site_weights_.tolist()


def test_weights_can_be_fitted_to_a_held_out_split_or_given() -> None:
    X, y = planted(2000, 9)
    clf = MemoryClassifier(memory=Exact(), vote="log-linear", numeric="none").partial_fit(X[:1000], y[:1000])
    even = clf.class_scores(X[:5])
    clf.fit_vote(X[1000:], y[1000:], leave_one_out=False)
    assert clf.vote_.site_weights_[3].sum() > 0.3
    assert not np.allclose(even, clf.class_scores(X[:5]))
    given_ones = MemoryClassifier(memory=Exact(), vote=LogLinear(1.0, [0, 0, 0, 1]), numeric="none").fit(X, y)
    assert not hasattr(given_ones.vote_, "labels_")


@pytest.mark.parametrize("memory", [Exact(), Hashed(4, 2), Tiered(Hashed(4, 2))], ids=repr)
@pytest.mark.parametrize("fitted", [True, False])
def test_files_keep_fitted_weights(tmp_path: Any, memory: Any, fitted: bool) -> None:
    X, y = planted(200, 10)
    clf = MemoryClassifier(Suffixes(3) + SkipPairs(3), memory, LogLinear((1, 5)))
    (clf.fit if fitted else clf.partial_fit)(X, y)
    save(clf, tmp_path / "model")
    save(clf.compile(), tmp_path / "predictor")
    for verify in (True, False):
        again, predictor = (load(tmp_path / name, verify=verify) for name in ("model", "predictor"))
        np.testing.assert_allclose(again.predict_proba(X), clf.predict_proba(X), rtol=0, atol=1e-12)
        np.testing.assert_allclose(predictor.predict_proba(X), clf.predict_proba(X), rtol=0, atol=1e-12)
        assert isinstance(again, MemoryClassifier)
        assert hasattr(again.vote_, "labels_") == fitted


def test_a_file_with_weights_that_do_not_fit_is_refused(tmp_path: Any) -> None:
    from hammemo import FileError

    X, y = planted(50, 11)
    clf = MemoryClassifier(memory=Exact(), vote=LogLinear()).fit(X, y)
    for name, array in (
        ("site_weights_", np.zeros((3, 3))),
        ("label_weights_", np.full_like(clf.vote_.label_weights_, np.nan)),
        ("offsets_", np.zeros(3)),
        ("site_weights_", np.zeros((4, 3), np.float32)),
    ):
        broken = copy.deepcopy(clf)
        setattr(broken.vote_, name, array)
        save(broken, tmp_path / "model")
        with pytest.raises(FileError, match=f"vote.{name[:-1]}"):
            load(tmp_path / "model")


def test_what_has_no_rows_of_counts_refuses() -> None:
    X, y = planted(50, 12)
    for clf in (MemoryClassifier(memory=Gaussian(8), vote=LogLinear()), MeMoClassifier(d=8, vote=LogLinear())):
        with pytest.raises(TypeError, match=r"use memory=Exact\(\) or memory=Hashed\(\)"):
            clf.fit(X, y)


def test_certificates_and_probabilities_are_for_their_votes_only() -> None:
    X, y = planted(50, 13)
    clf = MemoryClassifier(memory=Hashed(8, 4), vote=LogLinear()).fit(X, y)
    with pytest.raises(TypeError, match="no certificate"):
        clf.certify(X)
    by_sum = MemoryClassifier(memory=Hashed(8, 4), vote="sum").fit(X, y)
    for model in (by_sum, by_sum.compile()):
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError, match="predict_proba") as refused:
            model.predict_proba(X)
        assert "are not probabilities: use vote=LogLinear()" in str(refused.value.__cause__)


@pytest.mark.parametrize(
    ("vote", "complaint"),
    [
        (LogLinear(0), "smoothing=0"),
        (LogLinear([]), "smoothing="),
        (LogLinear("ab"), "smoothing='ab'"),  # type: ignore[arg-type]
        (LogLinear(weights=[1, 2]), "needs 4 finite weights"),
        (LogLinear(weights=[1, 2, 3, np.inf]), "needs 4 finite weights"),
        (LogLinear(ridge=0), "ridge=0"),
        (LogLinear(sample=0), "sample=0"),
        (LogLinear(steps=1.5), "steps=1.5"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_wrong_parameters_are_refused(vote: LogLinear, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        MemoryClassifier(memory=Exact(), vote=vote).fit(*planted(20, 14))


def test_softmax() -> None:
    assert softmax(np.array([[0.0, np.log(3)]])).round(12).tolist() == [[0.25, 0.75]]


@pytest.mark.long
def test_a_sample_is_drawn_from_many_examples() -> None:
    X, y = planted(3000, 15)
    few, again = (MemoryClassifier(memory=Exact(), vote=LogLinear(sample=200)).fit(X, y) for _ in range(2))
    assert few.vote_.site_weights_.tolist() == again.vote_.site_weights_.tolist()
    every = MemoryClassifier(memory=Exact(), vote=LogLinear()).fit(X, y)
    assert few.vote_.site_weights_.tolist() != every.vote_.site_weights_.tolist()


def test_one_label_needs_no_weights() -> None:
    clf = MemoryClassifier(memory=Exact(), vote=LogLinear()).fit([["a"], ["b"]], ["x", "x"])
    assert clf.predict_proba([["a"]]).tolist() == [[1.0]]
    empty = clf.forget([["a"], ["b"]], ["x", "x"])
    with pytest.raises(ValueError, match="memory is empty"):
        empty.predict([["a"]])


def test_class_weights_multiply_the_odds_and_leave_the_counts_alone(tmp_path: Any) -> None:
    X, y = planted(300, 3)
    y = np.where(y == 0, "rare", "common")
    plain = MemoryClassifier("positional", Exact(), LogLinear()).fit(X, y)
    kinds: list[tuple[Any, float]] = [
        ({"rare": 3.0}, 3.0),
        ([["rare", 3.0], ["common", 2.0]], 1.5),
        ("balanced", (np.mean(y == "common") * 300 + 0.5) / (np.mean(y == "rare") * 300 + 0.5)),
    ]
    for weights, odds in kinds:
        clf = MemoryClassifier("positional", Exact(), LogLinear(class_weight=weights)).fit(X, y)
        assert clf.memory_.state_bytes() == plain.memory_.state_bytes()
        shift = clf.decision_function(X) - plain.decision_function(X)  # of "rare" against "common"
        np.testing.assert_allclose(shift, np.log(odds), atol=1e-9)
        if not isinstance(weights, dict):
            save(clf, tmp_path / "model")
            assert load(tmp_path / "model").predict_proba(X).tobytes() == clf.predict_proba(X).tobytes()
    mistakes: list[tuple[Any, str]] = [("even", "balanced"), ({"rare": 0.0}, "above zero")]
    for wrong, words in mistakes:
        with pytest.raises(ValueError, match=words):
            MemoryClassifier("positional", Exact(), LogLinear(class_weight=wrong)).fit(X, y).predict(X)


@pytest.mark.parametrize("per_label", [True, False])
def test_scores_of_a_sparse_table_do_not_depend_on_the_batch(per_label: bool) -> None:
    """To the bit: a product of dense matrices would add in an order that depends on its sizes."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 6, (300, 6)), rng.integers(0, 7, 300)
    predictor = MemoryClassifier("positional", Exact(), LogLinear(steps=3, per_label=per_label)).fit(X, y).compile()
    single = np.concatenate([predictor.class_scores(row[None]) for row in X])
    np.testing.assert_array_equal(predictor.class_scores(X), single)
