r"""One safetensors file as bytes: sealed with a checksum, and nothing in it believed before it is checked.

**Damage.** The text begins with a checksum: BLAKE2b-256 over the whole file, the 64 digits of the checksum itself read
as zeros. With B the file's bytes, i the place of the digits and H the hash,

.. math:: \text{digits} = \mathrm{hex}\, H(B_{<i} \;\|\; \texttt{"0"}^{64} \;\|\; B_{\ge i + 64}),

so a file that differs in one bit, wherever, is refused: either the digits differ from the hash of the rest, or the hash
does from the digits. It does not defend against forgery: whoever can change the file can compute the checksum too.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import safetensors.numpy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

MAX_HEADER: Final = 2**19
"""The most bytes a header may have: reading JSON takes many times its size."""

OPENING: Final = rb'{"__metadata__":{"hammemo":"{\"checksum\":\"'
DIGITS: Final = slice(8 + len(OPENING), 8 + len(OPENING) + 64)
_DTYPES: Final = {
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (4, 8)},
}


class FileError(ValueError):
    """Raised when a model cannot be written to a file, or a file cannot be loaded, with the reason and the way out."""


def sealed(tensors: dict[str, NDArray[Any]], text: str) -> list[bytes | memoryview]:
    """Return the parts of the file, the checksum in its place."""
    data = memoryview(safetensors.numpy.save(tensors, metadata={"hammemo": text}))
    if int.from_bytes(data[:8], "little") > MAX_HEADER:
        raise FileError("The model cannot be saved: its sites and parameters need a header of more than 512 KiB.")
    if bytes(data[8 : DIGITS.start]) != OPENING:
        raise FileError("The installed safetensors writes headers that hammemo cannot seal: install version 0.8.")
    digest = hashlib.blake2b(data, digest_size=32)  # its digits are zeros still
    return [data[: DIGITS.start], digest.hexdigest().encode(), data[DIGITS.stop :]]


@contextmanager
def refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever is wrong with a file's contents into one `FileError` with the reason and the way out."""
    try:
        yield
    except FileError:
        raise
    # The types after ValueError are a net below the checks; the tests on mutated files see that nothing falls in.
    except (ValueError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise FileError(
            f"{os.fspath(path)} cannot be loaded: {str(error).rstrip('.')}. It is damaged or no model of hammemo; "
            "use another copy of it."
        ) from error


class Archive:
    """The parts of a safetensors file: its bytes, its JSON text, and its arrays as views of the bytes.

    With `verify` the bytes are read into memory, without it they are mapped, copy-on-write.
    """

    def __init__(self, path: str | os.PathLike[str], *, verify: bool) -> None:
        with open(path, "rb") as file:
            start = file.read(DIGITS.stop)
            if len(start) < DIGITS.stop or start[8 : DIGITS.start] != OPENING:
                raise FileError(f"{os.fspath(path)} is no model of hammemo: it does not begin as save() begins a file.")
            if verify:
                size = os.fstat(file.fileno()).st_size
                buffer = bytearray(size)
                file.seek(0)
                if file.readinto(buffer) != size:
                    raise ValueError("it became shorter while it was read")
                self.data: NDArray[np.uint8] = np.frombuffer(buffer, np.uint8)
            else:
                self.data = np.asarray(np.memmap(file, np.uint8, mode="c"))
        self.checksum = start[DIGITS].decode("ascii", "replace")
        if verify and self.checksum != self.digest():
            raise FileError(
                f"{os.fspath(path)} is damaged: its checksum is not that of its contents. Use another copy of it."
            )
        header, text, first = self._header()
        self.about = _json(text)
        if not isinstance(self.about, dict):
            raise ValueError("its description is not a JSON object")
        self.arrays = dict(_views(header, self.data[first:]))

    def digest(self) -> str:
        """Return the checksum that the contents have."""
        digest = hashlib.blake2b(digest_size=32)
        digest.update(self.data[: DIGITS.start].data)
        digest.update(b"0" * 64)
        digest.update(self.data[DIGITS.stop :].data)
        return digest.hexdigest()

    def _header(self) -> tuple[dict[str, Any], str, int]:
        length = int.from_bytes(self.data[:8].tobytes(), "little")
        if length > min(MAX_HEADER, len(self.data) - 8) or length % 8:
            raise ValueError(f"it declares a header of {length} bytes")
        header = _json(self.data[8 : 8 + length].tobytes().decode("utf-8"))
        metadata = header.pop("__metadata__", None) if isinstance(header, dict) else None
        if not isinstance(metadata, dict) or set(metadata) != {"hammemo"} or not isinstance(metadata["hammemo"], str):
            raise ValueError("its header has no description")
        return header, metadata["hammemo"], 8 + length


def _views(header: Mapping[str, Any], data: NDArray[np.uint8]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays that a header declares; they must fill the data without gaps and without sharing a byte."""
    spans = [(0, 0)]
    for name, entry in header.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"the array {name} is not described by dtype, shape and data_offsets")
        dtype = _DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
        shape, span = whole_lengths(entry["shape"]), whole_lengths(entry["data_offsets"])
        if dtype is None or len(shape) > 3 or len(span) != 2:
            raise ValueError(f"the array {name} has an unknown type, or too many dimensions")
        start, stop = span
        fits = stop - start == math.prod(shape) * dtype.itemsize and start % dtype.itemsize == 0
        if not start <= stop <= len(data) or not fits:
            raise ValueError(f"the array {name} of shape {tuple(shape)} does not fit in its place")
        spans.append((start, stop))
        yield name, data[start:stop].view(dtype).reshape(shape)
    spans.sort()
    if any(before[1] != after[0] for before, after in pairwise([*spans, (len(data), len(data))])):
        raise ValueError("its arrays do not lie side by side")


def whole_lengths(values: Any) -> list[int]:
    """Return a list of whole numbers that could be lengths, or refuse it."""
    if not isinstance(values, list) or any(type(value) is not int or not 0 <= value < 2**48 for value in values):
        raise ValueError("a shape or a place is not a list of whole numbers")
    return values


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_constant)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("its header names something twice")
    return result


def _no_constant(name: str) -> None:
    raise ValueError(f"its header holds {name}")
