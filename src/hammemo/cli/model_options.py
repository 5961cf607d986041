"""Which model is learnt: the options of a new one, and what their short spellings mean."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Any, ClassVar, Final

from hammemo.cli.console import UsageError
from hammemo.cli.input_options import refuse
from hammemo.cli.options import read_key, setting, switch

if TYPE_CHECKING:
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.regressor import MemoryRegressor
    from hammemo.memories import Memory
    from hammemo.sources.schemas import Schema

_KERNELS = "What is compared: auto; positional, pairs, decaying:RATE, suffixes:K:BASE, skip-pairs:REACH; join by +."

BUCKETS: Final = 2048
RESERVED: Final = 1024
_OF_NUMBERS: Final = ("keep", "seed", "bounds")
"""The options that a model of numbers has, too."""


@dataclass(frozen=True)
class ModelOptions:
    """The parameters of a new model."""

    panel: ClassVar = "The model"

    kernel: str = setting("NAME", _KERNELS, default="auto")
    vote: str = setting(
        "NAME", "auto, log-linear or mixture (both support --proba), sum (the paper's) or mean.", default="auto"
    )
    memory: str = setting(
        "NAME",
        "auto (exact; hashed with --buckets, --reserved, --key-file), exact, hashed, tiered (a hashed one in front of "
        "an exact one), gaussian (the paper's).",
        default="auto",
    )
    buckets: int = setting("N", "Shared rows of a hashed memory, per position.", default=BUCKETS, min=1)
    reserved: int = setting("N", "Tokens with a reserved row in a hashed memory.", default=RESERVED, min=0)
    d: int | None = setting("N", "Dimension of a gaussian memory's codes.", "1024", min=1)
    d_h: int | None = setting("N", "Dimension of its projected codes.", "d / h", min=1)
    tied: bool = switch("--tied", "Its labels use their codes as tokens.")
    exact: bool = switch("--exact", "Its codes are whole steps: sums are exact.")
    keep: str = setting(
        "WHAT",
        "What is stored of the rows: auto, none; rows or a number of rows, in plain text; digests (then forget refuses "
        "rows never learnt); auto+digests, rows+digests, or a number, as in 1000+digests.",
        default="auto",
    )
    key_file: Path | None = setting("FILE", "Use a keyed model: a secret key of 16 to 64 bytes.")
    seed: int = setting("N", "Models with the same seed and layout can be merged.", default=0)
    bounds: str | None = setting(
        "LOW,HIGH", "Numbers: answers never leave these bounds; either may be missing, as in 0, for counts."
    )
    layout: Path | None = setting("MODEL", "Use the layout of this model, so both can be merged.")

    def learners(self, schema: Schema) -> tuple[MemoryClassifier | MemoryRegressor, MemoryClassifier | None]:
        """Return the model that is to learn, and the one whose layout it uses, if there is one."""
        from hammemo.cli.models import open_model
        from hammemo.estimators.classifiers import MemoryClassifier

        if getattr(schema, "is_target", False):
            return self._regressor(), None
        refuse({"bounds": self.bounds}, "is for numbers: leave it out, or use --target instead of --label")
        key = read_key(self.key_file)
        keep, memory = keep_of(self.keep, key), self._memory(key)
        part_of("vote", self.vote)  # refuses a name that is not known
        model = MemoryClassifier(part_of("kernel", self.kernel), memory, self.vote, random_state=self.seed, keep=keep)
        return model, None if self.layout is None else open_model(self.layout, key).learner(self.layout)

    def _memory(self, key: bytes | None) -> Memory | str:
        """Return the memory of these options; "auto" as it is where nothing says more."""
        from hammemo.memories import Hashed

        name, has_digests = self.memory, _has_digests(self.keep)
        asked = {"d": self.d, "d_h": self.d_h, "tied": self.tied or None, "exact": self.exact or None}
        gaussian = {option: value for option, value in asked.items() if value is not None}
        if gaussian and name != "gaussian":
            option = f"--{next(iter(gaussian)).replace('_', '-')}"
            raise UsageError(f"{option} is for the gaussian memory, and --memory is {name}: use --memory gaussian.")
        if name == "auto":
            if (self.buckets, self.reserved) == (BUCKETS, RESERVED) and (key is None or has_digests):
                return "auto"
            name = "hashed"
        memory: Memory = part_of("memory", name)
        if key is not None and name not in ("hashed", "tiered") and not has_digests:
            raise UsageError(
                f"--key-file: the {name} memory has no key. Use --memory hashed or tiered, or --keep digests."
            )
        sketch = Hashed(self.buckets, self.reserved, key=key)
        parameters = {"hashed": sketch.get_params(), "tiered": {"sketch": sketch}, "gaussian": gaussian}
        memory.set_params(**parameters.get(name, {}))
        return memory

    def _regressor(self) -> MemoryRegressor:
        """Return a model that predicts numbers."""
        from hammemo.estimators.regressor import MemoryRegressor

        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _OF_NUMBERS}
        changed = {name.replace("_", "-"): value for name, value in given.items() if value != getattr(type(self), name)}
        refuse(changed, "is for labels: leave it out, or use --label instead of --target")
        if _has_digests(self.keep):
            raise UsageError(f"--keep {self.keep}: digests are for labels. Use auto, rows, none or a number of rows.")
        return MemoryRegressor(random_state=self.seed, keep=keep_of(self.keep), bounds=bounds_of(self.bounds))


def bounds_of(text: str | None) -> tuple[float | None, float | None] | None:
    """Return the value of ``bounds`` that a text means.

    Examples
    --------
    >>> from hammemo.cli.model_options import bounds_of
    >>> bounds_of("0,"), bounds_of("-1,1"), bounds_of(None)
    ((0.0, None), (-1.0, 1.0), None)
    """
    from hammemo.votes.bounds import Bounds

    if text is None:
        return None
    try:
        ends = tuple(float(end) if end.strip() else None for end in text.split(","))
        return Bounds.from_parameter(ends).parameter
    except ValueError:
        raise UsageError(
            f"--bounds {text}: give two numbers with a comma, the smaller one first; either may be missing, as in 0, "
            "(at least 0) or ,1 (at most 1)."
        ) from None


def part_of(kind: str, text: str) -> Any:
    """Return the kernel, memory or vote of a name; "auto" as it is.

    Examples
    --------
    >>> from hammemo.cli.model_options import part_of
    >>> part_of("kernel", "suffixes:4"), part_of("kernel", "positional+skip-pairs:3")
    (Suffixes(), Joined(kernels=[PositionalHamming(), SkipPairs(reach=3)]))
    """
    from hammemo.tasks.labels.names import NAMES, is_auto

    try:
        return text if is_auto(text) else NAMES[kind].make(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def keep_of(text: str, key: bytes | None = None) -> Any:
    """Return the value of ``keep`` that a text means; digests are made with the key, if there is one.

    Examples
    --------
    >>> from hammemo.cli.model_options import keep_of
    >>> keep_of("rows"), keep_of("1000"), keep_of("digests"), keep_of("1000+digests")
    (True, 1000, 'digests', Digests(rows=1000))
    """
    from hammemo.stores.digest_store import NAMES, Digests

    words: dict[str, str | bool] = {"auto": "auto", "rows": True, "none": False}
    kept = text.removesuffix("digests").removesuffix("+") or "none" if _has_digests(text) else text
    if kept not in words and not kept.isdecimal():
        known = ", ".join([*words, "a number of rows", *NAMES, "1000+digests"])
        raise UsageError(f"--keep {text} is not known: use {known}.")
    rows = words[kept] if kept in words else int(kept)
    if not _has_digests(text):
        return rows
    return text if key is None and text in NAMES else Digests(rows, key)


def _has_digests(keep: str) -> bool:
    return keep == "digests" or keep.endswith("+digests")
