"""Sequences are learnt and forgotten by whole documents or cases: what a mixture keeps and leaves out are these."""

from __future__ import annotations

from dataclasses import replace
from itertools import tee
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.cli.console import progress_bar
from hammemo.memories import NotStoredError
from hammemo.sources.kinds import kind_of, known_kinds, merged_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from hammemo.cli.receipts import Note
    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.sources.schemas import SequenceSchema


class CountedDocuments:
    """The documents of files, counted during iteration.

    Parameters
    ----------
    schema : SequenceSchema
    files : sequence of str
    file_format : str, optional
    only : sequence of str
        Names of cases; all documents where there are none.
    note : callable
        Called with each document, in a list.

    Attributes
    ----------
    n_examples : int
        Tokens that are predicted, so far.
    kinds : str
        What the tokens are.
    missing : set of str
        Cases of `only` that were not met yet.
    """

    def __init__(
        self,
        schema: SequenceSchema,
        files: Sequence[str],
        file_format: str | None,
        only: Sequence[str] = (),
        note: Note = lambda _: None,
    ) -> None:
        self._schema, self._files, self._format, self._note = schema, files, file_format, note
        self._only = set(only)
        self.missing = set(only)
        self.n_examples, self.kinds = 0, ""

    def through(self, tell: Callable[[int, None], None]) -> tuple[Iterator[NDArray[Any]], Iterator[Any] | None]:
        """Return the documents and, for an event log, their cases; each is read as the other is."""
        documents, cases = tee(self._counted(tell))
        return (tokens for _, tokens in documents), (name for name, _ in cases) if self._schema.is_log else None

    def _counted(self, tell: Callable[[int, None], None]) -> Iterator[tuple[Any, NDArray[Any]]]:
        context_only = 0 if self._schema.short == "pad" else self._schema.h
        for name, tokens in self._schema.documents(self._files, self._format):
            if self._only and str(name) not in self._only:
                continue
            self.missing.discard(str(name))
            self.n_examples += max(0, len(tokens) - context_only)
            self.kinds = merged_kinds(self.kinds, kind_of(np.asarray(tokens)))
            tell(self.n_examples, None)
            self._note([np.asarray(tokens).tolist()])
            yield name, tokens


def learn_documents(
    model: MemoryClassifier,
    schema: SequenceSchema,
    documents: CountedDocuments,
    *,
    layout: MemoryClassifier | None = None,
    classes: list[Any] | None = None,
) -> tuple[SequenceSchema, dict[str, Any]]:
    """Learn documents, then fit the vote of a new model; return how they were read and what was learnt."""
    fresh = not hasattr(model, "memory_")
    before = 0 if fresh else int(model.memory_.label_counts.sum())
    learn = model.fit_stream if fresh else model.partial_fit_stream
    short: Any = schema.short
    with progress_bar("Learning") as tell:
        read, cases = documents.through(tell)
        learn(read, schema.h, classes=classes, short=short, layout=layout, cases=cases)
    learnt = int(model.memory_.label_counts.sum()) - before
    return (replace(schema, kinds=known_kinds(documents.kinds)) if fresh else schema), {"examples": learnt}


def forget_documents(
    model: MemoryClassifier, schema: SequenceSchema, documents: CountedDocuments, classes: list[Any] | None
) -> int:
    """Remove whole documents; return the number of removed examples."""
    before = int(model.memory_.label_counts.sum())
    short: Any = schema.short
    try:
        with progress_bar("Forgetting") as tell:
            read, cases = documents.through(tell)
            model.forget_stream(read, classes=classes, short=short, cases=cases)
    except NotStoredError as error:
        if str(error).startswith("Case "):
            raise
        raise NotStoredError(
            "A document was never learnt, or not that many times: nothing was forgotten and the file is as it was. "
            "Leave it out, or name those that were learnt with --only."
        ) from error
    if documents.missing:
        raise ValueError(f"The input has no case {', '.join(map(repr, sorted(documents.missing)))}.")
    return before - int(model.memory_.label_counts.sum())
