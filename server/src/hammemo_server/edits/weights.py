"""The fitted weights of a vote as bytes: what the log keeps of a refit.

The log keeps what was fitted, not the request to fit. So a process that applies the log, after a crash or on another
node, has the weights that answers were given with, to the bit: whatever its processor does to the last digit of a sum,
and whichever examples its own sample holds (that depends on how edits were grouped, once examples are more than the
sample has room for). And it need not fit again, which takes seconds.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import safetensors.numpy
from safetensors import SafetensorError

from hammemo._arrays.checked import StoredArrays
from hammemo.models.editing import edit
from hammemo.models.weigh import with_weights
from hammemo_server.edits.operations import TooLarge

if TYPE_CHECKING:
    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.votes import Vote

MAX_BYTES: Final = 2**28
"""The most bytes of weights: what logs can keep in one body, with room to spare."""


def packed(vote: Vote) -> bytes:
    """Return what was fitted; `TooLarge` where a log cannot keep it."""
    return compressed(safetensors.numpy.save(vote.state()))


def compressed(fitted: bytes) -> bytes:
    """Return what was fitted or chosen as a log keeps it; `TooLarge` where it cannot."""
    if len(fitted) > MAX_BYTES:
        raise TooLarge(
            f"The weights have {len(fitted):,} bytes, and a log keeps {MAX_BYTES:,}: download the model, refit it, and "
            "upload it under another name."
        )
    return zlib.compress(fitted, 1)  # weights that labels share come with zeros for each label


def decompressed(data: bytes) -> bytes:
    """Return what `compressed` was given; ValueError where the bytes are damaged."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"these are not weights ({type(error).__name__})") from None
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("these are not weights: they end too early or too late")
    return found


def take(model: MemoryClassifier, weights: bytes) -> None:
    """Give a model the weights that `packed` returned, checked; ValueError where they are not its own."""
    try:
        arrays = safetensors.numpy.load(decompressed(weights))
    except SafetensorError as error:
        raise ValueError(f"these are not weights ({type(error).__name__})") from None
    stored = StoredArrays(arrays)
    edit(model, lambda private: with_weights(private.settings(), private.state, stored))
