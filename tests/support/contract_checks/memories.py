"""Does a memory keep its contract? All checks of its state and answers, on random batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from contract_checks import memory_answers as answers
from contract_checks import memory_states as states
from contract_checks.batches import Batch, random_batch
from contract_checks.promises import promise
from contract_checks.saved import fit_classifier, require_saved
from contract_checks.subject import Subject
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.kernels.sites import Sites
from hammemo.memories import Exact, Hashed, Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL_FILES = 4
"""In how many trials models are written to files, which takes longer than all else."""


def check_memory(
    memory: Memory,
    *,
    sites: Sequence[Sites] | None = None,
    forms: Sequence[str] = (),
    seed: int = 0,
    trials: int = 20,
) -> None:
    """Try a memory against the contract of :class:`~hammemo.memories.Memory`.

    The examples are random, with a seed. It takes seconds. The first broken promise is raised, with
    the examples that show it.

    Parameters
    ----------
    memory : Memory
        One that was not opened; it is cloned.
    sites : sequence of Sites, optional
        What is compared, from ``kernel.resolve(h)``; by default three positions, and then positions
        with tuples of them. Where the memory's parameters list one number a site, give sites of
        that number.
    forms : sequence of str
        The names of compiled forms to be checked beside the default one. A form may refuse some of
        the sites with ValueError.
    seed : int
        Decides the examples.
    trials : int
        How many times each promise is tried on new examples, the sites taking turns.

    Raises
    ------
    BrokenPromiseError
        It says which promise was broken, and on which examples.

    Examples
    --------
    >>> from hammemo.memories import Hashed
    >>> from contract_checks import check_memory
    >>> check_memory(Hashed(buckets=4, reserved=2), trials=2)
    """
    if not isinstance(memory, Memory):
        raise TypeError(f"check_memory takes an instance of a Memory, not {memory!r}.")
    subjects = []
    for tried_sites in default_sites() if sites is None else sites:
        usable_forms = tuple(form for form in forms if _takes(memory, form, tried_sites))
        subject = Subject(lambda _: clone(memory), tried_sites, usable_forms)
        _check_fixed(subject)
        subjects.append(subject)
    rng = np.random.default_rng(seed)
    for trial in range(trials):
        subject = subjects[trial % len(subjects)]
        batches = [random_batch(rng, subject.sites.h) for _ in range(3)]
        check_once(subject, batches, int(rng.integers(2**32)))
        if trial < MODEL_FILES:
            a_model_file_comes_back(subject, batches[0], batches[1])


def default_sites() -> list[Sites]:
    """Return positions, and positions with tuples of them that have different weights."""
    joined = SiteKernel([0, 2, (0, 2), (-3, -2, -1)], weights=[1, 2, 3, 4])
    return [PositionalHamming().resolve(3), joined.resolve(3)]


def _takes(memory: Memory, form: str, sites: Sites) -> bool:
    """Say whether the memory has this compiled form for these sites."""
    try:
        clone(memory).open(sites).compile(form)
    except ValueError:
        return False
    return True


def _check_fixed(subject: Subject) -> None:
    """Check what needs no random examples."""
    h = subject.sites.h
    context: list[Any] = ([0, 1, 2] * h)[:h]
    other_context: list[Any] = (["a", "b", 0.5] * h)[:h]
    # 300 does not fit into a byte
    rows: Batch = [(context, "yes", 1), (other_context, "no", 300)]
    states.an_empty_memory_answers(subject)
    states.multiplicities_are_repetitions(subject, [(context, "yes", 3), (context, "no", 1)])
    states.idle_labels_are_dropped(subject, context)
    states.a_refused_removal_changes_nothing(subject, context)
    states.a_refused_removal_changes_nothing(
        subject, context, [(context, "yes", 1), (context, "other", 1)]
    )
    states.the_accounting_counts_every_array(subject, rows)
    states.other_layouts_are_refused(subject, rows, _others(subject))
    answers.an_unseen_token_is_not_an_error(subject)
    answers.an_unknown_form_is_refused(subject)


def _others(subject: Subject) -> list[tuple[str, Memory]]:
    """Return memories that cannot be merged, each with what the error must name."""
    sites = subject.sites
    longer = Sites(sites.h + 1, sites.positions, sites.weights)
    others = [
        (f"h is {sites.h} here and {sites.h + 1} there", subject.with_sites(longer).open_memory())
    ]
    if len(sites.positions) > 1:
        turned = Sites(sites.h, sites.positions[::-1], sites.weights[::-1])
        others.append(("sites is", subject.with_sites(turned).open_memory()))
    memory = subject.open_memory()
    strangers: list[Memory] = [Exact(), Hashed(4, 0)]
    return others + [
        ("memory is", other.open(sites)) for other in strangers if type(other) is not type(memory)
    ]


def check_once(subject: Subject, batches: list[Batch], seed: int) -> None:
    """Try every promise on three batches."""
    batch, other, third = batches
    states.a_batch_is_the_sum_of_its_examples(subject, batch)
    states.multiplicities_are_repetitions(subject, batch)
    states.order_does_not_matter(subject, [*batch, *other], seed)
    states.removing_undoes_adding(subject, batch, other)
    states.removing_everything_leaves_nothing(subject, batch)
    states.shards_merge_to_the_joint_fit(subject, batches)
    states.unmerging_undoes_merging(subject, batch, other)
    states.an_open_layout_is_taken_over(subject, batch)
    states.declaring_before_or_after_is_the_same(subject, batch)
    states.a_restored_state_goes_on_the_same(subject, batch, other, third)
    states.a_foreign_array_is_refused(subject, batch)
    states.copies_are_independent(subject, batch, other)
    states.parameters_stay(subject, batch)
    answers.abilities_are_as_declared(subject, batch, other)
    answers.reading_changes_nothing(subject, batch, other)
    answers.a_reader_does_not_change(subject, batch, other)
    answers.a_snapshot_does_not_change(subject, batch, other)
    answers.forms_give_the_memory_s_scores(subject, batch, other)
    answers.forms_come_back(subject, batch, other)
    answers.scores_are_linear_in_the_weights(subject, batch, other)
    answers.site_scores_are_the_terms_of_the_scores(subject, batch, other, seed)
    answers.bounds_hold_the_exact_counts(subject, batch, other)
    answers.proofs_are_right(subject, batch, other)
    answers.winners_are_the_first_of_the_highest(subject, batch, other)
    answers.has_seen_is_true(subject, batch, other)


@promise("a classifier with this memory, and its predictor, come back from files the same")
def a_model_file_comes_back(subject: Subject, batch: Batch, query_batch: Batch) -> None:
    """Check `save` and `load`, with the memory and its compiled form as trusted classes."""
    positions = [list(site) for site in subject.sites.positions]
    kernel = SiteKernel(positions, subject.sites.weights.tolist())
    require_saved(fit_classifier(kernel, subject.make(subject.sites), "sum", batch), query_batch)
