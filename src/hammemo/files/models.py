r"""Model files: one safetensors file holds all that a model knows, and loading it runs nothing.

**What is in a file.** The arrays of the model's canonical state are the tensors. All else (parameters, sites, seed,
layout) is one JSON text in the header's metadata, the description (:mod:`hammemo.files.descriptions`). Classes are
named, and a name stands for one of a few classes listed in :mod:`hammemo.files.registry` or passed by the caller:
nothing is imported, evaluated or unpickled. The file itself and its checksum are in :mod:`hammemo.files.archive`, how
it is written in :mod:`hammemo.files.atomic`.

**Forgery.** Therefore nothing that a file declares is believed. Every array has its type, shape, order and range
checked against the parameters and the other arrays before anything is allocated that a declared number could make
large; arrays are views of the file's bytes and are widened only when used. Whatever is wrong raises `FileError`.
"""

from __future__ import annotations

import json
import os
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.integers import narrow
from hammemo.files import descriptions, folders
from hammemo.files.archive import Archive, FileError, refusing, sealed
from hammemo.files.atomic import write_file
from hammemo.files.descriptions import Restorer, exactly, field
from hammemo.files.locks import locked, refuse_object_storage
from hammemo.files.origins import refuse_to_undo, remember
from hammemo.files.part_files import PART_FORMAT
from hammemo.files.registry import BUILT_IN, LATER, PARTS, Registry, has_later_parts, is_built_in, name_in_file
from hammemo.files.remote import cached
from hammemo.memories.exact import Exact
from hammemo.memories.exact.parted import Parted
from hammemo.memories.label_counts import Frame
from hammemo.models.classifiers import MemoryClassifier
from hammemo.models.kept_cases import KeptCases
from hammemo.models.kept_sample import EVERYTHING, KeptSample
from hammemo.models.predictor import Predictor
from hammemo.models.settling import Choices
from hammemo.sources.formats import is_address
from hammemo.tokens.missing import check_way

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.votes import Vote

FORMATS: Final = (1, 2, 3, 4)
"""The numbers of the formats that are read. A change of what a file means gets a new number.

A file has the lowest number that says all of it: 4 where it is the head of a folder or a part in it; else 3 where a
part is "auto" or has a name that only votes had, where a part has a parameter that it did not have, or where missing
values are not tokens of their own; else 2 where it holds a hashed memory whose reserved features are known by
identities, and else 1.
"""

_NAMES_OF_FORMAT_1: Final = ("sum", "mean", "log-linear")

_MISSING: Final = LATER[MemoryClassifier]["missing"]
"""What a predictor does with missing values where its file does not say it."""

_AS_LOADED: Final = "as loaded: a file does not say why"

_START: Final = ("checksum", "format", "version", "kind", "class", "n_features_in", "sites", "label_dtype")
"""What the descriptions of classifiers and of predictors both have."""


def save(
    model: MemoryClassifier | Predictor,
    path: str | os.PathLike[str],
    *,
    notes: Mapping[str, str] | None = None,
    force: bool = False,
    parts: int | None = None,
) -> None:
    """Write a model to a file, so that at every moment the path holds the old file or the new one, whole.

    A model that is larger than memory is written to a folder, in parts (see Files in the guide): with `parts`,
    where the path is such a folder, or where the model was loaded from one. The folder changes as a whole, too.

    A model that was loaded from this file or saved to it is refused if somebody else has written the file since: saving
    would undo that. Between processes use `editing`. While another process edits the file, `save` waits for it.

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
    force : bool
        Whether to overwrite what somebody else has written since.
    parts : int, optional
        Write a folder, and cut the exact table into about so many parts. 0 writes one file. Without it, what is new in
        a model that was loaded from a folder is written beside the parts that are there; see `compact`.

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
    if not isinstance(model, (MemoryClassifier, Predictor)):
        raise TypeError(
            f"save takes a fitted MemoryClassifier or a compiled Predictor, not {model!r}. Of a Rolling model, save "
            "its estimator_."
        )
    if _is_for_folder(model, path, parts) and isinstance(model, MemoryClassifier):
        _save_folder(model, os.fspath(path), notes, parts, force=force)
        return
    now = model._now()  # one version, whatever is learnt meanwhile
    pieces = _file_pieces(now, notes)  # what cannot be saved is refused before there is a lock file
    with locked(path):
        if not force:
            refuse_to_undo(model, path)
        if vars(now) is not vars(model):  # edited meanwhile: an older version must not replace a newer one
            pieces = _file_pieces(model._now(), notes)
        write_file(path, pieces)
        remember(model, path, bytes(pieces[1]).decode())


def _is_for_folder(model: Any, path: str | os.PathLike[str], parts: int | None) -> bool:
    if parts is not None and parts < 0:
        raise ValueError(f"parts={parts!r}: a model is cut into one part or more; 0 writes one file.")
    memory = getattr(model, "memory_", None)
    in_parts = isinstance(memory, Exact) and memory.parted is not None
    wanted = bool(parts) or (parts is None and (in_parts or os.path.exists(os.path.join(path, folders.HEAD))))
    if wanted and not isinstance(memory, Exact):
        what = type(model if memory is None else memory).__name__
        raise FileError(f"A {what} cannot be written in parts to a folder, only memory=Exact() can: name a file.")
    if wanted and os.path.isfile(path):
        raise FileError(f"{os.fspath(path)} is a file, and a model in parts is a folder: name a folder, or parts=0.")
    return wanted


def _save_folder(
    model: MemoryClassifier, folder: str, notes: Mapping[str, str] | None, parts: int | None, *, force: bool
) -> None:
    """Write the parts of a model that are not in the folder yet, then its head, and delete the other parts there."""
    check_is_fitted(model)
    refuse_object_storage(folder)
    os.makedirs(folder, exist_ok=True)
    head = os.path.join(folder, folders.HEAD)
    with locked(head):
        if not force:
            refuse_to_undo(model, head)
        now = model._now()
        memory: Any = now.memory_._now()
        held = memory.parted or Parted.of(memory.table())
        write_head(now, folders.write_parts(held, folder, parts), folder, notes, owner=model)


def write_head(
    model: MemoryClassifier, parted: Parted, folder: str, notes: Mapping[str, str] | None, owner: Any
) -> None:
    """Replace the head of a folder, whose lock is held, and delete the parts that it no longer names."""
    head = os.path.join(folder, folders.HEAD)
    pieces = _file_pieces(model, notes, parted)
    write_file(head, pieces)
    remember(owner, head, bytes(pieces[1]).decode())
    folders.delete_others(folder, parted)


def _file_pieces(
    model: MemoryClassifier | Predictor, notes: Mapping[str, str] | None, parted: Parted | None = None
) -> list[bytes | memoryview]:
    """Return the pieces of the file of one version of a model; the second one is its checksum.

    With `parted` it is the file of a head, whose rows lie in these parts.
    """
    if isinstance(model, Predictor):
        arrays, about = _predictor_parts(model)
    else:
        check_is_fitted(model)
        arrays, about = _classifier_parts(model, parted)
    if notes:
        about["notes"] = descriptions.checked_notes(dict(notes))
    number = _format_of(model) if parted is None else PART_FORMAT
    start = {"checksum": "0" * 64, "format": number, "version": version("hammemo")}
    text = json.dumps({**start, **about}, separators=(",", ":"), allow_nan=False)
    return sealed({name: np.require(array, requirements="C") for name, array in arrays.items()}, text)


def load(
    path: str | os.PathLike[str],
    *,
    key: bytes | None = None,
    verify: bool = True,
    trust: Iterable[type] = (),
    cache: str | os.PathLike[str] | None = None,
) -> Any:
    """Return the model in a file that `save` wrote. A classifier goes on learning; the file is never changed by that.

    Of a folder, the rows of counts stay in its parts, which are mapped: a query reads what it touches.

    Parameters
    ----------
    path : str or path
        A file, or a folder; or the address of a folder on object storage, such as ``s3://bucket/model``: then a query
        fetches the pages that it touches first (needs pyarrow).
    key : bytes, optional
        The secret key of a `Hashed` memory that has one.
    verify : bool
        Whether to read the whole file, compare its checksum and check all that is in it. Without that the arrays stay
        on the disk and are memory-mapped, and only shapes are checked: for large files that you know to be yours and
        whole. An exact memory then answers from the disk, reading the rows that a query touches. Of a folder the
        head is read in any case; the pages of its parts are checked when they are first touched, or not at all.
    trust : iterable of classes
        Kernels, memories, votes and compiled forms that are not part of hammemo and that the file may hold. Their
        constructors and `restore` methods are called with what the file says; nothing else is.
    cache : str or path, optional
        Where pages of a model on object storage are kept: an empty folder, or one that an earlier call has used. By
        default they go when the process ends. It takes no more room than the model.

    Raises
    ------
    FileError
        If the file is damaged, is not a hammemo model, has a format that this version does not know, needs a key, or
        holds a class that is neither part of hammemo nor trusted.

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
    restorer = Restorer(Registry(trust), key)
    with refusing(path):
        if isinstance(path, str) and is_address(path):
            path = cached(path, folders.HEAD, cache)
        elif cache is not None:
            raise FileError(f"cache={os.fspath(cache)!r} is for a model on object storage, and {path} is none.")
        head = folders.head_of(path)
        archive = Archive(head, verify=verify or head != os.fspath(path))
        model = _restored(archive, restorer, verify=verify, folder=os.path.dirname(head))
    remember(model, head, archive.checksum)
    return model


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
    with refusing(path):
        return descriptions.stored_notes(Archive(folders.head_of(path), verify=False).about)


def _classifier_parts(
    model: MemoryClassifier, parted: Parted | None = None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    memory: Any = model.memory_._now()
    if len(set(descriptions.key_digests(memory.layout()))) > 1:
        raise FileError("The model has two different secret keys, and load() takes one: use the same key for both.")
    if not is_built_in("classifier", type(model)):
        raise FileError(
            f"A {type(model).__name__} cannot be saved: only {' and '.join(BUILT_IN['classifier'])} have a format."
        )
    params: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if name == "random_state" and not isinstance(value, (int, np.integer, type(None))):
            params[name] = memory.seed
        elif value == LATER.get(type(model), {}).get(name, NotImplemented):
            continue  # older versions can read the file
        elif name in PARTS and not isinstance(value, (str, type(None))):
            params[name] = descriptions.part_description(name, value, memory)
        else:
            params[name] = descriptions.plain(name, value)
    names = getattr(model, "feature_names_in_", None)
    about = {
        "kind": "classifier",
        "class": type(model).__name__,
        "params": params,
        "fitted": {name: descriptions.part_description(name, getattr(model, f"{name}_"), memory) for name in PARTS},
        **descriptions.common_entries(model.sites_, model.label_dtype_),
        "feature_names_in": None if names is None else [str(name) for name in names],
        "seed": memory.seed,
        "layout": memory.layout(),
        "fingerprint": memory.fingerprint(),
    }
    sample, kept = model.sample_, {}
    if sample is not None:
        about["sample"] = {"seed": sample.seed, "most": sample.most, "threshold": sample.threshold}
        if isinstance(sample, KeptCases):
            about["sample"]["of"] = "cases"
        kept = {f"sample.{name}": array for name, array in sample.state().items()}
    declared = narrow(memory.labels.find(memory.declared))
    if parted is not None:
        about["parts"] = folders.described_parts(parted)
    state = memory.state() if parted is None else folders.head_arrays(memory, parted)
    return {**state, "declared": declared, **_vote_arrays(model.vote_), **kept}, about


def _predictor_parts(model: Predictor) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    compiled = model.compiled
    try:
        name = getattr(compiled, "name_in_files", None) or name_in_file("compiled", type(compiled))
    except TypeError:
        raise FileError(
            f"A predictor of {type(compiled).__name__} cannot be saved: a compiled form needs the methods stored and "
            "restored."
        ) from None
    arrays, description = compiled.stored()
    about = {
        "kind": "predictor",
        "class": name,
        "description": description,
        "vote": descriptions.part_description("vote", model.vote),
        **descriptions.common_entries(model.sites, model.label_dtype_),
        **({} if model._missing() == _MISSING else {"missing": model._missing()}),
    }
    frame = Frame(model.sites, compiled.labels, compiled.label_counts)
    return {**frame.arrays(), **arrays, **_vote_arrays(model.vote)}, about


def _vote_arrays(vote: Vote) -> dict[str, NDArray[Any]]:
    return {f"vote.{name}": array for name, array in vote.state().items()}


def _restored(archive: Archive, restorer: Restorer, *, verify: bool, folder: str) -> MemoryClassifier | Predictor:
    about = archive.about
    number = field(about, "format", int)
    if number not in FORMATS:
        raise FileError(
            f"The file has format {number}; this version of hammemo reads formats {FORMATS[0]} to {FORMATS[-1]}. "
            "Install a newer version."
        )
    kind = field(about, "kind", str)
    field(about, "version", str)
    descriptions.stored_notes(about)
    descriptions.check_key(descriptions.stored_digest(about), restorer.key)
    if kind not in ("classifier", "predictor"):
        raise ValueError(f"it holds a {kind!r}, which is not known")
    if kind == "classifier" and "parts" in about:
        model: MemoryClassifier | Predictor = _classifier(archive, restorer, verify=verify, folder=folder)
        found = PART_FORMAT
    else:
        model = (_classifier if kind == "classifier" else _predictor)(archive, restorer, verify=verify)
        found = _format_of(model)
    if found != number:
        raise ValueError(f"it declares format {number}, but what it holds has format {found}")
    return model


def _format_of(model: MemoryClassifier | Predictor) -> int:
    if isinstance(model, Predictor):
        state = getattr(model.compiled, "file_format", 1)
        newer = has_later_parts(model.vote) or model._missing() != _MISSING
    else:
        params = {name: getattr(model, name) for name in PARTS if hasattr(model, name)}
        named = any(isinstance(value, str) and value not in _NAMES_OF_FORMAT_1 for value in params.values())
        later = any(getattr(model, name) != value for name, value in LATER.get(type(model), {}).items())
        parts = [*params.values(), model.kernel_, model.vote_]
        newer = named or later or has_later_parts(parts) or model.sample_ is not None
        state = getattr(model.memory_, "file_format", 1)
    return 3 if newer else int(state)


def _classifier(archive: Archive, restorer: Restorer, *, verify: bool, folder: str | None = None) -> MemoryClassifier:
    """Return the classifier in a file; with a folder, the file is its head."""
    about, arrays = archive.about, dict(archive.arrays)
    entries = (*_START, "params", "fitted", "feature_names_in", "seed", "layout", "fingerprint")
    entries = (*entries, *(("sample",) if "sample" in about else ()), *(("parts",) if folder is not None else ()))
    exactly(descriptions.without_notes(about), entries)
    cls = restorer.registry.find("classifier", field(about, "class", str))
    params = {**LATER.get(cls, {}), **field(about, "params", dict)}
    exactly(params, descriptions.parameter_names(cls))
    field(params, "random_state", int, type(None))
    model: MemoryClassifier = cls(**{name: restorer.parameter(name, value) for name, value in params.items()})
    check_way(model._missing())
    fitted = field(about, "fitted", dict)
    exactly(fitted, PARTS)
    kernel, memory, vote = (restorer.part(kind, fitted[kind]) for kind in PARTS)
    sites = descriptions.stored_sites(about)
    descriptions.check_kernel(kernel, sites)
    declared = StoredArrays({"declared": arrays.pop("declared", np.empty(0))}).ascending("declared")
    if len(declared) and int(declared[-1]) >= len(arrays.get("label_counts", ())):
        raise ValueError("it declares a label that it does not hold")
    _restore_vote(vote, arrays, sites, verify=verify)
    sample = _stored_sample(about, arrays, sites.h)
    seed = field(about, "seed", int)
    if folder is None:
        memory.restore(arrays, sites, seed, declared, trusted=not verify)
    elif isinstance(memory, Exact):
        opened = partial(folders.stored_parts, folder, about["parts"], sites, verify=verify)
        memory.restore_parts(arrays, sites, seed, declared, opened)
    else:
        raise ValueError("its memory is not one that lies in parts")
    if memory.layout() != about["layout"] or memory.fingerprint() != about["fingerprint"]:
        raise ValueError("its layout is not the one it declares")
    model.kernel_, model.memory_, model.vote_, model.sites_ = kernel, memory, vote, sites
    model.sample_ = sample
    model.choices_ = Choices(_AS_LOADED, _AS_LOADED, _AS_LOADED)
    model.n_features_in_ = sites.h
    model.label_dtype_ = descriptions.stored_label_dtype(about, memory.labels)
    if field(about, "feature_names_in", list, type(None)) is not None:
        model.feature_names_in_ = descriptions.stored_feature_names(about, sites.h)
    return model


def _stored_sample(about: Mapping[str, Any], arrays: dict[str, NDArray[Any]], h: int) -> KeptSample | KeptCases | None:
    """Return the sample that a file holds, checked, and take its arrays out of `arrays`; None where it holds none."""
    if "sample" not in about:
        return None
    described = field(about, "sample", dict)
    of_cases = "of" in described
    exactly(described, ("seed", "most", "threshold", "of") if of_cases else ("seed", "most", "threshold"))
    if of_cases and described["of"] != "cases":
        raise ValueError("its sample is of a kind that is not known")
    seed, most, threshold = (field(described, name, int) for name in ("seed", "most", "threshold"))
    if abs(seed) >= 2**64 or not 1 <= most < 2**53 or not 0 <= threshold <= EVERYTHING:
        raise ValueError("its sample has a seed, a size or a threshold that cannot be")
    own = {name: arrays.pop(name) for name in list(arrays) if name.startswith("sample.")}
    stored = StoredArrays(own)  # checked in any case: all of it is read
    kind = KeptCases if of_cases else KeptSample
    sample = kind(h, seed, most, threshold).restored(stored.part("sample"))
    stored.finish()
    return sample


def _predictor(archive: Archive, restorer: Restorer, *, verify: bool) -> Predictor:
    about = archive.about
    entries = {"missing": _MISSING, **descriptions.without_notes(about)}
    exactly(entries, (*_START, "description", "vote", "missing"))
    check_way(field(entries, "missing", str))
    cls: Any = restorer.registry.find("compiled", field(about, "class", str))
    vote, sites = restorer.part("vote", about["vote"]), descriptions.stored_sites(about)
    arrays = dict(archive.arrays)
    _restore_vote(vote, arrays, sites, verify=verify)
    stored = StoredArrays(arrays, trusted=not verify)
    frame = Frame.from_arrays(sites, stored)
    compiled = cls.restored(frame, stored, field(about, "description", dict), restorer.key)
    stored.finish()
    dtype = descriptions.stored_label_dtype(about, frame.labels)
    return Predictor(compiled, dtype, sites, vote, entries["missing"])


def _restore_vote(vote: Vote, arrays: dict[str, NDArray[Any]], sites: Sites, *, verify: bool) -> None:
    """Give a vote what was fitted, and take those arrays out of `arrays`."""
    own = {name: arrays.pop(name) for name in list(arrays) if name.startswith("vote.")}
    stored = StoredArrays(own, trusted=not verify)
    vote.restore(stored.part("vote"), sites)
    stored.finish()
