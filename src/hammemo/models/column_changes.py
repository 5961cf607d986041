"""Which kinds the columns of a model are, decided again when its rows, or its parameter `numeric`, say something else.

Kinds are a function of the rows (:mod:`hammemo.tokens.column_evidence`). A first batch may hold missing values or whole
numbers only, where later ones hold fractions or dates. So kinds are decided when rows are learnt, when models are
merged, and by `refit`, while all rows are kept: then the rows become rows of these kinds and are counted again. Where
some rows are not kept, or the layout was given, kinds stay. So they do in single edits, and with ``choose=False``, but
for a column without values that gets dates or durations, which cannot be names.

What is learnt never turns numbers into names: a string in a column of numbers is refused. Only `refit` does, where the
rows that are left hold no fraction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from hammemo.memories.errors import LayoutError
from hammemo.models import settling
from hammemo.models.additive import Additive
from hammemo.models.answering import Answering
from hammemo.models.kept_rows import KeptRows
from hammemo.tokens.column_evidence import Evidence, asked_columns, converted, holds_time, is_time
from hammemo.tokens.column_kinds import ColumnKinds
from hammemo.tokens.columns import NAMES, NUMBERS, table_columns
from hammemo.tokens.contexts import refuse_masked
from hammemo.tokens.missing import is_missing
from hammemo.tokens.user_input import evidence_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.models.kept import Kept
    from hammemo.models.settling import Axes, Settled
    from hammemo.tokens.column_evidence import Asked
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.vocabulary import Vocabulary

Self = TypeVar("Self", bound="Deciding")


class Deciding(Additive, Answering):
    """A model whose rows decide the kinds of its columns."""

    def _kinds_of_columns(self) -> str:
        return self._columns or NAMES * self.n_features_in_

    def _column_names(self) -> list[Any] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else names.tolist()

    def _asked(self) -> Asked:
        """Return which columns the parameter says are numbers; those that are, where it names columns without names."""
        numeric, names = getattr(self, "numeric", "none"), self._column_names()
        is_list = not isinstance(numeric, str)
        if names is None and is_list and any(isinstance(column, str) for column in numeric):
            return {j for j, kind in enumerate(self._kinds_of_columns()) if kind != NAMES}
        return asked_columns(numeric, names, self.n_features_in_)

    def _holds_nothing(self) -> bool:
        return not self.memory_.label_counts.any()

    def _can_decide(self) -> bool:
        """Return whether kinds can be decided again: the rows are all there, and no layout was given."""
        if self._types is None or self._pinned:
            return False
        return self._can_choose() or (
            self._holds_nothing() and (self._kept is None or isinstance(self._kept, KeptRows))
        )

    def _declare_nothing(self, h: int) -> None:
        """Declare columns of unknown kinds: those that `numeric` names are numbers."""
        self._types = "o" * h if hasattr(self, "numeric") else None
        self.n_features_in_ = h
        if self._types is not None:
            self._take_kinds(Evidence(self._types, "-" * h).kinds(self._asked()))

    def _take_kinds(self, kinds: str) -> None:
        self._columns = None if set(kinds) <= {NAMES} else kinds

    def _check_numeric(self) -> None:
        """Refuse a parameter that was set since, where kinds cannot be decided again."""
        if self._types is None or self._can_decide():
            return
        asked, kinds = self._asked(), self._kinds_of_columns()
        for j, kind in enumerate(kinds if asked is not None else ""):
            if (kind != NAMES) != (asked is not None and j in asked):
                names = self._column_names()
                raise ValueError(
                    f"numeric={getattr(self, 'numeric', None)!r} was set after column {names[j] if names else j!r} "
                    "was learnt as another kind, and the model cannot decide it again: its layout was given, or it "
                    "does not keep all rows. Fit a new model."
                )

    def _decided_again(self, kept: KeptRows) -> KeptRows:
        """Decide kinds by the kept rows and the parameter; return the rows as of these kinds."""
        if self._types is None:
            return kept
        found = Evidence.of_rows(self._types, kept.examples().contexts)
        kinds, self._types = found.kinds(self._asked()), found.types
        return kept if kinds == self._kinds_of_columns() else self._with_kinds(kept, kinds)

    def _decide_by(self, tables: list[Any]) -> None:
        """Decide kinds by tables that hold all rows."""
        if self._types is None or self._pinned:
            self._check_numeric()
            return
        found = Evidence(self._types, "-" * self.n_features_in_)
        for X in tables:
            columns = table_columns(X)
            if columns is not None and len(columns) == len(found.types):
                found = Evidence(found.types, found.plus(evidence_of(self, X, columns)).contents)
        self._take_kinds(found.kinds(self._asked()))

    def _with_kinds(self, kept: KeptRows, kinds: str) -> KeptRows:
        """Let columns be of these kinds; return the kept rows as of them."""
        before = self._kinds_of_columns()
        self._take_kinds(kinds)
        examples = self._converted(kept.examples(), before, kinds)
        self._kinds = ColumnKinds.of(examples.contexts)
        return kept.emptied().changed(examples, 1)

    def _converted(self, examples: Examples, before: str, after: str) -> Examples:
        contexts = converted(examples.contexts, before, after, self._missing(), self._column_names())
        return replace(examples, contexts=contexts)

    def _admit(self, X: Any, *, choose: bool = True) -> None:
        """Let a table that is to be learnt decide kinds that no value has decided before.

        Without `choose`, only columns that cannot stay names become of another kind.
        """
        if not self._can_decide() or not (choose or "o" in (self._types or "")):
            return
        refuse_masked(X, "X")
        columns = table_columns(X)
        if not columns or len(columns) != self.n_features_in_:
            return  # what is wrong with it is said where it is learnt
        shown, asked, before = evidence_of(self, X, columns), self._asked(), self._kinds_of_columns()
        if not _may_change(shown, self._types or "", shown.kinds(asked), before):
            return
        held = self._evidence()
        together = held.plus(shown)
        found = together.kinds(asked)
        after = "".join(
            new if (choose and old == NAMES) or (content == "-" and (choose or holds_time(column))) else old
            for old, new, content, column in zip(before, found, held.contents, columns, strict=True)
        )
        self._types = together.types
        if after != before:
            self._change_kinds(after, choose=choose)

    def _admit_one(self, row: Sequence[Any]) -> None:
        """Let one row declare the types of columns that have none; most rows find none."""
        if self._types is not None and "o" in self._types and len(row) == len(self._types):
            waits = (kind == "o" and not is_missing(value) for kind, value in zip(self._types, row, strict=True))
            if any(waits) and (self._kernel_is_automatic() or any(map(is_time, row))):
                self._admit([list(row)], choose=False)

    def _evidence(self) -> Evidence:
        """Return what the rows show; a model that keeps not all of them shows that there are values."""
        assert self._types is not None
        if isinstance(self._kept, KeptRows) and self._kept.holds_all:
            return Evidence.of_rows(self._types, self._kept.examples().contexts)
        return Evidence(self._types, ("-" if self._holds_nothing() else "w") * len(self._types))

    def _change_kinds(self, kinds: str, *, choose: bool = True) -> None:
        """Let columns be of other kinds, and count the rows again."""
        kept = self._kept
        if not isinstance(kept, KeptRows) or not len(kept):
            self._take_kinds(kinds)
            return  # the first rows start over
        kept = self._with_kinds(kept, kinds)
        if choose:
            self._choose(kept.examples(), kept.seed, self.memory_.declared, kept, quickly=True)
            return
        self._start_again(kept.examples())
        memory = self.memory_.snapshot()
        self._count_kept(memory, kept, 1)
        self.memory_, self._kept = memory, kept

    def _start_again(self, examples: Examples) -> None:
        """Settle the parts as for a first batch, with nothing stored; declared labels and the seed stay."""
        declared, seed, cutting = self.memory_.declared, self.memory_.seed, self.cutting_
        n_labels = len(examples.labels.union(declared))
        self._start(examples.contexts.h, settling.for_pieces(self._axes(), n_labels, examples), seed=seed)
        memory = self.memory_.snapshot()
        memory.declare_labels(declared)
        self.memory_, self.cutting_ = memory, cutting

    def _as_layout(self, examples: Examples, layout: Any) -> Examples:
        """Return the first rows of a model as of the kinds of a layout, where their values do not say otherwise."""
        theirs = getattr(layout, "_columns", None) or NAMES * examples.contexts.h
        mine = self._kinds_of_columns()
        if self._types is None or theirs == mine or len(theirs) != len(mine):
            return examples
        shown = Evidence.of_rows(self._types, examples.contexts)
        as_names = "".join(  # with a layout, whole numbers are names where it has names
            new if content == "w" and new == NAMES else old
            for old, new, content in zip(mine, theirs, shown.contents, strict=True)
        )
        if _may_become(as_names, theirs, shown):
            self._take_kinds(theirs)
            return self._converted(examples, mine, theirs)
        return examples  # what differs is refused with the layout

    def _agreed(self: Self, other: Additive) -> Additive:
        mine, theirs = self._kinds_of_columns(), other._columns or NAMES * other.n_features_in_
        if not isinstance(other, Deciding) or self._types is None or other._types is None or len(mine) != len(theirs):
            self._check_kinds(other)
            return other
        if mine == theirs and self._types == other._types:
            return other
        held, shown = self._evidence(), other._evidence()
        together = held.plus(shown)
        kinds = together.kinds(self._asked())
        after = "".join(map(_kind_of_both, mine, theirs, kinds, together.contents))
        can_be = (mine == after or self._can_decide()) and (theirs == after or other._can_decide())
        if not can_be or not _may_become(mine, after, held) or not _may_become(theirs, after, shown):
            self._check_kinds(other)
        self._types = together.types
        if mine != after:
            self._change_kinds(after, choose=False)
        return other if theirs == after else _counted_with_kinds(other, after)

    def _as_mine(self, other: Additive) -> Additive:
        kinds = self._kinds_of_columns()
        if self._columns == other._columns or len(kinds) != other.n_features_in_ or not isinstance(other, Deciding):
            self._check_kinds(other)
            return other
        if not isinstance(other._kept, KeptRows) or not other._kept.holds_all:
            self._check_kinds(other)
        try:
            return _counted_with_kinds(other, kinds)
        except ValueError as error:
            raise LayoutError(str(error)) from None

    def _can_choose(self) -> bool:
        raise NotImplementedError

    def _kernel_is_automatic(self) -> bool:
        raise NotImplementedError

    def _axes(self) -> Axes:
        raise NotImplementedError

    def _start(self, h: int, settled: Settled, layout: Any = None, seed: int | None = None) -> None:
        raise NotImplementedError

    def _choose(
        self, examples: Examples, seed: int, declared: Vocabulary, kept: Kept | None = None, *, quickly: bool = False
    ) -> None:
        raise NotImplementedError


def _may_change(shown: Evidence, types: str, found: str, before: str) -> bool:
    """Return whether a table may change types or kinds; most do not, and the rows need not be looked at."""
    columns = zip(shown.contents, shown.types, types, found, before, strict=True)
    return any(
        content != "-"
        and (kind != known or (old == NAMES and new != NAMES) or (old == NUMBERS and new not in (old, NAMES)))
        for content, kind, known, new, old in columns
    )


def _kind_of_both(mine: str, theirs: str, together: str, content: str) -> str:
    """Return the kind of a column of two models; whole numbers whose fractions were forgotten stay numbers here."""
    if mine == theirs:
        return mine
    return NUMBERS if together == NAMES and content == "w" and NUMBERS in (mine, theirs) else together


def _may_become(before: str, after: str, rows: Evidence) -> bool:
    """Return whether columns may become of other kinds by what is learnt: without values, or with whole numbers."""
    return all(
        old == new or content == "-" or (old == NAMES and new == NUMBERS and content == "w" and kind != "s")
        for old, new, kind, content in zip(before, after, rows.types, rows.contents, strict=True)
    )


def _counted_with_kinds(model: Deciding, kinds: str) -> Deciding:
    """Return a copy of a model of which only the rows are needed, with these as of other kinds."""
    copied = model.snapshot()
    if isinstance(copied._kept, KeptRows):
        copied._kept = copied._with_kinds(copied._kept, kinds)
    else:
        copied._take_kinds(kinds)
    return copied
