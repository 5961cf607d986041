"""First-class scikit-learn: its own checks on every estimator over every memory, and use inside its tools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, OneHotEncoder
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from hammemo import MeMoClassifier, MemoryClassifier, MemoryRegressor, Rolling
from hammemo.kernels import PositionalHamming, SiteOneHot
from hammemo.memories import Exact, Gaussian
from hammemo.paper.baselines import HammingNeighbors, SuffixBackoff

# scikit-learn's checks look at an estimator from outside: how it takes parameters, tables, labels and weights. Few
# classes do that. MemoryClassifier is here as the default (automatic tuples, fitted weights), a sketch with the
# paper's rule, and a wrapper with the mean; the Gaussian memory as its own class. What
# memories do inside is in tests/memories.
ESTIMATORS = [
    MemoryClassifier(),
    MemoryClassifier(memory="hashed", vote="sum"),
    MemoryClassifier(memory=Exact(), keep="auto+digests", vote="mean"),
    MeMoClassifier(d=256),
    Rolling(MemoryClassifier(memory=Exact()), last=10_000),
    SiteOneHot(),
    SuffixBackoff(),
    HammingNeighbors(n_neighbors=1),
]


def refused(estimator: Any) -> dict[str, str]:
    """Return the checks that an estimator fails because it refuses: class weights, with votes without odds."""
    is_weighed = isinstance(estimator, MemoryClassifier) and estimator.vote in ("sum", "mean")
    return {"check_class_weight_classifiers": "class_weight is for a log-linear vote"} if is_weighed else {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=refused)  # type: ignore[untyped-decorator]
def test_scikit_learn_s_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def task() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (300, 4))
    return X.astype(str), np.where(X[:, 3] < 3, "low", "high")


def test_cross_validation(task: tuple[Any, Any]) -> None:
    assert cross_val_score(MemoryClassifier(), *task, cv=3).mean() > 0.9


def test_grid_search_over_memories_and_their_nested_parameters(task: tuple[Any, Any]) -> None:
    over_memories = GridSearchCV(
        MemoryClassifier(), {"memory": [Exact(), Gaussian(512)], "vote": ["sum", "mean"]}, cv=2
    )
    assert over_memories.fit(*task).best_score_ > 0.9
    nested = GridSearchCV(
        MemoryClassifier(memory=Gaussian()), {"memory__d": [2, 512], "memory__tied": [False, True]}, cv=2
    )
    assert nested.fit(*task).best_params_["memory__d"] == 512
    default = GridSearchCV(MemoryClassifier(), {"memory__buckets": [1, 64], "memory__reserved": [0]}, cv=2)
    assert default.fit(*task).best_params_["memory__buckets"] == 64
    with pytest.raises(ValueError, match="Invalid parameter 'memory'"):
        MeMoClassifier().set_params(memory__d=8)


@pytest.mark.parametrize("one", [["1", "2", "3", "4"], np.array([1, 2, 3, 4]), []])
def test_a_single_context_is_refused_with_the_way_out(task: tuple[Any, Any], one: Any) -> None:
    with pytest.raises(ValueError, match=r"Wrap a single row in a list.*windows\(docs, h\)"):
        MemoryClassifier().fit(*task).predict(one)


def test_pipelines(task: tuple[Any, Any]) -> None:
    X, y = task
    upper = FunctionTransformer(np.char.upper)
    assert make_pipeline(upper, MemoryClassifier()).fit(X, y).score(X, y) > 0.9
    assert make_pipeline(SiteOneHot(), LinearSVC()).fit(X, y).score(X, y) == 1.0
    bins = KBinsDiscretizer(encode="ordinal", quantile_method="averaged_inverted_cdf")
    assert make_pipeline(bins, MemoryClassifier()).fit(X.astype(float), y).score(X.astype(float), y) > 0.9


def test_a_sketch_and_its_exact_twin_differ_in_one_parameter(task: tuple[Any, Any]) -> None:
    sketch = MemoryClassifier(kernel=PositionalHamming(), memory=Gaussian(2048), vote="mean").fit(*task)
    twin = clone(sketch).set_params(memory=Exact()).fit(*task)
    assert not hasattr(clone(sketch), "memory_")
    assert (sketch.predict(task[0]) == twin.predict(task[0])).mean() > 0.9


def test_sparse_matrices_are_read_as_the_same_dense_ones(task: tuple[Any, Any]) -> None:
    X, y = task
    pipe = make_pipeline(OneHotEncoder(), MemoryClassifier()).fit(X[:200], y[:200])
    coded, clf = pipe[0].transform(X), pipe[-1]
    dense = MemoryClassifier().fit(coded[:200].toarray(), y[:200])
    assert clf.digest() == dense.digest()
    assert clf.predict(coded).tolist() == dense.predict(coded.toarray()).tolist() == pipe.predict(X).tolist()
    assert clf.compile().predict(coded).tolist() == pipe.predict(X).tolist()
    assert clf.partial_fit(coded[200:], y[200:]).forget(coded[:50], y[:50]).refit().digest() == (
        MemoryClassifier().fit(coded[50:].toarray(), y[50:]).digest()
    )
    numbers = (y == "low") * 1.5
    reg = MemoryRegressor().fit(coded, numbers)
    assert reg.digest() == MemoryRegressor().fit(coded.toarray(), numbers).digest()
    assert reg.predict(coded[:5]).tolist() == reg.predict(coded[:5].toarray()).tolist()
