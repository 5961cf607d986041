"""Whole documents on a server: the same bytes as in the library, once, also after a crash and on a replica."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN, MemoryClassifier, save
from hammemo.kernels import Suffixes
from hammemo.memories import Exact, Hashed
from hammemo.tokens.cutting import Cutting
from hammemo.votes import Mixture
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import (
    Acknowledgement,
    Edit,
    LoggedDocuments,
    Malformed,
    NotStored,
    OpReused,
    TooLarge,
    check_edit,
    decode_body,
)
from hammemo_server.edits.settings import Settings
from hammemo_server.models import writer as writing
from hammemo_server.models.applying import Applier
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep
from hammemo_server.store.sqlite_log import SqliteLog
from pace import patience
from postgres_server import postgres
from service_hosts import done, hosts, run_until_killed
from visit_models import Visits, learn_visits, list_contents, list_published, visits, visits_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hammemo_server.edits.operations import Content

__all__ = ["hosts", "postgres", "visits_file"]


def learn(op: str, documents: Visits) -> Edit:
    return Edit(op, "learn", documents=documents)


def forget(op: str, documents: Visits) -> Edit:
    return Edit(op, "forget", documents=documents)


def test_edits_are_those_of_the_library(hosts: Callable[..., Host], visits_file: Path) -> None:
    new = [[50, 51, 52, 50, 53], [51], [1, 2]]
    twin = learn_visits(visits())
    host = hosts(upkeep=Upkeep(at_close=False))
    model = host.upload("t", "m", visits_file)
    assert done(model, learn("1", new)) == Acknowledgement(1, "applied")
    assert list_published(model) == list_contents(twin.partial_fit_stream(new))
    assert done(model, forget("2", visits()[:5])) == Acknowledgement(2, "applied")
    assert list_published(model) == list_contents(twin.forget_stream(visits()[:5]))
    assert done(model, learn("1", new)) == Acknowledgement(1, "repeated")
    assert list_published(model) == list_contents(twin)
    host.close()
    again = hosts().get("t", "m")
    assert (again.version, again.replayed) == (2, 2)
    assert list_published(again) == list_contents(twin)
    again.snapshot()
    done(again, learn("3", new))
    assert list_published(again) == list_contents(twin.partial_fit_stream(new))


def test_after_forget_and_refit_the_model_is_that_of_the_rest(hosts: Callable[..., Host], visits_file: Path) -> None:
    model = hosts(upkeep=Upkeep(at_close=False)).upload("t", "m", visits_file)
    rest = model.answering()[0].empty_like().partial_fit_stream(visits()[7:]).refit()
    done(model, forget("1", visits()[:7]))
    assert list_published(model) != list_contents(rest)  # the weights
    assert done(model, Edit("2", "refit")) == Acknowledgement(2, "applied")
    assert list_published(model) == list_contents(rest)


def test_a_replica_has_the_same_bytes(hosts: Callable[..., Host], visits_file: Path) -> None:
    model = hosts().upload("t", "m", visits_file)
    followed = hosts(replica=True).get("t", "m")
    for n, visit in enumerate(visits()[:3]):
        done(model, forget(f"a{n}", [visit]))
        done(model, learn(f"b{n}", [[70 + n, 1]]))
        version = done(model, Edit(f"c{n}", "refit")).version
        assert list_contents(followed.answering(version, wait=patience(60))[0]) == list_published(model)


def test_an_id_belongs_to_one_edit(tmp_path: Path, visits_file: Path) -> None:
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", visits_file)
        done(model, learn("1", [[1, 2, 3]]))
        before = list_published(model)
        others = [
            learn("1", [[1, 2]]),
            learn("1", [[1, 2], [3]]),
            forget("1", [[1, 2, 3]]),
            Edit("1", "learn", [[1, 2, 3]], [4]),
        ]
        for other in others:
            with pytest.raises(OpReused):
                done(model, other)
        assert (model.version, list_published(model)) == (1, before)


def test_what_is_not_stored_changes_nothing(tmp_path: Path, visits_file: Path) -> None:
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", visits_file)
        before = list_published(model)
        for n, missing in enumerate([[[99]], [visits()[0], [1, 99]], [visits()[0]] * 200, [["1", "2"]]]):
            with pytest.raises(NotStored):
                done(model, forget(f"{n}", missing))
            assert (model.version, list_published(model)) == (0, before)
        done(model, learn("0", [[99]]))  # the id of a refused edit is free
        done(model, forget("5", [[99]]))
        assert list_published(model) == before


@pytest.mark.parametrize(
    "documents",
    [
        [[]],
        [[1], []],
        [[None]],
        [[float("nan")]],
        [["a", 1]],
        [[1.5]],
        [[2**63]],
        [[2**70]],
        [["\ud800"]],
        [[NO_TOKEN]],
    ],
    ids=repr,
)
def test_crafted_documents_are_refused_and_change_nothing(documents: Visits, tmp_path: Path, visits_file: Path) -> None:
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", visits_file)
        before = list_published(model)
        with pytest.raises(Malformed):
            done(model, learn("1", documents))
        assert (model.version, list_published(model)) == (0, before)


@pytest.mark.parametrize("documents", [[[1.0]], [[1.0, "a"]], [[1], ["a"]], [[True]]], ids=repr)
def test_a_model_of_strings_stays_one(documents: Visits, tmp_path: Path) -> None:
    save(learn_visits([["a", "b"], ["b", "c"]]), tmp_path / "m")
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", tmp_path / "m")
        before = list_published(model)
        with pytest.raises(Malformed):
            done(model, learn("1", documents))
        assert list_published(model) == before


def test_a_document_too_short_for_its_model_is_refused(tmp_path: Path) -> None:
    twin = learn_visits(visits(), "drop")
    save(twin, tmp_path / "m")
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", tmp_path / "m")
        before = list_published(model)
        with pytest.raises(Malformed, match=r"nothing to learn.*more than 2 tokens"):
            done(model, learn("1", [[1], [1, 2]]))
        assert (model.version, list_published(model)) == (0, before)
        done(model, learn("2", [[1], [1, 2, 3]]))
        assert list_published(model) == list_contents(twin.partial_fit_stream([[1], [1, 2, 3]]))
        with pytest.raises(Malformed, match=r"2 tokens.*first 2.*leave it out"):
            done(model, forget("3", [[1, 2, 3], [1, 2]]))
        done(model, forget("3", [[1, 2, 3]]))
        assert list_published(model) == before


@pytest.mark.parametrize("made", [{"columns": 4}, {}])
def test_a_model_that_was_not_made_of_documents_says_what_to_do(made: dict[str, Any], tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        model = host.create("t", "m", made)
        for edit in (learn("1", [["a", "b"]]), forget("2", [["a", "b"]])):
            with pytest.raises(Malformed, match=r"not fitted to documents.*rows and labels.*fit_stream.*upload"):
                done(model, edit)
        assert done(model, Edit("1", "learn", [["a"] * 4], ["x"])).version == 1


@pytest.mark.parametrize(
    ("limits", "documents", "said"),
    [
        (Limits(documents=2), [[1]] * 3, "3 documents.*send parts"),
        (Limits(tokens=5), [[1, 2], [3, 4], [5, 6]], "6 tokens.*several edits"),
        (Limits(document=3), [[1, 2, 3, 4]], "4 tokens.*another document"),
        (Limits(text=3), [["abcd"]], "3 characters"),
        (Limits(logged=40), [["abcd"]] * 20, "bytes"),
    ],
)
def test_limits(limits: Limits, documents: Visits, said: str) -> None:
    for kind in ("learn", "forget"):
        with pytest.raises(TooLarge, match=said):
            check_edit(Edit("op", kind, documents=documents), limits)
    check_edit(learn("op", documents[:1]), Limits())


def test_an_edit_has_documents_or_rows() -> None:
    with pytest.raises(Malformed, match="not both"):
        check_edit(Edit("op", "learn", [["a"]], ["x"], [["a"]]), Limits())
    with pytest.raises(Malformed, match="no documents"):
        check_edit(Edit("op", "refit", documents=[["a"]]), Limits())


TOKENS = st.one_of(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.none(), st.just(1.0))


@given(documents=st.lists(st.lists(TOKENS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_what_the_log_keeps_is_what_was_sent(documents: Visits) -> None:
    for edit in (learn("op", documents), forget("op", documents)):
        again = decode_body(check_edit(edit, Limits())[1])
        assert isinstance(again, LoggedDocuments)
        assert repr(again.documents) == repr(documents)  # 1, 1.0 and True differ
        assert again.learns == (edit.kind == "learn")


@pytest.mark.parametrize("wrong", [[], [[]], [["a"], []], "a", [[["a"]]], {}, [1]])
def test_damaged_bodies_are_no_documents(wrong: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_body(msgspec.msgpack.encode(["learnstream", wrong]))
    with pytest.raises(msgspec.ValidationError):
        decode_body(msgspec.msgpack.encode(["forgetstream", [["a"]], 1]))


def test_a_visit_learnt_by_rows_is_not_forgotten_as_a_whole(tmp_path: Path, visits_file: Path) -> None:
    """The sample of whole visits does not hold it; its rows are forgotten as rows, and a refit is possible."""
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", visits_file)
        state = list_published(model)[0]
        done(model, Edit("1", "learn", [[NO_TOKEN, NO_TOKEN, 80], [NO_TOKEN, 80, 81]], [81, 82]))
        done(model, Edit("2", "learn", [[NO_TOKEN] * 3], [80]))
        learnt = list_published(model)[0]
        with pytest.raises(NotStored, match="Give each document whole, as it was learnt"):
            done(model, forget("3", [[80, 81, 82]]))
        assert list_published(model)[0] == learnt
        done(model, Edit("4", "forget", [[NO_TOKEN, NO_TOKEN, 80], [NO_TOKEN, 80, 81]], [81, 82]))
        done(model, Edit("5", "forget", [[NO_TOKEN] * 3], [80]))
        assert list_published(model)[0] == state
        done(model, Edit("6", "refit"))


def test_threads_edit_at_once(tmp_path: Path, visits_file: Path) -> None:
    acknowledgements: list[Acknowledgement] = []
    with Host(tmp_path / "models", upkeep=Upkeep(at_close=False)) as host:
        model = host.upload("t", "m", visits_file)

        def edit(k: int) -> None:
            for n in range(8):
                acknowledgements.append(done(model, learn(f"{k}+{n}", [[k, n, k, 90], [k]])))
                acknowledgements.append(done(model, forget(f"{k}-{n}", [[k, n, k, 90]])))

        threads = [threading.Thread(target=edit, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        twin = learn_visits(visits()).partial_fit_stream([[k] for k in range(4)] * 8)
        assert sorted(acknowledgement.version for acknowledgement in acknowledgements) == list(range(1, 65))
        assert list_published(model) == list_contents(twin)
    with Host(tmp_path / "models") as host:
        again = host.get("t", "m")
        assert (again.replayed, list_published(again)) == (64, list_contents(twin))


def test_a_lease_is_prolonged_while_many_are_learnt(
    tmp_path: Path, visits_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed, learn_documents = threading.Event(), MemoryClassifier.partial_fit_stream

    def slow(self: MemoryClassifier, documents: Visits) -> MemoryClassifier:
        renewed.clear()
        assert renewed.wait(patience(60)), "no process renews the lease of the log"
        return learn_documents(self, documents)

    monkeypatch.setattr(writing, "_IDLE_SECONDS", 0.01)
    monkeypatch.setattr(SqliteLog, "renew_lease", lambda _: renewed.set())
    with Host(tmp_path / "models") as host:
        model = host.upload("t", "m", visits_file)
        monkeypatch.setattr(MemoryClassifier, "partial_fit_stream", slow)
        assert done(model, learn("1", [[1, 2]] * 500)).version == 1


KILLED = """
import os, signal, sys
from hammemo_server.models.host import Host
from hammemo_server.edits.operations import Edit
from hammemo_server.models.waiting import Upkeep
from test_documents import done, forget, learn
from visit_models import list_published, visits
host = Host(sys.argv[1], upkeep=Upkeep(at_close=False))
model = host.get("t", "m")
done(model, forget("1", visits()[:9]))
done(model, Edit("2", "refit"))
done(model, learn("3", [[1, 60, 2]]))
print(repr(list_published(model)), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_after_kill_the_bytes_are_the_same(tmp_path: Path, visits_file: Path) -> None:
    with Host(tmp_path / "models") as host:
        host.upload("t", "m", visits_file)
    printed = run_until_killed(KILLED, tmp_path / "models")
    with Host(tmp_path / "models") as host:
        again = host.get("t", "m")
        assert (again.replayed, repr(list_published(again))) == (3, printed)


# In groups

MODELS = [
    (Cutting("pad"), Exact(), "auto"),
    (Cutting("pad", 3), Exact(), "auto+digests"),
    (Cutting("drop"), Exact(), "auto"),
    (Cutting("drop"), Hashed(buckets=4, reserved=2), "digests"),
]


@st.composite
def edits(draw: st.DrawFn) -> list[Content]:
    crafted = draw(st.booleans())
    plain = [1, 2, 3]
    tokens = st.sampled_from([*plain, 1.0, True, "1", "a", 2**63, NO_TOKEN] if crafted else plain)
    documents = st.lists(st.lists(tokens, min_size=1, max_size=5), min_size=1, max_size=3)
    kinds: Any = st.sampled_from(["learnstream", "learnstream", "forgetstream"])
    return draw(st.lists(st.builds(LoggedDocuments, kinds, documents), max_size=10))


@pytest.mark.parametrize(("cutting", "memory", "keep"), MODELS, ids=repr)
@given(bodies=edits())
@settings(max_examples=50)
def test_groups_equal_single_edits(cutting: Cutting, memory: Any, keep: str, bodies: list[Content]) -> None:
    vote: Any = "sum" if isinstance(memory, Hashed) else Mixture()
    start = MemoryClassifier(Suffixes(2), memory, vote, 0, keep=keep)
    start.fit_stream([[1, 2, 3, 1], [2, 1, 3]], h=2, short=cutting.short, pad=cutting.pad)
    chosen = Settings.for_upload(None)
    together = Applier(start, chosen, Limits())
    together.apply(bodies)
    model, refused = start, {}
    for i, body in enumerate(bodies):
        single = Applier(model, chosen, Limits())
        single.apply([body])
        assert single.model is not None
        model = single.model
        if single.refused:
            refused[i] = type(single.refused[0])
    assert {i: type(error) for i, error in together.refused.items()} == refused
    assert list_contents(together.model) == list_contents(model)
    again = Applier(start, chosen)  # what was accepted is applied again by a replay
    again.apply([body for i, body in enumerate(bodies) if i not in refused])
    assert not again.refused
    assert list_contents(again.model) == list_contents(model)
