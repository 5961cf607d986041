r"""The paper's memory on a torch device, such as a GPU: block k of C is :math:`(N_k P)^\top Z`, scores are products.

The state stays where it is without a device, a float64 matrix in main memory: files, digests and merging do not know of
devices. A batch's counts go to the device, its block of C comes back; questions are encoded and answered there. Numbers
are float32, or float64 with ``exact=True``: sums of whole steps are then the same to the bit as NumPy's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._lazy import needed
from hammemo._versions import cached_property
from hammemo.memories.gaussian.encoding import site_codes
from hammemo.memories.gaussian.readers import GaussianReader

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

    from hammemo.tokens.contexts import Contexts


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
        with needed(f"device={name!r} needs torch: pip install 'hammemo[torch]'. Or leave out device= to use NumPy."):
            import torch
        self._torch = torch
        self._dtype = torch.float64 if exact else torch.float32
        try:
            self._place = torch.device(name)
            torch.zeros(1, dtype=self._dtype, device=self._place)
        except (AssertionError, RuntimeError, TypeError) as error:
            why = str(error).split("\n", 1)[0].rstrip(".")
            raise ValueError(
                f"device={name!r} cannot be used by torch here ({why}): use another one, or leave out device=."
            ) from error

    def placed(self, array: NDArray[Any]) -> Any:
        """Return an array on the device, floats in the precision of the products."""
        if array.dtype.kind == "f":
            return self._torch.as_tensor(array, dtype=self._dtype, device=self._place)
        return self._torch.as_tensor(np.ascontiguousarray(array, np.int64), device=self._place)

    def block(self, counts: sparse.csr_array, codes: NDArray[Any], outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Return one site's block of C of a batch, from its counts (labels by values).

        Shapes
        ------
        counts : (L, n); codes : (n, d_h); outputs : (L, d); returned : (d_h, d)
        """
        entries = counts.tocoo()
        places = self.placed(np.stack(entries.coords))
        held = self._torch.sparse_coo_tensor(
            places, self.placed(entries.data), counts.shape, is_coalesced=True, check_invariants=False
        )
        sums = self._torch.sparse.mm(held, self.placed(codes))
        return np.asarray((sums.T @ self.placed(outputs)).cpu().numpy(), np.float64)

    def encoded(self, reader: GaussianReader, contexts: Contexts, weights: NDArray[np.float64]) -> Any:
        """Return what `encode` returns, as a tensor."""
        blocks, placed = [], {}
        dtype = np.float64 if self._dtype is self._torch.float64 else np.float32
        for weight, (codes, index) in zip(
            weights, site_codes(contexts, reader.sites, reader.input_codes, dtype), strict=True
        ):
            if id(codes) not in placed:  # sites of one position share their codes
                zero = np.zeros((1, codes.shape[1]), codes.dtype)  # the code of nothing: index -1
                placed = {id(codes): self.placed(np.concatenate([codes, zero]))}
            blocks.append(placed[id(codes)][self.placed(index % (len(codes) + 1))] * float(weight * len(weights)))
        return self._torch.cat(blocks, dim=1)


class DeviceReader(GaussianReader):
    """A reader whose scores are computed on a device."""

    device: Device

    @cached_property
    def _placed(self) -> tuple[Any, Any]:
        return self.device.placed(self.matrix), self.device.placed(np.ascontiguousarray(self.decoder.T))

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the decoded scores by two-stage retrieval."""
        matrix, decoder = self._placed
        keys = self.device.encoded(self, contexts, weights)
        return np.asarray((keys @ matrix @ decoder).cpu().numpy(), np.float64)
