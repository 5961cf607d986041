r"""Why a query got its label: what each site added to the score of each leading label.

Every score is a sum :math:`S_c = \beta_c + \sum_k s_{k,c}` over the sites k of the query, with a
base :math:`\beta_c` that is the logarithm of the prior plus an offset for a log-linear vote, and
zero for the others. So an explanation is no approximation beside the model: it is the terms of the
model's own sum. Where a memory is a sketch, the terms themselves have errors, which the explanation
names (:mod:`hammemo.memories.ranker`):

- exact counts: none;
- hashed counts: hard bounds. A reserved row is exact; a bucket's row is at most its raw counts and
  at least zero. The value itself is the bucket's count after centring, which makes it right on
  average, and may be below zero;
- Gaussian codes: standard errors over the draw of the codes
  (:mod:`hammemo.memories.gaussian.readers`), but none for tied codes, which are biased, or for the
  fused form, which no longer has what they are made from.

A :class:`NumberExplanation` says why a row got its number: what each column of the table added to
the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from hammemo._lazy import explain_missing
from hammemo.explain.explanation_html import write_table
from hammemo.explain.explanation_plot import Interval, Waterfall, draw
from hammemo.explain.number_text import NumberFormat, is_float, show_number, show_value
from hammemo.features.cells import Cells, TreeCells
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.missing import MISSING, is_missing
from hammemo.tokens.scales import NO_SCALES
from hammemo.tokens.table_columns import array_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Group

    from hammemo._arrays.types import Array, Floats
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.scales import Scales
    from hammemo.tokens.vocabulary import Token

Precision: TypeAlias = Literal["exact", "bounds", "standard errors", "unknown"]

_PRECISION_TEXTS: Final[dict[Precision, str]] = {
    "exact": "exact counts",
    "bounds": "estimates, in brackets what the exact figure is at least and at most",
    "standard errors": "estimates ± one standard error",
    "unknown": "estimates of unknown error",
}


_TUPLES: Final = ("tokens", "names", "seen", "labels", "ranges")
_ARRAYS: Final = ("scores", "score_errors", "probabilities", "base")
"""The fields of an explanation that hold something for each token or label, in JSON as lists."""

_SITE_ARRAYS: Final = ("contributions", "low", "high", "errors")
"""The fields that hold something for each site and label."""

_MOST_CHANCES: Final = 3
"""The labels whose probabilities a figure shows."""


class TextTable(NamedTuple):
    """A table of text."""

    header: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Which sites and tokens voted for which labels; what `MemoryClassifier.explain` returns.

    It prints as text, as a table in a notebook and in a terminal with rich
    (``rich.print(explanation)``), and draws itself with `plot`. With S sites and K labels:

    Parameters
    ----------
    tokens : tuple of int, float, str or None
        The context; None at a position that holds no token.
    seen : tuple of bool or None
        For each position whether any stored example holds its token, at any compared position; None
        where the memory cannot tell, or there is no token.
    sites : tuple of tuples of int
        The positions that each site compares, 0 to h - 1.
    labels : tuple
        The labels with the highest scores, best first: those of `top_k`, unless the vote discounts
        popular labels.
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
        Standard errors of the scores; errors of sites are not independent, so these cannot be
        computed from those.
    margin : float or None
        By how much the best label leads the second; None where there is only one.
    certified : bool or None
        What `certify` says: True where the best label is proven to be the exact classifier's, False
        where that is not known; None where the memory or the vote gives no certificates.
    names : tuple of str, or None
        What the positions are called: the columns of the data frame that the model learned.
    kinds : tuple of str
        For each site, the kind of a site without a position, such as ``"bag of 10"``; empty for one
        with positions.
    probabilities : ndarray of shape (K,), or None
        Those of the labels; None where the vote gives none.
    ranges : tuple of str or None, or None
        For each column of a table with numbers the range that its number lies in, None for a name;
        None for other rows.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Exact
    >>> X = [["order", "pay"], ["order", "pay"], ["order", "cancel"]]
    >>> clf = MemoryClassifier(memory=Exact(), vote="sum").fit(X, ["ship", "ship", "refund"])
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
        """What is known of the error.

        It is "exact" for a sketch, too, if that happens to know all counts of this query.
        """
        if self.low is not None and self.high is not None:
            is_exact = (self.low == self.contributions) & (self.contributions == self.high)
            return "exact" if bool(is_exact.all()) else "bounds"
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
        unseen = (token for token, is_seen in pairs if token is not None and is_seen is False)
        return tuple(dict.fromkeys(unseen))

    def site_name(self, k: int) -> str:
        """Return what site k compares.

        Such as ``position -1: 'ship'``, counted from the end, or ``colour: 'red'``.
        """
        site = self.sites[k]
        h = len(self.tokens)
        kind = ""
        if self.kinds:
            kind = self.kinds[k]
        if kind and not site:
            return kind
        tokens = ", ".join(_show_token(self.tokens[position]) for position in site)
        if kind:
            return f"{kind}: {_show_token(self.tokens[site[0]])} at {site[0] - h}"
        if self.names is not None:
            return f"{', '.join(self.names[position] for position in site)}: {tokens}"
        noun = "position"
        if len(site) > 1:
            noun = "positions"
        return f"{noun} {', '.join(str(position - h) for position in site)}: {tokens}"

    @property
    def has_evidence(self) -> bool:
        """Whether a token that is not surely new votes, or may vote within the bounds."""
        pairs = zip(self.tokens, self.seen, strict=True)
        if all(token is None or is_seen is False for token, is_seen in pairs):
            return False
        return bool(self.contributions.any() or (self.high is not None and self.high.any()))

    def verdict(self) -> str:
        """Return one sentence: which label leads, what the figures are, and what is proven."""
        return f"{self._describe_decision()}; {_PRECISION_TEXTS[self.precision]}."

    def _describe_decision(self) -> str:
        best = repr(self.labels[0])
        rival = "the next label"
        if len(self.labels) > 1:
            rival = repr(self.labels[1])
        if self.margin is None:
            lead = f"{best} is the only label"
        elif self.margin:
            lead = f"{best} leads {rival} by {self.margin:,.3g}"
        else:
            lead = f"{best} ties with {rival}"
        if not self.has_evidence:
            if not self.margin:
                lead += ", so the first label is given"
            return f"no token of this context has a vote: {lead}"
        if self.certified is None or self.precision == "exact":  # there is nothing to prove
            return lead
        proven = "proven" if self.certified else "not proven"
        return f"{lead}, {proven} to be the exact classifier's answer"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings, ready for JSON.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> clf = MemoryClassifier(vote="sum").fit([["a", "b"], ["a", "c"]], ["x", "y"])
        >>> clf.explain(["a", "b"]).to_dict()["sites"][1]["contributions"]
        [0.5, 0.0]
        """
        fields = {name: _list_items(getattr(self, name)) for name in (*_TUPLES, *_ARRAYS)}
        low, high = self.score_bounds or (None, None)
        return {
            **fields,
            "score_low": _list_items(low),
            "score_high": _list_items(high),
            "sites": [self._describe_site(k) for k in range(len(self.sites))],
            "margin": self.margin,
            "certified": self.certified,
            "precision": self.precision,
        }

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Explanation:
        """Return the explanation that `to_dict` described, such as one that a server sent.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.explain.explanations import Explanation
        >>> clf = MemoryClassifier(vote="sum").fit([["a", "b"], ["a", "c"]], ["x", "y"])
        >>> explanation = clf.explain(["a", "b"])
        >>> str(Explanation.from_dict(explanation.to_dict())) == str(explanation)
        True
        """
        sites = described["sites"]
        shape = (len(sites), len(described["labels"]))

        def read_tuple(name: str) -> Any:
            if described.get(name) is None:
                return None
            return tuple(described[name])

        def read_array(name: str) -> Any:
            if described.get(name) is None:
                return None
            return np.array(described[name], np.float64)

        def read_site_array(name: str) -> Any:
            rows = [site[name] for site in sites]
            if None in rows:  # JSON has null for numbers that are not finite
                return None
            return np.array(rows, np.float64).reshape(shape)

        fields: dict[str, Any] = {name: read_tuple(name) for name in _TUPLES}
        fields |= {name: read_array(name) for name in _ARRAYS}
        fields |= {name: read_site_array(name) for name in _SITE_ARRAYS}
        return cls(
            **fields,
            sites=tuple(tuple(site["positions"]) for site in sites),
            margin=described["margin"],
            certified=described["certified"],
            kinds=tuple(site.get("kind", "") for site in sites),
        )

    def _describe_site(self, k: int) -> dict[str, Any]:
        described: dict[str, Any] = {}
        if any(self.kinds):
            described["kind"] = self.kinds[k]
        described["positions"] = list(self.sites[k])
        described["tokens"] = [self.tokens[position] for position in self.sites[k]]
        for name in _SITE_ARRAYS:
            described[name] = _list_items(_take_site(getattr(self, name), k))
        return described

    def plot(self, ax: Axes | None = None, label: Any = None) -> Axes:
        """Draw a waterfall from the prior to the score of the best label; return the axes.

        If there are probabilities, bars are log-odds: what each site adds to the score of the label
        less that of the best other label. Numbers of a table are shown with the ranges that they
        lie in. If counts are estimates, a line on the score is what is known of the exact one. It
        needs Matplotlib, the ``plot`` extra.

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
        place = 0
        if label is not None:
            place = self.labels.index(label)
        rival = None
        if self.probabilities is not None and len(self.labels) > 1:
            rival = 1 if place == 0 else 0
        score_name = f"score of {self.labels[place]!r}"
        if rival is not None:
            score_name = f"{self.labels[place]!r} against {self.labels[rival]!r}"

        def subtract_rival(scores: Floats) -> Any:
            if rival is None:
                return scores[..., place]
            return scores[..., place] - scores[..., rival]

        waterfall = Waterfall(
            title="\n".join([*self._list_headlines(), *self._list_unseen("Never seen: ")]),
            base=float(subtract_rival(self.base)),
            sites=[self._describe_site_in_figure(k) for k in range(len(self.sites))],
            contributions=subtract_rival(self.contributions),
            score_name=score_name,
            score=float(subtract_rival(self.scores)),
            interval=self._find_interval(place, rival),
        )
        axes = draw(ax, waterfall)
        if rival is not None:
            score_name = f"log-odds of {score_name}"
        axes.set_xlabel(score_name)
        return axes

    def _list_headlines(self) -> list[str]:
        """Return which label leads, and the probabilities."""
        lead = self._describe_decision() + "."
        if self.probabilities is None:
            return [lead]
        chances = [
            f"{label!r} {self.probabilities[place]:.3f}"
            for place, label in enumerate(self.labels[:_MOST_CHANCES])
        ]
        return [lead, f"Probabilities: {', '.join(chances)}."]

    def _describe_site_in_figure(self, k: int) -> str:
        """Return the name of a site, with the range of a number."""
        site = self.sites[k]
        if self.ranges is None or len(site) != 1 or self.ranges[site[0]] is None:
            return self.site_name(k)
        (column,) = site
        value = self.tokens[column]
        name = f"column {column}"
        if self.names is not None:
            name = self.names[column]
        if value is None or isinstance(value, str):  # what is compared is the range
            return f"{name}: {self.ranges[column]}"
        return f"{name}: {_show_token(value)} ({self.ranges[column]})"

    def _find_interval(self, place: int, rival: int | None) -> Interval | None:
        """Return what the exact score of a label, less that of a rival, may be."""
        if self.score_errors is not None and rival is None:  # those of two are not independent
            score = float(self.scores[place])
            error = 2 * float(self.score_errors[place])
            return Interval("± two standard errors", score - error, score + error)
        if self.score_bounds is None or self.precision == "exact":
            return None
        low, high = self.score_bounds
        least = float(low[place])
        most = float(high[place])
        if rival is not None:
            least = float(low[place] - high[rival])
            most = float(high[place] - low[rival])
        return Interval("bounds of the exact score", least, most)

    def __str__(self) -> str:
        header, rows = self._make_table()
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = []
        for first, *others in (header, *rows):
            cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        return "\n".join([*lines, *self._list_notes()])

    def _repr_html_(self) -> str:
        """Return the same for a notebook; names of columns and values are escaped."""
        header, rows = self._make_table()
        return write_table(header, rows, self._list_notes())

    def __rich__(self) -> Group:
        """Return the table for a terminal, and notes below it; rich is the ``cli`` extra."""
        with explain_missing("Tables in the terminal need rich: pip install 'hammemo[cli]'"):
            from rich.console import Group
            from rich.table import Table
            from rich.text import Text
        header, rows = self._make_table()
        table = Table()
        table.add_column(header[0])
        for place, name in enumerate(header[1:]):  # as they are: no markup from tokens
            table.add_column(Text(name), justify="right", style="bold" if place == 0 else "")
        for row in rows[:-1]:
            table.add_row(*map(Text, row))
        table.add_section()
        table.add_row(*map(Text, rows[-1]), style="bold")
        return Group(table, *map(Text, self._list_notes()))

    def _list_notes(self) -> list[str]:
        return [self.verdict(), *self._list_unseen("* never seen: ")]

    def _list_unseen(self, prefix: str) -> list[str]:
        """Return a line of the tokens that were never seen; nothing if there are none."""
        if not self.never_seen:
            return []
        return [prefix + ", ".join(map(_show_token, self.never_seen))]

    def _make_table(self) -> TextTable:
        """Return the table as text: the base, the sites, the scores."""
        shown = [self.scores, self.base, self.contributions, self.low, self.high]
        show = NumberFormat(shown)
        rows = []
        if self.base.any():
            rows.append(["prior", *show(self.base)])
        for k, site in enumerate(self.sites):
            bounds = None
            if self.low is not None and self.high is not None:
                bounds = (self.low[k], self.high[k])
            errors = _take_site(self.errors, k)
            name = self.site_name(k)
            if any(self.seen[position] is False for position in site):
                name += " *"
            rows.append([name, *show(self.contributions[k], bounds, errors)])
        score_bounds = self.score_bounds
        if self.precision == "exact":
            score_bounds = None
        rows.append(["score", *show(self.scores, score_bounds, self.score_errors)])
        return TextTable(["", *map(repr, self.labels)], rows)


def _take_site(values: Floats | None, k: int) -> Floats | None:
    """Return the numbers of one site, if there are any."""
    if values is None:
        return None
    return np.asarray(values[k])


def _list_items(values: Any) -> Any:
    """Return an array or a tuple as a list; None stays None."""
    if values is None:
        return None
    if isinstance(values, np.ndarray):
        return values.tolist()
    return list(values)


def _show_token(token: Token | None) -> str:
    if is_float(token):
        return show_value(float(token))  # type: ignore[arg-type]
    if token is None or token == MISSING:
        return "missing"
    return repr(token)


def with_truth_values(explanation: Explanation, values: Sequence[Any]) -> Explanation:
    """Return the explanation of a row with its truth values as the user gave them.

    The model knows them as the tokens 0 and 1.
    """
    is_truth_value = [isinstance(value, (bool, np.bool_)) for value in values]
    if len(values) != len(explanation.tokens) or not any(is_truth_value):
        return explanation
    tokens = list(explanation.tokens)
    for j, value in enumerate(values):
        if is_truth_value[j]:
            tokens[j] = bool(value)
    return replace(explanation, tokens=tuple(tokens))


def divide_by_columns(
    explanation: Explanation, cells: Cells, row: Contexts, scales: Scales = NO_SCALES
) -> Explanation:
    """Return the explanation of a row with numbers by the columns of its table.

    What trees say is divided among the columns of the cuts on the way to each cell
    (`Cells.column_shares`), so the sum stays; bounds are divided alike. Without trees the sites
    stay, and numbers are shown as ranges.
    """
    n_columns = len(cells.kinds)
    row = cells.ask(row)
    ranks = row.ranks[0].tolist()
    names = row.vocabulary.tolist()
    tokens: list[Token | None] = [None] * len(ranks)
    ranges: list[str | None] = [None] * len(ranks)
    for j, rank in enumerate(ranks):
        if rank >= 0:
            order = cells.order_of(j, scales)
            tokens[j] = cells.show_value(j, names[rank], order)
            ranges[j] = cells.range_of(j, names[rank], order)
    are_seen = list(explanation.seen[:n_columns])
    for j in range(len(are_seen)):
        if cells.kinds[j] != ColumnKind.NAMES:  # what is compared is the range
            are_seen[j] = None
    explanation = replace(
        explanation, tokens=tuple(tokens), seen=tuple(are_seen), ranges=tuple(ranges)
    )
    if not isinstance(cells, TreeCells):
        return explanation
    position_shares = cells.column_shares(row)[0]
    # the columns of a tuple share its contribution evenly
    site_shares = np.array([position_shares[list(site)].mean(axis=0) for site in explanation.sites])
    divided: dict[str, Any] = {}
    for name in ("contributions", "low", "high"):
        array = getattr(explanation, name)
        if array is not None:
            divided[name] = site_shares.T @ array
    return replace(
        explanation,
        sites=tuple((j,) for j in range(n_columns)),
        kinds=("",) * n_columns,
        errors=None,
        **divided,
    )


def one_context(tokens: Any, names: Array | None = None, call: str = "explain") -> list[Any]:
    """Return the tokens of one context; refuse a batch, and a row of a frame with other columns."""
    if hasattr(tokens, "columns"):  # iterating over a frame would give the names of its columns
        raise ValueError(
            f"{call} takes one row, not a frame: {call}(X.iloc[0], …) (pandas) "
            f"or {call}(X.row(0), …) (polars)."
        )
    if names is not None and hasattr(tokens, "iloc") and list(tokens.index) != names.tolist():
        raise ValueError(
            f"The row has the columns {list(tokens.index)}, the model {names.tolist()}: "
            "take these, in this order."
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


PREDICTION: Final = "prediction"
"""The label of a predicted number."""

_BOUNDS: Final = "bounds of the model"
"""The row for what bounds add to a prediction."""


@dataclass(frozen=True, eq=False)
class NumberExplanation(Explanation):
    """What each column added to a predicted number; what `MemoryRegressor.explain` returns.

    An `Explanation` with one label, "prediction". `scores[0]` is the prediction.

    Parameters
    ----------
    interval : tuple of two floats
        Between these, 80 % of such targets lie.
    by_bounds : float
        What the bounds of the model add to the sum of base and columns: 0 where that lies inside.
    """

    interval: tuple[float, float] = (-np.inf, np.inf)
    by_bounds: float = 0.0

    @classmethod
    def from_contributions(
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
        if names is None:
            names = [f"column {j}" for j in range(len(values))]
        return cls(
            tokens=tuple(map(_convert_for_json, values)),
            seen=(None,) * len(values),
            sites=tuple((j,) for j in range(len(values))),
            labels=(PREDICTION,),
            scores=np.array([base + added.sum() + by_bounds]),
            base=np.array([base]),
            contributions=added,
            low=added,
            high=added,
            names=tuple(names),
            interval=interval,
            by_bounds=by_bounds,
        )

    def verdict(self) -> str:
        """Return one sentence: the prediction and the interval."""
        low, high = map(show_number, self.interval)
        prediction = show_number(self.scores[0])
        return f"The prediction is {prediction}; 80 % of such targets lie between {low} and {high}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings, ready for JSON."""
        rows = zip(self.names or (), self.tokens, self.contributions[:, 0].tolist(), strict=True)
        columns = [
            {"name": name, "value": value, "contribution": added} for name, value, added in rows
        ]
        # JSON has no infinity
        interval = [end if math.isfinite(end) else None for end in self.interval]
        described: dict[str, Any] = {
            PREDICTION: float(self.scores[0]),
            "interval": interval,
            "base": float(self.base[0]),
        }
        if self.by_bounds:
            described["bounds"] = self.by_bounds
        described["columns"] = columns
        return described

    def plot(self, ax: Axes | None = None, label: Any = None) -> Axes:  # noqa: ARG002
        """Draw a waterfall from the base to the prediction; return the axes.

        It needs Matplotlib, the ``plot`` extra.
        """
        names = [self.site_name(k) for k in range(len(self.sites))]
        contributions = self.contributions[:, 0]
        if self.by_bounds:
            names.append(_BOUNDS)
            contributions = np.append(contributions, self.by_bounds)
        low, high = self.interval
        waterfall = Waterfall(
            title=self.verdict(),
            base=float(self.base[0]),
            sites=names,
            contributions=contributions,
            score_name=f"{PREDICTION}, 80 % interval",
            score=float(self.scores[0]),
            interval=Interval("80 % interval", low, high),
            starts_at_base=True,
        )
        axes = draw(ax, waterfall)
        axes.set_xlabel(PREDICTION)
        return axes

    def _make_table(self) -> TextTable:
        """Return the table as text: the base, the columns, the bounds, the prediction."""
        rows = super()._make_table().rows
        *terms, prediction = rows
        if terms and terms[0][0] == "prior":
            terms[0] = ["base", *terms[0][1:]]
        if self.by_bounds:
            by_bounds = np.array([self.by_bounds])
            show = NumberFormat([self.scores, self.base, self.contributions, by_bounds])
            terms.append([_BOUNDS, show.one(self.by_bounds)])
        return TextTable(["", "adds"], [*terms, [PREDICTION, *prediction[1:]]])


def _convert_for_json(value: Any) -> Any:
    """Return a value of a row for JSON: a missing one is None, a date is a text."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        return None
    if isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
