"""Model files with classes of another package: stored by name, made only if the caller of `load` trusts them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from file_catalogue import QUERIES, X, Y
from hammemo import FileError, MemoryClassifier, Predictor, load, save
from hammemo._arrays.checked import StoredArrays
from hammemo.files import inspect
from hammemo.files.descriptions import format_part
from hammemo.files.registry import BUILT_IN, Registry, name_in_file
from hammemo.kernels import PositionalHamming, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.memories.exact.reader import SparseCounts
from hammemo.votes import Mean
from mutated_files import join_file, seal, split_file

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.kernels import SiteKernel
    from hammemo.memories import Memory

pytestmark = pytest.mark.quick

SECRET = bytes(range(20))


FORMS_OF_ONE_CLASS = ("FusedGaussian", "TwoStageGaussian")


class OwnKernel(Suffixes):
    """A kernel of another package."""


class BothKernels(PositionalHamming):
    """A kernel with a parameter that is a kernel."""

    def __init__(self, inner: SiteKernel | None = None, others: Any = ()) -> None:
        self.inner = inner
        self.others = others


class OwnCounts(SparseCounts):
    """A compiled form of another package."""


class OwnMemory(Exact):
    """A memory of another package, with a parameter and a compiled form of its own."""

    def __init__(self, note: str = "") -> None:
        self.note = note

    def compile(self, form: str | None = None, vocabulary: Any = None, threads: int = 1) -> Any:
        arrays, description = super().compile(form, vocabulary, threads).pack()
        return OwnCounts.from_packed(self.frame(), StoredArrays(arrays), description)


class OwnSketch(Hashed):
    """A sketch of another package."""

    def __init__(self, note: str = "", key: bytes | None = None) -> None:
        super().__init__(4, 2, key)
        self.note = note


class OwnWrapper(Tiered):
    """A memory of another package around a memory."""

    def __init__(self, sketch: Memory | None = None, level: int = 0) -> None:
        super().__init__(sketch)
        self.level = level


class OwnVote(Mean):
    """A vote of another package."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def divisor(self, reader: Any, sites: Any) -> Any:
        return super().divisor(reader, sites) * self.factor


OWN: list[type] = [OwnKernel, BothKernels, OwnCounts, OwnMemory, OwnSketch, OwnWrapper, OwnVote]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


MODELS: dict[str, tuple[Any, Any, Any]] = {
    "OwnKernel": (OwnKernel(2), Exact(), "sum"),
    "OwnMemory": (None, OwnMemory("red"), "mean"),
    "OwnVote": (None, Hashed(4, 2), OwnVote(2.5)),
    "OwnWrapper": (None, OwnWrapper(Hashed(4, 2), level=7), "sum"),
    "OwnSketch in two tiers": (None, Tiered(OwnSketch("blue")), "sum"),
    "OwnSketch in OwnWrapper": (OwnKernel(3), OwnWrapper(OwnSketch("green")), OwnVote(0.5)),
    "OwnKernel in a sum": (PositionalHamming() + OwnKernel(2), Exact(), "sum"),
    "OwnKernel in BothKernels": (BothKernels(OwnKernel(2), [Suffixes(1), OwnKernel(3)]), Exact(), "sum"),
}


@pytest.mark.parametrize("verify", [True, False], ids=["verified", "mapped"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_trusted_classes_comes_back(name: str, verify: bool, path: Path) -> None:
    clf = MemoryClassifier(*MODELS[name]).fit(X, Y)
    save(clf, path)
    again = load(path, verify=verify, trust=OWN)
    assert repr(again) == repr(clf)
    assert [type(part) for part in (again.kernel_, again.memory_, again.vote_)] == [
        type(part) for part in (clf.kernel_, clf.memory_, clf.vote_)
    ]
    assert again.memory_.state_bytes() == clf.memory_.state_bytes()
    np.testing.assert_array_equal(again.class_scores(QUERIES), clf.class_scores(QUERIES))
    again.partial_fit(X[:1], Y[:1]).forget(X[:1], Y[:1])
    assert again.memory_.state_bytes() == clf.memory_.state_bytes()
    with pytest.raises(FileError, match=r"test_registry:(Own|Both)\w+'.*load\(path, trust=\["):
        load(path, verify=verify)


def test_a_compiled_form_of_somebody_else_comes_back(path: Path) -> None:
    clf = MemoryClassifier(memory=OwnMemory(), vote=OwnVote(2.0)).fit(X, Y)
    save(clf.compile(), path)
    again = load(path, trust=OWN)
    assert isinstance(again, Predictor)
    assert type(again.compiled) is OwnCounts
    np.testing.assert_array_equal(again.class_scores(QUERIES), clf.class_scores(QUERIES))
    for trust, missing in (([], "OwnCounts"), ([OwnCounts], "OwnVote"), ([OwnVote], "OwnCounts")):
        with pytest.raises(FileError, match=missing):
            load(path, trust=trust)


def test_a_secret_key_goes_to_a_trusted_class(path: Path) -> None:
    clf = MemoryClassifier(memory=OwnWrapper(OwnSketch(key=SECRET)), vote="sum").fit(X, Y)
    save(clf, path)
    assert SECRET not in path.read_bytes()
    again = load(path, trust=[OwnWrapper, OwnSketch], key=SECRET)
    assert again.memory_.sketch_.key == SECRET
    assert again.memory_.state_bytes() == clf.memory_.state_bytes()
    with pytest.raises(FileError, match=r"load\(path, key="):
        load(path, trust=[OwnWrapper, OwnSketch])


class OtherSecret(Exact):
    """A memory whose secret has a name that `load` cannot pass."""

    secret = "word"

    def __init__(self, word: bytes = b"") -> None:
        self.word = word


def test_what_a_file_cannot_hold_is_refused(path: Path) -> None:
    with pytest.raises(FileError, match="name it key, not word"):
        save(MemoryClassifier(memory=OtherSecret(), vote="sum").fit(X, Y), path)
    for trust in ([3], ["Exact"], [int], [Exact()], [MemoryClassifier]):
        with pytest.raises(TypeError, match="trust= lists"):
            load(path, trust=trust)  # type: ignore[arg-type]
    twin = type("OwnKernel", (Suffixes,), {"__module__": __name__, "__qualname__": "OwnKernel"})
    with pytest.raises(ValueError, match="two classes with the name test_registry:OwnKernel"):
        load(path, trust=[OwnKernel, twin])
    with pytest.raises(TypeError, match="int is not a kernel"):
        name_in_file("kernel", int)
    assert not list(path.parent.iterdir())


def forged(path: Path, place: tuple[str, ...], name: str) -> None:
    """Save an exact model whose description names another class at one place, with a right checksum."""
    save(MemoryClassifier(PositionalHamming(), Exact(), OwnVote()).fit(X, Y), path)
    header, about, body = split_file(path.read_bytes())
    entry = about
    for step in place:
        entry = entry[step]
    entry["class"] = name
    path.write_bytes(seal(join_file(header, about, body)))


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "antigravity:fly", "hammemo:Exact", ":", ""])
@pytest.mark.parametrize("place", [(), ("fitted", "memory"), ("params", "kernel"), ("fitted", "vote")], ids=str)
def test_no_name_in_a_file_is_imported(name: str, place: tuple[str, ...], path: Path) -> None:
    forged(path, place, name)
    before = set(sys.modules)
    with pytest.raises(FileError):
        load(path, trust=OWN)
    assert set(sys.modules) == before


def test_a_trusted_class_is_made_only_in_its_own_place(path: Path) -> None:
    forged(path, ("fitted", "memory"), "test_registry:OwnVote")
    with pytest.raises(FileError, match="which is not one of Exact"):
        load(path, trust=OWN)
    forged(path, (), "test_registry:OwnMemory")
    with pytest.raises(FileError, match="which is not one of MemoryClassifier"):
        load(path, trust=OWN)


@pytest.mark.parametrize(("kind", "names"), [("regressor", "MemoryRegressor"), ("keep", "Digests")])
def test_no_error_asks_to_trust_a_class_that_cannot_be_trusted(kind: str, names: str) -> None:
    with pytest.raises(ValueError, match=f"it names a 'shop:Own', which is not one of {names}") as refusal:
        Registry().find(kind, "shop:Own")
    assert "trust" not in str(refusal.value)
    with pytest.raises(FileError, match=r"load\(path, trust=\["):
        Registry().find("memory", "shop:Own")


class ReadsNothing:
    """Has the methods of a compiled form, and does not derive from one."""

    def __init__(self, compiled: Any) -> None:
        self.labels = compiled.labels
        self.pack = compiled.pack


def test_a_predictor_of_no_compiled_form_is_not_saved(path: Path) -> None:
    predictor = MemoryClassifier(memory=Exact(), vote="sum").fit(X, Y).compile()
    predictor.compiled = ReadsNothing(predictor.compiled)  # type: ignore[assignment]
    with pytest.raises(FileError, match="A predictor of ReadsNothing cannot be saved: its class does not derive from"):
        save(predictor, path)
    assert not path.exists()


@pytest.mark.parametrize(
    "value", [{}, {"class": 3, "params": {}}, {"class": "Exact"}, {"class": "os:system", "params": {}}, 1e300, [[{}]]]
)
def test_forged_parameters_of_a_trusted_class_are_refused(value: Any, path: Path) -> None:
    save(MemoryClassifier(memory=OwnMemory(), vote="sum").fit(X, Y), path)
    header, about, body = split_file(path.read_bytes())
    about["params"]["memory"]["params"]["note"] = value
    path.write_bytes(seal(join_file(header, about, body)))
    with pytest.raises(FileError):
        load(path, trust=OWN)


def test_trust_changes_nothing_for_classes_of_hammemo(path: Path) -> None:
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit(X, Y)
    save(clf, path)
    assert load(path, trust=OWN).memory_.state_bytes() == clf.memory_.state_bytes()
    registry = Registry(OWN)
    for kind, classes in BUILT_IN.items():
        for name, cls in classes.items():
            if name not in FORMS_OF_ONE_CLASS:
                assert name == name_in_file(kind, cls)
            assert registry.find(kind, name) is cls


def test_the_two_forms_of_a_gaussian_memory_are_named_by_their_objects(path: Path) -> None:
    clf = MemoryClassifier(memory=Gaussian(d=8), vote="sum").fit(X, Y)
    for form, name in zip(("fused", "two-stage"), FORMS_OF_ONE_CLASS, strict=True):
        save(clf.compile(form), path)
        assert inspect(path)["class"] == name
        assert load(path).compiled.name_in_files == name


def test_inspect_names_classes_of_somebody_else_without_trusting_them(path: Path) -> None:
    save(MemoryClassifier(memory=OwnWrapper(Hashed(4, 2, SECRET), level=2), vote="sum").fit(X, Y), path)
    inner = "Hashed(buckets=4, key=<secret>, reserved=2)"
    assert inspect(path)["memory"] == f"test_registry:OwnWrapper(level=2, sketch={inner})"
    described = {"class": "Joined", "params": {"kernels": [{"class": "A", "params": {}}]}}
    assert format_part(described) == "Joined(kernels=[A()])"
