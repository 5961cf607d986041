"""The description in a model file: all of a model that is not an array, as JSON. Written here, and checked here.

A part of a model (a kernel, a memory, a vote) is described by the name of its class and its parameters. A parameter is
a finite number, a string, a truth value, None, a list of these, or a part. A secret key is never written: in its place
stands ``{"secret": true}``, and the key is passed when the file is loaded. Codes and projections that were given are
arrays of the file, and ``{"arrays": "codes"}`` stands in their place, with what they are.
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
from hammemo.edits.digests import UNSTORED, sorted_pairs
from hammemo.features.cells import Cells
from hammemo.files.archive import FileError, whole_lengths
from hammemo.files.registry import DESCRIBED, Registry, is_built_in, kind_of_part, name_in_file
from hammemo.kernels import Joined, SiteKernel
from hammemo.kernels.sites import FREE_KINDS, FreeSite, Sites
from hammemo.memories.gaussian import GivenRows, find_given_codes
from hammemo.memories.gaussian.codes import GIVEN
from hammemo.memories.secret_keys import secret_digest
from hammemo.tokens.column_evidence import HowGiven
from hammemo.tokens.contexts import check_column_names
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.zones import is_zone_name
from hammemo.votes.bounds import Bounds
from hammemo.votes.choose_weights import HeldOut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo._arrays.types import Array
    from hammemo.memories import Memory
    from hammemo.tokens.vocabulary import Vocabulary

MAX_NOTES: Final = 64
"""The most notes a file may have; a name has 1 to 64 characters, a text at most `MAX_NOTE_LENGTH`."""

MAX_NOTE_LENGTH: Final = 4096
"""The most characters of one note."""

FORGOT_UNCHECKED: Final = "forgot_unchecked"
STALE: Final = "stale"
"""The entry of models that have removed examples which may never have been stored, see `Memory.forgot_unchecked`."""


# Writing


def common_entries(sites: Sites, label_dtype: np.dtype[Any], cells: Cells | None) -> dict[str, Any]:
    """Return what the descriptions of classifiers and of predictors both say of a model."""
    own = {"positions": [list(site) for site in sites.positions], "weights": sites.weights.tolist()}
    own |= present(free=[[site.kind, site.reach] for site in sites.free])
    start = {"n_features_in": sites.h if cells is None else len(cells.table_kinds)}
    start |= present(cells=None if cells is None else cells.described())
    return {**start, "sites": own, "label_dtype": label_dtype.str}


def part_description(kind: str, part: Any, fitted: Any = None) -> dict[str, Any]:
    """Return the class and the parameters of a kernel, a memory, a vote or digests, a secret left out.

    Parameters
    ----------
    kind : {"kernel", "memory", "vote", "keep"}
    part : object
    fitted : Memory or ModelStore, optional
        The fitted memory, or what is stored: a secret in a parameter must be the one that it uses.
    """
    cls, secret = type(part), getattr(part, "secret", None)
    if not isinstance(part, DESCRIBED[kind]):
        raise FileError(f"{kind}={part!r} cannot be saved: it is not a {kind}.")
    if secret not in (None, "key"):
        raise FileError(
            f"{kind}={part!r} cannot be saved: load() passes a secret as key=, so name it key, not {secret}."
        )
    params: dict[str, Any] = {}
    for name, value in part.get_params(deep=False).items():
        if value is not None and name == secret:
            if getattr(fitted, name, None) != value:
                raise FileError(
                    f"The {name} of {kind}= is not that of the fitted model. Undo set_params({kind}__{name}=...)."
                )
            params[name] = {"secret": True}
        elif name in getattr(part, "given_codes", {}):
            params.update(codes_entry(part, name, value, fitted))
        elif name not in UNSTORED:  # a memory inside another: fitted, it has the same name with an underscore
            params[name] = _parameter_description(f"{kind}__{name}", value, getattr(fitted, f"{name}_", None))
    return {"class": name_in_file(kind, cls), "params": params}


def codes_entry(part: Any, name: str, value: Any, fitted: Memory | None) -> dict[str, Any]:
    """Return the entry for codes or a projection that were given, if any were: they must be the fitted memory's."""
    if value is None:
        return {}
    kind = part.given_codes[name]
    used = find_given_codes(fitted).get(kind)
    if used is None or GivenRows.of(value, kind).digest != used.digest:
        raise FileError(f"{name}= has other codes than the fitted memory. Undo set_params({name}=...), or fit again.")
    return {name: {"arrays": kind}}


def _parameter_description(name: str, value: Any, fitted: Memory | None) -> Any:
    kind = kind_of_part(value)
    if kind is not None:
        return part_description(kind, value, fitted)
    if isinstance(value, (list, tuple)) and any(kind_of_part(entry) for entry in value):
        return [_parameter_description(name, entry, None) for entry in value]
    return plain(name, value)


def plain(name: str, value: Any) -> Any:
    """Return a parameter as JSON has it: a number, a string, a truth value, None, or a list; a mapping as pairs."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufbU":
        value = value.tolist()
    if isinstance(value, Mapping):
        value = sorted_pairs(value)
    if isinstance(value, (list, tuple, range)):
        return [plain(name, entry) for entry in value]
    raise FileError(
        f"{name}={value!r} cannot be saved: parameters in a file are finite numbers, strings, None, or lists of these."
    )


def plain_fields(value: Cutting | HeldOut | None) -> dict[str, Any] | None:
    """Return how streams were cut, or how good a model was on held-out folds, as JSON has it; None where unknown."""
    return None if value is None else asdict(value)


def present(**entries: Any) -> dict[str, Any]:
    """Return the entries that say something: a file leaves out those that are None, false or empty."""
    return {name: value for name, value in entries.items() if value not in (None, False, [])}


# Checking


def field(about: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """Return an entry of the description, of exactly one of these types."""
    if name not in about or type(about[name]) not in kinds:
        raise ValueError(f"the entry {name} of its description is missing or of the wrong type")
    return about[name]


def exactly(about: Mapping[str, Any], names: Iterable[str], optional: Iterable[str] = ()) -> None:
    """Refuse a description that lacks one of these entries, or has one that is neither among them nor optional."""
    wanted = set(names)
    for name in (wanted - set(about)) | (set(about) - wanted - set(optional)):
        raise ValueError(f"its description {'has an unknown entry' if name in about else 'lacks'} {name}")


def stored_notes(about: Mapping[str, Any]) -> dict[str, str]:
    """Return the notes in a description, checked; empty where there are none."""
    return checked_notes(field(about, "notes", dict)) if "notes" in about else {}


def checked_notes(notes: dict[Any, Any]) -> dict[str, str]:
    """Return notes that are few, short and well named, or refuse them."""
    if len(notes) > MAX_NOTES:
        raise ValueError(f"A file holds at most {MAX_NOTES} notes, not {len(notes)}: leave some out.")
    for name, text in notes.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name, re.ASCII):
            raise ValueError(f"A note cannot be named {str(name)[:80]!r}: use 1 to 64 letters, digits, '-' and '_'.")
        if type(text) is not str or len(text) > MAX_NOTE_LENGTH:
            raise ValueError(f"The note {name!r} is not a string of at most {MAX_NOTE_LENGTH} characters: shorten it.")
    return notes


def stored_digest(about: Mapping[str, Any]) -> str | None:
    """Return the digest of the secret key, or None where there is none."""
    places = [about.get(name) for name in ("layout", "kept")]
    if about.get("kind") != "classifier":
        places = [about.get("description")]
    digests = key_digests(*(place for place in places if isinstance(place, dict)))
    if any(not isinstance(digest, str) for digest in digests) or len(set(digests)) > 1:
        raise ValueError("the digest of its key is not a string, or there are several")
    return digests[0] if digests else None


def key_digests(*layouts: Mapping[str, Any]) -> list[Any]:
    """Return the digests of the secret keys in layouts, those of memories inside others too."""
    entries = [entry for layout in layouts for entry in layout.items()]
    return [value for name, value in entries if name.split(".")[-1] == "key" and value is not None]


def check_key(digest: str | None, key: bytes | None) -> None:
    """Refuse a key that is missing, wrong or not needed; `digest` is that of the key the model was made with."""
    if digest is None and key is not None:
        raise FileError("This model has no secret key: leave out key=.")
    if digest is not None and key is None:
        raise FileError("This model has a secret key, which is not in the file: pass it as load(path, key=...).")
    if key is not None and (not isinstance(key, bytes) or digest != secret_digest(key)):
        raise FileError("key= is not the secret key that this model was made with: pass the same bytes.")


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


MAX_REASON_LENGTH: Final = 300
"""The most characters of a reason that an error repeats: a forger can make a value long."""

MAX_VALUE_LENGTH: Final = 80
"""The most characters of a value that an error repeats."""


def _shortened(value: Any) -> str:
    """Return a value of a file as an error shows it."""
    text = repr(value)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


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
        is_plain = isinstance(value, (bool, int, float, str, list, type(None)))
        if is_plain and repr(value) not in reason:  # of a part, the error names the value that is wrong in it
            reason = f"{_shortened(value)}: {reason}"
        raise ParameterError(name, reason) from error


@contextmanager
def taken_part(arrays: dict[str, Array], name: str, *, trusted: bool = False) -> Iterator[StoredArrays]:
    """Take the arrays whose names begin with ``name.`` out of `arrays` for the block, which must use all of them."""
    own = {full: arrays.pop(full) for full in list(arrays) if full.startswith(f"{name}.")}
    stored = StoredArrays(own, trusted=trusted)
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
        """Take codes and projections that were given out of the arrays of a file, checked, if it has any."""
        for kind in {name.partition(".")[0] for name in arrays}.intersection(GIVEN):
            with taken_part(arrays, kind) as stored:
                self.codes[kind] = GivenRows.from_stored(stored, kind)

    def _given(self, cls: Any, name: str, value: Any) -> GivenRows | None:
        """Return what a parameter was given, if it is described as one of the arrays of the file."""
        kind = getattr(cls, "given_codes", {}).get(name)
        return self.codes.get(kind) if kind is not None and value == {"arrays": kind} else None

    def part(self, kind: str, description: Any) -> Any:
        """Return the kernel, the memory or the vote of a description."""
        if not isinstance(description, dict):
            raise ValueError(f"its {kind} is not described")
        exactly(description, ("class", "params"))
        cls = self.registry.find(kind, field(description, "class", str))
        params = field(description, "params", dict)
        exactly(params, *stored_parameters(cls))
        arguments: dict[str, Any] = {}
        for name, value in params.items():
            with naming_parameter(name, value):
                arguments[name] = self._of_part(kind, cls, name, value)
        return cls(**arguments)

    def parameter(self, cls: Any, name: str, value: Any) -> Any:
        """Return a parameter of a class of classifiers."""
        if (given := self._given(cls, name, value)) is not None:
            return given
        if name == "numeric" and not isinstance(value, (str, list, type(None))):
            raise ValueError(f"{_shortened(value)} is neither a word nor a list of columns")
        if name == "random_state" and type(value) not in (int, type(None)):
            raise ValueError(f"{_shortened(value)} is not a seed, a whole number")
        if name == "bounds":
            return _stored_bounds(value)
        return self.part(name, value) if name in DESCRIBED and isinstance(value, dict) else _plain_value(value)

    def _of_part(self, kind: str, cls: Any, name: str, value: Any) -> Any:
        if value == {"secret": True} and name == getattr(cls, "secret", None):
            if self.key is None:
                raise ValueError("it says that there is a secret key, and nothing stored uses one")
            return self.key
        if (given := self._given(cls, name, value)) is not None:
            return given
        if not is_built_in(kind, cls):
            return self._of_trusted(value)
        if value is not None and name in getattr(cls, "inner", ()):
            return self.part("memory", value)
        if cls is Joined and isinstance(value, list):
            return [self.part("kernel", kernel) for kernel in value]
        return _plain_value(value)

    def _of_trusted(self, value: Any) -> Any:
        """Return a parameter of a class that the caller trusts: it may hold parts wherever it likes."""
        if isinstance(value, list):
            return [self._of_trusted(entry) for entry in value]
        if isinstance(value, dict):
            return self.part(self.registry.kind_of(field(value, "class", str)), value)
        return _plain_value(value)


@cache
def parameter_names(cls: Any) -> tuple[str, ...]:
    """Return the names of the parameters of an estimator class."""
    return tuple(cls._get_param_names())


def stored_parameters(cls: Any) -> tuple[list[str], list[str]]:
    """Return the names of the parameters of a class that a file has, and of those that it may have."""
    codes = getattr(cls, "given_codes", {})
    return [name for name in parameter_names(cls) if name not in UNSTORED and name not in codes], list(codes)


def _plain_value(value: Any) -> Any:
    """Return a parameter that is a plain value of bounded size, or refuse it."""
    if isinstance(value, list):
        for entry in value:
            _plain_value(entry)
    elif isinstance(value, (int, float)) and not -(2.0**64) < value < 2.0**64:
        raise ValueError(f"{_shortened(value)} is too large a number")
    elif not isinstance(value, (int, float, str, type(None))):
        raise ValueError(f"{_shortened(value)} is neither a number, a string, a truth value, None nor a list of these")
    return value


def _stored_bounds(value: Any) -> Any:
    """Return the bounds of a model of numbers, checked; they are stored in their one form."""
    if value is None:
        return None
    if not isinstance(value, list) or any(type(end) not in (float, type(None)) for end in value):
        raise ValueError(f"bounds={_shortened(value)} is not a pair of numbers")
    bounds = Bounds.from_parameter(value).parameter
    if bounds is None or list(bounds) != value:
        raise ValueError(f"bounds={_shortened(value)} is not in canonical form")
    return bounds


def stored_cells(about: Mapping[str, Any], arrays: dict[str, Array]) -> Cells | None:
    """Return the cells of a model of a table with numbers, checked, and take their arrays out of `arrays`."""
    if "cells" not in about:
        return None
    described = field(about, "cells", dict)
    exactly(described, ("kinds", "missing_is_cell", "last_word", "trees", "tuples", "base"), optional=("narrowing",))
    with taken_part(arrays, "cells") as stored:
        cells = Cells.restored(described, stored)
    if len(cells.table_kinds) != field(about, "n_features_in", int):
        raise ValueError("its cells have another number of columns")
    return cells


def stored_sites(about: Mapping[str, Any], cells: Cells | None = None) -> Sites:
    """Return the sites in a description, checked."""
    h, described = field(about, "n_features_in", int), field(about, "sites", dict)
    h = h if cells is None else cells.h
    exactly(described, ("positions", "weights"), optional=("free",))
    positions, weights = field(described, "positions", list), field(described, "weights", list)
    if not 1 <= h < 2**31 or any(type(weight) is not float for weight in weights):
        raise ValueError("its contexts have no token or too many, or a weight of its sites is not a number")
    sites = SiteKernel([whole_lengths(site) for site in positions], weights).resolve(h)
    if "free" in described:
        sites = replace(sites, free=tuple(_free_site(site, h) for site in field(described, "free", list)))
    sites.check_size()
    if [list(site) for site in sites.positions] != positions:
        raise ValueError("its sites do not list their positions in ascending order")
    return sites


def _free_site(described: Any, h: int) -> FreeSite:
    if not isinstance(described, list) or len(described) != 2 or described[0] not in list(FREE_KINDS):
        raise ValueError("a site without a position is of a kind that is not known")
    kind, reach = described
    if type(reach) is not int or not 1 <= reach <= h:
        raise ValueError("a site without a position reaches further than a context")
    return FreeSite(kind, reach)


def check_kernel(kernel: SiteKernel, sites: Sites) -> None:
    """Refuse sites that are not the kernel's; nothing is made of the declared h before it is known to be small."""
    if type(kernel) is SiteKernel and not isinstance(kernel.sites, list):
        raise ValueError("its kernel has no list of sites")
    if kernel.least_sites(sites.h) > len(sites.positions):
        raise ValueError("its kernel has more sites than the file declares")
    resolved = kernel.resolve(sites.h)
    same = (resolved.positions, resolved.free) == (sites.positions, sites.free)
    if not same or not np.array_equal(resolved.weights, sites.weights):
        raise ValueError("its sites are not those of its kernel")


def stored_cutting(about: Mapping[str, Any]) -> Cutting | None:
    """Return how streams were cut, checked; None where the file does not say it."""
    if "cutting" not in about:
        return None
    described = field(about, "cutting", dict)
    exactly(described, ("short", "pad"))
    pad = field(described, "pad", str, int, float, type(None))
    cutting = Cutting(field(described, "short", str), pad)
    if type(cutting.pad) is not type(pad):  # such as 2.0, which is the token 2
        raise ValueError("its pad token is not in canonical form")
    return cutting


def stored_held_out(about: Mapping[str, Any]) -> HeldOut | None:
    """Return how good a model was on held-out folds, checked; None where the file does not say it."""
    if "held_out" not in about:
        return None
    described = field(about, "held_out", dict)
    exactly(described, ("log_loss", "accuracy", "folds", "rows"))
    loss, accuracy = (field(described, name, float) for name in ("log_loss", "accuracy"))
    folds, rows = (field(described, name, int) for name in ("folds", "rows"))
    if not (0 <= loss < math.inf and 0 <= accuracy <= 1 and 1 <= folds <= rows < 2**63):
        raise ValueError("its figures on held-out folds are impossible")
    if field(about, "pinned", bool) or field(about, "chosen_at", int) < 1:
        raise ValueError("it has figures on held-out folds, and no layout that was chosen by them")
    return HeldOut(loss, accuracy, folds, rows)


def stored_flag(about: Mapping[str, Any], name: str) -> bool:
    """Return `FORGOT_UNCHECKED` or `STALE` of a description; a file has the entry only where it is true."""
    if name in about and not field(about, name, bool):
        raise ValueError(f"the entry {name} of its description is false: a file leaves such an entry out")
    return name in about


def stored_label_dtype(about: Mapping[str, Any], labels: Vocabulary) -> np.dtype[Any]:
    """Return the type of `classes_`, which must be able to hold the labels."""
    name = field(about, "label_dtype", str)
    if not re.fullmatch(r"\|O|\|b1|\|[iu]1|[<>][iu][248]|[<>]f[248]|[<>]U[0-9]{1,9}", name, re.ASCII):
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


def stored_feature_names(about: Mapping[str, Any], h: int) -> Array | None:
    """Return the names of the columns in a description, checked: one for each of the h tokens of a context, or none."""
    names = field(about, "feature_names_in", list, type(None))
    if names is None:
        return None
    if len(names) != h or any(type(name) is not str for name in names):
        raise ValueError(f"it names {len(names)} features, but contexts have {h} tokens")
    check_column_names(names)
    return np.array(names, dtype=object)


def stored_zones(about: Mapping[str, Any], types: str) -> dict[int, str]:
    """Return the zones of columns in a description, checked: of columns whose values came as dates, each once."""
    zones: dict[int, str] = {}
    for zone, places in field(about, "zones", dict).items() if "zones" in about else ():
        if not is_zone_name(zone) or not isinstance(places, list) or not places:
            raise ValueError("the zones of its columns are not valid")
        for place in places:
            if type(place) is not int or not 0 <= place < len(types) or types[place] != HowGiven.DATES:
                raise ValueError("it names the zone of a column that holds no dates")
            if place in zones:
                raise ValueError("it names two zones for one column")
            zones[place] = zone
    return dict(sorted(zones.items()))


def shown(part: Any) -> str:
    """Return a described part as one would write it."""
    if not isinstance(part, dict) or not isinstance(part.get("params"), dict):
        return "?"
    return f"{part.get('class')}({', '.join(f'{name}={_shown_value(v)}' for name, v in part['params'].items())})"


def _shown_value(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        return f"[{', '.join(map(_shown_value, value))}]"
    if isinstance(value, dict):
        return {"secret": "<secret>", "arrays": "<in the file>"}.get(next(iter(value), ""), shown(value))
    return repr(value)
