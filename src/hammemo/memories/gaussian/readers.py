r"""What answers queries for a Gaussian memory: two-stage retrieval, or one fused product.

Two-stage retrieval reads :math:`r = C^\top \phi(q)` and decodes :math:`\widetilde S_c = \langle
z_c, r \rangle`; fused, :math:`CZ` is formed once. The memory itself is read in float64; the
compiled forms are float32.

**Standard errors** say how far scores are from the exact ones, from the memory alone. With weights
w, the decoded score of label c is :math:`V_c = \sum_{c'} G_{c'} \langle z_{c'}, z_c
\rangle`, where :math:`G_c = \sum_k w_k \sum_x N_{k,c}(x) \, S \langle P_{q_k}, P_x \rangle` is the
score before decoding, :math:`P_x = W u_x` the projected code of x, and :math:`q_k` what site k of
the query holds. One site alone is the case of one weight that is not zero. Over the draw of untied
codes, :math:`V_c` has mean :math:`S_c = \sum_k w_k N_{k,c}(q_k)`, and its variance is known in
closed form.

*Decoding.* Given G, the terms are uncorrelated; :math:`\lVert z_c \rVert^2` has mean 1 and variance
2/d, and :math:`\langle z_{c'}, z_c \rangle` mean 0 and variance 1/d. So decoding adds
:math:`\bigl(E \sum_{c'} G_{c'}^2 + E\,G_c^2\bigr) / d`.

*Context sketch.* :math:`G_c = S \sum_i w_i^\top (U^\top B_c U) w_i` is a quadratic form in the
:math:`d_h` rows :math:`w_i` of W, where row x of U is :math:`u_x` and :math:`B_c = \sum_k w_k
e_{q_k} N_{k,c}^\top`, a matrix over the features with trace :math:`S_c`. Let :math:`\bar B_c` be
its symmetric part. Given U the form has variance :math:`\tfrac2{d_h} \lVert U^\top \bar B_c U
\rVert_F^2` around :math:`\mathrm{tr}(U^\top \bar B_c U)`, which has variance :math:`\tfrac2d \lVert
\bar B_c \rVert_F^2`; and :math:`UU^\top` is a Wishart matrix, so :math:`E \lVert U^\top \bar B_c U
\rVert_F^2 = (1 + \tfrac1d) \lVert \bar B_c \rVert_F^2 + \tfrac1d S_c^2`. Together

.. math:: \mathrm{Var}\,V_c = \frac{E \sum_{c'} G_{c'}^2 + E\,G_c^2}{d}
    + 2 \kappa \lVert \bar B_c \rVert_F^2 + \frac{2 S_c^2}{d\,d_h},
    \qquad \kappa = \frac1d + \frac1{d_h} + \frac1{d\,d_h},

.. math:: 2 \lVert \bar B_c \rVert_F^2 = \sum_{k,l} w_k w_l \bigl[ N_{k,c}(q_l) N_{l,c}(q_k)
    + \mathbf 1\{q_k = q_l\} \langle N_{k,c}, N_{l,c} \rangle \bigr].

*What takes the place of the unknown.* With the retrieved vector :math:`r = \sum_k w_k S\, C_k^\top
P_{q_k}`, the square :math:`\lVert r \rVert^2` has mean :math:`E \sum_{c'} G_{c'}^2`; :math:`V_c`
stands for :math:`G_c` and :math:`S_c`; :math:`S P_{q_l}^\top C_k z_c` has mean
:math:`N_{k,c}(q_l)`; and because :math:`S \langle C_k z_c, C_l z_c \rangle` has mean :math:`(1 +
\tfrac1d) \langle N_{k,c}, N_{l,c} \rangle + \tfrac1d \sum_{c'} \langle N_{k,c'}, N_{l,c'} \rangle`
and :math:`S \langle C_k, C_l \rangle_F` has that last sum as its mean,

.. math:: \frac{S \langle C_k z_c, C_l z_c \rangle - S \langle C_k, C_l \rangle_F / d}{1 + 1/d}

has mean :math:`\langle N_{k,c}, N_{l,c} \rangle`. What is left is of the order of the squares of
1/d and :math:`1/d_h`, beside variances of the order of these. Tied codes have no such error: their
scores are biased.

**On a torch device**, such as a GPU, the products are computed there (`Device`). The state stays
where it is without a device, a float64 matrix in main memory: files, digests and
merging do not know of devices. A batch's counts go to the device, its block of C comes back;
questions are encoded and answered there. Numbers are float32, or float64 with ``exact=True``: sums
of whole steps are then the same to the bit as NumPy's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._lazy import explain_missing
from hammemo._versions import cached_property
from hammemo.memories.gaussian.codes import (
    PROJECTION,
    CodeCache,
    GaussianCodes,
    GivenRows,
    encode,
    site_codes,
    site_keys,
)
from hammemo.memories.ranker import SiteScores
from hammemo.memories.reader import Compiled, Reader
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.memories.label_counts import Frame
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.hashing import Feature


class GaussianReader(Reader):
    """The matrix as the memory has it, in float64, and codes that are computed when asked for.

    Parameters
    ----------
    frame : Frame
    codes : GaussianCodes
    blocks : ndarray of shape (S, d_h, d)
        The memory matrix, site by site.
    input_codes, output_codes : CodeCache
    """

    def __init__(
        self,
        frame: Frame,
        codes: GaussianCodes,
        blocks: Floats,
        input_codes: CodeCache,
        output_codes: CodeCache,
    ) -> None:
        super().__init__(frame, _row_width(codes, frame))
        self.codes = codes
        self.input_codes = input_codes
        self._blocks = blocks
        self._output_codes = output_codes

    @property
    def matrix(self) -> Floats:
        """The memory matrix C, of shape (p, d)."""
        return self._blocks.reshape(-1, self.codes.d)

    @cached_property
    def decoder(self) -> Floats:
        """The output codes of the labels, of shape (L, d)."""
        return self._output_codes.get(self.labels.tolist()).astype(np.float64)

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the decoded scores by two-stage retrieval."""
        keys = encode(contexts, self.sites, self.input_codes, weights, dtype=np.float64)
        return np.asarray((keys @ self.matrix) @ self.decoder.T)

    def site_scores(self, contexts: Contexts, weights: Floats, columns: Ints) -> SiteScores:
        """Return what each site adds to the scores of labels, with standard errors."""
        keys = site_keys(contexts, self.sites, self.input_codes)
        return two_stage_site_scores(
            self._blocks, keys, self.decoder[columns], weights, tied=self.codes.tied
        )


def _row_width(codes: GaussianCodes, frame: Frame) -> int:
    """Return how many numbers one query needs: its code, what is retrieved, and its scores."""
    return codes.n_sites * codes.d_h + codes.d + len(frame.labels)


def two_stage_site_scores(
    blocks: Floats, keys: Floats, decoder: Floats, weights: Floats, *, tied: bool
) -> SiteScores:
    """Return the decoded score of each site with its standard error.

    Tied codes are biased, so they have none.

    Shapes
    ------
    blocks : (S, d_h, d); keys : (m, S, d_h); decoder : (K, d); weights : (S,)
    """
    retrieved = np.einsum("mki,kij->mkj", keys, blocks) * (len(weights) * weights[:, None])
    values = retrieved @ decoder.T
    if tied or not len(keys):
        return SiteScores(values)
    error_pairs = [standard_errors(blocks, key, decoder, weights) for key in keys]
    return SiteScores(
        values,
        errors=np.stack([errors for errors, _ in error_pairs]),
        total_errors=np.stack([total_errors for _, total_errors in error_pairs]),
    )


_DESCRIBED: Final = {
    "seed": int,
    "d": int,
    "d_h": int,
    "tied": bool,
    "exact": bool,
    "distribution": str,
}
"""What describes the codes of a compiled form, and of which type."""


def _read_codes(
    frame: Frame, stored: StoredArrays, description: dict[str, Any]
) -> tuple[GaussianCodes, CodeCache]:
    """Return the codes that a description names and those that a file carries."""
    replaced = description.get("given", [])
    about = {name: value for name, value in description.items() if name != "given"}
    has_types = {name: type(value) for name, value in about.items()} == _DESCRIBED
    if replaced not in ([], ["codes"], [PROJECTION]) or not has_types:
        raise ValueError(f"the Gaussian codes are not described by {', '.join(_DESCRIBED)}")
    d = description["d"]
    d_h = description["d_h"]
    if not (1 <= d < 2**31 and 1 <= d_h < 2**31):
        raise ValueError(f"Gaussian codes cannot have the dimensions {d} and {d_h}")
    rows = {}
    if "codes" in replaced:  # all that there are, are carried
        rows["codes"] = GivenRows(Vocabulary(), np.empty((0, d), np.float32))
    elif PROJECTION in replaced:
        projection = stored.finite(PROJECTION, "float32", (d_h, d))
        rows[PROJECTION] = GivenRows.of(projection, PROJECTION)
    codes = GaussianCodes(n_sites=len(frame.sites.positions), given_rows=rows, **about)
    vocabulary = Vocabulary.from_arrays(stored.part("vocabulary"))
    carried = stored.finite("projected_codes", "float32", (len(vocabulary), d_h))
    return codes, CodeCache.holding(vocabulary.tolist(), carried, codes.project)


def _carry_codes(reader: GaussianReader, vocabulary: Vocabulary | None) -> CodeCache:
    """Return the codes of `vocabulary`, by default of the tokens met so far.

    Codes that were given are all there.
    """
    cache = CodeCache(reader.codes.project, reader.codes.d_h)
    given_rows = reader.codes.given.get("codes")
    features: list[Feature]
    if given_rows is not None:
        features = [*given_rows.tokens.tolist()]
    elif vocabulary is not None:
        features = [*vocabulary.tolist()]
    else:
        features = reader.input_codes.features()
    cache.get(features, keep=True)
    return cache


class CompiledGaussian(Compiled):
    """Projected codes and what decodes them, in float32.

    *Fused*, that is the product CZ: one matrix product a query. In *two stages* it is the memory
    matrix C and the output codes Z: retrieve, then decode.

    Parameters
    ----------
    frame : Frame
    codes : GaussianCodes
    input_codes : CodeCache
        The projected codes that it carries.
    matrices : tuple of ndarray
        CZ, of shape (p, L); or C and Z, of shapes (p, d) and (L, d).
    """

    def __init__(
        self,
        frame: Frame,
        codes: GaussianCodes,
        input_codes: CodeCache,
        matrices: tuple[NDArray[np.float32], ...],
    ) -> None:
        super().__init__(frame, _row_width(codes, frame))
        self.codes = codes
        self.input_codes = input_codes
        self._matrices = matrices

    @classmethod
    def of(
        cls, reader: GaussianReader, vocabulary: Vocabulary | None, *, fused: bool
    ) -> CompiledGaussian:
        """Return a compiled form of what a reader holds, with the codes of `vocabulary`."""
        exact_matrices: tuple[Floats, ...] = (reader.matrix, reader.decoder)
        if fused:
            exact_matrices = (reader.matrix @ reader.decoder.T,)
        matrices = tuple(matrix.astype(np.float32) for matrix in exact_matrices)
        return cls(reader.frame, reader.codes, _carry_codes(reader, vocabulary), matrices)

    @property
    def is_fused(self) -> bool:
        """Whether CZ was formed."""
        return len(self._matrices) == 1

    @property
    def name_in_files(self) -> str:
        """The name of the form."""
        return "FusedGaussian" if self.is_fused else "TwoStageGaussian"

    def scores(self, contexts: Contexts, weights: Floats) -> NDArray[np.float32]:
        """Return the decoded scores."""
        keys = encode(contexts, self.sites, self.input_codes, weights, dtype=np.float32)
        scores = keys @ self._matrices[0]
        if not self.is_fused:
            scores = scores @ self._matrices[1].T
        return np.asarray(scores, np.float32)

    def site_scores(self, contexts: Contexts, weights: Floats, columns: Ints) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns.

        Standard errors need C, so the fused form has none.
        """
        keys = site_keys(contexts, self.sites, self.input_codes)
        if self.is_fused:
            decoded = self._matrices[0][:, columns].astype(np.float64)
            blocks = decoded.reshape(len(weights), -1, len(columns))
            scale = len(weights) * weights[:, None]
            return SiteScores(np.einsum("mki,kic->mkc", keys, blocks) * scale)
        matrix, decoder = (matrix.astype(np.float64) for matrix in self._matrices)
        blocks = matrix.reshape(len(weights), -1, self.codes.d)
        return two_stage_site_scores(blocks, keys, decoder[columns], weights, tied=self.codes.tied)

    def tensors(self) -> dict[str, Array]:
        """Return the arrays that prediction needs."""
        names = ("CZ",) if self.is_fused else ("C", "Z")
        matrices = dict(zip(names, self._matrices, strict=True))
        return {"projected_codes": self.input_codes.rows, **matrices}

    def pack(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return what `from_packed` needs.

        That is the arrays, the tokens whose codes they hold, and what makes other codes.
        """
        vocabulary = Vocabulary.of(self.input_codes.features())
        arrays = {
            **self.tensors(),
            "projected_codes": self.input_codes.get(vocabulary.tolist()),
            **{f"vocabulary.{name}": array for name, array in vocabulary.arrays().items()},
        }
        description: dict[str, Any] = {name: getattr(self.codes, name) for name in _DESCRIBED}
        if "codes" in self.codes.given:
            description["given"] = ["codes"]
        elif PROJECTION in self.codes.given:  # projects tokens that are not carried
            description["given"] = [PROJECTION]
            arrays[PROJECTION] = self.codes.given[PROJECTION].rows
        return arrays, description

    @classmethod
    def from_packed(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,  # noqa: ARG003
    ) -> CompiledGaussian:
        """Return the compiled form with these arrays, checked: undo `pack`."""
        codes, input_codes = _read_codes(frame, stored, description)
        p = codes.n_sites * codes.d_h
        n_labels = len(frame.labels)
        shapes = {"CZ": (p, n_labels)}
        if "C" in stored:
            shapes = {"C": (p, codes.d), "Z": (n_labels, codes.d)}
        matrices = tuple(stored.finite(name, "float32", shape) for name, shape in shapes.items())
        return cls(frame, codes, input_codes, matrices)


def standard_errors(
    blocks: Floats, codes: Floats, decoder: Floats, weights: Floats
) -> tuple[Floats, Floats]:
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
    has_token = codes.any(axis=1)  # a site that holds nothing adds nothing, for certain
    same = (codes[:, None] == codes).all(axis=2) & has_token  # equal codes, equal features
    # estimates of N_kc(q_l), from C_k z_c : (S, d_h, K)
    decoded = blocks @ decoder.T
    counts = n_sites * np.einsum("li,kic->klc", codes, decoded)
    # estimates of <N_kc, N_lc>, where the two sites hold the same
    overlaps = n_sites * np.einsum("kic,lic->klc", decoded, decoded)
    products = n_sites * np.einsum("kij,lij->kl", blocks, blocks, optimize=True)
    energies = (overlaps - products[:, :, None] / d) / (1 + 1 / d) * same[:, :, None]
    forms = counts * counts.transpose(1, 0, 2) + energies  # (S, S, K)
    retrieved = n_sites * np.einsum("ki,kij->kj", codes, blocks)
    # each site alone, then all of them together
    diagonal = np.arange(n_sites)
    site_variances = _variances(
        energy=np.square(retrieved).sum(axis=1)[:, None],
        scores=counts[diagonal, diagonal],
        form=forms[diagonal, diagonal],
        shape=blocks.shape,
    )
    total_variances = _variances(
        energy=np.square(weights @ retrieved).sum(),
        scores=np.einsum("k,kc->c", weights, counts[diagonal, diagonal]),
        form=np.einsum("kl,klc->c", weights[:, None] * weights, forms),
        shape=blocks.shape,
    )
    return weights[:, None] * np.sqrt(site_variances), np.sqrt(total_variances)


def _variances(energy: Floats, scores: Floats, form: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the variances of scores.

    They follow from the energy of what was retrieved, the scores, and twice the squared norm of the
    form.
    """
    _, d_h, d = shape
    kappa = 1 / d + 1 / d_h + 1 / (d * d_h)
    squares = np.square(scores)
    return np.asarray(
        (energy + squares) / d + kappa * np.maximum(form, 0) + 2 * squares / (d * d_h)
    )


class Device:
    """A torch device, and the products that a Gaussian memory needs on it.

    Parameters
    ----------
    name : str
        As torch names it: ``"cuda"``, ``"cuda:1"``, ``"mps"``, ``"cpu"``.
    exact : bool
        Whether numbers are float64.
    """

    def __init__(self, name: str, exact: bool) -> None:
        with explain_missing(
            f"device={name!r} needs torch: pip install 'hammemo[torch]'. "
            "Or leave out device= to use NumPy."
        ):
            import torch
        self._torch = torch
        self._dtype = torch.float64 if exact else torch.float32
        try:
            self._place = torch.device(name)
            torch.zeros(1, dtype=self._dtype, device=self._place)
        except (AssertionError, RuntimeError, TypeError) as error:
            why = str(error).split("\n", 1)[0].rstrip(".")
            raise ValueError(
                f"device={name!r} cannot be used by torch here ({why}): "
                "use another one, or leave out device=."
            ) from error

    def place(self, array: Array) -> Any:
        """Return an array on the device, floats in the precision of the products."""
        if array.dtype.kind == "f":
            return self._torch.as_tensor(array, dtype=self._dtype, device=self._place)
        return self._torch.as_tensor(np.ascontiguousarray(array, np.int64), device=self._place)

    def block(self, counts: sparse.csr_array, codes: Array, outputs: Array) -> Floats:
        """Return one site's block of C of a batch, from its counts (labels by values).

        Shapes
        ------
        counts : (L, n); codes : (n, d_h); outputs : (L, d); returned : (d_h, d)
        """
        entries = counts.tocoo()
        on_device = self._torch.sparse_coo_tensor(
            self.place(np.stack(entries.coords)),
            self.place(entries.data),
            counts.shape,
            is_coalesced=True,
            check_invariants=False,
        )
        sums = self._torch.sparse.mm(on_device, self.place(codes))
        return np.asarray((sums.T @ self.place(outputs)).cpu().numpy(), np.float64)

    def encode(self, reader: GaussianReader, contexts: Contexts, weights: Floats) -> Any:
        """Return what the function `encode` returns, as a tensor."""
        blocks = []
        dtype = np.float64 if self._dtype is self._torch.float64 else np.float32
        pairs = zip(
            weights, site_codes(contexts, reader.sites, reader.input_codes, dtype), strict=True
        )
        last_codes: Array | None = None
        for weight, (codes, index) in pairs:
            if codes is not last_codes:  # sites of one position share their codes
                zero = np.zeros((1, codes.shape[1]), codes.dtype)  # the code of nothing: index -1
                on_device = self.place(np.concatenate([codes, zero]))
                last_codes = codes
            rows = on_device[self.place(index % (len(codes) + 1))]
            blocks.append(rows * float(weight * len(weights)))
        return self._torch.cat(blocks, dim=1)


class DeviceReader(GaussianReader):
    """A reader whose scores are computed on a device."""

    device: Device

    @cached_property
    def _on_device(self) -> tuple[Any, Any]:
        """The memory matrix and the decoder, as tensors."""
        decoder = np.ascontiguousarray(self.decoder.T)
        return self.device.place(self.matrix), self.device.place(decoder)

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the decoded scores by two-stage retrieval."""
        matrix, decoder = self._on_device
        keys = self.device.encode(self, contexts, weights)
        return np.asarray((keys @ matrix @ decoder).cpu().numpy(), np.float64)
