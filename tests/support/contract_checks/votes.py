"""Does a vote keep its contract? What it fits, its scores, the order of its labels, and its files.

A vote is tried on readers of several memories. One that needs rows of counts may refuse a reader
that has none (`has_rows`) with TypeError, and no other.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from contract_checks.batches import Batch, examples, queries, random_batch, table
from contract_checks.promises import promise, require, require_close, require_equal
from contract_checks.saved import fit_classifier, require_saved
from hammemo._arrays.checked import StoredArrays
from hammemo.kernels import SiteKernel
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes import Vote
from hammemo.votes.base import WeightedSum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.memories import Memory
    from hammemo.memories.ranker import Ranker
    from hammemo.memories.reader import Reader

KERNEL = SiteKernel([0, 1, 2, (1, 2)], weights=[1, 2, 1, 3])
SITES = KERNEL.resolve(3)
ROUNDING = 2e-4
"""How far sums may be apart: compiled sketches answer in float32, and add in another order."""

MODEL_FILES = 4
"""In how many trials models are written to files."""


class FittedVote(NamedTuple):
    """A vote that was fitted to a reader."""

    vote: Vote
    reader: Reader
    ranker: Ranker


@dataclass(frozen=True)
class VoteOn:
    """A vote on trial with one memory."""

    vote: Vote
    memory: Memory

    def __str__(self) -> str:
        return f"{self.vote!r} with {self.memory!r}"

    def reader(self, batch: Batch) -> Reader:
        """Return what the memory holds after a batch, one label declared that has no example."""
        memory: Memory = clone(self.memory).open(SITES, 1)
        memory.add(examples(batch))
        memory.declare(Vocabulary.of(["maybe"]))
        return memory.reader()

    def fit(self, batch: Batch) -> FittedVote:
        """Fit a clone of the vote."""
        vote = clone(self.vote)
        reader = self.reader(batch)
        vote.fit_to(reader, examples(batch), SITES, seed=5)
        return FittedVote(vote, reader, vote.ranker(reader, SITES))


def check_vote(
    vote: Vote, *, memories: Sequence[Memory] | None = None, seed: int = 0, trials: int = 20
) -> None:
    """Try a vote against the contract of :class:`~hammemo.votes.Vote`, on seeded random examples.

    Parameters
    ----------
    vote : Vote
        It is cloned.
    memories : sequence of Memory, optional
        What it must be able to read; by default an exact, a hashed and a Gaussian memory, the last
        only if the vote does not refuse it.
    seed : int
        Decides the examples.
    trials : int
        How many times each promise is tried on new examples, the memories taking turns.

    Raises
    ------
    BrokenPromiseError
        It says which promise was broken, and on which examples.

    Examples
    --------
    >>> from contract_checks import check_vote
    >>> from hammemo.votes import Mean
    >>> check_vote(Mean(), trials=3)
    """
    if not isinstance(vote, Vote):
        raise TypeError(f"check_vote takes an instance of a Vote, not {vote!r}.")
    rng = np.random.default_rng(seed)
    if memories is None:
        memories = [Exact(), Hashed(buckets=5, reserved=2), Gaussian(d=32)]
    else:
        memories = list(memories)
    subjects = [VoteOn(vote, memory) for memory in memories]
    subjects = [subject for subject in subjects if _takes(subject, random_batch(rng, 3))]
    if not subjects:
        raise ValueError(f"{vote!r} refuses all of {memories=!r}: pass one that it can read.")
    for trial in range(trials):
        batch = random_batch(rng, 3)
        query_batch = random_batch(rng, 3, least=2)
        check_once(subjects[trial % len(subjects)], batch, query_batch, files=trial < MODEL_FILES)


def _takes(subject: VoteOn, batch: Batch) -> bool:
    """Return whether the vote reads the memory.

    It may only refuse one without rows of counts or, if it needs exact ones, without these.
    """
    try:
        subject.fit(batch)
    except TypeError:
        reader = subject.reader(batch)
        if not reader.has_rows or (subject.vote.needs_exact_rows and not reader.is_exact):
            return False
        raise
    return True


def check_once(subject: VoteOn, batch: Batch, query_batch: Batch, *, files: bool) -> None:
    """Try every promise on one batch and one set of queries."""
    scores_are_one_a_label(subject, batch, query_batch)
    a_divisor_is_positive(subject, batch)
    winners_are_the_first_of_the_highest(subject, batch, query_batch)
    site_scores_and_base_are_the_scores(subject, batch, query_batch)
    probabilities_sum_to_one(subject, batch, query_batch)
    fitting_is_deterministic(subject, batch, query_batch)
    fitting_changes_no_parameter(subject, batch)
    what_was_fitted_comes_back(subject, batch, query_batch)
    if files:
        a_model_file_comes_back(subject, batch, query_batch)


@promise(
    "scores are finite, one for each context and label, "
    "and do not depend on the other contexts of a batch"
)
def scores_are_one_a_label(subject: VoteOn, batch: Batch, query_batch: Batch) -> None:
    """Check the shape, and the scores of single contexts."""
    _, reader, ranker = subject.fit(batch)
    contexts = queries(query_batch)
    scores = ranker.scores(contexts)
    require(
        ranker.n_labels == len(reader.labels),
        f"n_labels is {ranker.n_labels}, not {len(reader.labels)}",
    )
    require(
        ranker.row_width >= 1,
        f"row_width is {ranker.row_width}: at least one number is needed for a context",
    )
    shape = (len(contexts), len(reader.labels))
    require(scores.shape == shape, f"scores have the shape {scores.shape}, not {shape}")
    require(np.isfinite(scores).all(), "a score is not finite")
    singles = np.concatenate(
        [ranker.scores(contexts[slice(i, i + 1)]) for i in range(len(contexts))]
    )
    require_close(singles, scores, "scores of single contexts", atol=ROUNDING)


@promise("winners and leaders are in the order of the scores, equals in the order of the columns")
def winners_are_the_first_of_the_highest(subject: VoteOn, batch: Batch, query_batch: Batch) -> None:
    """Check the best labels of a batch, and of single contexts, against a stable sort of scores."""
    _, _, ranker = subject.fit(batch)
    contexts = queries(query_batch)
    order = np.argsort(-ranker.scores(contexts), axis=1, kind="stable")
    require_equal(ranker.winners(contexts), order[:, 0], "winners")
    for k in (1, 2, 9):
        require_equal(ranker.leaders(contexts, k), order[:, :k], f"the {k} leaders")
    single = ranker.single()
    for (tokens, _, _), winner in zip(query_batch, order[:, 0].tolist(), strict=True):
        best = -1  # the answer of a vote that leaves a context to `winners`
        if single is not None:
            best = single(tokens)
        require(best in (-1, winner), f"single({tokens!r}) is {best}, but the winner is {winner}")


@promise("site_scores, added up with their base, are the scores")
def site_scores_and_base_are_the_scores(subject: VoteOn, batch: Batch, query_batch: Batch) -> None:
    """Check the terms of the scores, for some labels in another order."""
    _, reader, ranker = subject.fit(batch)
    contexts = queries(query_batch)
    columns = np.arange(len(reader.labels))[::-1][:3]
    terms = ranker.site_scores(contexts, columns)
    shape = (len(contexts), len(SITES.positions), len(columns))
    require(
        terms.values.shape == shape, f"site_scores have the shape {terms.values.shape}, not {shape}"
    )
    require_close(
        terms.totals(), ranker.scores(contexts)[:, columns], "site_scores, added up", atol=ROUNDING
    )


@promise(
    "where has_probabilities is set, probabilities are positive and sum to one; "
    "elsewhere they are refused"
)
def probabilities_sum_to_one(subject: VoteOn, batch: Batch, query_batch: Batch) -> None:
    """Check `predict_proba` of a classifier, and that it predicts the most probable label."""
    model = fit_classifier(KERNEL, clone(subject.memory), clone(subject.vote), batch)
    X = table([row[0] for row in query_batch])
    require(
        hasattr(model, "predict_proba") == subject.vote.has_probabilities,
        "predict_proba is not as declared",
    )
    if subject.vote.has_probabilities:
        shares = model.predict_proba(X)
        require((shares >= 0).all(), "a probability is negative")
        require_close(shares.sum(axis=1), np.ones(len(X)), "sums of probabilities", atol=1e-9)
        columns = np.searchsorted(model.classes_, model.predict(X))
        require_close(
            shares[np.arange(len(X)), columns],
            shares.max(axis=1),
            "probabilities of the predicted labels",
            atol=1e-12,
        )


@promise("fitting twice gives the same, and scores that are computed twice are the same")
def fitting_is_deterministic(subject: VoteOn, batch: Batch, query_batch: Batch) -> None:
    """Check a second clone that is fitted to the same examples with the same seed, and a copy."""
    contexts = queries(query_batch)
    vote, reader, ranker = subject.fit(batch)
    scores = ranker.scores(contexts)
    require_equal(ranker.scores(contexts), scores, "scores, asked for twice")
    second_vote, _, second_ranker = subject.fit(batch)
    _require_same_arrays(second_vote.state(), vote.state())
    require_equal(
        second_ranker.scores(contexts),
        scores,
        "scores of a vote that was fitted to the same examples",
    )
    copied = copy.deepcopy(vote).ranker(reader, SITES)
    require_equal(copied.scores(contexts), scores, "scores of a copy")


@promise("fitting changes neither a parameter nor the memory, and a clone has nothing fitted")
def fitting_changes_no_parameter(subject: VoteOn, batch: Batch) -> None:
    """Check the rules of scikit-learn's `clone`, and how many examples the vote asks for."""
    vote = clone(subject.vote)
    before = repr(vote.get_params())
    size = vote.sample_size()
    require(
        isinstance(size, int) and size >= 0, f"sample_size() is {size!r}, not a number of examples"
    )
    memory: Any = clone(subject.memory).open(SITES, 1)
    memory.add(examples(batch))
    state = memory.state_bytes()
    vote.fit_to(memory.reader(), examples(batch), SITES, seed=5)
    require(
        repr(vote.get_params()) == before,
        f"the parameters were {before} and are {vote.get_params()}",
    )
    require(memory.state_bytes() == state, "the state of the memory is another one")
    if size == 0:
        require(
            not vote.state(),
            "sample_size() is 0: nothing is to be fitted, but state() is not empty",
        )
    require(not clone(vote).state(), "a clone has a state")


@promise("what was fitted comes back from state by restore")
def what_was_fitted_comes_back(subject: VoteOn, batch: Batch, query_batch: Batch) -> None:
    """Check that `restore` undoes `state`, takes every array, and refuses one that is missing."""
    contexts = queries(query_batch)
    vote, reader, ranker = subject.fit(batch)
    for trusted in (False, True):
        arrays = {f"vote.{name}": array for name, array in vote.state().items()}
        stored = StoredArrays(arrays, trusted=trusted)
        restored = clone(subject.vote)
        restored.restore(stored.part("vote"), SITES)
        stored.finish()
        _require_same_arrays(restored.state(), vote.state())
        scores = restored.ranker(reader, SITES).scores(contexts)
        require_equal(scores, ranker.scores(contexts), "scores of the restored vote")


@promise("the divisor of a weighted sum is positive and finite, one number or one for each label")
def a_divisor_is_positive(subject: VoteOn, batch: Batch) -> None:
    """Check `WeightedSum.divisor`, also for a declared label that has no example."""
    if isinstance(subject.vote, WeightedSum):
        reader = subject.reader(batch)
        divisor = clone(subject.vote).divisor(reader, SITES)
        shape = np.shape(divisor)
        require(shape in ((), (len(reader.labels),)), f"the divisor has the shape {shape}")
        require(
            bool(np.all(np.isfinite(divisor) & (np.asarray(divisor) > 0))),
            f"the divisor is {divisor}",
        )


@promise("a classifier with this vote, and its predictor, come back from files the same")
def a_model_file_comes_back(subject: VoteOn, batch: Batch, query_batch: Batch) -> None:
    """Check `save` and `load`, with the vote as a trusted class."""
    require_saved(
        fit_classifier(KERNEL, clone(subject.memory), clone(subject.vote), batch), query_batch
    )


def _require_same_arrays(arrays: dict[str, Any], expected: dict[str, Any]) -> None:
    require(
        arrays.keys() == expected.keys(),
        f"the state holds {sorted(arrays)}, not {sorted(expected)}",
    )
    for name, array in arrays.items():
        require_equal(array, expected[name], f"the array {name} of the state")
