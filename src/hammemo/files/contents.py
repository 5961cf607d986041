r"""What a file holds of a model, and how a model is made of it again.

A model becomes arrays and a description (:mod:`hammemo.files.descriptions`). On the way back nothing that the file
declares is trusted: every array has its type, shape, order and range checked against the parameters and the other
arrays before anything is allocated that a declared number could make large.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.integers import narrow
from hammemo.edits.apply import checked_position
from hammemo.edits.digests import UNSTORED, canonical_bounds
from hammemo.edits.editing import take_state
from hammemo.edits.state import AnyState, ModelState
from hammemo.estimators.learners import Learner
from hammemo.estimators.predictor import Predictor
from hammemo.estimators.regressor import MemoryRegressor
from hammemo.files import descriptions, folders
from hammemo.files.archive import FORMAT, Archive, FileError, refusing, sealed
from hammemo.files.descriptions import ParameterError, Restorer, exactly, field, plain_fields, present, taken_part
from hammemo.files.parameters import check_label_parameters, check_number_parameters
from hammemo.files.registry import ABOVE, BUILT_IN, PARTS, Registry, is_built_in, name_in_file
from hammemo.memories.exact import InSegments, SignedSum, head_state, restore_in_segments
from hammemo.memories.gaussian import find_given_codes
from hammemo.memories.label_counts import Frame, empty_arrays
from hammemo.stores.digest_store import Digests, DigestStore
from hammemo.stores.kept import EVERYTHING, ModelStore
from hammemo.stores.kept_documents import KeptDocuments
from hammemo.stores.kept_rows import KeptRows
from hammemo.tasks.labels.choose import held_out
from hammemo.tasks.labels.layout import Choices, LabelState, Layout
from hammemo.tasks.labels.task import LABELS
from hammemo.tasks.numbers.read import TARGET_DTYPE
from hammemo.tasks.numbers.sums import NumberLayout, NumberMemory, NumberState, NumberVote
from hammemo.tasks.numbers.task import NUMBERS
from hammemo.tokens.column_evidence import packed_types, unpacked_types
from hammemo.tokens.column_schema import ColumnSchema
from hammemo.tokens.columns import ColumnKind
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.questions import QuestionForm
from hammemo.tokens.token_types import TokenTypes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hammemo._arrays.types import Array
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.features.cells import Cells

Savable: TypeAlias = Learner | Predictor
Notes: TypeAlias = "Mapping[str, str] | None"
Parts: TypeAlias = "tuple[dict[str, Array], dict[str, Any]]"
"""The arrays of a model, and its description."""

_AS_LOADED: Final = "as loaded: a file does not say why"

_START: Final = ("checksum", "format", "version", "kind", "class", "n_features_in", "sites", "label_dtype")
"""What the descriptions of classifiers and of predictors both have."""

NAMES_ONLY: Final = "names_only"
"""The entry of predictors of models without the parameter `numeric`."""

_OPTIONAL: Final = ("cells", "cutting", descriptions.FORGOT_UNCHECKED)
"""What both have where there is something to say."""


def file_pieces(model: Savable, notes: Notes, segmented: SignedSum | None = None) -> list[bytes | memoryview]:
    """Return the pieces of the file of one version of a model; the second one is its checksum.

    With `segmented` it is the file of a head, whose rows lie in these segments.
    """
    if isinstance(model, Predictor):
        arrays, about = _predictor_parts(model)
    elif isinstance(model, MemoryRegressor):
        check_is_fitted(model)
        arrays, about = _regressor_parts(model)
    else:
        check_is_fitted(model)
        arrays, about = _classifier_parts(model, segmented)
    if notes:
        about["notes"] = descriptions.checked_notes(dict(notes))
    start = {"checksum": "0" * 64, "format": FORMAT, "version": version("hammemo")}
    text = json.dumps({**start, **about}, separators=(",", ":"), allow_nan=False)
    return sealed({name: np.require(array, requirements="C") for name, array in arrays.items()}, text)


def file_bytes(model: Learner) -> bytes:
    """Return the file of a model as bytes, for another process; `from_bytes` undoes it."""
    return b"".join(file_pieces(model.now(), None))


def from_bytes(data: bytes) -> Savable:
    """Return the model in the bytes of a file, checked as `load` does; `FileError` where they are none."""
    with refusing("the model"):
        return restored(Archive.of_bytes(data), Restorer(Registry(), None), verify=True, folder="")


def _classifier_parts(model: MemoryClassifier, segmented: SignedSum | None = None) -> Parts:
    memory: Any = model.memory_.now()
    state = model.state
    kept = None if state.store is None else state.store.describe()
    if len(set(descriptions.key_digests(memory.layout(), kept or {}))) > 1:
        raise FileError("The model has two different secret keys, and load() takes one: use the same key for both.")
    if not is_built_in("classifier", type(model)):
        saved = [*BUILT_IN["classifier"], *ABOVE]
        raise FileError(f"A {type(model).__name__} cannot be saved: only {' and '.join(saved)} have a format.")
    if state.store is not None and type(state.store) not in (KeptRows, KeptDocuments, DigestStore):
        raise FileError(f"A model whose store is a {type(state.store).__name__} cannot be saved: it has no format.")
    params: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if name in UNSTORED:
            continue
        if name == "random_state" and not isinstance(value, (int, np.integer, type(None))):
            params[name] = memory.seed
        elif name in getattr(model, "given_codes", {}):
            params.update(descriptions.codes_entry(model, name, value, memory))
        elif name in PARTS and not isinstance(value, (str, type(None))):
            params[name] = descriptions.part_description(name, value, memory)
        elif isinstance(value, Digests):
            params[name] = descriptions.part_description(name, value, state.store)
        else:
            params[name] = descriptions.plain(name, value)
    _refuse_to_save(check_label_parameters, model.settings(), state)
    fitted = {name: descriptions.part_description(name, getattr(model, f"{name}_"), memory) for name in PARTS}
    about: dict[str, Any] = {"kind": "classifier", "class": type(model).__name__}
    about |= {"params": params, "fitted": fitted}
    about |= descriptions.common_entries(state.layout.sites, state.target_dtype, state.layout.cells)
    about |= {"feature_names_in": state.columns.listed(), "seed": memory.seed, "layout": memory.layout()}
    about |= {"fingerprint": memory.fingerprint(), "pinned": state.pinned, "chosen_at": state.chosen_at}
    about |= present(held_out=plain_fields(held_out(state)), cutting=plain_fields(state.cutting))
    about |= present(
        types=_packed_types(state), zones=_packed_zones(state.columns), forgot_unchecked=memory.forgot_unchecked
    )
    about |= present(stale=state.stale, position=state.position, kept=kept)
    declared = narrow(memory.labels.find(memory.declared))
    if segmented is not None:
        about["segments"] = [vars(facts) for facts in folders.facts_of(segmented)]
        stored = head_state(memory, empty_arrays(segmented.empties, memory.labels))
    else:
        stored = memory.state()
    codes = {kind: given.arrays() for kind, given in find_given_codes(memory).items()}
    cells = {} if state.layout.cells is None else state.layout.cells.arrays()
    rows = {} if state.store is None else state.store.state()
    beside = _named(vote=state.vote.state(), cells=cells, kept=rows, **codes)
    return {**stored, "declared": declared, **beside}, about


def _refuse_to_save(check: Callable[[Any, Any], None], settings: Any, state: Any) -> None:
    """Refuse to write a model with parameters that were set since it was fitted, and with which no file is loaded."""
    try:
        check(settings, state)
    except ParameterError as error:
        raise FileError(f"The model cannot be saved: {error.name} is not valid, {error.reason}") from error


def _named(**parts: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of some parts under names that begin with that of the part."""
    return {f"{part}.{name}": array for part, own in parts.items() for name, array in own.items()}


def _packed_types(state: AnyState) -> str | None:
    """Return how the values of columns came, as a file says it."""
    return None if state.columns.types is None else packed_types(state.columns.types)


def _packed_zones(columns: ColumnSchema) -> dict[str, list[int]] | None:
    """Return the zones of columns of times as a file says them: for each zone the places of its columns."""
    packed: dict[str, list[int]] = {}
    for place, zone in sorted(columns.zones.items()):
        packed.setdefault(zone, []).append(place)
    return packed or None


def _regressor_parts(model: MemoryRegressor) -> Parts:
    state = model.state
    if type(model) is not MemoryRegressor:
        raise FileError(f"A {type(model).__name__} cannot be saved: only MemoryRegressor itself has a format.")
    given = model.get_params(deep=False)
    drawn = given.pop("random_state")
    given["bounds"] = canonical_bounds(given["bounds"])
    params = {name: descriptions.plain(name, value) for name, value in given.items() if name not in UNSTORED}
    has_seed = isinstance(drawn, (int, np.integer, type(None)))
    params["random_state"] = descriptions.plain("random_state", drawn) if has_seed else state.seed
    _refuse_to_save(check_number_parameters, model.settings(), state)
    kept = None if state.store is None else state.store.describe()
    about: dict[str, Any] = {"kind": "regressor", "class": type(model).__name__}
    about |= {"params": params, "n_features_in": state.columns.n}
    about |= {"feature_names_in": state.columns.listed(), "seed": state.seed, "layout": state.layout.described()}
    about |= {"pinned": state.pinned, "chosen_at": state.chosen_at, "weighed_at": state.vote.rows}
    about |= present(types=_packed_types(state), zones=_packed_zones(state.columns))
    about |= present(stale=state.stale, position=state.position, kept=kept)
    rows = {} if state.store is None else state.store.state()
    fitted = {"layout": state.layout.arrays(), "memory": state.memory.arrays(), "vote": state.vote.arrays()}
    return _named(**fitted, kept=rows), about


def _predictor_parts(model: Predictor) -> Parts:
    compiled = model.compiled
    try:
        name = getattr(compiled, "name_in_files", None) or name_in_file("compiled", type(compiled))
    except TypeError:
        raise FileError(
            f"A predictor of {type(compiled).__name__} cannot be saved: a compiled form needs the methods stored and "
            "restored."
        ) from None
    arrays, description = compiled.pack()
    vote = descriptions.part_description("vote", model.vote)
    about: dict[str, Any] = {"kind": "predictor", "class": name, "description": description, "vote": vote}
    about |= descriptions.common_entries(model.sites, model.label_dtype_, model.cells)
    about["missing"] = model.missing
    about |= present(
        cutting=plain_fields(model.cutting_),
        forgot_unchecked=compiled.forgot_unchecked,
        feature_names_in=model.form.columns.listed(),
        names_only=not model.form.reads_tables,
        zones=_packed_zones(model.form.columns),
    )
    frame = Frame(model.sites, compiled.labels, compiled.label_counts)
    cells = {} if model.cells is None else model.cells.arrays()
    return {**frame.arrays(), **arrays, **_named(vote=model.vote.state(), cells=cells)}, about


def restored(archive: Archive, restorer: Restorer, *, verify: bool, folder: str) -> Savable:
    """Return the model in a file, checked; `folder` is where the segments lie that it may name."""
    about = archive.about
    kind = field(about, "kind", str)
    field(about, "version", str)
    descriptions.stored_notes(about)
    descriptions.check_key(descriptions.stored_digest(about), restorer.key)
    if kind == "classifier":
        return _classifier(archive, restorer, verify=verify, folder=folder)
    if kind == "predictor":
        return _predictor(archive, restorer, verify=verify)
    if kind == "regressor":
        return _regressor(archive, restorer)
    raise ValueError(f"it holds a {kind!r}, which is not known")


def _classifier(archive: Archive, restorer: Restorer, *, verify: bool, folder: str) -> MemoryClassifier:
    about, arrays = archive.about, dict(archive.arrays)
    entries = (*_START, "params", "fitted", "feature_names_in", "seed", "layout", "fingerprint")
    optional = ("held_out", "kept", "types", "zones", *_OPTIONAL, descriptions.STALE, "position", "segments", "notes")
    exactly(about, (*entries, "pinned", "chosen_at"), optional=optional)
    restorer.take_codes(arrays)
    model: MemoryClassifier = _unfitted(about, restorer)
    fitted = field(about, "fitted", dict)
    exactly(fitted, PARTS)
    kernel, memory, vote = (restorer.part(kind, fitted[kind]) for kind in PARTS)
    cells = descriptions.stored_cells(about, arrays)
    sites = descriptions.stored_sites(about, cells)
    descriptions.check_kernel(kernel, sites)
    declared = StoredArrays({"declared": arrays.pop("declared", np.empty(0))}).ascending("declared")
    if len(declared) and int(declared[-1]) >= len(arrays.get("label_counts", ())):
        raise ValueError("it declares a label that it does not hold")
    with taken_part(arrays, "vote", trusted=not verify) as fitted_vote:
        vote.restore(fitted_vote, sites)
    n_columns = sites.h if cells is None else len(cells.table_kinds)
    narrowing = None if cells is None else cells.narrowing
    width = n_columns if narrowing is None else narrowing.width
    store = _stored_store(about, arrays, width, restorer.key)
    seed = field(about, "seed", int)
    if "segments" not in about:
        memory.restore(arrays, sites, seed, declared, trusted=not verify)
    elif isinstance(memory, InSegments):
        opened = partial(folders.stored_segments, folder, about["segments"], sites, verify=verify)
        restore_in_segments(memory, arrays, sites, seed=seed, declared=declared, open_terms=opened)
    else:
        raise ValueError("its memory is not of a kind that is stored in segments")
    if memory.layout() != about["layout"] or memory.fingerprint() != about["fingerprint"]:
        raise ValueError("its layout is not the one it declares")
    if find_given_codes(memory) != restorer.codes:
        raise ValueError("it has codes that its memory does not use")
    memory.forgot_unchecked = descriptions.stored_flag(about, descriptions.FORGOT_UNCHECKED)
    if isinstance(store, DigestStore) and store.digests.total != int(memory.label_counts.sum()):
        raise ValueError("it does not have as many digests as rows")
    choices = Choices(_AS_LOADED, _AS_LOADED, _AS_LOADED, held_out=descriptions.stored_held_out(about))
    columns = _stored_columns(about, n_columns, None if cells is None else cells.table_kinds, packed=width < n_columns)
    state: LabelState = ModelState(
        task=LABELS,
        layout=Layout(kernel, sites, choices, cells),
        memory=memory,
        vote=vote,
        columns=columns,
        seed=memory.seed,
        target_dtype=descriptions.stored_label_dtype(about, memory.labels),
        store=store,
        cutting=descriptions.stored_cutting(about),
        **_stored_progress(about),
    )
    check_label_parameters(model.settings(), state)
    take_state(model, state)
    return model


def _regressor(archive: Archive, restorer: Restorer) -> MemoryRegressor:
    about, arrays = archive.about, dict(archive.arrays)
    entries = ("checksum", "format", "version", "kind", "class", "params", "n_features_in", "feature_names_in", "seed")
    optional = ("kept", "types", "zones", descriptions.STALE, "position", "notes")
    exactly(about, (*entries, "layout", "pinned", "chosen_at", "weighed_at"), optional=optional)
    model: MemoryRegressor = _unfitted(about, restorer)
    described, n = field(about, "layout", dict), field(about, "n_features_in", int)
    exactly(described, ("kinds", "center", "exponent", "last_word", "mean", "base"), optional=("narrowing",))
    exactly(field(described, "base", dict), ("n_labels", "owners", "n_ordered"))
    is_packed = "narrowing" in described and field(described, "narrowing", dict).get("kinds", "") is None
    store = _stored_store(about, arrays, 1 if is_packed else n, restorer.key)
    if store is not None and store.kept_rows is not store:
        raise ValueError("it keeps something that is not rows")
    stored = StoredArrays(arrays)
    layout = NumberLayout.restored(described, stored.part("layout"))
    seed, chosen_at, weighed_at = (field(about, name, int) for name in ("seed", "chosen_at", "weighed_at"))
    if len(layout.table_kinds) != n or abs(seed) >= 2**64 or min(chosen_at, weighed_at) < 0:
        raise ValueError("its columns, its seed or its numbers of rows are impossible")
    memory = NumberMemory.restored(layout, stored.part("memory"))
    vote = NumberVote.restored(layout, weighed_at, stored.part("vote"))
    stored.finish()
    kinds = layout.table_kinds
    columns = _stored_columns(about, n, None if set(kinds) <= {ColumnKind.NAMES} else kinds, packed=is_packed)
    state: NumberState = ModelState(
        task=NUMBERS,
        layout=layout,
        memory=memory,
        vote=vote,
        columns=columns,
        seed=seed,
        target_dtype=TARGET_DTYPE,
        store=store,
        **_stored_progress(about),
    )
    check_number_parameters(model.settings(), state)
    take_state(model, state)
    return model


def _unfitted(about: Mapping[str, Any], restorer: Restorer) -> Any:
    """Return a model with the class and the parameters of a description."""
    cls = restorer.registry.find(about["kind"], field(about, "class", str))
    params = field(about, "params", dict)
    exactly(params, *descriptions.stored_parameters(cls))
    arguments: dict[str, Any] = {}
    for name, value in params.items():
        with descriptions.naming_parameter(name, value):
            arguments[name] = restorer.parameter(cls, name, value)
    return cls(**arguments)


def _stored_progress(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return when a layout was chosen, whether it is pinned or stale, and the position in what the model follows."""
    found = {"pinned": field(about, "pinned", bool), "chosen_at": field(about, "chosen_at", int)}
    position = checked_position(field(about, "position", str)) if "position" in about else None
    return {**found, "stale": descriptions.stored_flag(about, descriptions.STALE), "position": position}


def _stored_columns(about: Mapping[str, Any], n: int, kinds: str | None, *, packed: bool = False) -> ColumnSchema:
    types = unpacked_types(field(about, "types", str), n) if "types" in about else None
    if packed and types is not None:
        raise ValueError("the kinds of the columns of a wide table of numbers are not decided by rows")
    return ColumnSchema(
        n,
        names=descriptions.stored_feature_names(about, n),
        kinds=kinds,
        types=types,
        learnt=None if kinds is None else TokenTypes.of_cells(kinds),
        zones=descriptions.stored_zones(about, types or ""),
        packed=packed,
    )


def _stored_store(about: Mapping[str, Any], arrays: dict[str, Array], h: int, key: bytes | None) -> ModelStore | None:
    """Return what a file stores of rows or documents, checked, and take its arrays out of `arrays`.

    It is checked in any case: all of it is read.
    """
    if "kept" not in about:
        return None
    with taken_part(arrays, "kept") as stored:
        return _empty_store(field(about, "kept", dict), h, key).restore(stored)


def _empty_store(described: Mapping[str, Any], h: int, key: bytes | None) -> ModelStore:
    """Return an empty store of a description; `key` is the secret key of the file."""
    kind, seed = field(described, "of", str), field(described, "seed", int)
    if kind not in ("rows", "documents", "digests"):
        raise ValueError("it keeps something that is neither rows nor documents nor digests")
    if abs(seed) >= 2**64:
        raise ValueError("what it keeps has an impossible seed")
    if kind == "digests":
        exactly(described, ("of", "seed", "key", "kept"))
        beside = field(described, "kept", dict, type(None))
        kept = None if beside is None else _empty_store(beside, h, key).kept
        return DigestStore(h, seed, None if described["key"] is None else key, beside=kept)
    has_values = kind == "rows" and h == 1
    exactly(described, ("of", "seed", "most", "threshold"), optional=("most_values",) if has_values else ())
    most, threshold = (field(described, name, int) for name in ("most", "threshold"))
    if not 1 <= most < 2**53 or not 0 <= threshold <= EVERYTHING:
        raise ValueError("what it keeps has an impossible size or threshold")
    if kind == "documents":
        return KeptDocuments.empty(h, seed, most, threshold)
    empty = KeptRows.empty(h, seed, most, threshold)
    if "most_values" not in described:
        return empty
    most_values = field(described, "most_values", int)
    if not 1 <= most_values < 2**53:
        raise ValueError("what it keeps has an impossible size")
    return replace(empty, most_values=most_values)


def _predictor(archive: Archive, restorer: Restorer, *, verify: bool) -> Predictor:
    about = archive.about
    optional = (*_OPTIONAL, "notes", "feature_names_in", NAMES_ONLY, "zones")
    exactly(about, (*_START, "description", "vote", "missing"), optional=optional)
    missing = field(about, "missing", str)
    check_missing_rule(missing)
    cls: Any = restorer.registry.find("compiled", field(about, "class", str))
    arrays = dict(archive.arrays)
    cells = descriptions.stored_cells(about, arrays)
    vote, sites = restorer.part("vote", about["vote"]), descriptions.stored_sites(about, cells)
    with taken_part(arrays, "vote", trusted=not verify) as fitted:
        vote.restore(fitted, sites)
    stored = StoredArrays(arrays, trusted=not verify)
    frame = Frame.from_arrays(sites, stored)
    compiled = cls.from_packed(frame, stored, field(about, "description", dict), restorer.key)
    stored.finish()
    compiled.forgot_unchecked = descriptions.stored_flag(about, descriptions.FORGOT_UNCHECKED)
    return Predictor(
        compiled,
        descriptions.stored_label_dtype(about, frame.labels),
        sites,
        vote,
        form=_stored_form(about, missing, cells),
        cutting=descriptions.stored_cutting(about),
        cells=cells,
    )


def _stored_form(about: Mapping[str, Any], missing: str, cells: Cells | None) -> QuestionForm:
    """Return how the predictor of a description reads questions, checked."""
    n = field(about, "n_features_in", int)
    kinds = None if cells is None else cells.table_kinds
    columns = ColumnSchema(
        n,
        names=descriptions.stored_feature_names(about, n) if "feature_names_in" in about else None,
        kinds=kinds,
        learnt=None if kinds is None else TokenTypes.of_cells(kinds),
        zones=descriptions.stored_zones(about, kinds or ""),
        packed=cells is not None and cells.narrowing is not None and cells.narrowing.packed,
    )
    return QuestionForm(columns, missing, reads_tables=not descriptions.stored_flag(about, NAMES_ONLY))
