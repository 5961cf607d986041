"""From the rows of a wide table to narrow rows.

A narrow row has what is no number, the numbers of a few chosen columns, and linear scores of all
columns of numbers. Rows that are counted have *crossed* scores, by functions that were fitted
without the fold of the row: so what is learned from scores holds for rows that were not seen. A
question has scores by all rows. The fold of a row is a hash of its tokens, so the same row has the
same scores whenever it is learned or forgotten.
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
"""Linear scores that a file may hold."""

_DESCRIBED: Final = frozenset({"kinds", "columns", "scores", "exponent", "fold_key"})
"""What `Narrowing.describe` says."""


@dataclass(frozen=True, eq=False)
class Narrowing(Cached):
    """How the rows of a wide table become those of a narrow one.

    Parameters
    ----------
    kinds : tuple of ColumnKind
        The kind of each column of the table.
    packed : bool
        Whether a row is one token, and all columns are numbers (:mod:`hammemo.tokens.packed_rows`).
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

    @property
    def _n_plain(self) -> int:
        """How many columns of narrow rows are columns of the table; scores follow them."""
        return len(self.others) + len(self.chosen)

    @property
    def _plain_places(self) -> list[int]:
        """The columns of the table that these are."""
        return [*self.others.tolist(), *self.chosen.tolist()]

    def entries(self, contexts: Contexts) -> NumberEntries:
        """Return the numbers of rows."""
        if self.packed:
            return unpack_rows(contexts, self.n)
        values = _numbers_of(contexts.vocabulary)[contexts.ranks[:, self.numbers]]
        rows, columns = np.nonzero(values)
        starts = np.searchsorted(rows, np.arange(len(contexts) + 1))
        return NumberEntries(
            starts,
            columns=self.numbers[columns].astype(np.int32),
            values=values[rows, columns],
            n_columns=self.n,
        )

    def folds(self, contexts: Contexts) -> Ints:
        """Return the fold of each row: a hash of its tokens, but not of its label."""
        token_words = vocabulary_hashes(contexts.vocabulary, self.fold_key)
        tokens = np.append(token_words, np.uint64(self.fold_key))  # rank -1 reads the last entry
        words = np.full(len(contexts), np.uint64(self.fold_key))
        for column in contexts.ranks.T:
            words = mix(words ^ tokens[column])
        return (words % np.uint64(FOLDS)).astype(np.int64)

    def ask(self, contexts: Contexts) -> Contexts:
        """Return the narrow rows of a question; narrow ones stay so."""
        if contexts.h != self.width:
            return contexts
        entries = self.entries(contexts)
        scores = None if self.scores is None else self.scores.score_rows(entries)
        return self._narrow(contexts, entries, scores)

    def learn(self, examples: Examples) -> Examples:
        """Return examples that are counted or forgotten as narrow rows; narrow ones stay so."""
        contexts = examples.contexts
        if contexts.h != self.width:
            return examples
        entries = self.entries(contexts)
        scores = None
        if self.scores is not None:
            scores = self.scores.score_left_out(entries, self.folds(contexts))
        return replace(examples, contexts=self._narrow(contexts, entries, scores))

    def _narrow(
        self, contexts: Contexts, entries: NumberEntries, scores: Floats | None
    ) -> Contexts:
        """Return narrow rows, given the numbers of rows and their scores."""
        values = entries.select_columns(self.chosen)
        if scores is not None:
            values = np.hstack([values, np.clip(scores, -LARGEST, LARGEST)])
        numbers = Contexts(np.where(np.isnan(values), float(NO_TOKEN), values))
        if not len(self.others):
            return numbers
        # A vocabulary for both, with no token that only columns of numbers hold.
        ranks = contexts.ranks[:, self.others]
        marks = np.zeros(len(contexts.vocabulary) + 1, bool)
        marks[ranks] = True  # rank -1, no token, marks the last entry
        vocabulary = contexts.vocabulary.keep(marks[:-1]).union(numbers.vocabulary)
        new_ranks = np.append(vocabulary.find(contexts.vocabulary), -1)
        narrow_ranks = np.hstack([new_ranks[ranks], numbers.ranks_in(vocabulary)])
        return Contexts.with_ranks(vocabulary, narrow_ranks)

    def spread(self, values: Floats, contexts: Contexts) -> Floats:
        """Return what the columns of narrow rows add to answers, by the columns of the table.

        What a linear score adds is divided among all columns: each gets a share in proportion to
        the size of what it adds to the score.

        Shapes
        ------
        values : (m, narrow columns, ...); returned : (m, columns of the table, ...)
        """
        spread = np.zeros((len(values), self.n, *values.shape[2:]))
        n_plain = self._n_plain
        spread[:, self._plain_places] = values[:, :n_plain]
        if self.scores is None:
            return spread
        contributions = self.scores.compute_contributions(self.entries(contexts))
        for row, (columns, added) in enumerate(contributions):
            sizes = np.abs(added)
            totals = sizes.sum(axis=0)
            for output, total in enumerate(totals.tolist()):
                if total > 0:
                    shares = (sizes[:, output] / total).reshape(-1, *([1] * (values.ndim - 2)))
                    spread[row, columns] += shares * values[row, n_plain + output]
        return spread

    def spread_total(self, values: Floats) -> Floats:
        """Return the worth of narrow columns by the columns of the table.

        That of a score is divided in proportion to its squared coefficients.
        """
        spread = np.zeros(self.n)
        n_plain = self._n_plain
        spread[self._plain_places] = values[:n_plain]
        if self.scores is not None:
            squares = self.scores.coefficients[0].astype(np.float64) ** 2
            totals = np.maximum(squares.sum(axis=0), 1.0)
            spread[self.scores.scaling.columns] += (squares / totals) @ values[n_plain:]
        return spread

    def narrow_names(self, names: list[Any] | None) -> list[str]:
        """Return the names of the columns of narrow rows."""
        if names is None:
            plain = [f"column {place}" for place in self._plain_places]
        else:
            plain = [str(names[place]) for place in self._plain_places]
        return [*plain, *(f"all columns, score {score}" for score in range(self.n_scores))]

    def describe(self) -> dict[str, Any]:
        """Return all that is no array, ready for JSON."""
        return {
            "kinds": None if self.packed else encode_letters(self.kinds),
            "columns": self.n,
            "scores": self.n_scores,
            "exponent": 0 if self.scores is None else self.scores.exponent,
            "fold_key": self.fold_key,
        }

    def arrays(self) -> dict[str, Array]:
        """Return the arrays, by name."""
        arrays: dict[str, Array] = {"chosen": self.chosen}
        if self.scores is not None:
            arrays.update({f"scores.{name}": array for name, array in self.scores.arrays().items()})
        return arrays

    @classmethod
    def from_stored(cls, described: Any, stored: StoredArrays) -> Narrowing:
        """Return the narrowing of a file, checked: undo `describe` and `arrays`."""
        if not isinstance(described, dict) or set(described) != _DESCRIBED:
            raise ValueError("what it says of its wide table is not known")
        n = described["columns"]
        n_scores = described["scores"]
        fold_key = described["fold_key"]
        are_integers = all(type(value) is int for value in (n, n_scores, fold_key))
        if not are_integers or not 0 <= fold_key < 2**64:
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
            scores = LinearScores.from_stored(
                described["exponent"], stored.part("scores"), outputs=n_scores, n_columns=n
            )
        return cls(kinds, packed=packed, chosen=chosen, scores=scores, fold_key=fold_key)


def refuse_wide(narrowing: Narrowing | None) -> None:
    """Refuse to write a model of a wide table as a graph: no graph makes its rows narrow."""
    if narrowing is not None:
        raise NotImplementedError(
            f"The model learned a wide table of {narrowing.n:,} columns, "
            "and graphs are for tables with few columns of numbers. Serve this one with hammemo, "
            "or fit on the columns that matter, such as those that feature_importances_ has first."
        )


def _numbers_of(vocabulary: Vocabulary) -> Floats:
    """Return tokens as numbers, NaN for strings, and NaN for no token at the end (rank -1)."""
    strings = np.full(len(vocabulary.strings) + 1, np.nan)
    return np.concatenate([vocabulary.ints.astype(np.float64), vocabulary.floats, strings])
