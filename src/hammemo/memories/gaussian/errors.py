r"""How far a Gaussian memory's scores are from the exact ones: standard errors, from the memory alone.

With weights w, the decoded score of label c is :math:`V_c = \sum_{c'} G_{c'} \langle z_{c'}, z_c \rangle`, where
:math:`G_c = \sum_k w_k \sum_x N_{k,c}(x) \, S \langle P_{q_k}, P_x \rangle` is the score before decoding,
:math:`P_x = W u_x` the projected code of x, and :math:`q_k` what site k of the query holds. One site alone is the case
of one weight that is not zero. Over the draw of untied codes, :math:`V_c` has mean
:math:`S_c = \sum_k w_k N_{k,c}(q_k)`, and its variance is known in closed form.

*Decoding.* Given G, the terms are uncorrelated; :math:`\lVert z_c \rVert^2` has mean 1 and variance 2/d, and
:math:`\langle z_{c'}, z_c \rangle` mean 0 and variance 1/d. So decoding adds
:math:`\bigl(E \sum_{c'} G_{c'}^2 + E\,G_c^2\bigr) / d`.

*Context sketch.* :math:`G_c = S \sum_i w_i^\top (U^\top B_c U) w_i` is a quadratic form in the :math:`d_h` rows
:math:`w_i` of W, where row x of U is :math:`u_x` and :math:`B_c = \sum_k w_k e_{q_k} N_{k,c}^\top`, a matrix over the
features with trace :math:`S_c`. Let :math:`\bar B_c` be its symmetric part. Given U the form has variance
:math:`\tfrac2{d_h} \lVert U^\top \bar B_c U \rVert_F^2` around :math:`\mathrm{tr}(U^\top \bar B_c U)`, which has
variance :math:`\tfrac2d \lVert \bar B_c \rVert_F^2`; and :math:`UU^\top` is a Wishart matrix, so
:math:`E \lVert U^\top \bar B_c U \rVert_F^2 = (1 + \tfrac1d) \lVert \bar B_c \rVert_F^2 + \tfrac1d S_c^2`. Together

.. math:: \mathrm{Var}\,V_c = \frac{E \sum_{c'} G_{c'}^2 + E\,G_c^2}{d}
    + 2 \kappa \lVert \bar B_c \rVert_F^2 + \frac{2 S_c^2}{d\,d_h},
    \qquad \kappa = \frac1d + \frac1{d_h} + \frac1{d\,d_h},

.. math:: 2 \lVert \bar B_c \rVert_F^2 = \sum_{k,l} w_k w_l \bigl[ N_{k,c}(q_l) N_{l,c}(q_k)
    + \mathbf 1\{q_k = q_l\} \langle N_{k,c}, N_{l,c} \rangle \bigr].

*What takes the place of the unknown.* With the retrieved vector :math:`r = \sum_k w_k S\, C_k^\top P_{q_k}`, the square
:math:`\lVert r \rVert^2` has mean :math:`E \sum_{c'} G_{c'}^2`; :math:`V_c` stands for :math:`G_c` and :math:`S_c`;
:math:`S P_{q_l}^\top C_k z_c` has mean :math:`N_{k,c}(q_l)`; and because :math:`S \langle C_k z_c, C_l z_c \rangle` has
mean :math:`(1 + \tfrac1d) \langle N_{k,c}, N_{l,c} \rangle + \tfrac1d \sum_{c'} \langle N_{k,c'}, N_{l,c'} \rangle`
and :math:`S \langle C_k, C_l \rangle_F` has that last sum as its mean,

.. math:: \frac{S \langle C_k z_c, C_l z_c \rangle - S \langle C_k, C_l \rangle_F / d}{1 + 1/d}

has mean :math:`\langle N_{k,c}, N_{l,c} \rangle`. What is left is of the order of the squares of 1/d and
:math:`1/d_h`, beside variances of the order of these. Tied codes have no such error: their scores are biased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def standard_errors(
    blocks: NDArray[np.float64],
    codes: NDArray[np.float64],
    decoder: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the standard errors of each weighted site, and of their sum, for one query.

    Parameters
    ----------
    blocks : ndarray of shape (S, d_h, d)
        The memory matrix, site by site.
    codes : ndarray of shape (S, d_h)
        The projected code of what each site of the query holds; zeros where it holds nothing.
    decoder : ndarray of shape (K, d)
        Output codes of the labels asked for.
    weights : ndarray of shape (S,)

    Returns
    -------
    errors : ndarray of shape (S, K)
    total_errors : ndarray of shape (K,)
    """
    n_sites, _, d = blocks.shape
    held = codes.any(axis=1)  # a site that holds nothing adds nothing, for certain
    same = (codes[:, None] == codes).all(axis=2) & held  # equal codes, equal features
    decoded = blocks @ decoder.T  # C_k z_c : (S, d_h, K)
    counts = n_sites * np.einsum("li,kic->klc", codes, decoded)  # estimates of N_kc(q_l)
    retrieved = n_sites * np.einsum("ki,kij->kj", codes, blocks)
    overlaps = n_sites * np.einsum("kic,lic->klc", decoded, decoded)
    products = n_sites * np.einsum("kij,lij->kl", blocks, blocks, optimize=True)
    energies = (overlaps - products[:, :, None] / d) / (1 + 1 / d) * same[:, :, None]
    forms = counts * counts.transpose(1, 0, 2) + energies  # (S, S, K)
    own = np.arange(n_sites)
    alone = _variances(np.square(retrieved).sum(axis=1)[:, None], counts[own, own], forms[own, own], blocks.shape)
    paired = weights[:, None] * weights
    together = _variances(
        np.square(weights @ retrieved).sum(),
        np.einsum("k,kc->c", weights, counts[own, own]),
        np.einsum("kl,klc->c", paired, forms),
        blocks.shape,
    )
    return weights[:, None] * np.sqrt(alone), np.sqrt(together)


def _variances(
    energy: NDArray[np.float64], scores: NDArray[np.float64], form: NDArray[np.float64], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return the variances, from the energy of what was retrieved, the scores and twice the norm of the form."""
    _, d_h, d = shape
    kappa = 1 / d + 1 / d_h + 1 / (d * d_h)
    squares = np.square(scores)
    return np.asarray((energy + squares) / d + kappa * np.maximum(form, 0) + 2 * squares / (d * d_h))
