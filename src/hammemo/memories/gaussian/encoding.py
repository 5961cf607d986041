r"""The code of a context: the projected codes of what its sites hold, one block a site.

.. math:: \phi(s) = [W u_{s_1}; \dots; W u_{s_S}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.tuple_sets import TupleSet
from hammemo.tokens.hashing import features_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.memories.gaussian.codes import CodeCache
    from hammemo.tokens.contexts import Contexts


def site_codes(
    contexts: Contexts, sites: Sites, cache: CodeCache, dtype: type[np.floating[Any]]
) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    """Yield for each site the projected codes of what it holds and, for each context, which of them; -1 for none.

    Shapes
    ------
    yielded codes : (distinct values, d_h); yielded index : (m,)
    """
    tokens = contexts.vocabulary.tolist()
    token_codes = None  # shared by all sites of one position
    for site in sites.positions:
        if len(site) == 1:
            if token_codes is None:
                token_codes = cache.get(tokens).astype(dtype, copy=False)
            yield token_codes, contexts.ranks[:, site[0]]
        else:
            known, index = TupleSet.collect(contexts.ranks[:, list(site)], max(len(tokens), 1))
            yield cache.get(features_of(tokens, known.rows())).astype(dtype, copy=False), index


def encode(
    contexts: Contexts, sites: Sites, cache: CodeCache, weights: NDArray[np.float64], dtype: type[np.floating[Any]]
) -> NDArray[Any]:
    """Return the code of each context, block k weighed by S times the k-th weight; an empty site's block is zero.

    Shapes
    ------
    returned : (m, p)
    """
    blocks = []
    for weight, (codes, index) in zip(weights, site_codes(contexts, sites, cache, dtype), strict=True):
        block = codes[index] if len(codes) else np.zeros((len(index), codes.shape[1]), dtype)
        block[index < 0] = 0.0
        blocks.append(block * dtype(weight * len(weights)))
    return np.concatenate(blocks, axis=1)


def site_keys(contexts: Contexts, sites: Sites, cache: CodeCache) -> NDArray[np.float64]:
    """Return the projected code of what each site of each context holds, zeros where it holds nothing: (m, S, d_h)."""
    ones = np.full(len(sites.positions), 1 / len(sites.positions))  # undoes what `encode` multiplies by
    return np.asarray(encode(contexts, sites, cache, ones, np.float64)).reshape(len(contexts), len(ones), -1)
