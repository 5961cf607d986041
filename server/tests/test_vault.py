"""What the key file and the records of erasures cost, and where they end."""

from __future__ import annotations

import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hammemo.receipts import keys as key_files
from hammemo.receipts.backup_keys import BackupKey
from hammemo.receipts.erasure_records import add_records, read_records, records_path, select_needed
from hammemo.receipts.keys import change_keys, drop_unneeded_records, new_key_file, read_keys
from hammemo_server.store.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo.receipts.erasure_records import ErasedSubject


def record(vault: Vault, position: int) -> ErasedSubject:
    return vault.record(secrets.token_hex(16), secrets.token_bytes(16), "request", refit=False, position=position)


def moved_bytes(work: Callable[[], Any]) -> int:
    """Return how many bytes this process has read and written for some work."""

    def so_far() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar", "wchar")))

    begun = so_far()
    work()
    return so_far() - begun


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_erasure_and_an_edit_cost_the_same_with_ten_records_and_with_many(tmp_path: Path) -> None:
    new_key_file(tmp_path / "keys.json")
    mine, other = (Vault(tmp_path / "keys.json", key * 32) for key in (b"a", b"b"))
    other.new_contents()

    def erase_and_edit() -> None:
        mine.new_contents([record(mine, 7)])
        mine.drop((), mine.newest_contents())
        other.contents(1)  # reads the key file again, because it was replaced

    sizes = []
    for n in (10, 20_000):
        one = record(mine, 1)
        add_records(mine.path, mine.model, (replace(one, op=secrets.token_hex(16)) for _ in range(n)))
        erase_and_edit()
        sizes.append(moved_bytes(erase_and_edit))
    assert records_path(mine.path, mine.model).stat().st_size > 100 * sizes[0]
    assert sizes[1] <= 1.1 * sizes[0]


def test_a_key_file_that_could_not_be_read_is_not_written(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "keys.json"
    new_key_file(path)
    vault = Vault(path, b"k" * 32)
    monkeypatch.setattr(key_files, "_MAX_FILE_BYTES", 2_000)
    for n in range(8):
        assert vault.new_wrapping(0) == n + 1
    with pytest.raises(ValueError, match="at most 2,000"):
        [vault.new_wrapping(0) for _ in range(20)]
    n = len(read_keys(path).named)
    change_keys(path, lambda keys: keys.without(*keys.named))
    assert vault.new_wrapping(n) == n + 1


def test_a_line_that_a_crash_has_torn_is_cut(tmp_path: Path) -> None:
    new_key_file(tmp_path / "keys.json")
    vault = Vault(tmp_path / "keys.json", b"k" * 32)
    vault.new_contents([record(vault, 1)])
    path = records_path(vault.path, vault.model)
    assert path.stat().st_mode & 0o77 == 0
    with path.open("ab") as file:
        file.write(b'{"database":"half')
    assert len(vault.erasures()) == 1
    assert not vault.lacks_records()
    vault.new_contents([record(vault, 2)])
    assert sorted(one.position for one in read_records(vault.path, vault.model)) == [1, 2]
    path.unlink()
    assert vault.lacks_records()


def test_a_record_is_kept_until_every_backup_holds_the_erasure(tmp_path: Path) -> None:
    new_key_file(tmp_path / "keys.json")
    vault = Vault(tmp_path / "keys.json", b"k" * 32)
    vault.new_contents([record(vault, 5), record(vault, 9)])
    listed = list(vault.erasures().values())

    def backup(position: int | None, database: str = "") -> BackupKey:
        return replace(BackupKey.new(1, vault.model, database or vault.database), position=position)

    def needed(*backups: BackupKey) -> list[int]:
        return [one.position for one in select_needed(listed, backups)]

    assert needed() == [5, 9]
    assert needed(backup(7)) == [9]
    assert needed(backup(9), backup(20)) == []
    assert needed(backup(9), backup(None)) == [5, 9]  # one that is being written
    assert needed(backup(9), backup(20, "another")) == [5, 9]
    again = [replace(one, database="another", position=12) for one in listed]
    assert select_needed([*listed, *again], [backup(9), backup(20, "another")]) == []
    name = "m-1"
    vault.new_backup(name, 1)
    vault.finish_backup(name, 7)
    drop_unneeded_records(vault.path, read_keys(vault.path))
    assert [one.position for one in vault.erasures().values()] == [9]
    assert not vault.lacks_records()
    vault.drop_all()
    assert len(vault.erasures()) == 1  # the backup may be restored
    vault.drop_backup(name)
    vault.drop_all()
    assert not vault.erasures()
    assert not read_keys(vault.path).erased
