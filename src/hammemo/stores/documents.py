"""Documents as arrays: codes of all tokens, one document after the other, each with a hash.

The hash of a document is made of the sum of a hash of each token at its place, so it is computed
for many documents at once, and for a long one piece by piece. It protects nothing: tokens can be
made that give the hash of others, so documents with equal hashes are compared.
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
from hammemo.tokens.contexts import join_tokens
from hammemo.tokens.distinct import token_words
from hammemo.tokens.hashing import key_words, mix
from hammemo.tokens.vocabulary import NO_TOKEN, Token, Vocabulary, factorize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hammemo._arrays.types import Array, Bools, Ints, Words
    from hammemo.tokens.cutting import Cutting
    from hammemo.tokens.stream_blocks import Block

PIECE: Final = 1024
"""Targets of a document that a vote leaves out together, where it leaves out more than one."""

TOKENS_AT_ONCE: Final = 2**22
"""Tokens that are worked on at a time, about."""


class Way(NamedTuple):
    """How a document was cut into windows.

    It is as `fit_stream` was asked to, or as a row, whose last token is the label.
    """

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
        The hash of each document's case (`hammemo.tokens.event_tables.case_words`); `NO_CASE`
        where it has none.
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
        cls,
        tokens: Vocabulary,
        ranks: Ints,
        lengths: Ints,
        way: Way,
        *,
        seed: int,
        cases: Words | None = None,
    ) -> Documents:
        """Return documents that were all cut in one way, given the ranks of all their tokens."""
        n = len(lengths)
        documents = cls(
            tokens=tokens,
            codes=narrow(ranks + 1),
            lengths=lengths,
            ways=(way,),
            way_codes=np.zeros(n, np.int64),
            counts=np.ones(n, np.int64),
            words=np.zeros(n, np.uint64),
            cases=_no_cases(n) if cases is None else cases,
        )
        return documents.hash(seed)

    @classmethod
    def of_keys(cls, counts: Mapping[Key, int], seed: int) -> Documents:
        """Return the documents with these keys, each repeated this often."""
        keys = list(counts)
        tokens, ranks = factorize(object_array(token for key in keys for token in key[2:]))
        ways = in_order(key[0] for key in keys)
        documents = cls(
            tokens=tokens,
            codes=narrow(ranks + 1),
            lengths=np.array([len(key) - 2 for key in keys], np.int64),
            ways=ways,
            way_codes=np.array([ways.index(key[0]) for key in keys], np.int64),
            counts=np.fromiter(counts.values(), np.int64, len(keys)),
            words=np.zeros(len(keys), np.uint64),
            cases=np.array([key[1] for key in keys], np.uint64).reshape(-1, 2),
        )
        return documents.hash(seed)

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
        if not self.has_cases:
            return self
        return sum_documents([replace(self, cases=_no_cases(len(self)))])

    def hash(self, seed: int) -> Documents:
        """Return the same documents with their hashes under a seed."""
        hashes = np.roll(token_words(self.tokens, seed), 1)  # the code 0 is that of an empty place
        sums = np.zeros(len(self), np.uint64)
        for batch in in_batches(self.lengths, TOKENS_AT_ONCE):
            token_hashes = hashes[self.codes_of(batch)]
            lengths = self.lengths[batch]
            starts = np.cumsum(lengths) - lengths
            places = np.arange(len(token_hashes)) - np.repeat(starts, lengths)
            sums[batch] = np.add.reduceat(_hash_places(token_hashes, places, seed), starts)
        return replace(self, words=self.words_of(sums, seed))

    def words_of(self, sums: Words, seed: int) -> Words:
        """Return the hashes of documents, given the sums of the hashes of their tokens."""
        salts = [key_words(seed, "document", _text(way))[0] for way in self.ways]
        ways = np.array(salts, np.uint64)
        return mix(sums ^ mix(ways[self.way_codes] + self.lengths.astype(np.uint64)))

    def codes_of(self, places: Ints) -> Array:
        """Return the codes of some documents, one after the other."""
        codes = [self.codes[:0]]
        for batch in in_batches(self.lengths[places], TOKENS_AT_ONCE):
            starts = self.starts[places[batch]]
            lengths = self.lengths[places[batch]]
            new_starts = np.cumsum(lengths) - lengths
            shifts = np.repeat(starts - new_starts, lengths)
            codes.append(self.codes[np.arange(int(lengths.sum())) + shifts])
        return np.concatenate(codes)

    def choose(self, places: Ints) -> Documents:
        """Return some of the documents, with the tokens and ways that they use."""
        codes = self.codes_of(places)
        way_codes = self.way_codes[places]
        has_code = np.zeros(len(self.tokens) + 1, bool)
        has_code[codes] = True
        has_code[0] = False
        used_ways = np.zeros(len(self.ways), bool)
        used_ways[way_codes] = True
        new_codes = np.cumsum(has_code)
        new_codes[0] = 0
        if has_code.sum() < len(self.tokens):
            codes = narrow(new_codes)[codes]
        else:
            codes = narrow(codes)
        ways = zip(self.ways, used_ways.tolist(), strict=True)
        return Documents(
            tokens=self.tokens.keep(has_code[1:]),
            codes=codes,
            lengths=self.lengths[places],
            ways=tuple(way for way, is_used in ways if is_used),
            way_codes=(np.cumsum(used_ways) - 1)[way_codes],
            counts=self.counts[places],
            words=self.words[places],
            cases=self.cases[places],
        )

    def below(self, threshold: int) -> Documents:
        """Return the documents with hashes below a threshold."""
        if threshold == EVERYTHING:
            return self
        low = self.words < np.uint64(threshold)
        if low.all():
            return self
        return self.choose(np.flatnonzero(low))

    def as_keys(self) -> list[Key]:
        """Return each document as a key."""
        tokens = [NO_TOKEN, *self.tokens.tolist()]
        flat = self.codes.tolist()
        ends = (self.starts + self.lengths).tolist()
        rows = zip(
            self.way_codes.tolist(),
            map(tuple, self.cases.tolist()),
            self.lengths.tolist(),
            ends,
            strict=True,
        )
        return [
            (self.ways[way], case, *(tokens[code] for code in flat[end - n : end]))
            for way, case, n, end in rows
        ]

    def copies(self, others: Documents) -> list[Counter[tuple[int, int]]]:
        """Return how often each of some other documents is held here, for each case.

        Here documents must be in the order of hashes.
        """
        code_of = np.append(0, self.tokens.find(others.tokens) + 1)  # 0 where it is not here
        is_unknown = np.append(False, code_of[1:] == 0)
        copies = []
        spans = zip(others.starts.tolist(), others.lengths.tolist(), strict=True)
        for i, (start, length) in enumerate(spans):
            codes = others.codes[start : start + length]
            if is_unknown[codes].any():
                copies.append(Counter[tuple[int, int]]())
                continue
            way = others.ways[others.way_codes[i]]
            copies.append(self._count_copies(others.words[i], way, code_of[codes]))
        return copies

    def _count_copies(self, word: np.uint64, way: Way, codes: Ints) -> Counter[tuple[int, int]]:
        """Return how often a document is held for each case, given its hash, way and codes here."""
        times = Counter[tuple[int, int]]()
        place = int(self.words.searchsorted(word))
        # documents with equal hashes may be others
        while place < len(self) and self.words[place] == word:
            if self.lengths[place] == len(codes) and self.ways[self.way_codes[place]] == way:
                first = int(self.starts[place])
                if np.array_equal(self.codes[first : first + len(codes)], codes):
                    times[tuple(self.cases[place].tolist())] = int(self.counts[place])
            place += 1
        return times


def _no_cases(n: int) -> Words:
    return np.zeros((n, 2), np.uint64)


def sum_documents(summands: Sequence[Documents]) -> Documents:
    """Return the canonical form of documents in any order.

    Some of them may be there several times, or a negative number of times.
    """
    documents = [summand for summand in summands if len(summand)]
    if not documents:
        return NONE
    together = _put_together(documents)
    order, firsts = _distinct_order(together)
    sums = np.add.reduceat(together.counts[order], firsts)
    if (sums < 0).any():
        raise not_kept()
    stays = sums > 0
    return replace(together.choose(order[firsts[stays]]), counts=sums[stays])


def _put_together(summands: Sequence[Documents]) -> Documents:
    """Return documents one after the other, with common tokens and ways."""
    tokens = summands[0].tokens
    for summand in summands[1:]:
        tokens = tokens.union(summand.tokens)
    ways = in_order(way for summand in summands for way in summand.ways)
    width = np.min_scalar_type(len(tokens))
    codes = []
    way_codes = []
    for summand in summands:
        new_codes = np.append(0, tokens.find(summand.tokens) + 1).astype(width)
        codes.append(new_codes[summand.codes])
        new_ways = np.array([ways.index(way) for way in summand.ways], np.int64)
        way_codes.append(new_ways[summand.way_codes])
    return Documents(
        tokens=tokens,
        codes=np.concatenate(codes),
        lengths=np.concatenate([summand.lengths for summand in summands]),
        ways=ways,
        way_codes=np.concatenate(way_codes),
        counts=np.concatenate([summand.counts for summand in summands]),
        words=np.concatenate([summand.words for summand in summands]),
        cases=np.concatenate([summand.cases for summand in summands]),
    )


def _distinct_order(documents: Documents) -> tuple[Ints, Ints]:
    """Return the order of documents, and where in it each distinct one stands first.

    They are ordered by their hashes and cases. Different documents with equal hashes stay apart, in
    the order of their lengths, ways and tokens: tokens can be made that give the hash of others.
    """
    words = documents.words
    cases = documents.cases
    if documents.has_cases:
        order = np.lexsort((cases[:, 1], cases[:, 0], words))
        same_case = (cases[order][1:] == cases[order][:-1]).all(axis=1)
        is_repeated = (words[order][1:] == words[order][:-1]) & same_case
    else:
        order = np.argsort(words, kind="stable")
        is_repeated = words[order][1:] == words[order][:-1]
    # Each is compared with the next one, which has the same hash and case.
    repeated = np.flatnonzero(is_repeated)
    if _differ(documents, order[repeated], order[repeated + 1]).any():
        order = np.array(sorted(order.tolist(), key=lambda i: _sort_key(documents, i)), np.int64)
    is_first = np.ones(len(words), bool)
    is_first[repeated + 1] = _differ(documents, order[repeated], order[repeated + 1])
    return order, np.flatnonzero(is_first)


def _sort_key(documents: Documents, i: int) -> list[Any]:
    """Return what a document is ordered by: all of it."""
    start = int(documents.starts[i])
    length = int(documents.lengths[i])
    codes = documents.codes[start : start + length].tolist()
    word = int(documents.words[i])
    case = documents.cases[i].tolist()
    return [word, case, length, int(documents.way_codes[i]), codes]


def _differ(documents: Documents, left: Ints, right: Ints) -> Bools:
    """Return which of these documents are not the same as the others, one by one."""
    lengths = documents.lengths
    ways = documents.way_codes
    differ = np.asarray((lengths[left] != lengths[right]) | (ways[left] != ways[right]))
    alike = np.flatnonzero(~differ)
    for batch in in_batches(lengths[left[alike]], TOKENS_AT_ONCE):
        places = left[alike[batch]]
        other_places = right[alike[batch]]
        starts = np.cumsum(lengths[places]) - lengths[places]
        codes_differ = documents.codes_of(places) != documents.codes_of(other_places)
        differ[alike[batch]] = np.logical_or.reduceat(codes_differ, starts)
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
        self._h = h
        self._way = way
        self._seed = seed
        self._begin()

    def _begin(self) -> None:
        self._open: list[Array] = []
        """What came of the present document; of a long one, what comes after its last piece.

        The tokens of its context are there, too."""
        self._length = 0
        self._n_context = self._way.n_context(self._h)
        self._sum = np.uint64(0)
        self._is_long = False
        self._case: Words | None = None

    def cut(self, block: Block) -> Iterator[Documents]:
        """Yield the documents that end in a block, the present one apart."""
        starts = block.starts
        ends = np.append(block.starts[1:], len(block.tokens))
        first = int(block.continues)
        if first and ends[0] - starts[0] > self._h:
            yield from self._go_on(block.tokens[starts[0] + self._h : ends[0]])
        if first == len(starts):
            return
        yield from self.finish()
        # a piece with no target is too short a document, or comes again in the next block
        filled = self._h if self._way.short == "pad" else 0
        places = np.flatnonzero(ends - starts > self._h)
        places = places[places >= first]
        last = len(starts) - 1
        lengths = ends - starts - filled
        # all that end here and are not too long, at once
        short = places[(lengths[places] <= longest()) & (places < last)]
        if len(short):
            new_starts = np.cumsum(lengths[short]) - lengths[short]
            shifts = np.repeat(starts[short] + filled - new_starts, lengths[short])
            tokens = block.tokens[np.arange(len(shifts)) + shifts]
            cases = None
            if block.cases is not None:
                cases = block.cases[short]
            yield self._documents(tokens, lengths[short], cases)
        # the others, and the last one, which may go on
        for i in places[(lengths[places] > longest()) | (places == last)].tolist():
            self._case = None
            if block.cases is not None:
                self._case = block.cases[i : i + 1]
            yield from self._go_on(block.tokens[starts[i] + filled : ends[i]])
            if i < last:
                yield from self.finish()

    def finish(self) -> Iterator[Documents]:
        """Yield what is left of the present document."""
        tokens = join_tokens(self._open)
        if self._is_long:
            length = np.array([self._length], np.int64)
            document = replace(
                NONE, lengths=length, ways=(self._way,), way_codes=np.zeros(1, np.int64)
            )
            (word,) = document.words_of(np.array([self._sum], np.uint64), self._seed)
            self.long[int(word)] += 1
        if len(tokens) > self._n_context:
            yield self._piece(tokens)
        self._begin()

    def _go_on(self, tokens: Array) -> Iterator[Documents]:
        """Add tokens to the present document; yield pieces of it where it is too long."""
        self._open.append(tokens)
        self._length += len(tokens)
        if self._length <= longest():
            return
        # the hash of a long document is added up token by token
        new = tokens
        if not self._is_long:
            new = join_tokens(self._open)
        vocabulary, ranks = factorize(new)
        places = np.arange(self._length - len(new), self._length)
        hashes = _hash_places(token_words(vocabulary, self._seed)[ranks], places, self._seed)
        self._sum = np.add.reduce(np.append(hashes, self._sum))
        self._is_long = True
        open_tokens = join_tokens(self._open)
        size = max(PIECE, self._h)
        while len(open_tokens) - self._n_context > size:
            yield self._piece(open_tokens[: self._n_context + size])
            open_tokens = open_tokens[self._n_context + size - self._h :]
            self._n_context = self._h
        self._open = [open_tokens]

    def _piece(self, tokens: Array) -> Documents:
        """Return a document, or a piece of one that is too long."""
        way = self._way
        case = self._case
        if self._is_long:
            case = None  # a piece is not what the case holds
            if self._n_context and way.short == "pad":  # a later piece has its context
                way = Way("drop", None, way.classes)
        return self._documents(tokens, np.array([len(tokens)], np.int64), case, way)

    def _documents(
        self, tokens: Array, lengths: Ints, cases: Words | None, way: Way | None = None
    ) -> Documents:
        """Return documents of these lengths, one after the other."""
        vocabulary, ranks = factorize(tokens)
        way = way or self._way
        return Documents.of(vocabulary, ranks, lengths, way, seed=self._seed, cases=cases)


def longest() -> int:
    """Return how many tokens a document has at most to be kept."""
    return MOST_TOKENS // 8


def in_order(ways: Iterable[Way]) -> tuple[Way, ...]:
    """Return each of these ways once, in canonical order."""
    return tuple(sorted(set(ways), key=_text))


@lru_cache(maxsize=256)
def _text(way: Way) -> str:
    return json.dumps(way)


def _hash_places(hashes: Words, places: Ints, seed: int) -> Words:
    """Return the hashes of tokens at their places of a document.

    The sum of them is a hash of their sequence.
    """
    salt = mix(places.astype(np.uint64) + np.uint64(key_words(seed, "place")[0]))
    return mix(hashes ^ salt)


def in_batches(sizes: Ints, batch_size: int) -> Iterator[Ints]:
    """Yield the places of entries, in order, in batches of about this size together.

    A batch has at least one entry.
    """
    if len(sizes):
        groups = (np.cumsum(sizes) - 1) // max(batch_size, 1)
        yield from np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(groups)) + 1)


def not_kept() -> NotStoredError:
    """Return the error for a document to be forgotten that is not kept, and would be."""
    return NotStoredError(
        "A document to be forgotten was not learnt in this form, or not that many times. "
        "Nothing was changed. Give each document whole, as it was learnt: "
        "with the same short, pad and classes."
    )


NONE: Final = Documents.of_keys({}, 0)
