"""One digest of named arrays."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hammemo._arrays.types import Array


def array_digest(arrays: Mapping[str, Array], text: str = "") -> str:
    """Return BLAKE2b-256 of a text and of named arrays, in hexadecimal digits."""
    digest = hashlib.blake2b(text.encode(), digest_size=32)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.data)
    return digest.hexdigest()
