"""The rows that a model keeps: additive like the counts, and weights that forget."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from hammemo import NO_TOKEN, FileError, MemoryClassifier, NotStoredError, Rolling, load, save, windows
from hammemo._arrays.checked import StoredArrays
from hammemo.kernels import Suffixes
from hammemo.memories import Exact, Hashed
from hammemo.stores import Digests
from hammemo.stores.kept import EVERYTHING, THRESHOLDS
from hammemo.stores.kept_rows import KeptRows
from hammemo.tokens.contexts import Examples
from hammemo.tokens.distinct import example_words, window_words
from hammemo.tokens.stream_blocks import stream_blocks
from hammemo.votes import LogLinear, Mixture

if TYPE_CHECKING:
    from pathlib import Path

tokens = st.sampled_from([0, 1, 2.5, "a", "ß", NO_TOKEN])
rows = st.lists(st.tuples(tokens, tokens, st.sampled_from(["no", "yes"]), st.integers(1, 3)), max_size=12)


def examples(batch: list[Any]) -> Examples:
    X = np.empty((len(batch), 2), object)
    for i, row in enumerate(batch):
        X[i] = row[:2]
    return Examples.of(X, np.array([row[2] for row in batch], object), [row[3] for row in batch])


def contents(sample: Any) -> dict[Any, int]:
    kept = next(sample.batches())
    names, labels = [*kept.contexts.vocabulary.tolist(), NO_TOKEN], kept.labels.tolist()
    rows = zip(kept.contexts.ranks.tolist(), kept.label_ranks.tolist(), kept.multiplicity.tolist(), strict=True)
    return {(*(names[rank] for rank in ranks), labels[label]): times for ranks, label, times in rows}


def fixed(threshold: int) -> KeptRows:
    return KeptRows.empty(h=2, seed=1, most=1000, threshold=threshold)


@given(rows, rows, rows, st.sampled_from([EVERYTHING, 2**63, 2**62]))
@settings(max_examples=100)
def test_it_is_the_multiset_of_examples_below_the_threshold(a: Any, b: Any, c: Any, threshold: int) -> None:
    left = fixed(threshold).edit(examples([*a, *b]), 1).edit(examples(b), -1)
    right = fixed(threshold).edit(examples(c), 1)
    merged = left.plus(right, 1)
    assert merged is not None
    expected: Counter[Any] = Counter()
    batch = examples([*a, *c])
    words: Any = example_words(batch, 1) if len(batch) else []
    for row, word in zip([*a, *c], words, strict=True):
        if int(word) < threshold:
            expected[row[:3]] += row[3]
    assert contents(merged) == expected
    back = merged.plus(right, -1)
    assert back is not None
    assert contents(back) == contents(left)
    assert {name: array.tolist() for name, array in merged.state().items()} == {
        name: array.tolist() for name, array in fixed(threshold).edit(batch, 1).state().items()
    }


@given(rows, st.sampled_from([EVERYTHING, 2**63]))
@settings(max_examples=50)
def test_arrays_and_back(batch: Any, threshold: int) -> None:
    sample = fixed(threshold).edit(examples(batch), 1)
    assert contents(fixed(threshold).restore(StoredArrays(sample.state()))) == contents(sample)


@given(st.integers(0, 10**6), st.sampled_from([6, 1000]))
@settings(max_examples=60)
def test_any_sequence_of_edits_has_the_arrays_of_what_is_left(seed: int, most: int) -> None:
    """Batches, large and small, and single rows; the base, the overlay, copies and files are all the same rows."""
    rng = np.random.default_rng(seed)
    empty = KeptRows.empty(h=2, seed=seed % 3, most=most)
    kept, held = empty, Counter[Any]()
    for step in rng.choice(["learn", "learn", "forget", "learn_one", "forget_one", "copy"], 12):
        n = 1 if step.endswith("one") else int(rng.choice([1, 3, 40]))
        drawn = [(int(a), f"t{b}", "yes" if c else "no") for a, b, c in rng.integers(0, [5, 6, 2], (n, 3))]
        if step.startswith("forget"):
            drawn = [row for row, times in Counter(drawn).items() for _ in range(min(times, held[row]))]
        sign = -1 if step.startswith("forget") else 1
        if step == "copy":
            kept = empty.unpack(pickle.loads(pickle.dumps(kept)).pack())  # noqa: S301
        elif step.endswith("one") and drawn:
            kept = kept.edit_one(drawn[0][:2], drawn[0][2], sign)
        elif drawn:
            kept = kept.edit(Examples.of([list(row[:2]) for row in drawn], [row[2] for row in drawn]), sign)
        if step != "copy":
            held.update({row: sign * times for row, times in Counter(drawn).items()})
        left = [row for row in held.elements() if kept.holds_all or row in contents(kept)]
        if kept.holds_all:
            assert contents(kept) == +held
    with pytest.raises(NotStoredError):
        replace(empty, most=1000).edit_one((99, "t0"), "no", -1)
    if kept.holds_all and left:
        fresh = empty.edit(Examples.of([list(row[:2]) for row in left], [row[2] for row in left]), 1)
        same = zip(fresh.state().values(), kept.state().values(), strict=True)
        assert all(one.dtype == other.dtype and one.tobytes() == other.tobytes() for one, other in same)


def numbered(first: int, last: int) -> Examples:
    X = np.arange(first, last)[:, None]
    return Examples.of(X, X[:, 0] % 3)


@given(st.lists(st.integers(0, 400), min_size=1, max_size=12), st.integers(2, 200), st.integers(0, 5))
@settings(max_examples=50)
def test_beyond_its_size_the_threshold_is_the_highest_of_the_grid_however_examples_came(
    cuts: list[int], most: int, seed: int
) -> None:
    empty = KeptRows.empty(h=1, seed=seed, most=most)
    whole = empty.edit(numbered(0, 400), 1)
    words = example_words(numbered(0, 400), seed).tolist()
    fitting = [threshold for threshold in THRESHOLDS if sum(word < threshold for word in words) <= most]
    expected = max(fitting) if max(fitting) > min(words) else min(t for t in THRESHOLDS if t > min(words))
    assert whole.threshold == expected
    assert len(whole) == sum(word < expected for word in words)
    grouped: KeptRows | None = empty
    ends = sorted({0, *cuts, 400})
    for number, (first, last) in enumerate(itertools.pairwise(ends)):
        assert grouped is not None
        part = numbered(first, last)
        grouped = grouped.edit(part, 1) if number % 2 else grouped.plus(empty.edit(part, 1), 1)
    assert grouped is not None
    assert (grouped.lowest_threshold, contents(grouped)) == (whole.threshold, contents(whole))
    assert len(grouped) == len(contents(grouped))


@given(st.integers(2, 30), st.integers(1, 40), st.integers(0, 40), st.integers(0, 5))
@settings(max_examples=50)
def test_rows_learnt_one_by_one_and_partly_forgotten_leave_those_learnt_at_once(
    most: int, n: int, gone: int, seed: int
) -> None:
    """A threshold that falls at the most rows stays there: what is kept is no matter of how edits were grouped."""
    gone = min(gone, n)
    at_once = single = KeptRows.empty(h=1, seed=seed, most=most)
    at_once = at_once.edit(numbered(0, n), 1).edit(numbered(0, gone), -1)
    for row in range(n):
        single = single.edit_one((row,), row % 3, 1)
    for row in range(gone):
        single = single.edit_one((row,), row % 3, -1)
    assert (single.threshold, contents(single)) == (at_once.threshold, contents(at_once))
    assert single.holds_all == (n <= most)


def test_the_threshold_is_on_a_public_grid_of_eight_steps_an_octave() -> None:
    assert THRESHOLDS[-1] == EVERYTHING
    assert THRESHOLDS[-9] == 2**63
    assert all(abs(high / low - 2**0.125) < 1e-9 for low, high in itertools.pairwise(THRESHOLDS[-200:]))
    X, y = np.arange(2000)[:, None], np.arange(2000) % 3
    clf = MemoryClassifier("positional", vote=LogLinear(), keep=100, numeric="none").fit(X, y)
    assert clf.state.kept is not None
    assert clf.state.kept.threshold in THRESHOLDS
    assert 80 < len(clf.state.kept) <= 100
    before = weights(clf)
    assert weights(clf.refit()) == before
    kept = next(clf.state.kept.batches())
    gone = np.array(kept.contexts.vocabulary.tolist())[:50]
    rest = clf.forget(gone[:, None], gone % 3).refit().state.kept
    assert rest is not None
    assert rest.threshold in THRESHOLDS


def test_an_empty_model_hands_its_threshold_on() -> None:
    X = np.arange(2000)[:, None]
    clf = MemoryClassifier("positional", vote=LogLinear(), keep=100).partial_fit(X, X[:, 0] % 3)
    assert clf.state.kept is not None
    assert clf.state.kept.threshold < EVERYTHING
    other = MemoryClassifier("positional", vote=LogLinear(), keep=100)
    other.partial_fit(X[:9], X[:9, 0] % 3, layout=clf.empty_like())
    assert other.state.kept is not None
    assert other.state.kept.threshold == clf.state.kept.threshold


def test_the_lower_threshold_counts_for_both_and_another_seed_needs_everything() -> None:
    low, high = (KeptRows.empty(1, 0, 100, threshold) for threshold in (2**61, 2**63))
    a, b = low.edit(numbered(0, 100), 1), high.edit(numbered(50, 150), 1)
    for merged in (a.plus(b, 1), b.plus(a, 1)):
        assert merged is not None
        assert merged.threshold == 2**61
        assert contents(merged) == contents(low.edit(numbered(0, 100), 1).edit(numbered(50, 150), 1))
    other = KeptRows.empty(1, 7, 100)
    merged = a.plus(other.edit(numbered(50, 150), 1), 1)
    assert merged is not None
    assert contents(merged) == contents(low.edit(numbered(0, 100), 1).edit(numbered(50, 150), 1))
    assert a.plus(KeptRows.empty(1, 7, 100, 2**60), 1) is None


def test_what_was_never_stored_is_refused() -> None:
    with pytest.raises(NotStoredError):
        KeptRows.empty(1, 0, 100).edit(numbered(0, 3), -1)


def test_windows_have_the_hashes_of_their_examples() -> None:
    documents = [list("abcabd"), list("ba"), list("cadabra")]
    kinds: Any = ("drop", "pad")
    for short in kinds:
        blocks = list(stream_blocks(documents, 2, None, short))
        found = np.concatenate([window_words(block, None, 3)[1] for block in blocks])
        assert found.tolist() == example_words(Examples.of(*windows(documents, 2, short)), 3).tolist()


def table(n: int = 300, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, 4))
    y = np.where(rng.random(n) < 0.8, (X[:, 0] + X[:, 1]) % 3, rng.integers(0, 3, n))
    return X.astype(str), y


def weights(clf: MemoryClassifier) -> list[bytes]:
    return [array.tobytes() for array in clf.vote_.state().values()]


@pytest.mark.parametrize(("memory", "keep"), [("auto", "auto"), ("hashed", "auto"), ("auto", "auto+digests")])
def test_after_forgetting_and_refitting_no_byte_tells_what_was_there(memory: Any, keep: Any) -> None:
    X, y = table()
    clf = MemoryClassifier(memory=memory, keep=keep).fit(X, y)
    gone = np.random.default_rng(1).random(len(y)) < 0.1
    rest = MemoryClassifier(memory=memory, keep=keep).fit(X[~gone], y[~gone])
    before = weights(clf)
    clf.forget(X[gone], y[gone])
    assert weights(clf) == before
    clf.refit()
    assert weights(clf) == weights(rest) != before
    assert clf.class_scores(X).tobytes() == rest.class_scores(X).tobytes()
    assert clf.digest() == rest.digest()


def a_table(gone: list[str]) -> MemoryClassifier:
    X, y = table()
    clf = MemoryClassifier(memory=Exact(), keep="auto+digests").fit([*X.tolist(), gone], [*y, 0])
    return clf.forget([gone], [0]).refit()


def a_stream(gone: list[str]) -> MemoryClassifier:
    clf = MemoryClassifier(Suffixes(2), vote=Mixture()).fit_stream([*table()[0].tolist(), gone], h=2, short="pad")
    return clf.forget_stream([gone]).refit()


def a_window(gone: list[str]) -> Rolling:
    X, y = table()
    clf = Rolling(MemoryClassifier(), last=40)
    for row, label in zip([*X[:100].tolist(), gone, *X[100:180].tolist()], [*y[:100], 0, *y[100:180]], strict=True):
        clf.partial_fit([row], [label])
    return clf


def a_difference(gone: list[str]) -> MemoryClassifier:
    X, y = table()
    clf = MemoryClassifier().fit([*X.tolist(), gone], [*y, 0])
    return clf.unmerge(clf.empty_like().partial_fit([gone], [0]))


@pytest.mark.parametrize("made", [a_table, a_stream, a_window, a_difference])
def test_copies_hold_nothing_that_was_forgotten(made: Any, tmp_path: Path) -> None:
    gone = ["Alice-1970", "b", "c", "d"]
    clf = made(gone)
    copies = {"pickle": pickle.dumps(clf), "deep copy": pickle.dumps(copy.deepcopy(clf))}
    if isinstance(clf, MemoryClassifier):
        save(clf, tmp_path / "model")
        copies["file"] = (tmp_path / "model").read_bytes()
        sample: Any = clf.state.kept
        assert contents(copy.deepcopy(sample)) == contents(sample)
    assert [name for name, data in copies.items() if gone[0].encode() in data] == []
    again = pickle.loads(copies["pickle"])  # noqa: S301
    X = table()[0]
    assert again.class_scores(X).tobytes() == clf.class_scores(X).tobytes()
    if isinstance(clf, Rolling):
        assert again.partial_fit(X[:60], [0] * 60).n_examples_ == 40


def test_a_label_that_is_forgotten_leaves_no_weight() -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y).forget(X[y == 2], y[y == 2]).refit()
    assert clf.vote_.labels_.tolist() == [0, 1]


def test_fit_and_refit_are_the_same() -> None:
    clf = MemoryClassifier().fit(*table())
    before = weights(clf)
    assert weights(clf.refit()) == before


def test_parts_that_are_merged_are_refitted_to_the_whole() -> None:
    X, y = table()
    whole = MemoryClassifier().fit(X, y)
    half = len(y) // 2
    parts = [whole.empty_like().partial_fit(X[rows], y[rows]) for rows in (slice(half), slice(half, None))]
    assert weights((parts[0] + parts[1]).refit()) == weights(whole)
    assert weights((whole - parts[0]).refit()) == weights(MemoryClassifier().fit(X[half:], y[half:]))
    assert weights((parts[0] + parts[1] - parts[0]).refit()) == weights(parts[1].refit())


def test_a_window_of_time_keeps_its_rows() -> None:
    X, y = table()
    clf = Rolling(MemoryClassifier(), last=100).partial_fit(X, y)
    sample = clf.estimator_.state.store
    assert sample is not None
    assert sum(contents(sample).values()) == 100
    assert clf.estimator_.refit().predict(X).shape == y.shape


def test_files_hold_it(tmp_path: Path) -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    save(clf, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert contents(loaded.state.store) == contents(clf.state.store)
    assert weights(loaded.forget(X[:30], y[:30]).refit()) == weights(clf.forget(X[:30], y[:30]).refit())


@pytest.mark.parametrize(
    "change", [{"threshold": 2**40}, {"threshold": 2**64 + 1}, {"most": 0}, {"seed": 2**70}, {"seed": "x"}]
)
def test_a_file_with_rows_that_cannot_be_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    from hammemo.files import contents as file_contents
    from hammemo.files.archive import FORMAT, seal

    X, y = table()
    arrays, about = file_contents._describe_classifier(MemoryClassifier().fit(X, y))
    about["kept"] |= change
    text = json.dumps({"checksum": "0" * 64, "format": FORMAT, "version": "0.2.0", **about}, separators=(",", ":"))
    parts = seal({name: np.require(array, requirements="C") for name, array in arrays.items()}, text)
    (tmp_path / "model").write_bytes(b"".join(bytes(part) for part in parts))
    with pytest.raises(FileError):
        load(tmp_path / "model")


def test_without_rows_refit_says_why_and_what_to_do() -> None:
    X, y = table(60)
    for clf in (
        MemoryClassifier(vote="sum").fit(X, y),
        MemoryClassifier(vote=LogLinear(), keep=False).fit(X, y),
        MemoryClassifier(kernel="positional", vote=LogLinear(weights=[1, 1, 1, 1])).fit(X, y),
    ):
        assert clf.state.store is None
        with pytest.raises(ValueError, match="fit_vote"):
            clf.refit()
    kept = MemoryClassifier("positional", Exact(), LogLinear()).fit(X, y)
    assert (kept + MemoryClassifier("positional", Exact(), LogLinear(), keep=False).fit(X, y)).state.store is None
    assert "all are kept in plain text" in str(kept.report())


def test_a_sketch_with_rows_can_tell_what_was_never_stored() -> None:
    X, y = table(60)
    clf = MemoryClassifier(memory=Hashed(1, 0), vote=LogLinear()).fit(X, y)
    version = clf.version_
    with pytest.raises(NotStoredError):
        clf.forget([["never", "never", "never", "never"]], [0])
    assert clf.version_ == version


@pytest.mark.parametrize("params", [{"keep": False}, {"keep": 20}, {"vote": "sum"}, {"vote": "mixture"}])
def test_refit_keeps_what_the_parameters_now_say(params: dict[str, Any]) -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y).set_params(**params).forget(X[:30], y[:30]).refit()
    assert clf.digest(parts=True) == MemoryClassifier(**params).fit(X[30:], y[30:]).digest(parts=True)


@pytest.mark.parametrize("what", ["all", "weights"])
def test_after_keep_false_refit_drops_the_rows_of_a_given_layout_too(what: Any) -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y).empty_like().partial_fit(X, y).set_params(keep=False)
    assert clf.refit(what).state.store is None


@pytest.mark.parametrize("keep", ["auto", False])
def test_rows_that_are_given_decide_alone(keep: Any) -> None:
    X, y = table()
    labels = np.where(np.arange(len(y)) % 9, y.astype(str), "a long label")
    clf = MemoryClassifier(keep=keep).fit(X[:50], y[:50].astype(str))
    batches = ((X[rows], labels[rows]) for rows in (slice(200), slice(200, None)))
    assert clf.refit(rows=batches).digest(parts=True) == MemoryClassifier(keep=keep).fit(X, labels).digest(parts=True)


@pytest.mark.parametrize("keep", ["auto", False])
@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([], ValueError, "no rows were given"),
        (3, TypeError, "rows= takes"),
        ("ab", TypeError, "rows= takes"),
        ([np.zeros((5, 4), int), np.zeros(5, int)], TypeError, "rows= takes"),
        ((table(60)[0], ["text"] * 60), ValueError, "cannot mix"),
    ],
)
def test_rows_that_cannot_be_change_nothing(keep: Any, rows: Any, error: Any, message: str) -> None:
    clf = MemoryClassifier(keep=keep).fit(*table(60))
    before = clf.digest()
    with pytest.raises(error, match=message):
        clf.refit(rows=rows)
    assert clf.digest() == before


def test_weights_are_not_fitted_to_rows_that_are_given() -> None:
    clf = MemoryClassifier().fit(*table(60))
    with pytest.raises(ValueError, match="leave out what='weights'"):
        clf.refit("weights", rows=table(60))


def test_digests_do_not_depend_on_the_address_of_a_generator(tmp_path: Path) -> None:
    clf, same = (MemoryClassifier(random_state=np.random.RandomState(1)).fit(*table(60)) for _ in range(2))
    save(clf, tmp_path / "model")
    assert clf.digest() == same.digest() == copy.deepcopy(clf).digest() == load(tmp_path / "model").digest()


@pytest.mark.parametrize("seed", range(6))
def test_beyond_the_budget_a_refit_chooses_as_a_fresh_fit_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hammemo.stores.kept_rows.MOST_ROWS", 600)
    monkeypatch.setattr("hammemo.tasks.labels.choose.CHOICE_ROWS", 400)
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (1500, 6))
    y, gone, X = (X[:, 0] ^ X[:, 1]) & 1, rng.random(1500) < 0.2, X.astype(str)
    clf = MemoryClassifier(vote=LogLinear(sample=300)).fit(X, y).forget(X[gone], y[gone]).refit()
    fresh = MemoryClassifier(vote=LogLinear(sample=300)).fit(X[~gone], y[~gone])
    assert clf.state.kept is not None
    assert not clf.state.kept.holds_all
    assert len(clf.state.kept) >= 400
    mine, theirs = clf.digest(parts=True), fresh.digest(parts=True)
    if clf.sites_.positions == fresh.sites_.positions:  # kept rows and threshold may differ
        assert {part for part in mine if mine[part] != theirs[part]} <= {"kept rows", "threshold"}
    else:  # the choice came out different, and counts cannot be made again without the rows
        assert "choose again: refit(rows=…)" in str(clf.report())
        assert clf.refit(rows=(X[~gone], y[~gone])).digest(parts=True)["layout"] == theirs["layout"]
    few = clf.forget(X[~gone][:700], y[~gone][:700]).refit()
    assert "choose again: refit(rows=…)" in str(few.report())


@pytest.mark.parametrize("keep", [100, Digests(100)], ids=str)
def test_reserved_tokens_come_from_the_kept_rows_where_only_some_are_kept(keep: Any) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 40, (2000, 3)).astype(str), rng.integers(0, 2, 2000)
    fitted = MemoryClassifier(memory=Hashed(16, 8), keep=keep).fit(X, y)
    assert fitted.state.rows is not None
    assert not fitted.state.rows.holds_all
    alone = fitted.memory_.empty_like()
    by_kept = Hashed(16, 8).open(fitted.sites_, fitted.memory_.seed)
    by_kept.add(fitted.state.rows.examples())
    assert alone.layout() == by_kept.layout()


def test_refit_to_sorted_rows_in_batches_reserves_what_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from hammemo.tasks.labels import choose

    monkeypatch.setattr(choose, "CHOICE_ROWS", 50)
    rng = np.random.default_rng(4)
    X, y = np.sort(rng.integers(0, 40, (2000, 3)), axis=0), rng.integers(0, 2, 2000)
    fitted = MemoryClassifier(memory=Hashed(16, 8), keep=100).fit(X, y)
    batches = [(X[first : first + 500], y[first : first + 500]) for first in range(0, 2000, 500)]
    assert clone(fitted).fit(X, y).refit(rows=batches).digest() == fitted.digest()
