r"""``hammemo complete``: continue a prompt as a memorised text does.

A text file is memorised by an exact memory of the last token, the last two, three, five and eight (for characters: one
to sixteen). Each has a thousand times the weight of the next shorter one, so the longest known stretch decides. A
sentence of the text is continued word for word. A new sentence is continued with what followed the longest end of it
that the text contains.

With a temperature T tokens are drawn instead, with probabilities :math:`\propto S_c^{1/T}` from the scores of a sum or
mean vote and :math:`\propto P_c^{1/T}` from the probabilities of a log-linear one or a mixture.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import numpy as np
import typer

from hammemo.cli import options as opt
from hammemo.cli.console import UsageError, one_line_errors, progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hammemo.sources.schemas import SequenceSchema

SUFFIXES = {"words": (1, 2, 3, 5, 8), "characters": (1, 2, 4, 8, 16)}
"""The lengths of the ends of a context that are compared."""

_BLOCK = 2**16
_MEBIBYTE = 2**20


def complete_text(
    source: Annotated[str, typer.Argument(metavar="MODEL|TEXT", help="A model of sequences, or a text file.")],
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The text to continue.")],
    n: Annotated[int, typer.Option("--n", min=1, help="Tokens to add.")] = 40,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="0 takes the best token; higher values draw more randomly.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    tokens: Annotated[str, typer.Option(metavar="HOW", help="Split a text file into words or characters.")] = "words",
    most: Annotated[int, typer.Option(min=1, metavar="MIB", help="Learn at most this much of a text file.")] = 4,
    key_file: opt.KeyFile = None,
    as_json: opt.AsJson = False,
) -> None:
    """Continue a prompt from a memorised text: verbatim if the text contains it, plausibly otherwise."""
    with one_line_errors():
        if tokens not in SUFFIXES:
            raise UsageError(f"--tokens {tokens!r} is not known here: use words or characters.")
        writer = _open_writer(source, tokens, most * _MEBIBYTE, opt.read_key(key_file))
        pieces = _continued(writer, prompt, n, temperature, np.random.Generator(np.random.Philox(seed)))
        if as_json:
            typer.echo(json.dumps({"prompt": prompt, "completion": "".join(pieces)}, ensure_ascii=False, indent=2))
            return
        typer.echo(prompt, nl=False)
        for piece in pieces:
            typer.echo(piece, nl=False)
        typer.echo()


class Writer(Protocol):
    """A model of sequences that predicts the next token, and how its tokens are written."""

    h: int
    end: Any
    blanks: bool
    """Whether tokens are written with a blank before each."""

    def encode(self, text: str) -> list[Any]:
        """Return the tokens of a prompt."""

    def decode(self, tokens: list[Any]) -> str:
        """Return the text of tokens that follow a prompt."""

    def best(self, context: list[Any]) -> Any:
        """Return the token with the highest score."""

    def logits(self, context: list[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return candidates and their scores as logarithms."""


def _continued(
    writer: Writer, prompt: str, n: int, temperature: float, generator: np.random.Generator
) -> Iterator[str]:
    """Yield the continuation piece by piece, as soon as each is known."""
    from hammemo.tokens.vocabulary import NO_TOKEN

    history = writer.encode(prompt)
    written, shown = [], ""
    for _ in range(n):
        context = ([NO_TOKEN] * writer.h + history)[-writer.h :]
        if temperature > 0:
            candidates, logits = writer.logits(context)
            noise = generator.gumbel(size=len(logits))  # the largest of logits / T + noise is a draw of the softmax
            token = candidates[int(np.argmax(logits / temperature + noise))]
        else:
            token = writer.best(context)
        if token == writer.end:
            return
        history.append(token)
        written.append(token)
        text = writer.decode(written)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):  # a character of several bytes may be half written
            piece = text[len(shown) :]
            yield piece.removeprefix(" ") if not shown and writer.blanks and prompt[-1:].isspace() else piece
            shown = text


def _open_writer(source: str, tokens: str, most: int, key: bytes | None) -> Writer:
    from hammemo.files.archive import FileError
    from hammemo.files.models import read_notes
    from hammemo.sources.formats import STANDARD_INPUT, opened

    if source != STANDARD_INPUT:
        try:
            read_notes(source)
            return _ModelWriter(Path(source), key)
        except (FileError, OSError):
            if source.endswith(".safetensors"):
                raise
    with opened(source) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        typer.echo(
            f"Learning the first {most // _MEBIBYTE} MiB only: --most {2 * most // _MEBIBYTE} learns more.", err=True
        )
    try:
        text = data[:most].decode("utf-8", "strict" if len(data) <= most else "ignore")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{source} is neither a model nor a text in UTF-8 ({error.reason}): name one of them."
        ) from error
    return _TextWriter(text, tokens)


class _Scored:
    """What both writers share: from the scores of a classifier to its best token and its candidates."""

    model: Any

    def _scores(self, context: list[Any]) -> NDArray[np.float64]:
        """Return the scores of all labels as logarithms; how frequent each is where the context matches nothing."""
        scores: NDArray[np.float64] = self.model.class_scores([context])[0]
        vote = self.model.vote_ if hasattr(self.model, "vote_") else self.model.vote
        if vote.has_probabilities:
            logarithms: NDArray[np.float64] = vote.log_probabilities(scores[None])[0]
            return logarithms
        if not (scores > 0).any():
            memory = self.model.memory_ if hasattr(self.model, "memory_") else self.model.compiled
            scores = np.asarray(memory.label_counts, np.float64)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(scores, 0))


class _TextWriter(_Scored):
    """A text that is memorised now. Tokens are numbers: words, and line ends as words of their own; or characters."""

    end = None

    def __init__(self, text: str, tokens: str) -> None:
        from hammemo.kernels import SiteKernel
        from hammemo.memories import Exact
        from hammemo.models.classifiers import MemoryClassifier

        lengths = SUFFIXES[tokens]
        self.h = lengths[-1]
        self.blanks = tokens == "words"
        self._numbers: dict[str, int] = {}
        for word in self._split(text):
            self._numbers.setdefault(word, len(self._numbers))
        self._words = list(self._numbers)
        stream = np.array([self._numbers[word] for word in self._split(text)], np.int64)
        if len(stream) < 2:
            raise ValueError("The text is too short to learn from: it needs two tokens at least.")
        kernel = SiteKernel([tuple(range(-length, 0)) for length in lengths], [1000.0**i for i in range(len(lengths))])
        self.model = MemoryClassifier(kernel, Exact(), vote="sum")
        padded = np.append(np.full(self.h, _nothing()), stream)
        with progress_bar("Memorising") as tell:
            for first in range(self.h, len(padded), _BLOCK):
                self.model.partial_fit_stream(padded[first - self.h : first + _BLOCK], self.h)
                tell(first, len(padded))

    def _split(self, text: str) -> list[str]:
        return re.findall(r"\n+|\S+", text) if self.blanks else list(text)

    def encode(self, text: str) -> list[Any]:
        """Return the numbers of the prompt's tokens; those that the text does not hold are passed over."""
        return [self._numbers[word] for word in self._split(text) if word in self._numbers]

    def decode(self, tokens: list[Any]) -> str:
        """Return words with blanks between, or characters side by side."""
        words = [self._words[token] for token in tokens]
        if not self.blanks:
            return "".join(words)
        before = ["", *words]  # no blank before a line end, nor after one
        return "".join(
            word if word.startswith("\n") or last.startswith("\n") else f" {word}"
            for last, word in zip(before, words, strict=False)
        )

    def best(self, context: list[Any]) -> Any:
        """Return the token with the highest score."""
        return int(self.model.classes_[int(np.argmax(self._scores(context)))])

    def logits(self, context: list[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return candidates and their scores as logarithms."""
        return self.model.classes_, self._scores(context)


class _ModelWriter(_Scored):
    """A model file that learnt sequences."""

    def __init__(self, path: Path, key: bytes | None) -> None:
        from hammemo.cli.models import open_model, say_what_is_left
        from hammemo.sources.schemas import SequenceSchema

        opened = open_model(path, key)
        say_what_is_left(opened, path)
        if not isinstance(opened.schema, SequenceSchema):
            raise ValueError(
                f"{path} learnt rows of a table, and only sequences go on: fit one with --h, or name a text."
            )
        self.model, self.h = opened.model, opened.h
        self._schema: SequenceSchema = opened.schema
        self.end = opened.schema.end
        self.blanks = opened.schema.is_log or opened.schema.tokens in ("words", "ids")
        self._classes = self.model.classes_

    def encode(self, text: str) -> list[Any]:
        """Return the tokens of the prompt, read as the model's documents were."""
        from hammemo.sources.documents import stream_source

        tokens = "words" if self._schema.is_log else self._schema.tokens
        line = " ".join(text.splitlines()).encode()
        pieces = stream_source("text", tokens).stream_pieces(io.BytesIO(line), "The prompt")
        found = [token for piece in pieces for document in piece.documents() for token in document.tolist()]
        return [int(token) for token in found] if self._schema.is_log and self._schema.kinds == "i" else found

    def decode(self, tokens: list[Any]) -> str:
        """Return the text of tokens, as the model's tokenizer has it."""
        how = self._schema.tokens
        if self.blanks:
            return "".join(f" {token}" for token in tokens)
        if how == "characters":
            return "".join(map(str, tokens))
        if how == "bytes":
            return bytes(tokens).decode("utf-8", "replace")
        from hammemo.sources.tokenization import tokenizer_decoder

        return str(tokenizer_decoder(how)(tokens))

    def best(self, context: list[Any]) -> Any:
        """Return the token with the highest score."""
        return self._classes[int(np.argmax(self._scores(context)))]

    def logits(self, context: list[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return candidates and their scores as logarithms."""
        return self._classes, self._scores(context)


def _nothing() -> int:
    from hammemo.tokens.vocabulary import NO_TOKEN

    return NO_TOKEN
