"""What a model is made of: what was chosen, why, and what it gained."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hammemo.explain.report_text import STALE, ReportText, count_things, describe_kept
from hammemo.features.cells import TreeCells
from hammemo.features.cells.forest import LEVELS
from hammemo.tasks.labels.choose import get_held_out
from hammemo.tasks.labels.site_bits import SiteBits, show_site, site_bits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hammemo.tasks.labels.layout import Choices, LabelState

_MAX_SHOWN_TUPLES = 12


@dataclass(frozen=True)
class Report(ReportText):
    """The parts of a fitted model; ``print`` shows it.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import MemoryClassifier
    >>> X = np.random.default_rng(0).integers(0, 2, (400, 4))
    >>> clf = MemoryClassifier(numeric="none").fit(X, X[:, 0] ^ X[:, 2])
    >>> print(clf.report())  # doctest: +ELLIPSIS
    400 rows, 4 columns, 2 labels
    kernel: 4 columns, ...: (0, 2)...
    memory: Exact(), 0.00 MiB; auto: exact counts
    vote: LogLinear(...); auto: ...
    rows: all are kept in plain text (16 distinct ones), for refit(); keep=False keeps none
    """

    n_examples: int
    n_labels: int
    n_positions: int
    """Tokens of a context."""
    tuples: tuple[str, ...]
    """The sites of several positions, by the names of their columns."""
    n_single: int
    """How many sites have one position."""
    n_trees: int
    """How many trees put rows into cells."""
    memory: str
    nbytes: int
    vote: str
    n_kept: int | None
    """Distinct rows or documents that are kept; None where none is kept."""
    choices: Choices
    free: tuple[str, ...] = ()
    """The sites without a position, such as ``"bag of 10"``."""
    keeps_documents: bool = False
    is_stream: bool = False
    """Whether the examples are windows of documents, and not rows of a table."""
    keeps_all: bool = False
    """Whether all rows that were learnt are kept."""
    chosen_at: int = 0
    """How many examples were held when sites and vote were chosen; 0 where they were not."""
    is_pinned: bool = False
    """Whether the layout was given, so that `refit` does not choose another one."""
    unread: tuple[str, ...] = ()
    """The sites that the vote leaves out, because they say little."""
    is_stale: bool = False
    """Whether rows were forgotten since sites, vote and weights were chosen."""
    is_weighed: bool = False
    """Whether labels have weights, which the figures of held-out folds leave out."""
    most_frequent: float | None = None
    """The share of the most frequent label; None where there is none."""
    model: Any = field(default=None, repr=False, compare=False)
    """The version of the model that this is about; `bits` asks it."""

    def __str__(self) -> str:
        lines = [
            self._describe_size(),
            f"kernel: {self._describe_sites()}; {self.choices.kernel}{self._describe_age()}",
            *self._describe_gain(),
            f"memory: {self.memory}, {self.nbytes / 2**20:.2f} MiB; {self.choices.memory}",
            f"vote: {self.vote}; {self.choices.vote}",
            *self._describe_trials(),
            f"held out: {self._describe_held_out()}",
        ]
        if self.unread:
            lines.append(f"  left out, because it says little: {', '.join(self.unread)}")
        what = "documents" if self.keeps_documents else "rows"
        lines.append(describe_kept(self.n_kept, keeps_all=self.keeps_all, what=what))
        if self.is_stale:
            lines.append(STALE)
        return "\n".join(lines)

    def summary(self) -> str:
        """Return two lines: what the model holds and what was chosen, and how good that is."""
        if self.n_trees:
            chosen = [f"{self.n_trees:,} trees of cuts"]
        else:
            chosen = [count_things(self.n_single, self._column)]
        if self.tuples:
            chosen.append(count_things(len(self.tuples), "tuple"))
        chosen += self.free
        vote = self.vote.partition("(")[0]
        return (
            f"{self._describe_size()}; chosen: {', '.join(chosen)} and {vote}\n"
            f"held out: {self._describe_held_out()}"
        )

    @property
    def _column(self) -> str:
        """What a place of a context is called."""
        return "position" if self.is_stream else "column"

    def _describe_size(self) -> str:
        """Return how much the model holds."""
        row = "window" if self.is_stream else "row"
        numbers = (
            count_things(self.n_examples, row),
            count_things(self.n_positions, self._column),
            count_things(self.n_labels, "label"),
        )
        return ", ".join(numbers)

    def _describe_held_out(self) -> str:
        """Return how good the model is on the folds by which it was chosen, if that is known."""
        held_out = self.choices.held_out
        if held_out is None:
            return (
                "not measured, because nothing was chosen by folds of rows that are kept; "
                "hammemo evaluate does it"
            )
        folds = count_things(held_out.folds, "fold")
        rows = count_things(held_out.rows, "row")
        figures = f"accuracy {held_out.accuracy:.3f}, log-loss {held_out.log_loss:.3f}"
        measured = f"{figures} on {folds}, {rows}"
        if self.is_weighed:
            measured += ", without class weights"
        if self.is_stale or self.chosen_at > self.n_examples:
            return f"stale, refit ({measured}, some of which may be forgotten)"
        if self.chosen_at < self.n_examples:
            return f"{measured}, when there were {self.chosen_at:,}"
        if self.most_frequent is None:
            return measured
        return f"{measured}; the most frequent label alone: {self.most_frequent:.3f}"

    def bits(self) -> SiteBits:
        """Return the share of every column and tuple of columns in what the model gains, in bits.

        For a log-linear vote that keeps a sample of its examples, as the default does. ``print``
        shows it. The version of the model keeps the result, so that it is computed once.
        """
        version = vars(self.model)
        bits: SiteBits | None = version.get("_bits")
        if bits is None:
            bits = version.setdefault("_bits", site_bits(self.model.state))
        return bits

    def plot(self, ax: Axes | None = None, most: int = 20) -> Axes:
        """Draw `bits`, the most valuable sites; return the axes.

        They are drawn on the axes given, or on those of a new figure.
        """
        return self.bits().plot(ax, most)

    def _describe_sites(self) -> str:
        """Return what is compared: columns or trees, tuples of columns, and the rest."""
        sites = []
        if self.n_trees:
            n_names = self.n_single - self.n_trees * len(LEVELS)  # each level of a tree is a site
            if n_names:
                sites.append(f"{count_things(n_names, 'column')} of names")
            trees = count_things(self.n_trees, "tree")
            sites.append(f"{trees} with cells of {len(LEVELS)} sizes")
        else:
            sites.append(count_things(self.n_single, self._column))
        if self.tuples:
            shown = ", ".join(self.tuples[:_MAX_SHOWN_TUPLES])
            if len(self.tuples) > _MAX_SHOWN_TUPLES:
                shown += ", …"
            sites.append(f"{count_things(len(self.tuples), 'tuple')}: {shown}")
        return ", ".join([*sites, *self.free])

    def _describe_gain(self) -> list[str]:
        """Return what the tuples gained on the folds left out."""
        losses = self.choices.losses
        if not losses:
            return []
        path = ", ".join(f"{loss:.4f}" for loss in losses)
        return [
            f"  log-loss on {self.choices.folds} folds left out: {losses[0]:.4f} with single "
            f"{self._column}s, {losses[self.choices.taken]:.4f} as taken (after each round: {path})"
        ]

    def _describe_age(self) -> str:
        """Return when sites were chosen, where rows came or went since."""
        if self.is_pinned:
            return "; pinned: the layout was given"
        if not self.chosen_at or self.chosen_at == self.n_examples:
            return ""
        if self.chosen_at < self.n_examples:
            return f"; chosen at {self.chosen_at:,} of {self.n_examples:,} rows"
        return f"; chosen at {self.chosen_at:,} rows, of which {self.n_examples:,} are left"

    def _describe_trials(self) -> list[str]:
        """Return what the best way to weigh gained over the best with shared weights."""
        trials = self.choices.trials
        if not trials:
            return []
        shared_loss = min(trial.loss for trial in trials if not trial.per_label)
        return [
            f"  log-loss on these folds: {trials[0].loss:.4f} as taken, {shared_loss:.4f} with "
            "weights that all labels share"
        ]


def make_report(model: Any) -> Report:
    """Return the report of one version of a fitted model."""
    state: LabelState = model.state
    sites = state.layout.sites
    cells = state.layout.cells
    kept_examples = state.kept
    counts = state.memory.label_counts
    names = state.columns.list_names()
    most_frequent = None
    if counts.any():
        most_frequent = float(counts.max() / counts.sum())
    return Report(
        n_examples=int(counts.sum()),
        n_labels=len(state.memory.labels),
        n_positions=state.columns.n,
        tuples=tuple(show_site(site, names) for site in sites.positions if len(site) > 1),
        n_single=sum(len(site) == 1 for site in sites.positions),
        n_trees=cells.forest.n_trees if isinstance(cells, TreeCells) else 0,
        memory=repr(state.memory),
        nbytes=state.memory.nbytes,
        vote=repr(state.vote),
        n_kept=None if kept_examples is None else len(kept_examples),
        keeps_all=kept_examples is not None and kept_examples.holds_all,
        chosen_at=state.chosen_at,
        is_pinned=state.pinned,
        choices=replace(state.layout.choices, held_out=get_held_out(state)),
        free=tuple(site.name for site in sites.free),
        keeps_documents=state.documents is not None,
        is_stream=state.documents is not None or state.cutting is not None,
        unread=state.vote.unread(sites),
        is_stale=state.stale,
        is_weighed=getattr(state.vote, "class_weight", None) is not None,
        most_frequent=most_frequent,
        model=model,
    )
