"""A client of ``hammemo serve``: every edit happens once, however often it has to be sent.

An edit gets an id before it is sent. Where no answer comes, or the server is busy or restarting
(429, 503), the same edit is sent again with the same id, after a pause that grows; the server
applies it once. A question that names a version which is not reached yet (425) is sent again, too.
After `patience` seconds, the client gives up.

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

from hammemo._lazy import explain_missing

with explain_missing("The client needs its extra packages: pip install 'hammemo[serve]'"):
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
"""Bytes of a model file that are sent or written at a time."""


class Acknowledgement(NamedTuple):
    """An edit that is on the server's disk."""

    version: int
    status: str
    receipt: str = ""
    """One line of JSON, signed, where a receipt was asked for."""


class ForgottenSubject(NamedTuple):
    """A subject that was forgotten."""

    version: int
    status: str
    state: str
    """It is "applied" when its rows are removed, "erased" when its key is destroyed, too."""
    receipt: str
    """One line of JSON, signed; nothing before the state is "erased"."""


class Explained(dict[str, Any]):
    """Why one row got its label: the server's answer, which prints as an `Explanation`."""

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
        The status of the answer: 401 no token, 403 not allowed, 404 no such model, 409 not stored,
        413 too large, 422 malformed, 425 version not reached, 429 too many requests, 503 not now. 0
        where no answer came.
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
        self,
        url: str,
        token: str | None = None,
        *,
        patience: float = 60.0,
        timeout: float = 30.0,
        verify: Any = True,
    ) -> None:
        if token is None:
            token = os.environ.get("HAMMEMO_TOKEN")
        address = httpx.URL(url)
        is_local = address.host in ("localhost", "127.0.0.1", "::1")
        if token and address.scheme == "http" and not is_local:
            way_out = "use https, or a tunnel to this machine"
            raise ValueError(f"{url} would send the token in the clear: {way_out}.")
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
        self,
        model: str,
        rows: Rows,
        labels: Iterable[Any],
        *,
        op: str | None = None,
        subjects: Iterable[str] = (),
    ) -> Acknowledgement:
        """Learn examples, all or none, once.

        `op` is the id of the edit; by default a random one.

        Give an id of your own where your program may itself end and send the edit again after that.
        A model with subjects needs `subjects`: whose each row is, or one string for all rows.
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

        With `receipt`, the answer has a signed receipt, which `hammemo verify` checks: the model
        before and after, how many rows and labels were removed, no content. `op` is its request id.
        The server needs a key file.
        """
        content = _examples(rows, labels, subjects)
        return self._edit(model, "forget", op, **content, receipt=receipt or None)

    def apply(
        self,
        model: str,
        learn: Part = None,
        forget: Part = None,
        *,
        position: str | None = None,
        op: str | None = None,
    ) -> Acknowledgement:
        """Forget examples and learn examples in one step, once.

        No answer comes from the moment between.

        Parameters
        ----------
        model : str
        learn : tuple of rows, labels and, for models with subjects, subjects, optional
        forget : such a tuple or "everything", optional
            What is forgotten first; what is not stored is refused with status 409, and nothing is
            changed.
        position : str, optional
            Up to where you have read the source of the rows. It is stored in the same step;
            `describe` returns it.
        op : str, optional
            As in `learn`.
        """
        examples = {"learn": _example_parts(learn), "forget": _example_parts(forget)}
        return self._edit(model, "apply", op, **examples, position=position)

    def forget_subject(
        self,
        model: str,
        subject: str,
        *,
        op: str | None = None,
        refit: bool = True,
        timeout: float = 600.0,
    ) -> ForgottenSubject:
        """Forget all rows of a subject, once.

        The model is refitted, and the key of the subject's journal destroyed. The request is sent
        again until the subject is erased, for `patience` seconds; the answer then has the signed
        receipt. Ask later with the same `op` if the state is still "applied". An unknown subject,
        and one that was erased under another id, are refused with status 404.
        """
        body = {"op": op or uuid.uuid4().hex, "subject": subject, "refit": refit}
        end = time.monotonic() + self.patience
        while True:
            answer = self._answer("POST", _path(model, "forget-subject"), body, timeout)
            forgotten = ForgottenSubject(**answer)
            if forgotten.state == "erased" or time.monotonic() > end:
                return forgotten

    def learn_stream(
        self,
        model: str,
        documents: Rows,
        *,
        op: str | None = None,
        subjects: Iterable[str] = (),
    ) -> Acknowledgement:
        """Learn whole documents, all or none, once: every token from the tokens before it.

        The model must have been fitted to documents (`fit_stream`): they are cut into examples as
        those were. A document, such as a visit, is learnt when it has ended: a part of it is
        another document. A model with subjects needs `subjects`: whose each document is, or one
        string for all of them.
        """
        return self._edit(model, "learn-stream", op, **_documents(documents, subjects))

    def forget_stream(
        self,
        model: str,
        documents: Rows,
        *,
        op: str | None = None,
        subjects: Iterable[str] = (),
        receipt: bool = False,
    ) -> Acknowledgement:
        """Forget whole documents, as they were learned, all or none, once.

        It is refused with status 409 if one is not stored.
        `receipt` is as in `forget`; it counts the windows of the documents as rows.
        """
        content = _documents(documents, subjects)
        return self._edit(model, "forget-stream", op, **content, receipt=receipt or None)

    def refit(
        self,
        model: str,
        *,
        op: str | None = None,
        receipt: bool = False,
        timeout: float = 600.0,
    ) -> Acknowledgement:
        """Choose sites and vote again and fit the weights, by the rows that the model keeps, once.

        Call it after `forget`. A model with a given kernel, and one that does not keep all its rows
        or documents, only fits the weights. It takes seconds, in which questions are answered by
        the version before, and edits wait. A vote without weights stays as it is. A model that
        keeps no examples is refused with status 409. `timeout` is how many seconds to wait for the
        answer, before the request is sent again. `receipt` is as in `forget`.
        """
        return self._edit(model, "refit", op, timeout, receipt=receipt or None)

    def _edit(
        self,
        model: str,
        kind: str,
        op: str | None,
        timeout: float | None = None,
        **content: Any,
    ) -> Acknowledgement:
        body = {"op": op or uuid.uuid4().hex, **_without_none(content)}
        answer = self._answer("POST", _path(model, kind), body, timeout)
        return Acknowledgement(answer["version"], answer["status"], answer.get("receipt", ""))

    # Questions

    def predict(self, model: str, rows: Rows, *, min_version: int | None = None) -> list[Any]:
        """Return the most likely label or the expected number of each row.

        A version of the model answers that is not older than `min_version`.
        """
        answer = self.ask(model, "predict", rows, min_version=min_version)
        return cast("list[Any]", answer["labels"])

    def predict_interval(
        self,
        model: str,
        rows: Rows,
        coverage: float = 0.8,
        *,
        min_version: int | None = None,
    ) -> list[list[float]]:
        """Return the lower and the upper end of an interval that holds the number of each row."""
        answer = self.ask(model, "predict", rows, min_version=min_version, interval=coverage)
        intervals = []
        for low, high in answer["intervals"]:
            # an end is None where too few rows were learned to know it
            if low is None:
                low = -math.inf
            if high is None:
                high = math.inf
            intervals.append([low, high])
        return intervals

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

        "seen" leaves out the tokens of the row itself. Other lists of labels are one for all rows,
        one a row, or the name of a list of the server (`set_list`): ``allow={"list": "in_stock"}``.
        `ask` returns its version, too.
        """
        answer = self.ask(
            model,
            "top-k",
            rows,
            min_version=min_version,
            k=k,
            exclude=_label_lists(exclude),
            allow=_label_lists(allow),
            scores=return_scores or None,
        )
        if return_scores:
            return answer["labels"], answer["scores"]
        return answer["labels"]

    def probabilities(
        self,
        model: str,
        rows: Rows,
        *,
        min_version: int | None = None,
    ) -> tuple[list[Any], list[list[float]]]:
        """Return all labels, and for each row the probability of each of them."""
        answer = self.ask(model, "probabilities", rows, min_version=min_version)
        return answer["classes"], answer["probabilities"]

    def explain(
        self,
        model: str,
        rows: Rows,
        k: int = 5,
        *,
        min_version: int | None = None,
    ) -> ExplainedRows:
        """Return for each row what each part of it adds to the scores of the k leading labels.

        Each is a dict, the server's answer. ``print`` shows tables; ``[0].explanation().plot()``
        draws the first.
        """
        answer = self.ask(model, "explain", rows, min_version=min_version, k=k)
        return ExplainedRows(map(Explained, answer["explanations"]))

    def certify(self, model: str, rows: Rows, *, min_version: int | None = None) -> list[bool]:
        """Return for each row whether the label is proven to be that of the exact classifier."""
        answer = self.ask(model, "certify", rows, min_version=min_version)
        return cast("list[bool]", answer["certified"])

    def ask(self, model: str, question: str, rows: Rows, **more: Any) -> dict[str, Any]:
        """Return the whole answer to a question ("predict", "top-k", …), with its version."""
        body = {"rows": _token_lists("rows", rows), **_without_none(more)}
        return self._answer("POST", _path(model, question), body)

    # Models

    def models(self) -> list[str]:
        """Return the names of all models."""
        return cast("list[str]", self._answer("GET", "/v1/models")["models"])

    def create(self, model: str, **settings: Any) -> dict[str, Any]:
        """Create an empty model.

        The settings are those of ``PUT /v1/models/{model}``, such as ``columns``.
        """
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
        """Let a name stand for a model in questions, at once; edits name the model itself."""
        self._answer("PUT", _path(alias, kind="aliases"), {"model": model})

    def delete_alias(self, alias: str) -> None:
        """Let a name stand for no model any more."""
        self._answer("DELETE", _path(alias, kind="aliases"))

    def lists(self) -> dict[str, dict[str, int]]:
        """Return the named lists of labels: the version of each, and how many items it has."""
        lists = self._answer("GET", "/v1/lists")["lists"]
        return cast("dict[str, dict[str, int]]", lists)

    def set_list(self, name: str, items: Iterable[Any], *, timeout: float = 600.0) -> int:
        """Replace a named list of labels, such as the items in stock, and return its version.

        It is replaced in one step.
        `top_k` takes its name: ``allow={"list": "in_stock"}``.
        """
        if isinstance(items, (str, bytes)):
            raise TypeError("items is a list of labels: send a single one as [label].")
        path = _path(name, kind="lists")
        answer = self._answer("PUT", path, {"items": _tokens(items)}, timeout)
        return cast("int", answer["version"])

    def read_list(self, name: str) -> list[Any]:
        """Return the items of a named list of labels."""
        return cast("list[Any]", self._answer("GET", _path(name, kind="lists"))["items"])

    def delete_list(self, name: str) -> None:
        """Delete a named list of labels; questions that name it are refused with status 404."""
        self._answer("DELETE", _path(name, kind="lists"))

    def audit(self, model: str, *, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the lines of the audit record after a number, the oldest first.

        They name every edit without its content.
        """
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
                pieces = iter(lambda: file.read(_PIECE), b"")
                headers = {"content-type": "application/octet-stream"}
                return self._http.put(_path(model, "file"), content=pieces, headers=headers)

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
                with (
                    locked(path),
                    replacement(path) as temporary,
                    Path(temporary).open("wb") as file,
                ):
                    for piece in answer.iter_bytes(_PIECE):
                        file.write(piece)
                return answer

        self._final_response(fetch)

    # Sending

    def _answer(
        self,
        method: str,
        path: str,
        body: Any = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Return an answer; `timeout` is the seconds to wait for it, if not those of the client."""
        http_timeout = self._http.timeout
        if timeout is not None:
            http_timeout = httpx.Timeout(http_timeout.connect, read=timeout)

        def send() -> httpx.Response:
            return self._http.request(method, path, json=body, timeout=http_timeout)

        return cast("dict[str, Any]", self._final_response(send).json())

    def _final_response(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        """Send until there is an answer that is final, or patience ends."""
        end = time.monotonic() + self.patience
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = send()
                if _is_final(answer) or time.monotonic() + pause > end:
                    if not answer.is_success:
                        _raise_refusal(answer)
                    return answer
            except httpx.TransportError as error:
                if time.monotonic() + pause > end:
                    reason = str(error) or type(error).__name__
                    message = f"No answer came from {self._http.base_url.host}: {reason}."
                    raise ServerError(0, "no_answer", message) from error
            # by chance, so that not all clients come back at the same moment
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)


def _is_final(answer: httpx.Response) -> bool:
    """Return whether another try would get the same answer."""
    if answer.status_code == 504:
        # a question that took too long would again; a proxy's timeout may pass
        return b'"too_long"' in answer.content
    return answer.is_success or answer.status_code not in _RETRIED_STATUSES


def _raise_refusal(answer: httpx.Response) -> NoReturn:
    try:
        error = answer.json()["error"]
        code = str(error["code"])
        message = str(error["message"])
    except (ValueError, KeyError, TypeError):  # not from hammemo: a proxy, perhaps
        code = "unknown"
        message = f"The answer {answer.status_code} has no explanation."
    raise ServerError(answer.status_code, code, message)


def _path(model: str, subpath: str = "", kind: str = "models") -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", model, re.ASCII):
        rule = "use 1 to 64 of a-z, 0-9, _ and -."
        raise ValueError(f"{model!r} cannot be the name of a model: {rule}")
    if subpath:
        return f"/v1/{kind}/{model}/{subpath}"
    return f"/v1/{kind}/{model}"


def _token_lists(name: str, values: Any) -> list[list[Any]]:
    """Return rows or documents as lists for JSON; rows may also be an array or a data frame."""
    if hasattr(values, "columns"):
        # a data frame is no list of documents: refused below, as a string is
        values = values.values if name == "rows" else ""
    if isinstance(values, (str, bytes)):
        entries = [values]
    else:
        entries = list(values)
    if not all(map(_is_list, entries)):
        rule = f"{name} is a list of {name}, each a list of tokens"
        raise TypeError(f"{rule}: send a single one as [tokens].")
    return [_tokens(entry) for entry in entries]


def _is_list(entry: Any) -> bool:
    """Return whether this is a list of tokens; a string is none, though it has characters."""
    return hasattr(entry, "__iter__") and not isinstance(entry, (str, bytes))


def _label_lists(labels: Any) -> Any:
    """Return labels, or lists of labels, as JSON takes them."""
    if labels is None or isinstance(labels, (str, dict)):
        return labels
    entries = []
    for entry in _tokens(labels):
        is_list = hasattr(entry, "__iter__") and not isinstance(entry, str)
        entries.append(_tokens(entry) if is_list else entry)
    return entries


def _examples(rows: Any, labels: Any, subjects: Any) -> dict[str, Any]:
    """Return the body of an edit."""
    token_lists = _token_lists("rows", rows)
    content = {
        "rows": token_lists,
        "labels": _tokens(labels),
        "subjects": _list_subjects(subjects, len(token_lists)),
    }
    return _without_none(content)


def _example_parts(examples: Any) -> Any:
    """Return rows, labels and subjects as a part of an edit."""
    if examples is None or isinstance(examples, str):
        return examples
    rows, labels, *subjects = examples
    return _examples(rows, labels, *(subjects or [()]))


def _documents(documents: Any, subjects: Any) -> dict[str, Any]:
    """Return the body of an edit of documents."""
    token_lists = _token_lists("documents", documents)
    content = {
        "documents": token_lists,
        "subjects": _list_subjects(subjects, len(token_lists)),
    }
    return _without_none(content)


def _list_subjects(subjects: Any, n: int) -> list[Any] | None:
    """Return the subjects of an edit, if it names any; one string is the subject of all rows."""
    if isinstance(subjects, str):
        subjects = [subjects] * n
    return _tokens(subjects) or None


def _without_none(content: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is not set: older servers refuse names that they do not know."""
    return {name: value for name, value in content.items() if value is not None}


def _tokens(values: Any) -> list[Any]:
    if hasattr(values, "tolist"):
        return list(values.tolist())
    return list(values)
