r"""Model files: one safetensors file holds all that a model knows, and loading it runs nothing.

**What is in a file.** The arrays of the model's canonical state are the tensors. All else (parameters, sites, seed,
layout) is one JSON text in the header's metadata. Classes are named, and a name stands for one of a few classes listed
here: nothing is imported, evaluated or unpickled. The file itself, its checksum and how it is written are in
:mod:`hammemo.files.archive`.

**Forgery.** Therefore nothing that a file declares is believed. Every array has its type, shape, order and range
checked against the parameters and the other arrays before anything is allocated that a declared number could make
large; arrays are views of the file's bytes and are widened only when used. Whatever is wrong raises `FileError`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.integers import narrow
from hammemo.files.archive import Archive, FileError, explained, sealed, whole_lengths, write
from hammemo.kernels import Decaying, Joined, PositionalHamming, SiteKernel, SkipPairs, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, Ledgered, Memory, Tiered
from hammemo.memories.exact.readers import DenseCounts, SparseCounts
from hammemo.memories.gaussian.readers import FusedGaussian, TwoStageGaussian
from hammemo.memories.hashed.readers import HashedTables
from hammemo.memories.label_counts import Frame
from hammemo.memories.secret_keys import secret_digest
from hammemo.memories.tiered import TieredTables
from hammemo.models.classifiers import MemoryClassifier
from hammemo.models.memo import MeMoClassifier
from hammemo.models.predictor import Predictor
from hammemo.votes import LogLinear, Mean, Sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.tokens.vocabulary import Vocabulary
    from hammemo.votes import Vote

FORMAT: Final = 1
"""The number of the format that `save` writes. A change of what a file means gets a new number."""

MOST_NOTES: Final = 64
"""The most notes a file may have; a name has 1 to 64 characters, a text at most `LONGEST_NOTE`."""

LONGEST_NOTE: Final = 4096
"""The most characters of one note."""


def _registry(*classes: type) -> dict[str, type]:
    return {cls.__name__: cls for cls in classes}


_CLASSIFIERS: Final = _registry(MemoryClassifier, MeMoClassifier)
_PARTS: Final = {
    "kernel": _registry(PositionalHamming, SiteKernel, Decaying, Suffixes, SkipPairs, Joined),
    "memory": _registry(Exact, Gaussian, Hashed, Ledgered, Tiered),
    "vote": _registry(Sum, Mean, LogLinear),
}
_INNER: Final[dict[Any, tuple[str, ...]]] = {Ledgered: ("memory",), Tiered: ("sketch", "exact")}
"""Parameters of memories that are memories."""
_COMPILED: Final = _registry(SparseCounts, DenseCounts, FusedGaussian, TwoStageGaussian, HashedTables, TieredTables)


def save(
    model: MemoryClassifier | Predictor, path: str | os.PathLike[str], *, notes: Mapping[str, str] | None = None
) -> None:
    """Write a model to a file, so that at every moment the path holds the old file or the new one, whole.

    A secret key is not written; whoever loads the file supplies it. A `random_state` that is a generator is written as
    the seed that `fit` drew from it.

    Parameters
    ----------
    model : MemoryClassifier, MeMoClassifier or Predictor
        A fitted classifier, which goes on learning after `load`; or what its `compile` returned, for serving only.
    path : str or path
        Where to; an existing file is replaced and its permissions are kept.
    notes : mapping of str to str, optional
        Short texts that are kept with the model and change nothing in it, such as where its examples came from; at most
        64, each with a name of letters, digits, ``-`` and ``_``. `read_notes` returns them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier, load, save
    >>> clf = MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(clf, Path(folder) / "model.safetensors")
    ...     again = load(Path(folder) / "model.safetensors")
    >>> again.partial_fit([["c", "e"]], ["z"]).predict([["c", "d"], ["a", "b"]]).tolist()
    ['y', 'x']
    """
    if isinstance(model, Predictor):
        arrays, about = _predictor_parts(model)
    elif isinstance(model, MemoryClassifier):
        check_is_fitted(model)
        arrays, about = _classifier_parts(model)
    else:
        raise TypeError(
            f"save takes a fitted MemoryClassifier or a compiled Predictor, not {model!r}. Of a Rolling model, save "
            "its estimator_."
        )
    if notes:
        about["notes"] = _checked_notes(dict(notes))
    start = {"checksum": "0" * 64, "format": FORMAT, "version": version("hammemo")}
    text = json.dumps({**start, **about}, separators=(",", ":"), allow_nan=False)
    tensors = {name: np.require(array, requirements="C") for name, array in arrays.items()}
    write(os.path.realpath(path), sealed(tensors, text))


def load(path: str | os.PathLike[str], *, key: bytes | None = None, verify: bool = True) -> Any:
    """Return the model in a file that `save` wrote. A classifier goes on learning; the file is never changed by that.

    Parameters
    ----------
    path : str or path
    key : bytes, optional
        The secret key of a `Hashed` memory that has one.
    verify : bool
        Whether to read the whole file, compare its checksum and check all that is in it. Without that the arrays stay
        on the disk and are memory-mapped, and only shapes are checked: for large files that you know to be yours and
        whole. An exact memory then answers from the disk, reading the rows that a query touches.

    Raises
    ------
    FileError
        If the file is damaged, is not a hammemo model, has a format that this version does not know, or needs a key.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import Hashed, MemoryClassifier, load, save
    >>> secret = bytes(range(32))
    >>> clf = MemoryClassifier(memory=Hashed(64, key=secret)).fit([["a", "b"], ["c", "d"]], ["x", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(clf.compile(), Path(folder) / "model.safetensors")
    ...     predictor = load(Path(folder) / "model.safetensors", key=secret)
    >>> predictor(["c", "d"])
    'y'
    """
    with explained(path):
        return _restored(Archive(path, verify=verify), key, trusted=not verify)


def read_notes(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the notes that were saved with a model, empty where there are none; the model is not restored.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier, save
    >>> from hammemo.files.models import read_notes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf = MemoryClassifier().fit([["a"], ["b"]], ["x", "y"])
    ...     save(clf, Path(folder) / "model.safetensors", notes={"source": "letters.csv"})
    ...     read_notes(Path(folder) / "model.safetensors")
    {'source': 'letters.csv'}
    """
    with explained(path):
        return _stored_notes(Archive(path, verify=False).about)


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a file says about itself, and whether its checksum is right; the model is not restored.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import Exact, MemoryClassifier, save
    >>> from hammemo.files.models import inspect
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(MemoryClassifier(memory=Exact()).fit([["a"], ["b"]], ["x", "y"]), Path(folder) / "model.safetensors")
    ...     facts = inspect(Path(folder) / "model.safetensors")
    >>> facts["kind"], facts["memory"], facts["labels"], facts["examples"], facts["checksum_ok"]
    ('classifier', 'Exact()', 2, 2, True)
    """
    with explained(path):
        archive = Archive(path, verify=False)
        about, stored = archive.about, StoredArrays(archive.arrays, trusted=True)
        counts = stored.whole_numbers("label_counts", (None,), below=2**53)
        fitted: dict[str, Any] = {"vote": about.get("vote")}
        if about.get("kind") == "classifier":
            fitted = _field(about, "fitted", dict)
        groups: Counter[str] = Counter()
        for array_name, array in sorted(archive.arrays.items()):
            groups[array_name.split(".")[0]] += array.nbytes
        return {
            **{entry: about.get(entry) for entry in ("format", "version", "kind", "class")},
            **{part: _shown(fitted.get(part)) for part in _PARTS if part in fitted},
            "context_length": about.get("n_features_in"),
            "sites": len(_field(_field(about, "sites", dict), "positions", list)),
            "labels": len(counts),
            "examples": int(counts.sum(dtype=np.uint64)),
            "label_dtype": about.get("label_dtype"),
            "seed": about.get("seed"),
            "columns": _field({"feature_names_in": None, **about}, "feature_names_in", list, type(None)),
            "notes": _stored_notes(about),
            "needs_key": _stored_digest(about) is not None,
            "fingerprint": about.get("fingerprint"),
            "bytes": {"file": len(archive.data), **groups},
            "checksum": archive.checksum,
            "checksum_ok": archive.checksum == archive.digest(),
        }


# ---------------------------------------------------------------- writing


def _classifier_parts(model: MemoryClassifier) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    memory = model.memory_
    if len(set(_key_digests(memory.layout()))) > 1:
        raise FileError("The model has two different secret keys, and load() takes one: use the same key for both.")
    if _CLASSIFIERS.get(type(model).__name__) is not type(model):
        raise FileError(f"A {type(model).__name__} cannot be saved: only {' and '.join(_CLASSIFIERS)} have a format.")
    params: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if name == "random_state" and not isinstance(value, (int, np.integer, type(None))):
            params[name] = memory.seed
        elif name in _PARTS and not isinstance(value, (str, type(None))):
            params[name] = _part_description(name, value, memory)
        else:
            params[name] = _plain(name, value)
    names = getattr(model, "feature_names_in_", None)
    about = {
        "kind": "classifier",
        "class": type(model).__name__,
        "params": params,
        "fitted": {name: _part_description(name, getattr(model, f"{name}_"), memory) for name in _PARTS},
        **_common(model.sites_, model.label_dtype_),
        "feature_names_in": None if names is None else [str(name) for name in names],
        "seed": memory.seed,
        "layout": memory.layout(),
        "fingerprint": memory.fingerprint(),
    }
    declared = narrow(memory.labels.find(memory.declared))
    return {**memory.state(), "declared": declared, **_vote_arrays(model.vote_)}, about


def _predictor_parts(model: Predictor) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    compiled = model.compiled
    if _COMPILED.get(type(compiled).__name__) is not type(compiled):
        raise FileError(f"A predictor of {type(compiled).__name__} cannot be saved: only {', '.join(_COMPILED)}.")
    arrays, description = compiled.stored()
    about = {
        "kind": "predictor",
        "class": type(compiled).__name__,
        "description": description,
        "vote": _part_description("vote", model.vote),
        **_common(model.sites, model.label_dtype_),
    }
    frame = Frame(model.sites, compiled.labels, compiled.label_counts)
    return {**frame.arrays(), **arrays, **_vote_arrays(model.vote)}, about


def _vote_arrays(vote: Vote) -> dict[str, NDArray[Any]]:
    return {f"vote.{name}": array for name, array in vote.state().items()}


def _common(sites: Sites, label_dtype: np.dtype[Any]) -> dict[str, Any]:
    return {
        "n_features_in": sites.h,
        "sites": {"positions": [list(site) for site in sites.positions], "weights": sites.weights.tolist()},
        "label_dtype": label_dtype.str,
    }


def _part_description(slot: str, part: Any, fitted: Memory | None = None) -> dict[str, Any]:
    """Return the class and the parameters of a kernel, a memory or a vote, a secret left out."""
    cls = type(part)
    if _PARTS[slot].get(cls.__name__) is not cls:
        raise FileError(f"{slot}={part!r} cannot be saved: only {', '.join(_PARTS[slot])} have a format.")
    params: dict[str, Any] = {}
    for name, value in part.get_params(deep=False).items():
        if isinstance(value, Memory):  # a memory inside another: fitted, it has the same name with an underscore
            params[name] = _part_description("memory", value, getattr(fitted, f"{name}_", None))
        elif isinstance(part, Joined):
            params[name] = [_part_description("kernel", kernel) for kernel in value]
        elif value is not None and name == getattr(part, "secret", None):
            if getattr(fitted, name, None) != value:
                raise FileError(
                    f"The {name} of memory= is not that of the fitted memory. Undo set_params({slot}__{name}=...)."
                )
            params[name] = {"secret": True}
        else:
            params[name] = _plain(f"{slot}__{name}", value)
    return {"class": cls.__name__, "params": params}


def _plain(name: str, value: Any) -> Any:
    """Return a parameter as JSON has it: a number, a string, a truth value, None, or a list of these."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        value = value.tolist()
    if isinstance(value, (list, tuple, range)):
        return [_plain(name, entry) for entry in value]
    raise FileError(
        f"{name}={value!r} cannot be saved: parameters in a file are finite numbers, strings, None, or lists of these."
    )


# ---------------------------------------------------------------- describing, checked


def _field(about: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """Return an entry of the description, of exactly one of these types."""
    if name not in about or type(about[name]) not in kinds:
        raise ValueError(f"its description has no proper {name}")
    return about[name]


def _exactly(about: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in set(about) ^ set(names):
        raise ValueError(f"its description {'has an unknown entry' if name in about else 'lacks'} {name}")


def _stored_notes(about: Mapping[str, Any]) -> dict[str, str]:
    return _checked_notes(_field(about, "notes", dict)) if "notes" in about else {}


def _checked_notes(notes: dict[Any, Any]) -> dict[str, str]:
    """Return notes that are few, short and well named, or refuse them."""
    if len(notes) > MOST_NOTES:
        raise ValueError(f"A file holds at most {MOST_NOTES} notes, not {len(notes)}: leave some out.")
    for name, text in notes.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name, re.ASCII):
            raise ValueError(f"A note cannot be named {str(name)[:80]!r}: use 1 to 64 letters, digits, '-' and '_'.")
        if type(text) is not str or len(text) > LONGEST_NOTE:
            raise ValueError(f"The note {name!r} is no string of at most {LONGEST_NOTE} characters: shorten it.")
    return notes


# ---------------------------------------------------------------- restoring

_START: Final = ("checksum", "format", "version", "kind", "class", "n_features_in", "sites", "label_dtype")


def _unannotated(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if name != "notes"}


def _restored(archive: Archive, key: bytes | None, *, trusted: bool) -> MemoryClassifier | Predictor:
    about = archive.about
    number = _field(about, "format", int)
    if number != FORMAT:
        raise FileError(
            f"The file has format {number}; this version of hammemo reads format {FORMAT}. Install a newer version."
        )
    kind = _field(about, "kind", str)
    _field(about, "version", str)
    _stored_notes(about)
    _check_key(_stored_digest(about), key)
    if kind == "classifier":
        return _classifier(archive, key, trusted=trusted)
    if kind == "predictor":
        return _predictor(archive, key, trusted=trusted)
    raise ValueError(f"it holds a {kind!r}, which is not known")


def _stored_digest(about: Mapping[str, Any]) -> str | None:
    """Return the digest of the secret key, or None where there is none."""
    place = about.get("layout" if about.get("kind") == "classifier" else "description")
    digests = _key_digests(place) if isinstance(place, dict) else []
    if any(not isinstance(digest, str) for digest in digests) or len(set(digests)) > 1:
        raise ValueError("the digest of its key is no string, or there are several")
    return digests[0] if digests else None


def _key_digests(layout: Mapping[str, Any]) -> list[Any]:
    """Return the digests of the secret keys in a layout, those of memories inside others too."""
    return [value for name, value in layout.items() if name.split(".")[-1] == "key" and value is not None]


def _check_key(digest: str | None, key: bytes | None) -> None:
    if digest is None and key is not None:
        raise FileError("This model has no secret key: leave out key=.")
    if digest is not None and key is None:
        raise FileError("This model has a secret key, which is not in the file: pass it as load(path, key=...).")
    if key is not None and (not isinstance(key, bytes) or digest != secret_digest(key)):
        raise FileError("key= is not the secret key that this model was made with: pass the same bytes.")


def _classifier(archive: Archive, key: bytes | None, *, trusted: bool) -> MemoryClassifier:
    about, arrays = archive.about, dict(archive.arrays)
    _exactly(_unannotated(about), (*_START, "params", "fitted", "feature_names_in", "seed", "layout", "fingerprint"))
    cls = _known(_CLASSIFIERS, about)
    params = _field(about, "params", dict)
    _exactly(params, _parameter_names(cls))
    _field(params, "random_state", int, type(None))
    model: MemoryClassifier = cls(**{name: _parameter(name, value, key) for name, value in params.items()})
    fitted = _field(about, "fitted", dict)
    _exactly(fitted, _PARTS)
    kernel, memory, vote = (_part(slot, fitted[slot], key) for slot in _PARTS)
    sites = _sites(about)
    _check_kernel(kernel, sites)
    declared = StoredArrays({"declared": arrays.pop("declared", np.empty(0))}).ascending("declared")
    if len(declared) and int(declared[-1]) >= len(arrays.get("label_counts", ())):
        raise ValueError("it declares a label that it does not hold")
    of_vote = {name: arrays.pop(name) for name in list(arrays) if name.startswith("vote.")}
    _restore_vote(vote, StoredArrays(of_vote, trusted=trusted), sites)
    memory.restore(arrays, sites, _field(about, "seed", int), declared, trusted=trusted)
    if memory.layout() != about["layout"] or memory.fingerprint() != about["fingerprint"]:
        raise ValueError("its layout is not the one it declares")
    model.kernel_, model.memory_, model.vote_, model.sites_ = kernel, memory, vote, sites
    model.n_features_in_ = sites.h
    model.label_dtype_ = _label_dtype(about, memory.labels)
    if _field(about, "feature_names_in", list, type(None)) is not None:
        model.feature_names_in_ = _feature_names(about, sites.h)
    return model


def _predictor(archive: Archive, key: bytes | None, *, trusted: bool) -> Predictor:
    about = archive.about
    _exactly(_unannotated(about), (*_START, "description", "vote"))
    cls: Any = _known(_COMPILED, about)
    vote, sites = _part("vote", about["vote"], None), _sites(about)
    arrays = dict(archive.arrays)
    stored_vote = {name: arrays.pop(name) for name in list(arrays) if name.startswith("vote.")}
    stored = StoredArrays(arrays, trusted=trusted)
    frame = Frame.from_arrays(sites, stored)
    _restore_vote(vote, StoredArrays(stored_vote, trusted=trusted), sites)
    compiled = cls.restored(frame, stored, _field(about, "description", dict), key)
    stored.finish()
    return Predictor(compiled, _label_dtype(about, frame.labels), sites, vote)


def _restore_vote(vote: Vote, stored: StoredArrays, sites: Sites) -> None:
    vote.restore(stored.part("vote"), sites)
    stored.finish()


def _known(registry: Mapping[str, type], about: Mapping[str, Any]) -> Any:
    name = _field(about, "class", str)
    if name not in registry:
        raise ValueError(f"it names a {name[:80]!r}, which is not one of {', '.join(registry)}")
    return registry[name]


def _parameter(name: str, value: Any, key: bytes | None) -> Any:
    if name in _PARTS and isinstance(value, dict):
        return _part(name, value, key)
    _check_plain(value)
    return value


def _part(slot: str, description: Any, key: bytes | None) -> Any:
    """Return the kernel, the memory or the vote of a description."""
    if not isinstance(description, dict):
        raise ValueError(f"its {slot} is not described")
    _exactly(description, ("class", "params"))
    cls, params = _known(_PARTS[slot], description), dict(_field(description, "params", dict))
    _exactly(params, _parameter_names(cls))
    for name, value in params.items():
        if value == {"secret": True} and name == getattr(cls, "secret", None):
            params[name] = key
        elif value is not None and name in _INNER.get(cls, ()):
            params[name] = _part("memory", value, key)
        elif cls is Joined and isinstance(value, list):
            params[name] = [_part("kernel", kernel, None) for kernel in value]
        else:
            _check_plain(value)
    return cls(**params)


@cache
def _parameter_names(cls: Any) -> tuple[str, ...]:
    return tuple(cls._get_param_names())


def _check_plain(value: Any) -> None:
    if isinstance(value, list):
        for entry in value:
            _check_plain(entry)
    elif isinstance(value, (int, float)) and not -(2.0**64) < value < 2.0**64:
        raise ValueError("a parameter is too large a number")
    elif not isinstance(value, (int, float, str, type(None))):
        raise ValueError("a parameter is no number, string, truth value, None or list of these")


def _sites(about: Mapping[str, Any]) -> Sites:
    h, described = _field(about, "n_features_in", int), _field(about, "sites", dict)
    _exactly(described, ("positions", "weights"))
    positions, weights = _field(described, "positions", list), _field(described, "weights", list)
    if not 1 <= h < 2**31 or any(type(weight) is not float for weight in weights):
        raise ValueError("its sites have no proper length or weights")
    sites = SiteKernel([whole_lengths(site) for site in positions], weights).resolve(h)
    if [list(site) for site in sites.positions] != positions:
        raise ValueError("its sites do not list their positions in ascending order")
    return sites


def _check_kernel(kernel: SiteKernel, sites: Sites) -> None:
    """Refuse sites that are not the kernel's; nothing is made of the declared h before it is known to be small."""
    if type(kernel) is SiteKernel and not isinstance(kernel.sites, list):
        raise ValueError("its kernel has no list of sites")
    if kernel.least_sites(sites.h) > len(sites.positions):
        raise ValueError("its kernel has more sites than the file declares")
    resolved = kernel.resolve(sites.h)
    if resolved.positions != sites.positions or not np.array_equal(resolved.weights, sites.weights):
        raise ValueError("its sites are not those of its kernel")


def _label_dtype(about: Mapping[str, Any], labels: Vocabulary) -> np.dtype[Any]:
    """Return the type of `classes_`, which must be able to hold the labels."""
    name = _field(about, "label_dtype", str)
    if not re.fullmatch(r"\|O|\|b1|\|[iu]1|[<>][iu][248]|[<>]f[248]|[<>]U[0-9]{1,7}", name, re.ASCII):
        raise ValueError(f"labels cannot be of type {name[:80]!r}")
    dtype: np.dtype[Any] = np.dtype(name)
    n_numbers = len(labels) - len(labels.strings)
    if (len(labels.strings) and (n_numbers or dtype.kind not in "OU")) or (n_numbers and dtype.kind == "U"):
        raise ValueError(f"its labels cannot be of type {name}")
    if dtype.kind in "iub" and len(labels):
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if len(labels.floats) or int(labels.ints[0]) < low or int(labels.ints[-1]) > high:
            raise ValueError(f"its labels do not fit in the type {name}")
    return dtype


def _feature_names(about: Mapping[str, Any], h: int) -> NDArray[Any]:
    names = about["feature_names_in"]
    if len(names) != h or any(type(name) is not str for name in names):
        raise ValueError(f"it names {len(names)} features, but contexts have {h} tokens")
    return np.array(names, dtype=object)


def _shown(part: Any) -> str:
    """Return a described part as one would write it."""
    if not isinstance(part, dict) or not isinstance(part.get("params"), dict):
        return "?"
    params = (f"{name}={'<secret>' if isinstance(v, dict) else repr(v)}" for name, v in part["params"].items())
    return f"{part.get('class')}({', '.join(params)})"
