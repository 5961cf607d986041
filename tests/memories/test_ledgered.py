"""The ledger: what was never learnt cannot be forgotten, whatever the memory beside it can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from hammemo import NO_TOKEN, LayoutError, MemoryClassifier, NotStoredError
from hammemo._arrays.integers import object_array
from hammemo.kernels import SiteKernel
from hammemo.memories import Exact, Gaussian, Hashed, Ledgered
from hammemo.tokens.contexts import Examples
from memory_catalogue import POSITIONS, TOKENS, batches, examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo.memories import Memory

pytestmark = pytest.mark.quick

INNER = [Exact(), Hashed(16, 2), Gaussian(32), Gaussian(32, exact=True)]
every_inner = pytest.mark.parametrize("inner", INNER, ids=str)
SECRET = b"a secret of some length"


@every_inner
def test_the_counterexample(inner: Memory) -> None:
    X, y = [["a", "c"], ["d", "b"]], ["y", "y"]
    plain = MemoryClassifier("positional", memory=inner, vote="sum").fit(X, y)
    plain.forget([["a", "b"]], ["y"])  # no count becomes negative: counts cannot tell
    assert plain.memory_.label_counts.tolist() == [1]
    ledgered = MemoryClassifier("positional", memory=Ledgered(inner), vote="sum").fit(X, y)
    before = ledgered.memory_.state_bytes()
    with pytest.raises(NotStoredError, match=r"1 of 2 examples to be removed is not stored .*row 1 .*Nothing"):
        ledgered.forget([["a", "c"], ["a", "b"]], ["y", "y"])
    assert ledgered.memory_.state_bytes() == before
    part = ledgered.empty_like().partial_fit([["a", "b"]], ["y"])
    with pytest.raises(NotStoredError, match="its ledger holds an example that is not stored here"):
        ledgered.unmerge(part)
    assert ledgered.memory_.state_bytes() == before


@every_inner
@given(batch=batches, queries=batches)
@settings(max_examples=20, deadline=None)
def test_the_inner_memory_is_the_one_without_a_ledger(inner: Memory, batch: Any, queries: Any) -> None:
    plain, ledgered = clone(inner).open(POSITIONS, 4), Ledgered(inner).open(POSITIONS, 4)
    contexts = examples(queries).contexts
    for memory in (plain, ledgered):
        memory.add(examples(batch))
    assert ledgered.memory_.state_bytes() == plain.state_bytes()
    np.testing.assert_array_equal(
        ledgered.reader().scores(contexts, POSITIONS.weights), plain.reader().scores(contexts, POSITIONS.weights)
    )
    stored: dict[Any, int] = {}
    for context, label, count in batch:
        stored[tuple(context), label] = stored.get((tuple(context), label), 0) + count
    held = [stored.get((tuple(context), label), 0) for context, label, _ in queries]
    assert ledgered.holds(examples(queries)).tolist() == held
    assert ledgered.n_examples == sum(stored.values())


tokens = st.sampled_from([*TOKENS, 3, 3.0, np.float32(3), True, np.str_("a")])
odd = st.sampled_from([None, float("nan"), float("inf"), 2**70, b"bytes", (1, 2)])
contexts = st.builds(lambda kept, last: [*kept, last], st.lists(tokens, min_size=2, max_size=2), tokens | odd)
labels = st.sampled_from(["no", "ß", 1, 1.0])
single_examples = st.tuples(contexts, labels) | st.just(([0, 1, 2], NO_TOKEN)) | st.just(([0, 1, 2], None))


def refusal_of(edit: Callable[[], None]) -> str:
    try:
        edit()
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("inner", INNER[:2], ids=str)
@given(
    edits=st.lists(st.tuples(single_examples, st.sampled_from([1, 2, -1, -2])), max_size=8),
    asked=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_one_edit_is_a_batch_of_one(inner: Memory, edits: Any, *, asked: bool) -> None:
    """State, ledger and refusals are those of `update`, whether or not the table is edited in its live form."""
    one, batch = (Ledgered(clone(inner), SECRET).open(POSITIONS, 4) for _ in range(2))
    for memory in (one, batch):
        memory.add(examples([([0, "a", 2], "no", 2), (["ß", NO_TOKEN, 0.5], "ß", 1)]))
    for (context, label), by in [*edits, (([0.0, "a", 2], "no"), -1)]:
        if asked:
            one.reader()
        rows = np.empty((1, 3), object)
        rows[0] = context

        def edit_batch() -> None:
            found = Examples.of(rows, object_array([label]), [abs(by)])  # noqa: B023
            (batch.add if by > 0 else batch.remove)(found)  # noqa: B023

        refused = refusal_of(lambda: one.edited(lambda memory: memory.update_one(context, label, by)))  # noqa: B023
        assert refused == refusal_of(edit_batch)
        assert one._ledger is not None
        assert batch._ledger is not None
        assert one._ledger.counts() == batch._ledger.counts()
        assert one.state_bytes() == batch.state_bytes()


def test_tokens_have_one_identity_and_every_position_counts() -> None:
    memory = Ledgered(Exact()).open(SiteKernel([2]).resolve(3))  # only the last position is compared
    memory.add(Examples.of([[3, "a", 0.5]], [1], [2]))
    same = np.array([[np.float32(3.0), "a", 0.5]], object)
    assert memory.holds(Examples.of(same, [1.0])).tolist() == [2]
    others = [["3", "a", 0.5], [3, "a", "0.5"], ["a", 3, 0.5], [NO_TOKEN, "a", 0.5], [0, "a", 0.5]]
    assert memory.holds(Examples.of(np.array(others, object), [1] * 5)).tolist() == [0] * 5
    assert memory.holds(Examples.of([[3, "a", 0.5]], ["1"])).tolist() == [0]
    memory.remove(Examples.of(same, [1]))
    assert memory.n_examples == 1
    assert memory.holds(Examples.of(same[:0], same[:0, 0])).tolist() == []


def test_no_token_is_kept_and_the_key_is_never_shown() -> None:
    memory = Ledgered(Hashed(8, 0), key=SECRET).open(POSITIONS)
    memory.add(examples([(["ß-token", "a-token", 2], "label", 1)]))
    for shown in (memory.state_bytes(), repr(memory).encode(), repr(memory.layout()).encode()):
        assert SECRET not in shown
        assert b"token" not in shown
    model = MemoryClassifier("positional", memory=Ledgered(Hashed(8, 0, key=SECRET), key=SECRET), vote="sum")
    assert "secret of" not in repr(model)
    assert "secret of" not in model._repr_html_()
    assert repr(model).count("<secret>") == 2
    assert clone(model).memory.key == SECRET
    assert "secret of" not in repr(clone(model).set_params(memory__key=SECRET + b"!"))


def test_digests_depend_on_the_key_or_else_on_the_seed() -> None:
    batch = examples([([0, 1, 2], "yes", 1)])

    def digests(key: bytes | None, seed: int) -> Any:
        memory = Ledgered(Exact(), key).open(POSITIONS, seed)
        memory.add(batch)
        return memory.state()["ledger.digests"].tobytes()

    assert digests(SECRET, 1) == digests(SECRET, 2) != digests(SECRET + b"!", 1)
    assert digests(None, 1) == digests(None, 1) != digests(None, 2)


@pytest.mark.parametrize(
    ("other", "seed", "field"),
    [
        (Ledgered(Hashed(4, 0), SECRET), 1, "key"),
        (Ledgered(Hashed(4, 0)), 2, "seed"),
        (Ledgered(Hashed(5, 0)), 1, "memory.buckets"),
        (Ledgered(Exact()), 1, "memory.memory"),
        (Hashed(4, 0), 1, "memory"),
    ],
)
def test_layouts_that_differ_are_named(other: Memory, seed: int, field: str) -> None:
    with pytest.raises(LayoutError, match=f"; {field} is "):
        Ledgered(Hashed(4, 0)).open(POSITIONS, 1).merge(other.open(POSITIONS, seed))


def test_an_open_inner_layout_is_taken_from_the_other() -> None:
    memory, fresh = Ledgered(Hashed(4, 1)).open(POSITIONS), Ledgered(Hashed(4, 1)).open(POSITIONS)
    memory.add(examples([([0, 1, 2], "yes", 1)]))
    fresh.merge(memory)
    assert fresh.state_bytes() == memory.state_bytes()


def test_certificates_pass_through_where_the_inner_memory_gives_them() -> None:
    X, y = [["a", "b"]] * 5 + [["c", "d"]], ["x"] * 5 + ["y"]
    plain = MemoryClassifier("positional", memory=Hashed(1, 2), vote="sum").fit(X, y)
    ledgered = MemoryClassifier("positional", memory=Ledgered(Hashed(1, 2)), vote="sum").fit(X, y)
    assert ledgered.certify(X).tolist() == plain.certify(X).tolist()
    assert ledgered.certify(X).any()
    weights = ledgered.sites_.weights
    contexts = Examples.of(X, y).contexts
    for mine, theirs in zip(
        ledgered.memory_.reader().bounds(contexts, weights),
        plain.memory_.reader().bounds(contexts, weights),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
    gaussian = MemoryClassifier("positional", memory=Ledgered(Gaussian(16)), vote="sum").fit(X, y)
    with pytest.raises(TypeError, match="memory of this model gives no certificate; Exact"):
        gaussian.certify(X)
    with pytest.raises(TypeError, match="gives no certificate"):
        gaussian.memory_.reader().bounds(contexts, weights)


def test_nested_parameters_clones_and_searches() -> None:
    model = MemoryClassifier("positional", memory=Ledgered(Hashed(8, 2)), vote="sum")
    model.set_params(memory__memory__buckets=32)
    assert model.get_params()["memory__memory__buckets"] == 32
    X = np.random.default_rng(0).integers(0, 4, (60, 3))
    search = GridSearchCV(model, {"memory__memory__buckets": [2, 64], "memory__memory__reserved": [0, 4]}, cv=2)
    assert search.fit(X, X[:, 0]).best_params_["memory__memory__buckets"] in (2, 64)
    fitted = model.fit(X, X[:, 0])
    assert fitted.memory_.memory_.buckets == 32
    assert not hasattr(clone(fitted).memory, "memory_")
    assert isinstance(
        MemoryClassifier("positional", memory=Ledgered(), vote="sum").fit(X, X[:, 0]).memory_.memory_, Hashed
    )


@pytest.mark.parametrize("key", ["a string of sixteen", b"short", b"x" * 65])
def test_what_is_no_key_is_refused(key: Any) -> None:
    with pytest.raises(ValueError, match="secret of 16 to 64 bytes"):
        Ledgered(Exact(), key).open(POSITIONS)


def test_what_is_no_memory_is_refused() -> None:
    with pytest.raises(TypeError, match="is not a memory"):
        Ledgered("Exact").open(POSITIONS)  # type: ignore[arg-type]
