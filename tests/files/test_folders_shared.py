"""Folders that several processes use: what a killed one leaves, and reading while another one writes."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest

import forked
from folder_cases import rows
from hammemo import FileError, MemoryClassifier, compact, editing, load, save
from hammemo.files import folders, inspect
from hammemo.files.folders import HEAD
from hammemo.memories import Exact

if TYPE_CHECKING:
    from pathlib import Path

KILLED_EDIT = """
import os, signal, sys
from hammemo import editing
replace = os.replace
def kill(source, target):
    if str(target).endswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
with editing(sys.argv[1]) as model:
    model.learn_one(["a", "b", "e"], "x")
    os.replace = kill
"""


def fitted() -> MemoryClassifier:
    return MemoryClassifier(memory=Exact(), vote="sum").fit(*rows(60, 0))


# ---------------------------------------------------------------- what a killed process leaves


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize(
    ("name", "change"), [(HEAD, "edit"), (HEAD, "save"), (HEAD, "compact"), ("a.model", "edit"), ("a.model", "save")]
)
def test_what_a_killed_edit_left_goes_with_the_next_change(name: str, change: str, tmp_path: Path) -> None:
    where, segments = (tmp_path, 2) if name == HEAD else (tmp_path / name, 0)
    save(fitted(), where, segments=segments)
    ended = forked.run(KILLED_EDIT, where, name)
    assert ended.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob("*.tmp"))) == 1
    if change == "edit":
        with editing(where) as model:
            model.learn_one(["a", "b", "c"], "x")
    elif change == "save":
        save(load(where), where)
    else:
        compact(where)
    assert not list(tmp_path.glob("*.tmp"))


# ---------------------------------------------------------------- reading while another process writes


def change_before(name: str, changes: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let other processes change a folder, so often, just before this function of `folders` looks for its segments."""
    right, left = getattr(folders, name), iter(range(changes))

    def beside(*given: Any, **options: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(folders, name, right)
            for seed in left:
                with editing(folder) as model:
                    model.partial_fit(*rows(60, seed))
                compact(folder)
                break
        return right(*given, **options)

    monkeypatch.setattr(folders, name, beside)


def test_load_beside_changes_gives_the_model_after_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(fitted(), tmp_path, segments=2)
    before = load(tmp_path)
    asked = rows(40, 99)[0]
    change_before("open_segment", 3, tmp_path, monkeypatch)
    model = load(tmp_path)
    assert model.memory_.label_counts.sum() == 60 * 4
    assert model.memory_.state_digest() == load(tmp_path).memory_.state_digest()
    assert before.predict(asked).tolist() == fitted().predict(asked).tolist()  # its segments were deleted meanwhile


def test_inspect_beside_changes_misses_no_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(fitted(), tmp_path, segments=2)
    change_before("find_wrong_segments", 3, tmp_path, monkeypatch)
    found = inspect(tmp_path)
    assert (found["wrong_segments"], found["examples"]) == ([], 60 * 4)


def test_a_folder_that_changes_all_the_time_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(fitted(), tmp_path, segments=2)
    change_before("open_segment", 100, tmp_path, monkeypatch)
    monkeypatch.setattr(folders, "MAX_HEAD_READS", 3)
    with pytest.raises(FileError, match="is missing"):
        load(tmp_path)


def test_a_segment_that_is_lost_is_looked_for_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(fitted(), tmp_path, segments=1)
    next(tmp_path.glob("segment-*")).unlink()
    right, asked = vars(folders)["open_segment"], iter(range(10))

    def counted(*given: Any, **options: Any) -> Any:
        next(asked)
        return right(*given, **options)

    monkeypatch.setattr(folders, "open_segment", counted)
    with pytest.raises(FileError, match="is missing"):
        load(tmp_path)
    assert next(asked) == 2


# ---------------------------------------------------------------- folders where files should be


@pytest.mark.skipif(os.name != "posix", reason="links need no rights on POSIX")
@pytest.mark.parametrize("kind", ["link", "folder"])
@pytest.mark.parametrize("victim", [HEAD, "segment-*"])
def test_a_folder_in_place_of_a_file_is_refused(kind: str, victim: str, tmp_path: Path) -> None:
    save(fitted(), tmp_path / "model", segments=2)
    path = next((tmp_path / "model").glob(victim))
    path.unlink()
    (tmp_path / "elsewhere").mkdir()
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.mkdir()
    with pytest.raises(FileError, match=f"{path.name} is a folder"):
        load(tmp_path / "model")
    with pytest.raises(FileError, match=f"{path.name} is a folder"):
        compact(tmp_path / "model")


@pytest.mark.skipif(os.name != "posix", reason="links need no rights on POSIX")
def test_folders_of_others_are_left_and_segments_are_not_written_into_them(tmp_path: Path) -> None:
    save(fitted(), tmp_path / "model", segments=2)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "model" / "segment-link.safetensors").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "model" / "segment-folder.safetensors").mkdir()
    compact(tmp_path / "model")
    assert not os.path.lexists(tmp_path / "model" / "segment-link.safetensors")
    assert (tmp_path / "elsewhere").is_dir()
    assert (tmp_path / "model" / "segment-folder.safetensors").is_dir()
    copy = tmp_path / "copy"
    copy.mkdir()
    name = next((tmp_path / "model").glob("segment-*-*")).name
    (copy / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match=f"{name} is a folder"):
        save(load(tmp_path / "model"), copy)
    shutil.rmtree(copy)
    save(load(tmp_path / "model"), copy)
