"""Files with another value of one parameter, and a right checksum: they load and refit, or are refused by its name."""

from __future__ import annotations

import math
import random
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from file_catalogue import NUMBERS as NUMBER_ROWS
from file_catalogue import classifiers, key_of
from hammemo import FileError, MemoryClassifier, MemoryRegressor, load, save
from hammemo.files.descriptions import parse_key_digest
from hammemo.kernels import Suffixes
from hammemo.memories import Exact, Hashed
from hammemo.stores import Digests
from hammemo.votes import LogLinear, Mixture
from mutated_files import PARAMETERS, parameter_places, split_file, with_parameter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGE = 2**16
"""Numbers from here on may be right parameters, such as of buckets, and ask for more memory than a test should take."""

UNDER_LAYOUT = ("trees", "trees hashed", "log-linear exact", "mixture", "digests, key=", "paper", "sessions", "ranges")


EXTRA = ("auto", "named vote", "numbers", "numbers within bounds", "rows and digests")
NAMES = (*UNDER_LAYOUT, *EXTRA)


def make_models() -> dict[str, Any]:
    """Return models with each kind of part, and models of numbers."""
    every = classifiers()
    models: dict[str, Any] = {name: every[name] for name in UNDER_LAYOUT}
    rows = [list(row) for row in zip("abcab" * 12, "xyz" * 20, strict=True)]
    firsts = [row[0] for row in rows]
    targets = [row[1] * row[2] for row in NUMBER_ROWS]
    models["auto"] = MemoryClassifier().fit(rows, firsts)
    weighed = MemoryClassifier(vote="log-linear", class_weight={"a": 2.0})
    models["named vote"] = weighed.fit(rows, firsts)
    models["numbers"] = MemoryRegressor().fit(NUMBER_ROWS, targets)
    models["numbers within bounds"] = MemoryRegressor(bounds=(-200, None)).fit(NUMBER_ROWS, targets)
    digested = MemoryClassifier("positional", Exact(), "sum", keep=Digests("auto"))
    models["rows and digests"] = digested.fit(rows, [row[1] for row in rows])
    return models


class File(NamedTuple):
    """The bytes of a file, and why its model cannot be refitted; None where it can."""

    data: bytes
    refusal: str | None


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, File]:
    path = tmp_path_factory.mktemp("files") / "model"
    made = {}
    for name, model in make_models().items():
        save(model, path)
        made[name] = File(path.read_bytes(), explain_refit(load(path, key=key_of(name))))
    return made


def mutations(data: bytes) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the way to each parameter, and each other value for it."""
    for way in parameter_places(split_file(data)[1]):
        for value in PARAMETERS:
            yield way, value


def explain_refit(model: Any) -> str | None:
    """Return why a model cannot be refitted; None where it can."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model.refit()
        except (ValueError, TypeError) as error:
            return str(error)
    return None


def check_mutation(name: str, file: File, way: tuple[Any, ...], value: Any, path: Path) -> bool:
    """Fail unless a mutated file is refused by the name of the parameter, or can be refitted and saved.

    Return whether it can.
    """
    path.write_bytes(with_parameter(file.data, way, value))
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    try:
        model = load(path, key=key_of(name))
    except FileError as error:
        check_words(str(error), way, value, path)
        return False
    if not is_number or abs(value) < LARGE:
        assert explain_refit(model) in (None, file.refusal), (name, way, value)
        save(model, path)
        about = split_file(path.read_bytes())[1]
        is_keyed = parse_key_digest(about) is not None  # a refit with other digests may drop the key
        load(path, key=key_of(name) if is_keyed else None)
    return True


def check_words(words: str, way: tuple[Any, ...], value: Any, path: Path) -> None:
    """Fail unless the words of an error name the file, the parameter and the value."""
    assert str(path) in words
    assert "\n" not in words
    assert len(words) < 1000
    if isinstance(value, float) and not math.isfinite(value):
        assert "its header holds" in words  # no place of a file holds such a number
        return
    if way[0] != "params":  # of a fitted part, its arrays may be found wrong first
        return
    assert any(part in words for part in way[1:]), (way, value, words)
    is_hidden = way[-1] in ("key", "sites")  # an error does not show a key, and of sites the wrong one alone
    if isinstance(value, (int, float, str)) and not isinstance(value, bool) and not is_hidden:
        # Two parameters that do not go together are named as they are: memory='gaussian' as Gaussian().
        assert str(value).lower() in words.lower(), (way, value, words)


@pytest.mark.parametrize("name", NAMES)
def test_a_mutated_parameter_is_refused_by_name_or_can_be_refitted(
    name: str, files: dict[str, File], tmp_path: Path
) -> None:
    rng = random.Random(NAMES.index(name))
    file = files[name]
    n_loaded = 0
    for way, value in rng.sample([*mutations(file.data)], 25):
        n_loaded += check_mutation(name, file, way, value, tmp_path / "mutated")
    assert n_loaded < 25  # some are refused


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_mutated_parameter_is_refused_by_name_or_can_be_refitted(
    name: str, files: dict[str, File], tmp_path: Path
) -> None:
    n_loaded = 0
    n_refused = 0
    for way, value in mutations(files[name].data):
        if check_mutation(name, files[name], way, value, tmp_path / "mutated"):
            n_loaded += 1
        else:
            n_refused += 1
    assert n_loaded > 0
    assert n_refused > 0


HASHED = {"buckets": 2, "reserved": 1, "key": None}
AUTO = {"budget": 1, "order": 1, "seconds": None}

WRONG: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("auto", ("params", "vote"), "median", "vote is not valid: vote='median' is not known"),
    ("auto", ("params", "memory"), 3, "memory is not valid"),
    ("auto", ("params", "kernel"), "suffixes:9", "kernel is not valid: .*k=9"),
    ("auto", ("params", "keep"), "some", "keep is not valid"),
    ("auto", ("params", "keep"), -1, "keep is not valid"),
    ("auto", ("params", "missing"), "drop", "missing is not valid"),
    ("auto", ("params", "numeric"), "numbers", "numeric is not valid: numeric='numbers'"),
    ("auto", ("params", "numeric"), [3], "numeric is not valid: .* the column 3"),
    ("auto", ("params", "numeric"), [0], "numeric is not valid.*Column 0 holds names"),
    ("auto", ("params", "class_weight"), [["a", -1]], "class_weight is not valid"),
    ("auto", ("params", "random_state"), "a", "random_state is not valid: 'a' is not a seed"),
    ("log-linear exact", ("params", "vote", "params", "steps"), 0, "vote is not valid: steps=0"),
    ("log-linear exact", ("params", "vote", "params", "ridge"), -2.0, "vote is not valid: ridge=-2.0"),
    ("log-linear exact", ("params", "vote", "params", "smoothing"), [0], "vote is not valid: smoothing"),
    ("log-linear exact", ("params", "vote", "params", "weights"), [1], "vote is not valid: .*weights"),
    ("digests, key=", ("params", "memory", "params", "key"), {"secret": True}, "memory is not valid: .* secret key"),
    ("mixture", ("params", "vote", "params", "discount"), 2, "vote is not valid: discount=2"),
    ("trees hashed", ("params", "memory", "params", "buckets"), 0, "memory is not valid: buckets=0"),
    ("trees hashed", ("params", "vote"), "mixture", "vote is not valid: .*Mixture.* exact counts"),
    ("paper", ("params", "d"), 0, "memory is not valid: d=0"),
    ("paper", ("params", "d"), 2**40, "memory is not valid: d="),
    ("paper", ("params", "vote"), "log-linear", "vote is not valid: .*LogLinear.* rows of counts"),
    ("paper", ("params", "distribution"), "flat", "memory is not valid: distribution='flat'"),
    ("numbers", ("params", "missing"), 1, "missing is not valid"),
    ("numbers", ("params", "keep"), "digests", "keep is not valid"),
    ("numbers", ("params", "numeric"), [7], "numeric is not valid"),
    ("numbers", ("params", "random_state"), 0.5, "random_state is not valid: 0.5 is not a seed"),
    ("numbers", ("params", "random_state"), True, "random_state is not valid: True is not a seed"),
    ("numbers", ("params", "bounds"), [1.0, 0.0], r"bounds is not valid: bounds=\[1.0, 0.0\]"),
    ("numbers", ("params", "bounds"), "low", "bounds is not valid: bounds='low'"),
    ("auto", ("params", "keep"), {"class": "Digests", "params": {"rows": "x", "key": None}}, "keep is not valid"),
    ("auto", ("params", "memory"), {"class": "Hashed", "params": {**HASHED, "buckets": []}}, "memory is not valid"),
    ("auto", ("params", "kernel"), {"class": "Suffixes", "params": {"k": 2, "base": []}}, "kernel is not valid: base="),
    ("auto", ("params", "kernel"), {"class": "Suffixes", "params": {"k": {}, "base": 1}}, "parameter kernel__k is not"),
    ("auto", ("params", "kernel"), {"class": "AutoSites", "params": {**AUTO, "seconds": "x"}}, "kernel is .* seconds="),
]


@pytest.mark.parametrize(("name", "way", "value", "words"), WRONG)
def test_wrong_parameters_are_named(
    name: str, way: tuple[Any, ...], value: Any, words: str, files: dict[str, File], tmp_path: Path
) -> None:
    (tmp_path / "wrong").write_bytes(with_parameter(files[name].data, way, value))
    with pytest.raises(FileError, match=words):
        load(tmp_path / "wrong", key=key_of(name))


def test_a_huge_parameter_costs_nothing(tmp_path: Path) -> None:
    rows = [["a", "b", "c"]] * 30 + [["d", "e", "f"]] * 30
    model = MemoryClassifier(Suffixes(2), Hashed(4, 2), "sum").fit(rows, ["x"] * 30 + ["y"] * 30)
    save(model, tmp_path / "model")
    data = (tmp_path / "model").read_bytes()
    for part, name in (("memory", "buckets"), ("memory", "reserved"), ("kernel", "base")):
        (tmp_path / "huge").write_bytes(with_parameter(data, ("params", part, "params", name), 2**20 - 1))
        assert load(tmp_path / "huge").predict(rows[:1]).tolist() == ["x"]
    (tmp_path / "huge").write_bytes(with_parameter(data, ("params", "kernel", "params", "k"), 2**30))
    with pytest.raises(FileError, match="kernel is not valid: k="):
        load(tmp_path / "huge")


def test_a_model_with_wrong_parameters_is_not_written(tmp_path: Path) -> None:
    rows = [["a", "b"]] * 30 + [["c", "d"]] * 30
    model = MemoryClassifier(vote=LogLinear(steps=3)).fit(rows, ["x"] * 30 + ["y"] * 30)
    for wrong in ({"vote__steps": 0}, {"memory": "large"}, {"keep": "some"}, {"vote": Mixture(ridge=-1)}):
        changed = MemoryClassifier(vote=LogLinear(steps=3)).fit(rows, ["x"] * 30 + ["y"] * 30).set_params(**wrong)
        with pytest.raises(FileError, match=f"cannot be saved: {next(iter(wrong)).partition('__')[0]} is not valid"):
            save(changed, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    save(model, tmp_path / "model")
    number = MemoryRegressor(keep=0).set_params(keep="auto").fit([[1.0], [2.0]], [1, 2]).set_params(keep=0)
    with pytest.raises(FileError, match="cannot be saved: keep is not valid"):
        save(number, tmp_path / "numbers")
