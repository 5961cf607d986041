"""Kernels, memories and votes have one name each, in Python, on the command line, on the server and in plans."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier
from hammemo.cli.app import app
from hammemo.cli.console import UsageError
from hammemo.cli.model_options import parse_part
from hammemo.kernels import Suffixes
from hammemo.planning import plan
from hammemo.tasks.labels.names import AUTO, KERNELS, NAMES, VOTES, Names
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import Malformed
from hammemo_server.edits.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.quick

X = np.arange(24).reshape(6, 4) % 5
Y = X[:, 0] % 2
EVERY_NAME = [(kind, name) for kind, names in NAMES.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), EVERY_NAME)
def test_every_name_is_known_everywhere(kind: str, name: str) -> None:
    given: dict[str, Any] = {"vote": "sum", kind: name}
    if name == "mixture":
        given["memory"] = "exact"
    fitted = MemoryClassifier(**given).fit(X, Y)
    made = parse_part(kind, name)
    if name == AUTO:
        assert made == AUTO
    else:
        assert type(made) is type(getattr(fitted, f"{kind}_"))
        assert NAMES[kind].name_of(made) == name
    if name != "gaussian":  # no server keeps it
        Settings.from_client({"columns": 4, kind: name}, Limits())
    if kind == "kernel":
        assert plan(X, Y, budget="1 MiB", kernel=name).estimator.fit(X, Y) is not None


@pytest.mark.parametrize("names", NAMES.values(), ids=list(NAMES))
def test_a_wrong_name_is_refused_everywhere_with_all_names(names: Names[Any]) -> None:
    kind = names.kind
    wrong: dict[str, Any] = {kind: "wrong"}
    everywhere: list[Callable[[], Any]] = [
        lambda: MemoryClassifier(**{kind: "wrong"}).fit(X, Y),  # type: ignore[arg-type]
        lambda: parse_part(kind, "wrong"),
        lambda: Settings.from_client({"columns": 4, kind: "wrong"}, Limits()),
    ]
    if kind != "memory":
        everywhere.append(lambda: plan(X, Y, budget="1 MiB", **wrong))
    for refuse in everywhere:
        with pytest.raises((ValueError, UsageError, Malformed), match=re.escape(f"{kind}='wrong'")) as caught:
            refuse()
        for name in names:
            assert re.search(rf"'{name}[':]", str(caught.value)), (name, str(caught.value))


def test_numbers_follow_a_name_and_kernels_are_joined() -> None:
    for text in ("suffixes:2", " suffixes:2 "):
        assert repr(KERNELS.make(text)) == repr(Suffixes(2))
    clf = MemoryClassifier("suffixes:2+skip-pairs:3", vote="sum").fit(X, Y)
    assert clf.sites_.positions == (Suffixes(2) + KERNELS.make("skip-pairs:3")).resolve(4).positions
    for wrong in ("suffixes:x", "suffixes:2:3:4", "positional:1", "pairs+", "", "auto+pairs", "positions"):
        with pytest.raises(ValueError, match="is not known"):
            KERNELS.make(wrong)
    with pytest.raises(ValueError, match="is not known"):
        VOTES.make("sum+mean")
    with pytest.raises(ValueError, match="vote='auto' is no single vote"):
        VOTES.make("auto")
    with pytest.raises(Malformed, match="at most 200 characters"):
        Settings.from_client({"columns": 4, "kernel": "+".join(["pairs"] * 99)}, Limits())


def test_help_and_docstring_list_every_name() -> None:
    shown = " ".join(
        re.sub(r"[│\n]", " ", CliRunner().invoke(app, ["fit", "--help"], env={"COLUMNS": "300"}).stdout).split()
    )
    for _, name in EVERY_NAME:
        assert re.search(rf"\b{name}\b", shown), name
        assert f'"{name}"' in str(MemoryClassifier.__doc__)
