"""The algebra that every memory promises for its state.

Each check takes a memory on trial (:class:`~contract_checks.subject.Subject`) and batches of examples, and reaches the
same state in a second way. `check_memory` calls them with random batches; the tests of hammemo call the same functions
for every memory of the package, with batches from Hypothesis.
"""

from __future__ import annotations

import copy
import pickle
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from contract_checks.batches import Batch, examples, queries, reordered
from contract_checks.promises import promise, require, require_equal, require_refusal
from contract_checks.subject import Subject, require_same_bytes, require_same_state
from hammemo.memories.errors import LayoutError, NotStoredError
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo.memories import Memory


@promise("the state of a batch is the sum of the states of its examples")
def a_batch_is_the_sum_of_its_examples(subject: Subject, batch: Batch) -> None:
    """Check that a batch is learnt as its rows are, one by one."""
    require_same_state(subject.learnt(batch), subject.learnt(*[[row] for row in batch]))


@promise("an example with multiplicity n is stored as n examples, and every label has as many as were added")
def multiplicities_are_repetitions(subject: Subject, batch: Batch) -> None:
    """Check multiplicities against repeated rows, and the labels' counts against a count by hand."""
    memory = subject.learnt(batch)
    repeated = [(context, label, 1) for context, label, number in batch for _ in range(number)]
    require_same_state(memory, subject.learnt(repeated))
    truth: Counter[str] = Counter()
    for _, label, number in batch:
        truth[label] += number
    found = dict(zip(memory.labels, memory.label_counts.tolist(), strict=True))
    require(found == dict(truth), f"the labels have {found} examples, not {dict(truth)}")


@promise("the order in which examples are learnt does not show in the state")
def order_does_not_matter(subject: Subject, batch: Batch, seed: int) -> None:
    """Check that the reverse order, and another one in other batches, give the same state."""
    expected = subject.learnt(batch)
    require_same_state(subject.learnt(batch[::-1]), expected)
    require_same_state(subject.learnt(*reordered(batch, seed)), expected)


@promise("removing examples undoes adding them")
def removing_undoes_adding(subject: Subject, kept: Batch, taken: Batch) -> None:
    """Check that what was added and removed was never there."""
    memory = subject.learnt(taken, kept)
    memory.remove(examples(taken))
    require_same_state(memory, subject.learnt(kept))


@promise("removing everything leaves the empty state, to the byte")
def removing_everything_leaves_nothing(subject: Subject, batch: Batch) -> None:
    """Check that a state of floats, too, is empty when all examples are gone."""
    memory = subject.learnt(batch)
    memory.remove(examples(batch))
    require_same_bytes(memory, subject.opened())


@promise("a removal that is refused changes nothing")
def a_refused_removal_changes_nothing(subject: Subject, context: list[Any], taken: Batch | None = None) -> None:
    """Check that too many removals are refused, also where a part of them would have been possible."""
    memory = subject.learnt([(context, "yes", 2), (context, "no", 1)])
    before = memory.state_bytes()
    asked = [(context, "no", 1), (context, "yes", 3)] if taken is None else taken
    require_refusal(NotStoredError, "Nothing was changed", partial(memory.remove, examples(asked)))
    require_same_bytes(memory, before)
    require_equal(memory.label_counts, [1, 2], "the number of examples of each label after the refusal")


@promise("shards that are merged equal one memory that learnt everything")
def merged_shards_equal_the_joint_fit(subject: Subject, batches: list[Batch]) -> None:
    """Check `merge` and `empty_like` against learning all batches together."""
    merged = subject.opened()
    for batch in batches:
        shard = merged.empty_like()
        shard.add(examples(batch))
        merged.merge(shard)
    require_same_state(merged, subject.learnt([row for batch in batches for row in batch]))


@promise("unmerge undoes merge, and refuses, with nothing changed, what is not a part")
def unmerging_undoes_merging(subject: Subject, kept: Batch, taken: Batch) -> None:
    """Check that the state of a shard can be subtracted, but not a second time without its examples."""
    memory, shard = subject.learnt(kept), subject.learnt(taken)
    memory.merge(shard)
    memory.unmerge(shard)
    require_same_state(memory, subject.learnt(kept))
    before = memory.state_bytes()
    larger = subject.learnt([*kept, (kept[0][0], kept[0][1], 1)])
    require_refusal(NotStoredError, "Nothing was changed", partial(memory.unmerge, larger))
    require_same_bytes(memory, before)


@promise("a memory whose layout is open takes the layout of what is merged into it")
def an_open_layout_is_taken_over(subject: Subject, batch: Batch) -> None:
    """Check `undecided`: nothing of a settled layout is left to decide, and an open one accepts any."""
    memory = subject.learnt(batch)
    require(not memory.list_undecided(), f"examples are stored, but {set(memory.list_undecided())} is undecided")
    fresh = subject.make(subject.sites).open(subject.sites, subject.seed)
    fresh.merge(memory)
    require_same_state(fresh, memory)
    require(fresh.fingerprint() == memory.fingerprint(), "the fingerprints differ after the merge")


@promise("memories of another layout are refused by the name of what differs, with nothing changed")
def other_layouts_are_refused(subject: Subject, batch: Batch, others: Iterable[tuple[str, Memory]]) -> None:
    """Check `merge` with memories that do not fit; each comes with what the error must say."""
    memory = subject.learnt(batch)
    before = memory.state_bytes()
    for pattern, other in others:
        require_refusal(LayoutError, pattern, partial(memory.merge, other))
        require(memory.fingerprint() != other.fingerprint(), f"the fingerprints are equal, although {pattern} differs")
    require_same_bytes(memory, before)
    require(memory.fingerprint() == memory.empty_like().fingerprint(), "empty_like() has another fingerprint")


@promise("a label without examples is dropped unless it was declared")
def idle_labels_are_dropped(subject: Subject, context: list[Any]) -> None:
    """Check `declare`, and that removing the last example of a label removes the label."""
    memory = subject.learnt([(context, "yes", 1), (context, "no", 1)])
    memory.remove(examples([(context, "yes", 1)]))
    require(list(memory.labels) == ["no"], f"the labels are {list(memory.labels)}, not ['no']")
    memory.declare(Vocabulary.of(["maybe"]))
    require(list(memory.labels) == ["maybe", "no"], f"the labels are {list(memory.labels)}, not ['maybe', 'no']")
    require_equal(memory.label_counts, [0, 1], "the number of examples of each label")
    asked, weights = queries([(context, "no", 1)]), subject.sites.weights
    scores = memory.reader().scores(asked, weights)
    require(scores.shape == (1, 2), f"scores have the shape {scores.shape}, not (1, 2)")
    for compiled in subject.compiled(memory):
        np.testing.assert_allclose(compiled.scores(asked, weights), scores, rtol=1e-6, atol=1e-4)
    require(b"maybe" in memory.state_bytes(), "the declared label is not in the state")


@promise("declared labels are a part of the canonical state")
def declaring_before_or_after_is_the_same(subject: Subject, batch: Batch) -> None:
    """Check that it does not matter when a label is declared, and that merging takes it over."""
    first, second = subject.learnt(batch), subject.opened()
    first.declare(Vocabulary.of(["a"]))
    second.declare(Vocabulary.of(["a"]))
    second.add(examples(batch))
    require_same_state(first, second)
    third = first.empty_like()
    third.merge(first)
    require_same_state(third, first)


@promise("a restored state is the state, and goes on in the same way")
def a_restored_state_goes_on_the_same(subject: Subject, batch: Batch, taken: Batch, after: Batch) -> None:
    """Check `state` and `restore`, and that a restored memory learns and forgets as the first one would."""
    memory, weights = subject.learnt(batch, taken), subject.sites.weights
    memory.declare(Vocabulary.of(["maybe", "no"]))
    for trusted in (False, True):
        state = {name: array.copy() for name, array in memory.state().items()}
        ranks = memory.labels.find(memory.declared)
        restored = subject.make(subject.sites).restore(state, subject.sites, memory.seed, ranks, trusted=trusted)
        require_same_bytes(restored, memory)
        require(restored.declared == memory.declared, "the declared labels differ")
        require(restored.fingerprint() == memory.fingerprint(), "the fingerprints differ")
        expected = memory.reader().scores(queries(after), weights)
        require_equal(restored.reader().scores(queries(after), weights), expected, "scores of the restored memory")
        twin = memory.empty_like()
        twin.merge(memory)
        for either in (restored, twin):
            either.add(examples(after))
            either.remove(examples(taken))
        require_same_bytes(restored, twin)


@promise("an array that does not belong to the state is refused by restore")
def a_foreign_array_is_refused(subject: Subject, batch: Batch) -> None:
    """Check that `restore_arrays` takes what it knows, and that a missing array is an error."""
    memory = subject.learnt(batch)
    state = {**memory.state(), "not_mine": np.zeros(1, np.uint8)}
    fresh = subject.make(subject.sites)
    require_refusal(ValueError, "not_mine", partial(fresh.restore, state, subject.sites, memory.seed))
    for name in memory.state_arrays():
        others = {key: array for key, array in memory.state().items() if key != name}
        again = subject.make(subject.sites)
        require_refusal(ValueError, "", partial(again.restore, others, subject.sites, memory.seed))


@promise("copies and pickles have the same state and answers, and are edited on their own")
def copies_are_independent(subject: Subject, batch: Batch, after: Batch) -> None:
    """Check `copy.deepcopy` and `pickle`, of memories whose reader was made and of those whose was not."""
    weights, asked = subject.sites.weights, queries(after)
    for asked_before in (False, True):
        memory = subject.learnt(batch)
        if asked_before:
            memory.reader().scores(asked, weights)
        before = memory.state_bytes()
        for again in _copies(memory):
            require_same_bytes(again, memory)
            expected = memory.reader().scores(asked, weights)
            require_equal(again.reader().scores(asked, weights), expected, "scores of the copy")
            again.add(examples(after))
            require_same_bytes(memory, before)
            require_equal(memory.reader().scores(asked, weights), expected, "scores after the copy was edited")
            again.remove(examples(after))
            require_same_state(again, memory)


def _copies(memory: Memory) -> list[Memory]:
    """Return a deep copy and, where pickle can find the class by its name, a pickled one."""
    cls = type(memory)
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    pickled = [pickle.loads(pickle.dumps(memory))] if found is cls else []  # noqa: S301  (made here)
    return [copy.deepcopy(memory), *pickled]


@promise("learning changes no parameter, and a clone is a memory with the same parameters and nothing stored")
def parameters_stay(subject: Subject, batch: Batch) -> None:
    """Check the rules of scikit-learn's `clone`, `get_params` and `set_params`."""
    fresh = subject.make(subject.sites)
    before = repr(fresh.get_params())
    memory = subject.learnt(batch)
    require(repr(memory.get_params()) == before, f"the parameters were {before} and are {memory.get_params()}")
    again = clone(memory).set_params(**clone(memory).get_params())
    again.open(subject.sites, subject.seed)
    require(not len(again.labels), "a clone holds examples")
    again.merge(memory)
    require_same_state(again, memory)


@promise("the size that is reported counts every array")
def the_accounting_counts_every_array(subject: Subject, batch: Batch) -> None:
    """Check `nbytes`, and that no compiled form reports an empty array."""
    memory = subject.learnt(batch)
    total = sum(array.nbytes for array in memory.state().values())
    require(memory.nbytes == total > 0, f"nbytes is {memory.nbytes}, but the arrays have {total} bytes")
    for compiled in subject.compiled(memory):
        for name, array in compiled.tensors().items():
            require(array.size, f"the array {name} of {type(compiled).__name__} is empty")


@promise("a memory with nothing stored has no label, and answers with no column")
def an_empty_memory_answers(subject: Subject) -> None:
    """Check the state before the first example, with an open and with a settled layout."""
    asked = Contexts.of([[0] * subject.sites.h])
    for memory in (subject.make(subject.sites).open(subject.sites, subject.seed), subject.opened()):
        require(len(memory.labels) == 0, f"it has the labels {list(memory.labels)}")
        shape = memory.reader().scores(asked, subject.sites.weights).shape
        require(shape == (1, 0), f"scores have the shape {shape}, not (1, 0)")
