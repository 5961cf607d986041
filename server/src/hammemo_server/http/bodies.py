"""What a request may say and what an answer says, as types; decoded and encoded by msgspec.

A type says what the document of the interface (OpenAPI) shows, so both are always the same.
Sizes are checked by the core (:mod:`hammemo_server.edits.operations`), in one place for edits
and questions.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from hammemo_server.edits.operations import ExampleRows, Label, Malformed, Token

# msgspec reads annotations at run time
from hammemo_server.store.label_lists import NamedList  # noqa: TC001

_MAX_SETTINGS_DEPTH: Final = 16

Contexts: TypeAlias = Annotated[
    list[list[Token]],
    Meta(
        description="Contexts: one row of tokens each, as many as the model has columns. "
        "A model that was fitted to documents takes any number of tokens, "
        "such as the clicks so far."
    ),
]
Lists: TypeAlias = list[Label | list[Label]]
"""One list of labels for all rows, or one list a row."""
Version: TypeAlias = Annotated[
    int, Meta(ge=0, le=2**63 - 1, description="Acknowledged edits that were applied.")
]
MinVersion: TypeAlias = Annotated[
    int,
    Meta(
        ge=0,
        le=2**63 - 1,
        description="Answer from this version or a newer one, such as that of an edit.",
    ),
]


ListVersion: TypeAlias = Annotated[
    int, Meta(ge=1, le=2**63 - 1, description="Grows with every list that this tenant sends.")
]


Op: TypeAlias = Annotated[
    str,
    Meta(
        description="An id of your own choice, 1 to 128 printable ASCII characters without "
        "spaces. The same edit sent again under it is applied once."
    ),
]


Subjects: TypeAlias = Annotated[
    list[str],
    Meta(
        description="The subject of each row or document, 1 to 256 characters each; "
        "only for a model with subjects."
    ),
]


WantsReceipt: TypeAlias = Annotated[
    bool,
    Meta(
        description="Whether the answer has a signed receipt; the server needs a key file for it."
    ),
]


class EditBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Examples to learn or to forget, all of them or none."""

    op: Op
    rows: list[list[Token]]
    labels: list[Label]
    subjects: Subjects = []


class ForgetBody(EditBody, frozen=True, forbid_unknown_fields=True):
    """Examples to forget, all of them or none."""

    receipt: WantsReceipt = False


class StreamBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Whole documents to learn or to forget, all of them or none: every token from those before."""

    op: Op
    documents: Annotated[
        list[list[Token]],
        Meta(
            description="One list of tokens each, from the first to the last, "
            "such as the clicks of one visit."
        ),
    ]
    subjects: Subjects = []


class ForgetStreamBody(StreamBody, frozen=True, forbid_unknown_fields=True):
    """Whole documents to forget, all of them or none."""

    receipt: WantsReceipt = False


class ApplyBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Examples to forget and examples to learn in one step, all of them or none."""

    op: Op
    learn: ExampleRows | None = None
    forget: Annotated[
        ExampleRows | Literal["everything"] | None,
        Meta(
            description='What is forgotten, before the rest is learnt; "everything" for all '
            "examples."
        ),
    ] = None
    position: Annotated[
        str | None,
        Meta(
            description="Up to where the source of the rows was read, at most 1,024 characters. "
            "It is stored with the edit, and the description of the model has it."
        ),
    ] = None


class ErasureBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to forget all rows of a subject, and to destroy the key of its journal."""

    op: Op
    subject: str
    refit: Annotated[bool, Meta(description="Whether the model is refitted with it.")] = True


class RefitBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to fit the vote again, to the examples that the model keeps."""

    op: Op
    receipt: WantsReceipt = False


class ListName(Struct, frozen=True, forbid_unknown_fields=True):
    """A named list of labels of this tenant, in the place of labels."""

    list: Annotated[str, Meta(description="Its name, such as in_stock.")]


class FoundList(ListName, frozen=True):
    """A named list that was found: in no body."""

    found: NamedList


class Question(Struct, frozen=True, forbid_unknown_fields=True):
    """Contexts to be answered."""

    rows: Contexts
    min_version: MinVersion | None = None


class PredictQuestion(Question, frozen=True, forbid_unknown_fields=True):
    """Contexts to be answered with a label or a number each."""

    interval: Annotated[
        Annotated[float, Meta(gt=0, lt=1)] | None,
        Meta(description="Answer with intervals, too, that hold the number with this probability."),
    ] = None


class RankedQuestion(Question, frozen=True, forbid_unknown_fields=True):
    """Contexts to be answered with several labels each."""

    k: Annotated[int, Meta(ge=1, le=1_000_000)] = 5


class TopKQuestion(RankedQuestion, frozen=True, forbid_unknown_fields=True):
    """Contexts to be answered with several labels each, perhaps not of all labels."""

    exclude: Annotated[
        Literal["seen"] | Lists | ListName | None,
        Meta(
            description="Labels to leave out: one list for all rows, one list per row, "
            "or the name of a list. 'seen' leaves out the tokens of the row itself, "
            "such as items that were clicked already."
        ),
    ] = None
    allow: Annotated[
        Lists | ListName | None,
        Meta(
            description="The only labels that are allowed: one list for all rows, one list per "
            'row, or the name of a list, such as {"list": "in_stock"}.'
        ),
    ] = None
    scores: Annotated[bool, Meta(description="Whether to answer with scores, too.")] = False


class ErasureAnswer(Struct, frozen=True):
    """A subject whose rows are removed. Send the same request again until it is erased."""

    version: Version
    status: Annotated[
        str, Meta(description='"applied", or "repeated" where this op had been applied before.')
    ]
    state: Annotated[
        str,
        Meta(description='"applied": its rows are removed; "erased": its key is destroyed, too.'),
    ]
    receipt: Annotated[
        str, Meta(description="One line of JSON, signed; nothing before it is erased.")
    ]


class Labels(Struct, frozen=True, omit_defaults=True):
    """The most likely label of each row, or the expected number."""

    labels: list[Label]
    version: Version
    intervals: Annotated[
        list[list[float | None]] | None,
        Meta(
            description="The ends of intervals, if asked for; "
            "null is an end that too few rows leave infinite."
        ),
    ] = None


class RankedLabels(Struct, frozen=True, omit_defaults=True):
    """The k most likely labels of each row, best first; fewer where fewer are allowed."""

    labels: list[list[Label]]
    version: Version
    scores: Annotated[
        list[list[float]] | None, Meta(description="Their scores, where they were asked for.")
    ] = None
    lists: Annotated[
        dict[str, ListVersion], Meta(description="The versions of the named lists that were used.")
    ] = {}


class Probabilities(Struct, frozen=True):
    """The probability of each label, in the order of `classes`."""

    classes: list[Label]
    probabilities: list[list[float]]
    version: Version


class Explanations(Struct, frozen=True):
    """Why each row got its label: what each site adds to the scores of the leading labels."""

    explanations: list[dict[str, Any]]
    version: Version


class Certificates(Struct, frozen=True):
    """The label of each row, and whether it is proven to be that of the exact classifier."""

    labels: list[Label]
    certified: list[bool]
    version: Version


class ModelNames(Struct, frozen=True):
    """The models of this tenant."""

    models: list[str]


class AliasBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The model that an alias is to stand for."""

    model: str


class Aliases(Struct, frozen=True):
    """The aliases of this tenant, and the models that they stand for."""

    aliases: dict[str, str]


class ListBody(Struct, frozen=True, forbid_unknown_fields=True):
    """All items of a named list, in the place of those that it had."""

    items: Annotated[
        list[str | int | float | bool],
        Meta(
            description="Labels. Equal ones count once; "
            "those that a model does not have are passed over."
        ),
    ]


class ListDescribed(Struct, frozen=True):
    """The version of a named list, and how many items it has."""

    version: ListVersion
    items: int


class NamedLists(Struct, frozen=True):
    """The named lists of this tenant."""

    lists: dict[str, ListDescribed]


class ListContent(Struct, frozen=True):
    """A named list."""

    version: ListVersion
    items: list[str | int | float]


class SnapshotAnswer(Struct, frozen=True):
    """A snapshot that was written."""

    version: Version


class AuditStart(Struct, frozen=True):
    """What the first line of an audit record is chained to."""

    number: int
    link: str


class AuditLine(Struct, frozen=True):
    """One edit without its content; bytes are hexadecimal digits."""

    number: int
    at: Annotated[float, Meta(description="Seconds since 1970, UTC.")]
    token: Annotated[str, Meta(description="The name of the token with which the edit was sent.")]
    kind: str
    op: Annotated[str, Meta(description="A keyed hash of the operation id.")]
    rows: int
    before: Version
    after: Version
    receipt: Annotated[
        str, Meta(description="The hash of the receipt that was issued, if one was.")
    ]
    link: Annotated[str, Meta(description="BLAKE2b-256 of this line and of the link before.")]


class AuditAnswer(Struct, frozen=True):
    """Lines of the audit record, at most 1,000; ask for those after the last one to go on."""

    start: AuditStart
    lines: list[AuditLine]


class ErrorFacts(Struct, frozen=True):
    """What went wrong."""

    status: int
    code: str
    message: str


class ErrorAnswer(Struct, frozen=True):
    """Every answer that is no success."""

    error: ErrorFacts


class TensorErrorAnswer(Struct, frozen=True):
    """The same below ``/v2``, where the Open Inference Protocol wants the message in ``error``."""

    error: str
    code: str


Body = TypeVar("Body")
encoded: Final = msgspec.json.Encoder().encode
"""Returns an answer as JSON."""


def decode(decoder: msgspec.json.Decoder[Body], body: bytes) -> Body:
    """Return a body as its type has it, or say what is wrong with it."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Malformed(f"The body is not as it should be: {_short(error)}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise Malformed(f"The body is not JSON: {_short(error)}.") from None


def _short(error: Exception) -> str:
    return str(error)[:200].rstrip(".") or type(error).__name__


def decode_settings(body: bytes) -> dict[str, Any]:
    """Return a small JSON object of any content."""
    settings = decode(msgspec.json.Decoder(dict[str, Any]), body)
    _check_depth(settings, _MAX_SETTINGS_DEPTH)
    return settings


def _check_depth(value: Any, left: int) -> None:
    if isinstance(value, (dict, list)):
        if not left:
            raise Malformed(f"The settings are more than {_MAX_SETTINGS_DEPTH} levels deep.")
        for entry in value.values() if isinstance(value, dict) else value:
            _check_depth(entry, left - 1)
