"""Tokenization: from a text to its tokens, and back where a tokenizer.json knows how."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._lazy import needed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TOKENIZERS: Final = ("ids", "words", "characters", "bytes")
"""The tokenizers that have a name; any other name is the path of a file of the ``tokenizers`` package."""

_INTEGER_LIMIT: Final = 2**63 - 1


@cache
def text_encoder(name: str, vocabulary: str) -> Callable[[str], NDArray[Any]]:
    """Return the function from a text to its tokens; `vocabulary` is the text of a tokenizer.json, if it is one."""
    if name == "ids":
        return _ids
    if name == "words":
        return lambda text: np.array(text.split(), dtype=object)
    if name == "characters":
        return lambda text: np.array(list(text.rstrip("\r\n")), dtype=object)
    if name == "bytes":
        return lambda text: np.frombuffer(text.rstrip("\r\n").encode(), np.uint8).astype(np.int64)
    tokenizer = _tokenizers().Tokenizer.from_str(vocabulary)
    return lambda text: np.array(tokenizer.encode(text, add_special_tokens=False).ids, np.int64)


def tokenizer_text(name: str) -> str:
    """Return the text of a tokenizer.json file; empty for a tokenizer that has a name of its own."""
    if name in TOKENIZERS:
        return ""
    try:
        text = Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"tokens={name!r} is not a tokenizer: use {', '.join(TOKENIZERS)}, or the path of a tokenizer.json file."
        ) from error
    _tokenizers()
    return text


def _tokenizers() -> Any:
    with needed("A tokenizer.json file needs the package tokenizers: pip install 'hammemo[text]'"):
        import tokenizers
    return tokenizers


def _ids(text: str) -> NDArray[np.int64]:
    words = text.split()
    try:
        return np.array(words, dtype=np.int64) if words else np.empty(0, np.int64)
    except (ValueError, OverflowError) as error:
        shown = next(word for word in words if not _is_id(word))
        raise ValueError(
            f"{shown[:40]!r} is not a token id (a whole number of 64 bits). Read text with tokens='words', "
            "'characters', 'bytes' or a tokenizer.json."
        ) from error


def _is_id(word: str) -> bool:
    try:
        return abs(int(word)) <= _INTEGER_LIMIT
    except ValueError:
        return False
