r"""One safetensors file as bytes, sealed with a checksum and checked before anything is used.

**Damage.** The text begins with a checksum: BLAKE2b-256 over the whole file, the 64 digits of the
checksum itself read as zeros. With B the file's bytes, i the place of the digits and H the hash,

.. math:: \text{digits} = \mathrm{hex}\, H(B_{<i} \;\|\; \texttt{"0"}^{64} \;\|\; B_{\ge i + 64}),

so a file that differs in one bit, wherever, is refused: either the digits differ from the hash of
the rest, or the hash does from the digits. It does not defend against forgery: who can change the
file can compute it, too.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import safetensors.numpy

from hammemo._arrays.tensor_files import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedReader

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array

MAX_HEADER: Final = 2**23
"""The most bytes a header may have. Every model that can be fitted fits: see `MAX_SITES`,
`MAX_POSITIONS`, `MAX_NAME_BYTES`."""

MAX_VALUES: Final = 600_000
"""The most values that one JSON text may hold. Each takes up to 84 bytes in memory, many times its
length as text, so they are counted before the text is read."""

FORMAT: Final = 1
"""The number of the one format: of models, predictors, heads and segments. It stays 1 until the
first release."""

OPENING: Final = rb'{"__metadata__":{"hammemo":"{\"checksum\":\"'
"""How the header of each file begins, after 8 bytes with its length."""

HASH_BYTES: Final = 8
"""Bytes of the hash of a page of a segment."""

DIGITS: Final = slice(8 + len(OPENING), 8 + len(OPENING) + 64)
"""Where the 64 digits of the checksum are."""


class FileError(ValueError):
    """Raised when a file cannot be written or loaded, with the reason and the way out."""


class MissingFileError(FileError):
    """Raised when a file of a model in segments is lost, or was deleted since the head was read."""


class SealedFile(NamedTuple):
    """The three pieces of a file, one after the other."""

    before: memoryview
    digits: bytes
    """The checksum, in hexadecimal digits."""
    after: memoryview

    @property
    def checksum(self) -> str:
        """The checksum, as `read_stated_checksum` returns it."""
        return self.digits.decode()


def seal(tensors: dict[str, Array], text: str) -> SealedFile:
    """Return the pieces of a file with these arrays and this description, and its checksum."""
    data = memoryview(safetensors.numpy.save(tensors, metadata={"hammemo": text}))
    if int.from_bytes(data[:8], "little") > MAX_HEADER or _has_too_many_values(text):
        raise FileError(
            "The model cannot be saved: its parameters, notes and ordered categories need "
            "a header of more than 8 MiB or 600,000 values. Make them shorter or fewer."
        )
    if bytes(data[8 : DIGITS.start]) != OPENING:
        raise FileError(
            "The installed safetensors writes headers that hammemo cannot seal: "
            "install version 0.8."
        )
    digest = hashlib.blake2b(data, digest_size=32)  # the digits in the file are still zeros
    return SealedFile(
        before=data[: DIGITS.start],
        digits=digest.hexdigest().encode(),
        after=data[DIGITS.stop :],
    )


def refuse_folder(path: str) -> None:
    """Refuse a folder, or a link to one, where a file of a model in segments must be."""
    if os.path.isdir(path):
        raise FileError(
            f"{path} is a folder, and must be a file of the model: "
            "use another copy of the model's folder."
        )


@contextmanager
def refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn any error in a file's contents into a `FileError` with the reason and the way out."""
    try:
        yield
    except FileError:
        raise
    # The types after ValueError are a net below the checks; the tests on mutated files see that
    # nothing falls in.
    except (
        ValueError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
    ) as error:
        raise FileError(
            f"{os.fspath(path)} cannot be loaded: {str(error).rstrip('.')}. "
            "It is damaged or not a model of hammemo; use another copy of it."
        ) from error


def read_stated_checksum(path: str | os.PathLike[str]) -> str | None:
    """Return the checksum that a file states, without reading the rest; None if it is no model."""
    try:
        with _open_regular_file(path) as file:
            start = file.read(DIGITS.stop)
    except (FileError, OSError):
        return None
    if not _is_start_of_model(start):
        return None
    return start[DIGITS].decode("ascii", "replace")


def _is_start_of_model(start: bytes) -> bool:
    return len(start) == DIGITS.stop and start[8 : DIGITS.start] == OPENING


def _check_start(start: bytes, path: str | os.PathLike[str]) -> None:
    if not _is_start_of_model(start):
        raise FileError(
            f"{os.fspath(path)} is not a model of hammemo: "
            "it does not begin as save() begins a file."
        )


def _open_regular_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file; refuse anything else, such as a named pipe, without waiting for it."""
    without_waiting = getattr(os, "O_NONBLOCK", 0)

    def open_without_waiting(name: str, flags: int) -> int:
        return os.open(name, flags | without_waiting)

    file = open(path, "rb", opener=open_without_waiting)  # noqa: SIM115  the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise FileError(
            f"{os.fspath(path)} is not a regular file but a pipe or a device: "
            "copy it into a file first."
        )
    return file


class _FileHeader(NamedTuple):
    """The header of a safetensors file, not yet checked."""

    arrays: dict[str, Any]
    """The type, shape and place of each array."""
    description: str
    """The JSON text that describes the model."""
    n_bytes: int
    """How many bytes it takes, its length included: the data of the arrays follow."""


class Archive:
    """A safetensors file in its parts: bytes, JSON text, and arrays as views of the bytes.

    Parameters
    ----------
    path : str or path
    verify : bool
        Whether the bytes are read into memory and compared with the checksum. Otherwise they are
        mapped.
    writable : bool
        Whether a mapping is copy-on-write. Otherwise it is for reading only, which the operating
        system does not count as memory of the process.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, verify: bool, writable: bool = True
    ) -> None:
        with _open_regular_file(path) as file:
            _check_start(file.read(DIGITS.stop), path)
            if verify:
                size = os.fstat(file.fileno()).st_size
                buffer = bytearray(size)
                file.seek(0)
                if file.readinto(buffer) != size:
                    raise ValueError("it became shorter while it was read")
                data: NDArray[np.uint8] = np.frombuffer(buffer, np.uint8)
            else:
                data = np.asarray(np.memmap(file, np.uint8, mode="c" if writable else "r"))
        self.read(data, path, verify=verify)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the model") -> Archive:
        """Read the bytes of a file and verify them; `name` is what errors call it."""
        _check_start(data[: DIGITS.stop], name)
        archive = cls.__new__(cls)
        archive.read(np.frombuffer(bytearray(data), np.uint8), name, verify=True)
        return archive

    def read(self, data: NDArray[np.uint8], path: str | os.PathLike[str], *, verify: bool) -> None:
        """Read the parts from the bytes of a file; `path` is what errors call it."""
        self.data = data
        self.checksum = data[DIGITS].tobytes().decode("ascii", "replace")
        if verify and self.checksum != self.digest():
            raise FileError(
                f"{os.fspath(path)} is damaged: its checksum is not that of its contents. "
                "Use another copy of it."
            )
        header = self._read_header()
        # `save` writes other characters as escapes; a wide string takes four times the memory.
        if not header.description.isascii():
            raise ValueError("its description is not ASCII")
        self.about = _parse_json(header.description)
        if not isinstance(self.about, dict):
            raise ValueError("its description is not a JSON object")
        self.arrays = dict(_view_arrays(header.arrays, self.data[header.n_bytes :]))
        file_format = self.about.get("format")
        if type(file_format) is not int:
            raise ValueError(
                "the entry format of its description is missing or is not a whole number"
            )
        if file_format != FORMAT:
            raise FileError(
                f"{os.fspath(path)} has format {file_format}, and this version of hammemo reads "
                f"format {FORMAT}: load it with the version that wrote it, or fit the model again."
            )

    def digest(self) -> str:
        """Compute the checksum of the contents."""
        digest = hashlib.blake2b(digest_size=32)
        digest.update(self.data[: DIGITS.start].data)
        digest.update(b"0" * 64)
        digest.update(self.data[DIGITS.stop :].data)
        return digest.hexdigest()

    def _read_header(self) -> _FileHeader:
        length = int.from_bytes(self.data[:8].tobytes(), "little")
        if length > min(MAX_HEADER, len(self.data) - 8) or length % 8:
            raise ValueError(f"it declares a header of {length} bytes")
        header = self.data[8 : 8 + length].tobytes().decode("utf-8")
        # The description is cut out, so that its values do not count as values of the header, too.
        description, end = json.JSONDecoder().raw_decode(header, OPENING.index(b'"{'))
        if header[end : end + 1] != "}":
            raise ValueError("its header has no description")
        arrays = _parse_json("{" + header[end + 1 :].removeprefix(","))
        return _FileHeader(arrays, description, 8 + length)


def _view_arrays(header: Mapping[str, Any], data: NDArray[np.uint8]) -> Iterator[tuple[str, Array]]:
    """Yield the arrays that a header declares; they must fill the data, each byte once."""
    spans = [(0, 0)]
    for name, entry in header.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"the array {name} is not described by dtype, shape and data_offsets")
        dtype = None
        if isinstance(entry["dtype"], str):
            dtype = DTYPES.get(entry["dtype"])
        shape = check_lengths(entry["shape"])
        span = check_lengths(entry["data_offsets"])
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


def check_lengths(values: Any) -> list[int]:
    """Return a list of whole numbers that could be lengths, or refuse it."""
    message = "a shape or a place is not a list of whole numbers"
    if not isinstance(values, list):
        raise ValueError(message)
    if any(type(value) is not int or not 0 <= value < 2**48 for value in values):
        raise ValueError(message)
    return values


def _parse_json(text: str) -> Any:
    if _has_too_many_values(text):
        raise ValueError("its header holds too many values")
    return json.loads(text, object_pairs_hook=_refuse_repeats, parse_constant=_refuse_constant)


def _has_too_many_values(text: str) -> bool:
    # Each value follows one of these characters, or is the first.
    return sum(map(text.count, ",:[{")) > MAX_VALUES


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("its header names something twice")
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"its header holds {name}")
