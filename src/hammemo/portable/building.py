"""From a compiled predictor to its graph: which constants it has, and how rows are found and added.

Which memories have one: `Hashed` (integers are hashed in the graph; strings, and integers under a
secret key, by a list of tokens), exact counts, sparse or dense, and both compiled forms of
`Gaussian`. Votes: sum, mean and log-linear. A graph has a cell for every row and label: exact
counts of many labels do not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hammemo.memories.exact import (
    MAX_DENSE_LABELS,
    CountTable,
    DenseCounts,
    SparseCounts,
    apply_rule,
    dense_values,
)
from hammemo.memories.gaussian.readers import CompiledGaussian
from hammemo.memories.hashed.readers import HashedTables
from hammemo.portable import graph as parts
from hammemo.portable.graph import Constants, Graph, Search, as_signed
from hammemo.tokens.hashing import number_key
from hammemo.tokens.missing import MISSING
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes.base import WeightedSum
from hammemo.votes.log_linear import LogLinear

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo._arrays.types import Array, Floats, Ints, Words
    from hammemo.kernels.sites import Sites
    from hammemo.memories.hashed.layout import RowLayout
    from hammemo.memories.reader import Compiled
    from hammemo.memories.row_rules import RowRule
    from hammemo.votes import Vote

_MAX_TABLE_BYTES = 2**31 - 1
"""Of the rows of exact counts: an ONNX file holds no more."""


@dataclass(frozen=True, eq=False)
class _GraphDraft:
    """A graph that is being built: what all its parts are made from, and its constants so far."""

    sites: Sites
    vote: Vote
    classes: Array
    listed: Vocabulary | None
    """The tokens that the graph shall know, where a list was given."""
    constants: Constants = field(default_factory=dict)

    def finish(self, tokens: Vocabulary | None, finder: parts.Finder, head: parts.Head) -> Graph:
        """Return the graph; `tokens` are what its numbers stand for."""
        return Graph(
            h=self.sites.h,
            tokens=tokens,
            constants=self.constants,
            finder=finder,
            head=head,
            classes=self.classes,
        )


class _VoteForm(NamedTuple):
    """How a vote makes scores of the counts in rows."""

    rule: RowRule | None
    """Of a log-linear vote."""
    divisor: Any
    """Of a weighted sum."""


def build_graph(
    compiled: Compiled,
    sites: Sites,
    vote: Vote,
    classes: Array,
    *,
    tokens: Iterable[Any] | None,
    missing: str,
) -> Graph:
    """Return the graph of a predictor.

    Parameters
    ----------
    compiled : Compiled
    sites : Sites
    vote : Vote
    classes : ndarray of shape (L,)
    tokens : iterable of tokens, optional
        Those that the graph shall know, given by their places in the sorted list. Without, a graph
        of a hashed memory takes any integer, one of exact counts whose tokens are integers takes
        those, and others the tokens that they carry data for.
    missing : str
        What takes the place of missing values; a token that does is one of those that the graph
        knows.
    """
    if tokens is None and isinstance(compiled, CompiledGaussian):
        # other codes are drawn when they are used, which a graph cannot do
        tokens = compiled.input_codes.features()
    if tokens is not None and missing == "token":
        tokens = [*tokens, MISSING]
    listed = None
    if tokens is not None:
        listed = Vocabulary.of(tokens)
    if not len(classes):
        raise ValueError(
            "The model is empty: it has no label to answer. Learn at least one example first."
        )
    draft = _GraphDraft(sites, vote, classes, listed)
    if isinstance(compiled, HashedTables):
        return _build_hashed(draft, compiled)
    if isinstance(compiled, DenseCounts):
        return replace(_build_dense(draft, compiled), knows_all=listed is None)
    if isinstance(compiled, SparseCounts):
        return replace(_build_sparse(draft, compiled), knows_all=listed is None)
    if isinstance(compiled, CompiledGaussian):
        return _build_gaussian(draft, compiled)
    raise TypeError(
        f"{type(compiled).__name__} has no graph: use memory=Exact(), Hashed() or Gaussian()."
    )


def list_tokens(compiled: Compiled) -> Vocabulary | None:
    """Return the tokens that a compiled memory has data for.

    A hashed memory keeps no list: None.
    """
    if isinstance(compiled, DenseCounts):
        return compiled.vocabulary
    if isinstance(compiled, SparseCounts):
        return compiled.table.vocabulary
    if isinstance(compiled, CompiledGaussian):
        return Vocabulary.of(compiled.input_codes.features())
    return None


def _add_rows(
    draft: _GraphDraft,
    rows: list[Array],
    *,
    weights: Floats | None = None,
    step: float = 1.0,
    base: Any = None,
    divisor: Any = None,
) -> parts.RowSums:
    """Return the sums of rows, weighed if need be, and add their constants.

    A row of zeros, for what reads none, comes last in each table.
    """
    constants = draft.constants
    if weights is None:
        weights = np.ones(len(rows))
    for k, (values, weight) in enumerate(zip(rows, weights.tolist(), strict=True)):
        table = _narrow(values)
        constants[f"rows.{k}"] = np.concatenate([table, np.zeros((1, table.shape[1]), table.dtype)])
        constants[f"weight.{k}"] = np.array(weight)
    constants["step"] = np.array(step)
    row_shape = rows[0].shape[1:]
    for name, values in (("base", base), ("divisor", divisor)):
        if values is not None:
            row = np.broadcast_to(np.asarray(values, np.float64), row_shape)
            constants[name] = row[None, :].copy()
    return parts.RowSums(
        weights=tuple(weights.tolist()),
        step=step,
        has_base=base is not None,
        has_divisor=divisor is not None,
    )


def _narrow(values: Array) -> Array:
    """Return whole numbers in 32 bits if they fit, as torch and ONNX have them."""
    if values.dtype.kind == "f" or not values.size:
        return values
    fits = int(values.min()) >= -(2**31) and int(values.max()) < 2**31
    return values.astype(np.int32 if fits else np.int64)


def _read_vote(draft: _GraphDraft, compiled: Compiled) -> _VoteForm:
    """Return how the vote makes scores; refuse votes that have no graph."""
    vote = draft.vote
    if isinstance(vote, WeightedSum):
        return _VoteForm(rule=None, divisor=vote.divisor(compiled, draft.sites))
    if isinstance(vote, LogLinear):
        return _VoteForm(rule=vote.rule(compiled, draft.sites), divisor=None)
    raise TypeError(f"vote={vote!r} has no graph: sum, mean and log-linear votes have one.")


# Hashed memories


def _build_hashed(draft: _GraphDraft, tables: HashedTables) -> Graph:
    finder = _find_hashed_rows(draft, tables.layout)
    rule, divisor = _read_vote(draft, tables)
    rows, step, base = tables.integer_rows(rule)
    # the rows of a rule are weighed already
    weights = draft.sites.weights if rule is None else None
    head = _add_rows(draft, rows, weights=weights, step=step, base=base, divisor=divisor)
    return draft.finish(draft.listed, finder, head)


def _find_hashed_rows(draft: _GraphDraft, layout: RowLayout) -> parts.HashedRows:
    """Return what finds the rows of a hashed memory, its constants added to the others."""
    listed = draft.listed
    if listed is None and layout.key is not None:
        raise ValueError(
            "Under a secret key integers are not hashed in a graph: "
            "say which tokens it shall know, tokens=…."
        )
    constants = draft.constants
    constants["single.rows"] = layout.single_rows
    sites = tuple(_find_site_rows(draft, layout, k) for k in range(len(layout.groups)))
    if listed is None:
        hashes, reserved_places, _ = layout.integer_tokens()
        keys = _as_signed_words(hashes) ^ parts.SIGN
        places = Search.of("places", keys, reserved_places.astype(np.int64), constants)
        first, second = number_key(layout.seed, None)
        return parts.HashedRows(sites, (as_signed(first), as_signed(second)), places)
    hashes, places_in_list = layout.vocabulary_source(listed)
    constants["token.hashes"] = np.append(_as_signed_words(hashes), 0)
    constants["token.places"] = np.append(places_in_list.astype(np.int64), -1)
    return parts.HashedRows(sites, None, None, len(listed))


def _find_site_rows(draft: _GraphDraft, layout: RowLayout, k: int) -> parts.HashedSite:
    """Return what finds the row of site k, its constants added to the others."""
    reserved_hashes = layout.own(k)
    n_reserved = len(reserved_hashes)
    site = parts.HashedSite(
        positions=layout.sites.positions[k],
        multiplier=as_signed(layout.multipliers[k]),
        start=as_signed(layout.tuple_seeds[k]),
        buckets=layout.buckets[k],
        n_reserved=n_reserved,
    )
    if len(site.positions) == 1:
        return site
    keys = _as_signed_words(reserved_hashes) ^ parts.SIGN
    search = Search.of(f"own.{k}", keys, np.arange(n_reserved), draft.constants)
    if not n_reserved:
        return replace(site, reserved=search)
    for j, column in enumerate(layout.reserved.places[layout.groups[k]].T):
        draft.constants[f"compared.{k}.{j}"] = column.astype(np.int64)
    return replace(site, reserved=search, compared=f"compared.{k}")


def _as_signed_words(words: Words) -> Ints:
    return np.ascontiguousarray(words).view(np.int64)


# Exact counts


def _build_dense(draft: _GraphDraft, table: DenseCounts) -> Graph:
    rows: list[Array] = list(table.tensors()["counts"])
    rule, divisor = _read_vote(draft, table)
    weights = None
    base = None
    if rule is None:
        weights = draft.sites.weights
    else:
        rows = [rule.rows(site, counts) for site, counts in enumerate(rows)]
        base = rule.base
    tokens, finder = _find_listed_rows(draft, table.vocabulary)
    if tokens is not None and draft.listed is not None:
        # one row per listed token, of zeros where the memory has none
        places = np.append(table.vocabulary.find(draft.listed), -1)[: len(draft.listed)]
        has_row = (places >= 0)[:, None]
        rows = [np.where(has_row, values[places], 0) for values in rows]
    head = _add_rows(draft, rows, weights=weights, base=base, divisor=divisor)
    return draft.finish(tokens, finder, head)


def _find_listed_rows(
    draft: _GraphDraft, vocabulary: Vocabulary
) -> tuple[Vocabulary | None, parts.ListedRows]:
    """Return what the graph's numbers stand for, and what finds the rows of a list of tokens."""
    search = _search_tokens(draft, vocabulary)
    tokens = vocabulary if draft.listed is None else draft.listed
    positions = tuple(site[0] for site in draft.sites.positions)
    finder = parts.ListedRows(positions, len(tokens), search)
    return (tokens if search is None else None), finder


def _search_tokens(draft: _GraphDraft, vocabulary: Vocabulary) -> Search | None:
    """Return what finds tokens that come as they are: integers, where no list is given."""
    if draft.listed is not None or len(vocabulary.ints) < len(vocabulary):
        return None
    places = np.arange(len(vocabulary))
    return Search.of("tokens", vocabulary.ints, places, draft.constants)


def _build_sparse(draft: _GraphDraft, reader: SparseCounts) -> Graph:
    if draft.sites.free:
        kind = draft.sites.free[0].kind
        raise ValueError(f"A graph reads positions only, and the kernel has a {kind!r}.")
    table = reader.table
    n_labels = len(draft.classes)
    starts = np.cumsum([0, *map(len, table.tuples)])
    if 8 * int(starts[-1]) * n_labels > _MAX_TABLE_BYTES:
        raise ValueError(
            f"A graph of {starts[-1]:,} rows and {n_labels:,} labels is larger than 2 GiB: "
            "use memory=Hashed(), which has fewer rows."
        )
    tokens, finder = _find_tuple_rows(draft, table)
    rule, divisor = _read_vote(draft, reader)
    counts = table.matrix(reader.labels)
    spans = [slice(first, last) for first, last in pairwise(starts.tolist())]
    head: parts.Head
    if rule is None:
        rows = [counts[span].toarray().astype(np.int64) for span in spans]
        head = _add_rows(draft, rows, weights=draft.sites.weights, divisor=divisor)
    elif n_labels <= MAX_DENSE_LABELS:
        values = dense_values(rule, counts, starts)
        head = _add_rows(draft, [values[span] for span in spans], base=rule.base)
    else:
        gains, losses = apply_rule(rule, counts, starts)
        head = _add_ratios(draft, rule, spans, gains=gains, losses=losses)
    return draft.finish(tokens, finder, head)


def _add_ratios(
    draft: _GraphDraft, rule: RowRule, spans: list[slice], *, gains: Any, losses: Floats
) -> parts.RatioSums:
    """Return the sums of log-ratios, and add their constants."""
    constants = draft.constants
    n_amounts = len(rule.smoothing)
    no_gain = np.zeros((1, gains.shape[1]))  # the last row, for what reads none
    for k, span in enumerate(spans):
        constants[f"gains.{k}"] = np.concatenate([gains[span].toarray(), no_gain])
        for j in range(n_amounts):
            constants[f"losses.{k}.{j}"] = np.append(losses[span, j], 0.0)[:, None]
            constants[f"weights.{k}.{j}"] = rule.weights[k, j][None, :].copy()
    constants["base"] = rule.base[None, :]
    return parts.RatioSums(len(spans), n_amounts)


def _find_tuple_rows(
    draft: _GraphDraft, table: CountTable
) -> tuple[Vocabulary | None, parts.TupleRows]:
    """Return what the graph's numbers stand for, and what finds the rows of tuples of tokens."""
    constants = draft.constants
    vocabulary = table.vocabulary
    search = _search_tokens(draft, vocabulary)
    tokens = vocabulary if draft.listed is None else draft.listed
    constants["ranks"] = np.append(vocabulary.find(tokens), -1)
    levels = []
    for k, tuples in enumerate(table.tuples):
        first_tokens, *later_keys = [level.astype(np.int64) for level in tuples.levels]
        first_rows = np.full(len(vocabulary) + 1, -1, np.int64)
        first_rows[first_tokens] = np.arange(len(first_tokens))
        constants[f"first.{k}"] = first_rows
        searches = []
        for j, keys in enumerate(later_keys, 1):
            searches.append(Search.of(f"level.{k}.{j}", keys, np.arange(len(keys)), constants))
        levels.append(tuple(searches))
    finder = parts.TupleRows(
        sites=table.sites.positions,
        sizes=tuple(map(len, table.tuples)),
        n=len(vocabulary),
        size=len(tokens),
        levels=tuple(levels),
        search=search,
    )
    return (tokens if search is None else None), finder


# Gaussian memories


def _build_gaussian(draft: _GraphDraft, compiled: CompiledGaussian) -> Graph:
    sites = draft.sites
    vote = draft.vote
    if any(len(site) > 1 for site in sites.positions):
        raise ValueError(
            "A graph of Gaussian codes needs sites of one position each: "
            "tuples have too many values."
        )
    if not isinstance(vote, WeightedSum):
        raise TypeError(
            f"vote={vote!r} has no graph with Gaussian codes: sum and mean votes have one."
        )
    constants = draft.constants
    vocabulary = draft.listed
    if vocabulary is None:
        vocabulary = Vocabulary.of(compiled.input_codes.features())
    tokens, finder = _find_listed_rows(draft, vocabulary)
    codes = compiled.input_codes.get(vocabulary.tolist())
    constants["codes"] = np.concatenate([codes, np.zeros((1, codes.shape[1]), np.float32)])
    for k, weight in enumerate(sites.weights):
        constants[f"scale.{k}"] = np.array(weight * len(sites.weights), np.float32)
    tensors = compiled.tensors()
    if "CZ" in tensors:
        matrices = [tensors["CZ"]]
    else:
        matrices = [tensors["C"], np.ascontiguousarray(tensors["Z"].T)]
    for j, matrix in enumerate(matrices):
        constants[f"matrix.{j}"] = matrix
    divisor = np.asarray(vote.divisor(compiled, sites), np.float64)
    constants["divisor"] = np.broadcast_to(divisor, (len(compiled.labels),))[None, :].copy()
    head = parts.CodeProducts(len(sites.weights), len(matrices))
    return draft.finish(tokens, finder, head)
