r"""What answers queries for a Gaussian memory: two-stage retrieval, or one product with what was decoded before.

Two-stage retrieval reads :math:`r = C^\top \phi(q)` and decodes :math:`\widetilde S_c = \langle z_c, r \rangle`; fused,
:math:`CZ` is formed once. The memory itself is read in float64; the compiled forms are float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._versions import cached_property
from hammemo.memories.contributions import SiteScores
from hammemo.memories.gaussian.codes import CodeCache, GaussianCodes
from hammemo.memories.gaussian.encoding import encode, site_keys
from hammemo.memories.gaussian.errors import standard_errors
from hammemo.memories.gaussian.given import PROJECTION, GivenRows
from hammemo.memories.reader import Compiled, Reader
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.label_counts import Frame
    from hammemo.tokens.contexts import Contexts


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
        blocks: NDArray[np.float64],
        input_codes: CodeCache,
        output_codes: CodeCache,
    ) -> None:
        super().__init__(frame, _row_width(codes, frame))
        self.codes = codes
        self.input_codes = input_codes
        self._blocks = blocks
        self._output_codes = output_codes

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The memory matrix C, of shape (p, d)."""
        return self._blocks.reshape(-1, self.codes.d)

    @cached_property
    def decoder(self) -> NDArray[np.float64]:
        """The output codes of the labels, of shape (L, d)."""
        return self._output_codes.get(self.labels.tolist()).astype(np.float64)

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the decoded scores by two-stage retrieval."""
        keys = encode(contexts, self.sites, self.input_codes, weights, np.float64)
        return np.asarray((keys @ self.matrix) @ self.decoder.T)

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, with standard errors."""
        keys = site_keys(contexts, self.sites, self.input_codes)
        return two_stage_site_scores(self._blocks, keys, self.decoder[columns], weights, tied=self.codes.tied)


def _row_width(codes: GaussianCodes, frame: Frame) -> int:
    return codes.n_sites * codes.d_h + codes.d + len(frame.labels)


def two_stage_site_scores(
    blocks: NDArray[np.float64],
    keys: NDArray[np.float64],
    decoder: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    tied: bool,
) -> SiteScores:
    """Return the decoded score of each site with its standard error; tied codes are biased, so they have none.

    Shapes
    ------
    blocks : (S, d_h, d); keys : (m, S, d_h); decoder : (K, d); weights : (S,)
    """
    retrieved = np.einsum("mki,kij->mkj", keys, blocks) * (len(weights) * weights[:, None])
    values = retrieved @ decoder.T
    if tied or not len(keys):
        return SiteScores(values)
    errors, totals = zip(*(standard_errors(blocks, key, decoder, weights) for key in keys), strict=True)
    return SiteScores(values, errors=np.stack(errors), total_errors=np.stack(totals))


_DESCRIBED: Final = {"seed": int, "d": int, "d_h": int, "tied": bool, "exact": bool, "distribution": str}
"""What describes the codes of a compiled form, and of which type."""


def _restored_codes(frame: Frame, stored: StoredArrays, description: dict[str, Any]) -> tuple[GaussianCodes, CodeCache]:
    """Return the codes that a description names and those that a file carries."""
    given = description.get("given", [])
    if (
        given not in ([], ["codes"], [PROJECTION])
        or {name: type(value) for name, value in description.items() if name != "given"} != _DESCRIBED
    ):
        raise ValueError(f"the Gaussian codes are not described by {', '.join(_DESCRIBED)}")
    d, d_h = description["d"], description["d_h"]
    if not (1 <= d < 2**31 and 1 <= d_h < 2**31):
        raise ValueError(f"Gaussian codes cannot have the dimensions {d} and {d_h}")
    rows = {}
    if "codes" in given:  # all that there are, are carried
        rows["codes"] = GivenRows(Vocabulary(), np.empty((0, d), np.float32))
    elif PROJECTION in given:
        rows[PROJECTION] = GivenRows.of(stored.finite(PROJECTION, "float32", (d_h, d)), PROJECTION)
    about = {name: value for name, value in description.items() if name != "given"}
    codes = GaussianCodes(n_sites=len(frame.sites.positions), given=rows, **about)
    vocabulary = Vocabulary.from_arrays(stored.part("vocabulary"))
    carried = stored.finite("projected_codes", "float32", (len(vocabulary), d_h))
    return codes, CodeCache.holding(vocabulary.tolist(), carried, codes.projected)


def _carried(reader: GaussianReader, vocabulary: Vocabulary | None) -> CodeCache:
    """Return the codes of `vocabulary`, by default of the tokens met so far; codes that were given are all there."""
    cache, given = CodeCache(reader.codes.projected, reader.codes.d_h), reader.codes.given.get("codes")
    met = reader.input_codes.features() if vocabulary is None else vocabulary.tolist()
    cache.get(met if given is None else given.tokens.tolist(), keep=True)
    return cache


class CompiledGaussian(Compiled):
    """Projected codes and what decodes them, in float32.

    *Fused*, that is the product CZ: one matrix product a query. In *two stages* it is the memory matrix C and the
    output codes Z: retrieve, then decode.

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
        self, frame: Frame, codes: GaussianCodes, input_codes: CodeCache, matrices: tuple[NDArray[np.float32], ...]
    ) -> None:
        super().__init__(frame, _row_width(codes, frame))
        self.codes = codes
        self.input_codes = input_codes
        self._matrices = matrices

    @classmethod
    def of(cls, reader: GaussianReader, vocabulary: Vocabulary | None, *, fused: bool) -> CompiledGaussian:
        """Return a compiled form of what a reader holds, with the codes of `vocabulary`."""
        whole = (reader.matrix @ reader.decoder.T,) if fused else (reader.matrix, reader.decoder)
        matrices = tuple(part.astype(np.float32) for part in whole)
        return cls(reader.frame, reader.codes, _carried(reader, vocabulary), matrices)

    @property
    def is_fused(self) -> bool:
        """Whether CZ was formed."""
        return len(self._matrices) == 1

    @property
    def name_in_files(self) -> str:
        """The name of the form."""
        return "FusedGaussian" if self.is_fused else "TwoStageGaussian"

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the decoded scores."""
        keys = encode(contexts, self.sites, self.input_codes, weights, np.float32)
        found = keys @ self._matrices[0]
        return np.asarray(found if self.is_fused else found @ self._matrices[1].T, np.float32)

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns.

        Standard errors need C, so the fused form has none.
        """
        keys = site_keys(contexts, self.sites, self.input_codes)
        if self.is_fused:
            blocks = self._matrices[0][:, columns].astype(np.float64).reshape(len(weights), -1, len(columns))
            return SiteScores(np.einsum("mki,kic->mkc", keys, blocks) * (len(weights) * weights[:, None]))
        matrix, decoder = (part.astype(np.float64) for part in self._matrices)
        blocks = matrix.reshape(len(weights), -1, self.codes.d)
        return two_stage_site_scores(blocks, keys, decoder[columns], weights, tied=self.codes.tied)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        names = ("CZ",) if self.is_fused else ("C", "Z")
        return {"projected_codes": self.input_codes.rows, **dict(zip(names, self._matrices, strict=True))}

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs: the arrays, the tokens whose codes they hold, and what makes other codes."""
        tokens = self.input_codes.features()
        vocabulary = Vocabulary.of(tokens)
        arrays = {
            **self.tensors(),
            "projected_codes": self.input_codes.get(vocabulary.tolist()),
            **{f"vocabulary.{name}": array for name, array in vocabulary.arrays().items()},
        }
        described: dict[str, Any] = {name: getattr(self.codes, name) for name in _DESCRIBED}
        if "codes" in self.codes.given:
            described["given"] = ["codes"]
        elif PROJECTION in self.codes.given:  # projects tokens that are not carried
            described["given"] = [PROJECTION]
            arrays[PROJECTION] = self.codes.given[PROJECTION].rows
        return arrays, described

    @classmethod
    def restored(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,  # noqa: ARG003
    ) -> CompiledGaussian:
        """Return the compiled form with these arrays, checked: undo `stored`."""
        codes, input_codes = _restored_codes(frame, stored, description)
        p, n_labels = codes.n_sites * codes.d_h, len(frame.labels)
        shapes = {"C": (p, codes.d), "Z": (n_labels, codes.d)} if "C" in stored else {"CZ": (p, n_labels)}
        matrices = tuple(stored.finite(name, "float32", shape) for name, shape in shapes.items())
        return cls(frame, codes, input_codes, matrices)
