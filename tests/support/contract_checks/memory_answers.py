"""What every memory promises for its answers: those of its reader, and those of its compiled forms.

As in :mod:`contract_checks.memory_states`, a check takes a memory on trial and batches of examples.
The truth is an :class:`~hammemo.memories.Exact` memory that learned the same batches.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from contract_checks.batches import TOKENS, Batch, examples, queries
from contract_checks.promises import promise, require, require_close, require_equal, require_refusal
from contract_checks.subject import (
    ANSWER_ROUNDING,
    SINGLE_ROUNDING,
    Subject,
    must_answer_exactly,
    require_same_answers,
    require_same_bytes,
)
from hammemo._arrays.checked import StoredArrays
from hammemo.memories import Exact
from hammemo.memories.reader import Compiled
from hammemo.memories.row_rules import RowRule
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Reader

RULE_ROUNDING = 1e-3
"""How far a rule's scores may be from its definition: a table may round rows to 16 bits."""


@promise("reading changes nothing")
def reading_changes_nothing(subject: Subject, batch: Batch, query_batch: Batch) -> None:
    """Check that the state and the answers are the same before and after questions."""
    memory = subject.learn(batch)
    contexts = queries(query_batch)
    before = memory.state_bytes()
    first = memory.reader().scores(contexts, subject.sites.weights)
    for compiled in subject.compile_all(memory):
        compiled.scores(contexts, subject.sites.weights)
    require_equal(
        memory.reader().scores(contexts, subject.sites.weights), first, "scores, asked for twice"
    )
    require_same_bytes(memory, before)


@promise("a reader answers after an edit of its memory exactly as before")
def a_reader_does_not_change(subject: Subject, batch: Batch, after: Batch) -> None:
    """Check readers that were asked before the edit, and those that were not, in all forms."""
    contexts = queries([*batch, *after])
    sites = subject.sites
    for is_asked_before in (True, False):
        memory = subject.learn(batch)
        twin = subject.learn(batch)
        readers = list(subject.readers(memory))
        # a reader may keep what it computed for a question: the answers of others come from a twin
        asked_readers = readers if is_asked_before else list(subject.readers(twin))
        expected = [_answer_all(reader, contexts, sites) for reader in asked_readers]
        shard = memory.empty_like()
        shard.add(examples(after))
        memory.add(examples(after))
        memory.merge(shard)
        memory.declare(Vocabulary.of(["maybe"]))
        memory.remove(examples(batch))
        for reader, answers in zip(readers, expected, strict=True):
            for name, new_answer in _answer_all(reader, contexts, sites).items():
                require_equal(new_answer, answers[name], f"{name} of {type(reader).__name__}")


@promise("an edit replaces what it changes, and never changes what other versions hold")
def a_snapshot_does_not_change(subject: Subject, batch: Batch, after: Batch) -> None:
    """Check a snapshot, and the arrays of compiled forms, before and after edits of the memory."""
    memory = subject.learn(batch)
    snapshot = memory.snapshot()
    before = memory.state_bytes()
    forms = [reader for reader in subject.readers(memory) if isinstance(reader, Compiled)]
    arrays_before = [_copy_arrays(form) for form in forms]
    memory.add(examples(after))
    memory.remove(examples(batch))
    require_same_bytes(snapshot, before)
    for form, arrays in zip(forms, arrays_before, strict=True):
        for name, array in form.pack()[0].items():
            require_equal(array, arrays[name], f"{name} of {type(form).__name__}")
    edited = memory.state_bytes()
    snapshot.add(examples(after))
    require_same_bytes(memory, edited)


def _copy_arrays(form: Compiled) -> dict[str, NDArray[Any]]:
    arrays, _ = form.pack()
    return {name: array.copy() for name, array in arrays.items()}


def _answer_all(reader: Reader, contexts: Contexts, sites: Sites) -> dict[str, NDArray[Any]]:
    """Return copies of all that a reader answers."""
    weights = sites.weights
    columns = np.arange(len(reader.labels))
    divisor = np.ones(len(columns))
    answers = {
        "labels": np.array(reader.labels.tolist(), object),
        "label_counts": reader.label_counts,
        "scores": reader.scores(contexts, weights),
        "site_scores": reader.site_scores(contexts, weights, columns).values,
        "winners": reader.winners(contexts, weights, divisor),
        "leaders": reader.leaders(contexts, weights, divisor, 2),
        "seen": reader.has_seen(Vocabulary.of(TOKENS[:-1])),
    }
    if reader.has_bounds:
        answers["low"], answers["high"] = reader.bounds(contexts, weights)
    if reader.has_rows:
        answers["site_counts"] = reader.site_counts(contexts)
    return {name: np.array(array) for name, array in answers.items()}


@promise("a compiled form gives the scores of its memory")
def forms_give_the_memory_s_scores(subject: Subject, batch: Batch, query_batch: Batch) -> None:
    """Check every compiled form against the reader: exactly where scores are sums of counts."""
    memory = subject.learn(batch)
    contexts = queries(query_batch)
    weights = subject.sites.weights
    expected = memory.reader().scores(contexts, weights)
    for compiled in subject.compile_all(memory):
        require(compiled.labels == memory.labels, "the labels differ")
        require_equal(
            compiled.label_counts, memory.label_counts, "the number of examples of each label"
        )
        scores = compiled.scores(contexts, weights)
        require_close(scores, expected, "scores", atol=SINGLE_ROUNDING)
        if must_answer_exactly(subject, memory, expected):
            require_equal(scores, expected, "scores")


@promise("a compiled form that was stored and restored gives the same scores")
def forms_come_back(subject: Subject, batch: Batch, query_batch: Batch) -> None:
    """Check `pack` and `from_packed`."""
    memory = subject.learn(batch)
    contexts = queries(query_batch)
    weights = subject.sites.weights
    memory.declare(Vocabulary.of(["maybe"]))
    for compiled in subject.compile_all(memory):
        arrays, description = compiled.pack()
        for trusted in (False, True):
            stored = StoredArrays(arrays, trusted=trusted)
            restored = type(compiled).from_packed(
                memory.frame(), stored, description, getattr(memory, "key", None)
            )
            stored.finish()
            require_equal(
                restored.scores(contexts, weights), compiled.scores(contexts, weights), "scores"
            )
            require(
                restored.row_width == compiled.row_width,
                f"row_width is {restored.row_width}, not {compiled.row_width}",
            )
            require(
                restored.pack()[0].keys() == arrays.keys(), "it would be stored with other arrays"
            )


@promise("an unknown compiled form is refused, and the error names the known ones")
def an_unknown_form_is_refused(subject: Subject) -> None:
    """Check the error for a form that no memory has."""
    for name in ("nonsense", *subject.forms[:1]):
        require_refusal(ValueError, name, partial(subject.open_memory().compile, "nonsense"))


@promise("scores are linear in the weights of the sites")
def scores_are_linear_in_the_weights(subject: Subject, batch: Batch, query_batch: Batch) -> None:
    """Check that scores are the weighted sum of the scores of single sites."""
    reader = subject.learn(batch).reader()
    contexts = queries(query_batch)
    weights = subject.sites.weights
    units = np.eye(len(weights))
    by_site = [
        weight * reader.scores(contexts, unit) for weight, unit in zip(weights, units, strict=True)
    ]
    scores = reader.scores(contexts, weights)
    expected = np.asarray(sum(by_site))
    atol = SINGLE_ROUNDING if scores.dtype == np.float32 else ANSWER_ROUNDING
    require_close(scores, expected, "scores", atol=atol)


@promise("site_scores are the terms of scores")
def site_scores_are_the_terms_of_the_scores(
    subject: Subject, batch: Batch, query_batch: Batch, seed: int
) -> None:
    """Check their shape and their sum, for some labels in any order."""
    memory = subject.learn(batch)
    contexts = queries(query_batch)
    weights = subject.sites.weights
    rng = np.random.default_rng(seed)
    columns = rng.permutation(len(memory.labels))[: int(rng.integers(1, len(memory.labels) + 1))]
    for reader in subject.readers(memory):
        terms = reader.site_scores(contexts, weights, columns)
        shape = (len(contexts), len(weights), len(columns))
        require(
            terms.values.shape == shape,
            f"site_scores have the shape {terms.values.shape}, not {shape}",
        )
        scores = reader.scores(contexts, weights)[:, columns]
        exactly = must_answer_exactly(subject, memory, scores)
        require_same_answers(
            terms.totals(), scores, f"sums of {type(reader).__name__}", exactly=exactly
        )


@promise("bounds hold the exact counts between them")
def bounds_hold_the_exact_counts(subject: Subject, batch: Batch, query_batch: Batch) -> None:
    """Check bounds of scores and terms against the truth, and the shapes of standard errors."""
    memory = subject.learn(batch)
    contexts = queries(query_batch)
    weights = subject.sites.weights
    truth = subject.learn_exactly(batch).reader()
    columns = np.arange(len(memory.labels))
    expected = truth.site_scores(contexts, weights, columns).values
    for reader in subject.readers(memory):
        terms = reader.site_scores(contexts, weights, columns)
        is_bounded = {terms.low is not None, terms.high is not None, reader.has_bounds}
        require(
            len(is_bounded) == 1,
            f"has_bounds is {reader.has_bounds}, but site_scores say something else",
        )
        if terms.low is not None and terms.high is not None:
            require(
                (terms.low <= expected).all(), "the lower bound of a term is above the exact term"
            )
            require(
                (expected <= terms.high).all(), "the upper bound of a term is below the exact term"
            )
            low, high = reader.bounds(contexts, weights)
            scores = truth.scores(contexts, weights)
            require((low <= scores).all(), "a lower bound is above the exact score")
            require((scores <= high).all(), "an upper bound is below the exact score")
            require_equal(terms.high.sum(axis=1), high, "upper bounds of the terms, added up")
        if terms.errors is not None and terms.total_errors is not None:
            require((terms.errors >= 0).all(), "a standard error is below zero")
            require(
                terms.total_errors.shape == (len(contexts), len(columns)),
                "total_errors have another shape",
            )


@promise("a proven answer is the answer of the exact classifier")
def proofs_are_right(subject: Subject, batch: Batch, query_batch: Batch) -> None:
    """Check `proven` against the winners of exact counts, without and with a divisor."""
    memory = subject.learn(batch)
    contexts = queries(query_batch)
    weights = subject.sites.weights
    truth = subject.learn_exactly(batch).reader()
    for reader in subject.readers(memory):
        for divisor in (np.ones(len(reader.labels)), reader.label_counts.astype(np.float64)):
            if not reader.has_bounds:
                continue
            answers = reader.winners(contexts, weights, divisor)
            proven = reader.proven(contexts, weights, divisor, answers)
            exact = truth.winners(contexts, weights, divisor)
            require_equal(
                answers[proven], exact[proven], f"proven answers of {type(reader).__name__}"
            )


@promise("has_bounds and has_rows say what a reader can do")
def abilities_are_as_declared(subject: Subject, batch: Batch, query_batch: Batch) -> None:
    """Check that what is declared works, and that what is not declared raises TypeError."""
    memory = subject.learn(batch)
    contexts = queries(query_batch)
    weights = subject.sites.weights
    for reader in subject.readers(memory):
        n_labels = len(reader.labels)
        if reader.has_bounds:
            low, high = reader.bounds(contexts, weights)
            require(
                low.shape == high.shape == (len(contexts), n_labels),
                "bounds have another shape than scores",
            )
        else:
            require_refusal(TypeError, "", partial(reader.bounds, contexts, weights))
        rule = _rule(len(weights), n_labels)
        if reader.has_rows:
            _check_rows(reader, contexts, rule)
        else:
            require_refusal(TypeError, "", partial(reader.site_counts, contexts))
            require_refusal(TypeError, "", partial(reader.with_rule, rule))


def _check_rows(reader: Reader, contexts: Contexts, rule: RowRule) -> None:
    counts = reader.site_counts(contexts)
    shape = (len(contexts), len(reader.sites.positions), len(reader.labels))
    require(counts.shape == shape, f"site_counts have the shape {counts.shape}, not {shape}")
    require((counts >= 0).all(), "a row of counts has a negative count")
    ranker = reader.with_rule(rule)
    require_close(
        ranker.scores(contexts), rule.scores(counts), "scores by a rule of rows", atol=RULE_ROUNDING
    )
    columns = np.arange(len(reader.labels))
    totals = ranker.site_scores(contexts, columns).totals()
    require_close(
        totals, rule.scores(counts), "terms by a rule of rows, added up", atol=RULE_ROUNDING
    )


def _rule(n_sites: int, n_labels: int) -> RowRule:
    """Return a rule with two amounts of smoothing and weights that differ."""
    numbers = np.arange(n_sites * 2 * n_labels, dtype=np.float64)
    weights = 1 + numbers.reshape(n_sites, 2, n_labels) % 3
    prior = np.full(n_labels, 1 / n_labels)
    offsets = np.linspace(0.0, 0.5, n_labels)
    return RowRule((1.0, 10.0), weights, prior, offsets)


@promise("winners and leaders are in the order of the scores, equals in the order of the columns")
def winners_are_the_first_of_the_highest(
    subject: Subject, batch: Batch, query_batch: Batch
) -> None:
    """Check the best labels against a stable sort of all scores."""
    memory = subject.learn(batch)
    contexts = queries(query_batch)
    weights = subject.sites.weights
    for reader in subject.readers(memory):
        all_weights = np.full(len(reader.labels), weights.sum())
        label_counts = reader.label_counts.astype(np.float64)
        for divisor in (all_weights, label_counts):
            order = np.argsort(-(reader.scores(contexts, weights) / divisor), axis=1, kind="stable")
            name = type(reader).__name__
            require_equal(
                reader.winners(contexts, weights, divisor), order[:, 0], f"winners of {name}"
            )
            for k in (1, 2, 9):
                leaders = reader.leaders(contexts, weights, divisor, k)
                require_equal(leaders, order[:, :k], f"the {k} leaders of {name}")
            _check_single(reader, query_batch, weights, divisor)


def _check_single(
    reader: Reader, query_batch: Batch, weights: NDArray[np.float64], divisor: NDArray[np.float64]
) -> None:
    """Check that single contexts have the winners of the batch, or -1, which leaves them open."""
    single = reader.single(weights, divisor)
    if single is None:
        return
    winners = reader.winners(queries(query_batch), weights, divisor).tolist()
    for (tokens, _, _), winner in zip(query_batch, winners, strict=True):
        require(
            single(tokens) in (-1, winner),
            f"single({tokens!r}) is {single(tokens)}, but the winner is {winner}",
        )


@promise("what is said to be seen was stored, and what is said to be unseen was not")
def has_seen_is_true(subject: Subject, batch: Batch, removed: Batch) -> None:
    """Check `has_seen` after a removal; -1, which says nothing, is always right."""
    memory = subject.learn(batch, removed)
    memory.remove(examples(removed))
    tokens = Vocabulary.of([*TOKENS, "never", 99])
    stored_tokens = set()
    for context, _, _ in batch:
        for site in subject.sites.positions:
            site_tokens = [context[r] for r in site]
            if TOKENS[-1] not in site_tokens:  # a site with an empty position is not stored
                stored_tokens.update(site_tokens)
    truth = np.array([token in stored_tokens for token in tokens], np.int8)
    for reader in subject.readers(memory):
        answers = reader.has_seen(tokens)
        require_equal(
            answers[answers >= 0],
            truth[answers >= 0],
            f"what {type(reader).__name__} says of {list(tokens)}",
        )
    if isinstance(memory, Exact):
        for reader in (memory.reader(), memory.compile()):
            require((reader.has_seen(tokens) >= 0).all(), "exact counts say that they cannot tell")


@promise("a token that was never stored is not an error")
def an_unseen_token_is_not_an_error(subject: Subject) -> None:
    """Check a question that is all new."""
    h = subject.sites.h
    memory = subject.learn([(([0, 1, 2] * h)[:h], "yes", 1)])
    unseen = Contexts.of([(["never", 99, 0.25] * h)[:h]])
    for reader in subject.readers(memory):
        shape = reader.scores(unseen, subject.sites.weights).shape
        require(shape == (1, 1), f"scores have the shape {shape}, not (1, 1)")
