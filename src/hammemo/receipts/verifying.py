"""What can be proven of a model by someone who has the rows that should remain.

The rows are fitted from nothing, with the parameters, the seed, the types and the declared
labels of the model, and the result is compared with the model part by part. No code that
forgets is used. Where not all parts are equal, the rows are counted under the model's own
layout: the counts and the kept rows must be equal in any case, or the model holds other rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sklearn.base import clone

from hammemo.edits.digests import compute_part_digests
from hammemo.edits.editing import read_rows, take_state
from hammemo.edits.sync import compare
from hammemo.memories import Gaussian
from hammemo.receipts.receipt import (
    Receipt,
    SignedReceipt,
    library_versions,
    processor_kind,
)
from hammemo.tasks.labels.streams import get_cutting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hammemo.edits.state import AnyState
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.learners import Learner
    from hammemo.estimators.regressor import MemoryRegressor

AnyModel = TypeVar("AnyModel", "MemoryClassifier", "MemoryRegressor")

_SUMS: Final = ("counts", "kept rows", "threshold")
"""The parts that are sums over rows under a layout."""


class Result(Enum):
    """What was proven of a model by the remaining rows."""

    PROVEN = "proven"
    COUNTS = "counts proven, layout or weights not refitted"
    COUNTS_UNDER_LAYOUT = "beyond the budget of kept rows, counts proven under the given layout"
    REFUTED = "not proven"


@dataclass(frozen=True)
class Check:
    """What was proven, and which parts are those of a model of the remaining rows alone.

    Parameters
    ----------
    result : Result
    rows : int
        How many remaining rows there are. For documents, these are their windows.
    same : mapping of str to bool
    gone, new : int, optional
        How many rows of the model are not among the remaining ones, and how many of these the
        model does not hold: what `sync` would forget and learn. None where the model does not
        know its rows, and for documents.
    """

    result: Result
    rows: int
    same: Mapping[str, bool]
    gone: int | None = None
    new: int | None = None

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        others = ", ".join(name for name, same in self.same.items() if not same)
        rows = f"these {self.rows:,} rows" if self.rows != 1 else "this 1 row"
        return {
            Result.PROVEN: f"Proven: a model that learns only {rows} is the same to the byte.",
            Result.COUNTS: (
                "Counts proven, layout or weights not refitted: "
                f"the counts are those of {rows}, but {others} may still depend on removed rows. "
                "Refit the model, and verify it again."
            ),
            Result.COUNTS_UNDER_LAYOUT: (
                "Beyond the budget of kept rows, counts proven under the given layout: the counts "
                f"are those of {rows}, and the weights are fitted to kept rows among them. "
                "The layout may still depend on removed rows."
            ),
            Result.REFUTED: (
                f"Not proven: the model does not hold just {rows}. Different: {others}. "
                "Either the model holds other rows, or these are not the rows that remain, "
                f"with their types.{self._difference}"
            ),
        }[self.result]

    @property
    def _difference(self) -> str:
        if self.gone is None or self.new is None:
            return ""
        return (
            f" The model holds {self.gone:,} other rows, and {self.new:,} of these are missing in "
            "it."
        )


def check_rows(model: Learner, rows: Any) -> Check:
    """Compare a model with one that is made of the rows that should remain.

    Parameters
    ----------
    model : MemoryClassifier or MemoryRegressor
        It is not changed.
    rows : (X, y), or an iterable of such pairs
        All rows that should remain.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.receipts import check_rows
    >>> X = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 50
    >>> y = ["no", "no", "yes", "yes"] * 50
    >>> clf = MemoryClassifier().fit(X, y).forget(X[:20], y[:20])
    >>> check_rows(clf, (X[20:], y[20:])).result
    <Result.COUNTS: 'counts proven, layout or weights not refitted'>
    >>> check_rows(clf.refit(), (X[20:], y[20:])).result, check_rows(clf, (X[21:], y[21:])).result
    (<Result.PROVEN: 'proven'>, <Result.REFUTED: 'not proven'>)
    """
    model = model.snapshot()
    pairs = [rows] if isinstance(rows, tuple) and len(rows) == 2 else list(rows)
    pairs = [(X, y) for X, y in pairs if len(y)]
    fresh: Any = _empty_copy(model)
    if pairs:
        fresh.refit(rows=pairs)
    else:
        _refit_nothing(fresh)

    def count(counted: Any) -> None:
        for X, y in pairs:
            counted.partial_fit(X, y, choose=False)

    check = _check(model, fresh, count)
    return _with_difference(check, model, pairs) if check.result is Result.REFUTED else check


def _with_difference(check: Check, model: Learner, pairs: list[tuple[Any, Any]]) -> Check:
    """Return the check with the rows that differ counted, as `sync` counts them."""
    if not pairs or model.state.documents is not None:
        return check
    tables = [(X, y, None) for X, y in pairs]
    settings: Any = model.settings()
    comparison = compare(settings, model.state, tables, partial(read_rows, model))
    difference = comparison.difference
    if difference is None:
        return check
    return replace(check, gone=difference.n_gone, new=difference.n_new)


def check_documents(
    model: MemoryClassifier,
    documents: Any,
    classes: Sequence[Any] | None = None,
    cases: Iterable[Any] | None = None,
) -> Check:
    """Compare a model of documents with one that is made of the documents that should remain.

    Parameters
    ----------
    model : MemoryClassifier
        It is not changed.
    documents : iterable of documents
        All that should remain.
    classes : sequence, optional
        As the documents were learnt.
    cases : iterable, optional
        The id of the case of each document. Cases are compared if they are given and the model
        has one for every document that it keeps; otherwise only the documents are.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.receipts.verifying import check_documents
    >>> visits = [["tea", "cup", "pot"], ["pen", "ink"], ["tea", "pot"]] * 9
    >>> shop = MemoryClassifier().fit_stream(visits, h=3, short="pad")
    >>> shop = shop.forget_stream(visits[:1]).refit()
    >>> print(check_documents(shop, visits[1:]).sentence)
    Proven: a model that learns only these 60 rows is the same to the byte.
    """
    model = model.snapshot()
    documents = list(documents)
    stored_documents = model.state.documents
    ids = None if cases is None else list(cases)
    if stored_documents is not None and (ids is None or not stored_documents.all_have_cases):
        assert model.state.store is not None
        take_state(
            model,
            model.state.with_changes(
                store=model.state.store.with_kept(stored_documents.without_cases())
            ),
        )
        ids = None
    if not documents:
        fresh = _empty_copy(model)
        _refit_nothing(fresh)
        return _check(model, fresh, lambda _: None)
    h = model.sites_.h
    cutting = get_cutting(model.state)
    cut: dict[str, Any] = {
        "classes": classes,
        "short": cutting.short,
        "pad": cutting.pad,
        "cases": ids,
    }
    fresh = clone(model)
    fresh.random_state = model.memory_.seed
    fresh.fit_stream(documents, h, **cut)
    fresh.random_state = model.random_state
    take_state(fresh, fresh.state.with_changes(target_dtype=model.label_dtype_))
    return _check(model, fresh, lambda counted: counted.partial_fit_stream(documents, h, **cut))


def check_receipts(
    receipts: Sequence[SignedReceipt],
    digest: str,
    public_key: str | None = None,
    *,
    where: str = "The file",
) -> SignedReceipt:
    """Return the last receipt if all are signed and it is of the model with this digest.

    ValueError says what is wrong.

    Parameters
    ----------
    receipts : sequence of SignedReceipt
        A whole chain, from `ReceiptFile.read`.
    digest : str
        That of the model.
    public_key : str, optional
        One that you know to be the operator's: the last receipt must be signed with it.
    where : str
        The name of the file.
    """
    for line, signed in enumerate(receipts, 1):
        if not signed.verify():
            raise ValueError(
                f"{where}, line {line}: the signature is wrong. "
                "The receipt was changed, or is forged."
            )
    last = receipts[-1]
    if public_key is not None and last.public_key != public_key:
        raise ValueError(
            f"{where}, line {len(receipts)}, is signed with another key than the one you gave."
        )
    if last.receipt.digest_after == digest:
        return last
    of_model = [
        line for line, signed in enumerate(receipts, 1) if signed.receipt.digest_after == digest
    ]
    if of_model:
        raise ValueError(
            f"The model is that of line {of_model[-1]} of {where}, and there are later receipts: "
            "it is an old copy."
        )
    raise ValueError(
        f"The model is not the one of the last receipt in {where} (request "
        f"{last.receipt.request}): one of the two was changed since, "
        "or they do not belong together."
    )


def compare_origin(receipt: Receipt) -> str:
    """Return how the versions and the processor of a receipt differ from those here, if they do."""
    local = {**library_versions(), "processor": processor_kind()}
    signed = {**receipt.libraries, "processor": receipt.processor}
    names = [name for name in sorted({*local, *signed}) if local.get(name) != signed.get(name)]
    return "; ".join(
        f"{name} {signed.get(name, 'none')} there and {local.get(name, 'none')} here"
        for name in names
    )


def _empty_copy(model: AnyModel) -> AnyModel:
    """Return a model of the same layout and declared labels that holds nothing."""
    fresh = model.empty_like()
    state: AnyState = fresh.state
    memory = state.task.counting.declare(state.memory, model.state.declared)
    take_state(fresh, state.with_changes(memory=memory))
    return fresh


def _refit_nothing(fresh: Learner) -> None:
    """Make what `refit` makes of a model that keeps everything and holds nothing."""
    state: AnyState = fresh.state
    if state.store is not None and state.kept is not None:
        is_of_documents = state.documents is not None
        seed = state.store.seed
        empty = fresh.settings().empty_store(
            state.store.h, seed, state.vote, documents=is_of_documents
        )
        take_state(fresh, state.with_changes(store=empty, pinned=False))
        fresh.refit()


def _compare_parts(model: Learner, other: Learner) -> dict[str, bool]:
    digests = compute_part_digests(model, model.state)
    other_digests = compute_part_digests(other, other.state)
    return {name: digest == other_digests[name] for name, digest in digests.items()}


def _check(model: Learner, fresh: Learner, count: Callable[[Any], Any]) -> Check:
    """Return what is proven by a fresh model.

    Where that differs, the rows are counted under the model's own layout.
    """
    same = _compare_parts(model, fresh)
    stored_rows = model.state.kept
    if all(same.values()):
        return Check(Result.PROVEN, model.state.n_examples, same)
    counted: Any = _empty_copy(model)
    count(counted)
    sums = _compare_parts(model, counted)
    if not all(sums[part] for part in _SUMS):
        _refuse_rounding(model.state.memory)
        different = {part: sums[part] for part in _SUMS}
        return Check(Result.REFUTED, counted.state.n_examples, different)
    # they differ from those of the fresh one by its other layout only
    same.update(dict.fromkeys(_SUMS, True))
    if stored_rows is not None and not stored_rows.holds_all:
        refitted = model.snapshot().refit(what="weights")
        if _compare_parts(model, refitted)["weights"]:
            return Check(Result.COUNTS_UNDER_LAYOUT, model.state.n_examples, same)
    return Check(Result.COUNTS, model.state.n_examples, same)


def _refuse_rounding(memory: Any) -> None:
    if isinstance(memory, Gaussian) and not memory.exact:
        raise ValueError(
            "The counts cannot be compared to the byte: "
            "a Gaussian memory of floats forgets to rounding. Use Gaussian(exact=True); "
            "or keep rows, refit the model, and verify it again."
        )
