"""The options of a new model, and what their short spellings mean."""

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

_KERNELS = (
    "What is compared: auto; positional, pairs, decaying:RATE, suffixes:K:BASE, skip-pairs:REACH; "
    "join by +."
)

BUCKETS: Final = 2048
RESERVED: Final = 1024

_OF_NUMBERS: Final = ("keep", "seed", "bounds")
"""The options that a model of numbers has, too."""

_ROWS_OF_KEEP: Final[dict[str, str | bool]] = {"auto": "auto", "rows": True, "none": False}
"""What the words of --keep mean for the parameter `keep`."""


@dataclass(frozen=True)
class ModelOptions:
    """The parameters of a new model."""

    panel: ClassVar = "The model"

    kernel: str = setting("NAME", _KERNELS, default="auto")
    vote: str = setting(
        "NAME",
        "auto, log-linear or mixture (both support --proba), sum (the paper's) or mean.",
        default="auto",
    )
    memory: str = setting(
        "NAME",
        "auto (exact; hashed with --buckets, --reserved, --key-file), exact, hashed, tiered (a "
        "hashed one in front of an exact one), gaussian (the paper's).",
        default="auto",
    )
    buckets: int = setting(
        "N", "Shared rows of a hashed memory, per position.", default=BUCKETS, min=1
    )
    reserved: int = setting(
        "N", "Tokens with a reserved row in a hashed memory.", default=RESERVED, min=0
    )
    d: int | None = setting("N", "Dimension of a gaussian memory's codes.", "1024", min=1)
    d_h: int | None = setting("N", "Dimension of its projected codes.", "d / h", min=1)
    tied: bool = switch("--tied", "Its labels use their codes as tokens.")
    exact: bool = switch("--exact", "Its codes are whole steps: sums are exact.")
    keep: str = setting(
        "WHAT",
        "What is stored of the rows: auto, none; rows or a number of rows, in plain text; digests "
        "(then forget refuses rows never learnt); auto+digests, rows+digests, or a number, as in "
        "1000+digests.",
        default="auto",
    )
    key_file: Path | None = setting("FILE", "Use a keyed model: a secret key of 16 to 64 bytes.")
    seed: int = setting("N", "Models with the same seed and layout can be merged.", default=0)
    bounds: str | None = setting(
        "LOW,HIGH",
        "Numbers: answers never leave these bounds; either may be missing, as in 0, for counts.",
    )
    layout: Path | None = setting("MODEL", "Use the layout of this model, so both can be merged.")

    def build_learners(
        self, schema: Schema
    ) -> tuple[MemoryClassifier | MemoryRegressor, MemoryClassifier | None]:
        """Build the model that will learn, and open the one whose layout it uses, if any."""
        from hammemo.cli.models import open_model
        from hammemo.estimators.classifiers import MemoryClassifier

        if getattr(schema, "is_target", False):
            return self._build_regressor(), None
        refuse(
            {"bounds": self.bounds},
            "is for numbers: leave it out, or use --target instead of --label",
        )
        key = read_key(self.key_file)
        keep = parse_keep(self.keep, key)
        memory = self._build_memory(key)
        parse_part("vote", self.vote)  # refuses an unknown name; the model takes the name itself
        kernel = parse_part("kernel", self.kernel)
        model = MemoryClassifier(kernel, memory, self.vote, random_state=self.seed, keep=keep)
        layout = None
        if self.layout is not None:
            layout = open_model(self.layout, key).learner(self.layout)
        return model, layout

    def _build_memory(self, key: bytes | None) -> Memory | str:
        """Return the memory of these options; "auto" if no other option asks for a memory."""
        from hammemo.memories import Hashed

        name = self.memory
        has_digests = _has_digests(self.keep)
        gaussian: dict[str, Any] = {}
        for option in ("d", "d_h", "tied", "exact"):
            value = getattr(self, option)
            if value is not None and value is not False:
                gaussian[option] = value
        if gaussian and name != "gaussian":
            first_option = next(iter(gaussian)).replace("_", "-")
            raise UsageError(
                f"--{first_option} is for the gaussian memory, and --memory is {name}: use "
                "--memory gaussian."
            )
        if name == "auto":
            has_usual_size = self.buckets == BUCKETS and self.reserved == RESERVED
            if has_usual_size and (key is None or has_digests):
                return "auto"
            name = "hashed"
        memory: Memory = parse_part("memory", name)
        if key is not None and name not in ("hashed", "tiered") and not has_digests:
            raise UsageError(
                f"--key-file: the {name} memory has no key. Use --memory hashed or tiered, or "
                "--keep digests."
            )
        sketch = Hashed(self.buckets, self.reserved, key=key)
        if name == "hashed":
            memory.set_params(**sketch.get_params())
        elif name == "tiered":
            memory.set_params(sketch=sketch)
        elif name == "gaussian":
            memory.set_params(**gaussian)
        return memory

    def _build_regressor(self) -> MemoryRegressor:
        """Build a model that predicts numbers."""
        from hammemo.estimators.regressor import MemoryRegressor

        for_labels = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _OF_NUMBERS and value != getattr(type(self), field.name):
                for_labels[field.name.replace("_", "-")] = value
        refuse(for_labels, "is for labels: leave it out, or use --label instead of --target")
        if _has_digests(self.keep):
            raise UsageError(
                f"--keep {self.keep}: digests are for labels. Use auto, rows, none or a number of "
                "rows."
            )
        return MemoryRegressor(
            random_state=self.seed, keep=parse_keep(self.keep), bounds=parse_bounds(self.bounds)
        )


def parse_bounds(text: str | None) -> tuple[float | None, float | None] | None:
    """Return the value of ``bounds`` that a text means.

    Examples
    --------
    >>> from hammemo.cli.model_options import parse_bounds
    >>> parse_bounds("0,"), parse_bounds("-1,1"), parse_bounds(None)
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
            f"--bounds {text}: give two numbers with a comma, the smaller one first; either may be "
            "missing, as in 0, (at least 0) or ,1 (at most 1)."
        ) from None


def parse_part(kind: str, text: str) -> Any:
    """Return the kernel, memory or vote of a name; "auto" as it is.

    Examples
    --------
    >>> from hammemo.cli.model_options import parse_part
    >>> parse_part("kernel", "suffixes:4"), parse_part("kernel", "positional+skip-pairs:3")
    (Suffixes(), Joined(kernels=[PositionalHamming(), SkipPairs(reach=3)]))
    """
    from hammemo.tasks.labels.names import NAMES, is_auto

    if is_auto(text):
        return text
    try:
        return NAMES[kind].make(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def parse_keep(text: str, key: bytes | None = None) -> Any:
    """Return the value of ``keep`` that a text means; digests are made with the key, if any.

    Examples
    --------
    >>> from hammemo.cli.model_options import parse_keep
    >>> parse_keep("rows"), parse_keep("1000"), parse_keep("digests"), parse_keep("1000+digests")
    (True, 1000, 'digests', Digests(rows=1000))
    """
    from hammemo.stores.digest_store import NAMES, Digests

    has_digests = _has_digests(text)
    word = text
    if has_digests:
        word = text.removesuffix("digests").removesuffix("+") or "none"
    rows: str | bool | int
    if word in _ROWS_OF_KEEP:
        rows = _ROWS_OF_KEEP[word]
    elif word.isdecimal():
        rows = int(word)
    else:
        values = ", ".join([*_ROWS_OF_KEEP, "a number of rows", *NAMES, "1000+digests"])
        raise UsageError(f"--keep {text} is not known: use {values}.")
    if not has_digests:
        return rows
    if key is None and text in NAMES:
        return text
    return Digests(rows, key)


def _has_digests(keep: str) -> bool:
    return keep == "digests" or keep.endswith("+digests")
