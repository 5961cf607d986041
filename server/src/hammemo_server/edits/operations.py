"""Requests to a served model: edits with an id, acknowledgements, and refusals with a status.

**An edit** is some examples or whole documents to learn or to forget, examples to forget and
others to learn in one step (*apply*), or a request to fit the vote again (a *refit*), and an
operation id that the client has chosen. A client that got no answer sends the same edit with
the same id again: it is applied once. An id with another content is refused.

**A body** is the content of an edit as bytes, MessagePack of kind, rows and labels, or of kind
and documents: what the log keeps and what the keyed digest of an id is made of. A token keeps
its kind: 1, 1.0, "1", true and null are five different bodies. (The library itself then takes 1
and 1.0 as one token.) Of a refit the log keeps what was fitted or chosen
(:mod:`hammemo_server.edits.refits`), and the digest is made of the request.

**A refusal** is a `ServiceError` with the status that HTTP answers. Its message may name values
that the client has sent; it is for the client and never for a log.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from hammemo.edits.apply import check_position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo_server.edits.limits import Limits

Kind = Literal["learn", "forget"]
"""What is done with examples and with documents."""

Token = str | int | float | bool | None
"""What JSON can say."""

Label = str | int | float | bool | None
"""The same; the model refuses a missing label."""

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
"""What a tenant and a model may be called."""

_LONGEST_SUBJECT: Final = 256

_OP: Final = re.compile(r"[!-~]{1,128}", re.ASCII)

DIGEST_BYTES: Final = 16
KEY_BYTES: Final = 32


class ExampleRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Examples, and whose each is, for a model with subjects."""

    rows: list[list[Token]]
    labels: list[Label]
    subjects: list[str] = []


class Edit(msgspec.Struct, frozen=True):
    """What a client asks of a model, all or nothing, under an id that the client chooses.

    It learns or forgets examples or documents, or it is a refit.
    """

    op: str
    kind: Literal[Kind, "apply", "refit", "forget_subject"]
    rows: list[list[Token]] = []
    labels: list[Label] = []
    documents: list[list[Token]] = []
    """In place of rows and labels: every token is learnt from those before it, as the model
    cuts streams."""
    subjects: list[str] = []
    """Whose each row or document is, for a model with subjects; the one subject that is to be
    forgotten."""
    refit: bool = True
    """Of `forget_subject`: whether the model is refitted with it."""
    receipt: bool = False
    """Of `forget` and `refit`: whether a signed receipt is issued. `forget_subject` always
    issues one."""
    gone: ExampleRows | Literal["everything"] | None = None
    """Of `apply`: what is forgotten, before `rows` are learnt and in the same step."""
    position: str | None = None
    """Of `apply`: up to where the source of the rows was read."""

    @property
    def gone_rows(self) -> ExampleRows:
        """Of `apply`: the rows that it names to be forgotten."""
        return self.gone if isinstance(self.gone, ExampleRows) else ExampleRows([], [])


class Acknowledgement(msgspec.Struct, frozen=True, omit_defaults=True):
    """Says that an edit is durable and applied, and whether it already was before this request."""

    version: int
    status: Literal["applied", "repeated"]
    receipt: str = ""
    """A signed receipt (:mod:`hammemo.receipts`), one line of JSON, where the edit asked for
    one."""


class ErasureState(msgspec.Struct, frozen=True):
    """How far a request to forget a subject is: rows removed, or the key destroyed, too."""

    version: int
    """That of the edit which removes the rows; once it is erased, that of the model which the
    receipt is about."""
    state: Literal["applied", "erased"]
    receipt: bytes
    """A signed receipt (:mod:`hammemo.receipts`), once it is erased."""


class ServiceError(Exception):
    """A request that is refused; `status` is the answer that HTTP gives.

    Parameters
    ----------
    message : str
        For the program that asked; it may name files, processes and addresses.
    public : str, optional
        What clients elsewhere are told in its place.
    """

    status: int = 500

    def __init_subclass__(cls, status: int | None = None) -> None:
        cls.status = status or cls.status

    def __init__(self, message: str = "", public: str | None = None) -> None:
        super().__init__(message)
        self.public = message if public is None else public


# These errors are answers, and named for what they say: hence N818.


class NoSuchModel(ServiceError, status=404):  # noqa: N818
    """There is no model of that name for that tenant."""


class NotStored(ServiceError, status=409):  # noqa: N818
    """An example to be forgotten is not stored, or not that many times. Nothing was changed."""


class NoSuchSubject(ServiceError, status=404):  # noqa: N818
    """The model has no rows of that subject: it never had, or they were erased."""


class NoSuchList(ServiceError, status=404):  # noqa: N818
    """The tenant has no list of labels of that name."""


class NothingLearnt(ServiceError, status=409):  # noqa: N818
    """The model has no example yet, so that there is no label to answer with."""


class NothingKept(ServiceError, status=409):  # noqa: N818
    """The model keeps no sample of its examples, so that its vote cannot be fitted again."""


class Exists(ServiceError, status=409):  # noqa: N818
    """There is another model of that name."""


class TooLarge(ServiceError, status=413):  # noqa: N818
    """A request is above a limit."""


class QuotaReached(ServiceError, status=507):  # noqa: N818
    """The tenant stores as much as it may. Nothing was changed."""


class OpReused(ServiceError, status=422):  # noqa: N818
    """The operation id was used for another edit."""


class Malformed(ServiceError, status=422):  # noqa: N818
    """What was sent is not an edit of this model, or not a name or a setting."""


class NotReached(ServiceError, status=425):  # noqa: N818
    """The version asked for was not reached in time."""


class TooMany(ServiceError, status=429):  # noqa: N818
    """Too many edits wait already."""


class Unavailable(ServiceError, status=503):  # noqa: N818
    """Nothing can be written now: the disk is full, the log is lost, or the service stops.

    An edit may have been written nevertheless. Send it again later with its id: it is applied
    once.
    """


class InUse(Unavailable):
    """Another process writes this model."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "Another process writes this model: send edits to that one.")


class KeysDropped(Unavailable, status=410):
    """The key file no longer holds the keys of a database with subjects: do not try again."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"The model {model!r} cannot be read: its keys were dropped from the key file. "
            "A backup was restored in its place, or this is a copy of the database from before "
            "an erasure. Use the restored model, and delete this one."
        )


class UnknownKind(msgspec.ValidationError):
    """A body of a kind that another version of the service has written."""


class _Logged(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the log keeps of an edit; without rows, if a subclass does not say otherwise."""

    @property
    def pieces(self) -> list[tuple[Any, ...]]:
        """The rows, each with its label, or the documents: what belongs to one subject each."""
        return []

    @property
    def n_rows(self) -> int:
        """How many examples it has."""
        return 0

    def body(self) -> bytes:
        """Return it as the log keeps it."""
        return _encoder.encode(self)


class LoggedRows(_Logged, frozen=True):
    """Examples, as the log keeps them."""

    kind: Kind
    rows: list[list[Token]]
    labels: list[Label]

    @classmethod
    def from_pieces(cls, kind: Kind, pieces: list[tuple[Any, ...]]) -> LoggedRows:
        """Return examples that come as pairs."""
        return cls(kind, [row for row, _ in pieces], [label for _, label in pieces])

    @property
    def pieces(self) -> list[tuple[Any, ...]]:
        """Rows, each with its label."""
        return list(zip(self.rows, self.labels, strict=True))

    @property
    def n_rows(self) -> int:
        """How many examples it has."""
        return len(self.rows)

    def with_pieces(self, pieces: list[tuple[Any, ...]]) -> LoggedRows:
        """Return an edit of other rows."""
        return LoggedRows.from_pieces(self.kind, pieces)


class LoggedChange(_Logged, frozen=True):
    """Examples to forget and examples to learn in one step, as the log keeps them."""

    kind: Literal["apply"]
    gone: list[list[Token]]
    gone_labels: list[Label]
    rows: list[list[Token]]
    labels: list[Label]
    everything: bool = False
    """Whether all examples are forgotten."""
    position: str | None = None
    """Up to where the source was read."""

    @property
    def pieces(self) -> list[tuple[Any, ...]]:
        """Rows, each with its label, and with whether it is learnt; those to forget come first."""
        gone = [(row, label, False) for row, label in self.forgotten.pieces]
        return gone + [(row, label, True) for row, label in self.learnt.pieces]

    def with_pieces(self, pieces: list[tuple[Any, ...]]) -> LoggedChange:
        """Return an edit of other rows."""
        gone = LoggedRows.from_pieces("forget", [piece[:2] for piece in pieces if not piece[2]])
        learned = LoggedRows.from_pieces("learn", [piece[:2] for piece in pieces if piece[2]])
        return LoggedChange(
            "apply",
            gone=gone.rows,
            gone_labels=gone.labels,
            rows=learned.rows,
            labels=learned.labels,
            position=self.position,
        )

    @property
    def n_rows(self) -> int:
        """How many examples it has."""
        return len(self.gone) + len(self.rows)

    @property
    def forgets(self) -> bool:
        """Whether something is forgotten."""
        return self.everything or bool(self.gone)

    @property
    def widths(self) -> set[int]:
        """How many tokens the rows have."""
        return {len(row) for row in (*self.gone, *self.rows)}

    @property
    def forgotten(self) -> LoggedRows:
        """What is forgotten, as an edit of its own has it."""
        return LoggedRows("forget", self.gone, self.gone_labels)

    @property
    def learnt(self) -> LoggedRows:
        """What is learnt, as an edit of its own has it."""
        return LoggedRows("learn", self.rows, self.labels)


class LoggedDocuments(_Logged, frozen=True):
    """Whole documents, as the log keeps them."""

    kind: Literal["learnstream", "forgetstream", "erasestream"]
    """The last is in no log: all documents of a subject, those among them of which nothing
    could be learnt."""
    documents: list[list[Token]]

    @property
    def learns(self) -> bool:
        """Whether they are learnt."""
        return self.kind == "learnstream"

    @property
    def pieces(self) -> list[tuple[Any, ...]]:
        """The documents."""
        return [(document,) for document in self.documents]

    def with_pieces(self, pieces: list[tuple[Any, ...]]) -> LoggedDocuments:
        """Return an edit of other documents."""
        return LoggedDocuments(self.kind, [document for (document,) in pieces])

    @property
    def n_rows(self) -> int:
        """About how many examples it has: no more than one for each token."""
        return sum(map(len, self.documents))


class LoggedRefit(_Logged, frozen=True):
    """A refit of the vote."""

    kind: Literal["refit"] = "refit"
    fitted: bytes | None = None
    """What was fitted: None before the fit, empty where the fit changed nothing."""


class LoggedChoice(_Logged, frozen=True):
    """Sites, vote and weights, chosen by the kept rows (:mod:`hammemo_server.edits.refits`)."""

    kind: Literal["choice"]
    chosen: bytes
    late: bool = False
    """Whether rows were forgotten while it was chosen, so that it may depend on them."""


Content = LoggedRows | LoggedChange | LoggedDocuments | LoggedRefit | LoggedChoice
"""The content of an edit."""
WithRows = LoggedRows | LoggedChange | LoggedDocuments
"""The content of an edit of rows or documents, whose parts may belong to several subjects."""

_encoder = msgspec.msgpack.Encoder()
_decoders: Final[dict[str, msgspec.msgpack.Decoder[Content]]] = {
    **{kind: msgspec.msgpack.Decoder(LoggedRows) for kind in ("learn", "forget")},
    **{
        kind: msgspec.msgpack.Decoder(LoggedDocuments)
        for kind in ("learnstream", "forgetstream", "erasestream")
    },
    "apply": msgspec.msgpack.Decoder(LoggedChange),
    "refit": msgspec.msgpack.Decoder(LoggedRefit),
    "choice": msgspec.msgpack.Decoder(LoggedChoice),
}
_parts_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])


def check_edit(edit: Edit, limits: Limits) -> tuple[Content, bytes]:
    """Return the content of an edit, in lists of its own, and its body; refuse one that is wrong.

    Examples
    --------
    >>> from hammemo_server.edits.limits import Limits
    >>> from hammemo_server.edits.operations import Edit, check_edit, decode_body
    >>> edit = Edit("op-1", "learn", [["a", 1, 1.0, True, None]], ["x"])
    >>> content, body = check_edit(edit, Limits())
    >>> content
    LoggedRows(kind='learn', rows=[['a', 1, 1.0, True, None]], labels=['x'])
    >>> decode_body(body) == content
    True
    """
    if not isinstance(edit.op, str) or not _OP.fullmatch(edit.op):
        raise Malformed(
            "op: an operation id is 1 to 128 printable ASCII characters without spaces, "
            "such as a UUID."
        )
    content = _check_content(edit, limits)
    try:
        body = content.body()
    except UnicodeEncodeError:
        raise Malformed("A token or a label cannot be written: a string is not Unicode.") from None
    if len(body) > limits.logged:
        raise TooLarge(
            f"The edit has {len(body):,} bytes, and one may have {limits.logged:,}: "
            "send it in parts."
        )
    return content, body


def list_edited_rows(content: Content) -> Iterator[list[Any]]:
    """Yield what a receipt hashes of an edit: rows, each with its label last, or documents."""
    if isinstance(content, (LoggedRows, LoggedDocuments)):
        yield from ([*tokens, *label] for tokens, *label in content.pieces)


def _check_content(edit: Edit, limits: Limits) -> Content:
    has_rows = bool(edit.rows or edit.labels or edit.documents)
    if edit.kind == "refit" and has_rows:
        raise Malformed(
            "A refit has no rows, no labels and no documents: "
            "the vote is fitted to what the model keeps."
        )
    if edit.kind == "forget_subject" and (has_rows or len(edit.subjects) != 1):
        raise Malformed(
            "forget_subject names one subject, and no rows: the model knows the subject's rows."
        )
    if edit.kind in ("refit", "forget_subject"):
        return LoggedRefit()
    if edit.kind == "apply":
        return _check_change(edit, limits)
    if edit.kind not in ("learn", "forget"):
        raise Malformed(
            f"kind={str(edit.kind)[:40]!r} is not known: "
            "an edit is 'learn', 'forget', 'apply' or 'refit'."
        )
    if edit.documents:
        # letters only: a version that does not know a kind names it if it is one plain word
        kind: Literal["learnstream", "forgetstream"]
        kind = "learnstream" if edit.kind == "learn" else "forgetstream"
        return LoggedDocuments(kind, _check_documents(edit, limits))
    if problem := _shape_problem(edit.rows, edit.labels):
        raise Malformed(problem)
    return LoggedRows(edit.kind, check_rows(edit.rows, limits), _check_values(edit.labels, limits))


def _check_change(edit: Edit, limits: Limits) -> LoggedChange:
    everything = edit.gone == "everything"
    gone = edit.gone_rows
    if (gone.rows or gone.labels) and (problem := _shape_problem(gone.rows, gone.labels)):
        raise Malformed(f"forget: {problem}")
    if (edit.rows or edit.labels) and (problem := _shape_problem(edit.rows, edit.labels)):
        raise Malformed(f"learn: {problem}")
    gone_rows = check_rows(gone.rows, limits)
    gone_labels = _check_values(gone.labels, limits)
    rows = check_rows(edit.rows, limits)
    labels = _check_values(edit.labels, limits)
    change = LoggedChange(
        "apply",
        gone=gone_rows,
        gone_labels=gone_labels,
        rows=rows,
        labels=labels,
        everything=everything,
        position=edit.position,
    )
    if len(change.widths) > 1:
        raise Malformed(
            "The rows to forget have another number of tokens than the rows to learn: "
            "all have one length."
        )
    if not change.n_rows and not everything and edit.position is None:
        raise Malformed(
            "There is nothing to do: give rows to learn, rows to forget, or a position."
        )
    if edit.position is not None:
        try:
            check_position(edit.position)
        except ValueError as error:
            raise Malformed(str(error)) from None
    return change


def split_by_subject(
    edit: Edit, content: Content, body: bytes
) -> tuple[dict[str, bytes], list[int]]:
    """Return a body for the rows of each subject, and for each row the number of its subject.

    The list of numbers is empty where all rows are one subject's: then the body is that of the
    edit. Rows
    to forget come before rows to learn. An edit without rows has no parts.

    Examples
    --------
    >>> from hammemo_server.edits.limits import Limits
    >>> from hammemo_server.edits.operations import Edit, check_edit, decode_body
    >>> from hammemo_server.edits.operations import split_by_subject
    >>> rows, labels = [["a"], ["b"], ["c"]], ["x", "y", "z"]
    >>> edit = Edit("1", "learn", rows, labels, subjects=["ann", "bob", "ann"])
    >>> parts, owners = split_by_subject(edit, *check_edit(edit, Limits()))
    >>> decode_body(parts["ann"]).rows, decode_body(parts["bob"]).rows, owners
    ([['a'], ['c']], [['b']], [0, 1, 0])
    """
    subjects = _check_subjects(edit.gone_rows.subjects, len(edit.gone_rows.rows))
    n_pieces = 1 if edit.kind == "forget_subject" else len(edit.rows or edit.documents)
    subjects += _check_subjects(edit.subjects, n_pieces)
    return split_by_owner(subjects, content, body)


Owner = TypeVar("Owner", str, bytes)


def split_by_owner(
    subjects: list[Owner], content: Content, body: bytes
) -> tuple[dict[Owner, bytes], list[int]]:
    """Return what `split_by_subject` returns, for subjects that are known to be right."""
    numbers = {subject: number for number, subject in enumerate(dict.fromkeys(subjects))}
    if len(numbers) <= 1:
        return dict.fromkeys(numbers, body), []
    owners = [numbers[subject] for subject in subjects]
    assert isinstance(content, WithRows)
    pieces: list[list[tuple[Any, ...]]] = [[] for _ in numbers]
    for owner, piece in zip(owners, content.pieces, strict=True):
        pieces[owner].append(piece)
    bodies = {
        subject: content.with_pieces(pieces_of_owner).body()
        for subject, pieces_of_owner in zip(numbers, pieces, strict=True)
    }
    return bodies, owners


def _check_subjects(subjects: list[str], n: int) -> list[str]:
    if len(subjects) != n:
        raise Malformed(
            f"subjects: {len(subjects)} are named for {n} rows or documents: name one for each."
        )
    for subject in subjects:
        if type(subject) is not str or not 1 <= len(subject) <= _LONGEST_SUBJECT:
            raise Malformed(
                f"subjects: a subject is a string of 1 to {_LONGEST_SUBJECT} characters, "
                "such as an id."
            )
        try:
            subject.encode()
        except UnicodeEncodeError:
            raise Malformed("subjects: a string is not Unicode.") from None
    return list(subjects)


def join_parts(parts: list[Content], owners: list[int]) -> Content:
    """Return the content of an edit from the parts of its subjects, its rows as they were sent."""
    if not owners:
        if len(parts) != 1:
            raise msgspec.ValidationError("an edit has parts, and does not say whose which row is")
        return parts[0]
    first = parts[0] if parts else None
    if not isinstance(first, WithRows) or len({part.kind for part in parts}) != 1:
        raise msgspec.ValidationError("the parts of an edit are of several kinds")
    pieces = [part.pieces for part in parts]
    if Counter(owners) != Counter(dict(enumerate(map(len, pieces)))):
        raise msgspec.ValidationError(
            "the parts of an edit have other numbers of rows than it says"
        )
    remaining = [iter(rows_of_owner) for rows_of_owner in pieces]
    return first.with_pieces([next(remaining[owner]) for owner in owners])


def _shape_problem(rows: list[list[Token]], labels: list[Label]) -> str:
    """Return why these are not rows of one length with one label each; nothing where they are."""
    if not rows or len(rows) != len(labels):
        return (
            f"There are {len(rows)} rows and {len(labels)} labels: "
            "send one label for each of 1 or more rows."
        )
    columns = len(rows[0])
    odd_row = next((i for i, row in enumerate(rows) if len(row) != columns or not row), None)
    if odd_row is None:
        return ""
    return (
        f"Row 0 has {columns} tokens and row {odd_row} has {len(rows[odd_row])}: "
        "all rows have one length, at least 1."
    )


def decode_body(body: bytes) -> Content:
    """Return a body that the log has kept; `msgspec.MsgspecError` where the bytes are none."""
    parts = _parts_decoder.decode(body)
    kind = msgspec.msgpack.decode(parts[0]) if parts else None
    if not isinstance(kind, str) or kind not in _decoders:
        # a short word can be shown: it is no token of an example
        if isinstance(kind, str) and re.fullmatch(r"[a-z]{1,20}", kind):
            raise UnknownKind(kind)
        raise msgspec.ValidationError("a body says no kind")
    content = _decoders[kind].decode(body)
    problem = (
        _shape_problem(content.rows, content.labels) if isinstance(content, LoggedRows) else ""
    )
    if isinstance(content, LoggedDocuments) and not (content.documents and all(content.documents)):
        problem = "there are no documents, or one of them is empty"
    if isinstance(content, LoggedChange) and (
        len(content.gone) != len(content.gone_labels)
        or len(content.rows) != len(content.labels)
        or len(content.widths) > 1
    ):
        problem = "there is not one label for each row, or rows have several lengths"
    if problem:
        raise msgspec.ValidationError(problem)
    return content


def digest_body(body: bytes, key: bytes) -> bytes:
    """Return the keyed digest of a body, which tells whether a repeated edit is the same."""
    return blake2b(body, digest_size=DIGEST_BYTES, key=key, person=b"hammemo service").digest()


def check_name(kind: str, name: str) -> str:
    """Return the name of a tenant or a model, or refuse it."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Malformed(
            f"{kind} {str(name)[:80]!r}: a name is 1 to 64 characters of a to z, 0 to 9, "
            "'-' and '_', and begins with a letter or a digit."
        )
    return name


def _check_documents(edit: Edit, limits: Limits) -> list[list[Token]]:
    """Return the documents of an edit, in lists of their own, or refuse them."""
    documents = edit.documents
    if edit.rows or edit.labels:
        raise Malformed("An edit has documents, or rows and labels, not both: send two edits.")
    if len(documents) > limits.documents:
        raise TooLarge(
            f"The edit has {len(documents):,} documents, and one may have {limits.documents:,}: "
            "send parts."
        )
    longest = max(map(len, documents))
    in_all = sum(map(len, documents))
    if longest > limits.document:
        raise TooLarge(
            f"A document has {longest:,} tokens, and one may have {limits.document:,}. "
            "A part of it is another document: learn and forget it with the library, "
            "and upload the model under another name."
        )
    if in_all > limits.tokens:
        raise TooLarge(
            f"The documents have {in_all:,} tokens, "
            f"and those of one edit may have {limits.tokens:,}: send them in several edits."
        )
    if not all(documents):
        raise Malformed(
            f"Document {documents.index([])} is empty: a document has at least one token."
        )
    return [_check_values(document, limits) for document in documents]


def check_rows(rows: list[list[Token]], limits: Limits) -> list[list[Token]]:
    """Return rows in lists of their own; refuse too many, too long ones, and wrong values."""
    if len(rows) > limits.rows:
        raise TooLarge(
            f"There are {len(rows):,} rows, and one request may have {limits.rows:,}: send parts."
        )
    for i, row in enumerate(rows):
        if len(row) > limits.columns:
            raise TooLarge(
                f"Row {i} has {len(row):,} tokens, and a row may have {limits.columns:,}."
            )
    return [_check_values(row, limits) for row in rows]


def _check_values(values: list[Token], limits: Limits) -> list[Token]:
    """Return tokens or labels in a list of their own, or refuse them."""
    longest = limits.text
    for value in values:
        kind = type(value)
        if kind is str:
            if len(value) > longest:  # type: ignore[arg-type]
                raise TooLarge(f"A token or a label has more than {longest:,} characters.")
        elif kind is int:
            if not -(2**63) <= value < 2**63:  # type: ignore[operator]
                raise Malformed(
                    "A token or a label is a whole number beyond 64 bits: send it as a string."
                )
        elif kind is float:
            if not math.isfinite(value):  # type: ignore[arg-type]
                raise Malformed(
                    "A token or a label is not a finite number: a missing value is null."
                )
        elif kind is not bool and value is not None:
            raise Malformed(
                f"A token or a label is a {kind.__name__}: "
                "use strings, numbers, truth values and null."
            )
    return list(values)
