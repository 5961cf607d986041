"""A client of ``hammemo serve``: every edit happens once, however often it has to be sent.

An edit gets an id before it is sent. Where no answer comes, or the server is busy or restarting (429, 503), the same
edit is sent again with the same id, after a pause that grows; the server applies it once. A question that names a
version which is not reached yet (425) is sent again, too. All that has an end: `patience` seconds.

Needs ``pip install 'hammemo[serve]'`` (httpx).
"""

from __future__ import annotations

import math
import os
import random
import re
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

from hammemo._lazy import needed

with needed("The client needs its extra packages: pip install 'hammemo[serve]'"):
    import httpx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hammemo.explain.explanations import Explanation

    Rows = Iterable[Sequence[Any]]
    Part = Sequence[Any] | None

_RETRIED_STATUSES: Final = frozenset((425, 429, 502, 503, 504))
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
_PIECE: Final = 2**18


class Acknowledgement(NamedTuple):
    """An edit that is on the server's disk."""

    version: int
    status: str
    receipt: str = ""
    """One line of JSON, signed, where a receipt was asked for."""


class ForgottenSubject(NamedTuple):
    """A subject that was forgotten: its rows are removed ("applied"), or its key is destroyed, too ("erased")."""

    version: int
    status: str
    state: str
    receipt: str
    """One line of JSON, signed; nothing before the state is "erased"."""


class Explained(dict[str, Any]):
    """Why one row got its label: the server's answer as it is, which prints as the library's explanation."""

    def explanation(self) -> Explanation:
        """Return it as `MemoryClassifier.explain` does, to be drawn, for example."""
        from hammemo.explain.explanations import Explanation

        return Explanation.from_dict(self)

    def __str__(self) -> str:
        return str(self.explanation())


class ExplainedRows(list[Explained]):
    """The explanations of some rows, which print one after the other."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


class ServerError(RuntimeError):
    """What the server refused, and why.

    Attributes
    ----------
    status : int
        The status of the answer: 401 no token, 403 not allowed, 404 no such model, 409 not stored, 413 too large, 422
        malformed, 425 version not reached, 429 too many requests, 503 not now. 0 where no answer came.
    code : str
        The same as a short name, such as "not_stored".
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Client:
    """Asks and edits the models of one tenant on one server; may be used by several threads.

    Parameters
    ----------
    url : str
        Where the server is, such as ``"http://127.0.0.1:8080"``.
    token : str, optional
        A token of the tenant; by default that of the environment variable ``HAMMEMO_TOKEN``.
    patience : float
        Seconds for which a request is sent again before `ServerError` is raised.
    timeout : float
        Seconds to wait for one answer.
    verify : bool, str or ssl.SSLContext
        As httpx takes it: a context with the certificate of your own authority, for example.

    Examples
    --------
    >>> from hammemo.client import Client
    >>> with Client("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     client.create("fruit", columns=["colour", "size"])
    ...     acknowledgement = client.learn("fruit", [["red", "small"]], ["cherry"])
    ...     client.predict("fruit", [["red", "large"]], min_version=acknowledgement.version)
    ['cherry']
    """

    def __init__(
        self, url: str, token: str | None = None, *, patience: float = 60.0, timeout: float = 30.0, verify: Any = True
    ) -> None:
        token = os.environ.get("HAMMEMO_TOKEN") if token is None else token
        parts = httpx.URL(url)
        if token and parts.scheme == "http" and parts.host not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError(f"{url} would send the token in the clear: use https, or a tunnel to this machine.")
        self.patience = patience
        self._http = httpx.Client(
            base_url=url,
            timeout=timeout,
            headers={"authorization": f"Bearer {token}"} if token else {},
            follow_redirects=False,  # the token is for this server only
            trust_env=False,
            verify=verify,
            limits=httpx.Limits(max_connections=64),
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # Edits

    def learn(
        self, model: str, rows: Rows, labels: Iterable[Any], *, op: str | None = None, subjects: Iterable[str] = ()
    ) -> Acknowledgement:
        """Learn examples, all or none, once; `op` is the id of the edit, made here if you give none.

        Give an id of your own where your program may itself end and send the edit again after that. A model with
        subjects needs `subjects`: whose each row is, or one string for all rows.
        """
        return self._edit(model, "learn", op, **_examples(rows, labels, subjects))

    def forget(
        self,
        model: str,
        rows: Rows,
        labels: Iterable[Any],
        *,
        op: str | None = None,
        subjects: Iterable[str] = (),
        receipt: bool = False,
    ) -> Acknowledgement:
        """Forget examples, all or none, once; what is not stored is refused with status 409.

        With `receipt`, the answer has a signed receipt, which `hammemo verify` checks: the model before and after, how
        many rows and labels were removed, no content. `op` is its request id. The server needs a key file.
        """
        return self._edit(model, "forget", op, **_examples(rows, labels, subjects), receipt=receipt or None)

    def apply(
        self, model: str, learn: Part = None, forget: Part = None, *, position: str | None = None, op: str | None = None
    ) -> Acknowledgement:
        """Forget examples and learn examples in one step, once: no answer comes from the moment between.

        Parameters
        ----------
        model : str
        learn : tuple of rows, labels and, for models with subjects, subjects, optional
        forget : such a tuple or "everything", optional
            What is forgotten first; what is not stored is refused with status 409, and nothing is changed.
        position : str, optional
            Up to where you have read the source of the rows. It is stored in the same step; `describe` returns it.
        op : str, optional
            As in `learn`.
        """
        parts = {"learn": _example_parts(learn), "forget": _example_parts(forget)}
        return self._edit(model, "apply", op, **parts, position=position)

    def forget_subject(
        self, model: str, subject: str, *, op: str | None = None, refit: bool = True, timeout: float = 600.0
    ) -> ForgottenSubject:
        """Forget all rows of a subject, refit the model, and destroy the key of the subject's journal, once.

        It is sent again until the subject is erased, for `patience` seconds; the answer then has the signed receipt.
        Ask later with the same `op` if the state is still "applied". An unknown subject, and one that was erased
        under another id, are refused with status 404.
        """
        body = {"op": op or uuid.uuid4().hex, "subject": subject, "refit": refit}
        until = time.monotonic() + self.patience
        while True:
            found = ForgottenSubject(**self._answer("POST", _path(model, "forget-subject"), body, timeout))
            if found.state == "erased" or time.monotonic() > until:
                return found

    def learn_stream(
        self, model: str, documents: Rows, *, op: str | None = None, subjects: Iterable[str] = ()
    ) -> Acknowledgement:
        """Learn whole documents, all or none, once: every token from the tokens before it.

        The model must have been fitted to documents (`fit_stream`): they are cut into examples as those were. A
        document, such as a visit, is learnt when it has ended: a part of it is another document. A model with subjects
        needs `subjects`: whose each document is, or one string for all of them.
        """
        return self._edit(model, "learn-stream", op, **_documents(documents, subjects))

    def forget_stream(
        self, model: str, documents: Rows, *, op: str | None = None, subjects: Iterable[str] = (), receipt: bool = False
    ) -> Acknowledgement:
        """Forget whole documents, as they were learnt, all or none, once; status 409 if one is not stored.

        `receipt` is as in `forget`; it counts the windows of the documents as rows.
        """
        return self._edit(model, "forget-stream", op, **_documents(documents, subjects), receipt=receipt or None)

    def refit(
        self, model: str, *, op: str | None = None, receipt: bool = False, timeout: float = 600.0
    ) -> Acknowledgement:
        """Choose sites and vote again and fit the weights, by the rows that the model keeps, once: after `forget`.

        A model with a given kernel, and one that does not keep all its rows or documents, only fits the weights.
        It takes seconds, in which questions are answered by the version before, and edits wait. A vote without
        weights stays as it is. A model that keeps no examples is refused with status 409. `timeout` is how many seconds
        to wait for the answer, before the request is sent again. `receipt` is as in `forget`.
        """
        return self._edit(model, "refit", op, timeout, receipt=receipt or None)

    def _edit(
        self, model: str, kind: str, op: str | None, timeout: float | None = None, **content: Any
    ) -> Acknowledgement:
        body = {"op": op or uuid.uuid4().hex, **_without_none(content)}
        answer = self._answer("POST", _path(model, kind), body, timeout)
        return Acknowledgement(answer["version"], answer["status"], answer.get("receipt", ""))

    # Questions

    def predict(self, model: str, rows: Rows, *, min_version: int | None = None) -> list[Any]:
        """Return the most likely label or the expected number of each row, of `min_version` or newer."""
        return cast("list[Any]", self.ask(model, "predict", rows, min_version=min_version)["labels"])

    def predict_interval(
        self, model: str, rows: Rows, coverage: float = 0.8, *, min_version: int | None = None
    ) -> list[list[float]]:
        """Return the lower and the upper end of an interval that holds the number of each row."""
        found = self.ask(model, "predict", rows, min_version=min_version, interval=coverage)["intervals"]
        return [
            [-math.inf if low is None else low, math.inf if high is None else high]  # too few rows to tell
            for low, high in found
        ]

    def top_k(
        self,
        model: str,
        rows: Rows,
        k: int = 5,
        *,
        exclude: Any = None,
        allow: Any = None,
        return_scores: bool = False,
        min_version: int | None = None,
    ) -> Any:
        """Return the k most likely labels of each row, best first, and their scores if asked.

        "seen" leaves out the tokens of the row itself. Other lists of labels are one for all rows, one a row, or the
        name of a list of the server (`set_list`): ``allow={"list": "in_stock"}``. `ask` returns its version, too.
        """
        lists = {"exclude": _label_lists(exclude), "allow": _label_lists(allow), "scores": return_scores or None}
        found = self.ask(model, "top-k", rows, min_version=min_version, k=k, **lists)
        return (found["labels"], found["scores"]) if return_scores else found["labels"]

    def probabilities(
        self, model: str, rows: Rows, *, min_version: int | None = None
    ) -> tuple[list[Any], list[list[float]]]:
        """Return all labels, and for each row the probability of each of them."""
        answer = self.ask(model, "probabilities", rows, min_version=min_version)
        return answer["classes"], answer["probabilities"]

    def explain(self, model: str, rows: Rows, k: int = 5, *, min_version: int | None = None) -> ExplainedRows:
        """Return for each row what each part of it adds to the scores of the k leading labels.

        Each is a dict, as the server tells it. ``print`` shows tables; ``[0].explanation().plot()`` draws the first.
        """
        explanations = self.ask(model, "explain", rows, min_version=min_version, k=k)["explanations"]
        return ExplainedRows(map(Explained, explanations))

    def certify(self, model: str, rows: Rows, *, min_version: int | None = None) -> list[bool]:
        """Return for each row whether the prediction is proven to be that of the exact classifier."""
        return cast("list[bool]", self.ask(model, "certify", rows, min_version=min_version)["certified"])

    def ask(self, model: str, question: str, rows: Rows, **more: Any) -> dict[str, Any]:
        """Return the whole answer to a question ("predict", "top-k", …), with the version that gave it."""
        return self._answer("POST", _path(model, question), {"rows": _token_lists("rows", rows), **_without_none(more)})

    # Models

    def models(self) -> list[str]:
        """Return the names of all models."""
        return cast("list[str]", self._answer("GET", "/v1/models")["models"])

    def create(self, model: str, **settings: Any) -> dict[str, Any]:
        """Make an empty model; the settings are those of ``PUT /v1/models/{model}``, such as ``columns``."""
        return self._answer("PUT", _path(model), settings)

    def describe(self, model: str) -> dict[str, Any]:
        """Return what is known of a model."""
        return self._answer("GET", _path(model))

    def delete(self, model: str) -> None:
        """Remove a model, its log and its snapshots."""
        self._answer("DELETE", _path(model))

    def aliases(self) -> dict[str, str]:
        """Return the names that stand for models in questions, and these models."""
        return cast("dict[str, str]", self._answer("GET", "/v1/aliases")["aliases"])

    def set_alias(self, alias: str, model: str) -> None:
        """Let a name stand for a model in questions, from one moment on; edits name the model itself."""
        self._answer("PUT", _path(alias, kind="aliases"), {"model": model})

    def delete_alias(self, alias: str) -> None:
        """Let a name stand for no model any more."""
        self._answer("DELETE", _path(alias, kind="aliases"))

    def lists(self) -> dict[str, dict[str, int]]:
        """Return the named lists of labels: the version of each, and how many items it has."""
        return cast("dict[str, dict[str, int]]", self._answer("GET", "/v1/lists")["lists"])

    def set_list(self, name: str, items: Iterable[Any], *, timeout: float = 600.0) -> int:
        """Replace a named list of labels, such as the items in stock, in one step, and return its version.

        `top_k` takes its name: ``allow={"list": "in_stock"}``.
        """
        if isinstance(items, (str, bytes)):
            raise TypeError("items is a list of labels: send a single one as [label].")
        path = _path(name, kind="lists")
        return cast("int", self._answer("PUT", path, {"items": _tokens(items)}, timeout)["version"])

    def read_list(self, name: str) -> list[Any]:
        """Return the items of a named list of labels."""
        return cast("list[Any]", self._answer("GET", _path(name, kind="lists"))["items"])

    def delete_list(self, name: str) -> None:
        """Delete a named list of labels; questions that name it are refused with status 404."""
        self._answer("DELETE", _path(name, kind="lists"))

    def audit(self, model: str, *, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the lines of the audit record after a number: every edit without its content, oldest first."""
        while lines := self._answer("GET", f"{_path(model, 'audit')}?after={after}")["lines"]:
            yield from lines
            after = lines[-1]["number"]

    def snapshot(self, model: str) -> int:
        """Let the server write a snapshot now, and return its version."""
        return cast("int", self._answer("POST", _path(model, "snapshot"))["version"])

    def upload(self, model: str, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Make a model from a model file."""

        def send() -> httpx.Response:
            with Path(path).open("rb") as file:
                pieces, kind = iter(lambda: file.read(_PIECE), b""), {"content-type": "application/octet-stream"}
                return self._http.put(_path(model, "file"), content=pieces, headers=kind)

        return cast("dict[str, Any]", self._final_response(send).json())

    def download(self, model: str, path: str | os.PathLike[str]) -> None:
        """Write the model as it is now to a file, whole or not at all."""
        from hammemo.files.atomic import replacement
        from hammemo.files.locks import locked

        def fetch() -> httpx.Response:
            with self._http.stream("GET", _path(model, "file")) as answer:
                if not answer.is_success:
                    answer.read()
                    return answer
                with locked(path), replacement(path) as temporary, Path(temporary).open("wb") as file:
                    for piece in answer.iter_bytes(_PIECE):
                        file.write(piece)
                return answer

        self._final_response(fetch)

    # Sending

    def _answer(self, method: str, path: str, body: Any = None, timeout: float | None = None) -> dict[str, Any]:
        """Return an answer; `timeout` is the seconds to wait for it where that is not those of the client."""
        waits = self._http.timeout
        if timeout is not None:
            waits = httpx.Timeout(waits.connect, read=timeout)

        def send() -> httpx.Response:
            return self._http.request(method, path, json=body, timeout=waits)

        return cast("dict[str, Any]", self._final_response(send).json())

    def _final_response(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        """Send until there is an answer that is final, or patience ends."""
        until, pause = time.monotonic() + self.patience, _FIRST_PAUSE
        while True:
            try:
                answer = send()
                if _is_final(answer) or time.monotonic() + pause > until:
                    return answer if answer.is_success else _refused(answer)
            except httpx.TransportError as error:
                if time.monotonic() + pause > until:
                    why = f"No answer came from {self._http.base_url.host}: {str(error) or type(error).__name__}."
                    raise ServerError(0, "no_answer", why) from error
            time.sleep(pause * random.uniform(0.5, 1.0))  # so that not all come back at the same moment
            pause = min(2 * pause, _LONGEST_PAUSE)


def _is_final(answer: httpx.Response) -> bool:
    """Return whether another try would get the same answer; a question that took too long would again."""
    if answer.status_code == 504:
        return b'"too_long"' in answer.content
    return answer.is_success or answer.status_code not in _RETRIED_STATUSES


def _refused(answer: httpx.Response) -> NoReturn:
    try:
        error = answer.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):  # not from hammemo: a proxy, perhaps
        code, message = "unknown", f"The answer {answer.status_code} has no explanation."
    raise ServerError(answer.status_code, code, message)


def _path(model: str, rest: str = "", kind: str = "models") -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", model, re.ASCII):
        raise ValueError(f"{model!r} cannot be the name of a model: use 1 to 64 of a-z, 0-9, _ and -.")
    return f"/v1/{kind}/{model}/{rest}" if rest else f"/v1/{kind}/{model}"


def _token_lists(name: str, given: Any) -> list[list[Any]]:
    """Return rows or documents as lists of what JSON can say; rows may also be an array or a data frame.

    A string is no list of tokens: its characters would be taken as tokens. A data frame is no list of documents.
    """
    if hasattr(given, "columns"):
        given = given.values if name == "rows" else ""
    listed = [given] if isinstance(given, (str, bytes)) else list(given)
    if any(isinstance(entry, (str, bytes)) or not hasattr(entry, "__iter__") for entry in listed):
        raise TypeError(f"{name} is a list of {name}, each a list of tokens: send a single one as [tokens].")
    return [_tokens(entry) for entry in listed]


def _label_lists(given: Any) -> Any:
    """Return labels, or lists of labels, as JSON takes them."""
    if given is None or isinstance(given, (str, dict)):
        return given
    return [_tokens(one) if hasattr(one, "__iter__") and not isinstance(one, str) else one for one in _tokens(given)]


def _examples(rows: Any, labels: Any, subjects: Any) -> dict[str, Any]:
    """Return the body of an edit."""
    listed = _token_lists("rows", rows)
    content = {"rows": listed, "labels": _tokens(labels), "subjects": _named(subjects, len(listed))}
    return _without_none(content)


def _example_parts(given: Any) -> Any:
    """Return rows, labels and subjects as a part of an edit."""
    if given is None or isinstance(given, str):
        return given
    rows, labels, *subjects = given
    return _examples(rows, labels, *(subjects or [()]))


def _documents(documents: Any, subjects: Any) -> dict[str, Any]:
    """Return the body of an edit of documents."""
    listed = _token_lists("documents", documents)
    return _without_none({"documents": listed, "subjects": _named(subjects, len(listed))})


def _named(subjects: Any, n: int) -> list[Any] | None:
    """Return the subjects of an edit, if it names any; one string is the subject of all rows."""
    named = [subjects] * n if isinstance(subjects, str) else _tokens(subjects)
    return named or None


def _without_none(content: dict[str, Any]) -> dict[str, Any]:
    """Return what is said: nothing of a receipt where none is wanted, as servers without receipts take it."""
    return {name: value for name, value in content.items() if value is not None}


def _tokens(values: Any) -> list[Any]:
    return list(values.tolist()) if hasattr(values, "tolist") else list(values)
