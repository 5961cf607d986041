"""The algebra that every memory promises for its state.

Each check takes a memory on trial (:class:`~contract_checks.subject.Subject`) and batches of
examples, and reaches the same state in a second way. `check_memory` calls them with random batches;
the tests of hammemo call the same functions for every memory of the package, with batches from
Hypothesis.
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

from contract_checks.batches import Batch, examples, queries, reorder
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
    """Check that a batch is learned as its rows are, one by one."""
    require_same_state(subject.learn(batch), subject.learn(*[[row] for row in batch]))


@promise(
    "an example with multiplicity n is stored as n examples, "
    "and every label has as many as were added"
)
def multiplicities_are_repetitions(subject: Subject, batch: Batch) -> None:
    """Check multiplicities against repeated rows, and counts of labels against a count by hand."""
    memory = subject.learn(batch)
    repeated = [(context, label, 1) for context, label, number in batch for _ in range(number)]
    require_same_state(memory, subject.learn(repeated))
    expected: Counter[str] = Counter()
    for _, label, number in batch:
        expected[label] += number
    label_counts = dict(zip(memory.labels, memory.label_counts.tolist(), strict=True))
    require(
        label_counts == dict(expected),
        f"the labels have {label_counts} examples, not {dict(expected)}",
    )


@promise("the order in which examples are learned does not show in the state")
def order_does_not_matter(subject: Subject, batch: Batch, seed: int) -> None:
    """Check that the reverse order, and another one in other batches, give the same state."""
    expected = subject.learn(batch)
    require_same_state(subject.learn(batch[::-1]), expected)
    require_same_state(subject.learn(*reorder(batch, seed)), expected)


@promise("removing examples undoes adding them")
def removing_undoes_adding(subject: Subject, remaining: Batch, removed: Batch) -> None:
    """Check that what was added and removed was never there."""
    memory = subject.learn(removed, remaining)
    memory.remove(examples(removed))
    require_same_state(memory, subject.learn(remaining))


@promise("removing everything leaves the empty state, to the byte")
def removing_everything_leaves_nothing(subject: Subject, batch: Batch) -> None:
    """Check that a state of floats, too, is empty when all examples are gone."""
    memory = subject.learn(batch)
    memory.remove(examples(batch))
    require_same_bytes(memory, subject.open_memory())


@promise("a removal that is refused changes nothing")
def a_refused_removal_changes_nothing(
    subject: Subject, context: list[Any], removed: Batch | None = None
) -> None:
    """Check that too many removals are refused, also where some of them would be possible."""
    memory = subject.learn([(context, "yes", 2), (context, "no", 1)])
    before = memory.state_bytes()
    if removed is None:
        removed = [(context, "no", 1), (context, "yes", 3)]
    remove = partial(memory.remove, examples(removed))
    require_refusal(NotStoredError, "Nothing was changed", remove)
    require_same_bytes(memory, before)
    require_equal(
        memory.label_counts, [1, 2], "the number of examples of each label after the refusal"
    )


@promise("shards that are merged equal one memory that learned everything")
def shards_merge_to_the_joint_fit(subject: Subject, batches: list[Batch]) -> None:
    """Check `merge` and `empty_like` against learning all batches together."""
    merged = subject.open_memory()
    for batch in batches:
        shard = merged.empty_like()
        shard.add(examples(batch))
        merged.merge(shard)
    require_same_state(merged, subject.learn([row for batch in batches for row in batch]))


@promise("unmerge undoes merge, and refuses, with nothing changed, what is not a part")
def unmerging_undoes_merging(subject: Subject, remaining: Batch, removed: Batch) -> None:
    """Check that a shard can be subtracted, and one with an example too many cannot."""
    memory = subject.learn(remaining)
    shard = subject.learn(removed)
    memory.merge(shard)
    memory.unmerge(shard)
    require_same_state(memory, subject.learn(remaining))
    before = memory.state_bytes()
    larger = subject.learn([*remaining, (remaining[0][0], remaining[0][1], 1)])
    require_refusal(NotStoredError, "Nothing was changed", partial(memory.unmerge, larger))
    require_same_bytes(memory, before)


@promise("a memory whose layout is open takes the layout of what is merged into it")
def an_open_layout_is_taken_over(subject: Subject, batch: Batch) -> None:
    """Check `list_undecided`: a settled layout has nothing to decide, and an open one takes any."""
    memory = subject.learn(batch)
    require(
        not memory.list_undecided(),
        f"examples are stored, but {set(memory.list_undecided())} is undecided",
    )
    fresh = subject.make(subject.sites).open(subject.sites, subject.seed)
    fresh.merge(memory)
    require_same_state(fresh, memory)
    require(fresh.fingerprint() == memory.fingerprint(), "the fingerprints differ after the merge")


@promise("memories of another layout are refused by the name of what differs, with nothing changed")
def other_layouts_are_refused(
    subject: Subject, batch: Batch, others: Iterable[tuple[str, Memory]]
) -> None:
    """Check `merge` with memories that do not fit; each comes with what the error must say."""
    memory = subject.learn(batch)
    before = memory.state_bytes()
    for pattern, other in others:
        require_refusal(LayoutError, pattern, partial(memory.merge, other))
        require(
            memory.fingerprint() != other.fingerprint(),
            f"the fingerprints are equal, although {pattern} differs",
        )
    require_same_bytes(memory, before)
    require(
        memory.fingerprint() == memory.empty_like().fingerprint(),
        "empty_like() has another fingerprint",
    )


@promise("a label without examples is dropped unless it was declared")
def idle_labels_are_dropped(subject: Subject, context: list[Any]) -> None:
    """Check `declare`, and that removing the last example of a label removes the label."""
    memory = subject.learn([(context, "yes", 1), (context, "no", 1)])
    memory.remove(examples([(context, "yes", 1)]))
    require(list(memory.labels) == ["no"], f"the labels are {list(memory.labels)}, not ['no']")
    memory.declare(Vocabulary.of(["maybe"]))
    require(
        list(memory.labels) == ["maybe", "no"],
        f"the labels are {list(memory.labels)}, not ['maybe', 'no']",
    )
    require_equal(memory.label_counts, [0, 1], "the number of examples of each label")
    contexts = queries([(context, "no", 1)])
    weights = subject.sites.weights
    scores = memory.reader().scores(contexts, weights)
    require(scores.shape == (1, 2), f"scores have the shape {scores.shape}, not (1, 2)")
    for compiled in subject.compile_all(memory):
        np.testing.assert_allclose(compiled.scores(contexts, weights), scores, rtol=1e-6, atol=1e-4)
    require(b"maybe" in memory.state_bytes(), "the declared label is not in the state")


@promise("declared labels are a part of the canonical state")
def declaring_before_or_after_is_the_same(subject: Subject, batch: Batch) -> None:
    """Check that it does not matter when a label is declared, and that merging takes it over."""
    first = subject.learn(batch)
    second = subject.open_memory()
    first.declare(Vocabulary.of(["a"]))
    second.declare(Vocabulary.of(["a"]))
    second.add(examples(batch))
    require_same_state(first, second)
    third = first.empty_like()
    third.merge(first)
    require_same_state(third, first)


@promise("a restored state is the state, and goes on in the same way")
def a_restored_state_goes_on_the_same(
    subject: Subject, batch: Batch, removed: Batch, after: Batch
) -> None:
    """Check `state` and `restore`, and that a restored memory learns and forgets like the first."""
    memory = subject.learn(batch, removed)
    weights = subject.sites.weights
    memory.declare(Vocabulary.of(["maybe", "no"]))
    for trusted in (False, True):
        state = {name: array.copy() for name, array in memory.state().items()}
        ranks = memory.labels.find(memory.declared)
        restored = subject.make(subject.sites).restore(
            state, subject.sites, memory.seed, ranks, trusted=trusted
        )
        require_same_bytes(restored, memory)
        require(restored.declared == memory.declared, "the declared labels differ")
        require(restored.fingerprint() == memory.fingerprint(), "the fingerprints differ")
        expected = memory.reader().scores(queries(after), weights)
        require_equal(
            restored.reader().scores(queries(after), weights),
            expected,
            "scores of the restored memory",
        )
        twin = memory.empty_like()
        twin.merge(memory)
        for either in (restored, twin):
            either.add(examples(after))
            either.remove(examples(removed))
        require_same_bytes(restored, twin)


@promise("an array that does not belong to the state is refused by restore")
def a_foreign_array_is_refused(subject: Subject, batch: Batch) -> None:
    """Check that `restore_arrays` takes what it knows, and that a missing array is an error."""
    memory = subject.learn(batch)
    state = {**memory.state(), "not_mine": np.zeros(1, np.uint8)}
    fresh = subject.make(subject.sites)
    require_refusal(
        ValueError, "not_mine", partial(fresh.restore, state, subject.sites, memory.seed)
    )
    for name in memory.state_arrays():
        other_arrays = {key: array for key, array in memory.state().items() if key != name}
        memory_without_array = subject.make(subject.sites)
        require_refusal(
            ValueError,
            "",
            partial(memory_without_array.restore, other_arrays, subject.sites, memory.seed),
        )


@promise("copies and pickles have the same state and answers, and are edited on their own")
def copies_are_independent(subject: Subject, batch: Batch, after: Batch) -> None:
    """Check `copy.deepcopy` and `pickle`, of memories that were asked before and of others."""
    weights = subject.sites.weights
    contexts = queries(after)
    for is_asked_before in (False, True):
        memory = subject.learn(batch)
        if is_asked_before:
            memory.reader().scores(contexts, weights)
        before = memory.state_bytes()
        for copied in _copies(memory):
            require_same_bytes(copied, memory)
            expected = memory.reader().scores(contexts, weights)
            require_equal(copied.reader().scores(contexts, weights), expected, "scores of the copy")
            copied.add(examples(after))
            require_same_bytes(memory, before)
            require_equal(
                memory.reader().scores(contexts, weights),
                expected,
                "scores after the copy was edited",
            )
            copied.remove(examples(after))
            require_same_state(copied, memory)


def _copies(memory: Memory) -> list[Memory]:
    """Return a deep copy and, where pickle can find the class by its name, a pickled one."""
    copies = [copy.deepcopy(memory)]
    cls = type(memory)
    definition: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        definition = getattr(definition, name, None)
    if definition is cls:
        pickled = pickle.dumps(memory)
        copies.append(pickle.loads(pickled))  # noqa: S301  pickled one line above
    return copies


@promise(
    "learning changes no parameter, "
    "and a clone is a memory with the same parameters and nothing stored"
)
def parameters_stay(subject: Subject, batch: Batch) -> None:
    """Check the rules of scikit-learn's `clone`, `get_params` and `set_params`."""
    fresh = subject.make(subject.sites)
    before = repr(fresh.get_params())
    memory = subject.learn(batch)
    require(
        repr(memory.get_params()) == before,
        f"the parameters were {before} and are {memory.get_params()}",
    )
    copied = clone(memory).set_params(**clone(memory).get_params())
    copied.open(subject.sites, subject.seed)
    require(not len(copied.labels), "a clone holds examples")
    copied.merge(memory)
    require_same_state(copied, memory)


@promise("the size that is reported counts every array")
def the_accounting_counts_every_array(subject: Subject, batch: Batch) -> None:
    """Check `nbytes`, and that no compiled form reports an empty array."""
    memory = subject.learn(batch)
    total = sum(array.nbytes for array in memory.state().values())
    require(
        memory.nbytes == total > 0, f"nbytes is {memory.nbytes}, but the arrays have {total} bytes"
    )
    for compiled in subject.compile_all(memory):
        for name, array in compiled.tensors().items():
            require(array.size, f"the array {name} of {type(compiled).__name__} is empty")


@promise("a memory with nothing stored has no label, and answers with no column")
def an_empty_memory_answers(subject: Subject) -> None:
    """Check the state before the first example, with an open and with a settled layout."""
    contexts = Contexts.of([[0] * subject.sites.h])
    for memory in (
        subject.make(subject.sites).open(subject.sites, subject.seed),
        subject.open_memory(),
    ):
        require(len(memory.labels) == 0, f"it has the labels {list(memory.labels)}")
        shape = memory.reader().scores(contexts, subject.sites.weights).shape
        require(shape == (1, 0), f"scores have the shape {shape}, not (1, 0)")
