"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hammemo.files.atomic import delete_leftovers, replacement, write_file

pytestmark = pytest.mark.quick


def test_a_file_takes_its_place_when_all_of_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacement(path) as temporary:
        Path(temporary).write_text("new")
        assert path.read_text() == "old"
        assert Path(temporary).parent == tmp_path
    assert path.read_text() == "new"
    write_file(path, [b"in ", memoryview(b"two"), b" parts"])
    assert path.read_text() == "in two parts"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def interrupted(path: Path) -> None:
    with replacement(path) as temporary:
        Path(temporary).write_text("half of i")
        raise KeyboardInterrupt


@pytest.mark.parametrize("existing", [True, False])
def test_an_error_leaves_what_was_there(existing: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    if existing:
        path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"] * existing


def test_only_temporary_files_of_the_file_itself_are_leftovers(tmp_path: Path) -> None:
    left, digits = "a.txt.0123456789abcdef.tmp", "0123456789abcdef"
    others = ["a.txt", f"b.txt.{digits}.tmp", f"xa.txt.{digits}.tmp", f"aXtxt.{digits}.tmp", "a.txt.01.tmp"]
    for name in (left, *others, f"a.txt.{digits}.tmp.txt"):
        (tmp_path / name).touch()
    (tmp_path / "a.txt.fedcba9876543210.tmp").mkdir()
    before = set(os.listdir(tmp_path))
    delete_leftovers(tmp_path / "a.txt")
    assert before - set(os.listdir(tmp_path)) == {left}


@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_what_was_there(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    write_file(tmp_path / "a.txt", [b"old"])
    with monkeypatch.context() as patch:
        patch.setattr(os, place, fail)
        with pytest.raises(OSError, match="the disk is full"):
            write_file(tmp_path / "a.txt", [b"new"])
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
def test_what_is_written_is_never_more_readable_than_the_file_it_replaces(tmp_path: Path) -> None:
    path, link = tmp_path / "a.txt", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    with replacement(link) as temporary:
        assert os.stat(temporary).st_mode & 0o777 == 0o600
    assert link.is_symlink()
    assert path.read_text() == ""


def test_a_place_that_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder: name a file"):
        write_file(tmp_path, [b""])
    with pytest.raises(FileNotFoundError, match="nowhere does not exist: make it"):
        write_file(tmp_path / "nowhere" / "a.txt", [b""])
    assert not list(tmp_path.iterdir())
