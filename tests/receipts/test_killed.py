"""Processes that are killed while they write models and receipts: no receipt is lost, and none is false."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

import forked
from hammemo import MemoryClassifier, load, save
from hammemo.receipts import ReceiptFile, check_rows, new_key_file, read_keys, recorded
from hammemo.receipts.verifying import Result, check_receipts

N = 600
ROWS = [[f"r{number}", f"k{number % 3}"] for number in range(N)]
LABELS = [f"y{number % 2}" for number in range(N)]


def forget_one_by_one(folder: Path) -> None:
    """Forget the rows in order, each with a receipt, from where an earlier process was killed."""
    keys, file, path = read_keys(folder / "keys"), ReceiptFile(folder / "receipts"), folder / "a.model"
    print("ready", flush=True)
    while True:
        with file.locked():
            model = load(path)
            last = file.settle(model.digest(), keys)
            number = N - int(model.memory_.label_counts.sum())
            assert number == (0 if last is None else int(last.receipt.request) + 1)
            with recorded(model, keys, str(number), previous=last) as record:
                model.forget([ROWS[number]], [LABELS[number]])
            file.add(record.signed, lambda model=model: save(model, path))  # type: ignore[misc]


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_killed_process_loses_no_receipt(tmp_path: Path) -> None:
    keys, rng = new_key_file(tmp_path / "keys"), random.Random(0)
    save(MemoryClassifier(vote="sum").fit(ROWS, LABELS), tmp_path / "a.model")
    file, done = ReceiptFile(tmp_path / "receipts"), 0
    for _ in range(4):
        child = forked.Command(__file__, str(tmp_path))
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.2 + rng.random())
        child.kill()
        child.wait()
        model = load(tmp_path / "a.model")
        with file.locked():
            last = file.settle(model.digest(), keys)
        assert last is not None
        receipts = file.read()
        assert check_receipts(receipts, model.digest(), keys.public_key) == last
        assert [signed.receipt.request for signed in receipts] == [str(number) for number in range(len(receipts))]
        assert all(signed.receipt.rows == 1 for signed in receipts)
        assert len(receipts) > done
        done = len(receipts)
        assert int(model.memory_.label_counts.sum()) == N - done
        assert not (tmp_path / "receipts.pending").exists()
    assert check_rows(model, (ROWS[done:], LABELS[done:])).result is Result.PROVEN


if __name__ == "__main__":
    forget_one_by_one(Path(sys.argv[1]))
