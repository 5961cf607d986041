"""What is said, and what is stored, about how columns of files are read.

Sentences name the column, the values and the way out; parameters in them are those of the library,
which a command turns into its options. Notes of a model file hold the texts that are missing values
and the formats of dates, so that a later file is read alike.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from hammemo.sources.kinds import InputKind
from hammemo.tokens.date_formats import check_format
from hammemo.tokens.text_evidence import NA_TEXTS, Doubt, describe_missing, quote_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hammemo.sources.kinds import InputKinds
    from hammemo.tokens.text_evidence import TextEvidence

_NOTE_LENGTH: Final = 4096
"""A note of a model file has at most so many characters; a longer text becomes several notes."""

_MAX_PARTS: Final = 24
_SHOWN_COLUMNS: Final = 10
_SHOWN_FORMATS: Final = 3

_PLACE: Final = re.compile(r"Column ([0-9]{1,9})\b")
"""How a warning about a column without a name begins."""


# ---------------------------------------------------------------- sentences


def describe_missing_texts(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a sentence for each column in which texts were read as missing values.

    All columns after the tenth share one.

    Examples
    --------
    >>> from hammemo.sources.reading_notes import describe_missing_texts
    >>> describe_missing_texts({"age": {"NA": 2}})
    ["Column 'age': 2 values 'NA' are read as missing."]
    """
    listed = list(counts.items())
    sentences = [
        f"Column {name!r}: {describe_missing(texts)}." for name, texts in listed[:_SHOWN_COLUMNS]
    ]
    further = listed[_SHOWN_COLUMNS:]
    if further:
        columns = "1 more column"
        if len(further) > 1:
            columns = f"{len(further):,} more columns"
        total = sum(sum(texts.values()) for _, texts in further)
        values = "1 value is"
        if total > 1:
            values = f"{total:,} values are"
        sentences.append(f"In {columns}, {values} read as missing.")
    return sentences


@contextmanager
def name_columns_in_warnings(columns: Sequence[str] | None) -> Iterator[None]:
    """Let warnings that begin with the place of a column have its name there, as the file has it.

    Commands hand arrays without names to models: names are the business of how files are read.
    """
    with warnings.catch_warnings(record=True) as caught:
        try:
            yield
        finally:
            distinct = {(str(warning.message), warning.category): warning for warning in caught}
    for warning in distinct.values():
        sentence = name_column(str(warning.message), columns)
        warnings.warn_explicit(sentence, warning.category, warning.filename, warning.lineno)


def name_column(sentence: str, columns: Sequence[str] | None) -> str:
    """Return a sentence that begins with the place of a column with its name there.

    Examples
    --------
    >>> from hammemo.sources.reading_notes import name_column
    >>> name_column("Column 1 holds long texts.", ["name", "price"])
    "Column 'price' holds long texts."
    """
    start = _PLACE.match(sentence)
    if start is None or columns is None or int(start[1]) >= len(columns):
        return sentence
    return f"Column {columns[int(start[1])]!r}{sentence[start.end() :]}"


class MissingTexts:
    """Which texts were read as missing values, and how often, by column."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def add(self, name: str, counts: Counter[str]) -> None:
        """Add those of some rows of a column."""
        if counts:
            self._counts.setdefault(name, Counter()).update(counts)

    def sentences(self) -> list[str]:
        """Return a sentence for each column that has some."""
        return describe_missing_texts(self._counts)


def describe_doubts(columns: Iterable[tuple[str, TextEvidence]]) -> list[str]:
    """Return a sentence for each column that is probably misread.

    All columns after the tenth share one.
    """
    doubtful = [(name, evidence) for name, evidence in columns if evidence.doubt is not None]
    sentences = [_describe_doubt(name, evidence) for name, evidence in doubtful[:_SHOWN_COLUMNS]]
    if len(doubtful) > _SHOWN_COLUMNS:
        sentences.append(f"So are probably {len(doubtful) - _SHOWN_COLUMNS:,} more columns.")
    return sentences


def _describe_doubt(name: str, evidence: TextEvidence) -> str:
    """Return what is doubtful in a column, with its values, and how the user settles it."""
    start = f"Column {name!r} holds"
    such_as = f"such as {quote_texts(evidence.shown)}"
    ways = " or ".join(
        f"date_format={f'{name}={written}'!r}" for written in _likely_formats(evidence)
    )
    as_names = "they are read as names."
    if evidence.doubt == Doubt.ORDER:
        return (
            f"{start} dates, {such_as}, that do not say which number is the day: "
            f"{as_names} Use {ways}."
        )
    if evidence.doubt == Doubt.CENTURY:
        return (
            f"{start} dates with two-digit years, {such_as}: "
            f"{as_names} If they are dates, use {ways}."
        )
    if evidence.doubt == Doubt.FORMATS:
        return (
            f"{start} dates in more than one format, {such_as}: {as_names} Write all of them alike."
        )
    if evidence.doubt == Doubt.COMPACT:
        return (
            f"{start} whole numbers that are all dates as eight digits, {such_as}: "
            f"they are read as numbers. If they are dates, use {ways}."
        )
    if evidence.doubt == Doubt.DATE_STRINGS:
        return (
            f"{start} dates as strings, {such_as}: {as_names} Convert it to dates, or use {ways}."
        )
    if evidence.doubt == Doubt.NUMBER_STRINGS:
        return f"{start} numbers as strings: {as_names} Convert it to numbers if numbers are meant."
    strays = evidence.others or ()
    texts = sorted({*strays, *dict(evidence.missing)})
    options = " ".join(f"na={text!r}" for text in texts)
    return (
        f"{start} {evidence.n_numbers:,} numbers, but also {quote_texts(strays)}: they are all "
        f"read as names. Correct these values, or use {options} if they are missing ones."
    )


def _likely_formats(evidence: TextEvidence) -> list[str]:
    """Return the formats between which the user decides, as commands take them."""
    if evidence.doubt == Doubt.DATE_STRINGS:
        return [evidence.date_format or ""]
    return sorted(evidence.readings - {"number"})[:_SHOWN_FORMATS]


# ---------------------------------------------------------------- parameters


def read_na(na: Any) -> tuple[str, ...]:
    """Return the texts that are missing values from a parameter: None for `NA_TEXTS`, "" for none.

    Examples
    --------
    >>> from hammemo.sources.reading_notes import read_na
    >>> read_na(["-", "unknown"]), read_na("-"), read_na("")
    (('-', 'unknown'), ('-',), ())
    """
    if na is None:
        return NA_TEXTS
    if isinstance(na, str):
        na = [na]
    texts = list(na)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"na={na!r} is not a list of texts: write numbers in quotes, as the file has them."
        )
    return tuple(sorted({text.strip() for text in texts} - {""}))


def read_date_formats(date_format: Any) -> tuple[tuple[str, str], ...]:
    """Return columns and their formats from a parameter.

    That is a mapping, or texts such as ``"when=%d.%m.%Y"``.

    Examples
    --------
    >>> from hammemo.sources.reading_notes import read_date_formats
    >>> read_date_formats("when=%d.%m.%Y"), read_date_formats({"when": "ISO8601"})
    ((('when', '%d.%m.%Y'),), (('when', 'ISO8601'),))
    """
    if date_format is None:
        return ()
    if hasattr(date_format, "items"):
        pairs = [(str(name), str(written)) for name, written in date_format.items()]
    else:
        pairs = [
            _split_pair(text)
            for text in ([date_format] if isinstance(date_format, str) else date_format)
        ]
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"date_format= names the column {twice!r} twice: leave one out.")
    return tuple((name, check_format(written)) for name, written in pairs)


def _split_pair(text: str) -> tuple[str, str]:
    name, equals, written = text.rpartition("=")
    if not equals or not name:
        raise ValueError(
            f"date_format={text!r} names no column: write COLUMN=FORMAT, as in 'when=%d.%m.%Y'."
        )
    return name, written


def check_formatted_columns(
    formats: Iterable[tuple[str, str]],
    columns: Sequence[str],
    kinds: InputKinds,
    time: str | None,
) -> None:
    """Refuse a format for a column that is not there, or that the model has not learned as dates.

    `kinds` are those of the columns, UNKNOWN for open ones; empty while all are open. `time` is a
    column that may be beside them.
    """
    for name, _ in formats:
        if name == time and name not in columns:
            continue
        if name not in columns:
            listed = ", ".join(columns[:_SHOWN_COLUMNS])
            raise ValueError(
                f"date_format= names the column {name!r}, which is none of the context: {listed}."
            )
        kind = InputKind.UNKNOWN
        if kinds:
            kind = kinds[list(columns).index(name)]
        if kind not in (InputKind.DATES, InputKind.UNKNOWN):
            learned = kind.column_kind.word
            raise ValueError(
                f"date_format= names the column {name!r}, which was learned as {learned}: "
                "leave it out, or fit again with it."
            )


# ---------------------------------------------------------------- notes


def _note_names(name: str) -> list[str]:
    """Return the names of the notes of a long text: ``dates``, ``dates-2`` and so on."""
    return [name, *(f"{name}-{number}" for number in range(2, _MAX_PARTS + 1))]


def split_note(name: str, text: str) -> dict[str, str]:
    """Return a text as a note, or as several where it is long: ``dates``, ``dates-2`` and so on."""
    starts = range(0, len(text), _NOTE_LENGTH)
    if len(starts) > _MAX_PARTS:
        raise ValueError(
            f"The model cannot be saved: its {name} need {len(text):,} characters of notes. "
            "Name fewer."
        )
    pieces = [text[start : start + _NOTE_LENGTH] for start in starts]
    return dict(zip(_note_names(name), pieces, strict=False))


def join_note(name: str, notes: Mapping[str, str]) -> str:
    """Return the text that `split_note` split; empty if there is none."""
    return "".join(notes.get(piece_name, "") for piece_name in _note_names(name))


def na_of_note(note: str) -> tuple[str, ...]:
    """Return the texts that are missing values from their note; `NA_TEXTS` without one."""
    texts = _json_of_note(note)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return NA_TEXTS
    return tuple(texts)


def places_by_format(formats: Sequence[tuple[int, str]]) -> dict[str, list[list[int]]]:
    """Return the columns of each format as ranges of places.

    They are short where many columns are alike.

    Examples
    --------
    >>> from hammemo.sources.reading_notes import places_by_format
    >>> places_by_format([(1, "%d.%m.%Y"), (2, "%d.%m.%Y"), (5, "%d.%m.%Y")])
    {'%d.%m.%Y': [[1, 2], [5, 5]]}
    """
    ranges: dict[str, list[list[int]]] = {}
    for place, written in formats:
        of_format = ranges.setdefault(written, [])
        if of_format and of_format[-1][1] == place - 1:
            of_format[-1][1] = place
        else:
            of_format.append([place, place])
    return ranges


def formats_of_note(text: str, kinds: InputKinds) -> tuple[tuple[int, str], ...]:
    """Return the formats of columns from their note; refuse one that does not fit their kinds."""
    ranges = _json_of_note(text)
    formats: list[tuple[int, str]] = []
    try:
        for written, of_format in (ranges or {}).items():
            check_format(written)
            for first, last in of_format:
                if (
                    type(first) is not int
                    or type(last) is not int
                    or not 0 <= first <= last < len(kinds)
                ):
                    raise ValueError("a range is no range of columns")
                if last - first >= len(kinds) - len(formats):  # so a crafted note takes no time
                    raise ValueError("a column has more than one format")
                formats += [(place, written) for place in range(first, last + 1)]
        if any(kinds[place] != InputKind.DATES for place, _ in formats):
            raise ValueError("a column with a format holds no dates")
    except (AttributeError, TypeError, ValueError) as error:
        shown = text[:40]
        raise ValueError(
            f"The note 'dates' of the model file is damaged ({shown!r}): fit the model again."
        ) from error
    return tuple(sorted(formats))


def _json_of_note(text: str) -> Any:
    """Return the value of a note; None for one that is not there, or that is no JSON."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
