"""A served model with an automatic kernel chooses its sites again, beside edits, and the log keeps what was chosen."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier, save
from hammemo.edits.editing import take_state
from hammemo.memories import Exact, Hashed, Tiered
from hammemo.tokens.column_letters import encode_letters
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import Edit, LoggedChoice, LoggedRefit, LoggedRows, Malformed, decode_body
from hammemo_server.edits.refits import choose_beside_edits, chooses, pack_choice, take_choice
from hammemo_server.edits.settings import Settings
from hammemo_server.models import writer as writing
from hammemo_server.models.applying import Applier, first_state
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep
from pace import patience, wait_until
from postgres_server import postgres
from service_hosts import done, hosts, run_until_killed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hammemo_server.edits.operations import Content
    from hammemo_server.models.served import ServedModel

__all__ = ["hosts", "postgres"]


def examples(n: int = 260, seed: int = 0) -> tuple[list[list[Any]], list[Any]]:
    """Return rows whose label depends on two columns together."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, 3))
    y = np.where((X[:, 0] == X[:, 1]) ^ (rng.random(n) < 0.1), "same", "other")
    return X.tolist(), y.tolist()


def online(X: list[list[Any]], y: list[Any]) -> MemoryClassifier:
    return MemoryClassifier(memory=Exact(), keep="auto+digests", random_state=5).partial_fit(X, y)


def model_of(model: ServedModel) -> MemoryClassifier:
    return model.answering()[0]


def chosen(model: ServedModel, version: int) -> MemoryClassifier:
    """Return the model after its choice, which is the edit of this version."""
    return model.answering(version, wait=patience(60))[0]


def test_it_chooses_when_examples_have_doubled_as_partial_fit_does(hosts: Callable[..., Host]) -> None:
    X, y = examples()
    host = hosts(upkeep=Upkeep(at_close=False))
    model, followed = host.create("t", "m", {"columns": 3, "seed": 5}), hosts(replica=True).get("t", "m")
    done(model, Edit("1", "learn", X[:199], y[:199]))
    done(model, Edit("2", "learn", X[199:], y[199:]))
    clf = chosen(model, 3)
    assert len(clf.sites_.positions) > 3
    assert clf.digest() == online(X, y).digest()
    assert chosen(followed, 3).digest() == clf.digest()
    assert done(model, Edit("3", "learn", X[:100], y[:100])).version == 4  # 360 are not twice as many
    host.close()
    again = hosts(upkeep=Upkeep(choose=False)).get("t", "m")
    assert (again.version, again.replayed) == (4, 4)
    never_stopped = online(X, y).partial_fit(X[:100], y[:100])
    assert model_of(again).digest() == never_stopped.digest()


def test_rows_decide_which_columns_are_numbers_when_it_chooses(tmp_path: Path) -> None:
    X, y = examples()
    X = [[str(a), None if b == 0 else b / 7 + i / 1000, str(c)] for i, (a, b, c) in enumerate(X)]
    with Host(tmp_path, upkeep=Upkeep(at_close=False)) as host:
        model = host.create("t", "m", {"columns": 3, "seed": 5})
        done(model, Edit("1", "learn", X[:150], y[:150]))
        assert not model_of(model).state.columns.has_ordered
        done(model, Edit("2", "learn", X[150:], y[150:]))
        clf = chosen(model, 3)
        assert encode_letters(clf.state.columns.kinds) == "sns"
        assert clf.digest() == online(X, y).digest()
        with pytest.raises(Malformed, match="Column 1 holds numbers, and 'b' is not one"):
            done(model, Edit("3", "learn", [["1", "b", "2"]] * 2, ["same", "same"]))
        done(model, Edit("4", "forget", X, y))
        for n in range(4):
            done(model, Edit(f"l{n}", "learn", X[n : n + n % 2 + 1], y[n : n + n % 2 + 1]))
        last = model_of(model).digest()
    with Host(tmp_path) as host:  # edits in other groups
        assert model_of(host.get("t", "m")).digest() == last


def test_edits_that_arrive_while_it_chooses_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = examples()
    begun, go = threading.Event(), threading.Event()

    def slow(model: MemoryClassifier) -> bytes:
        begun.set()
        assert go.wait(patience(60))
        return choose_beside_edits(model)

    monkeypatch.setattr(writing, "choose_beside_edits", slow)
    with Host(tmp_path, upkeep=Upkeep(at_close=False)) as host:
        model = host.create("t", "m", {"columns": 3, "seed": 5})
        done(model, Edit("1", "learn", X[:200], y[:200]))
        assert begun.wait(patience(60))
        for n in range(200, 205):
            assert done(model, Edit(f"l{n}", "learn", [X[n]], [y[n]])).version == n - 198  # none waits for the choice
        done(model, Edit("f", "forget", X[:3], y[:3]))
        go.set()
        clf = chosen(model, 8)
        before = online(X[:200], y[:200])
        assert (clf.sites_.positions, clf.state.chosen_at) == (before.sites_.positions, 200)
        rest = before.partial_fit(X[200:205], y[200:205]).forget(X[:3], y[:3])
        assert clf.digest() == rest.digest()
        assert model.describe()["stale"]  # the choice saw rows that were forgotten while it was made
        with Host(tmp_path, replica=True) as replicas:
            assert replicas.get("t", "m").describe()["stale"]
        done(model, Edit("r", "refit"))
        assert not model.describe()["stale"]
        whole = MemoryClassifier(memory=Exact(), keep="auto+digests", random_state=5).fit(X[3:205], y[3:205])
        assert model_of(model).digest() == whole.digest()
    with Host(tmp_path) as host:
        again = host.get("t", "m")
        assert (again.replayed, model_of(again).digest()) == (9, whole.digest())


def test_a_choice_that_a_refit_has_overtaken_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may depend on rows that were forgotten before the refit."""
    X, y = examples()
    begun, go = threading.Event(), threading.Event()

    def slow(model: MemoryClassifier) -> bytes:
        begun.set()
        assert go.wait(patience(60))
        return choose_beside_edits(model)

    monkeypatch.setattr(writing, "choose_beside_edits", slow)
    with Host(tmp_path) as host:
        model = host.create("t", "m", {"columns": 3, "seed": 5})
        done(model, Edit("1", "learn", X, y))
        assert begun.wait(patience(60))
        done(model, Edit("2", "forget", X[:100], y[:100]))
        done(model, Edit("3", "refit"))
        rest = model_of(model).digest()
        assert (
            rest == MemoryClassifier(memory=Exact(), keep="auto+digests", random_state=5).fit(X[100:], y[100:]).digest()
        )
        go.set()
        assert isinstance(model, writing.WrittenModel)
        assert model._chooser is not None
        model._chooser.join(patience(60))
        assert not model._chooser.is_alive()
        assert (model.version, model_of(model).digest()) == (3, rest)


def test_a_choice_that_fails_loses_no_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = examples()
    tried: list[int] = []

    def fail(model: MemoryClassifier) -> bytes:
        tried.append(int(model.memory_.label_counts.sum()))
        raise FloatingPointError

    monkeypatch.setattr(writing, "choose_beside_edits", fail)
    with Host(tmp_path) as host:
        model = host.create("t", "m", {"columns": 3})
        for n in range(5):
            assert done(model, Edit(str(n), "learn", X, y)).version == n + 1
            assert isinstance(model, writing.WrittenModel)
            wait_until(lambda: model._chooser is not None and not model._chooser.is_alive(), 60)
        assert tried == [260, 520, 1040]  # not at every edit
        assert int(model_of(model).memory_.label_counts.sum()) == 1300


@pytest.mark.parametrize("given", [{"kernel": "positional"}, {"vote": "sum"}])
def test_a_given_kernel_or_no_rows_is_never_chosen(given: dict[str, Any], tmp_path: Path) -> None:
    X, y = examples()
    with Host(tmp_path) as host:
        model = host.create("t", "m", {"columns": 3, **given})
        assert done(model, Edit("1", "learn", X, y)).version == 1
        assert not chooses(model_of(model))
        assert done(model, Edit("2", "refit")).version == 2
        assert isinstance(model, writing.WrittenModel)
        assert model._chooser is None
        assert model_of(model).sites_.positions == MemoryClassifier("positional").fit(X, y).sites_.positions


def test_a_layout_that_was_given_and_a_part_of_the_rows_stay(tmp_path: Path) -> None:
    X, y = examples()
    fitted = MemoryClassifier().fit(X, y)
    few = MemoryClassifier(keep=5).fit(X, y)
    for name, clf in {"pinned": fitted.empty_like().partial_fit(X, y), "few": few}.items():
        save(clf, tmp_path / name)
        with Host(tmp_path / "models") as host:
            model = host.upload("t", name, tmp_path / name)
            done(model, Edit("1", "learn", X * 2, y * 2))
            done(model, Edit("2", "refit"))
            assert isinstance(model, writing.WrittenModel)
            assert (model.version, model._chooser) == (2, None)
            assert model_of(model).sites_.positions == clf.sites_.positions


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    X, y = examples()
    with Host(tmp_path, upkeep=Upkeep(choose=False)) as host:
        model = host.create("t", "m", {"columns": 3})
        assert done(model, Edit("1", "learn", X, y)).version == 1
        assert isinstance(model, writing.WrittenModel)
        assert model._chooser is None


KILLED = """
import os, signal, sys
from hammemo_server.models.host import Host
from hammemo_server.edits.operations import Edit
from hammemo_server.models.waiting import Upkeep
from test_chosen_layouts import chosen, done, examples
X, y = examples()
host = Host(sys.argv[1], upkeep=Upkeep(at_close=False))
model = host.create("t", "m", {"columns": 3, "seed": 5})
done(model, Edit("1", "learn", X, y))
chosen(model, 2)
done(model, Edit("2", "forget", X[40:50], y[40:50]))
print(model.answering()[0].digest(parts=True), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_after_kill_the_model_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_until_killed(KILLED, tmp_path)
    monkeypatch.setattr("hammemo.tasks.labels.choose.choose", lambda *_, **__: pytest.fail("a replay chooses nothing"))
    with Host(tmp_path) as host:
        again = host.get("t", "m")
        assert again.replayed == 3
        assert str(model_of(again).digest(parts=True)) == printed


# What the log keeps


@pytest.mark.parametrize("memory", ["exact", "hashed", Hashed(64, 8), Tiered()], ids=repr)
def test_every_memory_takes_a_choice_from_bytes(memory: Any) -> None:
    X, y = examples()
    late = MemoryClassifier(memory=memory).partial_fit(X, y, choose=False, classes=["same", "other", "third"])
    fresh = late.snapshot().refit()
    assert chooses(late)
    take_choice(late, pack_choice(fresh))
    assert late.digest(parts=True) == fresh.digest(parts=True)
    assert late.predict_proba(X).tobytes() == fresh.predict_proba(X).tobytes()


def test_a_table_with_numbers_takes_its_trees_from_bytes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    clf = MemoryClassifier().fit(X, y)
    other = clf.snapshot().forget(X[:100], y[:100])
    fresh = other.snapshot().refit()
    take_choice(other, pack_choice(fresh))
    assert other.digest(parts=True) == fresh.digest(parts=True)


def test_a_choice_holds_no_rows_and_is_checked() -> None:
    X, y = (
        [["anna" if n % 2 else "bert", f"secret{n}"] for n in range(300)],
        ["x" if n % 2 else "y" for n in range(300)],
    )
    clf = MemoryClassifier().fit(X, y)
    packed = pack_choice(clf)
    from hammemo_server.edits.refits import decompress

    assert b"secret7" not in decompress(packed)
    before = clf.digest()
    for wrong in (packed[:-1], b"", packed[:10], packed + b"x"):
        with pytest.raises(ValueError, match="these are not weights"):
            take_choice(clf, wrong)
    other = MemoryClassifier().fit([row[:1] for row in X], y)
    with pytest.raises(ValueError, match="other columns"):
        take_choice(clf, pack_choice(other))
    with pytest.raises(ValueError, match="keeps all"):
        take_choice(clf.empty_like(), packed)
    assert clf.digest() == before
    content = LoggedChoice("choice", packed)
    assert decode_body(content.body()) == content
    assert content.n_rows == 0


@st.composite
def histories(draw: st.DrawFn) -> list[Content]:
    body = st.builds(
        lambda kind, row, label: LoggedRows(kind, [row], [label]),
        st.sampled_from(["learn", "learn", "forget"]),
        st.lists(st.sampled_from(["a", "b", "c"]), min_size=2, max_size=2),
        st.sampled_from(["x", "y"]),
    )
    return draw(st.lists(st.one_of(body, body, body, st.just(LoggedRefit())), max_size=20))


@given(edits=histories(), most=st.sampled_from([3, 6, 50_000]))
@settings(max_examples=40)
def test_a_replay_in_other_groups_has_the_same_digest(edits: list[Content], most: int) -> None:
    """Also where rows are dropped in between, so that no rows are left to choose by."""
    from hammemo.stores.kept_rows import KeptRows

    given_settings = Settings.from_client({"columns": 2, "seed": 3}, Limits())
    start = first_state(given_settings).model
    assert start is not None
    take_state(start, start.state.with_changes(store=KeptRows.empty(2, start.memory_.seed, most)))
    start.keep = most
    model: MemoryClassifier | None = start
    log: list[Content] = []
    for edit in edits:
        single = Applier(model, given_settings, Limits())
        single.apply([edit])
        model = single.model
        if not single.refused:
            log.append(decode_body(single.logged[0]) if single.logged else edit)
    together = Applier(start, given_settings)
    together.apply(log)
    assert not together.refused
    assert model is not None
    assert together.model is not None
    assert together.model.digest(parts=True) == model.digest(parts=True)
