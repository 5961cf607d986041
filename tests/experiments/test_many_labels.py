"""Many labels: the benchmark's contenders agree, its oracles can tell a wrong answer, and its figures are there."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hammemo import MemoryClassifier
from hammemo._arrays.native import native
from hammemo.experiments import label_edits, labels, wikitext
from hammemo.memories.exact.live.rows import LiveRows
from places import SHARED

DATA = SHARED / "wikitext-2"
with_data = pytest.mark.skipif(not DATA.is_dir(), reason="WikiText-2 is not beside the project (../shared/wikitext-2)")
pytestmark = pytest.mark.skipif(native() is None, reason="the compiled loops are not installed")


def quiet(done: int, total: int) -> None:
    assert 0 <= done <= total


@pytest.fixture(scope="module")
def data() -> labels.Data:
    return labels.Data.drawn(1500, 200, n_tokens=150)


def test_every_contender_is_raced_with_every_kernel(data: labels.Data) -> None:
    results = labels.race(data, 1, quiet)
    assert (results["examples"], results["queries"]) == (1500, 200)
    assert results["labels"] == len(set(data.y.tolist()))
    raced = {(row["kernel"], row["vote"], row["asked"], row["name"]) for row in results["rates"]}
    assert len(raced) == len(results["rates"])
    for kernel in labels.KERNELS:
        for vote in labels.RACED:
            asked = Counter(row[2] for row in raced if row[:2] == (kernel, vote))
            single = 3 if vote == "sum" else 2  # a dictionary of counters adds up
            batches = {"top-1 in batches": 3, "top-10 in batches": 2, "top-1 in batches, after 500 edits": 2}
            assert asked == {**batches, "predictor(tokens)": single}
    assert all(row["ratio"] == 1 for row in results["rates"] if row["name"] == "dense path")
    assert all(row["microseconds"] > 0 for row in results["rates"])
    for row in results["sizes"]:
        assert row["live_bytes_an_entry"] > row["canonical_bytes_an_entry"] > 0


def test_a_wrong_answer_ends_the_race(data: labels.Data, monkeypatch: pytest.MonkeyPatch) -> None:
    right = LiveRows.leaders

    def wrong(self: Any, *arguments: Any) -> Any:
        found = right(self, *arguments)
        return None if found is None else (found + 1) % len(self.labels)

    monkeypatch.setattr(LiveRows, "leaders", wrong)
    with pytest.raises(AssertionError, match="sum, top-1 in batches"):
        labels.race(data, 1, quiet)


@pytest.mark.parametrize("kernel", labels.KERNELS)
@pytest.mark.parametrize("vote", labels.VOTES)
def test_both_readers_agree_with_every_vote(data: labels.Data, kernel: str, vote: str) -> None:
    found = labels.agreement(data, kernel, vote, quiet)
    assert found["queries"] == 200
    assert (found["other_top_1"], found["other_top_10"]) == (0, 0)


def test_answers_that_differ_are_counted(data: labels.Data, monkeypatch: pytest.MonkeyPatch) -> None:
    right = LiveRows.leaders

    def reversed_leaders(*arguments: Any) -> Any:
        found = right(*arguments)
        return None if found is None else found[:, ::-1]

    monkeypatch.setattr(LiveRows, "leaders", reversed_leaders)
    found = labels.agreement(data, "positions", "sum", quiet)
    assert (found["other_top_1"], found["other_top_10"]) == (0, 200)


def test_agreements_cover_every_kernel_and_vote(data: labels.Data) -> None:
    told: list[tuple[int, int]] = []
    rows = labels.agreements(data, lambda done, total: told.append((done, total)))
    assert [(row["kernel"], row["vote"]) for row in rows] == [(k, v) for k in labels.KERNELS for v in labels.VOTES]
    assert told == sorted(told)
    assert told[-1] == (8 * 200, 8 * 200)


def test_counters_are_the_model_one_would_write(data: labels.Data) -> None:
    """Sums, ties in the order of the labels, and a question of which nothing is known."""
    sites = labels.KERNELS["positions"].resolve(2)
    queries = [["a", "b"], ["x", "y"]]
    counters = labels.Counters(sites, queries)
    for tokens, label in ((["a", "c"], "q"), (["c", "b"], "p"), (["c", "c"], "o")):
        counters.change(tokens, label, 1)
    assert [counters.answer(query) for query in queries] == ["p", "o"]
    counters.change(["a", "c"], "q", 1)
    assert counters.answer(["a", "b"]) == "q"
    counters.change(["a", "c"], "q", -2)
    counters.change(["c", "c"], "o", -1)
    assert [counters.answer(query) for query in queries] == ["p", "p"]


@pytest.mark.parametrize("kernel", labels.KERNELS)
def test_single_edits_leave_what_a_fresh_fit_has(data: labels.Data, kernel: str) -> None:
    found = label_edits.interleaved(data, kernel, 250, quiet, compared=125, fits=3)
    assert found["edits"] == 250
    assert (found["compared"], found["wrong"]) == (125, 0)
    assert (found["fresh_fits"], found["fresh_fits_with_other_bytes"]) == (3, 0)
    assert found["edits_with_query_per_second"] > 0


def test_an_edit_that_is_lost_is_noticed(data: labels.Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryClassifier, "forget_one", lambda self, tokens, label: self)
    found = label_edits.interleaved(data, "Suffixes(5)", 400, quiet)
    assert found["fresh_fits_with_other_bytes"] == found["fresh_fits"] == 2
    assert found["wrong"] > 0


@pytest.mark.parametrize("vote", labels.RACED)
def test_edits_are_timed_with_the_vote_that_is_named(data: labels.Data, vote: str) -> None:
    found = label_edits.timings(data, "positions", vote, 5)
    assert found["vote"] == vote
    assert type(data.fitted("positions", vote).vote_) is type(labels.VOTES[vote])
    named = ("learn_one", "forget_one", "partial_fit", "forget", "query", "query_after_learn_one", "checks", "native")
    for name in named:
        assert 0 < found[name]["median"] <= found[name]["p99"]


@pytest.mark.slow  # each process imports and fits anew
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory of a process is read from /proc")
def test_fit_and_memory_are_measured_in_fresh_processes(data: labels.Data) -> None:
    rows = labels.fresh(data, 1, [sys.executable])
    assert [row["kernel"] for row in rows] == ["positions", "positions", "Suffixes(5)", "Suffixes(5)"]
    for row in rows:
        assert row["fit_seconds"] > 0
        assert 0 < row["resident_mebibytes"] <= row["peak_mebibytes"]


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory of a process is read from /proc")
def test_an_interpreter_without_the_library_is_named(data: labels.Data, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named hammemo' >&2\nexit 1\n")
    os.chmod(python, 0o755)
    with pytest.raises(RuntimeError, match="could not fit: No module named hammemo"):
        labels.fresh(data, 1, [str(python)])


def test_tokens_of_the_test_text_may_be_new() -> None:
    lines = {split: [[f"{split}{i % 7}" for i in range(40)]] for split in wikitext.SPLITS}
    found = labels.Data.of(wikitext.build_task(lines), n_queries=5)
    assert found.queries.shape == (5, 8)
    assert all(name.startswith("<late ") for name in found.names[found.queries].ravel())
    assert labels.agreement(found, "positions", "sum", quiet)["other_top_1"] == 0


@with_data
def test_real_questions_get_the_same_answers() -> None:
    """The paper asks 92,282 questions; here, some of them to a part of the text."""
    task = wikitext.build_task(wikitext.read_folder(DATA))
    assert len(labels.Data.of(task, targets=True).queries) == 92_282
    some = labels.Data.of(task, 2_000, 100, targets=True)
    for kernel in labels.KERNELS:
        for vote in labels.VOTES:
            found = labels.agreement(some, kernel, vote, quiet)
            assert (found["other_top_1"], found["other_top_10"]) == (0, 0), (kernel, vote)


def test_examples_are_the_last_eight_tokens() -> None:
    found = labels.Data.drawn(50, 10, n_tokens=30)
    np.testing.assert_array_equal(found.X[1:, 7], found.y[:-1])
    assert (len(found.X), len(found.queries), len(found.names)) == (50, 10, 30)
