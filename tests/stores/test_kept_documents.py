"""Kept documents: the same whatever the blocks, additive, bounded; what streams choose by them; labels left out."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN, MemoryClassifier, NotStoredError, load, save, windows
from hammemo._arrays.checked import StoredArrays
from hammemo.edits.editing import take_state
from hammemo.files.contents import file_pieces
from hammemo.kernels import Bag, Suffixes
from hammemo.memories import Exact, Hashed
from hammemo.stores import Digests
from hammemo.stores import documents as documents_module
from hammemo.stores.documents import NO_CASE, PIECE, DocumentCutter, Way
from hammemo.stores.kept import THRESHOLDS
from hammemo.stores.kept_documents import Keeper, KeptDocuments
from hammemo.tokens.contexts import Examples
from hammemo.tokens.stream_blocks import stream_blocks
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes import LogLinear, Mixture

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = st.lists(st.lists(st.integers(0, 4), max_size=30), max_size=8)
EMPTY = KeptDocuments(h=2, seed=3, most=10**6)


def cut(tokens: Any, h: int, way: Way, **options: Any) -> list[tuple[Any, ...]]:
    """Return the documents that a cutter puts together, as keys."""
    cutter, found = DocumentCutter(h, way, 3), []
    for block in stream_blocks(tokens, h, short=way.short, pad=way.pad, **options):
        found += [key for documents in cutter.cut(block) for key in documents.as_keys()]
    return [*found, *(key for documents in cutter.finish() for key in documents.as_keys())]


def with_some(kept: KeptDocuments, tokens: Any, sign: int = 1, way: Way | None = None, size: int = 2**18) -> Any:
    """Return what is kept after documents were learnt or forgotten."""
    way = Way("pad") if way is None else way
    keeper = Keeper(kept, way, sign)
    for _ in keeper.through(stream_blocks(tokens, kept.h, None, way.short, pad=way.pad, block_tokens=size)):
        pass
    return keeper.store


def packed(kept: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in kept.pack().items()}


def rows_of(examples: Examples) -> Counter[tuple[Any, ...]]:
    """Return how often each example occurs."""
    tokens, labels = [*examples.contexts.vocabulary.tolist(), NO_TOKEN], examples.labels.tolist()
    found: Counter[tuple[Any, ...]] = Counter()
    for i, context in enumerate(examples.contexts.ranks.tolist()):
        row = *(tokens[rank] for rank in context), labels[int(examples.label_ranks[i])]
        found[row] += int(examples.multiplicity[i])
    return found


WAYS = [
    Way("drop"),
    Way("pad"),
    Way("pad", 9),
    Way("pad", "(start)"),
    Way("drop", None, (0, 3)),
    Way("pad", None, (1,)),
]


@given(documents=DOCUMENTS, h=st.integers(1, 4), size=st.integers(1, 40), way=st.sampled_from(WAYS))
@settings(max_examples=150)
def test_documents_do_not_depend_on_blocks(documents: list[list[int]], h: int, size: int, way: Way) -> None:
    expected = [(way, NO_CASE, *document) for document in documents if len(document) > way.n_context(h)]
    assert sorted(cut(documents, h, way, block_tokens=size)) == sorted(expected)
    flat = np.array([token for document in documents for token in document], np.int64)
    starts = np.cumsum([0, *map(len, documents)])[:-1]
    assert sorted(cut(flat, h, way, starts=starts, block_tokens=size)) == sorted(expected)


@given(documents=DOCUMENTS, h=st.integers(1, 4), size=st.integers(1, 40), way=st.sampled_from(WAYS))
@settings(max_examples=150)
def test_kept_documents_have_the_windows_that_were_learnt(
    documents: list[list[int]], h: int, size: int, way: Way
) -> None:
    kept = with_some(KeptDocuments(h, 3, 10**6), documents, way=way, size=size)
    if not len(kept):
        return
    X, y = windows(documents, h, short=way.short, pad=way.pad)  # type: ignore[arg-type]
    learnt = Examples.of(X, y)
    if way.classes is not None:
        learnt = learnt.only(Vocabulary.of(way.classes))
    found: Counter[Any] = Counter()
    for batch in kept.batches():
        found += rows_of(batch)
    assert found == rows_of(learnt)


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=60), st.integers(1, 60), st.booleans())
@settings(max_examples=60)
def test_what_is_kept_depends_on_what_is_stored_only(
    edits: list[tuple[int, bool]], most: int, equal_hashes: bool
) -> None:
    documents = [[k, k + 1, *range(k % 5)] for k in range(31)]
    with pytest.MonkeyPatch.context() as patch:
        if equal_hashes:
            patch.setattr(documents_module, "_hash_places", lambda hashes, places, seed: np.zeros_like(hashes))
        kept: Any = EMPTY
        stored: Counter[int] = Counter()
        for k, forget in edits:
            if forget and stored[k]:
                stored[k] -= 1
                kept = with_some(kept, [documents[k]], -1)
            elif not forget:
                stored[k] += 1
                kept = with_some(kept, [documents[k]])
        fresh = with_some(EMPTY, [documents[k] for k in stored.elements()])
        assert packed(kept) == packed(fresh) == packed(EMPTY.unpack(kept.pack()))
        assert packed(pickle.loads(pickle.dumps(kept))) == packed(fresh)  # noqa: S301  (our own bytes)
        assert len(kept) == sum(times > 0 for times in stored.values())
        small = with_some(KeptDocuments(h=2, seed=3, most=most), [documents[k] for k in stored.elements()]).base
        held = small.held
        assert len(held.codes) <= most or small.threshold == min(t for t in THRESHOLDS if t > int(held.words[0]))
        assert packed(small)["codes"] == packed(kept.below(small.threshold))["codes"]


@pytest.mark.parametrize("way", [Way("drop"), Way("pad"), Way("pad", "(start)")])
@pytest.mark.parametrize("block", [100, 5000, 2**18])
def test_a_document_above_an_eighth_is_not_kept_and_counted(
    way: Way, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "MOST_TOKENS", 8 * 2000)
    long = [token % 97 for token in range(3 * PIECE + 7)]
    kept = with_some(EMPTY, [[1, 2, 3], long, [4, 5, 6]], way=way, size=block)
    assert not kept.holds_all
    assert sum(kept.long.counts().values()) == 1
    assert sum(len(batch) for batch in kept.batches()) == len(long) + 6 - 3 * way.n_context(2)  # pieces for the vote
    assert kept.base.held.lengths.max() <= PIECE + 2
    assert packed(kept) == packed(EMPTY.unpack(kept.pack()))
    with pytest.raises(NotStoredError):
        with_some(kept, [long[:-1]], -1, way=way)
    rest = with_some(kept, [long], -1, way=way, size=700)
    assert packed(rest) == packed(with_some(EMPTY, [[1, 2, 3], [4, 5, 6]], way=way))
    assert rest.holds_all


def test_damaged_documents_are_refused() -> None:
    kept = with_some(EMPTY, [[1, 2, 3], [4, 5]], way=Way("pad", 9)).edit(Examples.of([[1, 2]], [7]), 1)
    arrays = kept.state()
    assert packed(EMPTY.restore(StoredArrays(arrays))) == packed(kept)
    text = arrays["ways"].tobytes()
    damaged = [
        {"ways": np.frombuffer(text.replace(b'"pad"', b'"bad"'), np.uint8)},
        {"ways": np.frombuffer(text[:-1], np.uint8)},
        {"ways": np.frombuffer(b"[" * 100_000, np.uint8)},
        {"lengths": arrays["lengths"] + np.uint8(1)},
        {"long_words": np.array([5, 3], np.uint64), "long_counts": np.array([1, 1], np.uint8)},
    ]
    for change in damaged:
        with pytest.raises(ValueError, match=r"it|the"):
            EMPTY.restore(StoredArrays({**arrays, **change}))
    with pytest.raises(ValueError, match="above the threshold"):
        KeptDocuments(h=2, seed=3, most=10**6, threshold=1).restore(StoredArrays(arrays))


def test_never_kept_is_refused() -> None:
    with pytest.raises(NotStoredError, match="not learnt in this form"):
        with_some(with_some(EMPTY, [["a", "b"]]), [["a", "c"]], -1)


def file_of(model: MemoryClassifier) -> bytes:
    return b"".join(bytes(piece) for piece in file_pieces(model.snapshot(), None))


@pytest.mark.filterwarnings("ignore:The two models have different fitted weights")
def test_a_model_of_documents_is_a_function_of_the_documents() -> None:
    """Random histories are in ``python benchmarks/rows.py``; here the choice changes with what is forgotten."""
    rng = np.random.default_rng(0)
    few, many = rng.integers(0, 20, (100, 8)).tolist(), rng.integers(0, 400, (300, 8)).tolist()
    clf = MemoryClassifier().fit_stream(few + many, h=3, short="pad")
    assert isinstance(clf.vote_, Mixture)
    clf.forget_stream(many).refit()
    assert isinstance(clf.vote_, LogLinear)
    assert file_of(clf) == file_of(MemoryClassifier().fit_stream(few[::-1], h=3, short="pad"))
    other = MemoryClassifier().fit_stream(many, h=3, short="pad")
    assert file_of((clf + other).refit()) == file_of(MemoryClassifier().fit_stream(many + few, h=3, short="pad"))
    assert file_of((clf + other - clf).refit()) == file_of(other)
    clf.partial_fit_stream(few, short="drop").forget_stream(few, short="pad")
    assert clf.cutting_ is None  # until refit
    assert file_of(clf.refit()) == file_of(MemoryClassifier().fit_stream(few, h=3))
    nothing = MemoryClassifier().open(3)
    take_state(nothing, nothing.state.with_changes(target_dtype=clf.label_dtype_))  # declared
    assert file_of(clf.forget_stream(few).refit()) == file_of(nothing)
    assert file_of((nothing + other).refit()) == file_of(other)


def test_windows_of_documents_are_not_forgotten_one_by_one() -> None:
    clf = MemoryClassifier().fit_stream([[1, 2, 3, 4], [2, 3, 4, 5]] * 30, h=2, short="pad")
    before = file_of(clf)
    with pytest.raises(NotStoredError, match="forget_stream"):
        clf.forget([[2, 3]], [4])
    with pytest.raises(NotStoredError, match="forget_stream"):
        clf.forget_one([2, 3], 4)
    assert file_of(clf) == before
    clf.learn_one([2, 3], 4).partial_fit([[7, 8]], [4]).forget([[2, 3]], [4]).forget_one([7, 8], 4)  # learnt as rows
    assert file_of(clf.refit()) == before


@pytest.mark.filterwarnings("ignore:The two models have different fitted weights")
def test_models_of_rows_and_of_documents_merge() -> None:
    documents = np.random.default_rng(1).integers(0, 4, (60, 6)).tolist()
    X, y = windows(documents[:30], h=2)
    rows = MemoryClassifier("positional").fit(X, y)
    stream = MemoryClassifier("positional").fit_stream(documents[30:], h=2)
    assert file_of((rows + stream).refit()) == file_of(MemoryClassifier("positional").fit(*windows(documents, h=2)))
    both = (stream + rows).forget(X[:5], y[:5]).refit()
    assert int(both.memory_.label_counts.sum()) == 60 * 4 - 5
    assert file_of((both - stream).refit().forget(X[5:], y[5:]).refit())


def test_streams_settle_by_their_labels_and_the_length_of_documents() -> None:
    rng = np.random.default_rng(0)
    few = MemoryClassifier().fit_stream(rng.integers(0, 20, (200, 8)).tolist(), h=4)
    assert isinstance(few.vote_, LogLinear)
    sessions = rng.integers(0, 400, (400, 8)).tolist()
    many = MemoryClassifier().fit_stream(sessions, h=4, short="pad")
    assert isinstance(many.vote_, Mixture)
    assert [site.kind for site in many.sites_.free] == ["bag", "together", "copy"]
    shown = str(many.report())
    assert "histories of items" in shown
    assert "bag of 4, together of 4, copy of 4" in shown
    assert "documents: all are kept in plain text (400 distinct ones)" in shown
    text = MemoryClassifier().fit_stream(rng.integers(0, 400, 4000), h=4)
    assert [site.kind for site in text.sites_.free] == ["recent"]
    assert isinstance(MemoryClassifier(memory=Hashed()).fit_stream(sessions, h=4).vote_, LogLinear)
    given_vote = MemoryClassifier(vote="sum").fit_stream(sessions, h=4)
    assert not given_vote.sites_.free
    shard = MemoryClassifier().partial_fit_stream(sessions[:9], h=4, short="pad", layout=many)
    assert (many + shard).memory_.label_counts.sum() == 409 * 8


def test_labels_that_are_left_out() -> None:
    sessions = np.random.default_rng(1).integers(0, 30, (100, 6)).tolist()
    clf = MemoryClassifier(Suffixes(2), Exact(), Mixture()).fit_stream(sessions, h=3, short="pad")
    X = np.array([session[:3] for session in sessions[:20]])
    best = clf.top_k(X, k=30)
    unseen = clf.top_k(X, k=5, exclude="seen")
    banned = clf.top_k(X, k=5, exclude=[3, 7, 99])
    for row, order, first, second in zip(X.tolist(), best.tolist(), unseen.tolist(), banned.tolist(), strict=True):
        assert first == [label for label in order if label not in row][:5]
        assert second == [label for label in order if label not in (3, 7)][:5]
    with pytest.raises(ValueError, match="exclude='bought'"):
        clf.top_k(X, exclude="bought")
    assert clf.top_k(X, k=50, exclude=list(range(29))).shape == (20, 1)


VISITS = [["tea", "cup", "pot"], ["pen", "ink"], ["tea", "pot"]]


@pytest.mark.parametrize(
    "never",
    [
        [["tea", "cup"]],
        [["tea"]],
        [["cup", "pot"]],
        [["tea", "pot"]] * 4,
        [["pen", "ink"], ["tea"]],
        [VISITS[1] + VISITS[2]],
    ],
    ids=str,
)
def test_a_document_that_was_not_learnt_whole_is_refused(never: list[list[str]]) -> None:
    shop = MemoryClassifier(Suffixes(1) + Bag(3), vote=Mixture()).fit_stream(VISITS * 3, h=3, short="pad")
    before, kept = shop.memory_.state_bytes(), shop.state.store
    with pytest.raises(NotStoredError):
        shop.forget_stream(never)
    assert shop.memory_.state_bytes() == before
    assert shop.state.store is kept
    assert shop.forget_stream(VISITS * 3).refit().memory_.label_counts.sum() == 0


BITS = [[True, False, True, True], [False, True, False]] * 30


@pytest.mark.parametrize("kind", [np.array, list, lambda bits: np.array(bits, object)], ids=["NumPy", "list", "object"])
def test_truth_values_in_streams_are_the_whole_numbers_that_they_are_in_tables(kind: Any, tmp_path: Path) -> None:
    clf = MemoryClassifier(Suffixes(1), vote=Mixture()).fit_stream([kind(bits) for bits in BITS], h=1)
    numbers = MemoryClassifier(Suffixes(1), vote=Mixture()).fit_stream([list(map(int, bits)) for bits in BITS], h=1)
    assert packed(clf.state.store) == packed(numbers.state.store)
    assert clf.memory_.state_bytes() == numbers.memory_.state_bytes()
    save(clf, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.predict([[True], [False]]).tolist() == clf.predict([[1], [0]]).tolist() == [False, True]
    assert loaded.forget_stream([[1, 0, 1, 1]]).memory_.label_counts.sum() == clf.memory_.label_counts.sum() - 3
    clf.learn_one([True], False).forget_one([1], 0)
    assert clf.memory_.state_bytes() == numbers.memory_.state_bytes()


@pytest.mark.parametrize("keep", [40, Digests(40)], ids=repr)
def test_part_of_a_document_beyond_the_sample_is_forgotten_with_a_warning(keep: Any) -> None:
    documents = [[f"{k}-{place}" for place in range(4)] for k in range(100)]  # no token twice
    clf = MemoryClassifier(Suffixes(1), Exact(), Mixture(), keep=keep).fit_stream(documents, h=2, short="pad")
    assert clf.state.documents is not None
    held = {key[2:] for key in clf.state.documents.base.held.as_keys()}
    kept, beyond = ([d for d in documents if (tuple(d) in held) == low] for low in (True, False))
    assert kept
    clf.forget_stream(kept[:1])  # whole, and kept: no warning
    before = clf.memory_.label_counts.sum()
    with pytest.warns(UserWarning, match="cannot tell whether each was learnt as a whole"):
        clf.forget_stream([beyond[0][:2]])  # its two windows were learnt
    assert clf.memory_.label_counts.sum() == before - 2
    for never in ([beyond[0]], [beyond[1][1:]], [["new"]]):  # windows that are not stored
        with pytest.raises(NotStoredError):
            clf.forget_stream(never)
    assert clf.memory_.label_counts.sum() == before - 2


def test_long_documents_that_hardly_repeat_a_token_are_histories_of_items() -> None:
    rng = np.random.default_rng(0)
    films = [rng.permutation(600)[:100].tolist() for _ in range(12)]
    text = [rng.integers(0, 600, 100).tolist() for _ in range(12)]
    kernels = []
    for documents in (films, text):
        clf = MemoryClassifier(random_state=0).fit_stream(documents, h=4, short="pad")
        kernels.append([site.kind for site in clf.sites_.free])
        fresh = MemoryClassifier(random_state=0).fit_stream(documents[1:], h=4, short="pad")
        assert clf.forget_stream(documents[:1]).refit().digest() == fresh.digest()
    assert kernels == [["bag", "together", "copy"], ["recent"]]
    pieces = MemoryClassifier(random_state=0)
    for document in films:
        pieces.partial_fit_stream([document], h=4, short="pad")
    assert [site.kind for site in pieces.refit().sites_.free] == kernels[0]
