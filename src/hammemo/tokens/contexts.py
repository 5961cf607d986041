"""From token streams to contexts and labels.

A context is a row of h tokens, oldest first, so the last position is the one nearest to what is
predicted. All that users have (integer, string or object arrays, lists, pandas or polars frames)
becomes :class:`Contexts`: the distinct tokens of the batch and, for each position of each row, the
rank of its token, or -1 where there is none. :class:`Examples` adds a label and a multiplicity to
each context.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo._versions import cached_property
from hammemo.tokens.frame_columns import column_at, is_arrow, read_arrow
from hammemo.tokens.missing import fill_missing
from hammemo.tokens.vocabulary import (
    NO_TOKEN,
    Vocabulary,
    as_token,
    check_integers,
    check_token_dtype,
    factorize,
    factorize_integers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from hammemo.tokens.vocabulary import Token

MAX_EXAMPLES = 2**53
"""Counts stay below this, so that they are exact in float64 too."""

MAX_NAME_BYTES = 2**19
"""Bytes that the names of the columns may take as JSON: they are in the header of model files."""


class Contexts:
    """A batch of contexts.

    Parameters
    ----------
    values : ndarray of shape (m, h)
        The tokens; `NO_TOKEN` where a position holds none.

    Attributes
    ----------
    integers : ndarray of int32 or int64, shape (m, h), or None
        The tokens themselves where all are integers: code that does not need ranks can use them
        directly.
    ranks : ndarray of int64, shape (m, h)
        Rank of each token in `vocabulary`; -1 where a position holds no token.
    vocabulary : Vocabulary
        The tokens the ranks refer to.

    Examples
    --------
    >>> from hammemo.tokens.contexts import Contexts
    >>> Contexts.of([["a", 1], ["b", 1.0]]).ranks
    array([[1, 0],
           [2, 0]])
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self.shape = values.shape
        self.integers: NDArray[Any] | None = None
        if values.dtype.kind in "iub":
            self.integers = check_integers(values)
        else:
            self._factorized = factorize(values)  # at once: it checks that these are tokens

    @classmethod
    def of(cls, X: Any, missing: str = "refuse") -> Contexts:
        """Return the contexts in any two-dimensional array, list of rows or data frame."""
        array = fill_missing(token_array(X), missing)
        check_table(array)
        return cls(array)

    @cached_property
    def _factorized(self) -> tuple[Vocabulary, NDArray[np.int64]]:
        assert self.integers is not None
        vocabulary, ranks = factorize_integers(self.integers.ravel())
        return vocabulary, ranks.reshape(self.shape)

    @property
    def vocabulary(self) -> Vocabulary:
        """The distinct tokens."""
        return self._factorized[0]

    @property
    def ranks(self) -> NDArray[np.int64]:
        """The rank of each token in `vocabulary`; -1 where a position holds no token."""
        return self._factorized[1]

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def h(self) -> int:
        """The number of positions of a context."""
        return int(self.shape[1])

    def __getitem__(self, rows: slice | NDArray[Any]) -> Contexts:
        contexts = object.__new__(Contexts)
        contexts.integers = None if self.integers is None else self.integers[rows]
        if "_factorized" in vars(self):
            vocabulary, ranks = self._factorized
            contexts._factorized = (vocabulary, ranks[rows])
        if contexts.integers is None:
            contexts.shape = contexts.ranks.shape
        else:
            contexts.shape = contexts.integers.shape
        return contexts

    @classmethod
    def with_ranks(cls, vocabulary: Vocabulary, ranks: NDArray[np.int64]) -> Contexts:
        """Return contexts of tokens that have these ranks in a vocabulary, -1 for no token.

        Shapes
        ------
        ranks : (m, h)
        """
        contexts = object.__new__(cls)
        contexts.integers = None
        contexts.shape = ranks.shape
        contexts._factorized = (vocabulary, ranks)
        return contexts

    def with_used_tokens(self) -> Contexts:
        """Return the same contexts, without tokens in the vocabulary that none of them holds."""
        marks = np.zeros(len(self.vocabulary) + 1, bool)
        marks[self.ranks] = True  # rank -1, no token, marks the last entry
        is_used = marks[:-1]
        new_ranks = np.append(np.cumsum(is_used) - 1, -1)
        return Contexts.with_ranks(self.vocabulary.keep(is_used), new_ranks[self.ranks])

    def ranks_in(self, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """Return the ranks of the tokens in another vocabulary, -1 for tokens it does not have."""
        if vocabulary is self.vocabulary:
            return self.ranks
        new_ranks = np.append(vocabulary.find(self.vocabulary), -1)  # rank -1 reads the last entry
        return new_ranks[self.ranks]


@dataclass(frozen=True, eq=False)
class Examples:
    """A batch of contexts with one label and one multiplicity each.

    Examples that count zero times are left out, so labels are those that really occur.

    Examples
    --------
    >>> from hammemo.tokens.contexts import Examples
    >>> batch = Examples.of([["a", "b"], ["a", "c"], ["b", "b"]], ["x", "y", "x"], [2, 0, 1])
    >>> len(batch), list(batch.labels), batch.label_counts().tolist()
    (2, ['x'], [3])
    """

    contexts: Contexts
    label_ranks: NDArray[np.int64]
    labels: Vocabulary
    multiplicity: NDArray[np.int64]
    cases: NDArray[np.int64] | None = None
    """A number for each example: those with equal numbers belong together, and are left out
    together. By default each example is alone."""

    @classmethod
    def of(cls, X: Any, y: Any, multiplicity: ArrayLike | None = None) -> Examples:
        """Return the examples of contexts X, labels y and, optionally, whole multiplicities."""
        array = token_array(X)
        targets = token_array(y)
        check_shapes(array, targets)
        return cls.of_arrays(array, targets, whole_multiplicity(multiplicity, len(array)))

    @classmethod
    def of_arrays(
        cls, tokens: NDArray[Any], labels: NDArray[Any], counts: NDArray[np.int64] | None = None
    ) -> Examples:
        """Return the examples of arrays that were checked; by default each occurs once."""
        if counts is None:
            counts = np.ones(len(labels), np.int64)
        elif not counts.all():
            is_counted = counts > 0
            tokens = tokens[is_counted]
            labels = labels[is_counted]
            counts = counts[is_counted]
        vocabulary, label_ranks = factorize(labels)
        if len(label_ranks) and label_ranks.min() < 0:
            as_label(NO_TOKEN)  # raises the error
        return cls(Contexts(tokens), label_ranks, vocabulary, counts)

    def __len__(self) -> int:
        return len(self.label_ranks)

    def only(self, labels: Vocabulary) -> Examples:
        """Return the examples that have one of these labels."""
        is_allowed = labels.find(self.labels) >= 0
        if is_allowed.all():
            return self
        chosen = is_allowed[self.label_ranks]
        new_ranks = np.cumsum(is_allowed) - 1
        return Examples(
            self.contexts[chosen],
            label_ranks=new_ranks[self.label_ranks[chosen]],
            labels=self.labels.keep(is_allowed),
            multiplicity=self.multiplicity[chosen],
        )

    def rows(self, chosen: NDArray[np.int64]) -> Examples:
        """Return some of the examples; the labels are the same."""
        return Examples(
            self.contexts[chosen],
            label_ranks=self.label_ranks[chosen],
            labels=self.labels,
            multiplicity=self.multiplicity[chosen],
            cases=None if self.cases is None else self.cases[chosen],
        )

    def with_used_labels(self) -> Examples:
        """Return the same examples, without labels that none of them has."""
        is_used = np.zeros(len(self.labels), bool)
        is_used[self.label_ranks] = True
        if is_used.all():
            return self
        new_ranks = np.cumsum(is_used) - 1
        return replace(
            self, label_ranks=new_ranks[self.label_ranks], labels=self.labels.keep(is_used)
        )

    def label_counts(self) -> NDArray[np.int64]:
        """Return how many examples each label has, multiplicities counted."""
        if len(self) == 1:
            return self.multiplicity
        totals = np.bincount(
            self.label_ranks, weights=self.multiplicity, minlength=len(self.labels)
        )
        return totals.astype(np.int64)  # exact: multiplicities sum below 2^53


def join_examples(batches: list[Examples]) -> Examples:
    """Return several batches, at least one, as one; their contexts have one length."""
    if not batches:
        raise ValueError("There is nothing to learn: no rows were given.")
    if sum(int(batch.multiplicity.sum()) for batch in batches) >= 2**61:  # each has less than 2^53
        raise ValueError(
            "All batches together have 2^61 rows or more: "
            "divide all sample_weight by a common factor."
        )
    tokens = Vocabulary()
    labels = Vocabulary()
    for batch in batches:
        tokens = tokens.union(batch.contexts.vocabulary)
        labels = labels.union(batch.labels)
    ranks = np.concatenate([batch.contexts.ranks_in(tokens) for batch in batches])
    label_ranks = [labels.find(batch.labels)[batch.label_ranks] for batch in batches]
    return Examples(
        Contexts.with_ranks(tokens, ranks),
        label_ranks=np.concatenate(label_ranks),
        labels=labels,
        multiplicity=np.concatenate([batch.multiplicity for batch in batches]),
    )


def as_label(value: Any) -> Token:
    """Return the canonical form of one label, or refuse what is no token and `NO_TOKEN`."""
    token = as_token(value)
    if token == NO_TOKEN:
        raise ValueError(
            f"y holds {NO_TOKEN}, the smallest integer of 64 bits, "
            "which stands for no value here (hammemo.NO_TOKEN) and cannot be a label: "
            "use another number, or make strings of all labels with str()."
        )
    return token


def whole_multiplicity(multiplicity: ArrayLike | None, m: int) -> NDArray[np.int64]:
    """Return checked multiplicities of m examples, all one by default."""
    if multiplicity is None:
        return np.ones(m, np.int64)
    refuse_masked(multiplicity, "sample_weight")
    values = np.asarray(multiplicity)
    if values.ndim == 0:
        values = np.full(m, values)
    if values.shape != (m,):
        raise ValueError(
            f"There are {m} examples, so sample_weight needs {m} entries; "
            f"it has shape {values.shape}."
        )
    if values.dtype.kind not in "iufb":
        raise ValueError(
            "sample_weight counts how often an example occurred: "
            f"whole numbers, not {values.dtype}."
        )
    if values.dtype.kind == "f":
        is_whole = np.isfinite(values) & (values == np.floor(values))
        if not is_whole.all():
            raise ValueError(
                "sample_weight counts how often an example occurred, so it is a whole number, "
                f"not {values[~is_whole][0]}. "
                "Multiply all weights by a common factor and round them."
            )
    if m and (values.min() < 0 or values.sum(dtype=float) >= MAX_EXAMPLES):
        raise ValueError(
            f"sample_weight holds {values.min()} to {values.max()}: "
            "multiplicities are non-negative and sum to less than 2^53."
        )
    return values.astype(np.int64)


def token_array(X: Any) -> NDArray[Any]:
    """Return an array of the values of an array, a nested list or a data frame, each as it was.

    NumPy alone would turn ``[[3, "a"]]`` into two strings, and a frame with an integer and a float
    column into floats only: here values of several types are kept as objects.
    """
    refuse_masked(X, "X")
    if hasattr(X, "columns") and hasattr(X, "shape"):
        return _frame_array(X)
    if isinstance(X, (list, tuple)):
        array = _convert_list(X)
        if array.dtype.kind in "US" or _may_be_rounded(array):
            return np.array(X, dtype=object)
        return array
    return np.asarray(X)


def refuse_masked(values: Any, name: str) -> None:
    """Refuse arrays with masked entries, also as rows of a list: their values would be learned."""
    for array in values if isinstance(values, (list, tuple)) else [values]:
        if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
            raise ValueError(
                f"{name} has masked entries, which stand for no value: "
                "leave out their rows, or give them a value with filled(), "
                "in contexts filled(hammemo.NO_TOKEN) for positions that match nothing."
            )


def check_column_names(names: Iterable[Any]) -> None:
    """Refuse names of columns that are too long together for the header of a model file."""
    size = len(json.dumps([str(name) for name in names]))
    if size > MAX_NAME_BYTES:
        raise ValueError(
            f"The names of the columns need {size:,} bytes as JSON, and a model file has room "
            f"for {MAX_NAME_BYTES:,}: rename the columns, or pass X without names, as an array."
        )


def check_shapes(tokens: NDArray[Any], labels: NDArray[Any]) -> None:
    """Refuse what is not a table with one label for each row."""
    if tokens.ndim != 2 or labels.shape != tokens.shape[:1]:
        raise ValueError(
            "X is a table and y has one label for each of its rows; "
            f"their shapes are {tokens.shape} and {labels.shape}."
        )


def check_table(array: NDArray[Any]) -> None:
    """Refuse what has not two dimensions, such as a single context."""
    if array.ndim != 2:
        # Scikit-learn's tests look for the first words; the rest of its advice is for numbers.
        raise ValueError(
            "Reshape your data: X has two dimensions, rows and columns; "
            f"this one has {array.ndim}. Wrap a single row in a list, "
            "or cut a token stream with hammemo.windows(docs, h)."
        )


def _convert_list(X: Any) -> NDArray[Any]:
    """Return a list as an array, or refuse rows of several lengths."""
    try:
        return np.asarray(X)
    except ValueError as error:
        lengths = [len(row) for row in X if hasattr(row, "__len__")]
        other = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if other is None:
            if len(lengths) < len(X):
                raise
            # A value is a list. As an object it gets an error that names its column.
            return object_array(chain.from_iterable(X)).reshape(len(X), -1)
        raise ValueError(
            f"Contexts have one length; row 0 has {lengths[0]} tokens and row {other} "
            f"has {lengths[other]}. Cut sequences with hammemo.windows(docs, h), "
            "or fill missing positions with hammemo.NO_TOKEN."
        ) from error


def _may_be_rounded(array: NDArray[Any]) -> bool:
    """Return whether NumPy may have made rounded floats of whole numbers from 2^53 on."""
    return array.dtype.kind == "f" and bool((np.abs(array) >= 2**53).any())


def _frame_array(frame: Any) -> NDArray[Any]:
    columns = [_column_array(column_at(frame, j)) for j in range(frame.shape[1])]
    for name, values in zip(column_names(frame), columns, strict=True):
        # Before they become objects: as such, dates would pass for integers.
        check_token_dtype(values.dtype, f"Column {name!r}")
    if len({values.dtype for values in columns}) > 1:
        columns = [values.astype(object) for values in columns]
    return np.column_stack(columns) if columns else np.empty(frame.shape, object)


def column_names(frame: Any) -> list[Any]:
    """Return the names of the columns of a data frame; refuse a name that occurs twice."""
    names = list(getattr(frame, "column_names", frame.columns))
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"X has two columns named {twice!r}: rename one, or leave one out.")
    return names


def _column_array(column: Any) -> NDArray[Any]:
    """Return the values of a column of a data frame."""
    if is_arrow(column):
        return read_arrow(column)
    values = np.asarray(column)
    if values.dtype.kind in "mM" and np.isnat(values).all():
        return np.full(len(values), None, object)
    if _may_be_rounded(values):  # such as whole numbers where one is missing
        return object_array(column.to_list())
    return values


def windows(
    docs: Iterable[Any], h: int, short: Literal["drop", "pad"] = "drop", pad: Any = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cut documents into contexts of h tokens, each with the token that follows it.

    No context crosses the boundary between two documents.

    Parameters
    ----------
    docs : iterable of sequences of tokens
        One sequence per document, sentence, session or case.
    h : int
        Tokens per context.
    short : {"drop", "pad"}
        What to do with a token that has fewer than h tokens before it in its document: drop it, or
        keep it with the missing positions empty. With "pad" every token of every document, the
        first one too, is a target.
    pad : token, optional
        With ``short="pad"``: the token that fills the missing positions, so that beginnings can
        match each other. Without it they hold `NO_TOKEN`: no token, no match, no vote.

    Returns
    -------
    X : ndarray of shape (m, h)
        Contexts, oldest token first; integers where all tokens are, otherwise floats or objects.
    y : ndarray of shape (m,)
        The token after each context.

    Examples
    --------
    >>> from hammemo import windows
    >>> X, y = windows([["to", "be", "or", "not"], ["be", "not"]], h=2)
    >>> X.tolist(), y.tolist()
    ([['to', 'be'], ['be', 'or']], ['or', 'not'])
    >>> X, y = windows([[5, 6, 7]], h=2, short="pad", pad=0)
    >>> X.tolist(), y.tolist()
    ([[0, 0], [0, 5], [5, 6]], [5, 6, 7])
    """
    check_window(h, short, pad)
    if isinstance(docs, (str, bytes)) or hasattr(docs, "columns"):
        raise TypeError(
            f"docs is one {type(docs).__name__}, not a list of documents: "
            "pass windows([text.split()], h) for one text, "
            "or one list of tokens for each case of a table."
        )
    documents = [document(doc) for doc in docs]
    return _cut_documents(documents, window_filler(h, short, pad), int(h))


def window_filler(h: int, short: str, pad: Any) -> NDArray[Any]:
    """Return what is put before every document: h pad tokens or empty places, or nothing."""
    if short == "drop":
        return np.empty(0, np.int64)
    token = NO_TOKEN if pad is None else as_token(pad)
    return np.asarray([token] * h, object if isinstance(token, str) else None)


def check_window(h: Any, short: Any, pad: Any) -> None:
    """Refuse parameters that no window can have."""
    if short not in ("drop", "pad"):
        raise ValueError(f"short={short!r} is not known: use 'drop' or 'pad'.")
    if pad is not None and short == "drop":
        raise ValueError("A pad token needs short='pad'; with short='drop' nothing is padded.")
    if not isinstance(h, (int, np.integer)) or h < 1:
        raise ValueError(f"h={h!r}: the number of tokens of a context is a positive whole number.")


def document(doc: Any) -> NDArray[Any]:
    """Return one document as a flat array of tokens."""
    if isinstance(doc, (str, bytes)):
        raise TypeError(
            f"The document {doc[:20]!r} is one string. Split it into tokens first: "
            "text.split() for words, list(text) for characters; "
            "and wrap a single document in a list: windows([tokens], h)."
        )
    refuse_masked(doc, "A document")
    if not hasattr(doc, "__iter__"):
        raise TypeError(
            f"The document {doc!r} is not a sequence of tokens. "
            "Wrap a single document in a list: [tokens]."
        )
    array = token_array(doc if isinstance(doc, np.ndarray) else list(doc))
    if array.ndim != 1:
        raise ValueError(
            f"A document is a flat sequence of tokens; this one has {array.ndim} dimensions."
        )
    check_token_dtype(array.dtype)
    if array.dtype.kind in "UT":
        return object_array(array.tolist())
    if array.dtype.kind == "u":
        # NumPy would make floats of unsigned and signed integers of two documents.
        return array.astype(object if array.dtype.itemsize == 8 else np.int64)
    return array


def _cut_documents(
    documents: list[NDArray[Any]], filler: NDArray[Any], h: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the windows and the targets of documents, with the filler put before each."""
    lengths = np.array([len(doc) for doc in documents], np.int64) + len(filler)
    stream = join_tokens([piece for doc in documents for piece in (filler, doc) if len(piece)])
    # A token is a target if it has h tokens of its document, or fillers, before it.
    document_starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    targets = np.flatnonzero(np.arange(len(stream)) - document_starts >= h)
    return stream[targets[:, None] + np.arange(-h, 0)], stream[targets]


def join_tokens(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays of tokens end to end, as objects where they have several types."""
    kinds = {piece.dtype.kind for piece in pieces if piece.size}
    # NumPy would make floats of whole numbers beside floats, and strings of numbers beside strings.
    if not (kinds <= {"i", "b"} or kinds == {"f"}):
        pieces = [piece.astype(object) for piece in pieces]
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)
