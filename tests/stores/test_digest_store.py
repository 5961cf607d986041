"""Digests of all rows: what was never learnt cannot be forgotten, whatever the memory can tell."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from hammemo import NO_TOKEN, LayoutError, MemoryClassifier, NotStoredError, Rolling, load, save
from hammemo.edits.editing import take_state
from hammemo.files.archive import FileError
from hammemo.files.contents import file_bytes
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.stores import Digests
from hammemo.stores.digest_store import DigestCounts, Digester, DigestStore
from hammemo.stores.kept_rows import KeptRows
from hammemo.tokens.contexts import Examples
from memory_catalogue import TOKENS, batches, examples

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.memories import Memory

pytestmark = pytest.mark.quick

SECRET = b"a secret of some length"
RNG = np.random.default_rng(0)
X = RNG.integers(0, 6, (80, 3))
Y, X = X[:, 0] % 2, X.astype(str)
KEEPS = ["digests", "rows+digests", "auto+digests", Digests(20, SECRET)]
every_keep = pytest.mark.parametrize("keep", KEEPS, ids=str)


def digests_of(model: MemoryClassifier) -> bytes:
    assert isinstance(model.state.store, DigestStore)
    return b"".join(array.tobytes() for array in model.state.store.digests.state().values())


# ---------------------------------------------------------------- counts of digests


@given(
    edits=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-2, 3)), max_size=40), max_size=8
    ),
    few=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_counts_are_those_of_a_dictionary(edits: Any, few: bool) -> None:
    """Also where digests share the first word, and whether edits go into the overlay or the base."""
    counts, plain = DigestCounts(), Counter[tuple[int, int]]()
    for edit in edits:
        wanted = plain.copy()
        for high, low, by in edit:
            wanted[high, low] += by
        words = np.array([[high, low] for high, low, _ in edit], np.uint64).reshape(-1, 2)
        times = np.array([by for *_, by in edit], np.int64)
        entries = Counter[bytes]()
        for high, low, by in edit:
            entries[high.to_bytes(8) + low.to_bytes(8)] += by
        try:
            changed = counts.plus_few(entries) if few else counts.plus(words, times)
        except NotStoredError:
            assert min(wanted.values()) < 0
            continue
        assert min(wanted.values(), default=0) >= 0
        counts, plain = changed, +wanted
        asked = np.array([[high, low] for high in range(5) for low in range(5)], np.uint64)
        expected = [plain[high, low] for high, low in asked.tolist()]
        assert counts.times(asked).tolist() == expected
        assert [counts.count(high.to_bytes(8) + low.to_bytes(8)) for high, low in asked.tolist()] == expected
        assert (len(counts), counts.total) == (len(plain), plain.total())
        at_once = DigestCounts().plus(asked, np.array(expected))
        for one in (counts, pickle.loads(pickle.dumps(counts))):  # noqa: S301
            assert [array.tobytes() for array in one.state().values()] == [
                array.tobytes() for array in at_once.state().values()
            ]


def test_digests_are_held_compactly_and_small_edits_share_the_base() -> None:
    words = np.random.default_rng(0).integers(0, 2**63, (50_000, 2)).astype(np.uint64)
    counts = DigestCounts().plus(words, np.ones(len(words), np.int64))
    assert counts.words.nbytes + counts.counts.nbytes == 17 * len(words)
    edited = counts.plus(words[:100], np.full(100, 2))
    assert edited.words is counts.words
    assert edited.times(words[:101]).tolist() == [3] * 100 + [1]


@given(batch=batches)
@settings(max_examples=30, deadline=None)
def test_one_digest_is_that_of_a_batch(batch: Any) -> None:
    digester = Digester(SECRET)
    found = digester.of_rows(examples(batch)).astype(">u8").tobytes()
    alone = [digester.of_row(context, label) for context, label, _ in batch]
    assert found == b"".join(alone)


def test_tokens_have_one_identity_and_every_position_counts() -> None:
    store = DigestStore(3, 0).edit(Examples.of([[3, "a", 0.5]], [1], [2]), 1)
    same = np.array([[np.float32(3.0), "a", 0.5]], object)
    assert store.holds(Examples.of(same, [1.0])).tolist() == [2]
    others = [["3", "a", 0.5], [3, "a", "0.5"], ["a", 3, 0.5], [NO_TOKEN, "a", 0.5], [0, "a", 0.5]]
    assert store.holds(Examples.of(np.array(others, object), [1] * 5)).tolist() == [0] * 5
    assert store.holds(Examples.of([[3, "a", 0.5]], ["1"])).tolist() == [0]
    assert store.edit_one([3.0, "a", 0.5], 1, -1).digests.total == 1
    assert store.holds(Examples.of(same[:0], same[:0, 0])).tolist() == []


@given(
    batch=batches,
    asked=st.lists(st.tuples(st.lists(st.sampled_from(TOKENS), min_size=3, max_size=3), st.sampled_from("ab"))),
)
@settings(max_examples=30, deadline=None)
def test_rows_that_are_not_stored_are_named(batch: Any, asked: Any) -> None:
    store = DigestStore(3, 0, SECRET, beside=KeptRows.empty(3, 0, 4)).edit(examples(batch), 1)
    removed = [*((context, label) for context, label, _ in batch), *asked]
    held = Counter[Any]()
    for context, label, times in batch:
        held[tuple(context), label] += times
    lacking = [i for i, row in enumerate(removed) if Counter(map(_key, removed))[_key(row)] > held[_key(row)]]
    given_rows = examples([(context, label, 1) for context, label in removed])
    if lacking:
        with pytest.raises(NotStoredError, match=rf"{len(lacking)} of {len(removed)} .*row {lacking[0]} is the first"):
            store.edit(given_rows, -1)
    else:
        assert store.edit(given_rows, -1).digests.total == held.total() - len(removed)


def _key(row: Any) -> Any:
    return tuple(row[0]), row[1]


# ---------------------------------------------------------------- in models


@every_keep
@pytest.mark.parametrize("memory", [Exact(), Hashed(16, 2), Gaussian(32), Tiered(Hashed(16, 2))], ids=str)
def test_the_counterexample(memory: Memory, keep: Any) -> None:
    rows, labels = [["a", "c"], ["d", "b"]], ["y", "y"]
    plain = MemoryClassifier("positional", memory=memory, vote="sum").fit(rows, labels)
    plain.forget([["a", "b"]], ["y"])  # no count becomes negative: counts cannot tell
    assert plain.memory_.label_counts.tolist() == [1]
    model = MemoryClassifier("positional", memory=memory, vote="sum", keep=keep).fit(rows, labels)
    before = model.digest()
    with pytest.raises(NotStoredError, match=r"1 of 2 examples to be removed is not stored, .*row 1 .*Nothing"):
        model.forget([["a", "c"], ["a", "b"]], ["y", "y"])
    with pytest.raises(NotStoredError, match="row 0"):
        model.forget_one(["a", "b"], "y")
    part = model.empty_like().partial_fit([["a", "b"]], ["y"])
    with pytest.raises(NotStoredError, match="it holds an example that is not stored here"):
        model.unmerge(part)
    assert model.digest() == before
    assert model.forget([["a", "c"]], ["y"]).forget_one(["d", "b"], "y").state.n_examples == 0


@every_keep
def test_every_history_ends_in_the_digests_of_what_remains(keep: Any) -> None:
    """Single rows, batches, merges, differences, files, pickles: equal to a model that learnt what is left."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        model, held = MemoryClassifier("positional", Hashed(8, 2), "sum", keep=keep).fit(X[:5], Y[:5]), [*range(5)]
        for place in range(5, 60, 5):
            part, rows = model.empty_like(), [*range(place, place + 5)]
            step = rng.integers(0, 4)
            if step == 0:
                for row in rows:
                    model.learn_one(X[row], Y[row])
            elif step == 1:
                model = model + part.partial_fit(X[rows], Y[rows])
            else:
                model.partial_fit(X[rows], Y[rows], choose=False)
            held += rows
            gone = [held.pop(int(rng.integers(len(held)))) for _ in range(3)]
            if step == 2:
                model = model - model.empty_like().partial_fit(X[gone], Y[gone])
            elif step == 3:
                model.forget(X[gone], Y[gone])
            else:
                for row in gone:
                    model.forget_one(X[row], Y[row])
            model = pickle.loads(pickle.dumps(model)) if place % 2 else model.snapshot()  # noqa: S301
        fresh = clone(model).fit(X[held], Y[held])
        assert digests_of(model) == digests_of(fresh)
        assert model.forget(X[held], Y[held]).state.n_examples == 0


@every_keep
def test_files_bring_digests_and_refuse_others(keep: Any, tmp_path: Path) -> None:
    key = keep.key if isinstance(keep, Digests) else None
    model = MemoryClassifier(keep=keep).fit(X, Y)
    save(model, tmp_path / "m")
    again = load(tmp_path / "m", key=key)
    assert (again.digest(), repr(again)) == (model.digest(), repr(model))
    assert file_bytes(again) == file_bytes(model)
    with pytest.raises(NotStoredError):
        again.forget([["5", "0", "9"]], [0])
    for wrong in {None: bytes(16), SECRET: None}[key], b"another secret of 16 bytes":
        with pytest.raises(FileError, match="key"):
            load(tmp_path / "m", key=wrong)
    other = MemoryClassifier(keep=keep).fit(X[1:], Y[1:])
    take_state(model, model.state.with_changes(store=other.state.store))
    save(model, tmp_path / "m", force=True)
    with pytest.raises(FileError, match="as many digests as rows"):
        load(tmp_path / "m", key=key)


@pytest.mark.filterwarnings("ignore:The two models have different fitted weights")
def test_models_with_and_without_rows_are_merged() -> None:
    rows = MemoryClassifier(keep="rows+digests").fit(X[:40], Y[:40])
    digests = MemoryClassifier(keep="digests").partial_fit(X[40:], Y[40:], layout=rows)
    for merged in (rows + digests, digests + rows):
        assert merged.state.kept is None
        assert isinstance(merged.state.store, DigestStore)
        assert merged.forget(X, Y).state.n_examples == 0
    both = rows + digests
    assert digests_of(both.unmerge(rows)) == digests_of(digests)
    few = MemoryClassifier(keep=Digests(30)).fit(X[:25], Y[:25])
    more = few.empty_like().partial_fit(X[40:], Y[40:])
    assert (few + more).forget(X[:25], Y[:25]).forget(X[40:], Y[40:]).state.n_examples == 0


def test_merges_need_the_same_key_or_all_rows() -> None:
    def model(keep: Any, part: slice, seed: int = 0) -> MemoryClassifier:
        settings = MemoryClassifier("positional", Exact(), "sum", keep=keep, random_state=seed)
        return settings.fit(X[part], Y[part])

    first, second = slice(0, 40), slice(40, 80)
    for mine, theirs, seed in [
        (Digests(), Digests(key=SECRET), 0),
        ("digests", "digests", 1),
        ("digests", False, 0),
        (False, "digests", 0),
    ]:
        with pytest.raises(LayoutError, match=r"digests|seed"):
            model(mine, first).merge(model(theirs, second, seed))
        with pytest.raises(LayoutError, match=r"digests|seed"):
            model(mine, slice(0, 80)).unmerge(model(theirs, second, seed))
    for mine, theirs in [("digests", True), (True, "digests"), (Digests(True, SECRET), Digests(True)), (5, True)]:
        merged = model(mine, first) + model(theirs, second)
        assert merged.state.n_examples == 80
        if "digests" in (mine, theirs) or isinstance(mine, Digests):
            assert digests_of(merged) == digests_of(model(Digests(key=getattr(mine, "key", None)), slice(0, 80)))


def test_digests_depend_on_the_key_or_else_on_the_seed() -> None:
    def digests(key: bytes | None, seed: int) -> bytes:
        return digests_of(MemoryClassifier(keep=Digests(key=key), random_state=seed).fit(X, Y))

    assert digests(SECRET, 1) == digests(SECRET, 2) != digests(SECRET + b"!", 1)
    assert digests(None, 1) == digests(None, 1) != digests(None, 2)


def test_no_token_is_stored_and_the_key_is_never_shown() -> None:
    model = MemoryClassifier("positional", Hashed(8, 0, key=SECRET), "sum", keep=Digests(key=SECRET))
    model.fit([["ß-token", "a-token"]], ["label"])
    shown = [repr(model), model._repr_html_(), repr(model.state.store), str(file_bytes(model))]
    assert all("secret of" not in text for text in shown)
    assert repr(model).count("<secret>") == 2
    assert b"-token" not in file_bytes(model)
    assert clone(model).keep.key == SECRET
    assert model.set_params(keep__rows=9).get_params()["keep__rows"] == 9


def test_no_forgotten_row_is_left() -> None:
    rows = [["secret-row", "b"], ["c", "d"], ["e", "f"]] * 3
    model = MemoryClassifier(keep="rows+digests").fit(rows, list("xyzxyzxyz"))
    digest = model.state.store._digester.of_row(["secret-row", "b"], "x")  # type: ignore[union-attr]
    assert digest in pickle.dumps(model) or digest in file_bytes(model)
    for _ in range(3):
        model.forget_one(["secret-row", "b"], "x")
    for data in (pickle.dumps(model), file_bytes(model)):
        assert b"secret-row" not in data
        assert digest not in data
    window = Rolling(MemoryClassifier(keep="rows+digests"), last=2).partial_fit(rows[:3], list("xyz"))
    assert b"secret-row" not in pickle.dumps(window)


@pytest.mark.parametrize("before", [True, "rows+digests", Digests(True, SECRET)], ids=str)
@pytest.mark.parametrize("documents", [False, True])
def test_a_refit_stores_what_keep_says_now(before: Any, documents: bool) -> None:
    def learnt(keep: Any) -> MemoryClassifier:
        model = MemoryClassifier(keep=keep)
        return model.fit_stream(X.tolist(), h=2, short="pad") if documents else model.fit(X, Y)

    for after in ("digests", Digests(key=SECRET), "rows+digests", True, False):
        model = learnt(before).set_params(keep=after).refit()
        fresh = learnt(True).set_params(keep=after).refit()
        assert model.digest(parts=True)["kept rows"] == fresh.digest(parts=True)["kept rows"]
        if after in ("rows+digests", True):
            assert model.digest() == learnt(after).digest()
        assert (model.state.kept is None) == (after not in ("rows+digests", True))
        assert (model.state.store is None) == (after is False)
    with pytest.raises(ValueError, match="keep='digests' was given"):
        learnt("digests").refit()


@pytest.mark.parametrize("keep", ["digests", "auto+digests", Digests(30)], ids=str)
def test_documents_are_digested_window_by_window(keep: Any) -> None:
    visits = [[f"{k}-{place}" for place in range(4)] for k in range(30)]
    shop = MemoryClassifier("positional", Hashed(64, 4), "sum", keep=keep).fit_stream(visits, h=2, short="pad")
    assert isinstance(shop.state.store, DigestStore)
    assert shop.state.store.digests.total == 120
    fresh = shop.empty_like().partial_fit_stream(visits[9:], short="pad")
    assert digests_of(shop.forget_stream(visits[:9])) == digests_of(fresh)
    with pytest.raises(NotStoredError):
        shop.forget_stream(visits[:1])
    assert digests_of(shop.forget_stream(visits[9:], short="pad")) == digests_of(shop.empty_like())


@pytest.mark.parametrize("keep", ["row+digests", "digest", Digests(rows="all"), Digests(rows=0), Digests(key=b"short")])
def test_what_cannot_be_kept_is_refused(keep: Any) -> None:
    with pytest.raises(ValueError, match=r"keep=.* (is not known|at least 1)|secret of 16 to 64 bytes"):
        MemoryClassifier(keep=keep).fit(X, Y)
