r"""What a file holds of a model, and how to make the model from it again.

A model becomes arrays and a description (:mod:`hammemo.files.descriptions`). On the way back
nothing that the file declares is trusted: every array has its type, shape, order and range checked
against the parameters and the other arrays before anything is allocated that a declared number
could make large.
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
from hammemo.edits.apply import check_position
from hammemo.edits.digests import UNSTORED, canonical_bounds
from hammemo.edits.editing import take_state
from hammemo.edits.state import AnyState, ModelState
from hammemo.estimators.learners import Learner
from hammemo.estimators.predictor import Predictor
from hammemo.files import descriptions, folders
from hammemo.files.archive import FORMAT, Archive, FileError, refusing, seal
from hammemo.files.descriptions import (
    ParameterError,
    Restorer,
    check_entries,
    describe_fields,
    drop_empty,
    field,
    take_part,
)
from hammemo.files.parameters import check_label_parameters, check_number_parameters
from hammemo.files.registry import ABOVE, BUILT_IN, PARTS, Registry, is_built_in, name_in_file
from hammemo.memories.exact import InSegments, SignedSum, head_state, restore_in_segments
from hammemo.memories.gaussian import find_given_codes
from hammemo.memories.label_counts import Frame, empty_arrays
from hammemo.stores.digest_store import Digests, DigestStore
from hammemo.stores.kept import EVERYTHING, ModelStore
from hammemo.stores.kept_documents import KeptDocuments
from hammemo.stores.kept_rows import KeptRows
from hammemo.tasks.labels.choose import get_held_out
from hammemo.tasks.labels.layout import Choices, LabelState, Layout
from hammemo.tasks.labels.task import LABELS
from hammemo.tasks.numbers.layout import NumberLayout
from hammemo.tasks.numbers.memory import NumberMemory
from hammemo.tasks.numbers.read import TARGET_DTYPE
from hammemo.tasks.numbers.task import NUMBERS
from hammemo.tasks.numbers.vote import NumberVote
from hammemo.tokens.column_kinds import DATES, NAMES, ColumnType, has_ordered
from hammemo.tokens.column_letters import decode_runs, encode_runs
from hammemo.tokens.columns import Columns
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.questions import QuestionForm
from hammemo.tokens.token_types import TokenTypes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hammemo._arrays.types import Array, Ints
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.regressor import MemoryRegressor
    from hammemo.features.cells import Cells
    from hammemo.kernels.sites import Sites
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tokens.column_kinds import ColumnKinds

Savable: TypeAlias = Learner | Predictor
Notes: TypeAlias = "Mapping[str, str] | None"
Contents: TypeAlias = "tuple[dict[str, Array], dict[str, Any]]"
"""The arrays of a model, and its description."""

_AS_LOADED: Final = "as loaded: a file does not say why"

_START: Final = (
    "checksum",
    "format",
    "version",
    "kind",
    "class",
    "n_features_in",
    "sites",
    "label_dtype",
)
"""Entries that the descriptions of classifiers and of predictors have."""

_OPTIONAL: Final = ("cells", "cutting", descriptions.FORGOT_UNCHECKED)
"""Entries that both have where they are not empty."""

NAMES_ONLY: Final = "names_only"
"""The entry of predictors of models without the parameter `numeric`."""


# Writing


def file_pieces(model: Savable, notes: Notes) -> list[bytes | memoryview]:
    """Return the pieces of the file of one version of a model; the second one is its checksum."""
    describe = DESCRIBERS[model.kind_in_files]
    return _seal_contents(describe(model), notes)


def head_pieces(
    model: MemoryClassifier, notes: Notes, segmented: SignedSum
) -> list[bytes | memoryview]:
    """Return the pieces of the file of a head, whose rows lie in these segments."""
    return _seal_contents(_describe_classifier(model, segmented), notes)


def _seal_contents(contents: Contents, notes: Notes) -> list[bytes | memoryview]:
    """Return the pieces of a file with these arrays and this description."""
    arrays, about = contents
    if notes:
        about["notes"] = descriptions.check_notes(dict(notes))
    start = {"checksum": "0" * 64, "format": FORMAT, "version": version("hammemo")}
    text = json.dumps({**start, **about}, separators=(",", ":"), allow_nan=False)
    contiguous = {name: np.require(array, requirements="C") for name, array in arrays.items()}
    return seal(contiguous, text)


def file_bytes(model: Learner) -> bytes:
    """Return the file of a model as bytes, for another process; `from_bytes` undoes it."""
    return b"".join(file_pieces(model.now(), None))


def _describe_classifier(model: MemoryClassifier, segmented: SignedSum | None = None) -> Contents:
    check_is_fitted(model)
    memory: Any = model.memory_.now()
    state = model.state
    store_description: dict[str, Any] = {}
    store_arrays: Mapping[str, Array] = {}
    if state.store is not None:
        store_description = state.store.describe()
        store_arrays = state.store.state()
    _check_classifier_has_format(model, memory, store_description)
    params = _describe_classifier_parameters(model, memory)
    _refuse_to_save(check_label_parameters, model.settings(), state)
    cells = state.layout.cells
    about: dict[str, Any] = {
        "kind": "classifier",
        "class": type(model).__name__,
        "params": params,
        "fitted": {
            kind: descriptions.describe_part(kind, getattr(model, f"{kind}_"), memory)
            for kind in PARTS
        },
        **descriptions.describe_common_entries(state.layout.sites, state.target_dtype, cells),
        "feature_names_in": state.columns.list_names(),
        "seed": memory.seed,
        "layout": memory.layout(),
        "fingerprint": memory.fingerprint(),
        "pinned": state.pinned,
        "chosen_at": state.chosen_at,
        **drop_empty(
            held_out=describe_fields(get_held_out(state)),
            cutting=describe_fields(state.cutting),
            types=_describe_types(state),
            zones=_pack_zones(state.columns),
            orders=_list_orders(state.columns),
            forgot_unchecked=memory.forgot_unchecked,
            stale=state.stale,
            position=state.position,
            kept=store_description or None,
        ),
    }
    if segmented is None:
        memory_arrays = memory.state()
    else:
        about["segments"] = [vars(facts) for facts in folders.list_facts(segmented)]
        memory_arrays = head_state(memory, empty_arrays(segmented.empties, memory.labels))
    cell_arrays: Mapping[str, Array] = {}
    if cells is not None:
        cell_arrays = cells.arrays()
    codes = {kind: rows.arrays() for kind, rows in find_given_codes(memory).items()}
    arrays = {
        **memory_arrays,
        "declared": narrow(memory.labels.find(memory.declared)),
        **_prefix_names(vote=state.vote.state(), cells=cell_arrays, kept=store_arrays, **codes),
    }
    return arrays, about


def _check_classifier_has_format(
    model: MemoryClassifier, memory: Any, store_description: Mapping[str, Any]
) -> None:
    """Refuse a model with two keys, or with a class or a store that no file describes."""
    if len(set(descriptions.collect_key_digests(memory.layout(), store_description))) > 1:
        raise FileError(
            "The model has two different secret keys, and load() takes one: "
            "use the same key for both."
        )
    if not is_built_in("classifier", type(model)):
        names = [*BUILT_IN["classifier"], *ABOVE]
        raise FileError(
            f"A {type(model).__name__} cannot be saved: only {' and '.join(names)} have a format."
        )
    store = model.state.store
    if store is not None and type(store) not in (KeptRows, KeptDocuments, DigestStore):
        raise FileError(
            f"A model whose store is a {type(store).__name__} cannot be saved: it has no format."
        )


def _describe_classifier_parameters(model: MemoryClassifier, memory: Any) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if name in UNSTORED or (name == "ordered" and value is None):
            continue
        if name == "random_state" and not _is_seed(value):
            params[name] = memory.seed  # what `fit` drew from the generator
        elif name in getattr(model, "given_codes", {}):
            params.update(descriptions.describe_codes(model, name, value, memory))
        elif name in PARTS and not isinstance(value, (str, type(None))):
            params[name] = descriptions.describe_part(name, value, memory)
        elif isinstance(value, Digests):
            params[name] = descriptions.describe_part(name, value, model.state.store)
        else:
            params[name] = descriptions.to_plain(name, value)
    return params


def _is_seed(random_state: Any) -> bool:
    """Return whether a `random_state` is no generator."""
    return isinstance(random_state, (int, np.integer, type(None)))


def _refuse_to_save(check: Callable[[Any, Any], None], settings: Any, state: Any) -> None:
    """Refuse a model whose parameters were set to wrong values since it was fitted.

    `load` would refuse the file.
    """
    try:
        check(settings, state)
    except ParameterError as error:
        raise FileError(
            f"The model cannot be saved: {error.name} is not valid, {error.reason}"
        ) from error


def _prefix_names(**parts: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of some parts under names that begin with that of the part."""
    prefixed: dict[str, Array] = {}
    for prefix, arrays in parts.items():
        for name, array in arrays.items():
            prefixed[f"{prefix}.{name}"] = array
    return prefixed


def _describe_types(state: AnyState) -> str | None:
    """Return how the values of columns came, as a file says it."""
    if state.columns.types is None:
        return None
    return encode_runs(state.columns.types)


def _pack_zones(columns: Columns) -> dict[str, list[int]] | None:
    """Return the zones of columns of times as a file says them: the columns of each zone."""
    columns_of_zone: dict[str, list[int]] = {}
    for place, zone in sorted(columns.scales.items()):
        if isinstance(zone, str):
            columns_of_zone.setdefault(zone, []).append(place)
    return columns_of_zone or None


def _list_orders(columns: Columns) -> list[list[Any]] | None:
    """Return each column of ordered categories with its order, as a file has them."""
    scales = sorted(columns.scales.items())
    return [[place, list(order)] for place, order in scales if isinstance(order, tuple)] or None


def _describe_regressor(model: MemoryRegressor) -> Contents:
    state = model.state
    check_is_fitted(model)
    if not is_built_in("regressor", type(model)):
        raise FileError(
            f"A {type(model).__name__} cannot be saved: only MemoryRegressor itself has a format."
        )
    values = model.get_params(deep=False)
    random_state = values.pop("random_state")
    values["bounds"] = canonical_bounds(values["bounds"])
    params = {
        name: descriptions.to_plain(name, value)
        for name, value in values.items()
        if name not in UNSTORED and not (name == "ordered" and value is None)
    }
    params["random_state"] = state.seed  # what `fit` drew, of a generator
    if _is_seed(random_state):
        params["random_state"] = descriptions.to_plain("random_state", random_state)
    _refuse_to_save(check_number_parameters, model.settings(), state)
    store_description: Mapping[str, Any] | None = None
    store_arrays: Mapping[str, Array] = {}
    if state.store is not None:
        store_description = state.store.describe()
        store_arrays = state.store.state()
    about = {
        "kind": "regressor",
        "class": type(model).__name__,
        "params": params,
        "n_features_in": state.columns.n,
        "feature_names_in": state.columns.list_names(),
        "seed": state.seed,
        "layout": state.layout.describe(),
        "pinned": state.pinned,
        "chosen_at": state.chosen_at,
        "weighed_at": state.vote.rows,
        **drop_empty(
            types=_describe_types(state),
            zones=_pack_zones(state.columns),
            orders=_list_orders(state.columns),
            stale=state.stale,
            position=state.position,
            kept=store_description,
        ),
    }
    arrays = _prefix_names(
        layout=state.layout.arrays(),
        memory=state.memory.arrays(),
        vote=state.vote.state(),
        kept=store_arrays,
    )
    return arrays, about


def _describe_predictor(model: Predictor) -> Contents:
    compiled = model.compiled
    try:
        name = getattr(compiled, "name_in_files", None) or name_in_file("compiled", type(compiled))
    except TypeError:
        raise FileError(
            f"A predictor of {type(compiled).__name__} cannot be saved: "
            "a compiled form needs the methods stored and restored."
        ) from None
    arrays, description = compiled.pack()
    about = {
        "kind": "predictor",
        "class": name,
        "description": description,
        "vote": descriptions.describe_part("vote", model.vote),
        **descriptions.describe_common_entries(model.sites, model.label_dtype_, model.cells),
        "missing": model.missing,
        **drop_empty(
            cutting=describe_fields(model.cutting_),
            forgot_unchecked=compiled.forgot_unchecked,
            feature_names_in=model.form.columns.list_names(),
            names_only=not model.form.reads_tables,
            zones=_pack_zones(model.form.columns),
            orders=_list_orders(model.form.columns),
        ),
    }
    frame = Frame(model.sites, compiled.labels, compiled.label_counts)
    cell_arrays: Mapping[str, Array] = {}
    if model.cells is not None:
        cell_arrays = model.cells.arrays()
    part_arrays = _prefix_names(vote=model.vote.state(), cells=cell_arrays)
    return {**frame.arrays(), **arrays, **part_arrays}, about


DESCRIBERS: Final[dict[str, Callable[[Any], Contents]]] = {
    "classifier": _describe_classifier,
    "predictor": _describe_predictor,
    "regressor": _describe_regressor,
}
"""What makes the contents of a file, by `kind_in_files` of the model."""


# Restoring


def from_bytes(data: bytes) -> Savable:
    """Return the model in the bytes of a file, checked as `load` does."""
    with refusing("the model"):
        restorer = Restorer(Registry(), None)
        return restore_model(Archive.from_bytes(data), restorer, verify=True, folder="")


def restore_model(archive: Archive, restorer: Restorer, *, verify: bool, folder: str) -> Savable:
    """Make the model in a file, checked; `folder` is where the segments lie that it may name."""
    about = archive.about
    kind = field(about, "kind", str)
    field(about, "version", str)
    descriptions.parse_notes(about)
    descriptions.check_key(descriptions.parse_key_digest(about), restorer.key)
    if kind == "classifier":
        return _restore_classifier(archive, restorer, verify=verify, folder=folder)
    if kind == "predictor":
        return _restore_predictor(archive, restorer, verify=verify)
    if kind == "regressor":
        return _restore_regressor(archive, restorer)
    raise ValueError(f"it holds a {kind!r}, which is not known")


def _restore_classifier(
    archive: Archive, restorer: Restorer, *, verify: bool, folder: str
) -> MemoryClassifier:
    about = archive.about
    arrays = dict(archive.arrays)
    check_entries(
        about,
        (
            *_START,
            "params",
            "fitted",
            "feature_names_in",
            "seed",
            "layout",
            "fingerprint",
            "pinned",
            "chosen_at",
        ),
        optional=(
            *_OPTIONAL,
            "held_out",
            "kept",
            "types",
            "zones",
            "orders",
            descriptions.STALE,
            "position",
            "segments",
            "notes",
        ),
    )
    # Each step takes its arrays out of `arrays`; the memory gets those that are left.
    restorer.take_codes(arrays)
    model: MemoryClassifier = _restore_unfitted(about, restorer)
    fitted_parts = field(about, "fitted", dict)
    check_entries(fitted_parts, PARTS)
    kernel = restorer.restore_part("kernel", fitted_parts["kernel"])
    memory = restorer.restore_part("memory", fitted_parts["memory"])
    vote = restorer.restore_part("vote", fitted_parts["vote"])
    cells = descriptions.parse_cells(about, arrays)
    sites = descriptions.parse_sites(about, cells)
    descriptions.check_kernel(kernel, sites)
    declared = _take_declared_labels(arrays)
    with take_part(arrays, "vote", trusted=not verify) as vote_arrays:
        vote.restore(vote_arrays, sites)
    # A wide table is stored in rows of fewer tokens than it has columns.
    kinds: ColumnKinds = (NAMES,) * sites.h
    row_width = sites.h
    if cells is not None:
        kinds = cells.table_kinds
        row_width = len(kinds)
        if cells.narrowing is not None:
            row_width = cells.narrowing.width
    store = _restore_store(about, arrays, row_width, restorer.key)
    _restore_memory(memory, arrays, archive, sites, declared=declared, verify=verify, folder=folder)
    if find_given_codes(memory) != restorer.codes:
        raise ValueError("it has codes that its memory does not use")
    if isinstance(store, DigestStore) and store.digests.total != int(memory.label_counts.sum()):
        raise ValueError("it does not have as many digests as rows")
    choices = Choices(
        _AS_LOADED, _AS_LOADED, _AS_LOADED, held_out=descriptions.parse_held_out(about)
    )
    state: LabelState = ModelState(
        task=LABELS,
        layout=Layout(kernel, sites, choices, cells),
        memory=memory,
        vote=vote,
        columns=_restore_columns(about, kinds, packed=row_width < len(kinds)),
        seed=memory.seed,
        target_dtype=descriptions.parse_label_dtype(about, memory.labels),
        store=store,
        cutting=descriptions.parse_cutting(about),
        **_restore_progress(about),
    )
    check_label_parameters(model.settings(), state)
    take_state(model, state)
    return model


def _take_declared_labels(arrays: dict[str, Array]) -> Ints:
    """Take the ranks of the labels that were declared before any example had them."""
    stored = StoredArrays({"declared": arrays.pop("declared", np.empty(0))})
    declared = stored.ascending("declared")
    if len(declared) and int(declared[-1]) >= len(arrays.get("label_counts", ())):
        raise ValueError("it declares a label that it does not hold")
    return declared


def _restore_memory(
    memory: Any,
    arrays: dict[str, Array],
    archive: Archive,
    sites: Sites,
    *,
    declared: Ints,
    verify: bool,
    folder: str,
) -> None:
    """Let a memory take its arrays, and map its segments if it has some."""
    about = archive.about
    seed = field(about, "seed", int)
    if "segments" not in about:
        memory.restore(arrays, sites, seed, declared, trusted=not verify)
    elif isinstance(memory, InSegments):
        open_terms = partial(folders.open_segments, folder, about["segments"], sites, verify=verify)
        restore_in_segments(
            memory, arrays, sites, seed=seed, declared=declared, open_terms=open_terms
        )
    else:
        raise ValueError("its memory is not of a kind that is stored in segments")
    if memory.layout() != about["layout"] or memory.fingerprint() != about["fingerprint"]:
        raise ValueError("its layout is not the one it declares")
    memory.forgot_unchecked = descriptions.parse_flag(about, descriptions.FORGOT_UNCHECKED)


def _restore_regressor(archive: Archive, restorer: Restorer) -> MemoryRegressor:
    about = archive.about
    arrays = dict(archive.arrays)
    check_entries(
        about,
        (
            "checksum",
            "format",
            "version",
            "kind",
            "class",
            "params",
            "n_features_in",
            "feature_names_in",
            "seed",
            "layout",
            "pinned",
            "chosen_at",
            "weighed_at",
        ),
        optional=("kept", "types", "zones", "orders", descriptions.STALE, "position", "notes"),
    )
    model: MemoryRegressor = _restore_unfitted(about, restorer)
    n_columns = field(about, "n_features_in", int)
    described = field(about, "layout", dict)
    check_entries(
        described,
        ("kinds", "center", "exponent", "last_word", "mean", "base"),
        optional=("narrowing",),
    )
    check_entries(field(described, "base", dict), ("n_labels", "owners", "n_ordered"))
    # Rows of a wide table of numbers only are stored as one value each.
    is_packed = False
    if "narrowing" in described:
        is_packed = field(described, "narrowing", dict).get("kinds", "") is None
    row_width = 1 if is_packed else n_columns
    store = _restore_store(about, arrays, row_width, restorer.key)
    if store is not None and store.kept_rows is not store:
        raise ValueError("it keeps something that is not rows")
    stored = StoredArrays(arrays)
    layout = NumberLayout.from_stored(described, stored.part("layout"))
    seed = field(about, "seed", int)
    weighed_at = field(about, "weighed_at", int)
    has_impossible_rows = min(field(about, "chosen_at", int), weighed_at) < 0
    if len(layout.table_kinds) != n_columns or abs(seed) >= 2**64 or has_impossible_rows:
        raise ValueError("its columns, its seed or its numbers of rows are impossible")
    memory = NumberMemory.from_stored(layout, stored.part("memory"))
    vote = NumberVote.from_stored(layout, weighed_at, stored.part("vote"))
    stored.finish()
    columns = _restore_columns(about, layout.table_kinds, packed=is_packed)
    state: NumberState = ModelState(
        task=NUMBERS,
        layout=layout,
        memory=memory,
        vote=vote,
        columns=columns,
        seed=seed,
        target_dtype=TARGET_DTYPE,
        store=store,
        **_restore_progress(about),
    )
    check_number_parameters(model.settings(), state)
    take_state(model, state)
    return model


def _restore_unfitted(about: Mapping[str, Any], restorer: Restorer) -> Any:
    """Make a model with the class and the parameters of a description."""
    cls = restorer.registry.find(about["kind"], field(about, "class", str))
    params = field(about, "params", dict)
    check_entries(params, *descriptions.list_stored_parameters(cls))
    arguments: dict[str, Any] = {}
    for name, value in params.items():
        with descriptions.naming_parameter(name, value):
            arguments[name] = restorer.restore_parameter(cls, name, value)
    return cls(**arguments)


def _restore_progress(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return when a layout was chosen, whether it is stale, and the position in what is followed.

    They are arguments of `ModelState`.
    """
    position = None
    if "position" in about:
        position = check_position(field(about, "position", str))
    return {
        "pinned": field(about, "pinned", bool),
        "chosen_at": field(about, "chosen_at", int),
        "stale": descriptions.parse_flag(about, descriptions.STALE),
        "position": position,
    }


def _restore_columns(about: Mapping[str, Any], kinds: ColumnKinds, *, packed: bool) -> Columns:
    n = len(kinds)
    types = None
    if "types" in about:
        types = decode_runs(field(about, "types", str), n, ColumnType)
    if packed and types is not None:
        raise ValueError(
            "the kinds of the columns of a wide table of numbers are not decided by rows"
        )
    are_dates = [how is ColumnType.DATES for how in types or ()]
    return Columns(
        kinds,
        names=descriptions.parse_feature_names(about, n),
        types=types,
        token_types=_read_token_types(kinds),
        scales={
            **descriptions.parse_zones(about, are_dates),
            **descriptions.parse_orders(about, kinds),
        },
        packed=packed,
    )


def _read_token_types(kinds: ColumnKinds) -> TokenTypes | None:
    """Return the types of the tokens of columns of these kinds; None where no column has one."""
    if not has_ordered(kinds):
        return None
    return TokenTypes.from_kinds(kinds)


def _restore_store(
    about: Mapping[str, Any], arrays: dict[str, Array], h: int, key: bytes | None
) -> ModelStore | None:
    """Take what a file stores of rows or documents out of `arrays`.

    It is checked also where `load` does not verify: all of it is read in any case.
    """
    if "kept" not in about:
        return None
    with take_part(arrays, "kept") as stored:
        return _empty_store(field(about, "kept", dict), h, key).restore(stored)


def _empty_store(described: Mapping[str, Any], h: int, key: bytes | None) -> ModelStore:
    """Return an empty store of a description; `key` is the secret key of the file."""
    kind = field(described, "of", str)
    seed = field(described, "seed", int)
    if kind not in ("rows", "documents", "digests"):
        raise ValueError("it keeps something that is neither rows nor documents nor digests")
    if abs(seed) >= 2**64:
        raise ValueError("what it keeps has an impossible seed")
    if kind == "digests":
        return _empty_digest_store(described, h, seed, key)
    # Only rows of one value have a budget of values.
    optional: tuple[str, ...] = ()
    if kind == "rows" and h == 1:
        optional = ("most_values",)
    check_entries(described, ("of", "seed", "most", "threshold"), optional=optional)
    most_rows = field(described, "most", int)
    threshold = field(described, "threshold", int)
    if not 1 <= most_rows < 2**53 or not 0 <= threshold <= EVERYTHING:
        raise ValueError("what it keeps has an impossible size or threshold")
    if kind == "documents":
        return KeptDocuments.empty(h, seed, most_rows, threshold)
    store = KeptRows.empty(h, seed, most_rows, threshold)
    if "most_values" not in described:
        return store
    most_values = field(described, "most_values", int)
    if not 1 <= most_values < 2**53:
        raise ValueError("what it keeps has an impossible size")
    return replace(store, most_values=most_values)


def _empty_digest_store(
    described: Mapping[str, Any], h: int, seed: int, key: bytes | None
) -> DigestStore:
    """Return an empty store of digests, and of the rows or documents beside them."""
    check_entries(described, ("of", "seed", "key", "kept"))
    described_rows = field(described, "kept", dict, type(None))
    rows = None
    if described_rows is not None:
        rows = _empty_store(described_rows, h, key).kept
    if described["key"] is None:
        key = None
    return DigestStore(h, seed, key, beside=rows)


def _restore_predictor(archive: Archive, restorer: Restorer, *, verify: bool) -> Predictor:
    about = archive.about
    check_entries(
        about,
        (*_START, "description", "vote", "missing"),
        optional=(*_OPTIONAL, "notes", "feature_names_in", NAMES_ONLY, "zones", "orders"),
    )
    missing = field(about, "missing", str)
    check_missing_rule(missing)
    cls: Any = restorer.registry.find("compiled", field(about, "class", str))
    arrays = dict(archive.arrays)
    cells = descriptions.parse_cells(about, arrays)
    vote = restorer.restore_part("vote", about["vote"])
    sites = descriptions.parse_sites(about, cells)
    with take_part(arrays, "vote", trusted=not verify) as vote_arrays:
        vote.restore(vote_arrays, sites)
    stored = StoredArrays(arrays, trusted=not verify)
    frame = Frame.from_arrays(sites, stored)
    compiled = cls.from_packed(frame, stored, field(about, "description", dict), restorer.key)
    stored.finish()
    compiled.forgot_unchecked = descriptions.parse_flag(about, descriptions.FORGOT_UNCHECKED)
    return Predictor(
        compiled,
        descriptions.parse_label_dtype(about, frame.labels),
        sites,
        vote,
        form=_restore_form(about, missing, cells),
        cutting=descriptions.parse_cutting(about),
        cells=cells,
    )


def _restore_form(about: Mapping[str, Any], missing: str, cells: Cells | None) -> QuestionForm:
    """Return how the predictor of a description reads questions."""
    n = field(about, "n_features_in", int)
    names = None
    if "feature_names_in" in about:
        names = descriptions.parse_feature_names(about, n)
    kinds: ColumnKinds = (NAMES,) * n
    is_packed = False
    if cells is not None:
        kinds = cells.table_kinds
        is_packed = cells.narrowing is not None and cells.narrowing.packed
    columns = Columns(
        kinds,
        names=names,
        token_types=_read_token_types(kinds),
        scales={
            **descriptions.parse_zones(about, [kind is DATES for kind in kinds]),
            **descriptions.parse_orders(about, kinds),
        },
        packed=is_packed,
    )
    reads_tables = not descriptions.parse_flag(about, NAMES_ONLY)
    return QuestionForm(columns, missing, reads_tables=reads_tables)
