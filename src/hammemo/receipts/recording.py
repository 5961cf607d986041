"""Make a receipt of what happens to a model in a block of code."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sklearn.utils.validation import check_is_fitted

from hammemo.edits.digests import compute_digest, compute_part_digests
from hammemo.edits.editing import take_state
from hammemo.receipts.receipt import (
    Receipt,
    SignedReceipt,
    hash_digest,
    library_versions,
    processor_kind,
)
from hammemo.receipts.row_hash import RowHash
from hammemo.receipts.strict_json import check_line
from hammemo.receipts.strict_json import now as time_now

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hammemo.estimators.learners import Learner
    from hammemo.receipts.keys import Keys


@dataclass(frozen=True)
class Moment:
    """What a receipt tells of one version of a model.

    Parameters
    ----------
    version : int
    parts : mapping of str to str
        The digest of each part.
    rows : int
    labels : frozenset
        The labels that have rows or were declared; none where numbers are predicted. A receipt
        has their number only.
    refitted : frozenset of str
        Which of "layout" and "weights" the last edit chose and fitted again.
    """

    version: int
    parts: Mapping[str, str]
    rows: int
    labels: frozenset[Any]
    refitted: frozenset[str]

    @classmethod
    def of(cls, model: Learner, version: int | None = None) -> Moment:
        """Return it for a fitted model as it is now.

        `version` is what a log counts, where there is one.
        """
        check_is_fitted(model)
        present = model.now()
        state = present.state
        number = getattr(present, "version_", 0) if version is None else version
        return cls(
            version=number,
            parts=compute_part_digests(present, state),
            rows=state.n_examples,
            labels=frozenset(getattr(present, "classes_", ())),
            refitted=state.refitted,
        )

    @property
    def digest(self) -> str:
        """The digest of all parts."""
        return compute_digest(self.parts)

    def receipt_since(
        self,
        before: Moment,
        forgotten: RowHash,
        request: str,
        *,
        previous: str | None = None,
        backups: Iterable[tuple[str, str]] = (),
        learnt: int = 0,
    ) -> SignedReceipt:
        """Return a signed receipt of what was removed between another moment and this one.

        `forgotten` is the hash of the rows as they were given, with the keys that sign; rows of
        a receipt are windows where these are documents. `learnt` is how many rows the same edit
        has learned.
        """
        removed = before.rows + learnt - self.rows
        if removed < 0:
            raise ValueError(
                f"The model holds {-removed:,} rows more than before, "
                "and a receipt is for forget, forget_stream and refit: learn before or after."
            )
        receipt = Receipt(
            request=request,
            version_before=before.version,
            digest_before=hash_digest(forgotten.keys, before.digest),
            version_after=self.version,
            parts_after=dict(self.parts),
            rows=removed,
            labels=len(before.labels - self.labels),
            rows_hash=forgotten.of_request(request),
            layout_refitted="layout" in self.refitted,
            weights_refitted="weights" in self.refitted,
            previous=previous,
            libraries=library_versions(),
            processor=processor_kind(),
            time=time_now(),
            backups=tuple(backups),
        )
        return receipt.sign(forgotten.keys)


class Record:
    """Holds the receipt of a block of code when the block has ended."""

    receipt: SignedReceipt | None = None

    @property
    def signed(self) -> SignedReceipt:
        """The signed receipt."""
        if self.receipt is None:
            raise ValueError(
                "The receipt is made when the block ends without an error: read it after the block."
            )
        return self.receipt


@contextmanager
def recorded(
    model: Learner, keys: Keys, request: str, *, previous: SignedReceipt | None = None
) -> Iterator[Record]:
    """Make a signed receipt of what a block of code removes from a model.

    The block calls `forget`, `forget_stream` and `refit`; to learn or to merge is refused. If it
    ends with an error, there is no receipt.

    Parameters
    ----------
    model : MemoryClassifier or MemoryRegressor
        A fitted model.
    keys : Keys
        From `read_keys`.
    request : str
        The id of the request, as it is filed: a line of text, without the name of a person.
    previous : SignedReceipt, optional
        The receipt before it; `ReceiptFile` keeps them in a file.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.receipts import Keys, recorded
    >>> clf = MemoryClassifier().fit([["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"])
    >>> with recorded(clf, Keys.new(), request="2026-17") as record:
    ...     _ = clf.forget([["a", "b"]], ["no"]).refit()
    >>> receipt = record.signed.receipt
    >>> receipt.rows, receipt.labels, receipt.layout_refitted, receipt.digest_after == clf.digest()
    (1, 0, True, True)
    """
    # refused before the model changes where cryptography is missing
    keys.public_key  # noqa: B018
    check_line(request, "request")
    _set_witness(model, RowHash(keys))
    record = Record()
    try:
        before = Moment.of(model)
        yield record
        after = Moment.of(model)
        forgotten = cast("RowHash", model.state.witness)
    finally:
        _set_witness(model, None)
    if after.version == before.version:
        raise ValueError(
            "Nothing was forgotten or refitted in the block, "
            "so there is nothing to give a receipt for."
        )
    record.receipt = after.receipt_since(
        before,
        forgotten,
        request,
        previous=None if previous is None else previous.hash,
    )


def _set_witness(model: Learner, witness: RowHash | None) -> None:
    """Let a model count and hash what it forgets from now on, or no longer.

    It is no edit of the model.
    """

    def change(private: Learner) -> None:
        if witness is not None and model.state.witness is not None:
            raise ValueError(
                "A receipt of this model is being made already: begin another one after its block."
            )
        take_state(private, model.state.with_changes(witness=witness))

    check_is_fitted(model)
    model.apply_edit(change)
