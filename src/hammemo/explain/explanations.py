r"""Why a query got its label: what each site added to the score of each leading label, and how sure that is.

Every score is a sum :math:`S_c = \beta_c + \sum_k s_{k,c}` over the sites k of the query, with a base :math:`\beta_c`
that is the logarithm of the prior plus an offset for a log-linear vote and zero for the others. So an explanation is no
approximation beside the model: it is the terms of the model's own sum. What the terms themselves may be off by, because
a memory is a sketch, is said with them (:mod:`hammemo.memories.ranker`):

- exact counts: nothing;
- hashed counts: hard bounds. A reserved row is exact; a bucket's row is at most its raw counts and at least zero.
  The value itself is the bucket's count after centring, which makes it right on average, and may be below zero;
- Gaussian codes: standard errors over the draw of the codes (:mod:`hammemo.memories.gaussian.readers`), but none for
  tied codes, which are biased, or for the fused form, which no longer has what they are made from.

Why a row got its number: what each column of the table added to the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from hammemo._lazy import explain_missing
from hammemo.explain.explanation_html import write_table
from hammemo.explain.explanation_plot import Waterfall, draw
from hammemo.explain.number_text import NumberFormat, is_float, show_number, show_value
from hammemo.features.cells import Cells, TreeCells
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.column_values import array_values
from hammemo.tokens.missing import MISSING, is_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Group

    from hammemo._arrays.types import Array, Floats
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Token

Precision: TypeAlias = Literal["exact", "bounds", "standard errors", "unknown"]

_SAYS: dict[Precision, str] = {
    "exact": "exact counts",
    "bounds": "estimates, in brackets what the exact figure is at least and at most",
    "standard errors": "estimates ± one standard error",
    "unknown": "estimates of unknown error",
}


_TUPLES: Final = ("tokens", "names", "seen", "labels", "ranges")
_NUMBERS: Final = ("scores", "score_errors", "probabilities", "base")
"""The fields of an explanation that hold something for each token or label, in JSON as lists."""


def _listed(values: Any) -> Any:
    return (
        values.tolist()
        if isinstance(values, np.ndarray)
        else None
        if values is None
        else list(values)
    )


@dataclass(frozen=True, eq=False)
class Explanation:
    """Which sites and tokens voted for which labels; what `MemoryClassifier.explain` returns.

    It prints as text, as a table in a notebook and in a terminal with rich (``rich.print(explanation)``), and draws
    itself with `plot`.
    With S sites and K labels:

    Parameters
    ----------
    tokens : tuple of int, float, str or None
        The context; None at a position that holds no token.
    seen : tuple of bool or None
        For each position whether any stored example holds its token, at whatever compared position; None where the
        memory cannot tell, or there is no token.
    sites : tuple of tuples of int
        The positions that each site compares, 0 to h - 1.
    labels : tuple
        The labels with the highest scores, best first: those of `top_k`, unless the vote discounts popular labels.
    scores : ndarray of shape (K,)
        Their scores: those of `class_scores`.
    base : ndarray of shape (K,)
        The score where no site says anything.
    contributions : ndarray of shape (S, K)
        What each site adds; the base and the sum over the sites are the scores.
    low, high : ndarray of shape (S, K), or None
        Hard bounds: what each exact contribution is at least, and at most.
    errors : ndarray of shape (S, K), or None
        Standard errors of the contributions.
    score_errors : ndarray of shape (K,), or None
        Standard errors of the scores; errors of sites are not independent, so they cannot be had from those.
    margin : float or None
        By how much the best label leads the second; None where there is only one.
    certified : bool or None
        What `certify` says: True where the best label is proven to be the exact classifier's, False where that is not
        known; None where the memory or the vote gives no certificates.
    names : tuple of str, or None
        What the positions are called: the columns of the data frame that the model learnt.
    kinds : tuple of str
        For each site, the kind of a site without a position, such as ``"bag of 10"``; empty for one with positions.
    probabilities : ndarray of shape (K,), or None
        Those of the labels; None where the vote gives none.
    ranges : tuple of str or None, or None
        For each column of a table with numbers the range that its number lies in, None for a name; None elsewhere.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Exact
    >>> X, y = [["order", "pay"], ["order", "pay"], ["order", "cancel"]], ["ship", "ship", "refund"]
    >>> clf = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y)
    >>> explanation = clf.explain(["gift", "pay"])
    >>> explanation.labels, explanation.contributions.tolist(), explanation.seen
    (('ship', 'refund'), [[0.0, 0.0], [1.0, 0.0]], (False, True))
    >>> print(explanation)
                           'ship'  'refund'
    position -2: 'gift' *       0         0
    position -1: 'pay'          1         0
    score                       1         0
    'ship' leads 'refund' by 1; exact counts.
    * never seen: 'gift'
    """

    tokens: tuple[Token | None, ...]
    seen: tuple[bool | None, ...]
    sites: tuple[tuple[int, ...], ...]
    labels: tuple[Any, ...]
    scores: Floats
    base: Floats
    contributions: Floats
    low: Floats | None = None
    high: Floats | None = None
    errors: Floats | None = None
    score_errors: Floats | None = None
    margin: float | None = None
    certified: bool | None = None
    names: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = ()
    probabilities: Floats | None = None
    ranges: tuple[str | None, ...] | None = None

    @property
    def precision(self) -> Precision:
        """What is known of the error: it is "exact" too where a sketch happens to know all counts of this query."""
        if self.low is not None and self.high is not None:
            known = (self.low == self.contributions) & (self.contributions == self.high)
            return "exact" if bool(known.all()) else "bounds"
        return "unknown" if self.errors is None else "standard errors"

    @property
    def score_bounds(self) -> tuple[Floats, Floats] | None:
        """What the exact scores are at least, and at most, or None where no bounds are known."""
        if self.low is None or self.high is None:
            return None
        return self.base + self.low.sum(axis=0), self.base + self.high.sum(axis=0)

    @property
    def never_seen(self) -> tuple[Token, ...]:
        """The tokens that no stored example holds, for certain."""
        pairs = zip(self.tokens, self.seen, strict=True)
        return tuple(
            dict.fromkeys(token for token, seen in pairs if token is not None and seen is False)
        )

    def site_name(self, k: int) -> str:
        """Return what site k compares, such as ``position -1: 'ship'``, counted from the end, or ``colour: 'red'``."""
        tokens = [_shown(self.tokens[r]) for r in self.sites[k]]
        kind = self.kinds[k] if self.kinds else ""
        if kind:
            return (
                f"{kind}: {tokens[0]} at {self.sites[k][0] - len(self.tokens)}" if tokens else kind
            )
        if self.names is not None:
            return f"{', '.join(self.names[r] for r in self.sites[k])}: {', '.join(tokens)}"
        positions = [str(r - len(self.tokens)) for r in self.sites[k]]
        return f"position{'s' if len(positions) > 1 else ''} {', '.join(positions)}: {', '.join(tokens)}"

    @property
    def has_evidence(self) -> bool:
        """Whether a known token votes, or may vote within the bounds; if not, there is no evidence for the answer."""
        seen = any(
            seen is not False
            for token, seen in zip(self.tokens, self.seen, strict=True)
            if token is not None
        )
        return seen and bool(
            self.contributions.any() or (self.high is not None and self.high.any())
        )

    def verdict(self) -> str:
        """Return one sentence: who leads by how much, what the figures are, and for estimates what is proven."""
        return f"{self._decision()}; {_SAYS[self.precision]}."

    def _decision(self) -> str:
        best, rival = (
            repr(self.labels[0]),
            repr(self.labels[1]) if len(self.labels) > 1 else "the next label",
        )
        if self.margin is None:
            lead = f"{best} is the only label"
        else:
            lead = (
                f"{best} leads {rival} by {self.margin:,.3g}"
                if self.margin
                else f"{best} ties with {rival}"
            )
        if not self.has_evidence:
            given = "" if self.margin else ", so the first label is given"
            return f"no token of this context has a vote: {lead}{given}"
        if self.certified is None or self.precision == "exact":  # there is nothing to prove
            return lead
        return f"{lead}, {'proven' if self.certified else 'not proven'} to be the exact classifier's answer"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings, ready for JSON.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> clf = MemoryClassifier(vote="sum").fit([["a", "b"], ["a", "c"]], ["x", "y"])
        >>> clf.explain(["a", "b"]).to_dict()["sites"][1]["contributions"]
        [0.5, 0.0]
        """
        bounds = self.score_bounds or (None, None)
        listed = {name: _listed(getattr(self, name)) for name in (*_TUPLES, *_NUMBERS)}
        listed |= {"score_low": _listed(bounds[0]), "score_high": _listed(bounds[1])}
        sites = [self._site_dict(k) for k in range(len(self.sites))]
        known = {"margin": self.margin, "certified": self.certified, "precision": self.precision}
        return {**listed, "sites": sites, **known}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Explanation:
        """Return the explanation that `to_dict` described, such as one that a server sent.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.explain.explanations import Explanation
        >>> found = MemoryClassifier(vote="sum").fit([["a", "b"], ["a", "c"]], ["x", "y"]).explain(["a", "b"])
        >>> str(Explanation.from_dict(found.to_dict())) == str(found)
        True
        """
        sites, shape = told["sites"], (len(told["sites"]), len(told["labels"]))

        def of_sites(name: str) -> Any:
            rows = [site[name] for site in sites]
            return (
                None if None in rows else np.array(rows, np.float64).reshape(shape)
            )  # a null in JSON is not finite

        given: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
        held: dict[str, Any] = {
            name: tuple(given[name]) if name in given else None for name in _TUPLES
        }
        held |= {
            name: np.array(given[name], np.float64) if name in given else None for name in _NUMBERS
        }
        held |= {name: of_sites(name) for name in ("contributions", "low", "high", "errors")}
        return cls(
            **held,
            sites=tuple(tuple(site["positions"]) for site in sites),
            margin=told["margin"],
            certified=told["certified"],
            kinds=tuple(site.get("kind", "") for site in sites),
        )

    def _site_dict(self, k: int) -> dict[str, Any]:
        parts = {
            "contributions": self.contributions,
            "low": self.low,
            "high": self.high,
            "errors": self.errors,
        }
        kind = {"kind": self.kinds[k]} if any(self.kinds) else {}
        said = {name: None if part is None else part[k].tolist() for name, part in parts.items()}
        return {
            **kind,
            "positions": list(self.sites[k]),
            "tokens": [self.tokens[r] for r in self.sites[k]],
            **said,
        }

    def plot(self, ax: Axes | None = None, label: Any = None) -> Axes:
        """Draw a waterfall from the prior to the score of the best label, with its probability; return the axes.

        Where there are probabilities, bars are log-odds: what each site adds to the score of the label less that of the
        best other label. It needs Matplotlib, the ``plot`` extra. Numbers of a table are shown with the ranges that
        they lie in. Where counts are estimates, a line on the score is what is known of the exact one.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        label : optional
            Draw another of the leading labels.
        """
        if label is not None and label not in self.labels:
            raise ValueError(
                f"label={label!r} is not explained; these are: {', '.join(map(repr, self.labels))}."
            )
        at = 0 if label is None else self.labels.index(label)
        is_against = self.probabilities is not None and len(self.labels) > 1
        rival = (1 if at == 0 else 0) if is_against else None
        names = [self._site_text(k) for k in range(len(self.sites))]
        title = "\n".join([*self._headlines(), *self._unseen("Never seen: ")])
        name, other = repr(self.labels[at]), "" if rival is None else repr(self.labels[rival])
        what = f"{name} against {other}" if other else f"score of {name}"
        parts = (self.base, self.contributions, self.scores)
        base, contributions, score = (
            part[..., at] - (0 if rival is None else part[..., rival]) for part in parts
        )
        waterfall = Waterfall(
            title=title,
            base=float(base),
            sites=names,
            contributions=contributions,
            score=(what, float(score)),
            interval=self._interval(at, rival),
        )
        axes = draw(ax, waterfall)
        axes.set_xlabel(what if rival is None else f"log-odds of {what}")
        return axes

    def _headlines(self) -> list[str]:
        """Return who leads, and the probabilities."""
        lead = self._decision() + "."
        if self.probabilities is None:
            return [lead]
        chances = [
            f"{label!r} {self.probabilities[at]:.3f}" for at, label in enumerate(self.labels[:3])
        ]
        return [lead, f"Probabilities: {', '.join(chances)}."]

    def _site_text(self, k: int) -> str:
        """Return the name of a site for the figure, with the range of a number."""
        site = self.sites[k]
        if self.ranges is None or len(site) != 1 or self.ranges[site[0]] is None:
            return self.site_name(k)
        column, value = site[0], self.tokens[site[0]]
        name = f"column {column}" if self.names is None else self.names[column]
        if value is None or isinstance(value, str):  # what is compared is the range
            return f"{name}: {self.ranges[column]}"
        return f"{name}: {_shown(value)} ({self.ranges[column]})"

    def _interval(self, at: int, rival: int | None) -> tuple[str, float, float] | None:
        """Return what the exact score of a label, less that of a rival, may be, for the figure: a name, from and to."""
        if (
            self.score_errors is not None and rival is None
        ):  # those of two labels are not independent
            score, error = float(self.scores[at]), 2 * float(self.score_errors[at])
            return "± two standard errors", score - error, score + error
        if self.score_bounds is None or self.precision == "exact":
            return None
        low, high = self.score_bounds
        least, most = (0.0, 0.0) if rival is None else (low[rival], high[rival])
        return "bounds of the exact score", float(low[at] - most), float(high[at] - least)

    def __str__(self) -> str:
        header, rows = self._cells()
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = []
        for first, *others in (header, *rows):
            cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        """Return the same for a notebook; names of columns and values are escaped."""
        header, rows = self._cells()
        return write_table(header, rows, self._notes())

    def __rich__(self) -> Group:
        """Return the table for a terminal, and what is to be said of it; rich is the ``cli`` extra."""
        with explain_missing("Tables in the terminal need rich: pip install 'hammemo[cli]'"):
            from rich.console import Group
            from rich.table import Table
            from rich.text import Text
        header, rows = self._cells()
        table = Table()
        table.add_column(header[0])
        for place, name in enumerate(header[1:]):  # as they are: no markup from tokens
            table.add_column(Text(name), justify="right", style="bold" if place == 0 else "")
        for row in rows[:-1]:
            table.add_row(*map(Text, row))
        table.add_section()
        table.add_row(*map(Text, rows[-1]), style="bold")
        return Group(table, *map(Text, self._notes()))

    def _notes(self) -> list[str]:
        return [self.verdict(), *self._unseen("* never seen: ")]

    def _unseen(self, before: str) -> list[str]:
        return [before + ", ".join(map(_shown, self.never_seen))] if self.never_seen else []

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the rows of the table as text: the base, the sites, the scores."""
        show = NumberFormat(self.scores, self.base, self.contributions, self.low, self.high)
        rows = [["prior", *show(self.base)]] if self.base.any() else []
        for k, site in enumerate(self.sites):
            bounds = None if self.low is None or self.high is None else (self.low[k], self.high[k])
            unseen = " *" if any(self.seen[r] is False for r in site) else ""
            errors = None if self.errors is None else self.errors[k]
            rows.append([self.site_name(k) + unseen, *show(self.contributions[k], bounds, errors)])
        bounds = None if self.precision == "exact" else self.score_bounds
        rows.append(["score", *show(self.scores, bounds, self.score_errors)])
        return ["", *map(repr, self.labels)], rows


def _shown(token: Token | None) -> str:
    if is_float(token):
        return show_value(float(token))  # type: ignore[arg-type]
    return "missing" if token is None or token == MISSING else repr(token)


def with_truth_values(explanation: Explanation, values: Sequence[Any]) -> Explanation:
    """Return the explanation of a row with its truth values, which are the tokens 0 and 1, as they were given."""
    if len(values) != len(explanation.tokens) or not any(
        isinstance(value, (bool, np.bool_)) for value in values
    ):
        return explanation
    pairs = zip(values, explanation.tokens, strict=True)
    tokens = tuple(
        bool(value) if isinstance(value, (bool, np.bool_)) else token for value, token in pairs
    )
    return replace(explanation, tokens=tokens)


def by_columns(explanation: Explanation, cells: Cells, row: Contexts) -> Explanation:
    """Return the explanation of a row with numbers by the columns of its table.

    What trees say is divided among the columns of the cuts on the way to each cell (`Cells.column_shares`), so the sum
    stays; bounds are divided alike. Without trees the sites stay, and numbers are shown as ranges.
    """
    h = len(cells.kinds)
    row = cells.ask(row)
    ranks, tokens = row.ranks[0].tolist(), row.vocabulary.tolist()
    held = [None if rank < 0 else cells.shown(j, tokens[rank]) for j, rank in enumerate(ranks)]
    seen = [
        known if cells.kinds[j] == ColumnKind.NAMES else None
        for j, known in enumerate(explanation.seen[:h])
    ]
    ranges = [None if rank < 0 else cells.range_of(j, tokens[rank]) for j, rank in enumerate(ranks)]
    explanation = replace(explanation, tokens=tuple(held), seen=tuple(seen), ranges=tuple(ranges))
    if not isinstance(cells, TreeCells):
        return explanation
    of_positions = cells.column_shares(row)[0]
    shares = np.array(
        [of_positions[list(site)].mean(axis=0) for site in explanation.sites]
    )  # a tuple's are even
    of_sites = {name: getattr(explanation, name) for name in ("contributions", "low", "high")}
    summed: dict[str, Any] = {
        name: None if part is None else shares.T @ part for name, part in of_sites.items()
    }
    return replace(
        explanation, sites=tuple((j,) for j in range(h)), kinds=("",) * h, errors=None, **summed
    )


def one_context(tokens: Any, names: Array | None = None, call: str = "explain") -> list[Any]:
    """Return the tokens of one context, or refuse what is a batch already, or a row of a frame with other columns."""
    if hasattr(
        tokens, "columns"
    ):  # to go through a data frame is to go through the names of its columns
        raise ValueError(
            f"{call} takes one row, not a frame: {call}(X.iloc[0], …) (pandas) or {call}(X.row(0), …) (polars)."
        )
    if names is not None and hasattr(tokens, "iloc") and list(tokens.index) != names.tolist():
        raise ValueError(
            f"The row has the columns {list(tokens.index)}, the model {names.tolist()}: take these, in this order."
        )
    if isinstance(tokens, (str, Mapping, Set)) or not hasattr(tokens, "__len__"):
        raise TypeError(f"{call} takes one row, a list of its values in order, not {tokens!r}.")
    values: list[Any] = array_values(tokens) if isinstance(tokens, np.ndarray) else list(tokens)
    is_plain = set(map(type, values)) <= {str, int, float, bool}  # as most are
    if not is_plain and any(isinstance(value, (list, tuple, np.ndarray)) for value in values):
        raise ValueError(
            f"{call} takes one row, not a batch of them: {call}(X[0], …), or one call for each row."
        )
    return values


PREDICTION = "prediction"
_BOUNDS: Final = "bounds of the model"


@dataclass(frozen=True, eq=False)
class NumberExplanation(Explanation):
    """What each column added to a predicted number; what `MemoryRegressor.explain` returns.

    An `Explanation` with one label, "prediction". `scores[0]` is the prediction.

    Parameters
    ----------
    interval : tuple of two floats
        Between these, 80 % of such targets lie.
    by_bounds : float
        What the bounds of the model add to what base and columns add up to: 0 where these lie inside.
    """

    interval: tuple[float, float] = (-np.inf, np.inf)
    by_bounds: float = 0.0

    @classmethod
    def of(
        cls,
        values: Sequence[Any],
        names: Sequence[str] | None,
        contributions: Floats,
        *,
        base: float,
        by_bounds: float,
        interval: tuple[float, float],
    ) -> NumberExplanation:
        """Return the explanation of one row by what each column adds, in the unit of the target."""
        added = contributions[:, None]
        return cls(
            tokens=tuple(map(_plain, values)),
            seen=(None,) * len(values),
            sites=tuple((j,) for j in range(len(values))),
            labels=(PREDICTION,),
            scores=np.array([base + added.sum() + by_bounds]),
            base=np.array([base]),
            contributions=added,
            low=added,
            high=added,
            names=tuple(names)
            if names is not None
            else tuple(f"column {j}" for j in range(len(values))),
            interval=interval,
            by_bounds=by_bounds,
        )

    def verdict(self) -> str:
        """Return one sentence: the prediction and the interval."""
        low, high = map(show_number, self.interval)
        return f"The prediction is {show_number(self.scores[0])}; 80 % of such targets lie between {low} and {high}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings, ready for JSON."""
        rows = zip(self.names or (), self.tokens, self.contributions[:, 0].tolist(), strict=True)
        columns = [
            {"name": name, "value": value, "contribution": added} for name, value, added in rows
        ]
        ends = [
            end if math.isfinite(end) else None for end in self.interval
        ]  # JSON has no infinity
        return {
            PREDICTION: float(self.scores[0]),
            "interval": ends,
            "base": float(self.base[0]),
            **({"bounds": self.by_bounds} if self.by_bounds else {}),
            "columns": columns,
        }

    def plot(self, ax: Axes | None = None, label: Any = None) -> Axes:  # noqa: ARG002
        """Draw a waterfall from the base to the prediction; return the axes. It needs the ``plot`` extra."""
        names = [self.site_name(k) for k in range(len(self.sites))]
        contributions = self.contributions[:, 0]
        if self.by_bounds:
            names.append(_BOUNDS)
            contributions = np.append(contributions, self.by_bounds)
        waterfall = Waterfall(
            title=self.verdict(),
            base=float(self.base[0]),
            sites=names,
            contributions=contributions,
            score=(f"{PREDICTION}, 80 % interval", float(self.scores[0])),
            interval=("80 % interval", *self.interval),
            starts_at_base=True,
        )
        axes = draw(ax, waterfall)
        axes.set_xlabel(PREDICTION)
        return axes

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        rows = super()._cells()[1]
        first = [["base", *rows[0][1:]]] if rows[0][0] == "prior" else []
        clipped = []
        if self.by_bounds:
            show = NumberFormat(
                self.scores, self.base, self.contributions, np.array([self.by_bounds])
            )
            clipped = [[_BOUNDS, show.one(self.by_bounds)]]
        return ["", "adds"], [*first, *rows[len(first) : -1], *clipped, [PREDICTION, *rows[-1][1:]]]


def _plain(value: Any) -> Any:
    """Return a value of a row as JSON has it: a missing one is None, a date is a text."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) else str(value)
