"""Streams: however they are cut, their examples are those of `windows`, and memories learn the same from both."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN, MemoryClassifier, windows
from hammemo.kernels import SiteKernel
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.tokens.contexts import Examples
from hammemo.tokens.stream_blocks import Block, stream_blocks
from hammemo.tokens.vocabulary import Vocabulary, as_token
from hammemo.tokens.window_samples import WindowSample

if TYPE_CHECKING:
    from collections.abc import Iterator

randomly = settings(max_examples=100, deadline=None)
integer_documents = st.lists(st.lists(st.integers(-3, 70_000) | st.integers(0, 4), max_size=12), max_size=8)
mixed_documents = st.lists(st.lists(st.sampled_from([0, 1, 0.5, "a", "b", "ß"]), max_size=12), max_size=8)
cuts = st.integers(1, 30)


def sorted_examples(X: Any, y: Any) -> list[str]:
    return sorted(repr((list(row), label)) for row, label in zip(X.tolist(), y.tolist(), strict=True))


def streamed(blocks: Iterator[Any], h: int) -> list[str]:
    return sorted(
        repr((block.tokens[place - h : place].tolist(), block.tokens.tolist()[place]))
        for block in blocks
        for place in block.targets().tolist()
    )


@given(
    docs=integer_documents | mixed_documents, h=st.integers(1, 4), block=cuts, short=st.sampled_from(["drop", "pad"])
)
@randomly
def test_blocks_hold_the_windows_of_every_document_once(docs: Any, h: int, block: int, short: Any) -> None:
    expected = sorted_examples(*windows(docs, h, short))
    assert streamed(stream_blocks(iter(docs), h, short=short, block_tokens=block), h) == expected


@given(docs=integer_documents, h=st.integers(1, 4), block=cuts, short=st.sampled_from(["drop", "pad"]))
@randomly
def test_a_flat_array_with_starts_is_the_same_stream(docs: Any, h: int, block: int, short: Any) -> None:
    flat = np.array([token for doc in docs for token in doc], np.int64)
    starts = np.cumsum([0, *map(len, docs)])[:-1]
    expected = sorted_examples(*windows(docs, h, short))
    assert streamed(stream_blocks(flat, h, starts, short, block_tokens=block), h) == expected


@pytest.mark.examples(8)
@pytest.mark.parametrize("in_loops", [True, False])
@pytest.mark.parametrize("memory", [Exact(), Hashed(5, 3), Hashed(5, 0, b"a secret of some length"), Gaussian(16)])
@pytest.mark.parametrize("kernel", [None, SiteKernel([-1, (-2, -1), 0])])
@given(docs=integer_documents | mixed_documents, chosen=st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_stream_teaches_what_its_windows_teach(
    memory: Any, kernel: Any, in_loops: bool, docs: Any, chosen: bool
) -> None:
    docs = [[1, 2, 3, 4], *docs]
    X, y = windows(docs, 2)
    if y.dtype == object and (chosen or not all(isinstance(label, str) for label in y.tolist())):
        return  # scikit-learn takes no objects but strings for labels
    classes = [1, 3] if chosen else None
    kept = np.isin(y, classes) if classes else np.ones(len(y), bool)
    with pytest.MonkeyPatch.context() as patch:
        if not in_loops:  # as for more sites than the loops take
            patch.setattr("hammemo.memories.hashed.layout._MAX_SITES", 0)
        stream = MemoryClassifier(kernel, memory, vote="sum").fit_stream(docs, 2, classes=classes)
    plain = MemoryClassifier(kernel, memory, vote="sum").partial_fit(X[kept], y[kept], classes=classes, layout=stream)
    for name, array in plain.memory_.state().items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(stream.memory_.state()[name], array, atol=1e-12)
        else:
            np.testing.assert_array_equal(stream.memory_.state()[name], array)
    assert stream.classes_.dtype == plain.classes_.dtype


def test_the_extra_memory_does_not_grow_with_the_stream() -> None:
    def peak(n: int) -> int:
        stream = (np.arange(n, dtype=np.int64) * 7919) % 5003
        clf = MemoryClassifier(memory=Hashed(64, 16), vote="sum")
        tracemalloc.start()
        clf.fit_stream(stream, 8, classes=list(range(10)))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(3_000_000) < 1.2 * peak(1_000_000)


def test_later_streams_add_to_the_first() -> None:
    first, second = [[1, 2, 3, 1, 2, 4]], [[1, 2, 4, 9]]
    both = MemoryClassifier(memory="hashed", vote="sum").fit_stream(first, 2)
    both.partial_fit_stream(second, 2)
    X, y = windows([*first, *second], 2)
    once = MemoryClassifier(memory="hashed", vote="sum").partial_fit(X, y, layout=both)
    assert both.memory_.state_bytes() == once.memory_.state_bytes()
    assert both.fit_stream(second, 2).memory_.label_counts.sum() == 2
    with pytest.raises(ValueError, match="contexts of 2 tokens; h=3"):
        both.partial_fit_stream(first, 3)


def test_a_place_without_a_token_is_no_target() -> None:
    stream = np.array([1, 2, NO_TOKEN, 3, 1])
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit_stream(stream, 2)
    assert clf.classes_.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a text", 2), "one str"),
        ((np.arange(5), 0), "h=0"),
        ((np.arange(5), 2, [0, 9]), "the stream has 5 tokens"),
        ((np.arange(5), 2, [0.5]), "whole numbers"),
        (([[1, 2]], 2, [0]), "documents in an iterable have boundaries"),
    ],
)
def test_mistakes_are_named(arguments: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        list(stream_blocks(*arguments))


def test_a_stream_too_short_to_learn_from_is_refused() -> None:
    with pytest.raises(ValueError, match="more than h=8 tokens"):
        MemoryClassifier(memory="hashed", vote="sum").fit_stream(np.arange(5), 8)


def test_only_keeps_the_examples_of_the_labels_named() -> None:
    batch = Examples.of([[1, 2], [3, 4], [5, 6]], ["x", "y", "x"], [1, 2, 3])
    kept = batch.only(Examples.of([[1]], ["x"]).labels)
    assert (len(kept), list(kept.labels), kept.multiplicity.tolist()) == (2, ["x"], [1, 3])


@pytest.mark.parametrize(
    ("stream", "message"),
    [([["a", 1, "b", 2]], "scikit-learn cannot mix"), (np.array([0.5, 1.5, 0.5, 2.25]), "continuous")],
)
def test_labels_that_fit_refuses_are_refused_in_a_stream(stream: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryClassifier(memory="hashed", vote="sum").fit_stream(stream, 1)


@pytest.mark.parametrize("documents", [[[1.0, 2]], [[1.0]], [[True]], [[1]]], ids=str)
def test_a_later_stream_has_labels_of_the_same_kind(documents: Any) -> None:
    """A document that is padded is an array of objects where it has floats: their values count, not the array."""
    words = MemoryClassifier(vote="sum").fit_stream([["a", "b"]], h=1, short="pad")
    with pytest.raises(ValueError, match="cannot mix"):
        words.partial_fit_stream(documents)
    assert words.classes_.tolist() == ["a", "b"]
    numbers = MemoryClassifier(vote="sum").fit_stream([[1, 2]], h=1, short="pad")
    assert numbers.partial_fit_stream(documents).classes_.tolist() == [1, 2]


@given(docs=integer_documents | mixed_documents, h=st.integers(1, 3), block=cuts, most=st.integers(1, 90))
@randomly
def test_a_sample_holds_windows_of_the_stream_in_order(docs: Any, h: int, block: int, most: int) -> None:
    X, y = windows(docs, h)
    rows = [
        ([as_token(token) for token in row], as_token(label)) for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    some = list(dict.fromkeys(label for _, label in rows[::2]))
    for chosen in (None, Vocabulary.of(some)):
        sample = WindowSample(most, 0, chosen)
        passed = streamed(sample.through(stream_blocks(iter(docs), h, block_tokens=block)), h)
        assert passed == sorted_examples(X, y)
        expected = [repr(row) for row in rows if chosen is None or row[1] in some]
        assert len(sample) == min(most, len(expected))
        if not len(sample):
            continue
        examples = sample.examples()
        tokens, labels = examples.contexts.vocabulary.tolist(), examples.labels.tolist()
        held = [
            repr(([tokens[rank] for rank in ranks], labels[label]))
            for ranks, label in zip(examples.contexts.ranks.tolist(), examples.label_ranks.tolist(), strict=True)
        ]
        left = iter(expected)
        assert all(window in left for window in held)  # a subsequence


def test_every_window_is_as_likely_to_be_in_a_sample() -> None:
    """Each of 12 windows is kept by 4 of 12, over 2,000 seeds: binomial with deviation 21.1.

    A count six deviations off, among 12, has a false-alarm rate below 3e-8.
    """
    kept = np.zeros(12)
    for seed in range(2000):
        sample = WindowSample(4, seed)
        list(sample.through(stream_blocks([list(range(13))], 1, block_tokens=5)))
        kept[np.array(sample.examples().labels.tolist(), np.int64) - 1] += 1
    assert kept.sum() == 8000
    assert np.abs(kept - 2000 / 3).max() < 6 * 21.1


@given(pieces=st.lists(st.lists(st.sampled_from([1, 2, NO_TOKEN]), max_size=6), min_size=1), h=st.integers(1, 20))
def test_targets_are_all_tokens_after_the_first_h_of_their_piece(pieces: list[list[int]], h: int) -> None:
    """With more pieces than h, and with fewer: two ways to find them."""
    starts = np.cumsum([0, *map(len, pieces[:-1])])
    wanted = [
        start + i
        for start, piece in zip(starts.tolist(), pieces, strict=True)
        for i, token in enumerate(piece)
        if i >= h and token != NO_TOKEN
    ]
    tokens = np.array([token for piece in pieces for token in piece], np.int64)
    assert Block(tokens, starts, h).targets().tolist() == wanted
