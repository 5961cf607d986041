"""Edits that clients send to a served model in tests of crashes.

An edit is a function of its client and number alone. Each has an example of its own, so that one
that is lost or applied twice can be counted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hammemo.stores.digest_store import DigestStore
from hammemo.tokens.contexts import Examples
from hammemo_server.edits.operations import Edit, ExampleRows

if TYPE_CHECKING:
    from hammemo.estimators.classifiers import MemoryClassifier

COLUMNS = 4
SETTINGS: dict[str, Any] = {"columns": COLUMNS, "vote": "sum"}


def is_refused(number: int) -> bool:
    """Return whether an edit is to be refused: it forgets what was never learnt."""
    return number % 29 == 17


def rows_of(client: int, number: int) -> list[list[Any]]:
    """Return the contexts of an edit that learns."""
    n_rows = 1 + number % 3
    return [[f"c{client}", number, f"t{(number * 7 + i) % 13}", i % 3] for i in range(n_rows)]


def labels_of(client: int, rows: list[list[Any]]) -> list[Any]:
    """Return the labels of contexts."""
    return [f"l{(client + row[3]) % 3}" for row in rows]


def edit_of(client: int, number: int) -> Edit:
    """Return an edit. Of four, three learn and the last forgets what the second learned.

    Every other one that forgets also learns.
    """
    op = f"{client}-{number}"
    if is_refused(number):
        return Edit(op, "forget", [[f"c{client}", number, "never", 0]], ["l0"])
    if number % 4 != 3 or is_refused(number - 2):
        rows = rows_of(client, number)
        return Edit(op, "learn", rows, labels_of(client, rows))
    gone = rows_of(client, number - 2)
    if number % 8 == 3:
        return Edit(op, "forget", gone, labels_of(client, gone))
    rows = rows_of(client, number)
    old = ExampleRows(gone, labels_of(client, gone))
    return Edit(op, "apply", rows, labels_of(client, rows), gone=old, position=op)


def count_expected_examples(done: list[int]) -> Counter[tuple[tuple[Any, ...], str]]:
    """Count how often each example is to be stored once client k has sent ``done[k]`` edits."""
    counts: Counter[tuple[tuple[Any, ...], str]] = Counter()
    for client, n in enumerate(done):
        for number in range(n):
            edit = edit_of(client, number)
            if not is_refused(number):
                for row, label in zip(edit.rows, edit.labels, strict=True):
                    counts[tuple(row), str(label)] += -1 if edit.kind == "forget" else 1
                for row, label in zip(edit.gone_rows.rows, edit.gone_rows.labels, strict=True):
                    counts[tuple(row), str(label)] -= 1
    return counts


def count_acknowledged(done: list[int]) -> int:
    """Return how many edits these are, without the refused ones."""
    return sum(not is_refused(number) for n in done for number in range(n))


def compare_with_history(model: MemoryClassifier, done: list[int]) -> dict[str, Any]:
    """Count the examples that are missing or too many, and compare bytes with a fresh model."""
    counts = count_expected_examples(done)
    examples = list(counts)
    queries = Examples.of([list(row) for row, _ in examples], [label for _, label in examples])
    assert isinstance(model.state.store, DigestStore)
    stored = model.state.store.holds(queries).tolist()
    differences = [int(n) - counts[example] for n, example in zip(stored, examples, strict=True)]
    rows = [list(row) for (row, _), n in counts.items() for _ in range(n)]
    labels = [label for (_, label), n in counts.items() for _ in range(n)]
    fresh = model.empty_like().partial_fit(rows, labels)
    return {
        "lost": sum(-d for d in differences if d < 0),
        "twice_or_back": sum(d for d in differences if d > 0),
        "examples": len(rows),
        "same_bytes": fresh.memory_.state_bytes() == model.memory_.state_bytes(),
    }
