"""What a plan says: predicted numbers with intervals, and the memories that were considered."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.memories import Memory


@dataclass(frozen=True)
class Estimate:
    """A predicted number, its interval, and how it was found.

    The method is "computed", "counted", "extrapolated", "simulated" or "timed".

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
    """One memory that was considered, and the reason for choosing it or not."""

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
        values = asdict(self)
        return {
            "memory": self.name,
            "chosen": self.chosen,
            "why": self.why,
            "state_bytes": values["state_bytes"],
            "agreement": values["agreement"],
            "certified": values["certified"],
            "queries_per_second": values["queries_per_second"],
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
        return {
            "goal": self.goal,
            "n_examples": self.n_examples,
            "n_sampled": self.n_sampled,
            "n_labels": self.n_labels,
            "confidence": self.confidence,
            "notes": self.notes,
            "seconds": self.seconds,
            "options": [option.to_dict() for option in self.options],
        }

    def __str__(self) -> str:
        rows = list(map(_write_cells, self.options))
        widths = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
            for row in (_COLUMNS, *rows)
        ]
        reasons = [f"{option.name}: {option.why}" for option in self.options]
        return "\n".join([self._write_title(), "", *lines, "", *reasons, *self.notes])

    def __rich__(self) -> Any:
        """Return the same for a terminal; rich is the ``cli`` extra."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table("", *_COLUMNS, "why")
        for option in self.options:
            table.add_row(
                "→" if option.chosen else "",
                *(Text(cell) for cell in _write_cells(option)),
                Text(option.why),
            )
        return Group(Text(self._write_title()), table, *(Text(note) for note in self.notes))

    def _write_title(self) -> str:
        return (
            f"{self.goal}, {self.n_examples:,} examples, {self.n_labels:,} labels; "
            f"planned in {self.seconds:.1f} s from {self.n_sampled:,} examples; "
            f"intervals of {self.confidence:.0%}. Chosen: {self.chosen.name}."
        )


_COLUMNS = ["memory", "state", "agreement (%)", "certified (%)", "queries per second"]


def _write_cells(option: Option) -> list[str]:
    """Return an option as a row of the table."""
    certified = "none"
    if option.certified is not None:
        certified = _write_share(option.certified)
    rate = ""
    if option.queries_per_second is not None:
        rate = f"{option.queries_per_second.value:,.0f}"
    size = size_text(option.state_bytes.value)
    return [option.name, size, _write_share(option.agreement), certified, rate]


def _write_share(share: Estimate) -> str:
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
    if size >= 2**10:
        return f"{size / 2**10:.1f} KiB"
    return f"{size:.0f} B"
