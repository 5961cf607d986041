"""Streams of tokens cut into blocks, so that sliding windows never have to be held all at once.

A *block* is a flat array of tokens in which pieces of documents follow one another. The first h
tokens of a piece are context only; every later one is the target of the h tokens before it. A
document that is longer than a block continues in the next one with its last h tokens repeated, so
no window is lost, none is counted twice, and none crosses the boundary between two documents: the
examples are those of :func:`hammemo.windows`, in any cutting.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, repeat, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.integers import pieces
from hammemo._versions import cached_property
from hammemo.tokens.contexts import (
    Contexts,
    Examples,
    check_window,
    document,
    join_tokens,
    refuse_masked,
    window_filler,
)
from hammemo.tokens.event_tables import case_words
from hammemo.tokens.vocabulary import NO_TOKEN, factorize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import ArrayLike

    from hammemo._arrays.types import Array, Ints, Words

BLOCK_TOKENS = 2**18


@dataclass(frozen=True, eq=False)
class Block:
    """Pieces of documents, one after the other.

    Parameters
    ----------
    tokens : ndarray of shape (n,)
    starts : ndarray of int64
        Where each piece starts, ascending.
    h : int
        Tokens per context.
    continues : bool
        Whether the first piece goes on with the document that the block before ends with.
    cases : ndarray of uint64, shape (number of pieces, 2), optional
        The hash of the case of each piece, where documents come with cases.
    """

    tokens: Array
    starts: Ints
    h: int
    continues: bool = False
    cases: Words | None = None

    def targets(self) -> Ints:
        """Return the places of the tokens that have h places of their piece before them."""
        return self._targets

    @cached_property
    def _targets(self) -> Ints:
        """The places of targets: labels are looked up, checked and counted at these."""
        is_target = np.asarray(self.tokens != NO_TOKEN)
        ends = np.append(self.starts[1:], len(self.tokens))
        # No token among the first h of a piece is a target: one loop over pieces, or one over h.
        if len(ends) < self.h:
            context_ends = np.minimum(self.starts + self.h, ends)
            for start, end in zip(self.starts.tolist(), context_ends.tolist(), strict=True):
                is_target[start:end] = False
        else:
            for offset in range(self.h):
                places = self.starts + offset
                is_target[places[places < ends]] = False
        return np.flatnonzero(is_target)

    def examples(self, depth: int | None = None) -> Examples:
        """Return the windows and their targets; with `depth`, only the last tokens of windows."""
        places = self.targets()
        return Examples.of_arrays(self.contexts(places, depth), self.tokens[places])

    def batches(self, batch_tokens: int) -> Iterator[Examples]:
        """Yield the windows and their targets, contexts of about `batch_tokens` tokens at a time.

        The tokens of the block are numbered once, for all batches.
        """
        vocabulary, ranks = factorize(self.tokens)
        targets = self.targets()
        for piece in pieces(len(targets), max(1, batch_tokens // self.h)):
            places = targets[piece]
            windows = ranks[places[:, None] + np.arange(-self.h, 0)]
            yield Examples(
                Contexts.with_ranks(vocabulary, windows),
                label_ranks=ranks[places],
                labels=vocabulary,
                multiplicity=np.ones(len(windows), np.int64),
            )

    def contexts(self, places: Ints, depth: int | None = None) -> Array:
        """Return the h tokens before each of these places, or the last `depth` of them.

        Shapes
        ------
        places : (m,); returned : (m, h)
        """
        return np.asarray(self.tokens[places[:, None] + np.arange(-(depth or self.h), 0)])


def stream_blocks(
    tokens: Any,
    h: int,
    starts: ArrayLike | None = None,
    short: str = "drop",
    *,
    pad: Any = None,
    block_tokens: int = BLOCK_TOKENS,
    cases: Iterable[Any] | None = None,
) -> Iterator[Block]:
    """Yield blocks of a stream.

    Parameters
    ----------
    tokens : ndarray of shape (n,), or iterable of documents
        A flat array of tokens (a memory-mapped one is read block by block), or documents as
        `windows` takes them, which may come from a generator.
    h : int
        Tokens per context.
    starts : array-like of int, optional
        With a flat array: where documents start. Without it, it is one document.
    short, pad
        As in `windows`.
    block_tokens : int
        About how many tokens a block has.
    cases : iterable, optional
        With documents in an iterable: the id of each one's case, in the same order.

    Examples
    --------
    >>> from hammemo.tokens.stream_blocks import stream_blocks
    >>> for block in stream_blocks([["a", "b", "c", "d"], ["e", "f", "g"]], h=2, block_tokens=5):
    ...     print(block.tokens.tolist(), block.targets().tolist())
    ['a', 'b', 'c', 'd', 'e', 'f', 'g'] [2, 3, 6]
    """
    check_window(h, short, pad)
    if isinstance(tokens, (str, bytes)) or hasattr(tokens, "columns"):
        raise TypeError(
            f"tokens is one {type(tokens).__name__}: pass a flat array of tokens, "
            "or an iterable of documents, each a sequence of tokens (text.split() for words, "
            "list(text) for characters)."
        )
    refuse_masked(tokens, "The stream")
    if cases is not None and _is_flat(tokens):
        raise ValueError(
            "cases= is for documents in an iterable, one id for each; "
            "this is a flat array of tokens."
        )
    if short == "drop" and _is_flat(tokens):
        yield from _cut_flat_array(tokens, h, _check_starts(starts, len(tokens)), block_tokens)
        return
    filler = window_filler(h, short, pad)
    block = _OpenBlock(h, block_tokens, has_cases=cases is not None)
    for doc, case in with_cases(_read_documents(tokens, starts), cases):
        padded = join_tokens([filler, doc]) if len(filler) else doc
        document_pieces = _cut_document(
            padded, h, first_length=block.space, later_length=block_tokens
        )
        for number, piece in enumerate(document_pieces):
            block.add(piece, case, continues=number > 0)
            if block.space <= 0:
                yield block.close()
                block = _OpenBlock(h, block_tokens, has_cases=cases is not None)
    if block.pieces:
        yield block.close()


class _OpenBlock:
    """A block while it is filled.

    Parameters
    ----------
    h : int
        Tokens per context.
    size : int
        About how many tokens the block gets.
    has_cases : bool
        Whether documents come with the ids of cases.
    """

    def __init__(self, h: int, size: int, *, has_cases: bool) -> None:
        self.h = h
        self.space = size
        self.pieces: list[Array] = []
        self._cases: list[Any] = []
        self._has_cases = has_cases
        self._continues = False

    def add(self, piece: Array, case: Any, *, continues: bool) -> None:
        """Add a piece of a document; `continues` says that it is not the first of its document."""
        if not self.pieces:
            self._continues = continues
        self.pieces.append(piece)
        self._cases.append(case)
        self.space -= len(piece)

    def close(self) -> Block:
        """Return the block."""
        lengths = np.array([len(piece) for piece in self.pieces], np.int64)
        return Block(
            join_tokens(self.pieces),
            starts=np.cumsum(lengths) - lengths,
            h=self.h,
            continues=self._continues,
            cases=case_words(self._cases) if self._has_cases else None,
        )


def _cut_document(
    tokens: Array, h: int, *, first_length: int, later_length: int
) -> Iterator[Array]:
    """Yield a document in pieces, each with the last h tokens of the one before it.

    The first piece fits into the space that is left in a block. A piece has at least one target.
    """
    start = 0
    length = first_length
    while start + h < len(tokens):
        end = min(len(tokens), start + max(length, h + 1))
        yield tokens[start:end]
        start = end - h
        length = later_length


def _cut_flat_array(tokens: Array, h: int, starts: Ints, block_tokens: int) -> Iterator[Block]:
    """Yield blocks of an array without a step for each document: there may be millions of them."""
    for first in range(0, len(tokens), block_tokens):
        begin = max(0, first - h)  # the h tokens before the first target are its context
        end = min(len(tokens), first + block_tokens)
        next_start = np.searchsorted(starts, begin, "right")
        inside = starts[next_start : np.searchsorted(starts, end)]
        yield Block(
            document(tokens[begin:end].copy()),
            starts=np.append(0, inside - begin),
            h=h,
            continues=begin > 0 and bool(starts[next_start - 1] != begin),
        )


def with_cases(
    documents: Iterator[Array], cases: Iterable[Any] | None
) -> Iterator[tuple[Array, Any]]:
    """Yield each document with the id of its case; with None where there are no cases."""
    ids = repeat(None, 0) if cases is None else cases
    for doc, case in zip_longest(documents, ids):
        if cases is not None and (doc is None or case is None):
            raise ValueError(
                "cases= holds the id of each document's case: "
                "as many ids as documents, and never None."
            )
        yield doc, case


def refuse_short(tokens: Any, h: int, starts: ArrayLike | None = None) -> Any:
    """Return the same documents, or refuse one that has no window.

    A flat array is checked at once, documents in an iterable one by one while they are read.

    Parameters
    ----------
    tokens, h, starts
        As in `stream_blocks`.
    """
    if isinstance(tokens, (str, bytes)) or hasattr(tokens, "columns"):
        return tokens  # `stream_blocks` refuses these
    if not _is_flat(tokens):
        return _refuse_short_documents(tokens, h)
    lengths = np.diff(np.append(_check_starts(starts, len(tokens)), len(tokens)))
    number = int((lengths <= h).argmax())  # the first that is too short; 0 if none is
    if len(tokens) and lengths[number] <= h:
        raise _short_document_error(number, int(lengths[number]), h)
    return tokens


def _refuse_short_documents(tokens: Any, h: int) -> Iterator[Array]:
    for number, doc in enumerate(map(document, tokens)):
        if len(doc) <= h:
            raise _short_document_error(number, len(doc), h)
        yield doc


def _short_document_error(number: int, length: int, h: int) -> ValueError:
    return ValueError(
        f"Document {number} has {length} tokens, and a context of {h} with its label has {h + 1}: "
        "nothing of it would be removed. Nothing was changed. "
        "Say short='pad' if it was learnt so; short='drop' leaves such ones out."
    )


def _read_documents(tokens: Any, starts: ArrayLike | None) -> Iterator[Array]:
    if not _is_flat(tokens):
        if starts is not None:
            raise ValueError(
                "starts is for a flat array; documents in an iterable have boundaries: "
                "leave out starts."
            )
        yield from map(document, tokens)
        return
    edges = [*_check_starts(starts, len(tokens)).tolist(), len(tokens)]
    for start, end in pairwise(edges):
        yield document(tokens[start:end])


def _is_flat(tokens: Any) -> bool:
    return isinstance(tokens, np.ndarray) and tokens.ndim == 1 and tokens.dtype.kind != "O"


def _check_starts(starts: ArrayLike | None, n: int) -> Ints:
    """Return where the documents of n tokens start, the first at 0, each once; or refuse it."""
    offsets = np.zeros(0, np.int64) if starts is None else np.asarray(starts)
    if offsets.ndim != 1 or (offsets.size and offsets.dtype.kind not in "iu"):
        raise ValueError(
            "starts is a flat array of whole numbers: the place of each document's first token."
        )
    if len(offsets) and (int(offsets.min()) < 0 or int(offsets.max()) > n):
        raise ValueError(
            f"starts holds {offsets.min()} to {offsets.max()}; the stream has {n} tokens."
        )
    return np.unique(np.append(offsets.astype(np.int64), 0))
