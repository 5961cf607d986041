"""The settings of a model that is made on the server, as JSON, and the model that they mean.

``{"columns": 8, "memory": "hashed", "vote": "sum"}``; every setting may be left out:

- ``columns``: how many tokens a row has, or a list of their names; else the first edit says it;
- ``dates``: which of the columns are dates, by their names or places from 0. Rows have them as
  strings such as ``"2026-11-17"`` or ``"2026-11-17T08:00:00Z"``;
- ``documents``: in place of columns, ``{"h": 30, "short": "pad"}`` for a model that learns
  whole documents, with h, short and pad as in `fit_stream`;
- ``kernel``, ``memory``, ``vote``: a name that `MemoryClassifier` knows, or a part as model
  files describe it, such as ``{"class": "Hashed", "params": {"buckets": 4096}}``, where
  parameters left out have their defaults;
- ``keep``: what is stored of the rows, as in `MemoryClassifier`; "auto+digests" if nothing is
  said, so that the model refuses to forget what was never learnt; ``{"class": "Digests",
  "params": {"rows": 1000}}`` limits the rows;
- ``missing``: "token", "empty" or "refuse";
- ``predicts``: "numbers" for a model of numbers, with ``bounds`` such as ``[0, null]``, as in
  `MemoryRegressor`;
- ``subjects``: "required" for a model in which each row belongs to a subject that can be erased
  (:mod:`hammemo_server.erasure.journal`); without it nothing is kept of subjects;
- ``seed``: models with the same seed can be merged. If nothing is said, a secret one is drawn,
  so that callers cannot choose tokens that collide.

No example is known yet, so nothing can be chosen by examples: an "auto" kernel compares
positions, an "auto" memory counts exactly, and an "auto" vote weighs all positions alike, as
naive Bayes does, until a refit fits the weights to what was learnt. A refit of a model of
documents chooses what `fit_stream` would choose. For chosen tuples of columns, fit a model and
upload its file.

Settings come from callers that are not trusted: nothing is made that they could make large.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import numpy as np

from hammemo._versions import cached_property
from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.estimators.regressor import MemoryRegressor
from hammemo.files.descriptions import Restorer, list_parameter_names, to_plain
from hammemo.files.registry import BUILT_IN, Registry
from hammemo.memories import Gaussian, Hashed, Tiered
from hammemo.tasks.labels.automatic import make_memory
from hammemo.tasks.labels.names import KERNELS, NAMES, is_auto
from hammemo.tokens.cutting import Cutting
from hammemo.votes.bounds import Bounds
from hammemo_server.edits.operations import Malformed, TooLarge

if TYPE_CHECKING:
    from hammemo.estimators.learners import Learner
    from hammemo_server.edits.limits import Limits

_NAMES: Final = (
    "columns",
    "dates",
    "documents",
    "kernel",
    "memory",
    "vote",
    "keep",
    "missing",
    "seed",
    "subjects",
    "predicts",
    "bounds",
)
"""All settings, in the order in which a refusal names them."""
_MAX_CHARACTERS: Final = 2**16
"""The most characters of settings as JSON."""
_LONGEST_NAME: Final = 200
"""The most characters of the name of a part: kernels may be joined."""


class DocumentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a model that is made on the server cuts documents."""

    h: int
    short: Literal["drop", "pad"] = "drop"
    pad: str | int | None = None

    @property
    def cutting(self) -> Cutting:
        """The same as the library has it."""
        return Cutting(self.short, self.pad)


@dataclass(frozen=True)
class Settings:
    """Checked settings; `model` makes a new model of them.

    Examples
    --------
    >>> from hammemo_server.edits.limits import Limits
    >>> from hammemo_server.edits.settings import Settings
    >>> Settings.from_client({"columns": 3, "memory": "hashed", "seed": 1}, Limits()).model()
    MemoryClassifier(keep='auto+digests', memory=Hashed(), random_state=1)
    """

    given: dict[str, Any]
    seed: int
    uploaded: bool = False

    @classmethod
    def for_upload(cls, names: list[str] | None) -> Settings:
        """Return the settings of a model that was uploaded.

        No more than the names of its columns.
        """
        return cls({} if names is None else {"columns": names}, 0, uploaded=True)

    @classmethod
    def from_client(cls, client_settings: Any, limits: Limits) -> Settings:
        """Return the settings that a client gave, or refuse them.

        A seed is drawn if none was given.
        """
        if not isinstance(client_settings, dict):
            raise Malformed('Settings are a JSON object, such as {"columns": 8}.')
        if unknown := [str(name) for name in client_settings if name not in _NAMES]:
            raise Malformed(
                f"The setting {unknown[0][:80]!r} is not known: use {', '.join(_NAMES)}."
            )
        if len(json.dumps(client_settings)) > _MAX_CHARACTERS:
            raise TooLarge(f"Settings have at most {_MAX_CHARACTERS:,} characters as JSON.")
        if client_settings.get("subjects", "required") != "required":
            raise Malformed(
                'subjects: say "required", or leave it out for a model without subjects.'
            )
        settings = cls(client_settings, _read_seed(client_settings))
        _check_columns(client_settings, limits)
        _check_documents(client_settings, limits)
        _check_dates(client_settings)
        try:
            settings._check(limits)
        except (ValueError, TypeError, RecursionError, OverflowError, MemoryError) as error:
            raise Malformed(f"These settings make no model: {error}") from None
        return settings

    @classmethod
    def from_text(cls, text: str) -> Settings:
        """Return the settings that `text` wrote."""
        return cls(**json.loads(text))

    def text(self) -> str:
        """Return the settings as the log keeps them."""
        return json.dumps(asdict(self))

    @property
    def has_subjects(self) -> bool:
        """Whether each row belongs to a subject."""
        return "subjects" in self.given

    @property
    def predicts_numbers(self) -> bool:
        """Whether the model predicts numbers."""
        return self.given.get("predicts") == "numbers"

    @property
    def columns(self) -> int | None:
        """How many tokens a row has; None where the first edit says it."""
        columns = self.given.get("columns")
        return len(columns) if isinstance(columns, list) else columns

    @cached_property
    def dates(self) -> list[int]:
        """The places of the columns that are dates."""
        names = self.column_names or []
        return [
            names.index(column) if isinstance(column, str) else column
            for column in self.given.get("dates", ())
        ]

    @property
    def documents(self) -> DocumentSettings | None:
        """How documents are cut.

        None for a model of rows, and for an uploaded one, which says it itself.
        """
        cut = self.given.get("documents")
        return None if cut is None else msgspec.convert(cut, DocumentSettings)

    @property
    def width(self) -> int | None:
        """How many tokens a context has; None where the first edit says it."""
        return self.columns if self.documents is None else self.documents.h

    @property
    def column_names(self) -> list[str] | None:
        """What the columns are called; None where they have no names."""
        columns = self.given.get("columns")
        return columns if isinstance(columns, list) else None

    def model(self) -> MemoryClassifier:
        """Return a new model that has learnt nothing and is not open."""
        restorer = Restorer(Registry(), None)
        kernel = _part(restorer, "kernel", self.given.get("kernel", "auto"))
        vote = _part(restorer, "vote", self.given.get("vote", "auto"))
        memory = make_memory(_part(restorer, "memory", self.given.get("memory", "auto")))
        keep = self.given.get("keep", "auto+digests")
        if isinstance(keep, dict):
            keep = _part(restorer, "keep", keep)
        return MemoryClassifier(
            kernel=kernel,
            memory=memory,
            vote=vote,
            random_state=self.seed,
            missing=self.given.get("missing", "token"),
            keep=keep,
        )

    def open_model(self, h: int) -> Learner:
        """Return a new model that has learnt nothing, for rows of h values."""
        if not self.predicts_numbers:
            return self.model().open(h)
        keep = self.given.get("keep", "auto")
        missing = self.given.get("missing", "token")
        bounds = Bounds.from_parameter(self.given.get("bounds"))
        model = MemoryRegressor(self.seed, missing, keep, bounds=bounds.parameter)
        target = bounds.clip(np.zeros(1))  # any target inside the bounds: nothing of it is left
        return model.fit([[None] * h], target).apply(forget="everything").refit()

    def check_size(self, h: int, limits: Limits) -> None:
        """Refuse a model of rows of h values that would be large before it has learnt anything."""
        if not self.predicts_numbers:  # sums have the size of their trees, whatever h is
            check_parts(self.model(), h, limits)

    def _check(self, limits: Limits) -> None:
        """Make a model, small numbers first; without columns as if there was one."""
        if "predicts" in self.given:
            _check_numbers(self.given)
            self.open_model(1)
            return
        if "bounds" in self.given:
            raise ValueError(
                "bounds are of a model that predicts numbers: "
                'say "predicts": "numbers", or leave them out'
            )
        model = self.model()
        h = self.width or 1
        refuse_inexact(model.memory)
        check_parts(model, h, limits)
        model.open(h)


def check_parts(model: MemoryClassifier, h: int, limits: Limits) -> int:
    """Refuse a model that would be large before it has learnt anything.

    Return how many rows its sketch has.
    """
    kernel: Any = model.kernel
    if isinstance(kernel, str):
        kernel = KERNELS.make("positional" if is_auto(kernel) else kernel)
    if h * h > limits.sites and kernel.least_sites(h) > limits.sites:
        raise TooLarge(
            f"The kernel has more than {limits.sites:,} sites, the limit: use fewer columns."
        )
    n_sites = len(kernel.resolve(h).positions)
    if n_sites > limits.sites:
        raise TooLarge(f"The kernel has {n_sites:,} sites, above the limit of {limits.sites:,}.")
    sketch = sketch_of(model.memory)
    rows = 0
    if sketch is not None:
        rows = sketch_rows(sketch, n_sites)
    if rows > limits.table_rows:
        raise TooLarge(
            f"The hashed memory has more than {limits.table_rows:,} rows over all sites: "
            "use fewer buckets."
        )
    return rows


def sketch_of(memory: Any) -> Hashed | None:
    """Return the sketch of a memory, which has a count for every label in each of its rows."""
    if isinstance(memory, Tiered):
        sketch: Hashed = getattr(memory, "sketch", None) or Hashed()
        return sketch
    return memory if isinstance(memory, Hashed) else None


def sketch_rows(sketch: Hashed, n_sites: int) -> int:
    """Return how many rows a sketch has."""
    return _add_sites(sketch.buckets, n_sites) + _add_sites(sketch.reserved, n_sites)


def refuse_inexact(memory: Any) -> None:
    """Refuse a memory whose state depends on how edits were grouped."""
    if isinstance(memory, Gaussian):
        raise Malformed(
            "A Gaussian memory adds floats, and rounding depends on how edits are grouped: "
            "after a restart it would not be the same. Serve an exact or a hashed memory."
        )


def _add_sites(numbers: Any, n_sites: int) -> int:
    """Return the sum over all sites of a parameter that is one number for all, or one for each."""
    if isinstance(numbers, (list, tuple)):
        return sum(map(int, numbers))
    return int(numbers) * n_sites


def _part(restorer: Restorer, kind: str, value: Any) -> Any:
    """Return a part by its name, or made of its description, defaults filled in."""
    if isinstance(value, str):
        if len(value) > _LONGEST_NAME:
            raise ValueError(f"{kind}: a name has at most {_LONGEST_NAME} characters")
        NAMES[kind].check(value)
        return value
    return restorer.restore_part(kind, _fill_defaults(kind, value))


def _fill_defaults(kind: str, value: Any) -> Any:
    """Return a description with the parameters that it left out.

    What is wrong with it, the restorer says.
    """
    if not isinstance(value, dict) or not isinstance(value.get("params", {}), dict):
        raise ValueError(f'{kind} is neither a name nor of the form {{"class": …, "params": …}}')
    cls: Any = BUILT_IN[kind].get(str(value.get("class")))
    if cls is None:
        raise ValueError(
            f"{kind}: {str(value.get('class'))[:80]!r} is not one of {', '.join(BUILT_IN[kind])}"
        )
    params = dict(value.get("params", {}))
    if params.get("key") is not None:
        raise ValueError(f"{kind}: a model made here has no secret key")
    declared = signature(cls).parameters
    for name in list_parameter_names(cls):
        default = declared[name].default
        params.setdefault(name, to_plain(name, None if default is Parameter.empty else default))
    for name in getattr(cls, "inner", ()):
        if isinstance(params.get(name), dict):
            params[name] = _fill_defaults("memory", params[name])
    if isinstance(params.get("kernels"), list):
        params["kernels"] = [_fill_defaults("kernel", kernel) for kernel in params["kernels"]]
    return {**value, "params": params}


def _check_columns(settings: dict[str, Any], limits: Limits) -> None:
    columns = settings.get("columns")
    if columns is None:
        return
    if isinstance(columns, list):
        if any(not isinstance(name, str) for name in columns) or len(set(columns)) != len(columns):
            raise Malformed("columns: the names of columns are different strings.")
        columns = len(columns)
    if type(columns) is not int or not 1 <= columns <= limits.columns:
        raise Malformed(f"columns: a row has 1 to {limits.columns:,} tokens.")


def _check_numbers(settings: dict[str, Any]) -> None:
    if settings["predicts"] != "numbers":
        raise Malformed('predicts: say "numbers", or leave it out for a model of labels.')
    if superfluous := next(
        (name for name in ("kernel", "memory", "vote", "documents") if name in settings), None
    ):
        raise Malformed(f"{superfluous}: a model that predicts numbers has none: leave it out.")
    if settings.get("keep", "auto") is False:
        raise Malformed(
            "keep: a model that predicts numbers is fitted to the rows that it keeps: leave it out."
        )


def _check_dates(settings: dict[str, Any]) -> None:
    columns = settings.get("columns")
    dates = settings.get("dates", [])
    if not isinstance(dates, list) or (dates and columns is None):
        raise Malformed(
            "dates: list the columns that are dates, "
            "and say with columns which or how many there are."
        )
    columns_and_places = (
        [*columns, *range(len(columns))] if isinstance(columns, list) else range(columns or 0)
    )
    for column in dates:
        if type(column) not in (str, int) or column not in columns_and_places:
            raise Malformed(f"dates: {str(column)[:80]!r} is not one of the columns.")


def _check_documents(settings: dict[str, Any], limits: Limits) -> None:
    if "documents" not in settings:
        return
    if settings.get("columns") is not None:
        raise Malformed("documents: a model learns documents, or rows with columns, not both.")
    try:
        documents = msgspec.convert(settings["documents"], DocumentSettings)
        documents.cutting  # noqa: B018
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise Malformed(
            f'documents: say how they are cut, such as {{"h": 30, "short": "pad"}}: {error}'
        ) from None
    if not 1 <= documents.h <= limits.columns:
        raise Malformed(f"documents: a context has 1 to {limits.columns:,} tokens, h.")


def _read_seed(settings: dict[str, Any]) -> int:
    seed = settings.get("seed")
    if seed is None:
        return secrets.randbits(63)
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise Malformed(f"seed={str(seed)[:40]}: a seed is a whole number from 0 to 2^63 - 1.")
    return seed
