"""The documents that a model keeps, as it keeps the rows of a table.

Its layout and its weights are functions of them. Kept is every distinct document whose hash lies
below a threshold, with how it was cut into windows and how often it is stored
(:mod:`hammemo.stores.kept`); up to `MOST_TOKENS` tokens, all of them. They are held as integer
codes, one document after the other, in the order of their hashes; documents with equal hashes stay
apart. Small edits go into an overlay, as in :mod:`hammemo.stores.kept_rows`. A row that such a
model learns alone, by `partial_fit` or `learn_one`, is a document with one window.

A document of more than an eighth of the tokens is not kept. Its hash is, so that the model knows
that it does not hold everything, and a sample of its pieces, so that a vote can be fitted.

A document may belong to a case, such as a user: then a hash of the case's id is kept with it, so
that all documents of a case are found again, whatever batches they came in. Equal documents of two
cases are two entries here. What is chosen and fitted depends on the documents alone
(`Documents.without_cases`).

**The documents themselves are stored**, token by token, in plain text: anyone with the model can
read them. Of a case, only the hash of its id is stored: anyone with the model can test whether an
id is there.

`StreamFacts` says what a stream is: the facts by which a model of documents is chosen.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
    in_batches,
    in_order,
    longest,
    not_kept,
    sum_documents,
)
from hammemo.stores.kept import EVERYTHING, Kept, LayeredCounts, ModelStore, highest_threshold
from hammemo.stores.kept_rows import MOST_TOKENS, KeptRows
from hammemo.tokens.contexts import MAX_EXAMPLES, Contexts, Examples, document, join_tokens
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.event_tables import case_words
from hammemo.tokens.hashing import mix
from hammemo.tokens.stream_blocks import Block, with_cases
from hammemo.tokens.vocabulary import Token, Vocabulary, as_token, factorize
from hammemo.votes.choose_weights import MAX_OWN_WEIGHT_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints, Words
    from hammemo.votes import Vote

_SMALL_EDIT: Final = 256
"""Edits of up to so many tokens go into the overlay; so do those of up to 1/32 of the base."""

_SMALL_OVERLAY: Final = 1024
"""An overlay of up to this number of documents stays one, however small the base is."""


@dataclass(frozen=True, eq=False)
class KeptDocuments(Kept):
    """Documents with hashes below a threshold, and how often each is stored.

    It is a value that never changes.

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
    >>> from hammemo.tokens.stream_blocks import stream_blocks
    >>> keeper = Keeper(KeptDocuments(h=2, seed=0, most=100), Way("pad"))
    >>> _ = list(keeper.through(stream_blocks([["a", "b", "c"], ["d", "b"]], h=2, short="pad")))
    >>> len(keeper.store), [len(batch) for batch in keeper.store.batches()]
    (2, [5])
    """

    held: Documents = NONE
    overlay: LayeredCounts[Key] = field(default_factory=LayeredCounts)
    long: LayeredCounts[int] = field(default_factory=LayeredCounts)

    @classmethod
    def empty(
        cls, h: int, seed: int, most: int | None = None, threshold: int = EVERYTHING
    ) -> KeptDocuments:
        """Return one with no documents, and room for `most` tokens."""
        if most is None:
            most = MOST_TOKENS
        return cls(h, seed, most, threshold)

    def __getstate__(self) -> dict[str, Any]:
        # a document that was forgotten is in base and overlay still: copies must not have it
        return {name: value for name, value in vars(self.base).items() if name != "base"}

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
        if not self.overlay.n_entries:
            return self.bound()
        base = replace(self, overlay=LayeredCounts())
        counts = self.overlay.counts()
        if counts:
            changes = Documents.of_keys(counts, self.seed)
            base = replace(base, held=sum_documents([self.held, changes]))
        return base.bound()

    @property
    def lowest_threshold(self) -> int:
        """The threshold of `state`: small edits are not bounded before the next base is made."""
        if self.overlay.n_entries:
            return self.base.threshold
        return self.threshold

    def facts(self, n_labels: int) -> StreamFacts:
        """Return what the documents tell of the stream, with this many labels."""
        documents = self.base.held.without_cases
        n_tokens = exact_sum(documents.lengths, documents.counts)  # up to 2^93
        mean_length = n_tokens / max(int(documents.counts.sum()), 1)
        return StreamFacts(n_labels, mean_length, share_repeats(documents.codes, documents.lengths))

    @property
    def cutting(self) -> Cutting | None:
        """How all documents were cut; None where there are none, or two ways."""
        cuttings = {(way.short, way.pad) for way in self.base.held.ways if way != ROW}
        if len(cuttings) != 1:
            return None
        short, pad = cuttings.pop()
        return Cutting(short, pad)  # type: ignore[arg-type]

    def edit(self, examples: Examples, sign: int) -> KeptDocuments:
        """Return it with examples learned or, with sign -1, forgotten, each a row of its own.

        Of documents that are kept whole, no single windows are forgotten: the document would still
        hold them.
        """
        tokens = examples.contexts.vocabulary.union(examples.labels)
        labels = tokens.find(examples.labels)[examples.label_ranks]
        ranks = np.column_stack([examples.contexts.ranks_in(tokens), labels])
        lengths = np.full(len(examples), self.h + 1, np.int64)
        rows = Documents.of(tokens, ranks.ravel(), lengths, ROW, seed=self.seed)
        rows = replace(rows, counts=examples.multiplicity)
        if sign < 0 and self.has_documents and not all(self._holds(rows)):
            raise NotStoredError(
                "The model keeps whole documents, and these examples were not learnt as rows: "
                "a kept document would still hold them. Nothing was changed. "
                "Forget whole documents: forget_stream(documents)."
            )
        return self.with_documents(rows, sign)

    def _holds(self, documents: Documents) -> list[bool]:
        """Return whether each of these is kept at least this often."""
        documents = sum_documents([documents])
        base_copies = self.held.copies(documents)
        keys = documents.as_keys()
        return [
            copies[key[1]] + self.overlay.count(key) >= times
            for copies, key, times in zip(base_copies, keys, documents.counts.tolist(), strict=True)
        ]

    def with_documents(self, documents: Documents, sign: int) -> KeptDocuments:
        """Return it with these learned or, with sign -1, forgotten.

        NotStoredError says that one would be kept and is not.
        """
        low = documents.below(self.threshold)
        if sign < 0 and self.has_cases:
            low = self._whose(low)
        if len(low.codes) <= max(_SMALL_EDIT, len(self.held.codes) // 32):
            return self._edit_overlay(low, sign)
        base = self.base
        low = low.below(base.threshold)
        changes = replace(low, counts=sign * low.counts)
        return replace(base, held=sum_documents([base.held, changes])).bound()

    def with_windows(
        self,
        block: Block,  # noqa: ARG002
        labels: Vocabulary | None,  # noqa: ARG002
        sign: int,  # noqa: ARG002
    ) -> KeptDocuments:
        """Return it as it is: documents are kept whole, by `Keeper`."""
        return self

    def _whose(self, documents: Documents) -> Documents:
        """Return documents to be forgotten, those without a case as copies that are held.

        Copies without a case go first. Those of cases follow where it is clear whose they are.
        """
        documents = sum_documents([documents])
        # of each document, how much more often each case has it by the overlay
        in_overlay: defaultdict[Key, Counter[tuple[int, int]]] = defaultdict(Counter)
        for (way, case, *tokens), times in self.overlay.counts().items():
            in_overlay[way, *tokens][case] += times
        to_forget = Counter[Key]()
        asked_documents = zip(
            documents.as_keys(), self.held.copies(documents), documents.counts.tolist(), strict=True
        )
        for (way, case, *tokens), copies, times in asked_documents:
            copies.update(in_overlay[way, *tokens])
            by_case = {case: times} if case != NO_CASE else _copies_to_forget(copies, times)
            to_forget.update({(way, owner, *tokens): n for owner, n in by_case.items()})
        return Documents.of_keys(to_forget, self.seed)

    def of_cases(self, cases: Words) -> dict[tuple[int, int], Counter[Key]]:
        """Return all documents of some cases, and how often each is stored.

        `cases` has the hashes of their ids.
        """
        by_case: dict[tuple[int, int], Counter[Key]] = {
            (first, second): Counter() for first, second in cases.tolist()
        }
        may_be = self.held.choose(np.flatnonzero(np.isin(self.held.cases[:, 0], cases[:, 0])))
        in_base = zip(may_be.as_keys(), may_be.counts.tolist(), strict=True)
        for key, times in [*in_base, *self.overlay.counts().items()]:
            if key[1] in by_case:
                by_case[key[1]][key] += times
        return {case: +documents for case, documents in by_case.items()}

    def of_ids(self, ids: Sequence[Any]) -> KeptDocuments:
        """Return all documents of the cases with these ids, or refuse an id that has none."""
        words = case_words(ids)
        by_case = self.of_cases(words)
        for name, case in zip(ids, map(tuple, words.tolist()), strict=True):
            if not by_case[case]:
                raise _other_events(name, is_known=False)
        together = Counter(
            {key: times for documents in by_case.values() for key, times in documents.items()}
        )
        return self._only(together)

    def of_events(
        self, documents: Iterable[Any], cases: Iterable[Any], way: Way
    ) -> tuple[KeptDocuments, list[Array]]:
        """Return the kept documents that hold lists of events, each with the id of its case.

        The events of a case are all that it holds, or those of some of its documents
        (`match_documents`). Of a case without kept documents, one that was learned without a case
        is taken.

        Returns
        -------
        documents : KeptDocuments
        beyond : list of ndarray
            Events that are not kept and need not be: above the threshold, too long or, cut in this
            way, too short.
        """
        pairs = [
            (events, name)
            for events, name in with_cases(map(document, documents), cases)
            if len(events)
        ]
        words = case_words([name for _, name in pairs])
        lists = self._documents_of([events for events, _ in pairs], words, way)
        by_case = self.of_cases(lists.cases)
        matches = Counter[Key]()
        beyond = []
        may_lack = (
            ~self.are_low(lists.words)
            | (lists.lengths <= way.n_context(self.h))
            | (lists.lengths > longest())
        )
        for i, key in enumerate(lists.as_keys()):
            events, name = pairs[i]
            left = by_case[key[1]]
            match = match_documents(key, left)
            if not left:
                # perhaps it was learned without a case
                plain = (way, NO_CASE, *key[2:])
                if all(self._holds(Documents.of_keys({plain: matches[plain] + 1}, self.seed))):
                    match = Counter([plain])
            if match:
                matches.update(match)
                by_case[key[1]] = left - match
            elif may_lack[i]:
                beyond.append(events)
            else:
                raise _other_events(name, is_known=bool(left))
        return self._only(matches), beyond

    def _documents_of(self, lists: list[Array], cases: Words, way: Way) -> Documents:
        """Return lists of events as documents."""
        if not lists:
            return NONE
        tokens, ranks = factorize(join_tokens(lists))
        lengths = np.array(list(map(len, lists)), np.int64)
        return Documents.of(tokens, ranks, lengths, way, seed=self.seed, cases=cases)

    def _only(self, counts: Counter[Key]) -> KeptDocuments:
        """Return one that keeps just these."""
        documents = sum_documents([Documents.of_keys(counts, self.seed)])
        limit = max(self.most, len(documents.codes))
        return KeptDocuments(self.h, self.seed, limit, held=documents)

    def _edit_overlay(self, documents: Documents, sign: int) -> KeptDocuments:
        """Return it with some documents stored more or less often: a change of the overlay."""
        if sign < 0 and not all(self._holds(documents)):
            raise not_kept()
        entries: Counter[Key] = Counter()
        for key, times in zip(documents.as_keys(), documents.counts.tolist(), strict=True):
            entries[key] += times
        edited = replace(self, overlay=self.overlay.plus(entries, sign))
        if edited.overlay.n_entries > max(_SMALL_OVERLAY, len(self.held) // 16):
            return edited.base
        return edited

    def with_long(self, words: Mapping[int, int], sign: int) -> KeptDocuments:
        """Return it with documents learned or forgotten that are too long to be kept.

        `words` has their hashes, and how often each comes.
        """
        if not words:
            return self
        if sign < 0 and any(self.long.count(word) < times for word, times in words.items()):
            raise not_kept()
        return replace(self, long=self.long.plus(words, sign))

    def plus(self, other: ModelStore, sign: int) -> KeptDocuments | None:
        """Return what both keep or, with sign -1, without the other's.

        None says that the other tells too little.
        """
        other_kept = other.kept
        documents = other.kept_documents
        if other_kept is None or other_kept.h != self.h:
            return None
        is_alike = documents is not None and other_kept.seed == self.seed
        if not (other_kept.holds_all or is_alike):
            return None
        if other.kept_rows is not None:
            return self.edit(other.kept_rows.examples(), sign)
        if documents is None:
            return None
        added = documents.base
        before = self
        if added.seed == self.seed:
            before = self.below(added.threshold)
        elif len(added):
            added = replace(added, held=sum_documents([added.held.hash(self.seed)]))
        return before.with_documents(added.held, sign).with_long(added.long.counts(), sign)

    def empty_copy(self) -> KeptDocuments:
        """Return one of the same layout with nothing in it."""
        return KeptDocuments(self.h, self.seed, self.most, self.threshold)

    def bound(self) -> KeptDocuments:
        """Return no more documents than there is room for."""
        if len(self.held.codes) <= self.most:
            return self
        return self.below(highest_threshold(self.held.words, self.held.lengths, self.most))

    def below(self, threshold: int) -> KeptDocuments:
        """Return it with this threshold, if that is lower than its own."""
        if threshold >= self.threshold:
            return self
        base = self
        if self.overlay.n_entries:
            base = self.base
        return replace(base, threshold=threshold, held=base.held.below(threshold))

    def batches(self) -> Iterator[Examples]:
        """Yield the windows of all documents in the order of the hashes."""
        pieces = self._pieces()
        for batch in in_batches(pieces.sizes * self.h, TOKENS_AT_ONCE):
            windows = self._windows(pieces.documents[batch], pieces.numbers[batch])
            yield windows.with_used_labels()

    def fitting_sample(self, vote: Vote) -> Examples:
        """Return the windows, or pieces of documents, with the lowest hashes.

        A vote is fitted to them.
        """
        sample_size = int(getattr(vote, "sample", 50_000))
        if vote.keeps_cases:
            return self._lowest_pieces(sample_size)
        rows = KeptRows.empty(self.h, self.seed, sample_size)
        for examples in self.batches():
            rows = rows.edit(examples, 1)
        return rows.examples()

    def _lowest_pieces(self, limit: int) -> Examples:
        """Return pieces of documents with at most this many examples, but one piece at least.

        No piece comes before its document in the order, so where some documents are kept only,
        those that are not kept change nothing while the sample is small.
        """
        pieces = self._pieces()
        words = self.base.held.without_cases.words[pieces.documents]
        later_words = np.maximum(words, mix(words + pieces.numbers.astype(np.uint64)))
        words = np.where(pieces.numbers == 0, words, later_words)
        order = np.argsort(words, kind="stable")
        samples = [self._windows(pieces.documents[:0], pieces.numbers[:0])]
        n_examples = 0
        n_pieces = 0
        for batch in in_batches(np.minimum(pieces.sizes, limit)[order], max(limit, 1)):
            places = order[batch]
            examples = self._windows(pieces.documents[places], pieces.numbers[places])
            assert examples.cases is not None
            ends = n_examples + np.cumsum(np.bincount(examples.cases, minlength=len(batch)))
            n_fitting = max(int(np.searchsorted(ends, limit, "right")), int(not n_examples))
            rows = np.flatnonzero(examples.cases < n_fitting)
            samples.append(replace(examples.rows(rows), cases=examples.cases[rows] + n_pieces))
            n_examples += len(rows)
            n_pieces += len(batch)
            if n_fitting < len(batch):
                break
        vocabulary = samples[0].contexts.vocabulary
        ranks = np.concatenate([sample.contexts.ranks for sample in samples])
        together = Examples(
            contexts=Contexts.with_ranks(vocabulary, ranks),
            label_ranks=np.concatenate([sample.label_ranks for sample in samples]),
            labels=samples[0].labels,
            multiplicity=np.concatenate([sample.multiplicity for sample in samples]),
            cases=np.concatenate([sample.cases for sample in samples if sample.cases is not None]),
        )
        return together.with_used_labels()

    def _pieces(self) -> DocumentPieces:
        """Return the pieces of all documents."""
        documents = self.base.held.without_cases
        targets = documents.lengths - self.n_contexts(documents)
        n_pieces = -(-targets // PIECE)
        owners = np.repeat(np.arange(len(documents)), n_pieces)
        firsts = np.cumsum(n_pieces) - n_pieces
        numbers = np.arange(len(owners)) - np.repeat(firsts, n_pieces)
        return DocumentPieces(owners, numbers, np.minimum(targets[owners] - numbers * PIECE, PIECE))

    def n_contexts(self, documents: Documents) -> Ints:
        """Return for each document how many tokens at its beginning are context only."""
        by_way = np.array([way.n_context(self.h) for way in documents.ways], np.int64)
        return by_way[documents.way_codes]

    def _windows(self, documents: Ints, numbers: Ints) -> Examples:
        """Return the windows of some pieces, each piece a case, numbered in this order."""
        base = self.base.held.without_cases
        pads = Vocabulary.of(way.pad for way in base.ways if way.pad is not None)
        vocabulary = base.tokens.union(pads)
        ranks = np.append(-1, vocabulary.find(base.tokens))  # of each code; 0 is an empty place
        filler = np.array([_rank(vocabulary, way.pad) for way in base.ways] or [0], np.int64)
        # the place of each target, and of which piece it is
        starts = base.starts[documents]
        ways = base.way_codes[documents]
        first = starts + self.n_contexts(base)[documents] + numbers * PIECE
        sizes = np.minimum(starts + base.lengths[documents] - first, PIECE)
        cases = np.repeat(np.arange(len(documents)), sizes)
        places = np.arange(len(cases)) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
        labels = ranks[base.codes[places]]
        # without those that were not learned: empty places, and labels that a way leaves out
        is_learned = labels >= 0
        for code, way in enumerate(base.ways):
            if way.classes is not None:
                is_class = Vocabulary.of(way.classes).find(vocabulary) >= 0
                is_class = np.append(is_class, False)  # rank -1 reads the last entry
                is_learned &= (ways[cases] != code) | is_class[labels]
        places = places[is_learned]
        cases = cases[is_learned]
        labels = labels[is_learned]
        # the contexts, with what the document was filled up with before its beginning
        inside = places[:, None] + np.arange(-self.h, 0)
        outside = inside < starts[cases][:, None]
        contexts = inside
        if len(places):
            contexts = ranks[base.codes[np.where(outside, 0, inside)]]
        contexts = np.where(outside, filler[ways[cases]][:, None], contexts)
        return Examples(
            contexts=Contexts.with_ranks(vocabulary, contexts),
            label_ranks=labels,
            labels=vocabulary,
            multiplicity=base.counts[documents][cases],
            cases=cases,
        )

    def state(self) -> dict[str, Array]:
        """Return what is kept as canonical arrays."""
        documents = self.base.held
        long = sorted(self.long.counts().items())
        cases = {}
        if documents.has_cases:
            cases["cases"] = documents.cases
        return {
            **{f"tokens.{name}": array for name, array in documents.tokens.arrays().items()},
            "codes": documents.codes,
            "lengths": narrow(documents.lengths),
            "ways": np.frombuffer(json.dumps(documents.ways).encode(), np.uint8),
            "way_codes": narrow(documents.way_codes),
            "counts": narrow(documents.counts),
            **cases,
            "long_words": np.array([word for word, _ in long], np.uint64),
            "long_counts": narrow(np.array([times for _, times in long], np.int64)),
        }

    def restore(self, stored: StoredArrays) -> KeptDocuments:
        """Return one of this layout with these arrays, checked: undo `state`."""
        has_cases = "cases" in stored
        listed = self._read_documents(stored)
        long_words = stored.ascending("long_words", "uint64").tolist()
        shape = (len(long_words),)
        times = stored.multiplicities("long_counts", shape, least=1, below=MAX_EXAMPLES).tolist()
        long: LayeredCounts[int] = LayeredCounts((dict(zip(long_words, times, strict=True)),))
        documents = sum_documents([listed])
        restored = replace(self, held=documents, long=long)
        is_canonical = (
            documents.tokens == listed.tokens
            and documents.ways == listed.ways
            and np.array_equal(documents.codes, listed.codes)
            and np.array_equal(documents.words, listed.words)
            and np.array_equal(documents.way_codes, listed.way_codes)
            and np.array_equal(documents.cases, listed.cases)
            and documents.has_cases == has_cases
        )
        if (
            not is_canonical
            or not (listed.lengths > restored.n_contexts(documents)).all()
            or listed.below(self.threshold) is not listed
            or not _are_rows(documents, self.h)
        ):
            raise ValueError(
                "the kept documents are not in canonical order, "
                "or their hashes are above the threshold"
            )
        return restored

    def _read_documents(self, stored: StoredArrays) -> Documents:
        """Return the documents of a file as they are listed there, with their hashes."""
        tokens = Vocabulary.from_arrays(stored.part("tokens"))
        counts = stored.multiplicities("counts", (None,), least=1, below=MAX_EXAMPLES)
        shape = (len(counts),)
        lengths = stored.multiplicities("lengths", shape, least=1, below=2**40).astype(np.int64)
        codes = stored.whole_numbers("codes", (int(lengths.sum()),), below=len(tokens) + 1)
        ways = _read_ways(stored.take("ways", "uint8", (None,)).tobytes())
        way_codes = stored.whole_numbers("way_codes", shape, below=max(len(ways), 1))
        cases = np.zeros((len(counts), 2), np.uint64)
        if "cases" in stored:
            cases = stored.take("cases", "uint64", (len(counts), 2))
        documents = Documents(
            tokens=tokens,
            codes=codes,
            lengths=lengths,
            ways=ways,
            way_codes=way_codes.astype(np.int64),
            counts=counts.astype(np.int64),
            words=np.zeros(len(counts), np.uint64),
            cases=cases,
        )
        return documents.hash(self.seed)


class DocumentPieces(NamedTuple):
    """The pieces of all documents, in which a vote leaves out their targets."""

    documents: Ints
    """Whose each is."""

    numbers: Ints
    """Its number in the document."""

    sizes: Ints
    """How many targets it has."""


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
        self._way = way
        self._sign = sign
        self._labels: Vocabulary | None = None
        if way.classes is not None:
            self._labels = Vocabulary.of(way.classes)
        self._waiting: list[Documents] = []
        """Documents that are put among those that are kept when they are as many.

        So each is moved a few times."""

    def through(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks as they are, after a look at each."""
        documents = None
        if self.store is not None:
            documents = self.store.kept_documents
        if documents is None:
            yield from self._windows_through(blocks)
            return
        cutter = DocumentCutter(documents.h, self._way, documents.seed)
        for block in self._windows_through(blocks):
            self._take(cutter.cut(block), documents.threshold)
            n_waiting = sum(len(waiting.codes) for waiting in self._waiting)
            if n_waiting > max(TOKENS_AT_ONCE, len(documents.held.codes)):
                documents = self._keep_waiting(documents)
            yield block
        self._take(cutter.finish(), documents.threshold)
        documents = self._keep_waiting(documents).with_long(cutter.long, self._sign)
        if self.store is not None:
            self.store = self.store.with_kept(documents)

    def _windows_through(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Store the windows of each block, where windows are stored."""
        for block in blocks:
            if self.store is not None:
                self.store = self.store.with_windows(block, self._labels, self._sign)
            yield block

    def _take(self, documents: Iterable[Documents], threshold: int) -> None:
        """Let documents that are to be kept wait."""
        for document_batch in documents:
            low = document_batch.below(threshold)
            self.could_tell &= low is document_batch
            self._waiting.append(low)

    def _keep_waiting(self, documents: KeptDocuments) -> KeptDocuments:
        """Return the kept documents with those that wait."""
        waiting = sum_documents(self._waiting)
        self._waiting = []
        return documents.with_documents(waiting, self._sign)


def match_documents(events: Key, documents: Counter[Key]) -> Counter[Key]:
    """Return the documents of a case that hold these events; nothing if these are not theirs.

    They are all documents of the case, whose events may be given in any order, or some of them one
    after the other. In a sequence, the longest document that comes next is taken each time.

    Examples
    --------
    >>> from collections import Counter
    >>> from hammemo.stores.kept_documents import match_documents
    >>> kept = Counter({("pad", 7, "a", "b"): 1, ("pad", 7, "c"): 1, ("pad", 7, "a"): 1})
    >>> sorted(match_documents(("pad", 7, "a", "b", "c"), kept))
    [('pad', 7, 'a', 'b'), ('pad', 7, 'c')]
    >>> match_documents(("pad", 7, "b", "a"), kept)
    Counter()
    """
    tokens = events[2:]
    all_tokens = Counter(token for key, times in documents.items() for token in key[2:] * times)
    if Counter(tokens) == all_tokens:
        return documents.copy()
    left = documents.copy()
    matches = Counter[Key]()
    # the longest first; of equally long ones, those that were cut in the same way
    ordered = sorted(documents, key=lambda key: (-len(key), key[0] != events[0], str(key[0])))
    while tokens:
        following = next(
            (key for key in ordered if left[key] and tokens[: len(key) - 2] == key[2:]), None
        )
        if following is None:
            return Counter()
        left[following] -= 1
        matches[following] += 1
        tokens = tokens[len(following) - 2 :]
    return matches


def _copies_to_forget(
    copies: Mapping[tuple[int, int], int], times: int
) -> dict[tuple[int, int], int]:
    """Return which copies of a document go if no case is named: of each case, how many."""
    plain = copies.get(NO_CASE, 0)
    owners = {case: n for case, n in copies.items() if n > 0 and case != NO_CASE}
    n_copies = plain + sum(owners.values())
    if times <= plain or not owners or times > n_copies:
        return {NO_CASE: times}
    if times < n_copies:
        if len(owners) > 1:
            raise NotStoredError(
                "A document to be forgotten was learnt for several cases, and none is named. "
                "Nothing was changed. Name the case: forget_stream(frame, case=…), "
                "forget_stream(documents, cases=…) or forget_cases(ids)."
            )
        owners = dict.fromkeys(owners, times - plain)
    if plain:
        owners[NO_CASE] = plain
    return owners


def _other_events(name: Any, *, is_known: bool) -> NotStoredError:
    """Return the error for events that are not those of a case."""
    if not is_known:
        return NotStoredError(f"Case {name!r} was never learnt. Nothing was changed. Leave it out.")
    return NotStoredError(
        f"Case {name!r}: the events given are not those that the model holds of it. "
        "Nothing was changed. Give all its events, or those of a batch as they were learnt. "
        f"forget_cases([{name!r}]) forgets all that the model holds."
    )


def _read_ways(text: bytes) -> tuple[Way, ...]:
    """Return the ways of a file, checked."""
    try:
        listed = json.loads(text)
        ways = tuple(
            Way(short, pad, None if only is None else tuple(only)) for short, pad, only in listed
        )
        for way in ways:
            _check_way(way)
    except (ValueError, TypeError, RecursionError):
        raise ValueError("it does not say how its documents were cut") from None
    if ways != in_order(ways) or json.dumps(ways).encode() != text:
        raise ValueError("the ways in which its documents were cut are not in canonical form")
    return ways


def _check_way(way: Way) -> None:
    """Refuse a way that is none, or whose tokens are not in canonical form."""
    if way != ROW:
        Cutting(way.short, way.pad)  # type: ignore[arg-type]  # refuses by itself
    if way.pad is not None and as_token(way.pad) != way.pad:
        raise ValueError("a token in another form")
    if way.classes is not None and Vocabulary.of(way.classes).tolist() != list(way.classes):
        raise ValueError("tokens in another form")


def _are_rows(documents: Documents, h: int) -> bool:
    """Return whether all documents that were learned as rows have a row's length, and a label."""
    if ROW not in documents.ways:
        return True
    is_row = documents.way_codes == documents.ways.index(ROW)
    last_places = (documents.starts + documents.lengths)[is_row] - 1
    has_length = (documents.lengths[is_row] == h + 1).all()
    return bool(has_length and (documents.codes[last_places] > 0).all())


def _rank(vocabulary: Vocabulary, pad: Token | None) -> int:
    """Return the rank of a token that documents are filled up with, -1 for none."""
    return -1 if pad is None else int(vocabulary.find(Vocabulary.of([pad]))[0])


SHORT_DOCUMENT: Final = 64
"""Documents of fewer tokens on average are sessions, cases or purchases.

Their order says less than what is in them."""

FEW_REPEATS: Final = 0.05
"""Documents are item histories, too, where fewer tokens have occurred before in their document."""

_JUDGED_TOKENS: Final = 2**20
"""Tokens up to which repeats are counted."""


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


def share_repeats(codes: Ints, lengths: Ints) -> float:
    """Return the share of tokens that occur before in their document.

    Only the first million tokens are judged.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.stores.kept_documents import share_repeats
    >>> share_repeats(np.array([4, 7, 4, 4]), np.array([3, 1]))
    0.25
    """
    owners = np.repeat(np.arange(len(lengths)), lengths)[:_JUDGED_TOKENS]
    keys = owners * (int(codes.max(initial=0)) + 2) + codes[: len(owners)]
    return 1 - len(np.unique(keys)) / max(len(keys), 1)
