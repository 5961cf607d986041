"""Models with subjects: whose rows they hold, erasing a person, and kills at every step."""

from __future__ import annotations

import random
import shutil
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import apsw
import msgspec
import pytest

import forked
from erasure import STEPS
from hammemo.client import Client, ServerError
from hammemo.receipts.keys import new_key_file, read_keys
from hammemo.receipts.receipt import SignedReceipt
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import (
    Acknowledgement,
    Edit,
    LoggedDocuments,
    LoggedRows,
    Malformed,
    NoSuchSubject,
    NotStored,
    OpReused,
    Unavailable,
    check_edit,
    decode_body,
    join_parts,
    split_by_subject,
)
from hammemo_server.erasure import journal as journals
from hammemo_server.models.erasable import ErasableModel
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep
from hammemo_server.store.audit import find_first_broken
from hammemo_server.store.log import LogDamaged
from hammemo_server.store.vault import Cipher, KeyGone, Vault
from pace import wait_until
from postgres_server import Server, needs_postgres, one_server, postgres
from running_servers import Process
from service_hosts import await_erasure, done, hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hammemo_server.models.served import ServedModel

__all__ = ["hosts", "postgres"]

SETTINGS: dict[str, Any] = {"columns": 2, "subjects": "required", "seed": 1}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    new_key_file(tmp_path / "keys.json")
    return tmp_path / "keys.json"


def learn(op: str, subject: str, *rows: list[Any], label: str = "x", kind: Any = "learn") -> Edit:
    return Edit(op, kind, [list(row) for row in rows], [label] * len(rows), subjects=[subject] * len(rows))


def erase(op: str, subject: str, *, refit: bool = True) -> Edit:
    return Edit(op, "forget_subject", subjects=[subject], refit=refit)


def is_at(model: ServedModel, version: int) -> bool:
    return model.version == version


def held(model: ServedModel) -> int:
    state = model.state()
    return 0 if state.model is None else int(state.model.memory_.label_counts.sum())


# Edits


def test_rows_of_several_subjects_are_taken_apart_and_put_together() -> None:
    edit = Edit("1", "learn", [["a"], ["b"], ["c"], ["d"]], [1, 2, 3, 4], subjects=["s", "t", "s", "u"])
    content, body = check_edit(edit, Limits())
    parts, owners = split_by_subject(edit, content, body)
    assert list(parts) == ["s", "t", "u"]
    assert decode_body(parts["s"]) == LoggedRows("learn", [["a"], ["c"]], [1, 3])
    assert join_parts([decode_body(part) for part in parts.values()], owners) == content
    edit = Edit("1", "forget", documents=[["a"], ["b", "c"]], subjects=["t", "s"])
    content, body = check_edit(edit, Limits())
    parts, owners = split_by_subject(edit, content, body)
    assert join_parts([decode_body(part) for part in parts.values()], owners) == content
    one = LoggedRows("learn", [["a"]], ["x"])
    for wrong, numbers in (([one, one], []), ([one], [0, 0]), ([one, one], [0, 2]), ([one], [1])):
        with pytest.raises(msgspec.ValidationError):
            join_parts(list(wrong), numbers)
    with pytest.raises(msgspec.ValidationError):
        join_parts([one, LoggedDocuments("learnstream", [["a"]])], [0, 1])


@pytest.mark.parametrize(
    "subjects", [[], ["a"], ["a", "b", "c"], ["a", ""], ["a", "x" * 257], ["a", 7], ["a", "\ud800"]]
)
def test_each_row_names_one_subject(subjects: list[Any], tmp_path: Path, keys: Path) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", SETTINGS)
        with pytest.raises(Malformed, match="subject"):
            model.edit(Edit("1", "learn", [["a", "b"]] * 2, ["x", "y"], subjects=subjects))
        assert model.version == 0


def test_a_model_without_subjects_takes_none(tmp_path: Path, keys: Path) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", {"columns": 2})
        for edit in (learn("1", "s", ["a", "b"]), erase("2", "s")):
            with pytest.raises(Malformed, match="no subjects"):
                model.edit(edit)
        with pytest.raises(Malformed, match="required"):
            host.create("t", "n", {"subjects": "optional"})
        with pytest.raises(Malformed, match="one subject"):
            host.create("t", "o", SETTINGS).edit(Edit("1", "forget_subject", subjects=["a", "b"]))


def test_the_key_file_is_needed_and_must_be_the_right_one(tmp_path: Path, keys: Path) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        done(host.create("t", "m", SETTINGS), learn("1", "s", ["a", "b"]))
    with Host(tmp_path / "models") as host:
        with pytest.raises(Unavailable, match="keys="):
            host.get("t", "m").edit(learn("2", "s", ["a", "b"]))
        with pytest.raises(Malformed, match="key file"):
            host.create("t", "n", SETTINGS)
    new_key_file(tmp_path / "other.json")
    with (
        Host(tmp_path / "models", keys=tmp_path / "other.json") as host,
        pytest.raises(Unavailable, match="not the one"),
    ):
        host.get("t", "m")
    with pytest.raises(FileNotFoundError, match="none"):
        Host(tmp_path / "models", keys=tmp_path / "none.json")
    shutil.copy(keys, tmp_path / "models" / "keys.json")
    with pytest.raises(ValueError, match="elsewhere"):
        Host(tmp_path / "models", keys=tmp_path / "models" / "keys.json")
    with Host(tmp_path / "models", keys=keys) as host:
        assert host.get("t", "m").version == 1
        host.delete("t", "m")
    assert not read_keys(keys).named


def test_edits_are_applied_once_and_only_the_subject_takes_its_rows_back(
    hosts: Callable[..., Host], keys: Path
) -> None:
    host = hosts(keys=keys)
    model = host.create("t", "m", SETTINGS)
    assert done(model, learn("1", "ann", ["a", 1])) == Acknowledgement(1, "applied")
    assert done(model, learn("1", "ann", ["a", 1])) == Acknowledgement(1, "repeated")
    for other in (learn("1", "ann", ["a", 2]), learn("1", "bob", ["a", 1]), erase("1", "ann")):
        with pytest.raises(OpReused, match="'1'"):
            done(model, other)
    with pytest.raises(NotStored, match="1 of 1 rows"):
        done(model, learn("2", "bob", ["a", 1], kind="forget"))
    with pytest.raises(NotStored):  # 1 and 1.0 are other values
        done(model, learn("2", "ann", ["a", 1.0], kind="forget"))
    with pytest.raises(NotStored):
        done(model, learn("2", "ann", ["a", 1], ["a", 1], kind="forget"))
    assert done(model, learn("2", "ann", ["a", 1], kind="forget")).version == 2
    assert held(model) == 0
    with pytest.raises(NotStored):
        done(model, learn("3", "ann", ["a", 1], kind="forget"))
    both = Edit("4", "learn", [["a", 1], ["b", 2], ["c", 3]], ["x", "y", "z"], subjects=["ann", "bob", "ann"])
    assert done(model, both).version == 3
    assert done(model, both).status == "repeated"
    assert done(model, learn("5", "bob", ["b", 2], label="y", kind="forget")).version == 4
    host.close()
    again = hosts(keys=keys).get("t", "m")
    assert (again.version, held(again)) == (4, 2)
    assert done(again, both) == Acknowledgement(3, "repeated")


def test_a_subject_is_erased_and_its_request_repeated(hosts: Callable[..., Host], keys: Path) -> None:
    host = hosts(keys=keys)
    model = host.create("t", "m", SETTINGS)
    for i in range(30):
        done(model, learn(f"{i}", f"s{i % 3}", [f"a{i % 4}", f"b{i % 5}"], label=f"l{i % 2}"))
    done(model, learn("only", "s1", ["rare", "rare"], label="rare"))
    assert done(model, erase("e", "s1")) == Acknowledgement(32, "applied")
    signed = await_erasure(model, "e")
    receipt = signed.receipt
    assert signed.verify(read_keys(keys).public_key)
    assert (receipt.request, receipt.rows, receipt.labels, receipt.previous) == ("e", 11, 1, None)
    assert (receipt.version_before, receipt.version_after) == (31, 33)
    assert receipt.layout_refitted
    assert receipt.weights_refitted
    state = model.state()
    assert state.model is not None
    assert receipt.digest_after == state.model.digest()
    assert done(model, erase("e", "s1")) == Acknowledgement(32, "repeated")
    with pytest.raises(OpReused):
        done(model, erase("e", "s2"))
    said = []
    for subject in ("s1", "never"):
        with pytest.raises(NoSuchSubject) as refused:
            done(model, erase("other", subject))
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert done(model, learn("1", "s1", ["a1", "b1"], label="l1")) == Acknowledgement(2, "repeated")
    assert done(model, learn("1", "s1", ["something", "else"])).status == "repeated"  # without comparison
    assert done(model, learn("new", "s1", ["c", "d"])).version == 34
    assert done(model, erase("e2", "s1", refit=False)) == Acknowledgement(35, "applied")
    second = await_erasure(model, "e2").receipt
    assert (second.rows, second.weights_refitted, second.previous) == (1, False, signed.hash)
    start, lines = model.audit(0, 1000)
    assert find_first_broken(start, lines) is None
    assert [one.line.receipt.hex() for one in lines if one.line.kind == "erased"] == [
        signed.hash,
        await_erasure(model, "e2").hash,
    ]
    host.close()
    host = hosts(keys=keys)
    again = host.get("t", "m")
    assert again.version == 35
    assert await_erasure(again, "e") == signed
    assert again.erasure("none") is None
    replica = hosts(keys=keys, replica=True).get("t", "m")
    assert await_erasure(replica, "e") == signed
    fresh = host.create("t", "fresh", SETTINGS)
    for i in range(30):
        if i % 3 != 1:
            done(fresh, learn(f"{i}", f"s{i % 3}", [f"a{i % 4}", f"b{i % 5}"], label=f"l{i % 2}"))
    for one in (again, fresh):
        done(one, Edit("refit", "refit"))
    assert again.describe(digest=True)["digest"] == fresh.describe(digest=True)["digest"]


def test_the_last_rows_and_a_subject_without_rows_can_be_erased(hosts: Callable[..., Host], keys: Path) -> None:
    model = hosts(keys=keys).create("t", "m", SETTINGS)
    done(model, learn("1", "s", ["a", "b"]))
    done(model, learn("2", "s", ["a", "b"], kind="forget"))
    done(model, erase("3", "s"))
    assert await_erasure(model, "3").receipt.rows == 0
    done(model, learn("4", "s", ["a", "b"]))
    done(model, erase("5", "s"))
    assert (await_erasure(model, "5").receipt.rows, held(model)) == (1, 0)


def test_a_receipt_is_returned_when_the_id_is_too_old_to_be_kept(tmp_path: Path, keys: Path) -> None:
    with Host(tmp_path / "models", keys=keys, upkeep=Upkeep(retention=0.0)) as host:
        model = host.create("t", "m", SETTINGS)
        for subject in ("s", "t"):
            done(model, learn(subject, subject, ["a", "b"]))
        done(model, erase("e", "s"))
        signed = await_erasure(model, "e")
        model.snapshot()
        assert done(model, learn("s", "t", ["a", "b"])).status == "applied"  # the id is forgotten
        assert done(model, erase("e", "s")) == Acknowledgement(3, "repeated")
        assert await_erasure(model, "e") == signed


def test_many_erasures_share_a_snapshot_and_a_refit(tmp_path: Path, keys: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(journals, "BUCKET", 4)
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", SETTINGS)
        for i in range(40):
            done(model, learn(f"{i}", f"s{i % 20}", [f"a{i % 4}", f"b{i % 5}"], label=f"l{i % 2}"))
        assert len(read_keys(keys).named) == 5
        snapshots: list[int] = []
        keep = model._log.keep_snapshot

        def kept(clf: Any, version: int) -> None:
            snapshots.append(version)
            keep(clf, version)

        monkeypatch.setattr(model._log, "keep_snapshot", kept)
        futures = [model.edit(erase(f"e{i}", f"s{i}")) for i in range(10)]
        versions = [future.result().version for future in futures]
        receipts = [await_erasure(model, f"e{i}") for i in range(10)]
        refits = [one.line.after for one in model.audit(0, 1000)[1] if one.line.kind == "refit"]
        assert len(snapshots) < 6
        assert len(refits) < 6
        assert versions == sorted(versions)
        assert sum(receipt.receipt.rows for receipt in receipts) == 20
        chain = {receipt.hash: receipt.receipt.previous for receipt in receipts}
        assert set(chain.values()) - set(chain) == {None}
        assert held(model) == 20
        for i in range(10, 20):  # the keys that shared their buckets still open their journals
            done(model, erase(f"e{i}", f"s{i}", refit=False))
            assert await_erasure(model, f"e{i}").receipt.rows == 2
    assert [name.split("/")[1] for name in read_keys(keys).named] == ["contents"]


# What is left of a person


def contents_of(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_no_file_holds_the_person_and_an_old_database_cannot_be_read(tmp_path: Path, keys: Path) -> None:
    folder, marker = tmp_path / "models", "Zq7marker"
    with Host(folder, keys=keys, upkeep=Upkeep(at_close=False)) as host:
        model = host.create("t", "m", {**SETTINGS, "memory": "exact"})
        for i in range(20):
            subject = marker if i % 2 else "other"
            done(model, learn(f"{subject}-{i}", subject, [f"{subject}{i}", "b"], label="x" if i % 4 else "y"))
        assert marker.encode() not in contents_of(folder)  # before the first snapshot: ciphertexts only
        model.snapshot()
        done(model, Edit("r", "refit"))
        assert marker.encode() in contents_of(folder)  # in the snapshot, which keeps rows
        shutil.copytree(folder, tmp_path / "backup")
        done(model, erase(f"{marker}-e", marker))
        await_erasure(model, f"{marker}-e")
    found = contents_of(folder) + keys.read_bytes()
    assert marker.encode() not in found
    assert marker.encode().hex().encode() not in found
    (tmp_path / "backup" / "t" / "m" / "model.safetensors").unlink()  # a backup of the database alone
    assert marker.encode() not in contents_of(tmp_path / "backup")
    log = apsw.Connection(str(tmp_path / "backup" / "t" / "m" / "log.sqlite"))
    numbers = {row[0] for row in log.execute("select wrapping from hammemo_subjects")}
    row: Any = log.execute("select value from about where name = 'key'").fetchone()
    vault = Vault(keys, row[0])
    for number in numbers:
        with pytest.raises(KeyGone):
            vault.wrapping(number)


def test_a_plain_forget_leaves_the_journal_with_the_next_snapshot(hosts: Callable[..., Host], keys: Path) -> None:
    host = hosts(keys=keys)
    model = host.create("t", "m", SETTINGS)
    for i in range(5):
        done(model, learn(f"{i}", "s", [f"a{i}", "b"]))
    for i in range(4):
        done(model, learn(f"f{i}", "s", [f"a{i}", "b"], kind="forget"))
    log: Any = model._log
    (key,) = log.wrapping_keys() and [stored.key for number in log.wrapping_keys() for stored in log.keys_under(number)]
    assert len(log.journal(key, 100)) == 9
    model.snapshot()
    assert len(log.journal(key, 100)) == 1
    done(model, learn("f4", "s", ["a4", "b"], kind="forget"))
    model.snapshot()
    assert log.journal(key, 100) == []
    done(model, learn("5", "s", ["c", "d"]))
    host.close()
    model = hosts(keys=keys).get("t", "m")
    done(model, erase("e", "s"))
    assert await_erasure(model, "e").receipt.rows == 1


def test_changed_ciphertexts_are_refused(tmp_path: Path, keys: Path) -> None:
    for table, column in (("hammemo_journal", "body"), ("hammemo_subjects", "wrapped"), ("hammemo_edits", "body")):
        name = table.replace("hammemo_", "")
        with Host(tmp_path / "models", keys=keys, upkeep=Upkeep(at_close=False)) as host:
            done(host.create("t", name, SETTINGS), learn("1", "s", ["a", "b"]))
            done(host.get("t", name), learn("2", "s", ["c", "d"]))
        log = apsw.Connection(str(tmp_path / "models" / "t" / name / "log.sqlite"))
        row: Any = log.execute(f"select {column} from {table}").fetchone()
        body = bytearray(row[0])
        body[-1] ^= 1
        log.execute(f"update {table} set {column} = ?", (bytes(body),))
        log.close()
        with Host(tmp_path / "models", keys=keys) as host, pytest.raises(Unavailable) as refused:
            host.get("t", name)
        assert isinstance(refused.value.__cause__, (LogDamaged, ValueError))


def test_a_cipher_opens_only_what_it_sealed_for_the_place() -> None:
    cipher = Cipher(bytes(32))
    sealed = cipher.seal(b"rows", b"here")
    assert cipher.unseal(sealed, b"here") == b"rows"
    assert cipher.seal(b"rows", b"here") != sealed
    for wrong, place in ((sealed, b"there"), (sealed[:-1], b"here"), (b"", b"here"), (bytes(40), b"here")):
        with pytest.raises(ValueError, match="ciphertext"):
            cipher.unseal(wrong, place)


# Histories against a twin that knows whose each row is


def history(model: ServedModel, rng: random.Random, steps: int, twin: dict[str, Counter[Any]], start: int) -> None:
    """Do random edits, most of them at the same time, and what they do to a dictionary."""
    for number in range(start, start + steps):
        subject = f"s{rng.randrange(8)}"
        rows = [([f"a{rng.randrange(3)}", rng.choice([1, 1.0, "1", None, True])], f"l{rng.randrange(2)}") for _ in "ab"]
        kind = rng.choice(["learn"] * 5 + ["forget", "forget", "erase", "snapshot", "several"])
        if kind == "snapshot":
            model.snapshot()
        elif kind == "erase":
            edit = erase(f"op{number}", subject, refit=rng.random() < 0.3)
            if subject in twin:
                done(model, edit)
                del twin[subject]
            else:
                with pytest.raises(NoSuchSubject):
                    done(model, edit)
        elif kind == "forget" and +twin.get(subject, Counter()):
            ((row, label),) = rng.sample(list(twin[subject].elements()), 1)
            row = list(msgspec.msgpack.decode(row))
            edit = Edit(f"op{number}", "forget", [row], [label], subjects=[subject])
            assert done(model, edit).status == "applied"
            twin[subject][msgspec.msgpack.encode(row), label] -= 1
        elif kind != "forget":
            subjects = [subject, f"s{rng.randrange(8)}"] if kind == "several" else [subject] * 2
            edit = Edit(
                f"op{number}", "learn", [row for row, _ in rows], [label for _, label in rows], subjects=subjects
            )
            model.edit(edit)
            for (row, label), whose in zip(rows, subjects, strict=True):
                twin.setdefault(whose, Counter())[msgspec.msgpack.encode(row), label] += 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_random_histories_hold_what_the_twin_holds(
    hosts: Callable[..., Host], keys: Path, seed: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(journals, "BUCKET", 3)
    rng, twin = random.Random(seed), dict[str, Counter[Any]]()
    settings = {**SETTINGS, "kernel": "positional", "vote": "sum"}
    for part in range(3):
        host = hosts(keys=keys, upkeep=Upkeep(at_close=rng.random() < 0.5))
        model = host.create("t", "m", settings)
        history(model, rng, 60, twin, 1000 * part)
        done(model, learn(f"last{part}", "last", ["a", "b"]))
        twin.setdefault("last", Counter())[msgspec.msgpack.encode(["a", "b"]), "x"] += 1
        replica = hosts(keys=keys, replica=True).get("t", "m")
        assert wait_until(partial(is_at, replica, model.version), 60)
        rows = [
            (list(msgspec.msgpack.decode(row)), label) for counts in twin.values() for row, label in counts.elements()
        ]
        fresh = host.create("t", f"fresh{part}", {**settings, "seed": 1})
        done(fresh, Edit("all", "learn", [r for r, _ in rows], [y for _, y in rows], subjects=["s"] * len(rows)))
        states = [one.state().model.memory_.state_bytes() for one in (model, replica, fresh)]  # type: ignore[union-attr]
        assert states[0] == states[2]
        assert states[1] == states[2]
        host.close()


def test_a_subject_that_is_forgotten_while_keys_are_wrapped_anew_stays_unknown(
    hosts: Callable[..., Host], keys: Path, monkeypatch: Any
) -> None:
    """Keys of one bucket are read, wrapped again and written: an erasure between must not be undone."""
    model = hosts(keys=keys).create("t", "m", {**SETTINGS, "kernel": "positional", "vote": "sum"})
    for subject in ("a", "b"):
        done(model, learn(f"learn {subject}".replace(" ", "-"), subject, [subject, "r"]))
    assert isinstance(model, ErasableModel)
    log, hashed = model._log, model._journal.vault.hash_subject("b")
    destroy_keys = log.destroy_keys
    found: list[tuple[bool, Any]] = []

    def slowly(*given: Any) -> None:
        if not found:
            future = model.edit(erase("second", "b", refit=False))
            wait([future], timeout=1)  # it has to wait for this thread
            destroy_keys(*given)
            found.append((future.done(), log.subjects([hashed])))
        else:
            destroy_keys(*given)

    monkeypatch.setattr(log, "destroy_keys", slowly)
    done(model, erase("first", "a", refit=False))
    await_erasure(model, "first")
    await_erasure(model, "second")
    ((was_done, known),) = found
    assert not (was_done and known)
    done(model, learn("again", "b", ["b", "r"]))
    done(model, erase("third", "b", refit=False))
    assert await_erasure(model, "third").receipt.rows == 1
    assert held(model) == 0


def test_threads_that_learn_forget_and_erase_at_once(hosts: Callable[..., Host], keys: Path, monkeypatch: Any) -> None:
    """Keys are made while others are destroyed, in buckets that are always shared."""
    monkeypatch.setattr(journals, "BUCKET", 3)
    host = hosts(keys=keys, upkeep=Upkeep(snapshot_edits=20))
    model = host.create("t", "m", {**SETTINGS, "kernel": "positional", "vote": "sum"})
    held_by: list[Counter[tuple[str, str]]] = [Counter() for _ in range(4)]

    def work(mine: int) -> None:
        rng, rows = random.Random(mine), held_by[mine]
        for number in range(30):
            subject, op = f"{mine}-{rng.randrange(5)}", f"{mine}.{number}"
            kind = rng.choice(["learn"] * 4 + ["forget", "erase"])
            if kind == "learn":
                row = f"r{rng.randrange(6)}"
                done(model, learn(op, subject, [subject, row]))
                rows[subject, row] += 1
            elif kind == "erase":
                try:
                    done(model, erase(op, subject, refit=False))
                except NoSuchSubject:
                    assert not any(n for (whose, _), n in rows.items() if whose == subject)
                for one in [one for one in rows if one[0] == subject]:
                    del rows[one]
            elif theirs := [one for one, n in rows.items() if n and one[0] == subject]:
                done(model, learn(op, subject, list(theirs[0]), kind="forget"))
                rows[theirs[0]] -= 1

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    all_rows = [list(one) for rows in held_by for one in rows.elements()]
    assert held(model) == len(all_rows)
    host.close()
    host = hosts(keys=keys)
    model = host.get("t", "m")
    assert held(model) == len(all_rows)
    start, lines = model.audit(0, 10_000)
    assert find_first_broken(start, lines) is None
    kinds = Counter(one.line.kind for one in lines)
    assert kinds["erased"] == kinds["forget_subject"] > 5
    assert [one.line.after for one in lines if one.line.kind != "erased"] == list(range(1, model.version + 1))
    for subject in {row[0] for row in all_rows}:  # every journal that is left can be opened
        done(model, erase(f"end-{subject}", subject, refit=False))
        assert await_erasure(model, f"end-{subject}").receipt.rows == sum(row[0] == subject for row in all_rows)
    assert held(model) == 0


@one_server
@needs_postgres
def test_a_writer_that_lost_its_lease_destroys_no_key_of_its_successor(
    postgres: Server, tmp_path: Path, keys: Path, monkeypatch: Any
) -> None:
    with Host(tmp_path / "models", postgres.address, keys=keys) as host:
        if "m" in host.names("t"):
            host.delete("t", "m")
        first = host.create("t", "m", SETTINGS)
        for i in range(6):
            done(first, learn(f"{i}", f"s{i}", [f"a{i}", "b"]))
        drop, blocked = Vault.drop, threading.Event()
        log: Any = first._log

        def dropping(*arguments: Any) -> None:
            raise AssertionError("a writer without lease drops keys")

        fenced = type(log).fence

        @contextmanager
        def late(self: Any) -> Iterator[None]:
            if self is log and not blocked.is_set():  # another node takes over just before keys are dropped
                blocked.set()
                monkeypatch.setattr(Vault, "drop", dropping)
                self._db.execute("update hammemo_models set epoch = epoch + 1, lease_until = null where name = 'm'")
            with fenced(self):
                yield

        monkeypatch.setattr(type(log), "fence", late)
        done(first, erase("e", "s1"))
        assert blocked.wait(60)
        with Host(tmp_path / "second", postgres.address, keys=keys) as other:
            second = other.get("t", "m")
            monkeypatch.setattr(Vault, "drop", drop)
            assert await_erasure(second, "e").receipt.rows == 1
            for i in (0, 2, 3, 4, 5):
                done(second, erase(f"e{i}", f"s{i}", refit=False))
                assert await_erasure(second, f"e{i}").receipt.rows == 1


# Kills

KILLED = """
import sys, time
from pathlib import Path
from erasure import kill_at
from hammemo_server.store import postgres_log
from hammemo_server.store import sqlite_log
from hammemo_server.models.host import Host
from hammemo_server.edits.operations import Edit
folder, log, step = Path(sys.argv[1]), sys.argv[2] or None, sys.argv[3]
model = Host(folder / "models", log, keys=folder / "keys.json").get("t", "m")
kill_at(step, sqlite_log.SqliteLog if log is None else postgres_log.PostgresLog)
model.edit(Edit("e", "forget_subject", subjects=["s1"]))
model.edit(Edit("e3", "forget_subject", subjects=["s3"]))
time.sleep(60)
"""


def twenty_rows(folder: Path, log: str | None) -> None:
    """Make a model of four subjects with five rows each, and its key file."""
    new_key_file(folder / "keys.json")
    with Host(folder / "models", log, keys=folder / "keys.json") as host:
        model = host.create("t", "m", {**SETTINGS, "kernel": "positional", "vote": "sum"})
        for i in range(20):
            done(model, learn(f"{i}", f"s{i % 4}", [f"row{i:02}", "b"], label=f"l{i % 2}"))


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learnt")
    twenty_rows(folder, None)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_is_resumed_at_start(step: str, learnt: Path, tmp_path: Path) -> None:
    shutil.copytree(learnt, tmp_path, dirs_exist_ok=True)
    _kill_and_resume(step, None, tmp_path)
    found = contents_of(tmp_path)
    for i in range(20):
        assert (f"row{i:02}".encode() in found) == (i % 4 == 0), i  # s0 alone is left


@one_server
@needs_postgres
@pytest.mark.long
@pytest.mark.parametrize("step", ["log.append after", "log.keep_snapshot after", "log.destroy_keys after"])
def test_a_kill_with_a_database_is_resumed_too(step: str, tmp_path: Path, postgres: Server) -> None:
    with Host(tmp_path / "models", postgres.address) as host:
        if "m" in host.names("t"):
            host.delete("t", "m")
    twenty_rows(tmp_path, postgres.address)
    _kill_and_resume(step, postgres.address, tmp_path)
    assert b"row" not in contents_of(tmp_path)  # snapshots on their way are encrypted, too


def _kill_and_resume(step: str, log: str | None, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    ended = forked.run(KILLED, tmp_path, log or "", step)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    with Host(tmp_path / "models", log, keys=keys) as host:
        model = host.get("t", "m")
        began = model.erasure("e")
        if began is not None:
            await_erasure(model, "e")  # without being asked again
        else:
            assert held(model) == 20
        assert done(model, erase("e", "s1")).status == ("applied" if began is None else "repeated")
        receipts = [await_erasure(model, "e")]
        done(model, erase("e3", "s3"))
        receipts.append(await_erasure(model, "e3"))
        assert [receipt.receipt.rows for receipt in receipts] == [5, 5]
        assert all(receipt.verify() for receipt in receipts)
        assert [receipt.receipt.previous for receipt in receipts] == [None, receipts[0].hash]
        done(model, learn("6", "s2", ["row06", "b"], label="l0"))
        assert held(model) == 10
        start, lines = model.audit(0, 1000)
        assert find_first_broken(start, lines) is None
        assert [one.line.kind for one in lines].count("erased") == 2
        done(model, erase("e2", "s2"))
        assert await_erasure(model, "e2").receipt.rows == 5
    kinds = [name.split("/")[1] for name in read_keys(keys).named]
    assert sorted(kinds) == ["contents", "wrapping"]


def test_over_http_with_the_client(tmp_path: Path, keys: Path) -> None:
    with Process(tmp_path / "models", "--keys", str(keys), "--workers", "1") as server, Client(server.url) as client:
        client.create("m", **SETTINGS)
        client.learn("m", [["a", 1], ["b", 2]], ["x", "y"], subjects=["ann", "bob"])
        client.learn("m", [["c", 3], ["d", 4]], ["x", "y"], subjects="ann")
        client.forget("m", [["c", 3]], ["x"], subjects=["ann"])
        with pytest.raises(ServerError) as refused:
            client.learn("m", [["a", 1]], ["x"])
        assert (refused.value.status, refused.value.code) == (422, "malformed")
        found = client.forget_subject("m", "ann", op="e")
        assert (found.version, found.status, found.state) == (5, "applied", "erased")  # the refit is the fifth edit
        signed = SignedReceipt.decode(found.receipt.encode())
        assert signed.verify(read_keys(keys).public_key)
        assert signed.receipt.rows == 2
        assert client.describe("m")["digest"] == signed.receipt.digest_after
        again = client.forget_subject("m", "ann", op="e")
        assert again == found._replace(status="repeated")
        for subject in ("ann", "never"):
            with pytest.raises(ServerError) as refused:
                client.forget_subject("m", subject)
            assert (refused.value.status, refused.value.code) == (404, "no_such_subject")
        assert next(line for line in client.audit("m") if line["kind"] == "erased")["receipt"] == signed.hash
        client.delete("m")
    assert not read_keys(keys).named


def test_erasures_are_finished_when_the_service_ends(tmp_path: Path, keys: Path) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", SETTINGS)
        done(model, learn("1", "s", ["a", "b"]))
        done(model, erase("e", "s"))
    began = time.monotonic()
    with Host(tmp_path / "models", keys=keys) as host:
        await_erasure(host.get("t", "m"), "e")
    assert time.monotonic() - began < 30
