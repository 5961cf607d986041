"""From a compiled predictor to its graph: which constants it has, and how rows are found and added.

Which memories have one: `Hashed` (integers are hashed in the graph; strings, and integers under a secret key, by a
list of tokens), exact counts, sparse or dense, and both compiled forms of `Gaussian`. Votes: sum, mean and log-linear.
A graph has a cell for every row and label: exact counts of many labels do not fit.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.memories.exact import MAX_DENSE_LABELS, CountTable, DenseCounts, SparseCounts, apply_rule, dense_values
from hammemo.memories.gaussian.readers import CompiledGaussian
from hammemo.memories.hashed.readers import HashedTables
from hammemo.portable import graph as parts
from hammemo.portable.graph import Constants, Graph, Search, signed
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

_MAX_TABLE_BYTES = 2**31 - 1  # of the rows of exact counts; an ONNX file holds no more


def build_graph(
    compiled: Compiled, sites: Sites, vote: Vote, classes: Array, *, tokens: Iterable[Any] | None, missing: str
) -> Graph:
    """Return the graph of a predictor.

    Parameters
    ----------
    compiled : Compiled
    sites : Sites
    vote : Vote
    classes : ndarray of shape (L,)
    tokens : iterable of tokens, optional
        Those that the graph shall know, given by their places in the sorted list. Without, a graph of a hashed memory
        takes any integer, one of exact counts whose tokens are integers takes those, and others the tokens that they
        carry data for.
    missing : str
        What takes the place of missing values; a token that does is one of those that the graph knows.
    """
    if tokens is None and isinstance(compiled, CompiledGaussian):
        tokens = compiled.input_codes.features()  # a code that is not carried is made when it is asked for
    if tokens is not None and missing == "token":
        tokens = [*tokens, MISSING]
    listed = None if tokens is None else Vocabulary.of(tokens)
    if not len(classes):
        raise ValueError("The model is empty: it has no label to answer. Learn at least one example first.")
    if isinstance(compiled, HashedTables):
        return _hashed(compiled, sites, vote, classes, listed)
    if isinstance(compiled, DenseCounts):
        return replace(_dense(compiled, sites, vote, classes, listed), knows_all=listed is None)
    if isinstance(compiled, SparseCounts):
        return replace(_sparse(compiled, sites, vote, classes, listed), knows_all=listed is None)
    if isinstance(compiled, CompiledGaussian):
        return _gaussian(compiled, sites, vote, classes, listed)
    raise TypeError(f"{type(compiled).__name__} has no graph: use memory=Exact(), Hashed() or Gaussian().")


def carried_tokens(compiled: Compiled) -> Vocabulary | None:
    """Return the tokens that a compiled memory has data for; None for a hashed one, which keeps no list."""
    if isinstance(compiled, DenseCounts):
        return compiled.vocabulary
    if isinstance(compiled, SparseCounts):
        return compiled.table.vocabulary
    if isinstance(compiled, CompiledGaussian):
        return Vocabulary.of(compiled.input_codes.features())
    return None


def _head(
    rows: list[Array], weights: Floats | None, step: float, base: Any, divisor: Any, constants: Constants
) -> parts.RowSums:
    """Return the sums of rows, weighed if need be; a row of zeros, for what reads none, comes last in each table."""
    weights = np.ones(len(rows)) if weights is None else weights
    for k, (table, weight) in enumerate(zip(map(_narrow, rows), weights.tolist(), strict=True)):
        constants[f"rows.{k}"] = np.concatenate([table, np.zeros((1, table.shape[1]), table.dtype)])
        constants[f"weight.{k}"] = np.array(weight)
    constants["step"] = np.array(step)
    for name, part in (("base", base), ("divisor", divisor)):
        if part is not None:
            constants[name] = np.broadcast_to(np.asarray(part, np.float64), rows[0].shape[1:])[None, :].copy()
    return parts.RowSums(tuple(weights.tolist()), step, base is not None, divisor is not None)


def _narrow(values: Array) -> Array:
    """Return whole numbers in 32 bits if they fit, as torch and ONNX have them."""
    if values.dtype.kind == "f" or not values.size:
        return values
    fits = int(values.min()) >= -(2**31) and int(values.max()) < 2**31
    return values.astype(np.int32 if fits else np.int64)


def _rule(vote: Vote, compiled: Compiled, sites: Sites) -> tuple[RowRule | None, Any]:
    """Return the rule of a log-linear vote, or None and the divisor of a weighted sum; refuse other votes."""
    if isinstance(vote, WeightedSum):
        return None, vote.divisor(compiled, sites)
    if isinstance(vote, LogLinear):
        return vote.rule(compiled, sites), None
    raise TypeError(f"vote={vote!r} has no graph: sum, mean and log-linear votes have one.")


def _hashed(tables: HashedTables, sites: Sites, vote: Vote, classes: Array, listed: Vocabulary | None) -> Graph:
    constants: Constants = {}
    finder = _hashed_rows(tables.layout, listed, constants)
    rule, divisor = _rule(vote, tables, sites)
    rows, step, base = tables.integer_rows(rule)
    head = _head(rows, sites.weights if rule is None else None, step, base, divisor, constants)
    return Graph(sites.h, listed, constants, finder, head, classes)


def _hashed_rows(layout: RowLayout, listed: Vocabulary | None, constants: Constants) -> parts.HashedRows:
    if listed is None and layout.key is not None:
        raise ValueError(
            "Under a secret key integers are not hashed in a graph: say which tokens it shall know, tokens=…."
        )
    constants["single.rows"] = layout.single_rows
    made = tuple(_hashed_site(layout, k, constants) for k in range(len(layout.groups)))
    if listed is None:
        hashes, known, _ = layout.integer_tokens()
        places = Search.of("places", _signed(hashes) ^ parts.SIGN, known.astype(np.int64), constants)
        first, second = number_key(layout.seed, None)
        return parts.HashedRows(made, (signed(first), signed(second)), places)
    hashes, own = layout.vocabulary_source(listed)
    constants["token.hashes"] = np.append(_signed(hashes), 0)
    constants["token.places"] = np.append(own.astype(np.int64), -1)
    return parts.HashedRows(made, None, None, len(listed))


def _hashed_site(layout: RowLayout, k: int, constants: Constants) -> parts.HashedSite:
    site, own = layout.sites.positions[k], layout.own(k)
    fixed = (signed(layout.multipliers[k]), signed(layout.tuple_seeds[k]), layout.buckets[k], len(own))
    if len(site) == 1:
        return parts.HashedSite(site, *fixed)
    search = Search.of(f"own.{k}", _signed(own) ^ parts.SIGN, np.arange(len(own)), constants)
    compared = layout.reserved.places[layout.groups[k]].T if len(own) else ()
    for j, column in enumerate(compared):
        constants[f"compared.{k}.{j}"] = column.astype(np.int64)
    return parts.HashedSite(site, *fixed, search, f"compared.{k}" if len(own) else None)


def _signed(words: Words) -> Ints:
    return np.ascontiguousarray(words).view(np.int64)


def _dense(table: DenseCounts, sites: Sites, vote: Vote, classes: Array, listed: Vocabulary | None) -> Graph:
    constants: Constants = {}
    rows: list[Array] = list(table.tensors()["counts"])
    rule, divisor = _rule(vote, table, sites)
    weights, base = (sites.weights, None) if rule is None else (None, rule.base)
    if rule is not None:
        rows = [rule.rows(site, own) for site, own in enumerate(rows)]
    known, finder = _listed_rows(table.vocabulary, sites, listed, constants)
    if known is not None and listed is not None:
        place = np.append(table.vocabulary.find(listed), -1)[: len(listed)]
        rows = [np.where((place >= 0)[:, None], own[place], 0) for own in rows]
    return Graph(sites.h, known, constants, finder, _head(rows, weights, 1.0, base, divisor, constants), classes)


def _listed_rows(
    vocabulary: Vocabulary, sites: Sites, listed: Vocabulary | None, constants: Constants
) -> tuple[Vocabulary | None, parts.ListedRows]:
    """Return what the graph's numbers stand for, and what finds the rows of a list of tokens."""
    search, known = _search(vocabulary, listed, constants), vocabulary if listed is None else listed
    rows = parts.ListedRows(tuple(site[0] for site in sites.positions), len(known), search)
    return (known if search is None else None), rows


def _search(vocabulary: Vocabulary, listed: Vocabulary | None, constants: Constants) -> Search | None:
    """Return what finds tokens that come as they are: integers, where no list is given."""
    if listed is not None or len(vocabulary.ints) < len(vocabulary):
        return None
    return Search.of("tokens", vocabulary.ints, np.arange(len(vocabulary)), constants)


def _sparse(reader: SparseCounts, sites: Sites, vote: Vote, classes: Array, listed: Vocabulary | None) -> Graph:
    if sites.free:
        raise ValueError(f"A graph reads positions only, and the kernel has a {sites.free[0].kind!r}.")
    table, constants = reader.table, Constants()
    starts = np.cumsum([0, *map(len, table.tuples)])
    if 8 * int(starts[-1]) * len(classes) > _MAX_TABLE_BYTES:
        raise ValueError(
            f"A graph of {starts[-1]:,} rows and {len(classes):,} labels is larger than 2 GiB: use memory=Hashed(), "
            "which has fewer rows."
        )
    known, finder = _tuple_rows(table, listed, constants)
    (rule, divisor), counts = _rule(vote, reader, sites), table.matrix(reader.labels)
    spans = [slice(first, last) for first, last in pairwise(starts.tolist())]
    if rule is None:
        rows = [counts[span].toarray().astype(np.int64) for span in spans]
        head = _head(rows, sites.weights, 1.0, None, divisor, constants)
    elif len(classes) <= MAX_DENSE_LABELS:
        values = dense_values(rule, counts, starts)
        head = _head([values[span] for span in spans], None, 1.0, rule.base, None, constants)
    else:
        gains, losses = apply_rule(rule, counts, starts)
        return Graph(sites.h, known, constants, finder, _ratio_sums(rule, gains, losses, spans, constants), classes)
    return Graph(sites.h, known, constants, finder, head, classes)


def _ratio_sums(rule: RowRule, gains: Any, losses: Floats, spans: list[slice], constants: Constants) -> parts.RatioSums:
    for k, span in enumerate(spans):
        constants[f"gains.{k}"] = np.concatenate([gains[span].toarray(), np.zeros((1, gains.shape[1]))])
        for j in range(len(rule.smoothing)):
            constants[f"losses.{k}.{j}"] = np.append(losses[span, j], 0.0)[:, None]
            constants[f"weights.{k}.{j}"] = rule.weights[k, j][None, :].copy()
    constants["base"] = rule.base[None, :]
    return parts.RatioSums(len(spans), len(rule.smoothing))


def _tuple_rows(
    table: CountTable, listed: Vocabulary | None, constants: Constants
) -> tuple[Vocabulary | None, parts.TupleRows]:
    """Return what the graph's numbers stand for, and what finds the rows of tuples of tokens."""
    vocabulary, n = table.vocabulary, len(table.vocabulary)
    search, known = _search(vocabulary, listed, constants), vocabulary if listed is None else listed
    constants["ranks"] = np.append(vocabulary.find(known), -1)
    levels = []
    for k, tuples in enumerate(table.tuples):
        first = np.full(n + 1, -1, np.int64)
        first[tuples.levels[0].astype(np.int64)] = np.arange(len(tuples.levels[0]))
        constants[f"first.{k}"] = first
        below = [level.astype(np.int64) for level in tuples.levels[1:]]
        searches = (Search.of(f"level.{k}.{j}", own, np.arange(len(own)), constants) for j, own in enumerate(below, 1))
        levels.append(tuple(searches))
    sizes = tuple(map(len, table.tuples))
    rows = parts.TupleRows(table.sites.positions, sizes, n, len(known), tuple(levels), search)
    return (known if search is None else None), rows


def _gaussian(compiled: CompiledGaussian, sites: Sites, vote: Vote, classes: Array, listed: Vocabulary | None) -> Graph:
    if any(len(site) > 1 for site in sites.positions):
        raise ValueError("A graph of Gaussian codes needs sites of one position each: tuples have too many values.")
    if not isinstance(vote, WeightedSum):
        raise TypeError(f"vote={vote!r} has no graph with Gaussian codes: sum and mean votes have one.")
    constants: Constants = {}
    vocabulary = Vocabulary.of(compiled.input_codes.features()) if listed is None else listed
    known, finder = _listed_rows(vocabulary, sites, listed, constants)
    codes = compiled.input_codes.get(vocabulary.tolist())
    constants["codes"] = np.concatenate([codes, np.zeros((1, codes.shape[1]), np.float32)])
    for k, weight in enumerate(sites.weights):
        constants[f"scale.{k}"] = np.array(weight * len(sites.weights), np.float32)
    tensors = compiled.tensors()
    matrices = [tensors["CZ"]] if "CZ" in tensors else [tensors["C"], np.ascontiguousarray(tensors["Z"].T)]
    constants |= {f"matrix.{j}": matrix for j, matrix in enumerate(matrices)}
    divisor = np.asarray(vote.divisor(compiled, sites), np.float64)
    constants["divisor"] = np.broadcast_to(divisor, (len(compiled.labels),))[None, :].copy()
    head = parts.CodeProducts(len(sites.weights), len(matrices))
    return Graph(sites.h, known, constants, finder, head, classes)
