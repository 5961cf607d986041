"""Which model is learnt: the options of a new one, and what their short spellings mean."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

import typer

from hammemo.cli.console import UsageError
from hammemo.cli.input_options import refuse
from hammemo.cli.options import flag, option, read_key

if TYPE_CHECKING:
    from hammemo.memories import Memory
    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.models.regressor import MemoryRegressor
    from hammemo.sources.schemas import Schema

_PANEL: Final = "The model"

BUCKETS: Final = 2048
RESERVED: Final = 1024

Kernel: TypeAlias = Annotated[
    str,
    option(
        "NAME",
        "What is compared: auto; positional, pairs, decaying:RATE, suffixes:K:BASE, skip-pairs:REACH; join by +.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class ModelOptions:
    """The parameters of a new model."""

    panel: ClassVar = _PANEL

    kernel: Kernel = "auto"
    vote: Annotated[
        str, option("NAME", "auto, log-linear or mixture (both support --proba), sum (the paper's) or mean.")
    ] = "auto"
    memory: Annotated[
        str,
        option(
            "NAME",
            "auto (exact; hashed with --buckets, --reserved, --key-file), exact, hashed, tiered (a hashed one in "
            "front of an exact one), gaussian (the paper's).",
        ),
    ] = "auto"
    buckets: Annotated[int, option("N", "Shared rows of a hashed memory, per position.", min=1)] = BUCKETS
    reserved: Annotated[int, option("N", "Tokens with a reserved row in a hashed memory.", min=0)] = RESERVED
    d: Annotated[
        int | None, typer.Option("--d", min=1, help="Dimension of a gaussian memory's codes.", show_default="1024")
    ] = None
    d_h: Annotated[
        int | None, typer.Option("--d-h", min=1, help="Dimension of its projected codes.", show_default="d / h")
    ] = None
    tied: Annotated[bool, flag("--tied", "Its labels use their codes as tokens.")] = False
    exact: Annotated[bool, flag("--exact", "Its codes are whole steps: sums are exact.")] = False
    keep: Annotated[
        str,
        option(
            "WHAT",
            "What is stored of the rows: auto, none; rows or a number of rows, in plain text; digests (then "
            "forget refuses rows never learnt); auto+digests, rows+digests, or a number, as in 1000+digests.",
        ),
    ] = "auto"
    key_file: Annotated[Path | None, option("FILE", "Use a keyed model: a secret key of 16 to 64 bytes.")] = None
    seed: Annotated[int, option("N", "Models with the same seed and layout can be merged.")] = 0
    layout: Annotated[Path | None, option("MODEL", "Use the layout of this model, so both can be merged.")] = None

    def classifiers(self) -> tuple[MemoryClassifier, MemoryClassifier | None]:
        """Return the model that is to learn, and the one whose layout it uses, if there is one."""
        from hammemo.cli.models import open_model
        from hammemo.models.classifiers import MemoryClassifier

        key = read_key(self.key_file)
        gaussian = {"d": self.d, "d_h": self.d_h, "tied": self.tied or None, "exact": self.exact or None}
        keep = keep_of(self.keep, key)
        memory = memory_of(self.memory, self.buckets, self.reserved, gaussian, key, has_digests=_has_digests(self.keep))
        part_of("vote", self.vote)  # refuses a name that is not known
        model = MemoryClassifier(part_of("kernel", self.kernel), memory, self.vote, random_state=self.seed, keep=keep)
        return model, None if self.layout is None else open_model(self.layout, key).learner(self.layout)

    def learners(self, schema: Schema) -> tuple[MemoryClassifier | MemoryRegressor, MemoryClassifier | None]:
        """Return what `classifiers` does; for a schema with targets, a model that predicts numbers."""
        if not getattr(schema, "is_target", False):
            return self.classifiers()
        from hammemo.models.regressor import MemoryRegressor

        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("keep", "seed")}
        changed = {name.replace("_", "-"): value for name, value in given.items() if value != getattr(type(self), name)}
        refuse(changed, "is for labels: leave it out, or use --label instead of --target")
        if _has_digests(self.keep):
            raise UsageError(f"--keep {self.keep}: digests are for labels. Use auto, rows, none or a number of rows.")
        return MemoryRegressor(random_state=self.seed, keep=keep_of(self.keep)), None


def part_of(kind: str, text: str) -> Any:
    """Return the kernel, memory or vote of a name; "auto" as it is.

    Examples
    --------
    >>> from hammemo.cli.model_options import part_of
    >>> part_of("kernel", "suffixes:4"), part_of("kernel", "positional+skip-pairs:3")
    (Suffixes(), Joined(kernels=[PositionalHamming(), SkipPairs(reach=3)]))
    """
    from hammemo.models.names import NAMES, is_auto

    try:
        return text if is_auto(text) else NAMES[kind].made(text)
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


def memory_of(
    name: str, buckets: int, reserved: int, gaussian: dict[str, Any], key: bytes | None, *, has_digests: bool = False
) -> Memory | str:
    """Return the memory of these options; "auto" as it is where nothing says more.

    The parameters of a gaussian memory that were not given are None.
    """
    from hammemo.memories import Hashed

    gaussian = {option: value for option, value in gaussian.items() if value is not None}
    if gaussian and name != "gaussian":
        option = f"--{next(iter(gaussian)).replace('_', '-')}"
        raise UsageError(f"{option} is for the gaussian memory, and --memory is {name}: use --memory gaussian.")
    if name == "auto":
        if (buckets, reserved) == (BUCKETS, RESERVED) and (key is None or has_digests):
            return "auto"
        name = "hashed"
    memory: Memory = part_of("memory", name)
    if key is not None and name not in ("hashed", "tiered") and not has_digests:
        raise UsageError(f"--key-file: the {name} memory has no key. Use --memory hashed or tiered, or --keep digests.")
    sketch = Hashed(buckets, reserved, key=key)
    parameters: dict[str, dict[str, Any]] = {
        "hashed": sketch.get_params(),
        "tiered": {"sketch": sketch},
        "gaussian": gaussian,
    }
    memory.set_params(**parameters.get(name, {}))
    return memory
