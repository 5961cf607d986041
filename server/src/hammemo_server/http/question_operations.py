"""Questions to a model: labels, probabilities, explanations and certificates.

A question gets one version of the model from `Service`, and is answered at once, in a thread,
or as a long one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hammemo_server.http import bodies, tensors
from hammemo_server.http.answering import go_on
from hammemo_server.http.bodies import encoded
from hammemo_server.http.endpoints import MODEL_PATH, Operation
from hammemo_server.http.inference_protocol import VERSION, make_tensor_handler
from hammemo_server.http.messages import Answer, Call
from hammemo_server.http.questions import KINDS, LONG_BODY, QuestionKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hammemo_server.http.service import Service

_QUESTION_REFUSALS: Final = (404, 409, 422, 425)
_FEW: Final = 16
"""Up to so many requests at once, quick questions are not handed to a thread; of more, tenants
take turns there."""


def _make_question_handler(kind: QuestionKind) -> Callable[[Service, Call], Awaitable[Answer]]:
    """Return what answers questions of a kind: at once, in a thread, or as long ones."""

    async def ask(service: Service, call: Call) -> Answer:
        if len(call.body) > LONG_BODY:
            return await service.long_answer(call, kind.ask)
        question = kind.read(call.body, call.model, service.limits)
        ready = await service.ready_version(call, question.min_version)
        if kind.ask == "predict" and len(question.rows) == 1 and question.interval is None:
            label = ready.predict_one(*ready.cut(question.rows))
            if label is not None:
                return Answer(encoded(bodies.Labels([label], ready.version)))
        if kind.is_long(ready, question, lambda: service.may_take_time(call)):
            return await service.long_answer(call, kind.ask)
        question = await service.with_lists(call, question, ready)
        answer = partial(kind.answer, ready, question, service.limits, go_on)
        if service.admission.inside <= _FEW and kind.is_quick(ready, question):
            return Answer(encoded(answer()))
        return Answer(await service.in_thread(call, lambda: encoded(answer()), "short"))

    return ask


def _ask(ask: str, says: str, gives: type) -> Operation:
    """Return the operation of a kind of question."""
    kind = KINDS[ask]
    path = f"{MODEL_PATH}/{ask}"
    return Operation(
        ask,
        "POST",
        path,
        "read",
        handle=_make_question_handler(kind),
        says=says,
        body="json",
        takes=kind.decoder.type,
        gives=gives,
        refuses=_QUESTION_REFUSALS,
    )


def _infer(ask: str, path: str) -> Operation:
    """Return the operation of a question that is a tensor."""
    kind = KINDS["v2-infer"]
    says = "Answer each row of a tensor with its most likely label."
    return Operation(
        ask,
        "POST",
        f"{path}/infer",
        "read",
        handle=make_tensor_handler(_make_question_handler(kind)),
        says=says,
        body="tensors",
        takes=kind.decoder.type,
        gives=tensors.InferenceAnswer,
        refuses=_QUESTION_REFUSALS,
    )


QUESTIONS: Final = (
    _ask(
        "predict",
        "Answer each row with its most likely label, or with the expected number.",
        bodies.Labels,
    ),
    _ask("top-k", "Answer each row with its k most likely labels.", bodies.RankedLabels),
    _ask(
        "probabilities", "Answer each row with the probability of each label.", bodies.Probabilities
    ),
    _ask("explain", "Say which tokens voted for which labels.", bodies.Explanations),
    _ask(
        "certify",
        "Answer each row, and say whether the answer is proven to be the exact classifier's.",
        bodies.Certificates,
    ),
    _infer("v2-infer", "/v2/models/{model}"),
    _infer("v2-version-infer", VERSION),
)
"""Operations that read a model."""
