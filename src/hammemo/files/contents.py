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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.integers import narrow
from hammemo.edits.apply import check_position
from hammemo.edits.digests import UNSTORED, canonical_bounds
from hammemo.edits.editing import take_state
from hammemo.edits.state import ModelState
from hammemo.estimators.learners import Learner
from hammemo.estimators.predictor import Predictor
from hammemo.files import descriptions, folders
from hammemo.files.archive import FORMAT, Archive, FileError, SealedFile, refusing, seal
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

_CLASSIFIER: Final = (
    *_START,
    "params",
    "fitted",
    "feature_names_in",
    "seed",
    "layout",
    "fingerprint",
    "pinned",
    "chosen_at",
)
"""Entries that the descriptions of classifiers have."""

_CLASSIFIER_OPTIONAL: Final = (
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
)
"""Entries that they have where they are not empty."""

_REGRESSOR: Final = (
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
)
"""Entries that the descriptions of regressors have."""

_REGRESSOR_OPTIONAL: Final = (
    "kept",
    "types",
    "zones",
    "orders",
    descriptions.STALE,
    "position",
    "notes",
)
"""Entries that they have where they are not empty."""

NAMES_ONLY: Final = "names_only"
"""The entry of predictors of models without the parameter `numeric`."""


# Writing


def file_pieces(model: Savable, notes: Notes) -> SealedFile:
    """Return the pieces of the file of one version of a model."""
    describe = DESCRIBERS[model.kind_in_files]
    return _seal_contents(describe(model), notes)


def head_pieces(model: MemoryClassifier, notes: Notes, segmented: SignedSum) -> SealedFile:
    """Return the pieces of the file of a head: the model without the rows of its table.

    The rows lie in the segments of `segmented`, which are files of their own.
    """
    return _seal_contents(_describe_classifier(model, segmented), notes)


def _seal_contents(contents: Contents, notes: Notes) -> SealedFile:
    """Return the pieces of a file with these arrays and this description."""
    arrays, about = contents
    if notes:
        about["notes"] = descriptions.check_notes(dict(notes))
    # `seal` replaces the zeros by the checksum of the whole file, itself read as zeros.
    start = {"checksum": "0" * 64, "format": FORMAT, "version": version("hammemo")}
    text = json.dumps({**start, **about}, separators=(",", ":"), allow_nan=False)
    contiguous = {name: np.require(array, requirements="C") for name, array in arrays.items()}
    return seal(contiguous, text)


def file_bytes(model: Learner) -> bytes:
    """Return the file of a model as bytes, for another process; `from_bytes` undoes it."""
    return b"".join(file_pieces(model.now(), None))


class StoreContents(NamedTuple):
    """What a file has of a store of rows, documents or digests; both are empty without one."""

    description: dict[str, Any]
    arrays: Mapping[str, Array]


def _describe_store(store: ModelStore | None) -> StoreContents:
    """Return what a file has of the store of a model, if the model has one."""
    if store is None:
        return StoreContents({}, {})
    return StoreContents(store.describe(), store.state())


def _describe_classifier(model: MemoryClassifier, segmented: SignedSum | None = None) -> Contents:
    """Return the contents of a classifier's file or, with a table in segments, of its head."""
    check_is_fitted(model)
    memory: Any = model.memory_.now()
    state = model.state
    store = _describe_store(state.store)
    _check_classifier_has_format(model, memory, store.description)
    params = _describe_classifier_parameters(model, memory)
    _refuse_wrong_parameters(check_label_parameters, model.settings(), state)
    about = _describe_fitted_classifier(model, memory, params, store.description)
    if segmented is not None:
        about["segments"] = [vars(facts) for facts in folders.list_facts(segmented)]
    codes = {kind: rows.arrays() for kind, rows in find_given_codes(memory).items()}
    arrays = {
        **_collect_memory_arrays(memory, segmented),
        "declared": narrow(memory.labels.find(memory.declared)),
        **_prefix_names(
            vote=state.vote.state(),
            cells=_list_cell_arrays(state.layout.cells),
            kept=store.arrays,
            **codes,
        ),
    }
    return arrays, about


def _describe_fitted_classifier(
    model: MemoryClassifier,
    memory: Any,
    params: dict[str, Any],
    store_description: dict[str, Any],
) -> dict[str, Any]:
    """Return the description of a classifier with these parameters, without its segments."""
    state = model.state
    fitted_parts = {
        kind: descriptions.describe_part(kind, getattr(model, f"{kind}_"), memory) for kind in PARTS
    }
    return {
        "kind": "classifier",
        "class": type(model).__name__,
        "params": params,
        "fitted": fitted_parts,
        **descriptions.describe_common_entries(
            state.layout.sites, state.target_dtype, state.layout.cells
        ),
        "feature_names_in": state.columns.list_names(),
        "seed": memory.seed,
        "layout": memory.layout(),
        "fingerprint": memory.fingerprint(),
        "pinned": state.pinned,
        "chosen_at": state.chosen_at,
        **drop_empty(
            held_out=describe_fields(get_held_out(state)),
            cutting=describe_fields(state.cutting),
            types=_describe_types(state.columns),
            zones=_list_zones(state.columns),
            orders=_list_orders(state.columns),
            forgot_unchecked=memory.forgot_unchecked,
            stale=state.stale,
            position=state.position,
            kept=store_description or None,
        ),
    }


def _collect_memory_arrays(memory: Any, segmented: SignedSum | None) -> dict[str, Array]:
    """Return the state of a memory, without the rows of its table where they lie in segments."""
    if segmented is None:
        arrays: dict[str, Array] = memory.state()
        return arrays
    return head_state(memory, empty_arrays(segmented.empties, memory.labels))


def _list_cell_arrays(cells: Cells | None) -> Mapping[str, Array]:
    """Return the arrays of cells; none for a model without numbers."""
    if cells is None:
        return {}
    return cells.arrays()


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
    """Return the parameters that a file has of a classifier, as `restore_parameter` reads them."""
    code_parameters = getattr(model, "given_codes", {})
    params: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if _is_left_out(name, value):
            continue
        if name in code_parameters:
            # no entry where the user passed no codes
            params.update(descriptions.describe_codes(model, name, value, memory))
        else:
            params[name] = _describe_classifier_parameter(model, memory, name, value)
    return params


def _describe_classifier_parameter(
    model: MemoryClassifier, memory: Any, name: str, value: Any
) -> Any:
    """Return one parameter as JSON has it; `value` may be a part, or digests, without a secret."""
    if name == "random_state":
        return _describe_random_state(value, memory.seed)
    if name in PARTS and not isinstance(value, (str, type(None))):
        return descriptions.describe_part(name, value, memory)
    if isinstance(value, Digests):
        return descriptions.describe_part(name, value, model.state.store)
    return descriptions.to_plain(name, value)


def _is_left_out(name: str, value: Any) -> bool:
    """Return whether a file has no entry for a parameter with this value."""
    return name in UNSTORED or (name == "ordered" and value is None)


def _describe_random_state(random_state: Any, drawn_seed: int) -> Any:
    """Return `random_state` as JSON has it; for a generator, the seed that `fit` drew from it."""
    if isinstance(random_state, (int, np.integer, type(None))):
        return descriptions.to_plain("random_state", random_state)
    return drawn_seed


def _refuse_wrong_parameters(
    check_parameters: Callable[[Any, Any], None], settings: Any, state: Any
) -> None:
    """Refuse to save a model if its parameters were set to wrong values since it was fitted.

    `load` does the same check, and would refuse the file.
    """
    try:
        check_parameters(settings, state)
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


def _describe_types(columns: Columns) -> str | None:
    """Return the types that the values of columns came with, as text; None if not known."""
    if columns.types is None:
        return None
    return encode_runs(columns.types)


# A column has at most one scale: the name of a zone, or an order, which is a tuple of categories.


def _list_zones(columns: Columns) -> dict[str, list[int]] | None:
    """Return the places of the columns of each zone; None if no column has one."""
    columns_of_zone: dict[str, list[int]] = {}
    for place, scale in sorted(columns.scales.items()):
        if isinstance(scale, str):
            columns_of_zone.setdefault(scale, []).append(place)
    return columns_of_zone or None


def _list_orders(columns: Columns) -> list[list[Any]] | None:
    """Return each column of ordered categories with its order; None if there is no such column."""
    orders = []
    for place, scale in sorted(columns.scales.items()):
        if isinstance(scale, tuple):
            orders.append([place, list(scale)])
    return orders or None


def _describe_regressor(model: MemoryRegressor) -> Contents:
    """Return the contents of a regressor's file."""
    check_is_fitted(model)
    state = model.state
    if not is_built_in("regressor", type(model)):
        raise FileError(
            f"A {type(model).__name__} cannot be saved: only MemoryRegressor itself has a format."
        )
    params = _describe_regressor_parameters(model)
    _refuse_wrong_parameters(check_number_parameters, model.settings(), state)
    store = _describe_store(state.store)
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
            types=_describe_types(state.columns),
            zones=_list_zones(state.columns),
            orders=_list_orders(state.columns),
            stale=state.stale,
            position=state.position,
            kept=store.description or None,
        ),
    }
    arrays = _prefix_names(
        layout=state.layout.arrays(),
        memory=state.memory.arrays(),
        vote=state.vote.state(),
        kept=store.arrays,
    )
    return arrays, about


def _describe_regressor_parameters(model: MemoryRegressor) -> dict[str, Any]:
    """Return the parameters that a file has of a regressor, as `restore_parameter` reads them."""
    values = model.get_params(deep=False)
    random_state = values.pop("random_state")
    values["bounds"] = canonical_bounds(values["bounds"])
    params = {
        name: descriptions.to_plain(name, value)
        for name, value in values.items()
        if not _is_left_out(name, value)
    }
    params["random_state"] = _describe_random_state(random_state, model.state.seed)
    return params


def _describe_predictor(model: Predictor) -> Contents:
    """Return the contents of a predictor's file."""
    compiled = model.compiled
    class_name = _name_compiled_form(compiled)
    form_arrays, form_description = compiled.pack()
    columns = model.form.columns
    about = {
        "kind": "predictor",
        "class": class_name,
        "description": form_description,
        "vote": descriptions.describe_part("vote", model.vote),
        **descriptions.describe_common_entries(model.sites, model.label_dtype_, model.cells),
        "missing": model.missing,
        **drop_empty(
            cutting=describe_fields(model.cutting_),
            forgot_unchecked=compiled.forgot_unchecked,
            feature_names_in=columns.list_names(),
            names_only=not model.form.reads_tables,
            zones=_list_zones(columns),
            orders=_list_orders(columns),
        ),
    }
    frame = Frame(model.sites, compiled.labels, compiled.label_counts)
    part_arrays = _prefix_names(vote=model.vote.state(), cells=_list_cell_arrays(model.cells))
    return {**frame.arrays(), **form_arrays, **part_arrays}, about


def _name_compiled_form(compiled: Any) -> str:
    """Return the name of a compiled form in files: that of its class, or one that it chooses."""
    name = getattr(compiled, "name_in_files", None)
    if name:
        return str(name)
    try:
        return name_in_file("compiled", type(compiled))
    except TypeError:
        raise FileError(
            f"A predictor of {type(compiled).__name__} cannot be saved: "
            "its class does not derive from hammemo.memories.Compiled. "
            "Derive it from Compiled, with methods pack and from_packed."
        ) from None


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
    """Make the model in a file, checked.

    Parameters
    ----------
    archive : Archive
    restorer : Restorer
        The classes that may be made, and the secret key.
    verify : bool
        Whether the contents of large arrays are checked.
    folder : str
        Where the segments lie that the file may name.
    """
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
    """Make the classifier in a file, checked.

    The order of the steps matters. Each takes its arrays out of `arrays`, so that the memory, which
    refuses arrays that it does not know, gets those that are left. Codes come first, because
    parameters may name them. The cells come before the sites and the store: they say how many
    columns a row has.
    """
    about = archive.about
    arrays = dict(archive.arrays)
    check_entries(about, _CLASSIFIER, optional=_CLASSIFIER_OPTIONAL)
    restorer.take_codes(arrays)
    model: MemoryClassifier = _restore_unfitted(about, restorer)
    parts = _restore_fitted_parts(about, restorer)
    cells = descriptions.parse_cells(about, arrays)
    sites = descriptions.parse_sites(about, cells)
    descriptions.check_kernel(parts.kernel, sites)
    declared = _take_declared_labels(arrays)
    _restore_vote(parts.vote, arrays, sites, trusted=not verify)
    table = _find_table_shape(sites, cells)
    store = _restore_store(about, arrays, table.row_width, restorer.key)
    _restore_memory(
        parts.memory, arrays, archive, sites, declared=declared, verify=verify, folder=folder
    )
    _check_memory_fits(parts.memory, restorer, store)
    choices = Choices(
        _AS_LOADED, _AS_LOADED, _AS_LOADED, held_out=descriptions.parse_held_out(about)
    )
    state: LabelState = ModelState(
        task=LABELS,
        layout=Layout(parts.kernel, sites, choices, cells),
        memory=parts.memory,
        vote=parts.vote,
        columns=_restore_columns(about, table.kinds, packed=table.is_packed),
        seed=parts.memory.seed,
        target_dtype=descriptions.parse_label_dtype(about, parts.memory.labels),
        store=store,
        cutting=descriptions.parse_cutting(about),
        **_restore_progress(about),
    )
    check_label_parameters(model.settings(), state)
    take_state(model, state)
    return model


class FittedParts(NamedTuple):
    """The parts of a fitted classifier; the memory and the vote are still empty."""

    kernel: Any
    memory: Any
    vote: Any


def _restore_fitted_parts(about: Mapping[str, Any], restorer: Restorer) -> FittedParts:
    """Make the parts of a classifier from their descriptions."""
    described = field(about, "fitted", dict)
    check_entries(described, PARTS)
    return FittedParts(
        kernel=restorer.restore_part("kernel", described["kernel"]),
        memory=restorer.restore_part("memory", described["memory"]),
        vote=restorer.restore_part("vote", described["vote"]),
    )


def _restore_vote(vote: Any, arrays: dict[str, Array], sites: Sites, *, trusted: bool) -> None:
    """Let a vote take its arrays out of `arrays`."""
    with take_part(arrays, "vote", trusted=trusted) as stored:
        vote.restore(stored, sites)


class TableShape(NamedTuple):
    """The kinds of a table's columns, and how many tokens a stored row of it has."""

    kinds: ColumnKinds

    row_width: int
    """The number of columns, or 1 where rows of a wide table are packed."""

    @property
    def is_packed(self) -> bool:
        """Whether a row is stored as one token for all its columns."""
        return self.row_width < len(self.kinds)


def _find_table_shape(sites: Sites, cells: Cells | None) -> TableShape:
    """Return the shape of the table that a classifier learned; contexts are columns of names."""
    if cells is None:
        return TableShape((NAMES,) * sites.h, sites.h)
    if cells.narrowing is not None:
        return TableShape(cells.table_kinds, cells.narrowing.width)
    return TableShape(cells.table_kinds, len(cells.table_kinds))


def _take_declared_labels(arrays: dict[str, Array]) -> Ints:
    """Take the ranks of the labels that were declared before any example had them."""
    declared = StoredArrays(arrays).ascending("declared")
    del arrays["declared"]
    if len(declared) and int(declared[-1]) >= len(arrays.get("label_counts", ())):
        raise ValueError("it declares a label that it does not hold")
    return declared


def _check_memory_fits(memory: Any, restorer: Restorer, store: ModelStore | None) -> None:
    """Refuse a memory that does not use the codes of the file, or does not fit the digests."""
    if find_given_codes(memory) != restorer.codes:
        raise ValueError("it has codes that its memory does not use")
    if isinstance(store, DigestStore) and store.digests.total != int(memory.label_counts.sum()):
        raise ValueError("it does not have as many digests as rows")


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
    """Make the regressor in a file, checked."""
    about = archive.about
    arrays = dict(archive.arrays)
    check_entries(about, _REGRESSOR, optional=_REGRESSOR_OPTIONAL)
    model: MemoryRegressor = _restore_unfitted(about, restorer)
    n_columns = field(about, "n_features_in", int)
    described_layout = _parse_number_layout(about)
    is_packed = _has_packed_rows(described_layout)
    row_width = 1 if is_packed else n_columns
    store = _restore_store(about, arrays, row_width, restorer.key)
    if store is not None and store.kept_rows is not store:
        raise ValueError("it keeps something that is not rows")
    # Layout, memory and vote share the arrays that the store has left, and must use all of them.
    stored = StoredArrays(arrays)
    layout = NumberLayout.from_stored(described_layout, stored.part("layout"))
    seed = field(about, "seed", int)
    weighed_at = field(about, "weighed_at", int)
    has_impossible_rows = min(field(about, "chosen_at", int), weighed_at) < 0
    if len(layout.table_kinds) != n_columns or abs(seed) >= 2**64 or has_impossible_rows:
        raise ValueError("its columns, its seed or its numbers of rows are impossible")
    memory = NumberMemory.from_stored(layout, stored.part("memory"))
    vote = NumberVote.from_stored(layout, weighed_at, stored.part("vote"))
    stored.finish()
    state: NumberState = ModelState(
        task=NUMBERS,
        layout=layout,
        memory=memory,
        vote=vote,
        columns=_restore_columns(about, layout.table_kinds, packed=is_packed),
        seed=seed,
        target_dtype=TARGET_DTYPE,
        store=store,
        **_restore_progress(about),
    )
    check_number_parameters(model.settings(), state)
    take_state(model, state)
    return model


def _parse_number_layout(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of a regressor's layout, with its entries checked by name."""
    described: dict[str, Any] = field(about, "layout", dict)
    check_entries(
        described,
        ("kinds", "center", "exponent", "last_word", "mean", "base"),
        optional=("narrowing",),
    )
    check_entries(field(described, "base", dict), ("n_labels", "owners", "n_ordered"))
    return described


def _has_packed_rows(described_layout: Mapping[str, Any]) -> bool:
    """Return whether rows are stored as one token each.

    They are where all columns of a wide table are numbers: its narrowing then names no kinds.
    """
    if "narrowing" not in described_layout:
        return False
    narrowing = field(described_layout, "narrowing", dict)
    return "kinds" in narrowing and narrowing["kinds"] is None


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
    """Return when a layout was chosen, whether it is pinned or stale, and where a feed was left.

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
    """Return the columns of a description: of these kinds, with their names, types and scales."""
    n = len(kinds)
    types = None
    if "types" in about:
        types = decode_runs(field(about, "types", str), n, ColumnType)
    if packed and types is not None:
        raise ValueError(
            "the kinds of the columns of a wide table of numbers are not decided by rows"
        )
    # Without types no column is known to have come as dates, and none may have a zone.
    are_dates = [column_type is ColumnType.DATES for column_type in types or ()]
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
    # A row of one token may be a packed row, of any size. Only stores of these limit their values.
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
    # The key of the file may be that of the memory alone: digests without a key name none.
    digest_key = key
    if described["key"] is None:
        digest_key = None
    return DigestStore(h, seed, digest_key, beside=rows)


def _restore_predictor(archive: Archive, restorer: Restorer, *, verify: bool) -> Predictor:
    """Make the predictor in a file, checked."""
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
    _restore_vote(vote, arrays, sites, trusted=not verify)
    # The labels and the compiled form share the arrays that are left, and must use all of them.
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
    """Return how the predictor of a description reads questions.

    A predictor needs the kinds of columns, and not how their values came. So its file has names
    only where there are some, no types, and the zone of any column of dates.
    """
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
