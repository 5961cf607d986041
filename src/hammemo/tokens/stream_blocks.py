"""Streams of tokens cut into blocks, so that sliding windows never have to be held all at once.

A *block* is a flat array of tokens in which pieces of documents follow one another. The first h
tokens of a piece are context only; every later one is the target of the h tokens before it. A
document that is longer than a block continues in the next one with its last h tokens repeated, so
no window is lost, none is counted twice, and none crosses the boundary between two documents: the
examples are those of :func:`hammemo.windows`, in any cutting.

A uniform sample of rows that come batch by batch, in space that does not grow with their number.

Every row draws a random number, and those with the smallest numbers are kept, in the order in which
they came: so every set of that many rows is equally likely, and fewer rows are kept whole. How the
rows are cut into batches changes nothing.

Documents of a table of events: one row an event, such as a click; one document a case, such as a
visit.

The events of a case are put in the order of their times; those of one moment keep the order of the
table. Tables are data frames of pandas or polars, or tables of Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise, repeat, zip_longest
from typing import TYPE_CHECKING, Any, Final

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
from hammemo.tokens.missing import is_missing
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary, factorize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from hammemo._arrays.types import Array, Bools, Floats, Ints, Words


class UniformSample:
    """The rows that are kept, as columns: arrays of the same length, such as contexts and labels.

    Parameters
    ----------
    most : int
        How many rows are kept.
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.stream_blocks import UniformSample
    >>> sample = UniformSample(3, seed=0)
    >>> for batch in (np.arange(5), np.arange(5, 9)):
    ...     sample.add(sample.draw(len(batch)), batch)
    >>> len(sample), len(sample.columns[0])
    (3, 3)
    """

    def __init__(self, most: int, seed: int) -> None:
        self._most = most
        self._rng = np.random.Generator(np.random.Philox(seed % 2**64))
        self._numbers = np.empty(0)
        self.columns: tuple[Array, ...] = ()

    def __len__(self) -> int:
        return len(self._numbers)

    def draw(self, n: int) -> Floats:
        """Return the numbers of n more rows, which `add` takes with them."""
        return self._rng.random(n)

    def may_stay(self, numbers: Floats) -> Bools:
        """Return for which of these numbers a row could be kept; others need not be made."""
        full = len(self) == self._most
        return (
            numbers < self._numbers.max() if full and len(self) else np.full(len(numbers), not full)
        )

    def add(self, numbers: Floats, *columns: Array) -> None:
        """Take rows with their numbers, and drop those with larger numbers than enough others."""
        numbers = np.append(self._numbers, numbers)
        if self.columns:
            columns = tuple(
                join_tokens([held, more]) for held, more in zip(self.columns, columns, strict=True)
            )
        if len(numbers) > self._most:
            kept = np.sort(np.argpartition(numbers, self._most)[: self._most])
            numbers, columns = numbers[kept], tuple(column[kept] for column in columns)
        self._numbers, self.columns = numbers, columns


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
    def _targets(self) -> Ints:  # asked for when labels are found, checked and counted
        mask = np.asarray(self.tokens != NO_TOKEN)
        ends = np.append(self.starts[1:], len(self.tokens))
        if len(ends) < self.h:  # few pieces, long contexts: one slice each
            for start, end in zip(
                self.starts.tolist(), np.minimum(self.starts + self.h, ends).tolist(), strict=True
            ):
                mask[start:end] = False
        else:
            for r in range(self.h):
                inside = self.starts + r
                mask[inside[inside < ends]] = False
        return np.flatnonzero(mask)

    def examples(self, depth: int | None = None) -> Examples:
        """Return the windows and their targets.

        With `depth`, windows have only this many of their last tokens.
        """
        places = self.targets()
        return Examples.of_arrays(self.contexts(places, depth), self.tokens[places])

    def batches(self, most: int) -> Iterator[Examples]:
        """Yield the windows and their targets, contexts of about `most` tokens at a time.

        Tokens are numbered once.
        """
        vocabulary, ranks = factorize(self.tokens)
        places = self.targets()
        for part in pieces(len(places), max(1, most // self.h)):
            windows = ranks[places[part, None] + np.arange(-self.h, 0)]
            ones = np.ones(len(windows), np.int64)
            yield Examples(
                Contexts.with_ranks(vocabulary, windows), ranks[places[part]], vocabulary, ones
            )

    def contexts(self, places: Ints, depth: int | None = None) -> Array:
        """Return the h tokens before each of these places, or the last `depth` of them.

        Shapes
        ------
        places : (m,); returned : (m, h)
        """
        return np.asarray(self.tokens[places[:, None] + np.arange(-(depth or self.h), 0)])


class WindowSample:
    """A uniform sample of the windows of blocks that pass through.

    See :mod:`hammemo.tokens.stream_blocks`.

    Parameters
    ----------
    most : int
        How many windows are kept.
    seed : int
    labels : Vocabulary, optional
        Only windows whose target is one of these count.

    Examples
    --------
    >>> from hammemo.tokens.stream_blocks import WindowSample, stream_blocks
    >>> sample = WindowSample(3, seed=0)
    >>> blocks = stream_blocks([list("abcdefgh")], h=2)
    >>> sum(len(block.targets()) for block in sample.through(blocks))
    6
    >>> len(sample.examples())
    3
    """

    def __init__(self, most: int, seed: int, labels: Vocabulary | None = None) -> None:
        self._labels = labels
        self._sample = UniformSample(most, seed)

    def __len__(self) -> int:
        return len(self._sample)

    def through(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks as they are, after a look at each."""
        for block in blocks:
            self._look_at(block)
            yield block

    def examples(self) -> Examples:
        """Return the windows that were kept and their targets; there must have been one."""
        (windows,) = self._sample.columns  # contexts with their targets
        return Examples.of_arrays(windows[:, :-1], windows[:, -1])

    def _look_at(self, block: Block) -> None:
        places = block.targets()
        numbers = self._sample.draw(len(places))
        likely = self._sample.may_stay(numbers)
        places, numbers = places[likely], numbers[likely]
        if self._labels is not None and len(places):
            tokens, ranks = factorize(block.tokens[places])
            counted = (self._labels.find(tokens) >= 0)[ranks]
            places, numbers = places[counted], numbers[counted]
        if len(places):
            windows = np.concatenate([block.contexts(places), block.tokens[places, None]], axis=1)
            self._sample.add(numbers, windows)


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
        yield from _flat_blocks(tokens, h, _checked_starts(starts, len(tokens)), block_tokens)
        return
    filler = window_filler(h, short, pad)
    held: list[tuple[Array, Any]] = []
    space, continues = block_tokens, False
    for whole, case in with_cases(_documents(tokens, starts), cases):
        for number, piece in enumerate(_pieces(whole, h, filler, space, block_tokens)):
            continues = number > 0 if not held else continues
            held.append((piece, case))
            space -= len(piece)
            if space <= 0:
                yield _block(held, h, continues=continues, has_cases=cases is not None)
                held, space = [], block_tokens
    if held:
        yield _block(held, h, continues=continues, has_cases=cases is not None)


def with_cases(
    documents: Iterator[Array], cases: Iterable[Any] | None
) -> Iterator[tuple[Array, Any]]:
    """Yield each document with the id of its case; with None where there are no cases."""
    for whole, case in zip_longest(documents, repeat(None, 0) if cases is None else cases):
        if cases is not None and (whole is None or case is None):
            raise ValueError(
                "cases= holds the id of each document's case: "
                "as many ids as documents, and never None."
            )
        yield whole, case


def long_enough(tokens: Any, h: int, starts: ArrayLike | None = None) -> Any:
    """Return the same documents, or refuse one that has no window, when it is come to.

    Parameters
    ----------
    tokens, h, starts
        As in `stream_blocks`.
    """
    if isinstance(tokens, (str, bytes)) or hasattr(tokens, "columns"):
        return tokens  # refused where it is read
    if not _is_flat(tokens):
        return _long_documents(tokens, h)
    lengths = np.diff(np.append(_checked_starts(starts, len(tokens)), len(tokens)))
    number = int((lengths <= h).argmax())  # the first that is too short, if any is
    if len(tokens) and lengths[number] <= h:
        raise _too_short(number, int(lengths[number]), h)
    return tokens


def _long_documents(tokens: Any, h: int) -> Iterator[Array]:
    for number, whole in enumerate(map(document, tokens)):
        if len(whole) <= h:
            raise _too_short(number, len(whole), h)
        yield whole


def _too_short(number: int, length: int, h: int) -> ValueError:
    return ValueError(
        f"Document {number} has {length} tokens, and a context of {h} with its label has {h + 1}: "
        "nothing of it would be removed. Nothing was changed. "
        "Say short='pad' if it was learnt so; short='drop' leaves such ones out."
    )


def _documents(tokens: Any, starts: ArrayLike | None) -> Iterator[Array]:
    if not _is_flat(tokens):
        if starts is not None:
            raise ValueError(
                "starts is for a flat array; documents in an iterable have boundaries: "
                "leave out starts."
            )
        yield from map(document, tokens)
        return
    edges = [*_checked_starts(starts, len(tokens)).tolist(), len(tokens)]
    for first, last in pairwise(edges):
        yield document(tokens[first:last])


def _is_flat(tokens: Any) -> bool:
    return isinstance(tokens, np.ndarray) and tokens.ndim == 1 and tokens.dtype.kind != "O"


def _checked_starts(starts: ArrayLike | None, n: int) -> Ints:
    """Return where documents start, the first at 0, each once."""
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


def _flat_blocks(tokens: Array, h: int, starts: Ints, block_tokens: int) -> Iterator[Block]:
    """Yield blocks of an array without looking at each document.

    There may be millions of short ones.
    """
    for first in range(0, len(tokens), block_tokens):
        begin, end = max(0, first - h), min(len(tokens), first + block_tokens)
        inside = starts[np.searchsorted(starts, begin, "right") : np.searchsorted(starts, end)]
        continues = begin > 0 and starts[np.searchsorted(starts, begin, "right") - 1] != begin
        yield Block(
            document(tokens[begin:end].copy()), np.append(0, inside - begin), h, bool(continues)
        )


def _pieces(whole: Array, h: int, filler: Array, space: int, block_tokens: int) -> Iterator[Array]:
    """Cut one document so that the first piece fits into what is left of a block."""
    if len(filler):
        whole = join_tokens([filler, whole])
    first = 0
    while first + h < len(whole):
        last = min(len(whole), first + max(space, h + 1))
        yield whole[first:last]
        first, space = last - h, block_tokens


def _block(held: list[tuple[Array, Any]], h: int, *, continues: bool, has_cases: bool) -> Block:
    lengths = np.array([len(piece) for piece, _ in held], np.int64)
    cases = case_words([case for _, case in held]) if has_cases else None
    return Block(
        join_tokens([piece for piece, _ in held]), np.cumsum(lengths) - lengths, h, continues, cases
    )


FRAME_CONTEXT: Final = 30
"""Tokens per context that a table of events is learnt with, where nothing is said."""


def event_documents(
    frame: Any, case: str | None, item: str | None, time: str | None
) -> tuple[list[Array], list[Any]]:
    """Return the items of each case, in the order of time, and the ids of the cases.

    Examples
    --------
    >>> import pandas as pd
    >>> from hammemo.tokens.stream_blocks import event_documents
    >>> items = ["cup", "pen", "tea", "pot"]
    >>> clicks = pd.DataFrame({"visit": [7, 3, 7, 7], "item": items, "at": [2, 1, 1, 3]})
    >>> documents, visits = event_documents(clicks, "visit", "item", "at")
    >>> [document.tolist() for document in documents], visits
    ([['pen'], ['tea', 'cup', 'pot']], [3, 7])
    """
    if case is None or item is None:
        raise ValueError(
            "A table of events is learnt by its columns: say case=… (a visit), "
            "item=… (what is predicted) and, where rows are not in order, time=…"
        )
    if not hasattr(frame, "columns"):
        raise TypeError(
            "case=, item= and time= name columns of a data frame; "
            f"this is a {type(frame).__name__}."
        )
    ids, cases = np.unique(_column(frame, case), return_inverse=True)
    items = _column(frame, item)
    order = (
        np.argsort(cases, kind="stable")
        if time is None
        else np.lexsort((_moments(frame, time), cases))
    )
    if not len(cases):
        return [], []
    if ids.dtype.kind in "mM":
        ids = ids.astype(f"{ids.dtype.kind}8[us]")  # the unit that has objects of Python
    return np.split(items[order], np.cumsum(np.bincount(cases))[:-1]), ids.tolist()


def case_words(ids: Sequence[Any]) -> Words:
    """Return a hash of 128 bits of the id of each case.

    An id is a number, a string or anything that has a text; 5, 5.0 and "5" are the same. The hash
    depends on nothing else, so that models with different seeds can be merged. It hides ids from a
    reader, not from a person who can guess them.

    Shapes
    ------
    returned : (number of ids, 2)

    Examples
    --------
    >>> from hammemo.tokens.stream_blocks import case_words
    >>> five, same, other = case_words([5, "5", "u5"]).tolist()
    >>> five == same, five == other
    (True, False)
    """
    digests = b"".join(
        blake2b(_id_text(case).encode(), digest_size=16, person=b"hammemo case").digest()
        for case in ids
    )
    return np.frombuffer(digests, "<u8").astype(np.uint64).reshape(-1, 2)


def _id_text(case: Any) -> str:
    if is_missing(case):
        raise ValueError(f"A case has no id: {case!r}. Give each document the id of its case.")
    if isinstance(case, (bool, np.bool_, int, np.integer)) or (
        isinstance(case, (float, np.floating)) and case % 1 == 0
    ):
        return str(int(case))
    return str(case)


def _column(frame: Any, name: str) -> Array:
    """Return a column, or refuse one that is not there or has missing values."""
    names = getattr(frame, "column_names", None) or list(frame.columns)
    if name not in names:
        raise ValueError(f"The table has no column {name!r}: it has {', '.join(map(repr, names))}.")
    column = frame[name]
    found = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if found.dtype.kind in "OfmM":
        lacking = (
            np.fromiter(map(is_missing, found), bool) if found.dtype.kind == "O" else found != found
        )
        if lacking.any():
            raise ValueError(
                f"Column {name!r} has no value in row {int(lacking.argmax())}: leave such rows out."
            )
    if found.dtype.kind == "O" and len({type(value) for value in found.tolist()}) > 1:
        raise ValueError(f"Column {name!r} has values of several types: convert it to one.")
    return found


def _moments(frame: Any, name: str) -> Array:
    found = _column(frame, name)
    if found.dtype.kind not in "iufmM":
        raise ValueError(
            f"Column {name!r} holds no times: convert it to numbers or dates, "
            "for example by pd.to_datetime."
        )
    return found
