"""The description in a model file: everything of a model that is not an array, as JSON.

This module writes descriptions (`describe_…`), checks them, and makes parts of a model from them.
Functions that parse an entry (`parse_…`) raise ValueError for one that no model could have.

A part of a model (a kernel, a memory, a vote) is described by the name of its class and its
parameters. A parameter is a finite number, a string, a truth value, None, a list of these, or a
part. A secret key is never written: in its place stands ``{"secret": true}``, and the key is passed
when the file is loaded. Codes and projections that were given are arrays of the file, and
``{"arrays": "codes"}`` stands in their place, with what they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.checked import StoredArrays
from hammemo.edits.digests import UNSTORED, sort_pairs
from hammemo.features.cells import Cells
from hammemo.files.archive import FileError, check_lengths
from hammemo.files.registry import DESCRIBED, Registry, is_built_in, kind_of_part, name_in_file
from hammemo.kernels import Joined, SiteKernel
from hammemo.kernels.sites import FREE_KINDS, FreeSite, Sites
from hammemo.memories.gaussian import GivenRows, find_given_codes
from hammemo.memories.gaussian.codes import GIVEN
from hammemo.memories.secret_keys import secret_digest
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.contexts import check_column_names
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.orders import check_order
from hammemo.tokens.zones import is_zone_name
from hammemo.votes.bounds import Bounds
from hammemo.votes.choose_weights import HeldOut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo._arrays.types import Array
    from hammemo.memories import Memory
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.orders import Order
    from hammemo.tokens.vocabulary import Vocabulary

MAX_NOTES: Final = 64
"""The most notes a file may have; a name has 1 to 64 characters, a text at most
`MAX_NOTE_LENGTH`."""

MAX_NOTE_LENGTH: Final = 4096
"""The most characters of one note."""

MAX_REASON_LENGTH: Final = 300
"""The most characters of a reason that an error repeats: a forger can make a value long."""

MAX_VALUE_LENGTH: Final = 80
"""The most characters of a value that an error repeats."""

FORGOT_UNCHECKED: Final = "forgot_unchecked"
"""The entry of models that have removed examples which may never have been stored, see
`Memory.forgot_unchecked`."""

STALE: Final = "stale"
"""The entry of models that need a refit."""


# Writing


def describe_common_entries(
    sites: Sites, label_dtype: np.dtype[Any], cells: Cells | None
) -> dict[str, Any]:
    """Return the entries that the descriptions of classifiers and of predictors share."""
    about: dict[str, Any] = {"n_features_in": sites.h}
    if cells is not None:
        about["n_features_in"] = len(cells.table_kinds)
        about["cells"] = cells.describe()
    about["sites"] = {
        "positions": [list(site) for site in sites.positions],
        "weights": sites.weights.tolist(),
        **drop_empty(free=[[site.kind, site.reach] for site in sites.free]),
    }
    about["label_dtype"] = label_dtype.str
    return about


def describe_part(kind: str, part: Any, fitted: Any = None) -> dict[str, Any]:
    """Return class and parameters of a kernel, a memory, a vote or digests, without secrets.

    Parameters
    ----------
    kind : {"kernel", "memory", "vote", "keep"}
    part : object
    fitted : Memory or ModelStore, optional
        The fitted memory, or what is stored: a secret in a parameter must be the one that it uses.
    """
    cls = type(part)
    secret = getattr(part, "secret", None)
    if not isinstance(part, DESCRIBED[kind]):
        raise FileError(f"{kind}={part!r} cannot be saved: it is not a {kind}.")
    if secret not in (None, "key"):
        raise FileError(
            f"{kind}={part!r} cannot be saved: load() passes a secret as key=, so name it key, "
            f"not {secret}."
        )
    params: dict[str, Any] = {}
    for name, value in part.get_params(deep=False).items():
        if value is not None and name == secret:
            if getattr(fitted, name, None) != value:
                raise FileError(
                    f"The {name} of {kind}= is not that of the fitted model. "
                    f"Undo set_params({kind}__{name}=...)."
                )
            params[name] = {"secret": True}
        elif name in getattr(part, "given_codes", {}):
            params.update(describe_codes(part, name, value, fitted))
        elif name not in UNSTORED:
            # The fitted form of a memory inside another has the same name with an underscore.
            fitted_value = getattr(fitted, f"{name}_", None)
            params[name] = _describe_parameter(f"{kind}__{name}", value, fitted_value)
    return {"class": name_in_file(kind, cls), "params": params}


def describe_codes(part: Any, name: str, value: Any, fitted: Memory | None) -> dict[str, Any]:
    """Return the entry for codes or a projection that users passed, none if they did not.

    They must be those of the fitted memory.
    """
    if value is None:
        return {}
    kind = part.given_codes[name]
    fitted_codes = find_given_codes(fitted).get(kind)
    if fitted_codes is None or GivenRows.of(value, kind).digest != fitted_codes.digest:
        raise FileError(
            f"{name}= has other codes than the fitted memory. "
            f"Undo set_params({name}=...), or fit again."
        )
    return {name: {"arrays": kind}}


def _describe_parameter(name: str, value: Any, fitted: Memory | None) -> Any:
    kind = kind_of_part(value)
    if kind is not None:
        return describe_part(kind, value, fitted)
    if isinstance(value, (list, tuple)) and any(kind_of_part(entry) for entry in value):
        return [_describe_parameter(name, entry, None) for entry in value]
    return to_plain(name, value)


def to_plain(name: str, value: Any) -> Any:
    """Return a parameter as JSON has it: a number, a string, a truth value, None, or a list.

    A mapping becomes a list of pairs.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufbU":
        value = value.tolist()
    if isinstance(value, Mapping):
        value = sort_pairs(value)
    if isinstance(value, (list, tuple, range)):
        return [to_plain(name, entry) for entry in value]
    raise FileError(
        f"{name}={value!r} cannot be saved: parameters in a file are finite numbers, strings, "
        "None, or lists of these."
    )


def describe_fields(value: Cutting | HeldOut | None) -> dict[str, Any] | None:
    """Return a dataclass as JSON has it; None where there is none."""
    if value is None:
        return None
    return asdict(value)


def drop_empty(**entries: Any) -> dict[str, Any]:
    """Return the entries that a file has: not those that are None, false or empty."""
    return {name: value for name, value in entries.items() if value not in (None, False, [])}


# Checking


def field(about: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """Return an entry of the description, of check_entries one of these types."""
    if name not in about or type(about[name]) not in kinds:
        raise ValueError(f"the entry {name} of its description is missing or of the wrong type")
    return about[name]


def check_entries(
    about: Mapping[str, Any], names: Iterable[str], optional: Iterable[str] = ()
) -> None:
    """Refuse a description that lacks one of these entries, or has another that is not optional."""
    required = set(names)
    for name in required - set(about):
        raise ValueError(f"its description lacks {name}")
    for name in set(about) - required - set(optional):
        raise ValueError(f"its description has an unknown entry {name}")


def parse_notes(about: Mapping[str, Any]) -> dict[str, str]:
    """Return the notes in a description, checked; empty where there are none."""
    if "notes" not in about:
        return {}
    return check_notes(field(about, "notes", dict))


def check_notes(notes: dict[Any, Any]) -> dict[str, str]:
    """Return notes that are few, short and well named, or refuse them."""
    if len(notes) > MAX_NOTES:
        raise ValueError(
            f"A file holds at most {MAX_NOTES} notes, not {len(notes)}: leave some out."
        )
    for name, text in notes.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name, re.ASCII):
            raise ValueError(
                f"A note cannot be named {str(name)[:80]!r}: "
                "use 1 to 64 letters, digits, '-' and '_'."
            )
        if type(text) is not str or len(text) > MAX_NOTE_LENGTH:
            raise ValueError(
                f"The note {name!r} is not a string of at most {MAX_NOTE_LENGTH} characters: "
                "shorten it."
            )
    return notes


def parse_key_digest(about: Mapping[str, Any]) -> str | None:
    """Return the digest of the secret key, or None where there is none."""
    places = [about.get(name) for name in ("layout", "kept")]
    if about.get("kind") != "classifier":
        places = [about.get("description")]
    digests = collect_key_digests(*(place for place in places if isinstance(place, dict)))
    if any(not isinstance(digest, str) for digest in digests) or len(set(digests)) > 1:
        raise ValueError("the digest of its key is not a string, or there are several")
    if not digests:
        return None
    return str(digests[0])


def collect_key_digests(*layouts: Mapping[str, Any]) -> list[Any]:
    """Return the digests of the secret keys in layouts, those of memories inside others too."""
    entries = [entry for layout in layouts for entry in layout.items()]
    return [value for name, value in entries if name.split(".")[-1] == "key" and value is not None]


def check_key(digest: str | None, key: bytes | None) -> None:
    """Refuse a key that is missing, wrong or not needed.

    `digest` is that of the key with which the model was made.
    """
    if digest is None and key is not None:
        raise FileError("This model has no secret key: leave out key=.")
    if digest is not None and key is None:
        raise FileError(
            "This model has a secret key, which is not in the file: pass it as load(path, key=...)."
        )
    if key is not None and (not isinstance(key, bytes) or digest != secret_digest(key)):
        raise FileError(
            "key= is not the secret key that this model was made with: pass the same bytes."
        )


# Restoring


class ParameterError(ValueError):
    """A parameter of a file is not one that `fit` takes.

    Parameters
    ----------
    name : str
        As scikit-learn names it: ``memory__buckets`` is a parameter of the memory.
    reason : str
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        if len(reason) > MAX_REASON_LENGTH:
            self.reason = f"{reason[:MAX_REASON_LENGTH]}…"
        super().__init__(f"its parameter {name} is not valid: {self.reason}")


def _shorten(value: Any) -> str:
    """Return a value of a file as an error shows it."""
    text = repr(value)
    if len(text) > MAX_VALUE_LENGTH:
        return f"{text[:MAX_VALUE_LENGTH]}…"
    return text


@contextmanager
def naming_parameter(name: str, value: Any) -> Iterator[None]:
    """Let an error name the parameter that it is about, and its value."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(f"{name}__{error.name}", error.reason) from error
    except FileError:
        raise
    except (ValueError, TypeError, ArithmeticError, AttributeError, LookupError) as error:
        reason = str(error)
        # Of a part, the error already names the value that is wrong in it.
        is_plain = isinstance(value, (bool, int, float, str, list, type(None)))
        if is_plain and repr(value) not in reason:
            reason = f"{_shorten(value)}: {reason}"
        raise ParameterError(name, reason) from error


@contextmanager
def take_part(
    arrays: dict[str, Array], name: str, *, trusted: bool = False
) -> Iterator[StoredArrays]:
    """Take the arrays named ``name.…`` out of `arrays`; the block must use all of them."""
    full_names = [full_name for full_name in arrays if full_name.startswith(f"{name}.")]
    part_arrays = {full_name: arrays.pop(full_name) for full_name in full_names}
    stored = StoredArrays(part_arrays, trusted=trusted)
    yield stored.part(name)
    stored.finish()


class Restorer:
    """Makes the parts of a model from their descriptions.

    Parameters
    ----------
    registry : Registry
        The classes that may be made.
    key : bytes, optional
        The secret key that the file does not hold.
    """

    def __init__(self, registry: Registry, key: bytes | None) -> None:
        self.registry = registry
        self.key = key
        self.codes: dict[str, GivenRows] = {}

    def take_codes(self, arrays: dict[str, Array]) -> None:
        """Take the codes and projections that users passed out of the arrays of a file, checked."""
        for kind in {name.partition(".")[0] for name in arrays}.intersection(GIVEN):
            with take_part(arrays, kind) as stored:
                self.codes[kind] = GivenRows.from_stored(stored, kind)

    def _find_codes(self, cls: Any, name: str, value: Any) -> GivenRows | None:
        """Return the codes of a parameter, if it is described as one of the arrays of the file."""
        kind = getattr(cls, "given_codes", {}).get(name)
        if kind is None or value != {"arrays": kind}:
            return None
        return self.codes.get(kind)

    def restore_part(self, kind: str, description: Any) -> Any:
        """Make the kernel, the memory or the vote of a description."""
        if not isinstance(description, dict):
            raise ValueError(f"its {kind} is not described")
        check_entries(description, ("class", "params"))
        cls = self.registry.find(kind, field(description, "class", str))
        params = field(description, "params", dict)
        check_entries(params, *list_stored_parameters(cls))
        arguments: dict[str, Any] = {}
        for name, value in params.items():
            with naming_parameter(name, value):
                arguments[name] = self._restore_part_parameter(kind, cls, name, value)
        return cls(**arguments)

    def restore_parameter(self, cls: Any, name: str, value: Any) -> Any:
        """Return a parameter of a class of classifiers or regressors, checked."""
        codes = self._find_codes(cls, name, value)
        if codes is not None:
            return codes
        if name == "numeric" and not isinstance(value, (str, list, type(None))):
            raise ValueError(f"{_shorten(value)} is neither a word nor a list of columns")
        if name == "random_state" and type(value) not in (int, type(None)):
            raise ValueError(f"{_shorten(value)} is not a seed, a whole number")
        if name == "bounds":
            return _parse_bounds(value)
        if name == "ordered":
            return _parse_ordered(value)
        if name in DESCRIBED and isinstance(value, dict):
            return self.restore_part(name, value)
        return _check_plain(value)

    def _restore_part_parameter(self, kind: str, cls: Any, name: str, value: Any) -> Any:
        if value == {"secret": True} and name == getattr(cls, "secret", None):
            if self.key is None:
                raise ValueError("it says that there is a secret key, and nothing stored uses one")
            return self.key
        codes = self._find_codes(cls, name, value)
        if codes is not None:
            return codes
        if not is_built_in(kind, cls):
            return self._restore_trusted_value(value)
        if value is not None and name in getattr(cls, "inner", ()):
            return self.restore_part("memory", value)
        if cls is Joined and isinstance(value, list):
            return [self.restore_part("kernel", kernel) for kernel in value]
        return _check_plain(value)

    def _restore_trusted_value(self, value: Any) -> Any:
        """Return a parameter of a class that the caller trusts: it may hold parts anywhere."""
        if isinstance(value, list):
            return [self._restore_trusted_value(entry) for entry in value]
        if isinstance(value, dict):
            kind = self.registry.find_part_kind(field(value, "class", str))
            return self.restore_part(kind, value)
        return _check_plain(value)


@cache
def list_parameter_names(cls: Any) -> tuple[str, ...]:
    """Return the names of the parameters of an estimator class."""
    return tuple(cls._get_param_names())


def list_stored_parameters(cls: Any) -> tuple[list[str], list[str]]:
    """Return which parameters of a class a file must have, and which it may have."""
    optional = [*getattr(cls, "given_codes", {}), "ordered"]
    unstored = {*UNSTORED, *optional}
    return [name for name in list_parameter_names(cls) if name not in unstored], optional


def _check_plain(value: Any) -> Any:
    """Return a parameter that is a plain value of bounded size, or refuse it."""
    if isinstance(value, list):
        for entry in value:
            _check_plain(entry)
    elif isinstance(value, (int, float)) and not -(2.0**64) < value < 2.0**64:
        raise ValueError(f"{_shorten(value)} is too large a number")
    elif not isinstance(value, (int, float, str, type(None))):
        raise ValueError(
            f"{_shorten(value)} is neither a number, a string, a truth value, "
            "None nor a list of these"
        )
    return value


def _parse_bounds(value: Any) -> Any:
    """Return the bounds of a model of numbers, checked; a file has them in canonical form."""
    if value is None:
        return None
    if not isinstance(value, list) or any(type(end) not in (float, type(None)) for end in value):
        raise ValueError(f"bounds={_shorten(value)} is not a pair of numbers")
    bounds = Bounds.from_parameter(value).parameter
    if bounds is None or list(bounds) != value:
        raise ValueError(f"bounds={_shorten(value)} is not in canonical form")
    return bounds


def parse_cells(about: Mapping[str, Any], arrays: dict[str, Array]) -> Cells | None:
    """Return the cells of a model of a table with numbers; take their arrays out of `arrays`."""
    if "cells" not in about:
        return None
    described = field(about, "cells", dict)
    check_entries(
        described,
        ("kinds", "missing_is_cell", "last_word", "trees", "tuples", "base"),
        optional=("narrowing",),
    )
    with take_part(arrays, "cells") as stored:
        cells = Cells.from_stored(described, stored)
    if len(cells.table_kinds) != field(about, "n_features_in", int):
        raise ValueError("its cells have another number of columns")
    return cells


def parse_sites(about: Mapping[str, Any], cells: Cells | None = None) -> Sites:
    """Return the sites in a description, checked."""
    h = field(about, "n_features_in", int)
    if cells is not None:
        h = cells.h
    described = field(about, "sites", dict)
    check_entries(described, ("positions", "weights"), optional=("free",))
    positions = field(described, "positions", list)
    weights = field(described, "weights", list)
    if not 1 <= h < 2**31 or any(type(weight) is not float for weight in weights):
        raise ValueError(
            "its contexts have no token or too many, or a weight of its sites is not a number"
        )
    sites = SiteKernel([check_lengths(site) for site in positions], weights).resolve(h)
    if "free" in described:
        free_sites = [_parse_free_site(site, h) for site in field(described, "free", list)]
        sites = replace(sites, free=tuple(free_sites))
    sites.check_size()
    if [list(site) for site in sites.positions] != positions:
        raise ValueError("its sites do not list their positions in ascending order")
    return sites


def _parse_free_site(described: Any, h: int) -> FreeSite:
    message = "a site without a position is of a kind that is not known"
    if not isinstance(described, list) or len(described) != 2:
        raise ValueError(message)
    kind, reach = described
    if kind not in list(FREE_KINDS):  # a list, because the kind in a file may not be hashable
        raise ValueError(message)
    if type(reach) is not int or not 1 <= reach <= h:
        raise ValueError("a site without a position reaches further than a context")
    return FreeSite(kind, reach)


def check_kernel(kernel: SiteKernel, sites: Sites) -> None:
    """Refuse sites that are not the kernel's.

    The kernel lists its sites only after their number is known to be small: h comes from the file.
    """
    if type(kernel) is SiteKernel and not isinstance(kernel.sites, list):
        raise ValueError("its kernel has no list of sites")
    if kernel.least_sites(sites.h) > len(sites.positions):
        raise ValueError("its kernel has more sites than the file declares")
    resolved = kernel.resolve(sites.h)
    is_same = (
        resolved.positions == sites.positions
        and resolved.free == sites.free
        and np.array_equal(resolved.weights, sites.weights)
    )
    if not is_same:
        raise ValueError("its sites are not those of its kernel")


def parse_cutting(about: Mapping[str, Any]) -> Cutting | None:
    """Return how streams were cut, checked; None where the file does not say it."""
    if "cutting" not in about:
        return None
    described = field(about, "cutting", dict)
    check_entries(described, ("short", "pad"))
    pad = field(described, "pad", str, int, float, type(None))
    cutting = Cutting(field(described, "short", str), pad)
    if type(cutting.pad) is not type(pad):  # such as 2.0, which is the token 2
        raise ValueError("its pad token is not in canonical form")
    return cutting


def parse_held_out(about: Mapping[str, Any]) -> HeldOut | None:
    """Return how good a model was on held-out folds; None where the file does not say it."""
    if "held_out" not in about:
        return None
    described = field(about, "held_out", dict)
    check_entries(described, ("log_loss", "accuracy", "folds", "rows"))
    loss = field(described, "log_loss", float)
    accuracy = field(described, "accuracy", float)
    folds = field(described, "folds", int)
    rows = field(described, "rows", int)
    if not (0 <= loss < math.inf and 0 <= accuracy <= 1 and 1 <= folds <= rows < 2**63):
        raise ValueError("its figures on held-out folds are impossible")
    if field(about, "pinned", bool) or field(about, "chosen_at", int) < 1:
        raise ValueError("it has figures on held-out folds, and no layout that was chosen by them")
    return HeldOut(loss, accuracy, folds, rows)


def parse_flag(about: Mapping[str, Any], name: str) -> bool:
    """Return whether a description has `FORGOT_UNCHECKED` or `STALE`: only where it is true."""
    if name in about and not field(about, name, bool):
        raise ValueError(
            f"the entry {name} of its description is false: a file leaves such an entry out"
        )
    return name in about


def parse_label_dtype(about: Mapping[str, Any], labels: Vocabulary) -> np.dtype[Any]:
    """Return the type of `classes_`, which must be able to hold the labels."""
    name = field(about, "label_dtype", str)
    if not re.fullmatch(
        r"\|O|\|b1|\|[iu]1|[<>][iu][248]|[<>]f[248]|[<>]U[0-9]{1,9}", name, re.ASCII
    ):
        raise ValueError(f"labels cannot be of type {name[:80]!r}")
    dtype: np.dtype[Any] = np.dtype(name)
    has_strings = len(labels.strings) > 0
    has_numbers = len(labels) > len(labels.strings)
    if has_strings and (has_numbers or dtype.kind not in "OU"):
        raise ValueError(f"its labels cannot be of type {name}")
    if has_numbers and dtype.kind == "U":
        raise ValueError(f"its labels cannot be of type {name}")
    if dtype.kind in "iub" and len(labels):
        low = 0
        high = 1
        if dtype.kind != "b":
            low = np.iinfo(dtype).min
            high = np.iinfo(dtype).max
        if len(labels.floats) or int(labels.ints[0]) < low or int(labels.ints[-1]) > high:
            raise ValueError(f"its labels do not fit in the type {name}")
    return dtype


def parse_feature_names(about: Mapping[str, Any], h: int) -> Array | None:
    """Return the names of the columns in a description: one for each of h columns, or None."""
    names = field(about, "feature_names_in", list, type(None))
    if names is None:
        return None
    if len(names) != h or any(type(name) is not str for name in names):
        raise ValueError(f"it names {len(names)} features, but contexts have {h} tokens")
    check_column_names(names)
    return np.array(names, dtype=object)


def parse_zones(about: Mapping[str, Any], are_dates: Sequence[bool]) -> dict[int, str]:
    """Return the zones in a description by column: of columns whose values came as dates."""
    if "zones" not in about:
        return {}
    zones: dict[int, str] = {}
    for zone, places in field(about, "zones", dict).items():
        if not is_zone_name(zone) or not isinstance(places, list) or not places:
            raise ValueError("the zones of its columns are not valid")
        for place in places:
            is_column = type(place) is int and 0 <= place < len(are_dates)
            if not is_column or not are_dates[place]:
                raise ValueError("it names the zone of a column that holds no dates")
            if place in zones:
                raise ValueError("it names two zones for one column")
            zones[place] = zone
    return dict(sorted(zones.items()))


def parse_orders(about: Mapping[str, Any], kinds: ColumnKinds) -> dict[int, Order]:
    """Return the orders in a description by column: of every column of ordered categories."""
    orders: dict[int, Order] = {}
    for entry in field(about, "orders", list) if "orders" in about else []:
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[1], list):
            raise ValueError("the orders of its columns are not valid")
        place, categories = entry
        if type(place) is not int or not 0 <= place < len(kinds) or place in orders:
            raise ValueError("it names the order of a column that it does not have")
        orders[place] = check_order(categories, f"column {place}")
    for place, kind in enumerate(kinds):
        if (kind is ColumnKind.ORDERED_CATEGORIES) != (place in orders):
            raise ValueError("it names the order of a column without one, or lacks one")
    return orders


def _parse_ordered(value: Any) -> dict[Any, list[Any]] | None:
    """Return the parameter `ordered`, which a file has as pairs of a column and its categories."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(
        isinstance(pair, list) and len(pair) == 2 for pair in value
    ):
        raise ValueError(f"ordered={_shorten(value)} is no list of columns with their categories")
    if not all(type(pair[0]) in (str, int) and isinstance(pair[1], list) for pair in value):
        raise ValueError(f"ordered={_shorten(value)} is no list of columns with their categories")
    for column, categories in value:
        check_order(categories, f"column {column!r}")
    return dict(value)


def format_part(described: Any) -> str:
    """Return a described part as users write it in Python."""
    if not isinstance(described, dict) or not isinstance(described.get("params"), dict):
        return "?"
    params = [f"{name}={_format_value(value)}" for name, value in described["params"].items()]
    return f"{described.get('class')}({', '.join(params)})"


def _format_value(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, dict):
        first_name = next(iter(value), "")
        if first_name == "secret":
            return "<secret>"
        if first_name == "arrays":
            return "<in the file>"
        return format_part(value)
    return repr(value)
