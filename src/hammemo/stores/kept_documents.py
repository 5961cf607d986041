"""The documents that a model keeps: what its layout and its weights are functions of, as kept rows are for a table.

Kept is every distinct document whose hash lies below a threshold, with how it was cut into windows and how often it is
stored (:mod:`hammemo.stores.kept`); up to `MOST_TOKENS` tokens, all of them. They are held as integer codes, one
document after the other, in the order of their hashes; documents with equal hashes stay apart. Small edits go into an
overlay, as in :mod:`hammemo.stores.kept_rows`. A row that such a model learns alone, by `partial_fit` or `learn_one`,
is a document with one window.

A document of more than an eighth of the tokens is not kept. Its hash is, so that the model knows that it does not hold
everything, and a sample of its pieces, so that a vote can be fitted.

A document may belong to a case, such as a user: then a hash of the case's id is kept with it, so that all documents of
a case are found again, whatever batches they came in. Equal documents of two cases are two entries here. What is chosen
and fitted depends on the documents alone (`Documents.without_cases`).

**The documents themselves are stored**, token by token, in plain text: anyone with the model can read them. Of a case,
only the hash of its id is stored: anyone with the model can test whether an id is there.

What a stream is: the facts by which a model of documents is chosen.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import narrow
from hammemo._arrays.wide_sums import exact_sum
from hammemo._versions import cached_property
from hammemo.memories.errors import NotStoredError
from hammemo.stores.documents import (
    NO_CASE,
    NONE,
    PIECE,
    ROW,
    TOKENS_AT_ONCE,
    DocumentCutter,
    Documents,
    Key,
    Way,
    in_order,
    in_parts,
    longest,
    not_kept,
    summed,
)
from hammemo.stores.kept import EVERYTHING, Kept, LayeredCounts, ModelStore, highest_threshold
from hammemo.stores.kept_rows import MOST_TOKENS, KeptRows
from hammemo.tokens.contexts import MAX_EXAMPLES, Contexts, Examples, document, joined
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.hashing import mix
from hammemo.tokens.streams import Block, case_words, with_cases
from hammemo.tokens.vocabulary import Token, Vocabulary, as_token, factorize
from hammemo.votes.choosing import MAX_OWN_WEIGHT_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints, Words
    from hammemo.votes import Vote

_SMALL_EDIT: Final = 256
"""Edits of up to this number of tokens go into the overlay; so do those of up to 1/32 of the base."""

_SMALL_OVERLAY: Final = 1024
"""An overlay of up to this number of documents stays one, however small the base is."""


@dataclass(frozen=True, eq=False)
class KeptDocuments(Kept):
    """Documents with hashes below a threshold, and how often each is stored: a value that never changes.

    Parameters
    ----------
    h, seed, most, threshold
        As in `Kept`; the size is that of all tokens.
    held : Documents
        The base, in canonical form.
    overlay : LayeredCounts
        How much more often, or less, documents are stored than in the base.
    long : LayeredCounts
        The hashes of documents that are too long to be kept, and how often each is stored.

    Examples
    --------
    >>> from hammemo.stores.kept_documents import Keeper, KeptDocuments, Way
    >>> from hammemo.tokens.streams import stream_blocks
    >>> keeper = Keeper(KeptDocuments(h=2, seed=0, most=100), Way("pad"))
    >>> _ = list(keeper.through(stream_blocks([["a", "b", "c"], ["d", "b"]], h=2, short="pad")))
    >>> len(keeper.store), [len(batch) for batch in keeper.store.batches()]
    (2, [5])
    """

    held: Documents = NONE
    overlay: LayeredCounts[Key] = field(default_factory=LayeredCounts)
    long: LayeredCounts[int] = field(default_factory=LayeredCounts)

    @classmethod
    def empty(cls, h: int, seed: int, most: int | None = None, threshold: int = EVERYTHING) -> KeptDocuments:
        """Return one with no documents, and room for `most` tokens."""
        return cls(h, seed, MOST_TOKENS if most is None else most, threshold)

    def __getstate__(self) -> dict[str, Any]:
        base = self.base  # a document that was forgotten is in base and overlay still: copies do not have it
        return {name: value for name, value in vars(base).items() if name != "base"}

    def __len__(self) -> int:
        return len(self.base.held.without_cases)

    @property
    def kept_documents(self) -> KeptDocuments:
        """Itself."""
        return self

    @property
    def holds_all(self) -> bool:
        """Whether everything that was learnt is kept."""
        return super().holds_all and not self.long.counts()

    @property
    def has_documents(self) -> bool:
        """Whether one is kept that was not learnt as a row."""
        ways = [*self.held.ways, *(key[0] for key in self.overlay.counts())]
        return bool(self.long.counts()) or any(way != ROW for way in ways)

    @property
    def has_cases(self) -> bool:
        """Whether a document is kept with its case."""
        return self.held.has_cases or any(key[1] != NO_CASE for key in self.overlay.counts())

    @property
    def all_have_cases(self) -> bool:
        """Whether every document is kept with its case."""
        return bool(self.base.held.cases.any(axis=1).all())

    def without_cases(self) -> KeptDocuments:
        """Return the same documents without their cases."""
        return replace(self.base, held=self.base.held.without_cases)

    @cached_property
    def base(self) -> KeptDocuments:
        """The same documents without an overlay, and no more than there is room for."""
        counts = self.overlay.counts()
        made = replace(self, overlay=LayeredCounts()) if self.overlay.n_entries else self
        if counts:
            made = replace(made, held=summed([self.held, Documents.of_keys(counts, self.seed)]))
        return made.bounded()

    @property
    def lowest_threshold(self) -> int:
        """The threshold of `state`: small edits are not bounded before the next base is made."""
        return (self.base if self.overlay.n_entries else self).threshold

    def facts(self, n_labels: int) -> StreamFacts:
        """Return what the documents tell of the stream, with this many labels."""
        held = self.base.held.without_cases
        mean_length = exact_sum(held.lengths, held.counts) / max(int(held.counts.sum()), 1)  # up to 2^93
        return StreamFacts(n_labels, mean_length, repeated_share(held.codes, held.lengths))

    @property
    def cutting(self) -> Cutting | None:
        """How all documents were cut; None where there are none, or two ways."""
        cuttings = {(way.short, way.pad) for way in self.base.held.ways if way != ROW}
        return Cutting(*cuttings.pop()) if len(cuttings) == 1 else None  # type: ignore[arg-type]

    def changed(self, examples: Examples, sign: int) -> KeptDocuments:
        """Return it with examples learnt or, with sign -1, forgotten, each a row of its own.

        Of documents that are kept whole, no single windows are forgotten: the document would still hold them.
        """
        tokens = examples.contexts.vocabulary.union(examples.labels)
        labels = tokens.find(examples.labels)[examples.label_ranks]
        ranks = np.column_stack([examples.contexts.ranks_in(tokens), labels])
        lengths = np.full(len(examples), self.h + 1, np.int64)
        rows = replace(Documents.of(tokens, ranks.ravel(), lengths, ROW, self.seed), counts=examples.multiplicity)
        if sign < 0 and self.has_documents and not all(self._holds(rows)):
            raise NotStoredError(
                "The model keeps whole documents, and these examples were not learnt as rows: a kept document would "
                "still hold them. Nothing was changed. Forget whole documents: forget_stream(documents)."
            )
        return self.with_documents(rows, sign)

    def _holds(self, documents: Documents) -> list[bool]:
        """Return whether each of these is kept at least this often."""
        documents = summed([documents])
        held, keys = self.held.copies(documents), documents.as_keys()
        times = zip(held, keys, documents.counts.tolist(), strict=True)
        return [copies[key[1]] + self.overlay.count(key) >= wanted for copies, key, wanted in times]

    def with_documents(self, documents: Documents, sign: int) -> KeptDocuments:
        """Return it with these learnt or, with sign -1, forgotten; NotStoredError if one would be kept and is not."""
        low = documents.below(self.threshold)
        if sign < 0 and self.has_cases:
            low = self._whose(low)
        if len(low.codes) <= max(_SMALL_EDIT, len(self.held.codes) // 32):
            return self._overlaid(low, sign)
        base = self.base
        low = low.below(base.threshold)
        return replace(base, held=summed([base.held, replace(low, counts=sign * low.counts)])).bounded()

    def with_windows(self, block: Block, labels: Vocabulary | None, sign: int) -> KeptDocuments:  # noqa: ARG002
        """Return it as it is: documents are kept whole, by `Keeper`."""
        return self

    def _whose(self, documents: Documents) -> Documents:
        """Return documents to be forgotten, those without a case as copies that are held.

        Copies without a case go first. Those of cases follow where it is clear whose they are.
        """
        documents, found = summed([documents]), Counter[Key]()
        later: defaultdict[Key, Counter[tuple[int, int]]] = defaultdict(Counter)
        for key, times in self.overlay.counts().items():
            later[key[0], *key[2:]][key[1]] += times
        counts = zip(documents.as_keys(), self.held.copies(documents), documents.counts.tolist(), strict=True)
        for (way, case, *tokens), copies, wanted in counts:
            copies.update(later[way, *tokens])
            taken = {case: wanted} if case != NO_CASE else _copies_to_forget(copies, wanted)
            found.update({(way, owner, *tokens): times for owner, times in taken.items()})
        return Documents.of_keys(found, self.seed)

    def of_cases(self, cases: Words) -> dict[tuple[int, int], Counter[Key]]:
        """Return all documents of some cases, given the hashes of these, and how often each is stored."""
        found: dict[tuple[int, int], Counter[Key]] = {(first, second): Counter() for first, second in cases.tolist()}
        held = self.held.chosen(np.flatnonzero(np.isin(self.held.cases[:, 0], cases[:, 0])))
        for key, times in [*zip(held.as_keys(), held.counts.tolist(), strict=True), *self.overlay.counts().items()]:
            if key[1] in found:
                found[key[1]][key] += times
        return {case: +documents for case, documents in found.items()}

    def of_ids(self, ids: Sequence[Any]) -> KeptDocuments:
        """Return all documents of the cases with these ids, or refuse an id that has none."""
        words = case_words(ids)
        found = self.of_cases(words)
        for name, case in zip(ids, map(tuple, words.tolist()), strict=True):
            if not found[case]:
                raise _other_events(name, is_known=False)
        return self._only(Counter({key: times for documents in found.values() for key, times in documents.items()}))

    def of_events(self, documents: Iterable[Any], cases: Iterable[Any], way: Way) -> tuple[KeptDocuments, list[Array]]:
        """Return the kept documents that hold lists of events, each with the id of its case.

        The events of a case are all that it holds, or those of some of its documents (`matched_documents`). Of a case
        without kept documents, one that was learnt without a case is taken.

        Returns
        -------
        found : KeptDocuments
        beyond : list of ndarray
            Events that are not kept and need not be: above the threshold, too long or, cut in this way, too short.
        """
        pairs = [(events, name) for events, name in with_cases(map(document, documents), cases) if len(events)]
        given = self._given([events for events, _ in pairs], case_words([name for _, name in pairs]), way)
        held, found, beyond = self.of_cases(given.cases), Counter[Key](), []
        may_lack = ~self.are_low(given.words) | (given.lengths <= way.n_context(self.h)) | (given.lengths > longest())
        for i, key in enumerate(given.as_keys()):
            left, plain = held[key[1]], (way, NO_CASE, *key[2:])
            taken = matched_documents(key, left)
            if not left and all(self._holds(Documents.of_keys({plain: found[plain] + 1}, self.seed))):
                taken = Counter([plain])
            if taken:
                found.update(taken)
                held[key[1]] = left - taken
            elif may_lack[i]:
                beyond.append(pairs[i][0])
            else:
                raise _other_events(pairs[i][1], is_known=bool(left))
        return self._only(found), beyond

    def _given(self, documents: list[Array], cases: Words, way: Way) -> Documents:
        if not documents:
            return NONE
        tokens, ranks = factorize(joined(documents))
        return Documents.of(tokens, ranks, np.array(list(map(len, documents)), np.int64), way, self.seed, cases)

    def _only(self, documents: Counter[Key]) -> KeptDocuments:
        """Return one that keeps just these."""
        held = summed([Documents.of_keys(documents, self.seed)])
        return KeptDocuments(self.h, self.seed, max(self.most, len(held.codes)), held=held)

    def _overlaid(self, documents: Documents, sign: int) -> KeptDocuments:
        if sign < 0 and not all(self._holds(documents)):
            raise not_kept()
        entries: Counter[Key] = Counter()
        for key, times in zip(documents.as_keys(), documents.counts.tolist(), strict=True):
            entries[key] += times
        kept = replace(self, overlay=self.overlay.plus(entries, sign))
        return kept.base if kept.overlay.n_entries > max(_SMALL_OVERLAY, len(self.held) // 16) else kept

    def with_long(self, words: Mapping[int, int], sign: int) -> KeptDocuments:
        """Return it with documents learnt or forgotten that are too long to be kept, given their hashes."""
        if not words:
            return self
        if sign < 0 and any(self.long.count(word) < times for word, times in words.items()):
            raise not_kept()
        return replace(self, long=self.long.plus(words, sign))

    def plus(self, other: ModelStore, sign: int) -> KeptDocuments | None:
        """Return what both keep or, with sign -1, without the other's; None where the other tells too little."""
        kept, documents, rows = other.kept, other.kept_documents, other.kept_rows
        if (
            kept is None
            or kept.h != self.h
            or not (kept.holds_all or (documents is not None and kept.seed == self.seed))
        ):
            return None
        if rows is not None:
            return self.changed(rows.examples(), sign)
        if documents is None:
            return None
        theirs, mine = documents.base, self
        if theirs.seed == self.seed:
            mine = self.below(theirs.threshold)
        elif len(theirs):
            theirs = replace(theirs, held=summed([theirs.held.hashed(self.seed)]))
        return mine.with_documents(theirs.held, sign).with_long(theirs.long.counts(), sign)

    def emptied(self) -> KeptDocuments:
        """Return one of the same layout with nothing in it."""
        return KeptDocuments(self.h, self.seed, self.most, self.threshold)

    def bounded(self) -> KeptDocuments:
        """Return no more documents than there is room for."""
        if len(self.held.codes) <= self.most:
            return self
        return self.below(highest_threshold(self.held.words, self.held.lengths, self.most))

    def below(self, threshold: int) -> KeptDocuments:
        """Return it with this threshold, if that is lower than its own."""
        if threshold >= self.threshold:
            return self
        base = self.base if self.overlay.n_entries else self
        return replace(base, threshold=threshold, held=base.held.below(threshold))

    def batches(self) -> Iterator[Examples]:
        """Yield the windows of all documents, with how often each is stored, in the order of the hashes."""
        documents, numbers, sizes = self._pieces()
        for part in in_parts(sizes * self.h, TOKENS_AT_ONCE):
            yield self._windows(documents[part], numbers[part]).with_used_labels()

    def fitting_sample(self, vote: Vote) -> Examples:
        """Return the examples to fit a vote to: the windows, or the pieces of documents, with the lowest hashes."""
        most = int(getattr(vote, "sample", 50_000))
        if vote.keeps_cases:
            return self._lowest_pieces(most)
        rows = KeptRows.empty(self.h, self.seed, most)
        for examples in self.batches():
            rows = rows.changed(examples, 1)
        return rows.examples()

    def _lowest_pieces(self, most: int) -> Examples:
        """Return pieces of documents with at most this many examples, but one piece at least.

        No piece comes before its document in the order, so where some documents are kept only, those that are not kept
        change nothing while the sample is small.
        """
        documents, numbers, sizes = self._pieces()
        words = self.base.held.without_cases.words[documents]
        words = np.where(numbers == 0, words, np.maximum(words, mix(words + numbers.astype(np.uint64))))
        order = np.argsort(words, kind="stable")
        found, n_examples, n_pieces = [self._windows(documents[:0], numbers[:0])], 0, 0
        for part in in_parts(np.minimum(sizes, most)[order], max(most, 1)):
            examples = self._windows(documents[order[part]], numbers[order[part]])
            assert examples.cases is not None
            ends = n_examples + np.cumsum(np.bincount(examples.cases, minlength=len(part)))
            fit = max(int(np.searchsorted(ends, most, "right")), int(not n_examples))
            chosen = np.flatnonzero(examples.cases < fit)
            found.append(replace(examples.rows(chosen), cases=examples.cases[chosen] + n_pieces))
            n_examples, n_pieces = n_examples + len(chosen), n_pieces + len(part)
            if fit < len(part):
                break
        return Examples(
            Contexts.with_ranks(found[0].contexts.vocabulary, np.concatenate([one.contexts.ranks for one in found])),
            np.concatenate([one.label_ranks for one in found]),
            found[0].labels,
            np.concatenate([one.multiplicity for one in found]),
            np.concatenate([one.cases for one in found if one.cases is not None]),
        ).with_used_labels()

    def _pieces(self) -> tuple[Ints, Ints, Ints]:
        """Return the pieces of all documents: whose each is, the how manieth it is there, and how many targets."""
        held = self.base.held.without_cases
        targets = held.lengths - self.n_contexts(held)
        n_pieces = -(-targets // PIECE)
        documents = np.repeat(np.arange(len(held)), n_pieces)
        numbers = np.arange(len(documents)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
        return documents, numbers, np.minimum(targets[documents] - numbers * PIECE, PIECE)

    def n_contexts(self, held: Documents) -> Ints:
        """Return for each document how many tokens at its beginning are context only."""
        return np.array([way.n_context(self.h) for way in held.ways], np.int64)[held.way_codes]

    def _windows(self, documents: Ints, numbers: Ints) -> Examples:
        """Return the windows of some pieces, each piece a case, numbered in this order."""
        held = self.base.held.without_cases
        pads = Vocabulary.of(way.pad for way in held.ways if way.pad is not None)
        vocabulary = held.tokens.union(pads)
        ranks = np.append(-1, vocabulary.find(held.tokens))
        filler = np.array([_rank(vocabulary, way.pad) for way in held.ways] or [0], np.int64)
        starts, ways = held.starts[documents], held.way_codes[documents]
        first = starts + self.n_contexts(held)[documents] + numbers * PIECE
        sizes = np.minimum(starts + held.lengths[documents] - first, PIECE)
        cases = np.repeat(np.arange(len(documents)), sizes)
        places = np.arange(len(cases)) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
        labels = ranks[held.codes[places]]
        learnt = labels >= 0
        for code, way in enumerate(held.ways):
            if way.classes is not None:
                chosen = Vocabulary.of(way.classes).find(vocabulary) >= 0
                learnt &= (ways[cases] != code) | np.append(chosen, False)[labels]  # rank -1 reads the last entry
        places, cases, labels = places[learnt], cases[learnt], labels[learnt]
        inside = places[:, None] + np.arange(-self.h, 0)
        outside = inside < starts[cases][:, None]
        contexts = ranks[held.codes[np.where(outside, 0, inside)]] if len(places) else inside
        contexts = np.where(outside, filler[ways[cases]][:, None], contexts)
        times = held.counts[documents][cases]
        return Examples(Contexts.with_ranks(vocabulary, contexts), labels, vocabulary, times, cases)

    def state(self) -> dict[str, Array]:
        """Return what is kept as canonical arrays."""
        held, long = self.base.held, sorted(self.long.counts().items())
        return {
            **{f"tokens.{name}": array for name, array in held.tokens.arrays().items()},
            "codes": held.codes,
            "lengths": narrow(held.lengths),
            "ways": np.frombuffer(json.dumps(held.ways).encode(), np.uint8),
            "way_codes": narrow(held.way_codes),
            "counts": narrow(held.counts),
            **({"cases": held.cases} if held.has_cases else {}),
            "long_words": np.array([word for word, _ in long], np.uint64),
            "long_counts": narrow(np.array([times for _, times in long], np.int64)),
        }

    def restored(self, stored: StoredArrays) -> KeptDocuments:
        """Return one of this layout with these arrays, checked: undo `state`."""
        tokens = Vocabulary.from_arrays(stored.part("tokens"))
        counts = stored.multiplicities("counts", (None,), least=1, below=MAX_EXAMPLES).astype(np.int64)
        lengths = stored.multiplicities("lengths", (len(counts),), least=1, below=2**40).astype(np.int64)
        codes = stored.whole_numbers("codes", (int(lengths.sum()),), below=len(tokens) + 1)
        ways = _stored_ways(stored.take("ways", "uint8", (None,)).tobytes())
        way_codes = stored.whole_numbers("way_codes", (len(counts),), below=max(len(ways), 1)).astype(np.int64)
        long = stored.ascending("long_words", "uint64").tolist()
        times = stored.multiplicities("long_counts", (len(long),), least=1, below=MAX_EXAMPLES).tolist()
        words, cases = np.zeros(len(counts), np.uint64), np.zeros((len(counts), 2), np.uint64)
        has_cases = "cases" in stored
        cases = stored.take("cases", "uint64", (len(counts), 2)) if has_cases else cases
        given = Documents(tokens, codes, lengths, ways, way_codes, counts, words, cases).hashed(self.seed)
        held = summed([given])
        kept = replace(self, held=held, long=LayeredCounts((dict(zip(long, times, strict=True)),)))
        same = held.tokens == tokens and held.ways == ways and np.array_equal(held.codes, codes)
        same = same and np.array_equal(held.words, given.words) and np.array_equal(held.way_codes, way_codes)
        same = same and np.array_equal(held.cases, cases) and held.has_cases == has_cases
        proper = (lengths > kept.n_contexts(held)).all() if same else False
        if not proper or given.below(self.threshold) is not given or not _are_rows(held, self.h):
            raise ValueError("the kept documents are not in canonical order, or their hashes are above the threshold")
        return kept


class Keeper:
    """Looks at the blocks of a stream that pass through, for what a model stores of them.

    Parameters
    ----------
    store : ModelStore or None
        What was stored before.
    way : Way
        How the documents were cut.
    sign : int
        -1 where they are forgotten.

    Attributes
    ----------
    store : ModelStore or None
        What is stored now.
    could_tell : bool
        Whether all documents that were forgotten were kept, so that each was learnt as a whole.
    """

    def __init__(self, store: ModelStore | None, way: Way, sign: int = 1) -> None:
        self.store = store
        self.could_tell = True
        self._way, self._sign = way, sign
        self._labels = None if way.classes is None else Vocabulary.of(way.classes)
        self._waiting: list[Documents] = []
        """Documents that are put among those that are kept when they are as many: so each is moved a few times."""

    def through(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks as they are, after a look at each."""
        kept = None if self.store is None else self.store.kept_documents
        if kept is None:
            yield from self._windows_through(blocks)
            return
        cutter = DocumentCutter(kept.h, self._way, kept.seed)
        for block in self._windows_through(blocks):
            self._take(cutter.cut(block), kept.threshold)
            n_waiting = sum(len(documents.codes) for documents in self._waiting)
            if n_waiting > max(TOKENS_AT_ONCE, len(kept.held.codes)):
                kept = self._kept_with_waiting(kept)
            yield block
        self._take(cutter.finish(), kept.threshold)
        kept = self._kept_with_waiting(kept).with_long(cutter.long, self._sign)
        self.store = None if self.store is None else self.store.with_kept(kept)

    def _windows_through(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Store the windows of each block, where windows are stored."""
        for block in blocks:
            self.store = None if self.store is None else self.store.with_windows(block, self._labels, self._sign)
            yield block

    def _take(self, found: Iterable[Documents], threshold: int) -> None:
        for documents in found:
            low = documents.below(threshold)
            self.could_tell &= low is documents
            self._waiting.append(low)

    def _kept_with_waiting(self, kept: KeptDocuments) -> KeptDocuments:
        documents, self._waiting = summed(self._waiting), []
        return kept.with_documents(documents, self._sign)


def matched_documents(events: Key, held: Counter[Key]) -> Counter[Key]:
    """Return the documents of a case that hold these events; nothing if the events are not theirs.

    They are all documents of the case, whose events may be given in any order, or some of them one after the other. In
    a sequence, the longest document that comes next is taken each time.

    Examples
    --------
    >>> from collections import Counter
    >>> from hammemo.stores.kept_documents import matched_documents
    >>> held = Counter({("pad", 7, "a", "b"): 1, ("pad", 7, "c"): 1, ("pad", 7, "a"): 1})
    >>> sorted(matched_documents(("pad", 7, "a", "b", "c"), held))
    [('pad', 7, 'a', 'b'), ('pad', 7, 'c')]
    >>> matched_documents(("pad", 7, "b", "a"), held)
    Counter()
    """
    tokens = events[2:]
    if Counter(tokens) == Counter(token for key, times in held.items() for token in key[2:] * times):
        return held.copy()
    left, found = held.copy(), Counter[Key]()
    ordered = sorted(held, key=lambda key: (-len(key), key[0] != events[0], str(key[0])))
    while tokens:
        following = next((key for key in ordered if left[key] and tokens[: len(key) - 2] == key[2:]), None)
        if following is None:
            return Counter()
        left[following] -= 1
        found[following] += 1
        tokens = tokens[len(following) - 2 :]
    return found


def _copies_to_forget(copies: Mapping[tuple[int, int], int], wanted: int) -> dict[tuple[int, int], int]:
    """Return which copies of a document are forgotten if no case is named: of each case, how many."""
    plain = copies.get(NO_CASE, 0)
    owners = {case: times for case, times in copies.items() if times > 0 and case != NO_CASE}
    if wanted <= plain or not owners or wanted > plain + sum(owners.values()):
        return {NO_CASE: wanted}
    if wanted == plain + sum(owners.values()):
        return {**owners, **({NO_CASE: plain} if plain else {})}
    if len(owners) > 1:
        raise NotStoredError(
            "A document to be forgotten was learnt for several cases, and none is named. Nothing was changed. Name the "
            "case: forget_stream(frame, case=…), forget_stream(documents, cases=…) or forget_cases(ids)."
        )
    return {**dict.fromkeys(owners, wanted - plain), **({NO_CASE: plain} if plain else {})}


def _other_events(name: Any, *, is_known: bool) -> NotStoredError:
    if not is_known:
        return NotStoredError(f"Case {name!r} was never learnt. Nothing was changed. Leave it out.")
    return NotStoredError(
        f"Case {name!r}: the events given are not those that the model holds of it. Nothing was changed. Give all its "
        f"events, or those of a batch as they were learnt. forget_cases([{name!r}]) forgets all that the model holds."
    )


def _stored_ways(text: bytes) -> tuple[Way, ...]:
    """Return the ways of a file, checked."""
    try:
        listed = json.loads(text)
        ways = tuple(Way(short, pad, None if only is None else tuple(only)) for short, pad, only in listed)
        for way in ways:
            if way != ROW:
                Cutting(way.short, way.pad)  # type: ignore[arg-type]
            if (way.pad is not None and as_token(way.pad) != way.pad) or (
                way.classes is not None and Vocabulary.of(way.classes).tolist() != list(way.classes)
            ):
                raise ValueError("tokens in another form")
    except (ValueError, TypeError, RecursionError):
        raise ValueError("it does not say how its documents were cut") from None
    if ways != in_order(ways) or json.dumps(ways).encode() != text:
        raise ValueError("the ways in which its documents were cut are not in canonical form")
    return ways


def _are_rows(held: Documents, h: int) -> bool:
    """Return whether all documents that were learnt as rows have the length of one, and a label."""
    if ROW not in held.ways:
        return True
    rows = held.way_codes == held.ways.index(ROW)
    ends = (held.starts + held.lengths)[rows] - 1
    return bool((held.lengths[rows] == h + 1).all() and (held.codes[ends] > 0).all())


def _rank(vocabulary: Vocabulary, pad: Token | None) -> int:
    return -1 if pad is None else int(vocabulary.find(Vocabulary.of([pad]))[0])


SHORT_DOCUMENT: Final = 64
"""Documents of fewer tokens on average are sessions, cases or purchases: their order says less than what is in them."""

FEW_REPEATS: Final = 0.05
"""Documents are item histories, too, where a smaller share of tokens has occurred before in its document."""

_JUDGED_TOKENS: Final = 2**20


@dataclass(frozen=True)
class StreamFacts:
    """What the first block of a stream, or the labels given, tell of it."""

    n_labels: int
    mean_length: float
    repeats: float
    """The share of tokens that have occurred before in their document."""

    @property
    def are_items(self) -> bool:
        """Whether documents are clicks or purchases, not text."""
        return self.mean_length < SHORT_DOCUMENT or self.repeats < FEW_REPEATS

    @property
    def has_many_labels(self) -> bool:
        """Whether there are too many labels for weights of their own."""
        return self.n_labels > MAX_OWN_WEIGHT_LABELS


def repeated_share(codes: Ints, lengths: Ints) -> float:
    """Return the share of tokens that occur before in their document, among the first million tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.stores.kept_documents import repeated_share
    >>> repeated_share(np.array([4, 7, 4, 4]), np.array([3, 1]))
    0.25
    """
    owners = np.repeat(np.arange(len(lengths)), lengths)[:_JUDGED_TOKENS]
    keys = owners * (int(codes.max(initial=0)) + 2) + codes[: len(owners)]
    return 1 - len(np.unique(keys)) / max(len(keys), 1)
