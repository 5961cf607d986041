"""A sample of whole cases that the state keeps, so that a mixture can be fitted again without data.

A *case* is what is left out together: a document, a session, the purchases of one user; of a long document, a piece of
1,024 tokens. Kept is every case whose hash lies below a threshold, with how often it is stored
(:mod:`hammemo.models.kept`). An example that is learnt alone, by `partial_fit`, is a case of its own.

**It holds the cases themselves**, token by token: whoever has the model can read them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import narrow, object_array
from hammemo.memories.ledgered import Ledger
from hammemo.models.kept import Kept, highest_threshold
from hammemo.models.kept_rows import KeptRows
from hammemo.tokens.contexts import MAX_EXAMPLES, Contexts, Examples
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary, as_token, factorize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.tokens.streams import Block
    from hammemo.tokens.vocabulary import Token

PIECE: Final = 1024
"""Of a long document, so many tokens are a case."""

Case = tuple[Any, ...]
"""The hash, how many tokens are context only, and then all tokens; `NO_TOKEN` before the first one is left out."""


class CaseCutter:
    """Cuts the documents of a stream into cases, block by block.

    Parameters
    ----------
    h : int
        Tokens of a context.
    """

    def __init__(self, h: int) -> None:
        self.h = h
        self._tokens: list[Token] = []
        """What is left of the present document, with h tokens of context before it."""

    def cut(self, block: Block) -> Iterator[tuple[int, list[Token]]]:
        """Yield the cases that end in a block: how many tokens are context only, and all tokens."""
        ends = np.append(block.starts[1:], len(block.tokens))
        for number, (first, last) in enumerate(zip(block.starts.tolist(), ends.tolist(), strict=True)):
            goes_on = number == 0 and block.continues
            if not goes_on:
                yield from self.finish()
            if last - first <= self.h:
                continue
            piece = _tokens(block.tokens[first + self.h * goes_on : last])
            self._tokens = [*self._tokens, *piece] if goes_on else piece
            start = 0
            while len(self._tokens) - start > self.h + PIECE:
                yield _without_padding(self._tokens[start : start + self.h + PIECE], self.h)
                start += PIECE
            self._tokens = self._tokens[start:]

    def finish(self) -> Iterator[tuple[int, list[Token]]]:
        """Yield what is left of the last document."""
        tokens, self._tokens = self._tokens, []
        if len(tokens) > self.h:
            yield _without_padding(tokens, self.h)


@dataclass(frozen=True, eq=False)
class KeptCases(Kept):
    """Cases with hashes below a threshold, and how often each is stored: a value that never changes.

    Parameters
    ----------
    h : int
        Tokens of a context.
    seed : int
        What the hash depends on.
    most : int
        How many examples the kept cases have together at most; one case is kept, however long it is.
    threshold : int
    ledger : Ledger
        How often each case is stored.

    Examples
    --------
    >>> from hammemo.models.kept_cases import KeptCases
    >>> cases = [(0, ["a", "b", "c"]), (0, ["d", "b"])]
    >>> kept = KeptCases(h=2, seed=0, most=100).with_some(cases)
    >>> kept.n_examples, sorted(kept.examples().multiplicity.tolist())
    (5, [1, 1, 1, 1, 1])
    >>> kept.with_some(cases, -1).n_examples
    0
    """

    ledger: Ledger[Case] = field(default_factory=Ledger)
    n_examples: int = 0

    def __len__(self) -> int:
        return self.n_examples

    def changed(self, examples: Examples, sign: int) -> KeptCases | None:
        """Return the sample with examples learnt or forgotten, each a case of its own.

        None where an example that is forgotten may be part of a longer case that is kept: then what is kept would hold
        what was forgotten.
        """
        tokens = [*examples.contexts.vocabulary.tolist(), NO_TOKEN]  # rank -1 reads the last entry
        labels = examples.labels.tolist()
        cases: Counter[Case] = Counter()
        rows = zip(
            examples.contexts.ranks.tolist(), examples.label_ranks.tolist(), examples.multiplicity.tolist(), strict=True
        )
        for context, label, times in rows:
            cases[self._case(*_without_padding([*(tokens[r] for r in context), labels[label]], self.h))] += times
        return None if sign < 0 and self._may_hold(cases) else self.with_cases(cases, sign)

    def with_some(self, cases: Iterable[tuple[int, list[Token]]], sign: int = 1) -> KeptCases | None:
        """Return the sample with the cases of a `CaseCutter` learnt or, with sign -1, forgotten."""
        return self.with_cases(self.counted(cases), sign)

    def counted(self, cases: Iterable[tuple[int, list[Token]]]) -> Counter[Case]:
        """Return how often each of these cases occurs, with its hash."""
        return Counter(self._case(*case) for case in cases)

    def can_tell(self, cases: Iterable[Case]) -> bool:
        """Return whether it would keep all of these cases if they had been learnt, so that it knows if they were."""
        return all(case[0] < self.threshold for case in cases)

    def _case(self, n_context: int, tokens: Sequence[Token]) -> Case:
        text = json.dumps([self.seed, n_context, *tokens]).encode()
        word = int.from_bytes(hashlib.blake2b(text, digest_size=8, person=b"hammemo.case").digest(), "little")
        return (word, n_context, *tokens)

    def with_cases(self, cases: Mapping[Case, int], sign: int) -> KeptCases | None:
        """Return the sample with cases learnt or forgotten; None where one that is forgotten was not kept."""
        entries = {case: times for case, times in cases.items() if case[0] < self.threshold}
        held = {case: self.ledger.count(case) for case in entries}
        if sign < 0 and any(held[case] < times for case, times in entries.items()):
            return None
        changed = sum(
            self._size(case) for case, times in entries.items() if (held[case] == 0) != (held[case] + sign * times == 0)
        )
        kept = replace(self, ledger=self.ledger.plus(entries, sign), n_examples=self.n_examples + sign * changed)
        return kept._bounded() if sign > 0 else kept

    def _bounded(self) -> KeptCases:
        """Return the sample with a threshold low enough for its size."""
        if self.n_examples <= self.most:
            return self
        cases = list(self.ledger.counts())
        sizes = np.fromiter(map(self._size, cases), np.int64, len(cases))
        words = np.fromiter((case[0] for case in cases), np.uint64, len(cases))
        return self._below(highest_threshold(words, sizes, self.most))

    def _below(self, threshold: int) -> KeptCases:
        """Return the sample with this threshold, if that is lower than its own."""
        if threshold >= self.threshold:
            return self
        low = {case: times for case, times in self.ledger.counts().items() if case[0] < threshold}
        return replace(self, threshold=threshold)._holding(low)

    def _holding(self, held: dict[Case, int]) -> KeptCases:
        """Return a sample of the same layout that holds these cases, so often."""
        return replace(self, ledger=Ledger((held,)), n_examples=sum(map(self._size, held)))

    def emptied(self) -> KeptCases:
        """Return a sample of the same layout with nothing in it."""
        return self._holding({})

    def _may_hold(self, examples: Mapping[Case, int]) -> bool:
        """Return whether one of these single examples, not kept as a case of its own, may be part of a longer one."""
        unknown = any(case[0] >= self.threshold for case in examples)
        return unknown and any(self._size(case) > 1 for case in self.ledger.counts())

    def plus(self, other: KeptCases, sign: int) -> KeptCases | None:
        """Return the sample of both or, with sign -1, without the other's; None where the other tells too little."""
        if not isinstance(other, KeptCases) or (other.h, other.seed) != (self.h, self.seed):
            return None
        mine = self._below(min(self.threshold, other.threshold))
        return mine.with_cases(other._below(mine.threshold).ledger.counts(), sign)

    @staticmethod
    def _size(key: Case) -> int:
        return len(key) - 2 - int(key[1])

    def _sorted(self) -> list[tuple[Case, int]]:
        counts = self.ledger.counts()
        return sorted(counts.items(), key=lambda pair: pair[0][0])

    def examples(self) -> Examples:
        """Return the windows of what is kept, with their cases, in the order of the hashes."""
        kept = self._sorted()
        pads = [self.h - case[1] for case, _ in kept]
        sequences = [[NO_TOKEN] * pad + list(case[2:]) for pad, (case, _) in zip(pads, kept, strict=True)]
        vocabulary, ranks = factorize(object_array(token for sequence in sequences for token in sequence))
        lengths = np.array([len(sequence) for sequence in sequences], np.int64)
        starts = np.cumsum(lengths) - lengths
        owners = np.repeat(np.arange(len(kept)), lengths)
        targets = np.flatnonzero((np.arange(len(ranks)) - starts[owners] >= self.h) & (ranks >= 0))
        contexts = Contexts.with_ranks(vocabulary, ranks[targets[:, None] + np.arange(-self.h, 0)])
        times = np.array([count for _, count in kept], np.int64)
        cases = owners[targets]
        return Examples(contexts, ranks[targets], vocabulary, times[cases], cases).with_used_labels()

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what is kept as canonical arrays."""
        kept = self._sorted()
        vocabulary, ranks = factorize(object_array(token for case, _ in kept for token in case[2:]))
        return {
            **{f"tokens.{name}": array for name, array in vocabulary.arrays().items()},
            "ranks": narrow(ranks + 1),  # 0 stands for no token
            "lengths": narrow(np.array([len(case) - 2 for case, _ in kept], np.int64)),
            "context_lengths": narrow(np.array([case[1] for case, _ in kept], np.int64)),
            "counts": narrow(np.array([count for _, count in kept], np.int64)),
        }

    def restored(self, stored: StoredArrays) -> KeptCases:
        """Return the sample of this layout with these arrays, checked: undo `state`."""
        tokens = Vocabulary.from_arrays(stored.part("tokens"))
        counts = stored.whole_numbers("counts", (None,), least=1, below=MAX_EXAMPLES)
        lengths = stored.whole_numbers("lengths", (len(counts),), least=1, below=self.h + PIECE + 1)
        before = stored.whole_numbers("context_lengths", (len(counts),), below=self.h + 1)
        ranks = stored.whole_numbers("ranks", (int(lengths.sum(dtype=np.int64)),), below=len(tokens) + 1)
        named = [*tokens.tolist(), NO_TOKEN]  # 0 - 1 reads the last entry
        flat = [named[rank] for rank in (ranks.astype(np.int64) - 1).tolist()]
        ends = np.cumsum(lengths, dtype=np.int64).tolist()
        cases = [
            self._case(n_context, flat[end - length : end])
            for n_context, length, end in zip(before.tolist(), lengths.tolist(), ends, strict=True)
        ]
        held = dict(zip(cases, counts.tolist(), strict=True))
        sample = self._holding(held)
        again, given = sample.state(), {"ranks": ranks, "lengths": lengths, "context_lengths": before, "counts": counts}
        canonical = len(held) == len(cases) and all(np.array_equal(again[name], given[name]) for name in given)
        proper = all(case[0] < self.threshold and 0 < self._size(case) <= PIECE for case in cases)
        if not canonical or not proper or any(case[2] == NO_TOKEN for case in cases if case[1]):
            raise ValueError("the kept cases are not in canonical order, or their hashes are above the threshold")
        return sample


class Keeper:
    """Looks at the blocks of a stream that pass through, for what a model keeps.

    Parameters
    ----------
    kept : KeptRows, KeptCases or None
        What was kept before.
    h : int
        Tokens of a context.
    labels : Vocabulary, optional
        Only windows with these targets are learnt.

    Attributes
    ----------
    kept : KeptRows, KeptCases or None
        What is kept now.
    """

    def __init__(self, kept: Kept | None, h: int, labels: Vocabulary | None) -> None:
        self.kept = kept
        self._cutter = CaseCutter(h)
        self._labels = labels

    def through(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks as they are, after a look at each."""
        for block in blocks:
            kept = self.kept
            if isinstance(kept, KeptRows):
                self.kept = kept.with_windows(block, self._labels)
            elif isinstance(kept, KeptCases):
                self.kept = kept.with_some(self._cutter.cut(block))
            yield block
        if isinstance(self.kept, KeptCases):
            self.kept = self.kept.with_some(self._cutter.finish())


def _tokens(values: NDArray[Any]) -> list[Token]:
    return values.tolist() if values.dtype.kind in "iu" else [as_token(value) for value in values.tolist()]


def _without_padding(tokens: list[Token], h: int) -> tuple[int, list[Token]]:
    """Return how many of the first h tokens there are without empty places before the first, and the tokens."""
    empty = next((place for place in range(h) if tokens[place] != NO_TOKEN), h)
    return h - empty, tokens[empty:]
