"""Documents in cases: a case is forgotten by its events or by its id, whatever batches its documents came in."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, NotStoredError, load, save
from hammemo._arrays.checked import StoredArrays
from hammemo.stores.kept_documents import KeptDocuments, match_documents

if TYPE_CHECKING:
    from pathlib import Path

CLICKS = pd.DataFrame(
    [(f"u{u}", f"i{(u * 7 + k * k) % 30}", k) for u in range(20) for k in range(6)], columns=["user", "item", "time"]
)
OLD, NEW = CLICKS[CLICKS.time < 3], CLICKS[CLICKS.time >= 3]
COLUMNS: dict[str, Any] = {"case": "user", "item": "item", "time": "time"}
LISTED: dict[str, Any] = {"h": 30, "short": "pad"}


def learnt(*batches: pd.DataFrame, **params: Any) -> MemoryClassifier:
    model = MemoryClassifier(random_state=0, **params).fit_stream(batches[0], **COLUMNS)
    for batch in batches[1:]:
        model.partial_fit_stream(batch, **COLUMNS)
    return model


def others(*users: str) -> MemoryClassifier:
    """Return a model of two batches without these users."""
    return learnt(OLD[~OLD.user.isin(users)], NEW[~NEW.user.isin(users)]).refit()


def events_of(*users: str) -> pd.DataFrame:
    return CLICKS[CLICKS.user.isin(users)]


def test_a_case_in_two_batches_is_forgotten_by_its_events_or_by_its_id() -> None:
    wanted = others("u5", "u9").digest()
    by_events = learnt(OLD, NEW).forget_stream(events_of("u5", "u9"), **COLUMNS).refit()
    by_id = learnt(OLD, NEW).forget_cases(["u9", "u5", "u5"]).refit()
    assert by_events.digest() == by_id.digest() == wanted
    documents = [
        (user, batch[batch.user == user].item.tolist())
        for batch in (NEW, OLD)
        for user in sorted(set(batch.user) - {"u5", "u9"}, reverse=True)
    ]
    listed = MemoryClassifier(random_state=0).fit_stream(
        [items for _, items in documents], cases=[user for user, _ in documents], **LISTED
    )
    assert listed.digest() == wanted


def test_one_batch_of_a_case_is_forgotten() -> None:
    model = learnt(OLD, NEW).forget_stream(NEW[NEW.user == "u5"], **COLUMNS).refit()
    assert model.digest() == learnt(OLD, NEW[NEW.user != "u5"]).refit().digest()
    three = [CLICKS[CLICKS.time // 2 == part] for part in range(3)]  # two of three batches, as a window moves on
    model = learnt(*three).forget_stream(CLICKS[CLICKS.time < 4], **COLUMNS).refit()
    assert model.digest() == learnt(three[2]).digest()


def test_events_that_came_in_turns_are_all_of_the_case() -> None:
    odd, even = CLICKS[CLICKS.time % 2 == 1], CLICKS[CLICKS.time % 2 == 0]
    model = learnt(odd, even).forget_stream(events_of("u5"), **COLUMNS).refit()
    assert model.digest() == learnt(odd[odd.user != "u5"], even[even.user != "u5"]).refit().digest()


@pytest.mark.parametrize(
    "events",
    [
        events_of("u5")[1:],
        events_of("u5")[:2],
        pd.concat([events_of("u5"), events_of("u6").assign(user="u5", time=9)]),
        pd.concat([events_of("u6"), events_of("u5")[:4]]),
    ],
    ids=["not the first", "two", "too many", "another case too"],
)
def test_other_events_of_a_case_are_refused(events: pd.DataFrame) -> None:
    model = learnt(OLD, NEW)
    before = model.digest()
    with pytest.raises(NotStoredError, match="Case 'u5': the events given are not those"):
        model.forget_stream(events, **COLUMNS)
    assert model.digest() == before


def test_events_of_another_case_are_refused() -> None:
    model = learnt(OLD, NEW)
    before = model.digest()
    with pytest.raises(NotStoredError, match="Case 'absent' was never learnt"):
        model.forget_stream(OLD[OLD.user == "u5"].assign(user="absent"), **COLUMNS)
    with pytest.raises(NotStoredError, match="Case 'absent' was never learnt"):
        model.forget_cases(["u5", "absent"])
    with pytest.raises(TypeError, match=r"forget_cases\(\['u5'\]\)"):
        model.forget_cases("u5")
    assert model.digest() == before
    model.forget_cases(["u5"])
    with pytest.raises(NotStoredError, match="Case 'u5' was never learnt"):
        model.forget_cases(["u5"])


def test_equal_documents_of_two_cases_are_told_apart() -> None:
    visits, ids = [["tea", "cup"], ["tea", "cup"], ["pen", "ink"], ["pen", "ink"]], ["ann", "bob", "ann", None]
    model = MemoryClassifier(random_state=0).fit_stream(visits[:3], cases=ids[:3], **LISTED)
    model.partial_fit_stream(visits[3:])
    plain = MemoryClassifier(random_state=0).fit_stream(visits, **LISTED)
    assert model.memory_.state_bytes() == plain.memory_.state_bytes()
    with pytest.raises(NotStoredError, match="learnt for several cases"):
        model.forget_stream([["tea", "cup"]])
    alone = model.snapshot().forget_cases(["ann"]).refit()
    assert alone.digest() == (
        MemoryClassifier(random_state=0)
        .fit_stream([["tea", "cup"]], cases=["bob"], **LISTED)
        .partial_fit_stream([["pen", "ink"]])
        .refit()
        .digest()
    )
    model.forget_stream([["pen", "ink"]])  # that without a case
    model.forget_cases(["bob"]).forget_stream([["tea", "cup"], ["pen", "ink"]])  # whose they are is clear now
    assert model.memory_.label_counts.sum() == 0


def test_documents_without_a_case_are_forgotten_with_one() -> None:
    """What a server has learnt has no cases; the table of events has."""
    model = MemoryClassifier(random_state=0).fit_stream([["tea", "cup"], ["pen", "ink"]], **LISTED)
    model.forget_stream(pd.DataFrame({"user": ["ann"] * 2, "item": ["tea", "cup"]}), case="user", item="item")
    assert model.classes_.tolist() == ["ink", "pen"]


@pytest.mark.filterwarnings("ignore:The two models have different fitted weights")
def test_cases_are_kept_by_files_pickles_and_merging(tmp_path: Path) -> None:
    whole = learnt(OLD, NEW).refit()
    save(whole, tmp_path / "model")
    copies = [
        load(tmp_path / "model"),
        pickle.loads(pickle.dumps(whole)),  # noqa: S301  (our own bytes)
        (learnt(OLD) + learnt(NEW)).refit(),
    ]
    for model in copies:
        assert model.forget_cases(["u5"]).refit().digest() == others("u5").digest()
    seeded = MemoryClassifier(random_state=7).fit_stream(NEW, **COLUMNS)
    assert (learnt(OLD) + seeded).forget_cases(["u5"]).refit().digest() == others("u5").digest()
    assert (whole - learnt(NEW)).refit().digest() == learnt(OLD).digest()


def test_a_sample_of_documents_tells_what_it_can() -> None:
    model = learnt(OLD, NEW, keep=60)
    assert not model.state.store.holds_all  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="does not keep all its documents"):
        model.forget_cases(["u5"])
    for keep in (False, 60):
        model = learnt(OLD, NEW, keep=keep)
        n = model.memory_.label_counts.sum()
        for user in ("u5", "u6", "u7", "u8"):
            for batch in (OLD, NEW):  # as they were learnt
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("warnings.warn", lambda *_, **__: None)
                    model.forget_stream(batch[batch.user == user], **COLUMNS)
        assert model.memory_.label_counts.sum() == n - 24


def test_ids_are_compared_by_their_text() -> None:
    frame = CLICKS.assign(user=CLICKS.user.str[1:].astype(int))
    model = learnt(frame).forget_cases(["5", 6, 7.0, np.int64(8)]).refit()
    assert model.digest() == learnt(frame[~frame.user.isin([5, 6, 7, 8])]).digest()
    days = CLICKS.assign(user=pd.Timestamp("2026-01-01") + pd.to_timedelta(frame.user, "D"))
    learnt(days).forget_cases([pd.Timestamp("2026-01-06")])


@pytest.mark.parametrize(
    ("ids", "message"), [(["a"], "as many ids"), (["a", "b", "c"], "as many ids"), (["a", None], "never None")]
)
def test_each_document_has_one_case(ids: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryClassifier().fit_stream([["tea", "cup"], ["pen", "ink"]], cases=ids, **LISTED)
    with pytest.raises(ValueError, match="flat array"):
        MemoryClassifier().fit_stream(np.arange(9), h=2, cases=ids)
    with pytest.raises(ValueError, match="case= names the column"):
        MemoryClassifier().fit_stream(CLICKS, cases=ids, **COLUMNS)


def test_damaged_cases_are_refused() -> None:
    kept = learnt(OLD, NEW).state.store
    assert isinstance(kept, KeptDocuments)
    arrays = kept.state()
    for cases in (arrays["cases"] * np.uint64(0), arrays["cases"][1:], arrays["cases"][:, :1]):
        with pytest.raises(ValueError, match=r"cases|canonical"):
            kept.empty_copy().restore(StoredArrays({**arrays, "cases": np.ascontiguousarray(cases)}))


@given(
    documents=st.lists(st.lists(st.sampled_from("ab"), min_size=1, max_size=4), min_size=1, max_size=5),
    chosen=st.lists(st.integers(0, 4), min_size=1, max_size=5, unique=True),
)
@settings(max_examples=200)
def test_what_matches_has_just_the_events_given(documents: list[list[str]], chosen: list[int]) -> None:
    held = Counter(("way", 1, *document) for document in documents)
    events = [token for place in chosen if place < len(documents) for token in documents[place]]
    found = match_documents(("way", 1, *events), held)
    assert not found - held
    tokens = Counter(token for key, times in found.items() for token in key[2:] * times)
    assert tokens == (Counter(events) if found else Counter())
    if len(chosen) == 1 or Counter(events) == Counter(token for document in documents for token in document):
        assert found or not events
