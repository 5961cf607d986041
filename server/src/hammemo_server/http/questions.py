"""The kinds of questions: how each is read, what it costs, and how a version of a model answers it.

The server answers short questions itself. Long ones are answered elsewhere
(:mod:`hammemo_server.http.long_questions`) from the same table.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hammemo_server.edits.operations import Malformed, NotReached, Unavailable, check_rows
from hammemo_server.http import bodies, tensors
from hammemo_server.http.answering import ReadyVersion
from hammemo_server.http.bodies import decode, encoded
from hammemo_server.http.messages import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo_server.edits.limits import Limits
    from hammemo_server.http.answering import Stop
    from hammemo_server.models.host import Host
    from hammemo_server.models.served import ServedModel
    from hammemo_server.store.label_lists import NamedList

LONG_MICROSECONDS: Final = 10_000
"""A question that takes longer, about, is a long one."""
SHORT_MICROSECONDS: Final = 2_500
"""One that takes longer than this is answered as a long one where a tenant asks many of them."""
QUICK_MICROSECONDS: Final = 500
"""One that takes no longer is answered by the event loop itself."""
LONG_BODY: Final = 2**15
"""So is one with a longer body: reading it takes as long."""


@dataclass(frozen=True)
class QuestionKind:
    """One kind of question.

    Parameters
    ----------
    ask : str
        The name of its operation.
    decoder : Decoder
        Of its body.
    answer : function of a version, a question, limits and `stop`
    """

    ask: str
    decoder: msgspec.json.Decoder[Any]
    answer: Callable[[ReadyVersion, Any, Limits, Stop], Any]

    def read(self, body: bytes, model: str, limits: Limits) -> Any:
        """Return a question, checked."""
        question = decode(self.decoder, body)
        if isinstance(question, tensors.InferenceRequest):
            question = tensors.question_of(question, model)
        check_rows(question.rows, limits)
        return question

    def is_long(
        self, ready: ReadyVersion, question: Any, may_take_time: Callable[[], bool]
    ) -> bool:
        """Return whether a question would keep others waiting.

        `may_take_time` decides about one in between.
        """
        cost = ready.cost(self.ask, question)
        return cost > LONG_MICROSECONDS or (cost > SHORT_MICROSECONDS and not may_take_time())

    def is_quick(self, ready: ReadyVersion, question: Any) -> bool:
        """Return whether a question takes no longer than to hand it to a thread."""
        lists = (getattr(question, "exclude", None), getattr(question, "allow", None))
        is_short = ready.reads_rows and ready.cost(self.ask, question) <= QUICK_MICROSECONDS
        # labels have to be looked up
        return is_short and not any(isinstance(labels, list) for labels in lists)


def _kind(
    ask: str, takes: type, answer: Callable[[ReadyVersion, Any, Limits, Stop], Any]
) -> QuestionKind:
    def check_and_answer(ready: ReadyVersion, question: Any, limits: Limits, stop: Stop) -> Any:
        if not ready.model.has_scores and ask not in ("predict", "v2-infer"):
            raise Malformed(
                f"This model predicts {ready.model.predicts}, so there is no {ask}: "
                "use predict, with an interval."
            )
        return answer(ready, question, limits, stop)

    return QuestionKind(ask, msgspec.json.Decoder(takes), check_and_answer)


KINDS: Final = {
    kind.ask: kind
    for kind in (
        _kind(
            "predict",
            bodies.PredictQuestion,
            lambda ready, question, _, stop: ready.predict(question, stop),
        ),
        _kind(
            "certify",
            bodies.Question,
            lambda ready, question, _, stop: ready.certify(question, stop),
        ),
        _kind("top-k", bodies.TopKQuestion, ReadyVersion.top_k),
        _kind("probabilities", bodies.Question, ReadyVersion.probabilities),
        _kind("explain", bodies.RankedQuestion, ReadyVersion.explain),
        _kind("v2-infer", tensors.InferenceRequest, tensors.answer_tensors),
    )
}


def list_names(question: Any) -> dict[str, str]:
    """Return the names of the lists that a question asks for, by what they are for."""
    values = {use: getattr(question, use, None) for use in ("exclude", "allow")}
    return {use: value.list for use, value in values.items() if isinstance(value, bodies.ListName)}


def with_lists(question: Any, named: Callable[[str], NamedList]) -> Any:
    """Return a question with the lists that it asks for, one version of each."""
    names = list_names(question)
    lists = {name: bodies.FoundList(name, named(name)) for name in set(names.values())}
    if not names:
        return question
    return msgspec.structs.replace(question, **{use: lists[name] for use, name in names.items()})


class Stopped(Refused):
    """A question that took longer than it may, or whose caller has gone."""

    def __init__(self) -> None:
        super().__init__(
            504,
            "too_long",
            "The question was not answered in time: send fewer rows, or a smaller k.",
        )


class Stopping:
    """Says when to stop: at a time, or when `now` is called, from any thread."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._until - time.monotonic())

    def now(self) -> None:
        """Stop."""
        self._until = 0.0

    def __call__(self) -> None:
        """Raise `Stopped` where the answer is no longer wanted."""
        if not self.left:
            raise Stopped


def answer_long(
    host: Host,
    hosted: ServedModel,
    kind: QuestionKind,
    body: bytes,
    *,
    at_least: int,
    stop: Stopping,
) -> tuple[bytes, int]:
    """Return the answer to a long question and the version that gave it, `at_least` this one."""
    limits = host.limits
    question = with_lists(
        kind.read(body, hosted.name, limits), partial(host.get_list, hosted.tenant)
    )
    stop()
    min_version = question.min_version or 0
    try:
        # a process that follows the log may be some milliseconds behind
        hosted.answering(at_least, wait=stop.left)
    except NotReached:
        raise Unavailable(
            "The newest edits are not known yet where long questions are answered: ask later."
        ) from None
    model, version = hosted.answering(
        max(min_version, at_least), wait=min(limits.wait_seconds, stop.left)
    )
    ready = ReadyVersion(model, version, hosted.settings.column_names)
    return encoded(kind.answer(ready, question, limits, stop)), version
