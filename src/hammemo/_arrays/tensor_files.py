"""The bytes of a safetensors file before its first array, without having the arrays.

A file that is larger than memory is written, or hashed, array by array and piece by piece. For that
its header must be known first: it says of each array the type, the shape and the place. The order
of the arrays is that of the safetensors library, wide types first and then by name, so that the
bytes are those which `safetensors.numpy.save` would give.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DTYPES: Final = {
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (4, 8)},
}
"""The types of arrays in model files, by their names there."""

_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}
_ORDER: Final = ("U64", "I64", "F64", "F32", "U32", "I32", "U16", "I16", "I8", "U8")


class Spec(NamedTuple):
    """Type and shape of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return math.prod(self.shape) * self.dtype.itemsize


def file_order(specs: Mapping[str, Spec]) -> list[str]:
    """Return the names of arrays in the order of a file."""

    def key(name: str) -> tuple[int, str]:
        return _ORDER.index(_name_type(specs[name])), name

    return sorted(specs, key=key)


def _name_type(spec: Spec) -> str:
    """Return the name that the type of an array has in files."""
    return _NAMES[spec.dtype.newbyteorder("<")]


def file_start(
    specs: Mapping[str, Spec], metadata: Mapping[str, str], order: Sequence[str] | None = None
) -> bytes:
    """Return all that comes before the arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import safetensors.numpy
    >>> from hammemo._arrays.tensor_files import Spec, file_start
    >>> arrays = {"a": np.arange(3, dtype=np.uint8)}
    >>> whole = safetensors.numpy.save(arrays, metadata={"of": "us"})
    >>> file_start({"a": Spec(np.dtype(np.uint8), (3,))}, {"of": "us"}) == whole[:-3]
    True
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    place = 0
    for name in file_order(specs) if order is None else order:
        spec = specs[name]
        end = place + spec.nbytes
        header[name] = {
            "dtype": _name_type(spec),
            "shape": spec.shape,
            "data_offsets": (place, end),
        }
        place = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
