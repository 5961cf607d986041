"""The algebra that every memory promises, checked on random batches against a second way to the same state."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from hammemo import Exact, LayoutError, NotStoredError, SiteKernel
from hammemo._arrays.checked import StoredArrays
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.vocabulary import Vocabulary
from memory_catalogue import KERNELS, MEMORIES, POSITIONS, TOKENS, TUPLES, Entry, batches, examples
from places import SUPPORT

if TYPE_CHECKING:
    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory

Batch = list[tuple[list[Any], str, int]]

every_memory = pytest.mark.parametrize("entry", MEMORIES, ids=str)
every_kernel = pytest.mark.parametrize("sites", KERNELS, ids=["positions", "tuples"])
randomly = settings(max_examples=20, deadline=None)
a_few_times = settings(max_examples=12, deadline=None)


def learnt(entry: Entry, sites: Sites, *parts: Batch) -> Memory:
    memory = entry.opened(sites)
    for part in parts:
        memory.add(examples(part))
    return memory


def assert_same_state(entry: Entry, memory: Memory, expected: Memory) -> None:
    """Integer states agree to the byte; float states agree to rounding of the largest number ever held."""
    if entry.integer:
        assert memory.state_bytes() == expected.state_bytes()
        return
    state, expected_state = memory.state(), expected.state()
    assert state.keys() == expected_state.keys()
    for name, array in state.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(array, expected_state[name], rtol=0, atol=1e-11)
        else:
            np.testing.assert_array_equal(array, expected_state[name])


@every_memory
@every_kernel
@given(batch=batches)
@randomly
def test_a_batch_is_the_sum_of_its_examples(entry: Entry, sites: Sites, batch: Batch) -> None:
    assert_same_state(entry, learnt(entry, sites, batch), learnt(entry, sites, *[[row] for row in batch]))


@every_memory
@every_kernel
@given(kept=batches, taken=batches)
@randomly
def test_add_then_remove_equals_never_added(entry: Entry, sites: Sites, kept: Batch, taken: Batch) -> None:
    memory = learnt(entry, sites, taken, kept)
    memory.remove(examples(taken))
    assert_same_state(entry, memory, learnt(entry, sites, kept))


@every_memory
@given(batch=batches)
@randomly
def test_removing_everything_leaves_the_empty_state_to_the_byte(entry: Entry, batch: Batch) -> None:
    memory = learnt(entry, POSITIONS, batch)
    memory.remove(examples(batch))
    assert memory.state_bytes() == entry.opened(POSITIONS).state_bytes()


@every_memory
@every_kernel
@given(parts=st.lists(batches, min_size=1, max_size=5))
@randomly
def test_merged_shards_equal_the_joint_fit(entry: Entry, sites: Sites, parts: list[Batch]) -> None:
    whole = learnt(entry, sites, [row for part in parts for row in part])
    merged = entry.opened(sites)
    for part in parts:
        shard = merged.empty_like()
        shard.add(examples(part))
        merged.merge(shard)
    assert_same_state(entry, merged, whole)


@every_memory
@every_kernel
@given(batch=batches, taken=batches, after=batches)
@randomly
def test_a_restored_state_is_the_state_and_goes_on_the_same(
    entry: Entry, sites: Sites, batch: Batch, taken: Batch, after: Batch
) -> None:
    memory = learnt(entry, sites, batch, taken)
    memory.declare(Vocabulary.of(["maybe", "no"]))
    for trusted in (False, True):
        state = {name: array.copy() for name, array in memory.state().items()}
        ranks = memory.labels.find(memory.declared)
        restored = entry.for_sites(len(sites.positions)).restore(state, sites, memory.seed, ranks, trusted=trusted)
        assert restored.state_bytes() == memory.state_bytes()
        assert restored.declared == memory.declared
        assert restored.fingerprint() == memory.fingerprint()
        contexts = examples(after).contexts
        np.testing.assert_array_equal(
            restored.reader().scores(contexts, sites.weights), memory.reader().scores(contexts, sites.weights)
        )
        twin = memory.empty_like()
        twin.merge(memory)
        for either in (restored, twin):
            either.add(examples(after))
            either.remove(examples(taken))
        assert restored.state_bytes() == twin.state_bytes()


@every_memory
@every_kernel
@given(batch=batches, queries=batches)
@settings(max_examples=15, deadline=None)
def test_every_compiled_form_comes_back_with_the_same_scores(
    entry: Entry, sites: Sites, batch: Batch, queries: Batch
) -> None:
    memory, contexts = learnt(entry, sites, batch), examples(queries).contexts
    memory.declare(Vocabulary.of(["maybe"]))
    for form in entry.forms:
        if form == "dense" and sites is TUPLES:
            continue
        compiled = memory.compile(form)
        arrays, description = compiled.stored()
        for trusted in (False, True):
            stored = StoredArrays(arrays, trusted=trusted)
            again = type(compiled).restored(memory.frame(), stored, description, getattr(memory, "key", None))
            stored.finish()
            expected = compiled.scores(contexts, sites.weights)
            np.testing.assert_array_equal(again.scores(contexts, sites.weights), expected)
            assert again.row_width == compiled.row_width
            assert again.stored()[0].keys() == arrays.keys()


@every_memory
@every_kernel
@given(batch=batches, random=st.randoms(use_true_random=False))
@randomly
def test_order_does_not_matter(entry: Entry, sites: Sites, batch: Batch, random: Any) -> None:
    shuffled = random.sample(batch, len(batch))
    cut = random.randrange(len(batch) + 1)
    parts = [part for part in (shuffled[:cut], shuffled[cut:]) if part]
    assert_same_state(entry, learnt(entry, sites, *parts), learnt(entry, sites, batch))


@every_memory
@every_kernel
@given(batch=batches, queries=batches)
@randomly
def test_reads_change_nothing(entry: Entry, sites: Sites, batch: Batch, queries: Batch) -> None:
    memory = learnt(entry, sites, batch)
    before = memory.state_bytes()
    contexts = examples(queries).contexts
    first = memory.reader().scores(contexts, sites.weights)
    memory.compile().scores(contexts, sites.weights)
    np.testing.assert_array_equal(memory.reader().scores(contexts, sites.weights), first)
    assert memory.state_bytes() == before


@every_memory
@given(batch=batches, queries=batches)
@randomly
def test_every_compiled_form_gives_the_memory_s_scores(entry: Entry, batch: Batch, queries: Batch) -> None:
    memory = learnt(entry, POSITIONS, batch)
    contexts = examples(queries).contexts
    expected = memory.reader().scores(contexts, POSITIONS.weights)
    for form in entry.forms:
        compiled = memory.compile(form)
        assert compiled.labels == memory.labels
        np.testing.assert_allclose(compiled.scores(contexts, POSITIONS.weights), expected, rtol=0, atol=2e-4)
        if entry.integer and not entry.float_answers:
            np.testing.assert_array_equal(compiled.scores(contexts, POSITIONS.weights), expected)


@every_memory
@given(batch=batches, queries=batches)
@randomly
def test_scores_are_linear_in_the_site_weights(entry: Entry, batch: Batch, queries: Batch) -> None:
    memory = learnt(entry, TUPLES, batch)
    contexts = examples(queries).contexts
    by_site = [
        weight * memory.reader().scores(contexts, one) for weight, one in zip(TUPLES.weights, np.eye(4), strict=True)
    ]
    np.testing.assert_allclose(memory.reader().scores(contexts, TUPLES.weights), sum(by_site), rtol=0, atol=1e-10)


@every_memory
@every_kernel
@given(batch=batches, queries=batches, random=st.randoms(use_true_random=False))
@a_few_times
def test_site_scores_are_the_terms_of_the_scores(
    entry: Entry, sites: Sites, batch: Batch, queries: Batch, random: Any
) -> None:
    memory, contexts = learnt(entry, sites, batch), examples(queries).contexts
    columns = np.array(random.sample(range(len(memory.labels)), random.randint(1, len(memory.labels))))
    forms = [form for form in entry.forms if not (form == "dense" and sites is TUPLES)]
    for reader in (memory.reader(), *map(memory.compile, forms)):
        terms = reader.site_scores(contexts, sites.weights, columns)
        assert terms.values.shape == (len(contexts), len(sites.positions), len(columns))
        scores = reader.scores(contexts, sites.weights)[:, columns]
        if entry.integer and not entry.float_answers:
            np.testing.assert_array_equal(terms.totals(), scores)
        else:
            np.testing.assert_allclose(terms.totals(), scores, rtol=0, atol=2e-4 if scores.dtype == "f4" else 1e-10)


@every_memory
@every_kernel
@given(batch=batches, queries=batches)
@a_few_times
def test_bounds_of_site_scores_hold_the_exact_terms(entry: Entry, sites: Sites, batch: Batch, queries: Batch) -> None:
    memory, contexts = learnt(entry, sites, batch), examples(queries).contexts
    exact = clone(MEMORIES[0].memory).open(sites)
    exact.add(examples(batch))
    columns = np.arange(len(memory.labels))
    terms = memory.reader().site_scores(contexts, sites.weights, columns)
    expected = exact.reader().site_scores(contexts, sites.weights, columns).values
    assert (terms.low is None) == (terms.high is None) == (not memory.reader().has_bounds)
    if terms.low is not None and terms.high is not None:
        assert (terms.low <= expected).all()
        assert (expected <= terms.high).all()
        known = terms.low == terms.high
        np.testing.assert_array_equal(terms.high.sum(axis=1), memory.reader().bounds(contexts, sites.weights)[1])
        np.testing.assert_array_equal(expected[known], terms.high[known])
    if terms.errors is not None and terms.total_errors is not None:
        assert (terms.errors >= 0).all()
        assert terms.total_errors.shape == (len(contexts), len(columns))


@every_memory
@every_kernel
@given(batch=batches, taken=batches)
@a_few_times
def test_what_is_said_to_be_seen_was_and_what_is_said_to_be_unseen_was_not(
    entry: Entry, sites: Sites, batch: Batch, taken: Batch
) -> None:
    memory = learnt(entry, sites, batch, taken)
    memory.remove(examples(taken))
    exact = clone(MEMORIES[0].memory).open(sites)
    exact.add(examples(batch))
    tokens = Vocabulary.of([*TOKENS, "never", 99])
    truth = exact.reader().seen(tokens)
    held = {token for context, _, _ in batch for token in context}
    assert all(token in held for token, seen in zip(tokens, truth, strict=True) if seen)
    for reader in (memory.reader(), memory.compile()):
        said = reader.seen(tokens)
        np.testing.assert_array_equal(said[said >= 0], truth[said >= 0])
        if isinstance(memory, Exact):
            assert (said >= 0).all()


@every_memory
@every_kernel
def test_an_unseen_token_is_no_error(entry: Entry, sites: Sites) -> None:
    memory = learnt(entry, sites, [([0, 1, 2], "yes", 1)])
    assert memory.reader().scores(Contexts.of([["never", 99, 0.25]]), sites.weights).shape == (1, 1)


@every_memory
def test_too_many_removals_are_refused_and_change_nothing(entry: Entry) -> None:
    memory = learnt(entry, POSITIONS, [([0, 1, 2], "yes", 2), ([0, 1, 2], "no", 1)])
    before = memory.state_bytes()
    with pytest.raises(NotStoredError, match="Nothing was changed"):
        memory.remove(examples([([0, 1, 2], "no", 1), ([0, 1, 2], "yes", 3)]))
    assert memory.state_bytes() == before


@every_memory
def test_a_label_without_examples_is_dropped_unless_declared(entry: Entry) -> None:
    memory = learnt(entry, POSITIONS, [([0, 1, 2], "yes", 1), ([0, 1, 2], "no", 1)])
    memory.remove(examples([([0, 1, 2], "yes", 1)]))
    assert list(memory.labels) == ["no"]
    memory.declare(Vocabulary.of(["maybe"]))
    assert list(memory.labels) == ["maybe", "no"]
    assert memory.label_counts.tolist() == [0, 1]
    scores = memory.reader().scores(Contexts.of([[0, 1, 2]]), POSITIONS.weights)
    assert scores.shape == (1, 2)
    assert memory.compile().scores(Contexts.of([[0, 1, 2]]), POSITIONS.weights) == pytest.approx(scores, abs=1e-4)
    assert b"maybe" in memory.state_bytes()


@every_memory
def test_declared_labels_take_part_in_the_canonical_form(entry: Entry) -> None:
    first, second = learnt(entry, POSITIONS, [([0, 1, 2], "yes", 1)]), entry.opened(POSITIONS)
    first.declare(Vocabulary.of(["a"]))
    second.declare(Vocabulary.of(["a"]))
    second.add(examples([([0, 1, 2], "yes", 1)]))
    assert_same_state(entry, first, second)


@every_memory
def test_other_layouts_are_refused_with_the_field_s_name(entry: Entry) -> None:
    memory = learnt(entry, POSITIONS, [([0, 1, 2], "yes", 1)])
    before = memory.state_bytes()
    with pytest.raises(LayoutError, match="sites is"):
        memory.merge(entry.opened(SiteKernel([0, 1]).resolve(3)))
    with pytest.raises(LayoutError, match="h is 3 here and 4 there"):
        memory.merge(entry.opened(SiteKernel([0, 1, 2]).resolve(4)))
    for other in MEMORIES:
        if type(other.memory) is not type(entry.memory):
            with pytest.raises(LayoutError, match="memory is"):
                memory.merge(other.opened(POSITIONS))
    assert memory.state_bytes() == before
    assert memory.fingerprint() == memory.empty_like().fingerprint()
    assert memory.fingerprint() != entry.opened(TUPLES).fingerprint()


@every_memory
def test_an_unknown_compiled_form_is_refused_with_the_known_ones(entry: Entry) -> None:
    with pytest.raises(ValueError, match=entry.forms[0]):
        entry.opened(POSITIONS).compile("nonsense")


@every_memory
def test_the_accounting_counts_every_array(entry: Entry) -> None:
    memory = learnt(entry, POSITIONS, [([0, 1, 2], "yes", 1), (["a", "b", 0.5], "no", 300)])
    assert memory.nbytes == sum(array.nbytes for array in memory.state().values()) > 0
    for form in entry.forms:
        assert all(array.size for array in memory.compile(form).tensors().values())


_OTHER_PROCESS = """
import hashlib, sys
sys.path.insert(0, {support!r})
from memory_catalogue import MEMORIES, POSITIONS, TOKENS, TUPLES, examples
for entry in MEMORIES:
    for sites in (POSITIONS, TUPLES):
        memory = entry.opened(sites, 1)
        memory.add(examples([([t, TOKENS[-2], TOKENS[0]], "yes", 1) for t in reversed(TOKENS)]))
        print(hashlib.sha256(memory.state_bytes()).hexdigest())
"""


def test_processes_agree_without_exchanging_a_codebook() -> None:
    here = []
    for entry in MEMORIES:
        for sites in (POSITIONS, TUPLES):
            batch: Batch = [([token, TOKENS[-2], TOKENS[0]], "yes", 1) for token in reversed(TOKENS)]
            here.append(hashlib.sha256(learnt(entry, sites, batch).state_bytes()).hexdigest())
    script = _OTHER_PROCESS.format(support=str(SUPPORT))
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert there.stdout.split() == here
