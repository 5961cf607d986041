"""Every promise of `hammemo.checks`, for every memory of the package, on batches that Hypothesis looks for.

The checks ship with the library; here they get more memories, both kinds of sites and examples that are shrunk when one
fails.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import SiteKernel
from hammemo.checks import memory_answers as answers
from hammemo.checks import memory_states as states
from hammemo.checks.memories import a_model_file_comes_back
from memory_catalogue import KERNELS, MEMORIES, POSITIONS, TOKENS, TUPLES, Entry, batches, examples
from places import SUPPORT

if TYPE_CHECKING:
    from hammemo.checks.batches import Batch
    from hammemo.checks.subject import Subject

every_memory = pytest.mark.parametrize("entry", MEMORIES, ids=str)
every_subject = pytest.mark.parametrize(
    "subject",
    [
        pytest.param(entry.subject(sites), id=f"{kind}-{entry}")
        for kind, sites in zip(["positions", "tuples"], KERNELS, strict=True)
        for entry in MEMORIES
    ],
)
on_positions = pytest.mark.parametrize("subject", [entry.subject(POSITIONS) for entry in MEMORIES], ids=str)
on_tuples = pytest.mark.parametrize("subject", [entry.subject(TUPLES) for entry in MEMORIES], ids=str)
randomly = settings(max_examples=20, deadline=None)
a_few_times = settings(max_examples=12, deadline=None)
rarely = settings(max_examples=5, deadline=None)
seeds = st.integers(0, 2**32 - 1)
CONTEXT = [0, 1, 2]


# ---------------------------------------------------------------- the state


@every_subject
@given(batch=batches)
@randomly
def test_a_batch_is_the_sum_of_its_examples(subject: Subject, batch: Batch) -> None:
    states.a_batch_is_the_sum_of_its_examples(subject, batch)


@every_subject
@given(batch=batches)
@a_few_times
def test_multiplicities_are_repetitions(subject: Subject, batch: Batch) -> None:
    states.multiplicities_are_repetitions(subject, batch)


@every_subject
@given(kept=batches, taken=batches)
@randomly
def test_removing_undoes_adding(subject: Subject, kept: Batch, taken: Batch) -> None:
    states.removing_undoes_adding(subject, kept, taken)


@on_positions
@given(batch=batches)
@randomly
def test_removing_everything_leaves_nothing(subject: Subject, batch: Batch) -> None:
    states.removing_everything_leaves_nothing(subject, batch)


@every_subject
@given(parts=st.lists(batches, min_size=1, max_size=5))
@randomly
def test_merged_shards_equal_the_joint_fit(subject: Subject, parts: list[Batch]) -> None:
    states.merged_shards_equal_the_joint_fit(subject, parts)


@every_subject
@given(kept=batches, taken=batches)
@a_few_times
def test_unmerging_undoes_merging(subject: Subject, kept: Batch, taken: Batch) -> None:
    states.unmerging_undoes_merging(subject, kept, taken)


@every_subject
@given(batch=batches, taken=batches, after=batches)
@randomly
def test_a_restored_state_goes_on_the_same(subject: Subject, batch: Batch, taken: Batch, after: Batch) -> None:
    states.a_restored_state_goes_on_the_same(subject, batch, taken, after)


@every_subject
@given(batch=batches)
@rarely
def test_a_foreign_array_is_refused(subject: Subject, batch: Batch) -> None:
    states.a_foreign_array_is_refused(subject, batch)


@every_subject
@given(batch=batches, seed=seeds)
@randomly
def test_order_does_not_matter(subject: Subject, batch: Batch, seed: int) -> None:
    states.order_does_not_matter(subject, batch, seed)


@every_subject
@given(batch=batches, after=batches)
@rarely
def test_copies_are_independent(subject: Subject, batch: Batch, after: Batch) -> None:
    states.copies_are_independent(subject, batch, after)


@every_subject
@given(batch=batches)
@rarely
def test_an_open_layout_is_taken_over_and_parameters_stay(subject: Subject, batch: Batch) -> None:
    states.an_open_layout_is_taken_over(subject, batch)
    states.parameters_stay(subject, batch)


@on_positions
def test_declared_labels_are_kept_and_idle_ones_dropped(subject: Subject) -> None:
    states.idle_labels_are_dropped(subject, CONTEXT)
    states.declaring_before_or_after_is_the_same(subject, [(CONTEXT, "yes", 1)])


@every_subject
def test_a_refused_removal_changes_nothing(subject: Subject) -> None:
    states.a_refused_removal_changes_nothing(subject, CONTEXT)
    states.a_refused_removal_changes_nothing(subject, CONTEXT, [(CONTEXT, "yes", 1), (CONTEXT, "other", 1)])


@every_memory
def test_other_layouts_are_refused_with_the_field_s_name(entry: Entry) -> None:
    others = [
        ("sites is", entry.opened(SiteKernel([0, 1]).resolve(3))),
        ("sites is", entry.opened(TUPLES)),
        ("h is 3 here and 4 there", entry.opened(SiteKernel([0, 1, 2]).resolve(4))),
    ]
    strangers = [other for other in MEMORIES if type(other.memory) is not type(entry.memory)]
    others += [("memory is", other.opened(POSITIONS)) for other in strangers]
    states.other_layouts_are_refused(entry.subject(POSITIONS), [(CONTEXT, "yes", 1)], others)


@on_positions
def test_the_accounting_counts_every_array(subject: Subject) -> None:
    states.the_accounting_counts_every_array(subject, [(CONTEXT, "yes", 1), (["a", "b", 0.5], "no", 300)])


@every_subject
def test_an_empty_memory_and_an_unseen_token_are_not_errors(subject: Subject) -> None:
    states.an_empty_memory_answers(subject)
    answers.an_unseen_token_is_not_an_error(subject)


# ---------------------------------------------------------------- the answers


@every_subject
@given(batch=batches, asked=batches)
@randomly
def test_reading_changes_nothing(subject: Subject, batch: Batch, asked: Batch) -> None:
    answers.reading_changes_nothing(subject, batch, asked)


@every_subject
@given(batch=batches, after=batches)
@rarely
def test_a_reader_does_not_change(subject: Subject, batch: Batch, after: Batch) -> None:
    answers.a_reader_does_not_change(subject, batch, after)


@every_subject
@given(batch=batches, after=batches)
@rarely
def test_a_snapshot_does_not_change(subject: Subject, batch: Batch, after: Batch) -> None:
    answers.a_snapshot_does_not_change(subject, batch, after)


@every_subject
@given(batch=batches, asked=batches)
@settings(max_examples=15, deadline=None)
def test_compiled_forms_come_back(subject: Subject, batch: Batch, asked: Batch) -> None:
    answers.compiled_forms_come_back(subject, batch, asked)


@on_positions
@given(batch=batches, asked=batches)
@randomly
def test_compiled_forms_give_the_memory_s_scores(subject: Subject, batch: Batch, asked: Batch) -> None:
    answers.compiled_forms_give_the_memory_s_scores(subject, batch, asked)


@on_positions
def test_an_unknown_form_is_refused(subject: Subject) -> None:
    answers.an_unknown_form_is_refused(subject)


@on_tuples
@given(batch=batches, asked=batches)
@randomly
def test_scores_are_linear_in_the_weights(subject: Subject, batch: Batch, asked: Batch) -> None:
    answers.scores_are_linear_in_the_weights(subject, batch, asked)


@every_subject
@given(batch=batches, asked=batches, seed=seeds)
@a_few_times
def test_site_scores_are_the_terms_of_the_scores(subject: Subject, batch: Batch, asked: Batch, seed: int) -> None:
    answers.site_scores_are_the_terms_of_the_scores(subject, batch, asked, seed)


@every_subject
@given(batch=batches, asked=batches)
@a_few_times
def test_bounds_hold_the_exact_counts_and_proofs_are_right(subject: Subject, batch: Batch, asked: Batch) -> None:
    answers.bounds_hold_the_exact_counts(subject, batch, asked)
    answers.proofs_are_right(subject, batch, asked)


@every_subject
@given(batch=batches, asked=batches)
@rarely
def test_abilities_are_as_declared(subject: Subject, batch: Batch, asked: Batch) -> None:
    answers.abilities_are_as_declared(subject, batch, asked)


@every_subject
@given(batch=batches, asked=batches)
@a_few_times
def test_winners_are_the_first_of_the_highest(subject: Subject, batch: Batch, asked: Batch) -> None:
    answers.winners_are_the_first_of_the_highest(subject, batch, asked)


@every_subject
@given(batch=batches, taken=batches)
@a_few_times
def test_seen_is_true(subject: Subject, batch: Batch, taken: Batch) -> None:
    answers.seen_is_true(subject, batch, taken)


@every_subject
@given(batch=batches, asked=batches)
@settings(max_examples=2, deadline=None)
def test_a_model_file_comes_back(subject: Subject, batch: Batch, asked: Batch) -> None:
    a_model_file_comes_back(subject, batch, asked)


# ---------------------------------------------------------------- other processes

_OTHER_PROCESS = """
import hashlib, sys
sys.path.insert(0, {support!r})
from memory_catalogue import KERNELS, MEMORIES, TOKENS, examples
for entry in MEMORIES:
    for sites in KERNELS:
        memory = entry.opened(sites)
        memory.add(examples([([t, TOKENS[-2], TOKENS[0]], "yes", 1) for t in reversed(TOKENS)]))
        print(hashlib.sha256(memory.state_bytes()).hexdigest())
"""


def test_processes_agree_without_exchanging_a_codebook() -> None:
    batch: Batch = [([token, TOKENS[-2], TOKENS[0]], "yes", 1) for token in reversed(TOKENS)]
    here = []
    for entry in MEMORIES:
        for sites in KERNELS:
            memory = entry.opened(sites)
            memory.add(examples(batch))
            here.append(hashlib.sha256(memory.state_bytes()).hexdigest())
    script = _OTHER_PROCESS.format(support=str(SUPPORT))
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert there.stdout.split() == here
