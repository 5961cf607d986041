"""Many labels: the benchmark's contenders agree, its oracles can tell a wrong answer, and its figures are there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import label_edits
import labels
from hammemo import MemoryClassifier
from hammemo.memories.exact.live.live_rows import LiveRows
from hammemo.paper.experiments import wikitext
from label_data import KERNELS, RACED, VOTES, Counters, LabelledText


def quiet(done: int, total: int) -> None:
    assert 0 <= done <= total


@pytest.fixture(scope="module")
def data() -> LabelledText:
    return LabelledText.draw(1500, 200, n_tokens=150)


def test_every_contender_is_raced_with_every_kernel(data: LabelledText) -> None:
    results = labels.race(data, 1, quiet)
    assert (results["examples"], results["queries"]) == (1500, 200)
    assert results["labels"] == len(set(data.y.tolist()))
    raced = {(row["kernel"], row["vote"], row["asked"], row["name"]) for row in results["rates"]}
    assert len(raced) == len(results["rates"])
    for kernel in KERNELS:
        for vote in RACED:
            asked = Counter(row[2] for row in raced if row[:2] == (kernel, vote))
            single = 3 if vote == "sum" else 2  # a dictionary of counters adds up
            batches = {"top-1 in batches": 3, "top-10 in batches": 2, "top-1 in batches, after 500 edits": 2}
            assert asked == {**batches, "predictor(tokens)": single}
    assert all(row["ratio"] == 1 for row in results["rates"] if row["name"] == "dense path")
    assert all(row["microseconds"] > 0 for row in results["rates"])
    for row in results["sizes"]:
        assert row["live_bytes_an_entry"] > row["canonical_bytes_an_entry"] > 0


def test_a_wrong_answer_ends_the_race(data: LabelledText, monkeypatch: pytest.MonkeyPatch) -> None:
    right = LiveRows.leaders

    def wrong(self: Any, *arguments: Any) -> Any:
        found = right(self, *arguments)
        return None if found is None else (found + 1) % len(self.labels)

    monkeypatch.setattr(LiveRows, "leaders", wrong)
    with pytest.raises(AssertionError, match="sum, top-1 in batches"):
        labels.race(data, 1, quiet)


def test_answers_that_differ_are_counted(data: LabelledText, monkeypatch: pytest.MonkeyPatch) -> None:
    right = LiveRows.leaders

    def reversed_leaders(*arguments: Any) -> Any:
        found = right(*arguments)
        return None if found is None else found[:, ::-1]

    monkeypatch.setattr(LiveRows, "leaders", reversed_leaders)
    found = labels.agreement(data, "positions", "sum", quiet)
    assert (found["other_top_1"], found["other_top_10"]) == (0, 200)


def test_agreements_cover_every_kernel_and_vote(data: LabelledText) -> None:
    told: list[tuple[int, int]] = []
    rows = labels.agreements(data, lambda done, total: told.append((done, total)))
    assert [(row["kernel"], row["vote"]) for row in rows] == [(k, v) for k in KERNELS for v in VOTES]
    assert all((row["queries"], row["other_top_1"], row["other_top_10"]) == (200, 0, 0) for row in rows)
    assert told == sorted(told)
    assert told[-1] == (8 * 200, 8 * 200)


def test_counters_are_the_model_one_would_write(data: LabelledText) -> None:
    """Sums, ties in the order of the labels, and a question of which nothing is known."""
    sites = KERNELS["positions"].resolve(2)
    queries = [["a", "b"], ["x", "y"]]
    counters = Counters(sites, queries)
    for tokens, label in ((["a", "c"], "q"), (["c", "b"], "p"), (["c", "c"], "o")):
        counters.change(tokens, label, 1)
    assert [counters.answer(query) for query in queries] == ["p", "o"]
    counters.change(["a", "c"], "q", 1)
    assert counters.answer(["a", "b"]) == "q"
    counters.change(["a", "c"], "q", -2)
    counters.change(["c", "c"], "o", -1)
    assert [counters.answer(query) for query in queries] == ["p", "p"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_single_edits_leave_what_a_fresh_fit_has(data: LabelledText, kernel: str) -> None:
    found = label_edits.interleave_edits(data, kernel, 250, quiet, compared=125, fits=3)
    assert found["edits"] == 250
    assert (found["compared"], found["wrong"]) == (125, 0)
    assert (found["fresh_fits"], found["fresh_fits_with_other_bytes"]) == (3, 0)
    assert found["edits_with_query_per_second"] > 0


def test_an_edit_that_is_lost_is_noticed(data: LabelledText, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryClassifier, "forget_one", lambda self, tokens, label: self)
    found = label_edits.interleave_edits(data, "Suffixes(5)", 400, quiet)
    assert found["fresh_fits_with_other_bytes"] == found["fresh_fits"] == 2
    assert found["wrong"] > 0


@pytest.mark.parametrize("vote", RACED)
def test_edits_are_timed_with_the_vote_that_is_named(data: LabelledText, vote: str) -> None:
    found = label_edits.timings(data, "positions", vote, 5)
    assert found["vote"] == vote
    assert type(data.fit_model("positions", vote).vote_) is type(VOTES[vote])
    named = ("learn_one", "forget_one", "partial_fit", "forget", "query", "query_after_learn_one", "checks", "native")
    for name in named:
        assert 0 < found[name]["median"] <= found[name]["p99"]


@pytest.mark.slow  # each process imports and fits again
def test_fit_and_memory_are_measured_in_fresh_processes(data: LabelledText) -> None:
    rows = labels.fresh(data, 2)
    assert [row["kernel"] for row in rows] == ["positions", "Suffixes(5)"]
    assert all(row["fit_seconds"] > 0 and 0 < row["mebibytes_before"] <= row["peak_mebibytes"] for row in rows)


def test_tokens_of_the_test_text_may_be_new() -> None:
    lines = {split: [[f"{split}{i % 7}" for i in range(40)]] for split in wikitext.SPLITS}
    found = LabelledText.of(wikitext.build_task(lines), n_queries=5)
    assert found.queries.shape == (5, 8)
    assert all(name.startswith("<late ") for name in found.names[found.queries].ravel())
    assert labels.agreement(found, "positions", "sum", quiet)["other_top_1"] == 0


def test_examples_are_the_last_eight_tokens() -> None:
    found = LabelledText.draw(50, 10, n_tokens=30)
    np.testing.assert_array_equal(found.X[1:, 7], found.y[:-1])
    assert (len(found.X), len(found.queries), len(found.names)) == (50, 10, 30)
