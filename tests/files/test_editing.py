"""Model files that several processes, threads and models change: nothing that was confirmed is lost."""

from __future__ import annotations

import copy
import functools
import json
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import forked
from hammemo import FileError, MemoryClassifier, editing, load, save
from hammemo.cli.app import app
from hammemo.files import LockedError, read_notes
from hammemo.files.locks import locked
from hammemo.memories import Exact
from pace import patience, wait_until
from processes import run

X, Y = [["red", "small"], ["red", "large"], ["green", "large"]], ["cherry", "apple", "melon"]

HOLD = """
import sys, time
from hammemo.files.locks import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def fruit() -> MemoryClassifier:
    return MemoryClassifier(memory=Exact(), vote="sum").fit(X, Y)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(fruit(), tmp_path / "fruit.model", notes={"source": "fruit.csv"})
    return tmp_path / "fruit.model"


def holder(path: Path) -> forked.Command:
    """Start a process that has the lock of a file."""
    script = path.parent / "hold.py"
    script.write_text(HOLD)
    process = forked.Command(str(script), str(path))
    assert process.stdout.readline() == "held\n"
    return process


def end(process: forked.Command) -> None:
    process.kill()
    process.wait()


# ---------------------------------------------------------------- editing


def test_an_edit_replaces_the_file_and_keeps_its_notes(path: Path) -> None:
    with editing(path) as model:
        model.partial_fit([["blue", "tiny"]], ["berry"]).forget(X[:1], Y[:1])
        assert load(path).classes_.tolist() == sorted(Y), "until the block ends, readers see the old file"
    assert load(path).classes_.tolist() == ["apple", "berry", "melon"]
    assert read_notes(path) == {"source": "fruit.csv"}
    plain = fruit().partial_fit([["blue", "tiny"]], ["berry"]).forget(X[:1], Y[:1])
    assert load(path).memory_.state_bytes() == plain.memory_.state_bytes()


def interrupted(path: Path) -> None:
    with editing(path) as model:
        model.forget(X, Y)
        raise KeyboardInterrupt


def test_an_error_in_an_edit_leaves_the_file(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_bytes() == before
    with editing(path, wait=0) as model:  # the lock is free again
        model.forget(X[:1], Y[:1])


def test_what_cannot_be_edited_is_refused(path: Path) -> None:
    other = path.with_name("other")
    with pytest.raises(FileNotFoundError), editing(other):
        pass
    other.write_text("no model")
    with pytest.raises(FileError, match="not a model of hammemo"), editing(other):
        pass
    assert not other.with_name("other.lock").exists()
    save(fruit().compile(), other)
    with pytest.raises(FileError, match="edit the file it was compiled from"), editing(other):
        pass
    for address in ("s3://bucket/a.model", Path("gs://bucket/a.model")):
        with pytest.raises(FileError, match=r"object storage.*copy it to this machine"):
            save(fruit(), address)
    with pytest.raises(ValueError, match="wait=-1"), locked(path, wait=-1):
        pass


def test_many_processes_lose_no_edit(tmp_path: Path) -> None:
    result = run(4, 10, tmp_path)
    assert (result["edits"], result["failed"], result["lost"], result["twice"]) == (40, 0, 0, 0)
    assert result["examples"] == result["expected"] == 24
    assert result["equal_to_one_process"]


def test_threads_queue_and_a_thread_may_lock_again(path: Path) -> None:
    def learn(number: int) -> None:
        with editing(path) as model:
            model.partial_fit([["x", str(number)]], ["x"])

    threads = [threading.Thread(target=learn, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(zip(*counts(path), strict=True))["x"] == 8
    with locked(path), editing(path, wait=0) as model:
        model.partial_fit([["x", "y"]], ["x"])
    assert dict(zip(*counts(path), strict=True))["x"] == 9


def counts(path: Path) -> tuple[list[Any], list[int]]:
    model = load(path)
    return model.classes_.tolist(), model.memory_.label_counts.tolist()


# ---------------------------------------------------------------- the lock


def test_waiting_says_who_holds_the_lock_and_a_killed_holder_frees_it(path: Path) -> None:
    process = holder(path)
    told: list[str] = []
    try:
        about = json.loads(Path(f"{path}.lock").read_text())
        assert about["pid"] == process.pid
        assert set(about) == {"pid", "host", "time"}
        with pytest.raises(LockedError, match=f"locked by process {process.pid} on .*nothing was changed.*wait="):
            editing(path, wait=0.2).__enter__()
        assert load(path).classes_.tolist() == sorted(Y), "reading needs no lock"
        killer = threading.Timer(1.5, process.kill)
        killer.start()
        with editing(path, wait=patience(60), tell=told.append) as model:
            model.forget(X[:1], Y[:1])
        killer.join()
    finally:
        end(process)
    assert len(told) == 1
    assert f"Waiting for process {process.pid} on " in told[0]
    assert json.loads(Path(f"{path}.lock").read_text())["pid"] == os.getpid(), "it stays and names the last holder"
    assert load(path).classes_.tolist() == ["apple", "melon"]


def test_a_lock_file_with_anything_in_it_still_locks(path: Path) -> None:
    process = holder(path)
    try:
        for content in ("", "{", "[]", "{}"):
            Path(f"{path}.lock").write_text(content)
            with pytest.raises(LockedError, match="locked by another process"), locked(path, wait=0):
                pass
    finally:
        end(process)


def test_links_share_the_lock_of_their_file(path: Path) -> None:
    link = path.with_name("link.model")
    link.symlink_to(path)
    process = holder(link)
    try:
        with pytest.raises(LockedError), locked(path, wait=0):
            pass
    finally:
        end(process)
    assert not Path(f"{link}.lock").exists()


# ---------------------------------------------------------------- save does not undo


def test_save_refuses_to_undo_what_another_has_written(path: Path) -> None:
    mine, theirs = load(path), load(path)
    save(theirs.forget(X[:1], Y[:1]), path)
    before = path.read_bytes()
    with pytest.raises(FileError, match=r"written by another program.*hammemo\.editing.*force=True"):
        save(mine, path)
    assert path.read_bytes() == before, "the confirmed forget did not come back"
    with pytest.raises(FileError, match="written by another program"):
        save(mine, _link_to(path))
    save(mine, path.with_name("other.model"))  # another file is no business of that rule
    save(mine, path, force=True)
    save(mine.forget(X[1:2], Y[1:2]), path)  # what it has saved itself it may replace
    path.unlink()
    save(theirs, path)  # where nothing is, nothing is undone


def _link_to(path: Path) -> Path:
    link = path.with_name("link.model")
    link.symlink_to(path)
    return link


def test_what_is_not_a_model_any_more_is_not_overwritten_by_one(path: Path) -> None:
    mine = load(path)
    path.write_text("something else")
    with pytest.raises(FileError, match="written by another program"):
        save(mine, path)
    save(fruit(), path)  # a fresh model overwrites


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda model: model.snapshot(), lambda m: m + m, pickle])
def test_copies_are_fresh_models(copied: Any, path: Path) -> None:
    mine = load(path)
    fresh = pickle.loads(pickle.dumps(mine)) if copied is pickle else copied(mine)  # noqa: S301
    save(mine.forget(X[:1], Y[:1]), path)
    save(fresh, path)
    assert load(path).memory_.state_bytes() == fresh.memory_.state_bytes()
    assert clone(mine).get_params().keys() == mine.get_params().keys()


def test_an_older_version_does_not_replace_a_newer_one(path: Path) -> None:
    """`save` waits for the lock; what was learnt and saved meanwhile by another thread is in the file afterwards."""
    mine = load(path)
    waiting = threading.Thread(target=save, args=(mine, path))
    with locked(path):
        waiting.start()
        time.sleep(0.3)  # it has taken its version and waits
        mine.partial_fit([["blue", "tiny"]], ["berry"])
        save(mine, path)
    waiting.join()
    assert "berry" in load(path).classes_


# ---------------------------------------------------------------- what is no file


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for call in (load, read_notes, lambda file: load(file, verify=False), lambda file: editing(file).__enter__()):
        with pytest.raises(FileError, match=r"not a regular file but a pipe.*copy it into a file"):
            call(pipe)
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


# ---------------------------------------------------------------- commands


def test_a_confirmed_forget_does_not_come_back(tmp_path: Path) -> None:
    """One command reads slowly and has the lock; another forgets meanwhile, and waits."""
    (tmp_path / "fruit.csv").write_text("colour,size,fruit\nred,small,cherry\nred,large,apple\ngreen,large,melon\n")
    (tmp_path / "melon.csv").write_text("colour,size,fruit\ngreen,large,melon\n")
    command = functools.partial(forked.Command, "hammemo", cwd=tmp_path)
    assert (
        command("fit", "fruit.csv", "--label", "fruit", "--keep", "digests", "--out", "f.model").communicate()[1] == ""
    )
    add = command("add", "f.model")
    lock = tmp_path / "f.model.lock"
    assert wait_until(lambda: json.loads(lock.read_text() or "{}").get("pid") == add.pid, patience(60))
    refused = command("forget", "f.model", "melon.csv", "--wait", "0.5").communicate()
    assert f"Error: f.model is locked by process {add.pid} on " in refused[1]
    assert "set --wait to more seconds" in refused[1]
    forget = command("forget", "f.model", "melon.csv")
    assert forget.stderr.readline().startswith(f"Waiting for process {add.pid} on ")
    assert "1 example added" in add.communicate("colour,size,fruit\nblue,tiny,berry\n")[0]
    assert "1 example forgotten" in forget.communicate()[0]
    assert load(tmp_path / "f.model").classes_.tolist() == ["apple", "berry", "cherry"]


@pytest.mark.parametrize("line", ["add", "forget", "merge other.model --out", "fit rows.csv --label fruit --out"])
def test_commands_refuse_object_storage(line: str) -> None:
    errors = CliRunner().invoke(app, [*line.split(), "s3://bucket/f.model"], input="").stderr
    assert "object storage" in errors
    assert "copy it to this machine" in errors
    assert errors.count("\n") == 1
