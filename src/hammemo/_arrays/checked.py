"""Arrays that come back from a file: nothing is used before it was checked.

A file may be damaged, or written by an attacker. So code that rebuilds an object from named arrays
takes each of them from :class:`StoredArrays`, with the type and the shape that it must have. Shapes
are compared before anything is allocated whose size the file declares. Checks that read whole
arrays read them in pieces, so that they need little memory. They are skipped for arrays that are
*trusted*: those mapped from a file that is known to be good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.integers import pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hammemo._arrays.types import Array

_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


class StoredArrays:
    """Named arrays from outside, each checked when it is taken; wrong ones raise ValueError.

    Parameters
    ----------
    arrays : mapping from names to arrays
    trusted : bool
        Whether checks that read whole arrays are skipped.
    prefix : str
        The start of the names in `arrays`, which callers leave out.
    untaken : set of str, optional
        The full names of arrays that were not taken yet, by default all. A part shares it with the
        whole, so that `finish` of the whole knows what was taken from its parts.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.checked import StoredArrays
    >>> stored = StoredArrays({"counts": np.array([3, 1], np.uint8)})
    >>> stored.whole_numbers("counts", (2,), below=4)
    array([3, 1], dtype=uint8)
    >>> stored.whole_numbers("counts", (3,), below=4)
    Traceback (most recent call last):
        ...
    ValueError: the array counts has shape (2,) instead of (3,)
    """

    def __init__(
        self,
        arrays: Mapping[str, Array],
        *,
        trusted: bool = False,
        prefix: str = "",
        untaken: set[str] | None = None,
    ) -> None:
        self.trusted = trusted
        self._arrays = arrays
        self._prefix = prefix
        self._untaken = set(arrays) if untaken is None else untaken

    def part(self, name: str) -> StoredArrays:
        """Return the arrays whose names begin with ``name.``, under the rest of their names."""
        prefix = f"{self._prefix}{name}."
        return StoredArrays(
            self._arrays, trusted=self.trusted, prefix=prefix, untaken=self._untaken
        )

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._arrays

    def take(
        self, name: str, dtypes: str | tuple[str, ...], shape: tuple[int | None, ...]
    ) -> Array:
        """Return an array of one of these types and of this shape; None stands for any length."""
        full = self._prefix + name
        if full not in self._arrays:
            raise ValueError(f"the array {full} is missing")
        array = self._arrays[full]
        allowed = (dtypes,) if isinstance(dtypes, str) else dtypes
        if array.dtype.name not in allowed:
            allowed_names = " or ".join(allowed)
            raise ValueError(
                f"the array {full} is of {array.dtype.name} instead of {allowed_names}"
            )
        if not _has_shape(array, shape):
            shape_text = str(shape).replace("None", "any")
            raise ValueError(f"the array {full} has shape {array.shape} instead of {shape_text}")
        self._untaken.discard(full)
        return array

    def whole_numbers(
        self, name: str, shape: tuple[int | None, ...], *, below: int, least: int = 0
    ) -> Array:
        """Return non-negative integers, of the narrowest type, from `least` to below `below`."""
        array = self.take(name, _UNSIGNED, shape)
        if self.trusted:
            return array
        high = 0
        if array.size:
            low = int(array.min())
            high = int(array.max())
            if low < least or high >= below:
                raise ValueError(
                    f"the array {self._prefix}{name} holds {low} to {high}, "
                    f"outside {least} to {below - 1}"
                )
        if array.dtype != np.min_scalar_type(high):
            raise ValueError(f"the array {self._prefix}{name} is not in its narrowest type")
        return array

    def multiplicities(
        self, name: str, shape: tuple[int | None, ...], *, below: int, least: int = 0
    ) -> Array:
        """Return non-negative integers, as `whole_numbers` does, whose sum is below `below`, too.

        So the sum cannot wrap.
        """
        array = self.whole_numbers(name, shape, below=below, least=least)
        if not self.trusted and array.sum(dtype=np.float64) >= below:
            raise ValueError(
                f"the numbers of the array {self._prefix}{name} add up to {below} or more"
            )
        return array

    def ascending(self, name: str, dtype: str | None = None) -> Array:
        """Return a one-dimensional array, each entry greater than the one before."""
        array = self.take(name, dtype or _UNSIGNED, (None,))
        if not self.trusted and not is_ascending(array):
            raise ValueError(f"the array {self._prefix}{name} is not strictly ascending")
        return array

    def finite(self, name: str, dtype: str, shape: tuple[int | None, ...]) -> Array:
        """Return an array of finite floats."""
        array = self.take(name, dtype, shape)
        flat = array.reshape(-1)
        if self.trusted:
            return array
        if not all(np.isfinite(flat[piece]).all() for piece in pieces(len(flat))):
            raise ValueError(f"the array {self._prefix}{name} holds numbers that are not finite")
        return array

    def finish(self) -> None:
        """Refuse arrays that were not taken, from the whole or from a part."""
        if self._untaken:
            raise ValueError(f"the array {min(self._untaken)} is not part of this kind of model")


def _has_shape(array: Array, shape: tuple[int | None, ...]) -> bool:
    """Return whether an array has a shape, where None stands for any length."""
    if array.ndim != len(shape):
        return False
    return all(
        expected in (None, length) for expected, length in zip(shape, array.shape, strict=True)
    )


def is_number(value: Any) -> bool:
    """Return whether a parameter is an int or a float, of Python or NumPy, and no bool."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def is_ascending(values: Array) -> bool:
    """Return whether each value is greater than the one before, compared in pieces."""
    return all(
        bool((values[piece.start + 1 : piece.stop + 1] > values[piece.start : piece.stop]).all())
        for piece in pieces(len(values) - 1)
    )
