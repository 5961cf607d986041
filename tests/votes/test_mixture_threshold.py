"""Long rows of a mixture are read from their top: answers and scores are those of all scores, to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, load, save
from hammemo.kernels import Bag, Copy, Suffixes, Together
from hammemo.memories import Exact
from hammemo.tokens.labels import top_columns
from hammemo.votes import Mixture
from hammemo.votes.mixture import leading
from hammemo.votes.mixture.popularity import STEPS, popularity
from mixture_kernels import KERNELS, H, with_weights

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


DOCUMENTS = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=9), min_size=2, max_size=12)
SEEDS = st.integers(0, 2**32 - 1)
POWERS = st.sampled_from([0, 1, 8, 63])
LIST = st.lists(st.integers(0, 14), max_size=9)
QUERIES = st.lists(st.lists(st.integers(0, 14), min_size=H, max_size=9), min_size=1, max_size=6)


@pytest.fixture(autouse=True, scope="module")
def _short_rows_are_long() -> Iterator[None]:
    """Every row of two entries is long, and the threshold algorithm is never given up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leading, "MOST_WHOLE", 1)
        patch.setattr(leading, "PATIENCE", 2**30)
        yield


def check(clf: Any, queries: list[list[int]], exclude: Any = None, allow: Any = None) -> None:
    """Compare labels and scores with those of all scores, for several k."""
    power = round(STEPS * clf.vote_.discount_)
    scores = clf.class_scores(queries) / popularity(np.asarray(clf.memory_.label_counts), power)
    for k in (1, 5, 14):
        labels, found = clf.top_k(queries, k, exclude=exclude, allow=allow, return_scores=True)
        assert clf.top_k(queries, k, exclude=exclude, allow=allow).tolist() == labels.tolist()
        for i, query in enumerate(queries):
            out = query if exclude == "seen" else exclude or []
            columns = [c for c in top_columns(scores[i : i + 1], scores.shape[1])[0] if clf.classes_[c] not in out]
            columns = [c for c in columns if allow is None or clf.classes_[c] in allow][:k]
            n = len(columns)
            assert labels[i][:n].tolist() == clf.classes_[columns].tolist()
            assert found[i][:n].tolist() == scores[i][columns].tolist()


@pytest.mark.parametrize(
    ("kernel", "short"),
    [("all", "pad"), ("skips", "pad"), ("all", "drop")],  # dropped: some tokens never are a label
)
@given(documents=DOCUMENTS, later=DOCUMENTS, queries=QUERIES, seed=SEEDS, lists=st.tuples(LIST, LIST), power=POWERS)
@settings(max_examples=12)
def test_leaders_are_those_of_all_scores(
    kernel: str, short: Any, documents: Any, later: Any, queries: Any, seed: int, lists: Any, power: int
) -> None:
    documents = [*documents, [1, 2, 3, 4, 5, 6, 7], [3, 2, 1, 5, 4, 7, 6, 8]]  # some are long enough
    clf = MemoryClassifier(KERNELS[kernel], Exact(), Mixture(sample=50, steps=1, discount=power / STEPS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leading, "MOST_WHOLE", 512 if seed % 3 == 0 else 1)
        clf.fit_stream(documents, h=H, short=short)
        with_weights(clf, seed)
        for mask in ({}, {"exclude": lists[0]}, {"allow": lists[1]}, {"exclude": "seen", "allow": lists[1]}):
            check(clf, queries, **mask)
        clf.partial_fit_stream([*later, [9, 8, 7, 6, 5, 4, 10]], h=H, short=short)
        check(clf, queries)
        clf.forget_stream(documents, short=short)
        check(clf, queries, exclude="seen")


def zipf_visits(n: int, items: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    ranks = np.minimum(rng.zipf(1.3, (n, 6)) - 1, items - 1)
    return [visit[: rng.integers(2, 7)].tolist() for visit in ranks]


def test_rows_longer_than_the_limit_at_its_own_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the limits that are used: some questions are decided from the top, some are given up."""
    monkeypatch.setattr(leading, "MOST_WHOLE", 512)
    monkeypatch.setattr(leading, "PATIENCE", 4)
    visits = zipf_visits(8000, 3000, 0)
    kernel = Suffixes(2) + Bag(5) + Together(5) + Copy(5)
    clf: Any = MemoryClassifier(kernel, vote=Mixture(sample=2000)).fit_stream(visits, h=H, short="pad")
    assert max(clf.memory_.reader().free[0].rows.live_table().version.rows(0)[2]) > 512
    queries = [[0, 1], [1, 2, 3], *zipf_visits(60, 3000, 1)]
    scores = clf.class_scores(queries)
    for k in (1, 20, 1500):  # more than the threshold algorithm has the patience for
        assert clf.top_k(queries, k).tolist() == clf.classes_[top_columns(scores, k)].tolist()
    rare = clf.classes_[-30:].tolist()
    seen_last = clf.top_k(queries, 5, allow=rare)
    columns = top_columns(scores[:, -30:], 5)
    assert seen_last.tolist() == clf.classes_[-30:][columns].tolist()


def check_tallies(clf: Any) -> int:
    """Compare what is kept with rows with a recount; return the entries of the longest one."""
    longest = 0
    reader = clf.memory_.reader()
    for one in (reader, *reader.free):
        version, steps = one.rows.live_table().version, one.rows.live_table().store.steps.all
        for step in range(len(steps)):
            _, _, lengths, _, counts = version.rows(step)
            rows = np.split(counts, np.cumsum(lengths)[:-1])
            recount = [(row.sum(), (row == 1).sum(), (row == 2).sum()) for row in rows]
            assert version.tallies(step).reshape(-1, 3).tolist() == [list(map(int, one)) for one in recount]
            longest = max([longest, *lengths.tolist()])
    return longest


def test_what_is_kept_with_rows_is_right_after_every_edit(tmp_path: Path) -> None:
    visits, more = zipf_visits(600, 400, 2), zipf_visits(300, 500, 3)
    kernel = Suffixes(2) + Bag(3) + Together(3)
    clf: Any = MemoryClassifier(kernel, vote=Mixture(sample=100)).fit_stream(visits, h=H, short="pad")
    assert check_tallies(clf) > 64  # long rows
    for visit in more[:40]:  # one by one, and at once
        clf.partial_fit_stream([visit], h=H, short="pad")
    check_tallies(clf)
    clf.partial_fit_stream(more[40:], h=H, short="pad")
    check_tallies(clf)
    save(clf, tmp_path / "shop.hammemo")
    assert check_tallies(load(tmp_path / "shop.hammemo")) > 64
    other: Any = clf.empty_like().partial_fit_stream(zipf_visits(200, 400, 4), h=H, short="pad")
    assert check_tallies(clf + other) > 64
    for visit in visits[:60]:
        clf.forget_stream([visit], short="pad")
    check_tallies(clf)
    clf.forget_stream(visits[60:], short="pad")
    check_tallies(clf)
    clf.forget_stream(more[30:], short="pad")
    assert check_tallies(clf) <= 64  # long rows are short again
