"""From the rows of a wide table to those of a narrow one: what is no number, a few chosen columns, and linear scores.

Rows that are counted have *crossed* scores, by functions that were fitted without the fold of the row: so what is
learned from scores holds for rows that were not seen. A question has scores by all rows. The fold of a row is a hash of
what it holds, so the same row has the same scores whenever it is learned or forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.wide.scores import LinearScores
from hammemo.tokens.column_kinds import NUMBERS, ColumnKind
from hammemo.tokens.column_letters import decode_letters, encode_letters
from hammemo.tokens.column_values import LARGEST
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.hashing import mix, vocabulary_hashes
from hammemo.tokens.packed_rows import MOST_COLUMNS, NumberEntries, unpack_rows
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.vocabulary import Vocabulary

_MOST_SCORES: Final = 256


@dataclass(frozen=True, eq=False)
class Narrowing(Cached):
    """How the rows of a wide table become those of a narrow one.

    Parameters
    ----------
    kinds : tuple of ColumnKind
        The kind of each column of the table.
    packed : bool
        Whether a row is one token (:mod:`hammemo.tokens.packed_rows`); then all columns are numbers.
    chosen : ndarray of int64
        The columns of numbers that are looked at one by one, ascending, at least two.
    scores : LinearScores, optional
        Of all columns of numbers.
    fold_key : int
        What the folds of rows are hashed with.
    """

    kinds: ColumnKinds
    packed: bool
    chosen: Ints
    scores: LinearScores | None
    fold_key: int

    def with_chosen(self, chosen: Ints) -> Narrowing:
        """Return it with other columns."""
        return replace(self, chosen=chosen)

    def with_scores(self, scores: LinearScores) -> Narrowing:
        """Return it with linear scores."""
        return replace(self, scores=scores)

    @property
    def n(self) -> int:
        """How many columns the table has."""
        return len(self.kinds)

    @property
    def width(self) -> int:
        """How many tokens a row has before it is made narrow."""
        return 1 if self.packed else self.n

    @cached_property
    def others(self) -> Ints:
        """The columns that are no numbers."""
        return np.flatnonzero(~self._is_number)

    @cached_property
    def numbers(self) -> Ints:
        """The columns of numbers."""
        return np.flatnonzero(self._is_number)

    @property
    def _is_number(self) -> Array:
        return np.fromiter((kind is NUMBERS for kind in self.kinds), bool, self.n)

    @property
    def n_scores(self) -> int:
        """How many linear scores a narrow row ends with."""
        return 0 if self.scores is None else self.scores.outputs

    @property
    def narrow_kinds(self) -> ColumnKinds:
        """The kinds of the columns of narrow rows."""
        others = tuple(self.kinds[j] for j in self.others.tolist())
        return others + (NUMBERS,) * (len(self.chosen) + self.n_scores)

    @property
    def places(self) -> list[int | None]:
        """The column of the table that each column of narrow rows is; None for a linear score."""
        return [*self.others.tolist(), *self.chosen.tolist(), *([None] * self.n_scores)]

    def entries(self, contexts: Contexts) -> NumberEntries:
        """Return the numbers of rows."""
        if self.packed:
            return unpack_rows(contexts, self.n)
        values = _numbers_of(contexts.vocabulary)[contexts.ranks[:, self.numbers]]
        rows, columns = np.nonzero(values)
        starts = np.searchsorted(rows, np.arange(len(contexts) + 1))
        return NumberEntries(starts, self.numbers[columns].astype(np.int32), values[rows, columns], self.n)

    def folds(self, contexts: Contexts) -> Ints:
        """Return the fold of each row: a hash of what it holds, but not of its label."""
        tokens = np.append(vocabulary_hashes(contexts.vocabulary, self.fold_key), np.uint64(self.fold_key))
        words = np.full(len(contexts), np.uint64(self.fold_key))
        for column in contexts.ranks.T:
            words = mix(words ^ tokens[column])
        return (words % np.uint64(FOLDS)).astype(np.int64)

    def ask(self, contexts: Contexts) -> Contexts:
        """Return the narrow rows of a question; rows that are narrow stay as they are."""
        if contexts.h != self.width:
            return contexts
        entries = self.entries(contexts)
        scores = None if self.scores is None else self.scores.scores(entries)
        return self._narrow(contexts, entries, scores)

    def learn(self, examples: Examples) -> Examples:
        """Return examples that are counted, or forgotten, as narrow rows; those that are narrow stay as they are."""
        contexts = examples.contexts
        if contexts.h != self.width:
            return examples
        entries = self.entries(contexts)
        scores = None if self.scores is None else self.scores.scores_without_folds(entries, self.folds(contexts))
        return replace(examples, contexts=self._narrow(contexts, entries, scores))

    def _narrow(self, contexts: Contexts, entries: NumberEntries, scores: Floats | None) -> Contexts:
        values = entries.of_columns(self.chosen)
        if scores is not None:
            values = np.hstack([values, np.clip(scores, -LARGEST, LARGEST)])
        narrow = Contexts(np.where(np.isnan(values), float(NO_TOKEN), values))
        if not len(self.others):
            return narrow
        used = np.zeros(len(contexts.vocabulary) + 1, bool)  # rank -1 marks the last entry
        used[contexts.ranks[:, self.others]] = True
        vocabulary = contexts.vocabulary.keep(used[:-1]).union(narrow.vocabulary)
        of_others = np.append(vocabulary.find(contexts.vocabulary), -1)[contexts.ranks[:, self.others]]
        return Contexts.with_ranks(vocabulary, np.hstack([of_others, narrow.ranks_in(vocabulary)]))

    def spread(self, values: Floats, contexts: Contexts) -> Floats:
        """Return what the columns of narrow rows add to answers, by the columns of the table.

        What a linear score adds is divided among all columns in proportion to the size of what each adds to the score.

        Shapes
        ------
        values : (m, narrow columns, ...); returned : (m, columns of the table, ...)
        """
        found = np.zeros((len(values), self.n, *values.shape[2:]))
        plain = len(self.others) + len(self.chosen)
        found[:, [place for place in self.places if place is not None]] = values[:, :plain]
        if self.scores is None:
            return found
        for row, (columns, added) in enumerate(self.scores.shares(self.entries(contexts))):
            sizes = np.abs(added)
            totals = sizes.sum(axis=0)
            for output, total in enumerate(totals.tolist()):
                if total > 0:
                    shares = (sizes[:, output] / total).reshape(-1, *([1] * (values.ndim - 2)))
                    found[row, columns] += shares * values[row, plain + output]
        return found

    def spread_total(self, values: Floats) -> Floats:
        """Return what narrow columns are worth by the columns of the table: scores by their squared coefficients."""
        plain = len(self.others) + len(self.chosen)
        found = np.zeros(self.n)
        found[[place for place in self.places if place is not None]] = values[:plain]
        if self.scores is not None:
            squares = self.scores.coefficients[0].astype(np.float64) ** 2
            totals = np.maximum(squares.sum(axis=0), 1.0)
            found[self.scores.scaling.columns] += (squares / totals) @ values[plain:]
        return found

    def narrow_names(self, names: list[Any] | None) -> list[str]:
        """Return the names of the columns of narrow rows."""
        listed: list[str] = []
        for place in self.places:
            if place is None:
                listed.append(f"all columns, score {len(listed) - len(self.others) - len(self.chosen)}")
            else:
                listed.append(f"column {place}" if names is None else str(names[place]))
        return listed

    def described(self) -> dict[str, Any]:
        """Return what is no array, ready for JSON."""
        return {
            "kinds": None if self.packed else encode_letters(self.kinds),
            "columns": self.n,
            "scores": self.n_scores,
            "exponent": 0 if self.scores is None else self.scores.exponent,
            "fold_key": self.fold_key,
        }

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        found: dict[str, Array] = {"chosen": self.chosen}
        if self.scores is not None:
            found.update({f"scores.{name}": array for name, array in self.scores.arrays().items()})
        return found

    @classmethod
    def restored(cls, described: Any, stored: StoredArrays) -> Narrowing:
        """Return the narrowing of a file, checked: undo `described` and `arrays`."""
        if not isinstance(described, dict) or set(described) != {"kinds", "columns", "scores", "exponent", "fold_key"}:
            raise ValueError("what it says of its wide table is not known")
        n, n_scores, fold_key = described["columns"], described["scores"], described["fold_key"]
        if any(type(whole) is not int for whole in (n, n_scores, fold_key)) or not 0 <= fold_key < 2**64:
            raise ValueError("what it says of its wide table is no whole number")
        if not 2 <= n <= MOST_COLUMNS or not 0 <= n_scores <= _MOST_SCORES:
            raise ValueError("its wide table has an impossible number of columns or scores")
        packed = described["kinds"] is None
        kinds = (NUMBERS,) * n if packed else decode_letters(described["kinds"], ColumnKind)
        if len(kinds) != n:
            raise ValueError("the kinds of the columns of its wide table are not valid")
        chosen = stored.take("chosen", "int64", (None,))
        if len(chosen) < 2 or (np.diff(chosen) <= 0).any() or not 0 <= chosen[0] <= chosen[-1] < n:
            raise ValueError("the chosen columns of its wide table are not ascending, or not in it")
        if any(kinds[j] is not NUMBERS for j in chosen.tolist()):
            raise ValueError("a chosen column of its wide table holds no numbers")
        scores = None
        if n_scores:
            scores = LinearScores.from_stored(described["exponent"], n_scores, n, stored.part("scores"))
        return cls(kinds, packed, chosen, scores, fold_key)


def refuse_wide(narrowing: Narrowing | None) -> None:
    """Refuse to write a model of a wide table as a graph: its rows are made narrow first, which no graph does."""
    if narrowing is not None:
        raise NotImplementedError(
            f"The model learned a wide table of {narrowing.n:,} columns, and graphs are for tables with few columns of "
            "numbers. Serve this one with hammemo, or fit on the columns that matter, such as those that "
            "feature_importances_ has first."
        )


def _numbers_of(vocabulary: Vocabulary) -> Floats:
    """Return tokens as numbers, NaN for strings and, at the end, where rank -1 reads it, for no token."""
    strings = np.full(len(vocabulary.strings) + 1, np.nan)
    return np.concatenate([vocabulary.ints.astype(np.float64), vocabulary.floats, strings])
