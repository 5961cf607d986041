"""Documents as arrays: integer codes of all tokens, one document after the other, each with a hash of 64 bits.

The hash of a document is made of the sum of a hash of each token at its place, so it is computed for many documents at
once, and for a long one piece by piece. It protects nothing: tokens can be made that give the hash of others, so
documents with equal hashes are compared.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo._arrays.integers import narrow, object_array
from hammemo._versions import Cached, cached_property
from hammemo.memories.errors import NotStoredError
from hammemo.stores.kept import EVERYTHING
from hammemo.stores.kept_rows import MOST_TOKENS
from hammemo.tokens.contexts import joined
from hammemo.tokens.distinct import token_words
from hammemo.tokens.hashing import key_words, mix
from hammemo.tokens.vocabulary import NO_TOKEN, Token, Vocabulary, factorize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hammemo._arrays.types import Array, Bools, Ints, Words
    from hammemo.tokens.cutting import Cutting
    from hammemo.tokens.streams import Block

PIECE: Final = 1024
"""Targets of a document that are left out together, where a vote leaves out more than one example."""

TOKENS_AT_ONCE: Final = 2**22
"""Tokens that are worked on at a time, about."""


class Way(NamedTuple):
    """How a document was cut into windows: as `fit_stream` was told, or as a row, its last token being the label."""

    short: str
    pad: Token | None = None
    classes: tuple[Token, ...] | None = None
    """The labels of the windows that were learnt; None for all."""

    @classmethod
    def of(cls, cutting: Cutting, labels: Vocabulary | None) -> Way:
        """Return the way of a cutting, with only these labels learnt."""
        return cls(cutting.short, cutting.pad, None if labels is None else tuple(labels.tolist()))

    def n_context(self, h: int) -> int:
        """Return how many tokens at the beginning are context only."""
        return 0 if self.short == "pad" else h


ROW: Final = Way("row")

Key = tuple[Any, ...]
"""The way of a document, its case and then all its tokens."""

NO_CASE: Final = (0, 0)
"""The case of a document that was learnt without one."""


_OF_EACH: Final = ("counts", "words", "cases")


@dataclass(frozen=True, eq=False)
class Documents(Cached):
    """Some documents, one after the other, each with its hash.

    Parameters
    ----------
    tokens : Vocabulary
    codes : ndarray of shape (number of all tokens,)
        One more than the rank of each token; 0 for an empty place.
    lengths : ndarray of int64, shape (n,)
        Each at least one.
    ways : tuple of Way
        In the order of their JSON.
    way_codes, counts : ndarray of int64, shape (n,)
    words : ndarray of uint64, shape (n,)
        The hashes, which do not depend on cases.
    cases : ndarray of uint64, shape (n, 2)
        The hash of each document's case (`hammemo.tokens.streams.case_words`); `NO_CASE` where it has none.
    """

    tokens: Vocabulary
    codes: Array
    lengths: Ints
    ways: tuple[Way, ...]
    way_codes: Ints
    counts: Ints
    words: Words
    cases: Words

    @classmethod
    def of(
        cls, tokens: Vocabulary, ranks: Ints, lengths: Ints, way: Way, seed: int, cases: Words | None = None
    ) -> Documents:
        """Return documents that were all cut in one way, given the ranks of all their tokens."""
        nothing = np.zeros(len(lengths), np.int64)
        owners = _no_cases(len(lengths)) if cases is None else cases
        words = nothing.astype(np.uint64)
        return cls(tokens, narrow(ranks + 1), lengths, (way,), nothing, nothing + 1, words, owners).hashed(seed)

    @classmethod
    def of_keys(cls, counts: Mapping[Key, int], seed: int) -> Documents:
        """Return the documents with these keys, each repeated this often."""
        keys = list(counts)
        tokens, ranks = factorize(object_array(token for key in keys for token in key[2:]))
        ways = in_order(key[0] for key in keys)
        way_codes = np.array([ways.index(key[0]) for key in keys], np.int64)
        lengths = np.array([len(key) - 2 for key in keys], np.int64)
        times = np.fromiter(counts.values(), np.int64, len(keys))
        words = np.zeros(len(keys), np.uint64)
        cases = np.array([key[1] for key in keys], np.uint64).reshape(-1, 2)
        return cls(tokens, narrow(ranks + 1), lengths, ways, way_codes, times, words, cases).hashed(seed)

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> Ints:
        """Where each document starts in the codes."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def has_cases(self) -> bool:
        """Whether one of them has a case."""
        return bool(self.cases.any())

    @cached_property
    def without_cases(self) -> Documents:
        """The same documents in canonical form, without their cases."""
        return summed([replace(self, cases=_no_cases(len(self)))]) if self.has_cases else self

    def hashed(self, seed: int) -> Documents:
        """Return the same documents with their hashes under a seed."""
        hashes = np.roll(token_words(self.tokens, seed), 1)  # the code 0 is that of an empty place
        sums = np.zeros(len(self), np.uint64)
        for part in in_parts(self.lengths, TOKENS_AT_ONCE):
            held, lengths = hashes[self.codes_of(part)], self.lengths[part]
            starts = np.cumsum(lengths) - lengths
            places = np.arange(len(held)) - np.repeat(starts, lengths)
            sums[part] = np.add.reduceat(_placed(held, places, seed), starts)
        return replace(self, words=self.words_of(sums, seed))

    def words_of(self, sums: Words, seed: int) -> Words:
        """Return the hashes of documents, given the sums of the hashes of their tokens."""
        ways = np.array([key_words(seed, "document", _text(way))[0] for way in self.ways], np.uint64)
        return mix(sums ^ mix(ways[self.way_codes] + self.lengths.astype(np.uint64)))

    def codes_of(self, chosen: Ints) -> Array:
        """Return the codes of some documents, one after the other."""
        found = [self.codes[:0]]
        for part in in_parts(self.lengths[chosen], TOKENS_AT_ONCE):
            starts, lengths = self.starts[chosen[part]], self.lengths[chosen[part]]
            before = np.cumsum(lengths) - lengths
            found.append(self.codes[np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)])
        return np.concatenate(found)

    def chosen(self, places: Ints) -> Documents:
        """Return some of the documents, with the tokens and ways that they use."""
        codes, way_codes = self.codes_of(places), self.way_codes[places]
        used, used_ways = np.zeros(len(self.tokens) + 1, bool), np.zeros(len(self.ways), bool)
        used[codes], used_ways[way_codes] = True, True
        used[0] = False
        new = np.cumsum(used)
        new[0] = 0
        return Documents(
            self.tokens.keep(used[1:]),
            narrow(new)[codes] if used.sum() < len(self.tokens) else narrow(codes),
            self.lengths[places],
            tuple(way for way, is_used in zip(self.ways, used_ways.tolist(), strict=True) if is_used),
            (np.cumsum(used_ways) - 1)[way_codes],
            *(getattr(self, name)[places] for name in _OF_EACH),
        )

    def below(self, threshold: int) -> Documents:
        """Return the documents with hashes below a threshold."""
        if threshold == EVERYTHING:
            return self
        low = self.words < np.uint64(threshold)
        return self if low.all() else self.chosen(np.flatnonzero(low))

    def as_keys(self) -> list[Key]:
        """Return each document as a key."""
        tokens = [NO_TOKEN, *self.tokens.tolist()]
        flat, ends = self.codes.tolist(), (self.starts + self.lengths).tolist()
        rows = zip(self.way_codes.tolist(), map(tuple, self.cases.tolist()), self.lengths.tolist(), ends, strict=True)
        return [(self.ways[way], case, *(tokens[code] for code in flat[end - n : end])) for way, case, n, end in rows]

    def copies(self, others: Documents) -> list[Counter[tuple[int, int]]]:
        """Return how often each of some other documents is held here for each case; here is the order of hashes."""
        here = np.append(0, self.tokens.find(others.tokens) + 1)  # 0 where it is not here
        unknown = np.append(False, here[1:] == 0)
        found = []
        for i, (start, n) in enumerate(zip(others.starts.tolist(), others.lengths.tolist(), strict=True)):
            codes, times = others.codes[start : start + n], Counter[tuple[int, int]]()
            place = int(self.words.searchsorted(others.words[i]))
            while place < len(self) and self.words[place] == others.words[i] and not unknown[codes].any():
                same = self.lengths[place] == n and self.ways[self.way_codes[place]] == others.ways[others.way_codes[i]]
                first = int(self.starts[place])
                if same and np.array_equal(self.codes[first : first + n], here[codes]):
                    times[tuple(self.cases[place].tolist())] = int(self.counts[place])
                place += 1
            found.append(times)
        return found


def _no_cases(n: int) -> Words:
    return np.zeros((n, 2), np.uint64)


def summed(parts: Sequence[Documents]) -> Documents:
    """Return the canonical form of documents in any order, some of them several times or a negative number of times."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return NONE
    tokens, ways = parts[0].tokens, in_order(way for part in parts for way in part.ways)
    for part in parts[1:]:
        tokens = tokens.union(part.tokens)
    width = np.min_scalar_type(len(tokens))
    known = [np.append(0, tokens.find(part.tokens) + 1).astype(width) for part in parts]
    known_ways = [np.array([ways.index(way) for way in part.ways], np.int64) for part in parts]
    together = Documents(
        tokens,
        np.concatenate([new[part.codes] for new, part in zip(known, parts, strict=True)]),
        ways=ways,
        way_codes=np.concatenate([new[part.way_codes] for new, part in zip(known_ways, parts, strict=True)]),
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", *_OF_EACH)},
    )
    order, firsts = _distinct_order(together)
    sums = np.add.reduceat(together.counts[order], firsts)
    if (sums < 0).any():
        raise not_kept()
    held = sums > 0
    return replace(together.chosen(order[firsts[held]]), counts=sums[held])


def _distinct_order(documents: Documents) -> tuple[Ints, Ints]:
    """Return the order of documents by their hashes and cases, and where in it each distinct one stands first.

    Different documents with equal hashes stay apart, in the order of their lengths, ways and tokens: tokens can be made
    that give the hash of others.
    """
    words, cases = documents.words, documents.cases
    if documents.has_cases:
        order = np.lexsort((cases[:, 1], cases[:, 0], words))
        again = (words[order][1:] == words[order][:-1]) & (cases[order][1:] == cases[order][:-1]).all(axis=1)
    else:
        order = np.argsort(words, kind="stable")
        again = words[order][1:] == words[order][:-1]
    again = np.flatnonzero(again)
    if _differ(documents, order[again], order[again + 1]).any():
        order = np.array(sorted(order.tolist(), key=lambda i: _sort_key(documents, i)), np.int64)
    is_first = np.ones(len(words), bool)
    is_first[again + 1] = _differ(documents, order[again], order[again + 1])
    return order, np.flatnonzero(is_first)


def _sort_key(documents: Documents, i: int) -> tuple[Any, ...]:
    start, length = int(documents.starts[i]), int(documents.lengths[i])
    codes = documents.codes[start : start + length].tolist()
    return int(documents.words[i]), documents.cases[i].tolist(), length, int(documents.way_codes[i]), codes


def _differ(documents: Documents, here: Ints, there: Ints) -> Bools:
    """Return which of these documents are not the same as the others, one by one."""
    lengths, ways = documents.lengths, documents.way_codes
    differ = np.asarray((lengths[here] != lengths[there]) | (ways[here] != ways[there]))
    alike = np.flatnonzero(~differ)
    for part in in_parts(lengths[here[alike]], TOKENS_AT_ONCE):
        one, other = here[alike[part]], there[alike[part]]
        starts = np.cumsum(lengths[one]) - lengths[one]
        differ[alike[part]] = np.logical_or.reduceat(documents.codes_of(one) != documents.codes_of(other), starts)
    return differ


class DocumentCutter:
    """Puts the documents of a stream together again, block by block.

    Parameters
    ----------
    h : int
        Tokens of a context.
    way : Way
        How they were cut.
    seed : int
        What hashes depend on.

    Attributes
    ----------
    long : Counter
        The hashes of documents that were too long.
    """

    def __init__(self, h: int, way: Way, seed: int) -> None:
        self.long: Counter[int] = Counter()
        self._h, self._way, self._seed = h, way, seed
        self._begin()

    def _begin(self) -> None:
        self._open: list[Array] = []
        """What came of the present document; of a long one, what comes after its last piece, with context."""
        self._length = 0
        self._n_context = self._way.n_context(self._h)
        self._sum = np.uint64(0)
        self._is_long = False
        self._case: Words | None = None

    def cut(self, block: Block) -> Iterator[Documents]:
        """Yield the documents that end in a block, the present one apart."""
        starts, ends = block.starts, np.append(block.starts[1:], len(block.tokens))
        first = int(block.continues)
        if first and ends[0] - starts[0] > self._h:
            yield from self._go_on(block.tokens[starts[0] + self._h : ends[0]])
        if first == len(starts):
            return
        yield from self.finish()
        # a piece with no target is too short a document, or comes again in the next block
        filled = self._h if self._way.short == "pad" else 0
        whole = np.flatnonzero(ends - starts > self._h)
        whole = whole[whole >= first]
        last = len(starts) - 1
        lengths = ends - starts - filled
        short = whole[(lengths[whole] <= longest()) & (whole < last)]
        if len(short):
            before = np.cumsum(lengths[short]) - lengths[short]
            places = np.repeat(starts[short] + filled - before, lengths[short])
            tokens = block.tokens[np.arange(len(places)) + places]
            yield self._documents(tokens, lengths[short], None if block.cases is None else block.cases[short])
        for i in whole[(lengths[whole] > longest()) | (whole == last)].tolist():
            self._case = None if block.cases is None else block.cases[i : i + 1]
            yield from self._go_on(block.tokens[starts[i] + filled : ends[i]])
            if i < last:
                yield from self.finish()

    def finish(self) -> Iterator[Documents]:
        """Yield what is left of the present document."""
        tokens = joined(self._open)
        if self._is_long:
            length = np.array([self._length], np.int64)
            one = replace(NONE, lengths=length, ways=(self._way,), way_codes=np.zeros(1, np.int64))
            self.long[int(one.words_of(np.array([self._sum], np.uint64), self._seed)[0])] += 1
        if len(tokens) > self._n_context:
            yield self._piece(tokens)
        self._begin()

    def _go_on(self, tokens: Array) -> Iterator[Documents]:
        """Add tokens to the present document; yield pieces of it where it is too long."""
        self._open.append(tokens)
        self._length += len(tokens)
        if self._length <= longest():
            return
        new = tokens if self._is_long else joined(self._open)
        vocabulary, ranks = factorize(new)
        places = np.arange(self._length - len(new), self._length)
        hashes = token_words(vocabulary, self._seed)[ranks]
        self._sum = np.add.reduce(np.append(_placed(hashes, places, self._seed), self._sum))
        self._is_long = True
        rest, size = joined(self._open), max(PIECE, self._h)
        while len(rest) - self._n_context > size:
            yield self._piece(rest[: self._n_context + size])
            rest, self._n_context = rest[self._n_context + size - self._h :], self._h
        self._open = [rest]

    def _piece(self, tokens: Array) -> Documents:
        is_later = self._is_long and self._n_context and self._way.short == "pad"
        way = Way("drop", None, self._way.classes) if is_later else self._way
        case = None if self._is_long else self._case  # a piece is not what the case holds
        return self._documents(tokens, np.array([len(tokens)], np.int64), case, way)

    def _documents(self, tokens: Array, lengths: Ints, cases: Words | None, way: Way | None = None) -> Documents:
        vocabulary, ranks = factorize(tokens)
        return Documents.of(vocabulary, ranks, lengths, way or self._way, self._seed, cases)


def longest() -> int:
    """Return how many tokens a document has at most to be kept."""
    return MOST_TOKENS // 8


def in_order(ways: Iterable[Way]) -> tuple[Way, ...]:
    """Return each of these ways once, in canonical order."""
    return tuple(sorted(set(ways), key=_text))


@lru_cache(maxsize=256)
def _text(way: Way) -> str:
    return json.dumps(way)


def _placed(hashes: Words, places: Ints, seed: int) -> Words:
    """Return the hashes of tokens at their places of a document; the sum of them is a hash of their sequence."""
    salt = mix(places.astype(np.uint64) + np.uint64(key_words(seed, "place")[0]))
    return mix(hashes ^ salt)


def in_parts(sizes: Ints, most: int) -> Iterator[Ints]:
    """Yield the places of entries, in order, in parts of about this size together; one entry at least."""
    if len(sizes):
        groups = (np.cumsum(sizes) - 1) // max(most, 1)
        yield from np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(groups)) + 1)


def not_kept() -> NotStoredError:
    """Return the error for a document to be forgotten that is not kept, and would be."""
    return NotStoredError(
        "A document to be forgotten was not learnt in this form, or not that many times. Nothing was changed. "
        "Give each document whole, as it was learnt: with the same short, pad and classes."
    )


NONE: Final = Documents.of_keys({}, 0)
