"""Random layouts, contexts and tables for the tests of the compiled loops.

Hypothesis chooses the shapes and the kinds; the many numbers inside come from a generator that it
seeds.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN
from hammemo import _native as compiled
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.memories.hashed.layout import RowLayout
from hammemo.memories.hashed.native_table import token_bytes
from hammemo.memories.hashed.reserved import most_frequent, site_groups
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.memories.hashed.reserved import Reserved

_native: Any = compiled  # tests give wrong arguments, too
PATHS: list[str] = compiled.paths()
MEMO = 2**16  # the rows of smaller integers are looked up once, when a layout is made
KEY = b"a secret of 16 bytes or more"
KINDS = ["small", "small32", "edge", "wide", "int32", "empty", "strings", "floats", "mixed"]
SIZES = [0, 1, 2, 31, 32, 33, 65]  # the loops take blocks of 32 contexts
LABELS = [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129, 300]  # around the widths of vectors

seeds = st.integers(0, 2**32 - 1)
thorough = settings(deadline=None, max_examples=30 if "HAMMEMO_TEST_BUILD" in os.environ else 120)


def token_pool(kind: str, rng: np.random.Generator) -> NDArray[Any]:
    """Return some sixty tokens of a kind; most kinds have some that are no token at all."""
    edge = np.array([0, 1, MEMO - 1, MEMO, MEMO + 1, -1, -MEMO, 2**31, 2**32, 2**32 + 1, NO_TOKEN])
    pools: dict[str, Any] = {
        "small": np.arange(60),
        "small32": np.arange(60, dtype=np.int32),
        "edge": edge,
        "wide": np.append(rng.integers(-(2**63) + 1, 2**63 - 1, 60), [2**63 - 1, NO_TOKEN]),
        "int32": rng.integers(-(2**31), 2**31, 60).astype(np.int32),
        "empty": np.array([NO_TOKEN]),
        "strings": [*(f"token {i}" for i in range(60)), "", "ß", "\udc80", NO_TOKEN],
        "floats": [*rng.normal(size=60).tolist(), -0.0, NO_TOKEN],
        "mixed": [
            *range(20),
            *(str(i) for i in range(20)),
            *(i + 0.5 for i in range(20)),
            -(2**62),
            NO_TOKEN,
        ],
    }
    pool = pools[kind]
    if isinstance(pool, np.ndarray):
        return pool
    return np.array(pool, object)


def random_tokens(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    """Return tokens of a kind.

    Among small integers there is sometimes a large one: its block cannot be looked up.
    """
    tokens = rng.choice(token_pool(kind, rng), shape)
    if kind.startswith("small") and tokens.size and rng.random() < 0.5:
        large = [MEMO, -1] if kind == "small32" else [NO_TOKEN, 2**40]
        tokens.flat[rng.integers(tokens.size)] = rng.choice(large)
    return tokens


@st.composite
def kernels(draw: st.DrawFn) -> Sites:
    """Return the positional kernel, or any positions and tuples in any order."""
    h = draw(st.one_of(st.integers(1, 9), st.sampled_from([31, 32, 33, 64, 65, 70])))
    if draw(st.booleans()):
        return PositionalHamming().resolve(h)
    suffixes = [tuple(range(-length, 0)) for length in range(1, min(h, 9) + 1)]
    pairs = [(-skip, -1) for skip in range(2, min(h, 9) + 1)]
    some_sites = st.sampled_from([*suffixes, *pairs, (0,)])
    sites = draw(st.lists(some_sites, min_size=1, max_size=6, unique=True))
    # in short contexts, two sites may be the same one
    distinct = {tuple(r % h for r in site): site for site in sites}
    return SiteKernel(list(distinct.values())).resolve(h)


@dataclass
class Case:
    """A layout, contexts for it, and a generator for whatever else a test needs."""

    layout: RowLayout
    contexts: Contexts
    rng: np.random.Generator

    @property
    def n_rows(self) -> int:
        """How many rows the layout has, the one of empty sites not counted."""
        return int(self.layout.first_rows[-1])

    def rows(self) -> NDArray[np.int64]:
        """Return the rows by NumPy, numbered through, empty sites last."""
        rows = self.layout.rows(self.contexts)
        return np.where(rows < 0, self.n_rows, rows + self.layout.first_rows[:-1])


@st.composite
def cases(
    draw: st.DrawFn, most_buckets: int = 64, kinds: list[str] = KINDS, sizes: list[int] = SIZES
) -> Case:
    """Return a random layout and contexts, some of whose features are reserved."""
    sites = draw(kernels())
    rng = np.random.default_rng(draw(seeds))
    kind = draw(st.sampled_from(kinds))
    m = draw(st.sampled_from(sizes))
    tokens = random_tokens(kind, (m, sites.h), rng)
    contexts = Contexts(tokens)
    seed = draw(st.integers(0, 3))
    key = draw(st.sampled_from([None, KEY]))
    numbers = st.one_of(st.integers(1, 8), st.integers(1, most_buckets))
    n_sites = len(sites.positions)
    buckets = draw(st.one_of(numbers, st.lists(numbers, min_size=n_sites, max_size=n_sites)))
    sizes_of_lists = st.sampled_from([0, 1, 5, 1000 if most_buckets > 64 else 40])
    lengths = [draw(sizes_of_lists) for _ in range(max(site_groups(sites)) + 1)]
    # half of the contexts, and others: some reserved features occur, and some do not
    others = random_tokens(kind, (40, sites.h), rng).astype(tokens.dtype)
    learned_tokens = np.concatenate([tokens[::2], others])
    reserved = choose_reserved(learned_tokens, sites, seed, key, numbers=lengths)
    return Case(RowLayout(sites, seed, key, buckets, reserved=reserved), contexts, rng)


def choose_reserved(
    tokens: NDArray[Any], sites: Sites, seed: int, key: bytes | None, numbers: list[int]
) -> Reserved:
    """Return the most frequent features of some contexts."""
    ones = np.ones(len(tokens), np.int64)
    examples = Examples(Contexts(tokens), 0 * ones, Vocabulary.of(["a"]), ones)
    return most_frequent(examples, sites, seed=seed, key=key, numbers=numbers)


def map_strings(case: Case) -> dict[str, bytes]:
    """Return the hash and the place of the strings among the tokens, as `Table.one` takes them."""
    strings = Vocabulary(strings=case.contexts.vocabulary.strings)
    hashes = token_bytes(*case.layout.vocabulary_source(strings))
    return dict(zip(strings.strings.tolist(), hashes, strict=True))
