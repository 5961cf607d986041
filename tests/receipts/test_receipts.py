"""Receipts and key files: what they say, what they refuse, and that no byte of them can be changed."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import stat
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography")

from hammemo import MemoryClassifier, NotStoredError
from hammemo.edits.digests import PARTS
from hammemo.receipts import (
    Keys,
    NamedKey,
    ReceiptFile,
    RowHash,
    SignedReceipt,
    change_keys,
    new_key_file,
    read_keys,
    recorded,
)
from hammemo.receipts.backup_keys import BackupKey
from hammemo.receipts.receipt import Receipt, hash_digest
from hammemo.receipts.strict_json import canonical

if TYPE_CHECKING:
    from pathlib import Path

KEYS = Keys(bytes(range(32)), bytes(range(32, 64)))


def table(n: int = 200, seed: int = 0) -> tuple[list[list[str]], list[str]]:
    rng = np.random.default_rng(seed)
    X = [[f"secret-{value}" for value in row] for row in rng.integers(0, 3, (n, 3))]
    return X, [f"label-{row[0][-1]}" for row in X]


def one_receipt(request: str = "2026-17", previous: SignedReceipt | None = None) -> SignedReceipt:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    with recorded(clf, KEYS, request, previous=previous) as record:
        clf.forget(X[:20], y[:20]).refit()
    return record.signed


@pytest.fixture(scope="module")
def signed() -> SignedReceipt:
    return one_receipt()


# ---------------------------------------------------------------- what a receipt says


def test_a_receipt_says_what_was_done() -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    before = clf.digest()
    last = [place for place, label in enumerate(y) if label == "label-2"]
    with recorded(clf, KEYS, "2026-17") as record:
        clf.forget([X[place] for place in last], [y[place] for place in last]).refit()
    receipt = record.signed.receipt
    assert (receipt.rows, receipt.labels, receipt.request) == (len(last), 1, "2026-17")
    assert (receipt.version_before, receipt.version_after) == (1, 3)
    assert (receipt.layout_refitted, receipt.weights_refitted, receipt.previous) == (True, True, None)
    assert receipt.parts_after == clf.digest(parts=True)
    assert receipt.digest_after == clf.digest()
    assert receipt.digest_before == hash_digest(KEYS, before) != before
    assert set(receipt.libraries) == {"hammemo", "numpy", "scipy", "scikit-learn", "python"}
    assert record.signed.verify()
    assert record.signed.verify(KEYS.public_key)
    assert not record.signed.verify(Keys.new().public_key)


@pytest.mark.parametrize(
    ("steps", "refitted"),
    [
        (["forget"], (False, False)),
        (["forget", "weights"], (False, True)),
        (["forget", "refit"], (True, True)),
        (["refit", "forget"], (False, False)),
        (["forget", "refit", "forget"], (False, False)),
        (["refit"], (True, True)),
    ],
)
def test_a_receipt_says_what_was_fitted_after_the_last_removal(steps: list[str], refitted: tuple[bool, bool]) -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    with recorded(clf, KEYS, "r") as record:
        for place, step in enumerate(steps):
            if step == "forget":
                clf.forget(X[place : place + 1], y[place : place + 1])
            else:
                clf.refit("weights" if step == "weights" else "all")
    receipt = record.signed.receipt
    assert (receipt.layout_refitted, receipt.weights_refitted) == refitted
    assert receipt.rows == steps.count("forget")


def test_a_given_layout_is_not_refitted() -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    shard = clf.empty_like().partial_fit(X, y)
    with recorded(shard, KEYS, "r") as record:
        shard.forget(X[:1], y[:1]).refit()
    assert (record.signed.receipt.layout_refitted, record.signed.receipt.weights_refitted) == (False, True)


def test_beyond_the_budget_the_layout_is_not_refitted() -> None:
    X, y = table()
    clf = MemoryClassifier(keep=5).fit(X, y)
    with recorded(clf, KEYS, "r") as record:
        clf.forget(X[:1], y[:1]).refit()
    assert (record.signed.receipt.layout_refitted, record.signed.receipt.weights_refitted) == (False, True)


def numbers(n: int = 300) -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(n, 3)) + 0.123456
    return X, np.where(X[:, 0] + X[:, 1] > 0.2, "secret-yes", "secret-no")


def test_numbers_and_digests_give_receipts() -> None:
    X, y = numbers()
    for keep in ("auto", "auto+digests"):
        clf = MemoryClassifier(keep=keep).fit(X, y)
        with recorded(clf, KEYS, "r") as record:
            clf.forget(X[:30], y[:30]).refit()
        assert record.signed.receipt.digest_after == clf.digest()
        assert record.signed.receipt.rows == 30
        assert repr(X[0, 0]) not in record.signed.encode().decode()
        assert b"secret" not in record.signed.encode()


def test_documents_give_receipts() -> None:
    visits = [["secret-tea", "cup", "pot"], ["pen", "ink"], ["secret-tea", "pot"]] * 9
    shop = MemoryClassifier().fit_stream(visits, h=3, short="pad")
    with recorded(shop, KEYS, "r") as record:
        shop.forget_stream(visits[:1]).refit()
    receipt = record.signed.receipt
    assert (receipt.rows, receipt.labels, receipt.layout_refitted) == (3, 0, True)
    assert receipt.digest_after == MemoryClassifier().fit_stream(visits[1:], h=3, short="pad").digest()
    assert b"secret" not in record.signed.encode()


def test_rows_and_labels_never_appear(signed: SignedReceipt) -> None:
    assert b"secret" not in signed.encode()
    assert b"label-" not in signed.encode()


def test_a_block_that_fails_gives_no_receipt() -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    with pytest.raises(NotStoredError), recorded(clf, KEYS, "r") as record:
        clf.forget([["never", "was", "there"]], ["label-0"])
    with pytest.raises(ValueError, match="read it after the block"):
        _ = record.signed


def test_what_is_no_removal_gets_no_receipt() -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    with pytest.raises(ValueError, match="Nothing was forgotten"), recorded(clf, KEYS, "r"):
        pass


LEARNING: dict[str, Any] = {
    "partial_fit": lambda clf, X, y: clf.partial_fit(X[:8], y[:8]),
    "learn_one": lambda clf, X, y: clf.learn_one(X[0], y[0]),
    "fit": lambda clf, X, y: clf.fit(X[10:], y[10:]),
    "merge": lambda clf, X, y: clf.merge(clf.empty_like().partial_fit(X[:8], y[:8])),
    "unmerge": lambda clf, X, y: clf.unmerge(clf.empty_like().partial_fit(X[10:12], y[10:12])),
    "refit other rows": lambda clf, X, y: clf.refit(rows=(X[:50], y[:50])),
}


@pytest.mark.parametrize("way", LEARNING)
def test_a_block_that_learns_is_refused(way: str) -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    with recorded(clf, KEYS, "17") as record:
        clf.forget(X[:10], y[:10])
        before = clf.digest()
        with pytest.raises(ValueError, match="learn and merge before or after"):
            LEARNING[way](clf, X, y)
    assert clf.digest() == before
    assert record.signed.receipt.rows == 10
    LEARNING[way](clf, X, y)  # after the block it may


def test_documents_are_not_learnt_in_a_block_and_are_counted() -> None:
    visits = [["tea", "cup", "pot"], ["pen", "ink"], ["tea", "pot"]] * 9
    shop = MemoryClassifier().fit_stream(visits, h=3, short="pad")
    with recorded(shop, KEYS, "1") as record:
        shop.forget_stream(visits[:2])
        with pytest.raises(ValueError, match="learn and merge before or after"):
            shop.partial_fit_stream(visits[:2])
    assert record.signed.receipt.rows == 5


def test_copies_may_learn_while_a_receipt_is_made() -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    with recorded(clf, KEYS, "17") as record:
        clf.forget(X[:3], y[:3]).forget_one(X[3], y[3])
        for copied in (clf.snapshot(), clf + clf, copy.deepcopy(clf), pickle.loads(pickle.dumps(clf))):  # noqa: S301
            copied.partial_fit(X[:9], y[:9])
        with pytest.raises(ValueError, match="being made already"), recorded(clf, KEYS, "18"):
            pass
    assert record.signed.receipt.rows == 4
    clf.partial_fit(X[:4], y[:4])


def test_a_receipt_has_a_keyed_hash_of_its_rows() -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    with recorded(clf, KEYS, "17") as record:
        clf.forget(X[1:3], y[1:3]).forget_one(X[0], y[0]).refit()
    rows = [[*row, label] for row, label in zip(X[:3], y[:3], strict=True)]
    assert record.signed.receipt.rows_hash == RowHash(KEYS).plus(rows).of_request("17")


@pytest.mark.parametrize("request_id", ["", "two\nlines", "x" * 201, "\ud800"])
def test_an_id_is_a_line_of_text_and_refused_before_the_model_changes(request_id: str) -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    before = clf.digest()
    with pytest.raises(ValueError, match="request is not a line"), recorded(clf, KEYS, request_id):
        clf.forget(X[:1], y[:1])
    assert clf.digest() == before


# ---------------------------------------------------------------- receipts from outside


def test_no_byte_of_a_receipt_can_be_changed(signed: SignedReceipt) -> None:
    line, rng = signed.encode(), random.Random(0)
    assert SignedReceipt.decode(line) == signed
    for place in range(len(line)):
        changed = bytearray(line)
        changed[place] ^= 1 << rng.randrange(8)
        try:
            found = SignedReceipt.decode(bytes(changed))
        except ValueError as error:
            assert str(error)  # noqa: PT017
        else:
            assert not found.verify(signed.public_key), place
    for cut in range(0, len(line), 37):
        with pytest.raises(ValueError, match="not JSON"):
            SignedReceipt.decode(line[:cut])


def test_another_text_of_the_same_receipt_is_refused(signed: SignedReceipt) -> None:
    held = json.loads(signed.encode())
    for text in (json.dumps(held), json.dumps(held, indent=1), signed.encode().decode() + " "):
        with pytest.raises(ValueError, match="canonical form"):
            SignedReceipt.decode(text.encode())
    twice = signed.encode().replace(b'{"public_key"', b'{"public_key":"","public_key"', 1)
    with pytest.raises(ValueError, match="canonical form"):
        SignedReceipt.decode(twice)


ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**63,
    2**200,
    0.5,
    "",
    "x",
    "\x00",
    "é" * 300,
    "0" * 64,
    [],
    [1],
    {},
    {"a": 1},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, held in inside for place in places(held, (*path, name)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = replaced(value[path[0]], path[1:], new)
    return copied


def test_every_other_value_is_refused_with_a_sentence_or_not_signed(signed: SignedReceipt) -> None:
    held = json.loads(signed.encode())
    tried = 0
    for path in places(held):
        for odd in ODD:
            mutant = canonical(replaced(held, path, odd))
            if mutant == signed.encode():
                continue
            tried += 1
            try:
                found = SignedReceipt.decode(mutant)
            except ValueError as error:
                assert len(str(error)) > 10  # noqa: PT017
            else:
                assert not found.verify(), (path, odd)
    assert tried > 500


def test_missing_and_additional_entries_are_refused(signed: SignedReceipt) -> None:
    held = json.loads(signed.encode())
    for path in places(held):
        inside = held
        for name in path:
            inside = inside[name]
        if isinstance(inside, dict) and path[-1:] != ("libraries",):
            with pytest.raises(ValueError, match="does not have the entries"):
                SignedReceipt.decode(canonical(replaced(held, path, inside | {"more": 1})))
            for name in inside:
                fewer = {other: value for other, value in inside.items() if other != name}
                with pytest.raises(ValueError, match="does not have the entries"):
                    SignedReceipt.decode(canonical(replaced(held, path, fewer)))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_a_sentence(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        SignedReceipt.decode(text)


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000, b"NaN", b'{"a":NaN}', b" " * (2**22 + 1)]
)
def test_texts_that_are_made_to_hurt_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"not JSON|more than"):
        SignedReceipt.decode(text)


def test_what_could_not_be_read_again_is_not_signed(signed: SignedReceipt) -> None:
    facts = {name: getattr(signed.receipt, name) for name in signed.receipt.__dataclass_fields__}
    for name, odd in {"rows": -1, "request": "", "time": "today", "parts_after": dict.fromkeys(PARTS, "0")}.items():
        with pytest.raises(ValueError, match=r"is not"):
            Receipt(**(facts | {name: odd})).sign(KEYS)


# ---------------------------------------------------------------- files of receipts


def written(path: Path, n: int = 3) -> ReceiptFile:
    file, previous = ReceiptFile(path), None
    for number in range(n):
        previous = one_receipt(f"r{number}", previous)
        file.add(previous, lambda: None)
    return file


def test_receipts_are_a_chain(tmp_path: Path) -> None:
    file = written(tmp_path / "receipts.jsonl")
    one, two, three = file.read()
    assert (one.receipt.previous, two.receipt.previous, three.receipt.previous) == (None, one.hash, two.hash)
    lines = file.path.read_bytes().splitlines(keepends=True)
    file.path.write_bytes(b"".join(lines[1:]))  # old ones may go
    assert file.read() == [two, three]
    for left_out in (lines[::2], lines[::-1], [lines[0], lines[2], lines[1]], [*lines, lines[2]]):
        file.path.write_bytes(b"".join(left_out))
        with pytest.raises(ValueError, match="does not name the receipt before it"):
            file.read()
    file.path.write_bytes(b"".join(lines)[:-1])
    with pytest.raises(ValueError, match="does not end with a whole line"):
        file.read()
    file.path.write_bytes(b"")
    with pytest.raises(ValueError, match="holds no receipt"):
        file.read()
    file.path.write_bytes(lines[0] + b"{}\n")
    with pytest.raises(ValueError, match=r"line 2, is not a receipt: it does not have the entries"):
        file.read()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("when", ["before the model", "after the model", "after the line"])
def test_a_process_that_is_killed_loses_no_receipt_and_leaves_no_false_one(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table()
    clf, file = MemoryClassifier().fit(X, y), ReceiptFile(tmp_path / "receipts.jsonl")
    before = clf.digest()
    with recorded(clf, KEYS, "r") as record:
        clf.forget(X[:20], y[:20]).refit()
    model = [before]

    def write_model() -> None:
        if when == "before the model":
            raise Killed
        model[0] = clf.digest()
        if when == "after the model":
            raise Killed

    with monkeypatch.context() as patch:
        if when == "after the line":
            append = file._append
            patch.setattr(file, "_append", lambda signed: (append(signed), (_ for _ in ()).throw(Killed))[0])
        with pytest.raises(Killed):
            file.add(record.signed, write_model)
    last = ReceiptFile(file.path).settle(model[0], KEYS)
    assert last == (None if when == "before the model" else record.signed)
    assert [path.name for path in tmp_path.iterdir()] == ([] if last is None else ["receipts.jsonl"])
    assert file.settle(model[0], KEYS) == last


def test_a_receipt_that_waits_for_another_model_is_not_dropped(tmp_path: Path) -> None:
    file = ReceiptFile(tmp_path / "receipts.jsonl")
    with pytest.raises(Killed):
        file.add(one_receipt(), lambda: (_ for _ in ()).throw(Killed))
    with pytest.raises(ValueError, match="waits for another model"):
        file.settle("0" * 64, KEYS)
    assert (tmp_path / "receipts.jsonl.pending").exists()


# ---------------------------------------------------------------- key files


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_key_file_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    old = os.umask(0)
    try:
        keys = new_key_file(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        keys = change_keys(path, lambda held: held.with_key("backup", NamedKey.new("2027-01-01T00:00:00Z")))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(old)
    assert read_keys(path) == keys
    assert keys.named["backup"].expires == "2027-01-01T00:00:00Z"
    with pytest.raises(FileExistsError, match="replaced keys are lost"):
        new_key_file(path)
    path.chmod(0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        read_keys(path)


def test_a_change_that_fails_leaves_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = new_key_file(path)

    def fail(_: Keys) -> Keys:
        raise Killed

    with pytest.raises(Killed):
        change_keys(path, fail)
    assert read_keys(path) == keys
    assert sorted(file.name for file in tmp_path.iterdir()) == ["keys.json", "keys.json.lock"]


def test_every_damaged_key_file_is_refused_and_no_secret_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = Keys.new().with_key("bucket 1", NamedKey.new())
    text, rng, secret = keys.encode(), random.Random(0), keys.signing.hex()
    path.write_bytes(text)
    path.chmod(0o600)
    assert read_keys(path) == keys
    for place in range(len(text)):
        changed = bytearray(text)
        changed[place] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:
            found = read_keys(path)
        except ValueError as error:
            assert "is not a key file" in str(error)  # noqa: PT017
            assert secret not in str(error)  # noqa: PT017
        else:
            assert found != keys or bytes(changed) == text.rstrip()
    assert secret not in repr(keys)
    assert keys.named["bucket 1"].secret.hex() not in repr(keys)


def test_a_name_that_is_no_line_is_refused_for_what_it_is() -> None:
    """Names of keys and of backups are told apart: each refusal says which one is wrong."""
    backup = BackupKey.new(30, "model", "database")
    with pytest.raises(ValueError, match="the name of a backup is not a line"):
        Keys.decode(Keys.new().with_backup("two\nlines", backup).encode())
    with pytest.raises(ValueError, match="the name of a key is not a line"):
        Keys.decode(Keys.new().with_key("two\nlines", NamedKey.new()).encode())


def test_a_keyed_digest_confirms_no_guess() -> None:
    digest = "0" * 64
    assert hash_digest(KEYS, digest) == hash_digest(KEYS, digest)
    assert hash_digest(KEYS, digest) != hash_digest(Keys.new(), digest)
    assert KEYS.hash_with_key(b"a", b"one") != KEYS.hash_with_key(b"a", b"two")


def test_without_cryptography_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    clf = MemoryClassifier().fit(X, y)
    before = clf.digest()
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'hammemo\[erase\]'"), recorded(clf, KEYS, "r"):
        clf.forget(X[:1], y[:1])
    assert clf.digest() == before
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'hammemo\[erase\]'"):
        new_key_file(tmp_path / "keys.json")
    assert not list(tmp_path.iterdir())
