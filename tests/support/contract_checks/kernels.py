"""Does a kernel keep its contract? Its sites, its values against the definition, and its files."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from contract_checks.batches import LABELS, TOKENS, Batch, random_batch, table
from contract_checks.promises import promise, require, require_close, require_equal
from contract_checks.saved import fit_classifier, require_saved
from hammemo.kernels import Joined, SiteKernel, SiteOneHot, Sites
from hammemo.memories import Exact
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LENGTHS = range(1, 9)
"""The lengths of contexts that a kernel is tried on, unless others are given."""

MODEL_FILES = 4
"""In how many trials models are written to files."""


def check_kernel(
    kernel: SiteKernel, *, lengths: Sequence[int] | None = None, seed: int = 0, trials: int = 20
) -> None:
    """Try a kernel against the contract of :class:`~hammemo.kernels.SiteKernel`.

    The contexts are random, with a seed.

    Parameters
    ----------
    kernel : SiteKernel
    lengths : sequence of int, optional
        Lengths of contexts that it must take; by default those from 1 to 8 that it does not refuse
        with ValueError.
    seed : int
        Decides the contexts.
    trials : int
        How many times each promise is tried on new contexts, the lengths taking turns.

    Raises
    ------
    BrokenPromiseError
        It says which promise was broken, and on which contexts.

    Examples
    --------
    >>> from hammemo.kernels import Suffixes
    >>> from contract_checks import check_kernel
    >>> check_kernel(Suffixes(2, base=3), trials=2)
    """
    if not isinstance(kernel, SiteKernel):
        raise TypeError(f"check_kernel takes an instance of a SiteKernel, not {kernel!r}.")
    if lengths is None:
        tried_lengths = [h for h in LENGTHS if _takes(kernel, h)]
    else:
        tried_lengths = list(lengths)
    if not tried_lengths:
        raise ValueError(
            f"{kernel!r} refuses contexts of 1 to 8 tokens: pass lengths= that it takes."
        )
    for h in tried_lengths:
        sites_are_valid(kernel, h)
        resolve_is_a_pure_function(kernel, h, tried_lengths)
        equal_kernels_have_equal_sites(kernel, h)
        the_sum_of_two_kernels_has_the_sites_of_both(kernel, h)
    rng = np.random.default_rng(seed)
    for trial in range(trials):
        h = tried_lengths[trial % len(tried_lengths)]
        batch = random_batch(rng, h)
        other = random_batch(rng, h)
        values_are_those_of_the_definition(kernel, batch, other)
        full_batch = [(_fill_positions(row[0]), LABELS[0], 1) for row in batch]
        the_kernel_is_a_similarity(kernel, full_batch)
        if trial < MODEL_FILES:
            a_model_file_comes_back(kernel, batch, other)


def _takes(kernel: SiteKernel, h: int) -> bool:
    try:
        kernel.resolve(h)
    except ValueError:
        return False
    return True


def _fill_positions(context: list[object]) -> list[object]:
    return [TOKENS[0] if token == NO_TOKEN else token for token in context]


@promise(
    "sites are distinct tuples of ascending positions of the context, "
    "with finite weights, none negative"
)
def sites_are_valid(kernel: SiteKernel, h: int) -> None:
    """Check what `resolve` returns, and `least_sites`."""
    sites = kernel.resolve(h)
    require(isinstance(sites, Sites), f"resolve returns a {type(sites).__name__}, not Sites")
    require(sites.h == h, f"the sites are for contexts of {sites.h} tokens, not of {h}")
    require(len(sites.positions) > 0, "there is no site")
    require(
        len(set(sites.positions)) == len(sites.positions),
        f"a site is there twice: {sites.positions}",
    )
    for site in sites.positions:
        require(
            isinstance(site, tuple) and len(site) > 0,
            f"the site {site!r} is not a tuple of positions",
        )
        require(
            list(site) == sorted(set(site)), f"the positions of the site {site} are not ascending"
        )
        require(
            site[0] >= 0 and site[-1] < h, f"the site {site} has a position outside 0 to {h - 1}"
        )
    weights = sites.weights
    require(weights.dtype == np.float64, f"the weights are of {weights.dtype}, not of float64")
    require(weights.shape == (len(sites.positions),), f"the weights have the shape {weights.shape}")
    require(np.isfinite(weights).all(), f"a weight is not finite: {weights}")
    require(
        weights.min() >= 0 and weights.sum() > 0,
        f"a weight is negative, or all are zero: {weights}",
    )
    least = kernel.least_sites(h)
    require(
        0 <= least <= len(sites.positions),
        f"least_sites is {least}, but there are {len(sites.positions)} sites",
    )


@promise("resolve is a pure function: the same sites for the same length, and no parameter changes")
def resolve_is_a_pure_function(kernel: SiteKernel, h: int, others: Sequence[int]) -> None:
    """Check `resolve` again and again, with other lengths in between."""
    before = repr(kernel.get_params(deep=False))
    first = kernel.resolve(h)
    for other in others:
        kernel.resolve(other)
        _require_same_sites(kernel.resolve(h), first)
    after = repr(kernel.get_params(deep=False))
    require(after == before, f"the parameters were {before} and are {after}")


@promise("equal kernels have equal sites")
def equal_kernels_have_equal_sites(kernel: SiteKernel, h: int) -> None:
    """Check clones, copies, and kernels whose parameters were set to the same values."""
    expected = kernel.resolve(h)
    for equal_kernel in (
        clone(kernel),
        copy.deepcopy(kernel),
        clone(kernel).set_params(**kernel.get_params(deep=False)),
    ):
        require(type(equal_kernel) is type(kernel), f"a clone is a {type(equal_kernel).__name__}")
        require(
            repr(equal_kernel) == repr(kernel),
            f"the parameters of a clone are those of {equal_kernel!r}",
        )
        _require_same_sites(equal_kernel.resolve(h), expected)


@promise("the sum of two kernels has the sites of both")
def the_sum_of_two_kernels_has_the_sites_of_both(kernel: SiteKernel, h: int) -> None:
    """Check ``kernel + other``, and that a kernel added to itself has twice the weights."""
    sites = kernel.resolve(h)
    twice = (kernel + clone(kernel)).resolve(h)
    require(twice.positions == sites.positions, "a kernel added to itself has other sites")
    require_equal(twice.weights, 2 * sites.weights, "weights of a kernel added to itself")
    last = SiteKernel([-1])
    require(isinstance(kernel + last, Joined), "kernel + other is not a Joined kernel")
    positions = (kernel + last).resolve(h).positions
    require(
        set(positions) == {*sites.positions, (h - 1,)},
        f"the sum with SiteKernel([-1]) has the sites {positions}",
    )


@promise(
    "values are those of the definition: the weights of the sites that match, over all weights"
)
def values_are_those_of_the_definition(kernel: SiteKernel, batch: Batch, other: Batch) -> None:
    """Check a call, `pairwise` and the products of `SiteOneHot` against loops over positions."""
    left = [row[0] for row in batch]
    right = [row[0] for row in other]
    values = np.empty((len(left), len(right)))
    expected = np.empty((len(left), len(right)))
    for i, s in enumerate(left):
        for j, q in enumerate(right):
            values[i, j] = kernel(s, q)
            expected[i, j] = _compute_by_definition(kernel, s, q)
    require_close(values, expected, "kernel(s, q)", atol=1e-12)
    require_close(kernel.pairwise(table(left), table(right)), expected, "pairwise", atol=1e-12)
    encoder = SiteOneHot(clone(kernel)).fit(table([*left, *right]))
    products = (encoder.transform(table(left)) @ encoder.transform(table(right)).T).toarray()
    require_close(products, expected, "inner products of SiteOneHot", atol=1e-12)


def _compute_by_definition(kernel: SiteKernel, s: list[object], q: list[object]) -> float:
    """Return K(s, q), position by position."""
    sites = kernel.resolve(len(s))
    matched = 0.0
    for site, weight in zip(sites.positions, sites.weights.tolist(), strict=True):
        if all(s[r] == q[r] and s[r] != NO_TOKEN for r in site):
            matched += weight
    return matched / float(sites.weights.sum())


@promise(
    "a full context has the value 1 with itself, "
    "and the matrix of values is symmetric and positive semi-definite"
)
def the_kernel_is_a_similarity(kernel: SiteKernel, batch: Batch) -> None:
    """Check that the kernel is positive semi-definite on contexts without empty positions."""
    matrix: NDArray[np.float64] = kernel.pairwise(table([row[0] for row in batch]))
    require_close(
        np.diag(matrix), np.ones(len(batch)), "values of contexts with themselves", atol=1e-12
    )
    require_equal(matrix, matrix.T, "the matrix and its transpose")
    require(np.linalg.eigvalsh(matrix).min() >= -1e-9, "the matrix has a negative eigenvalue")


@promise("a classifier with this kernel, and its predictor, come back from files the same")
def a_model_file_comes_back(kernel: SiteKernel, batch: Batch, query_batch: Batch) -> None:
    """Check `save` and `load`, with the kernel as a trusted class."""
    require_saved(fit_classifier(kernel, Exact(), "sum", batch), query_batch)


def _require_same_sites(sites: Sites, expected: Sites) -> None:
    require(
        sites.h == expected.h,
        f"the sites are for contexts of {sites.h} tokens, not of {expected.h}",
    )
    require(
        sites.positions == expected.positions,
        f"the sites are {sites.positions}, not {expected.positions}",
    )
    require_equal(sites.weights, expected.weights, "the weights")
