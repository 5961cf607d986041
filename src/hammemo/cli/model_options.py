"""Which model is learnt: the options of a new one, and what their short spellings mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from hammemo.cli.console import UsageError
from hammemo.cli.options import read_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo.kernels import SiteKernel
    from hammemo.memories import Memory
    from hammemo.models.classifiers import MemoryClassifier

_PANEL: Final = "The model"

BUCKETS: Final = 2048
RESERVED: Final = 1024

Kernel: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What is compared: auto; positions, pairs, decaying:RATE, suffixes:K[:BASE], skip-pairs:K; join by +.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class ModelOptions:
    """The parameters of a new model."""

    kernel: Kernel = "auto"
    vote: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto, log-linear or mixture (give --proba), sum (the paper's) or mean.",
            rich_help_panel=_PANEL,
        ),
    ] = "auto"
    memory: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto (exact; hashed with --buckets, --reserved, --key-file), exact, hashed, tiered (a hashed one in "
            "front of an exact one), gaussian (the paper's).",
            rich_help_panel=_PANEL,
        ),
    ] = "auto"
    buckets: Annotated[
        int, typer.Option(min=1, help="Shared rows of a hashed memory, for each position.", rich_help_panel=_PANEL)
    ] = BUCKETS
    reserved: Annotated[
        int, typer.Option(min=0, help="Tokens with rows of their own in a hashed memory.", rich_help_panel=_PANEL)
    ] = RESERVED
    d: Annotated[int, typer.Option("--d", min=1, help="Dimension of a gaussian memory.", rich_help_panel=_PANEL)] = 1024
    ledger: Annotated[
        bool,
        typer.Option("--ledger", help="Keep digests: forget refuses what was never learnt.", rich_help_panel=_PANEL),
    ] = False
    key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Make a keyed model: a secret key of 16 to 64 bytes.", rich_help_panel=_PANEL
        ),
    ] = None
    seed: Annotated[
        int, typer.Option(help="Models with the same seed and layout can be merged.", rich_help_panel=_PANEL)
    ] = 0
    layout: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Use its layout: the two can be merged.", rich_help_panel=_PANEL),
    ] = None

    def classifiers(self) -> tuple[MemoryClassifier, MemoryClassifier | None]:
        """Return the model that is to learn, and the one whose layout it uses, if there is one."""
        from hammemo.cli.models import open_model
        from hammemo.models.classifiers import MemoryClassifier

        key = read_key(self.key_file)
        memory = memory_of(self.memory, self.buckets, self.reserved, self.d, key, ledger=self.ledger)
        model = MemoryClassifier(kernel_of(self.kernel), memory, vote_of(self.vote), random_state=self.seed)
        return model, None if self.layout is None else open_model(self.layout, key).learner(self.layout)


def kernel_of(text: str) -> SiteKernel | str:
    """Return the kernel of a short spelling; "auto" as it is.

    Examples
    --------
    >>> from hammemo.cli.model_options import kernel_of
    >>> kernel_of("suffixes:4"), kernel_of("positions+skip-pairs:3")
    (Suffixes(), Joined(kernels=[PositionalHamming(), SkipPairs(reach=3)]))
    """
    from hammemo.kernels import Decaying, Pairs, PositionalHamming, SkipPairs, Suffixes

    if text.strip() == "auto":
        return "auto"
    makers: dict[str, tuple[Any, list[Any]]] = {
        "positions": (PositionalHamming, []),
        "decaying": (Decaying, [float]),
        "suffixes": (Suffixes, [int, float]),
        "skip-pairs": (SkipPairs, [int]),
        "pairs": (Pairs, []),
    }
    kernels: list[SiteKernel] = []
    for part in text.split("+"):
        name, *numbers = part.strip().split(":")
        maker, types = makers.get(name, (None, []))
        try:
            if maker is None or len(numbers) > len(types):
                raise ValueError
            kernels.append(maker(*(kind(number) for kind, number in zip(types, numbers, strict=False))))
        except ValueError:
            raise UsageError(
                f"--kernel {part!r} is not known: use auto, positions, pairs, decaying:RATE, suffixes:K, "
                "suffixes:K:BASE or skip-pairs:K, or several with + between."
            ) from None
    return reduce(add, kernels)


def memory_of(name: str, buckets: int, reserved: int, d: int, key: bytes | None, *, ledger: bool) -> Memory | str:
    """Return the memory of these options; "auto" as it is where nothing says more."""
    from hammemo.memories import Exact, Gaussian, Hashed, Ledgered, Tiered

    makers: dict[str, Callable[[], Memory]] = {
        "hashed": lambda: Hashed(buckets, reserved, key=key),
        "exact": lambda: Exact(),
        "tiered": lambda: Tiered(Hashed(buckets, reserved, key=key)),
        "gaussian": lambda: Gaussian(d),
    }
    if name == "auto":
        hashed = (buckets, reserved) != (BUCKETS, RESERVED) or (key is not None and not ledger)
        if not hashed and not ledger:
            return "auto"
        name = "hashed" if hashed else "exact"
    if name not in makers:
        raise UsageError(f"--memory {name!r} is not known: use auto, {', '.join(makers)}.")
    if key is not None and name not in ("hashed", "tiered") and not ledger:
        raise UsageError(f"--key-file: the {name} memory has no key. Use --memory hashed or tiered, or --ledger.")
    memory = makers[name]()
    return Ledgered(memory, key=key) if ledger else memory


def vote_of(name: str) -> str:
    """Return the name of a vote, or refuse it."""
    known = ("auto", "sum", "mean", "log-linear", "mixture")
    if name not in known:
        raise UsageError(f"--vote {name!r} is not known: use {', '.join(known)}.")
    return name
