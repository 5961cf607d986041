"""The protocol of sessions: reading, queries, ranks against a sort, errors of differences, one small run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from typer.testing import CliRunner

from experiments import app
from sessions.data import SessionQueries, click_split, read_clicks, read_ratings, read_task
from sessions.learner import Learner
from sessions.measures import difference, gains, ranks
from sessions.ours import Ours
from sessions.running import choose_settings, evaluate, forgetting, outcome_table, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sessions.data import Session


def write_clicks(path: Path, sessions: list[list[int]], start: int = 0) -> None:
    clicks = [(f"s{number}", item) for number, session in enumerate(sessions) for item in session]
    rows = [f"{session}\ti{item}\t{start + time}" for time, (session, item) in enumerate(clicks)]
    path.write_text("\n".join(["SessionId\tItemId\tTime", *rows]) + "\n", encoding="utf-8")


def cycles(n: int, seed: int, n_items: int = 12) -> list[list[int]]:
    """Return sessions in which item i is mostly followed by i + 1."""
    rng = np.random.default_rng(seed)
    sessions = []
    for _ in range(n):
        session = [int(rng.integers(n_items))]
        while len(session) < rng.integers(2, 9):
            session.append(int((session[-1] + 1) % n_items if rng.random() < 0.8 else rng.integers(n_items)))
        sessions.append(session)
    return sessions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, part in enumerate(("train", "valid", "test")):
        write_clicks(tmp_path / f"bol-{part}.tsv", cycles(150 if part == "train" else 30, seed), 1000 * seed)
    users = [[user, *np.random.default_rng(user).permutation(9)[:5]] for user in range(40)]
    (tmp_path / "amazon-toys.txt").write_text("\n".join(" ".join(map(str, user)) for user in users) + "\n")
    return tmp_path


def test_clicks_are_put_in_order(tmp_path: Path) -> None:
    rows = ["b\ty\t5.5", "a\tq\t9", "b\tx\t2", "a\tp\t1", "c\tz\t9", "a\tr\t9"]
    path = tmp_path / "clicks.tsv"
    path.write_text("\n".join(["SessionId\tItemId\tTime", *rows]) + "\n")
    assert read_clicks(path) == [["x", "y"], ["p", "q", "r"], ["z"]]


def test_a_file_without_a_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "clicks.tsv").write_text("SessionId\tItem\n1\t2\n")
    with pytest.raises(ValueError, match="no column ItemId, Time"):
        read_clicks(tmp_path / "clicks.tsv")


def test_items_that_training_has_not_seen_are_dropped(tmp_path: Path) -> None:
    write_clicks(tmp_path / "bol-train.tsv", [[1, 2], [2, 3]])
    for part in ("valid", "test"):
        write_clicks(tmp_path / f"bol-{part}.tsv", [[3, 9, 1, 2], [9, 1]])
    split = read_task(tmp_path, "bol").test
    assert split.n_items == 3
    assert split.queries.prefixes == [[2], [2, 0]]  # i3, i1, i2 are numbers 2, 0, 1
    assert split.queries.targets.tolist() == [0, 1]


def test_a_file_with_nothing_to_ask_is_refused(tmp_path: Path) -> None:
    write_clicks(tmp_path / "bol-train.tsv", [[1, 2], [2, 3]])
    write_clicks(tmp_path / "bol-valid.tsv", [[3, 9], [9, 8]])
    with pytest.raises(ValueError, match="nothing to ask"):
        click_split(tmp_path / "bol-train.tsv", tmp_path / "bol-valid.tsv")


def test_purchases_leave_one_item_out(folder: Path) -> None:
    task = read_task(folder, "toys")
    assert len(task.test.queries) == len(task.valid.queries) == 40
    for valid, test in zip(task.valid.queries.prefixes, task.test.queries.prefixes, strict=True):
        assert test[:-1] == valid
    assert [items[-1] for items in task.test.queries.prefixes] == task.valid.queries.targets.tolist()
    assert task.test.sessions == task.valid.sessions == task.valid.queries.prefixes  # queries are not learnt


def test_ratings_are_put_in_the_order_of_time(tmp_path: Path) -> None:
    lines = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    lines += [f"{user}\t{item}\t5\t{time}" for user, item, time in [(1, "c", 9), (2, "a", 1), (1, "a", 2), (1, "b", 2)]]
    (tmp_path / "ml-100k.inter").write_text("\n".join(lines) + "\n")
    assert read_ratings(tmp_path / "ml-100k.inter") == ([[1, 2, 0]], 3)  # of user 2 there are too few
    task = read_task(tmp_path, "movielens-100k")
    assert (task.kind, task.test.queries.prefixes, task.test.queries.targets.tolist()) == ("purchases", [[1, 2]], [0])


def test_a_user_with_two_items_is_refused(tmp_path: Path) -> None:
    (tmp_path / "amazon-toys.txt").write_text("1 5 6 7\n2 5 6\n")
    with pytest.raises(ValueError, match="line 2: a user needs three items"):
        read_task(tmp_path, "toys")


def test_an_unknown_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'books' is not one of the sets: use bol"):
        read_task(tmp_path, "books")


SCORES = arrays(
    np.float64, st.tuples(st.integers(1, 5), st.integers(1, 8)), elements=st.sampled_from([-np.inf, 0, 1, 2.5])
)


@settings(max_examples=60)
@given(scores=SCORES, data=st.data())
def test_ranks_are_places_in_a_sort_averaged_over_ties(scores: NDArray[np.float64], data: st.DataObject) -> None:
    m, n = scores.shape
    targets = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=m, max_size=m)))
    left_out = data.draw(st.lists(st.lists(st.integers(0, n - 1), max_size=4), min_size=m, max_size=m))
    expected = []
    for row, target, out in zip(scores, targets, left_out, strict=True):
        ranked = sorted((row[c] for c in range(n) if c == target or c not in out), reverse=True)
        places = [place for place, score in enumerate(ranked, 1) if score == row[target]]
        expected.append(sum(places) / len(places))
    assert ranks(scores, targets, left_out).tolist() == expected


def test_a_score_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="not a number"):
        ranks(np.array([[np.nan, 1.0]]), np.array([1]))


def test_gains() -> None:
    found = np.array([1, 2.5, 10, 20, 20.5])
    hits, reciprocal = gains(found, "clicks")
    assert hits.tolist() == [1, 1, 1, 1, 0]
    np.testing.assert_allclose(reciprocal, [1, 0.4, 0.1, 0.05, 0])
    hits, discounted = gains(found, "purchases")
    assert hits.tolist() == [1, 1, 1, 0, 0]
    np.testing.assert_allclose(discounted, [1, 1 / np.log2(3.5), 1 / np.log2(11), 0, 0])


def test_the_error_of_a_difference_is_the_usual_one_for_sessions_of_one_query() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 50))
    mean, error = difference(a, b, np.arange(50))
    assert mean == pytest.approx((a - b).mean())
    assert error == pytest.approx((a - b).std(ddof=1) / np.sqrt(50))
    _, of_doubles = difference(np.repeat(a, 2), np.repeat(b, 2), np.repeat(np.arange(50), 2))
    assert of_doubles == pytest.approx(error)  # the same queries twice say no more
    assert np.isnan(difference(a, b, np.zeros(50, np.int64))[1])


def test_queries_are_spread() -> None:
    queries = SessionQueries.of([[1, 2, 3, 4, 5]])
    assert queries.spread(2).targets.tolist() == [2, 5]
    assert queries.spread(99).targets.tolist() == [2, 3, 4, 5]


class Constant(Learner):
    """Gives the item in its setting the highest score."""

    name = "constant"
    choices = ({"item": 0}, {"item": 3}, {"item": 5})

    def fit(self, sessions: Sequence[Session], n_items: int) -> None:
        self.n_items = n_items

    def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
        found = np.zeros((len(prefixes), self.n_items))
        found[:, self.settings["item"]] = 1
        return found


def test_settings_are_chosen_on_validation(folder: Path) -> None:
    task = read_task(folder, "bol")
    frequent = np.bincount(task.valid.queries.targets, minlength=task.valid.n_items)
    best = max((0, 3, 5), key=lambda item: frequent[item])
    assert choose_settings(task, Constant)[0] == {"item": best}


def test_what_cannot_forget_says_so() -> None:
    with pytest.raises(NotImplementedError, match="constant does not forget: fit it again"):
        Constant("clicks", item=0).forget(0, [1])


def test_leading_items_are_those_with_the_highest_scores() -> None:
    model = Constant("clicks", item=2)
    model.fit([], 4)
    assert model.top_k([[0], [1]], 2)[:, 0].tolist() == [2, 2]
    assert model.top_k([[0]], 9).shape == (1, 4)


def test_ours_learns_asks_and_forgets(folder: Path) -> None:
    split = read_task(folder, "bol").test
    model = Ours("clicks")
    model.fit(split.sessions, split.n_items)
    scores = model.scores(split.queries.prefixes)
    assert scores.shape == (len(split.queries), split.n_items)
    assert gains(ranks(scores, split.queries.targets), "clicks")[1].mean() > 0.6
    leading = model.top_k(split.queries.prefixes, 3)
    np.testing.assert_array_equal(np.take_along_axis(scores, leading, 1)[:, 0], scores.max(axis=1))
    _, _, exactly = forgetting(model, split)
    assert exactly


def test_one_run_prints_a_table(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    results, page = run(folder, ["bol", "toys"], [Constant], lambda *step: told.append(step))
    assert told == [(1, 2), (2, 2)]
    assert [row["set"] for row in results["table"]] == ["bol", "toys"]
    assert "| constant |" in page
    assert "MRR@20 .3401" in page
    json.dumps(results)
    task = read_task(folder, "bol")
    base, other = evaluate(task, Constant), evaluate(task, Ours)
    lines = outcome_table(task, [base, other], beside="constant")
    assert "R@20, difference" in lines[0]
    assert "±" in lines[-1]
    assert "±" not in lines[-2]
    assert "fit again" in lines[-2]


def test_the_command(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    arguments = ["sessions", "--data", str(folder), "--set", "bol"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert result.exit_code == 0
    assert "| ours |" in (out / "sessions.md").read_text(encoding="utf-8")
    as_json = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert as_json["table"][0]["learner"] == "ours"
