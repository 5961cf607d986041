"""What a plan says: predicted numbers with intervals, the memories that were considered, and the chosen one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.memories import Memory


@dataclass(frozen=True)
class Estimate:
    """A predicted number, its interval, and how it was found: computed, counted, extrapolated, simulated or timed.

    Examples
    --------
    >>> from hammemo.planning import Estimate
    >>> Estimate(0.98, 0.97, 0.99, "simulated").low
    0.97
    """

    value: float
    low: float
    high: float
    method: str


@dataclass(frozen=True)
class Option:
    """One memory that was considered, and why it was chosen or not."""

    memory: Memory
    state_bytes: Estimate
    agreement: Estimate
    certified: Estimate | None
    queries_per_second: Estimate | None = None
    chosen: bool = False
    why: str = ""

    @property
    def name(self) -> str:
        """The memory with its sizes."""
        return repr(self.memory)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        told = asdict(self)
        figures = ("state_bytes", "agreement", "certified", "queries_per_second")
        return {
            "memory": self.name,
            "chosen": self.chosen,
            "why": self.why,
            **{name: told[name] for name in figures},
        }


@dataclass(frozen=True)
class Plan:
    """An unfitted estimator, and the report on which it was chosen.

    Attributes
    ----------
    estimator : MemoryClassifier
        Unfitted, with the planned memory.
    goal : str
    n_examples, n_sampled, n_labels : int
        Examples and labels that are planned for, and examples that were looked at.
    confidence : float
        The confidence level of the intervals.
    options : list of Option
        What was considered; one of them is `chosen`.
    notes : list of str
        What was assumed.
    seconds : float
        How long planning took.
    """

    estimator: MemoryClassifier
    goal: str
    n_examples: int
    n_sampled: int
    n_labels: int
    confidence: float
    options: list[Option] = field(repr=False)
    notes: list[str] = field(repr=False)
    seconds: float = field(repr=False)

    @property
    def chosen(self) -> Option:
        """The option that the estimator has."""
        return next(option for option in self.options if option.chosen)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, fit for JSON."""
        names = ("goal", "n_examples", "n_sampled", "n_labels", "confidence", "notes", "seconds")
        report = {name: getattr(self, name) for name in names}
        return {**report, "options": [option.to_dict() for option in self.options]}

    def __str__(self) -> str:
        rows = [_COLUMNS, *(_cells(option) for option in self.options)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        reasons = [f"{option.name}: {option.why}" for option in self.options]
        return "\n".join([self._title(), "", *lines, "", *reasons, *self.notes])

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table("", *_COLUMNS, "why")
        for option in self.options:
            table.add_row(
                "→" if option.chosen else "",
                *(Text(cell) for cell in _cells(option)),
                Text(option.why),
            )
        return Group(Text(self._title()), table, *(Text(note) for note in self.notes))

    def _title(self) -> str:
        return (
            f"{self.goal}, {self.n_examples:,} examples, {self.n_labels:,} labels; planned in {self.seconds:.1f} s "
            f"from {self.n_sampled:,} examples; intervals of {self.confidence:.0%}. Chosen: {self.chosen.name}."
        )


_COLUMNS = ("memory", "state", "agreement (%)", "certified (%)", "queries per second")


def _cells(option: Option) -> tuple[str, ...]:
    certified = "none" if option.certified is None else _share_text(option.certified)
    rate = "" if option.queries_per_second is None else f"{option.queries_per_second.value:,.0f}"
    return (
        option.name,
        size_text(option.state_bytes.value),
        _share_text(option.agreement),
        certified,
        rate,
    )


def _share_text(share: Estimate) -> str:
    if share.low == share.high:
        return f"{100 * share.value:.0f}"
    return f"{100 * share.value:.2f} ({100 * share.low:.2f} to {100 * share.high:.2f})"


def size_text(size: float) -> str:
    """Return a number of bytes for people.

    Examples
    --------
    >>> from hammemo.planning.reports import size_text
    >>> size_text(500), size_text(2048), size_text(3 * 2**20)
    ('500 B', '2.0 KiB', '3.00 MiB')
    """
    if size >= 2**20:
        return f"{size / 2**20:.2f} MiB"
    return f"{size / 2**10:.1f} KiB" if size >= 2**10 else f"{size:.0f} B"
