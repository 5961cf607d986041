"""The additive state as an algebra: models add and subtract, and whatever the way, equal multisets are equal states.

Each property runs on every memory of the catalogue: a few cases in CI, thousands with ``-m slow`` (21,600 histories and
10,200 forgotten subsets in all).
"""

from __future__ import annotations

import copy
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from hammemo import LayoutError, MeMoClassifier, MemoryClassifier, NotStoredError
from hammemo.kernels import PositionalHamming
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.memories.gaussian.codes import CODE_BITS, GaussianCodes, step_exponent
from hammemo.memories.gaussian.memory import EXACT_EXAMPLES
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary
from memory_catalogue import MEMORIES, POSITIONS, TOKENS, TUPLES, Entry, batches, examples

if TYPE_CHECKING:
    from hammemo.memories import Memory

every_memory = pytest.mark.parametrize("entry", MEMORIES, ids=str)
QUICK = settings(max_examples=8, deadline=None)
HISTORIES = settings(max_examples=1_800, deadline=None)
SUBSETS = settings(max_examples=850, deadline=None)
FLOAT_ERROR = 1e-5
"""The error that a float memory may have, relative to its largest number."""

QUERIES = Contexts.of(np.array([[a, b, c] for a in TOKENS[:4] for b in ("a", 1) for c in (2, "ß")], object))

Row = tuple[tuple[Any, ...], str]


def as_examples(rows: Counter[Row]) -> Examples:
    return examples([(list(context), label, count) for (context, label), count in rows.items()])


def learnt(memory: Memory, rows: Counter[Row]) -> Memory:
    if rows:
        memory.add(as_examples(rows))
    return memory


def counted(batch: list[tuple[list[Any], str, int]]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for context, label, count in batch:
        rows[tuple(context), label] += count
    return rows


def drawn(random: Random, rows: Counter[Row]) -> Counter[Row]:
    """Return a random part of a multiset."""
    return +Counter({row: random.randint(0, count) for row, count in rows.items()})


def assert_same(entry: Entry, memory: Memory, expected: Memory) -> None:
    """To the byte for integers; for floats within the stated error, no label changed where the margin exceeds it."""
    if entry.integer:
        assert memory.state_bytes() == expected.state_bytes()
        return
    state, fresh = memory.state(), expected.state()
    assert state.keys() == fresh.keys()
    for name, array in fresh.items():
        if array.dtype.kind == "f" and name.endswith("C"):
            np.testing.assert_allclose(state[name], array, rtol=0, atol=FLOAT_ERROR * max(np.abs(array).max(), 1e-3))
        else:
            np.testing.assert_array_equal(state[name], array)
    if len(memory.labels) < 2:
        return
    scores, wanted = (m.reader().scores(QUERIES, m.sites.weights) for m in (memory, expected))
    error = FLOAT_ERROR * np.abs(wanted).max()
    assert np.abs(scores - wanted).max() <= error
    best = np.sort(wanted, axis=1)[:, -2:]
    clear = best[:, 1] - best[:, 0] > 2 * error
    assert (scores.argmax(axis=1) == wanted.argmax(axis=1))[clear].all()


class History:
    """Shards that learn, forget, take each other in and give each other back, and what each of them should hold."""

    def __init__(self, entry: Entry, sites: Any, n_shards: int, random: Random) -> None:
        self.random = random
        self.origin = entry.open_memory(sites)
        self.shards = [self.origin.empty_like() for _ in range(n_shards)]
        self.held: list[Counter[Row]] = [Counter() for _ in range(n_shards)]

    def learn(self, rows: Counter[Row]) -> None:
        i = self.random.randrange(len(self.shards))
        learnt(self.shards[i], rows)
        self.held[i] += rows

    def forget(self) -> None:
        i = self.random.randrange(len(self.shards))
        gone = drawn(self.random, self.held[i])
        if gone:
            self.shards[i].remove(as_examples(gone))
            self.held[i] -= gone

    def take_in(self) -> None:
        """One shard takes in another, which starts again."""
        i, j = self.random.randrange(len(self.shards)), self.random.randrange(len(self.shards))
        if i != j:
            self.shards[i].merge(self.shards[j])
            self.held[i] += self.held[j]
            self.shards[j], self.held[j] = self.origin.empty_like(), Counter()

    def give_back(self) -> None:
        """A part of a shard leaves it, as a model that other shards may take in."""
        i, j = self.random.randrange(len(self.shards)), self.random.randrange(len(self.shards))
        part = drawn(self.random, self.held[i])
        leaving = learnt(self.origin.empty_like(), part)
        self.shards[i].unmerge(leaving)
        self.shards[j].merge(leaving)
        self.held[i] -= part
        self.held[j] += part

    def sum(self) -> tuple[Memory, Counter[Row]]:
        order = self.random.sample(range(len(self.shards)), len(self.shards))
        total, rows = self.origin.empty_like(), Counter[Row]()
        for i in order:
            total.merge(self.shards[i])
            rows += self.held[i]
        return total, rows


def check_history(entry: Entry, batch: list[Any], n_shards: int, tuples: bool, seed: int) -> None:
    random = Random(seed)
    history = History(entry, TUPLES if tuples else POSITIONS, n_shards, random)
    rows = random.sample(batch, len(batch))
    while rows:
        cut = random.randint(1, len(rows))
        history.learn(counted(rows[:cut]))
        rows = rows[cut:]
        for step in random.choices([history.forget, history.take_in, history.give_back], k=random.randint(0, 2)):
            step()
    total, held = history.sum()
    assert_same(entry, total, learnt(history.origin.empty_like(), held))


histories = given(
    batch=batches, n_shards=st.integers(1, 64), tuples=st.booleans(), seed=st.integers(min_value=0, max_value=2**32)
)


@every_memory
@histories
@QUICK
def test_every_history_of_shards_ends_in_the_state_of_what_remains(entry: Entry, **case: Any) -> None:
    check_history(entry, **case)


@pytest.mark.slow
@every_memory
@histories
@HISTORIES
def test_every_history_of_shards_ends_in_the_state_of_what_remains_in_full(entry: Entry, **case: Any) -> None:
    check_history(entry, **case)


def check_subset(entry: Entry, batch: list[Any], seed: int) -> None:
    """Forget a random subset."""
    random, rows = Random(seed), counted(batch)
    origin = entry.open_memory(POSITIONS)
    gone = drawn(random, rows)
    memory = learnt(origin.empty_like(), rows)
    if gone:
        memory.remove(as_examples(gone))
    assert_same(entry, memory, learnt(origin.empty_like(), rows - gone))


subsets = given(batch=batches, seed=st.integers(min_value=0, max_value=2**32))


@every_memory
@subsets
@QUICK
def test_a_forgotten_subset_equals_never_added(entry: Entry, **case: Any) -> None:
    check_subset(entry, **case)


@pytest.mark.slow
@every_memory
@subsets
@SUBSETS
def test_a_forgotten_subset_equals_never_added_in_full(entry: Entry, **case: Any) -> None:
    check_subset(entry, **case)


@every_memory
@given(batch=batches, other=batches)
@QUICK
def test_unmerge_is_all_or_nothing(entry: Entry, batch: Any, other: Any) -> None:
    memory, stranger = entry.open_memory(POSITIONS), entry.open_memory(POSITIONS)
    memory.add(examples(batch))
    stranger.add(examples(other))
    before = memory.state_bytes()
    try:
        memory.unmerge(stranger)
    except NotStoredError:
        assert memory.state_bytes() == before
        assert counted(other) - counted(batch) or isinstance(memory, Gaussian)
        return
    memory.merge(stranger)
    if entry.integer or not counted(other) - counted(batch):  # floats: without labels, rounding is wiped
        assert_same(entry, memory, learnt(entry.open_memory(POSITIONS), counted(batch)))


@pytest.mark.parametrize("entry", [entry for entry in MEMORIES if not isinstance(entry.memory, Gaussian)], ids=str)
@pytest.mark.parametrize("others", [0, 1])
def test_an_example_with_an_empty_site_is_no_other_example(entry: Entry, others: int) -> None:
    """Found by Hypothesis: no row of a table counts what an empty site holds, so rows alone cannot refuse it."""
    memory, stranger = entry.open_memory(POSITIONS), entry.open_memory(POSITIONS)
    memory.add(examples([([0, 0, 0], "no", 1), ([1, 1, 1], "no", 1)][: 1 + others]))
    absent = examples([([0, 0, NO_TOKEN], "no", 1)])
    stranger.add(absent)
    before = memory.state_bytes()
    with pytest.raises(NotStoredError):
        memory.remove(absent)
    with pytest.raises(NotStoredError):
        memory.unmerge(stranger)
    assert memory.state_bytes() == before
    memory.merge(stranger)
    memory.remove(absent)
    assert memory.state_bytes() == before


@every_memory
def test_unmerge_keeps_the_declared_labels_of_the_left_only(entry: Entry) -> None:
    left, right = entry.open_memory(POSITIONS), entry.open_memory(POSITIONS)
    left.declare(Vocabulary.of(["kept"]))
    right.declare(Vocabulary.of(["not taken"]))
    left.add(examples([([0, 1, 2], "yes", 1), ([0, 1, 2], "no", 2)]))
    right.add(examples([([0, 1, 2], "yes", 1)]))
    left.unmerge(right)
    assert list(left.labels) == ["kept", "no"]
    assert left.reader().scores(QUERIES, POSITIONS.weights).shape == (len(QUERIES), 2)


@every_memory
def test_unmerge_checks_the_layout(entry: Entry) -> None:
    memory = entry.open_memory(POSITIONS)
    with pytest.raises(LayoutError, match=r"sites is .* here and .* there.*empty_like\(\)"):
        memory.unmerge(entry.open_memory(TUPLES))


MODELS = [
    MemoryClassifier("positional", memory=Exact(), vote="sum"),
    MemoryClassifier("positional", memory=Hashed(4, 2), vote="mean"),
    MemoryClassifier("positional", memory=Hashed(4, 2), keep="auto+digests", vote="sum"),
    MeMoClassifier(d=32, exact=True),
]
X, Y = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]], ["no", "no", "yes", "maybe"]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_models_add_and_subtract_and_are_themselves_unchanged(model: MemoryClassifier) -> None:
    whole = clone(model).fit(X, Y)
    shards = [whole.empty_like().partial_fit(X[i : i + 1], Y[i : i + 1]) for i in range(4)]
    before = [shard.memory_.state_bytes() for shard in shards]
    total: Any = sum(shards)
    assert isinstance(total, type(model))
    assert total.memory_.state_bytes() == whole.memory_.state_bytes()
    assert total.predict(X).tolist() == whole.predict(X).tolist()
    assert (shards[0] + shards[1]).classes_.tolist() == ["no"]
    rest = total - shards[2]
    assert rest.classes_.tolist() == ["maybe", "no"]
    assert rest.memory_.state_bytes() == (shards[0] + shards[1] + shards[3]).memory_.state_bytes()
    assert [shard.memory_.state_bytes() for shard in shards] == before
    assert total.memory_.state_bytes() == whole.memory_.state_bytes()
    total.partial_fit([["z", "z"]], ["new"])  # a sum shares nothing with its operands
    assert [shard.memory_.state_bytes() for shard in shards] == before
    with pytest.raises(NotStoredError):
        shards[0] - whole


def test_a_sum_of_one_is_a_copy_and_other_operands_are_refused() -> None:
    model = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, Y)
    copied: Any = sum([model])
    assert copied is not model
    assert copied.memory_.state_bytes() == model.memory_.state_bytes()
    for wrong in (1, "model", None):
        with pytest.raises(TypeError):
            model + wrong
        with pytest.raises(TypeError):
            wrong + model
        with pytest.raises(TypeError):
            model - wrong
    with pytest.raises(TypeError, match="unmerge takes another MemoryClassifier"):
        model.unmerge(model.memory_)


def test_labels_of_a_difference_keep_their_type() -> None:
    left = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, [1, 1, 2, 3])
    right = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X[2:3], [2.0])
    assert (left - right).classes_.dtype == left.classes_.dtype


def test_a_layout_that_differs_is_named_with_the_way_out() -> None:
    one, other = (
        MemoryClassifier("positional", memory=Hashed(4, 1), vote="sum").fit([row], ["y"])
        for row in (["a", "b"], ["c", "d"])
    )
    with pytest.raises(LayoutError, match=r"reserved is .* there\. Learn every shard from the layout of one"):
        one + other
    assert (one + one.empty_like().partial_fit([["c", "d"]], ["y"])).memory_.label_counts.tolist() == [2]


def test_a_memory_whose_layout_is_still_open_adds_nothing_and_holds_nothing() -> None:
    memory, empty = Hashed(4, 1).open(POSITIONS), Hashed(4, 1).open(POSITIONS)
    memory.add(examples([([0, 1, 2], "yes", 1)]))
    before = memory.state_bytes()
    memory.merge(empty)
    memory.unmerge(empty)
    assert memory.state_bytes() == before
    with pytest.raises(NotStoredError):
        empty.unmerge(memory)
    with pytest.raises(LayoutError, match="buckets is"):
        empty.merge(Hashed(5, 1).open(POSITIONS))
    assert empty._rows is None  # what is refused settles nothing
    empty.merge(memory)
    assert empty.state_bytes() == before


@pytest.mark.parametrize("dimensions", [(32, 4, 8), (1024, 128, 8), (100, 33, 3), (7, 2, 5)])
@pytest.mark.parametrize("tied", [False, True])
def test_exact_codes_are_whole_steps_close_to_the_gaussian_ones(dimensions: tuple[int, int, int], tied: bool) -> None:
    d, d_h, n_sites = dimensions
    exact, plain = GaussianCodes(3, d, d_h, n_sites, tied, exact=True), GaussianCodes(3, d, d_h, n_sites, tied)
    tokens = [*range(50), "a", 0.5]
    for name, sd in (("outputs", d**-0.5), ("project", (n_sites * d_h) ** -0.5)):
        codes, gaussian = getattr(exact, name)(tokens).astype(float), getattr(plain, name)(tokens)
        exponent = step_exponent(sd, CODE_BITS)
        steps = np.ldexp(codes, -exponent)
        assert (steps == np.rint(steps)).all()
        assert np.abs(steps).max() <= 2**CODE_BITS
        assert 2 ** (CODE_BITS - 1) < 8 * sd * 2.0**-exponent <= 2**CODE_BITS
        # half a step by the last rounding, and far less from the finer ones before it
        assert np.abs(codes - gaussian).max() < 0.55 * 2.0**exponent
    assert (exact.project(tokens) == exact.project(tokens[::-1])[::-1]).all()


def exact_gaussian(d: int = 16) -> Gaussian:
    return Gaussian(d, exact=True).open(PositionalHamming().resolve(3))


def test_the_largest_sums_are_exact_and_larger_ones_are_refused_with_nothing_changed() -> None:
    memory, n = exact_gaussian(), EXACT_EXAMPLES - 1
    memory.add(examples([([0, 1, 2], "yes", n)]))
    one = exact_gaussian()
    one.add(examples([([0, 1, 2], "yes", 1)]))
    unit = one.codes.largest_product / 4.0**CODE_BITS
    whole = [int(value) * n for value in (one.C / unit).ravel().tolist()]  # Python's integers
    assert [int(value) for value in (memory.C / unit).ravel().tolist()] == whole
    before = memory.state_bytes()
    memory._bound = EXACT_EXAMPLES - 1  # as if every code were of the largest size
    memory.remove(examples([([0, 1, 2], "yes", 1)]))  # looks at the entries and finds room
    memory.add(examples([([0, 1, 2], "yes", 1)]))
    assert memory.state_bytes() == before
    for change in (memory.add, memory.remove):
        with pytest.raises(ValueError, match=r"fewer than 2\^31 examples.*Nothing was changed.*Use smaller batches"):
            change(examples([([0, 1, 2], "yes", EXACT_EXAMPLES - 1)]))
    while memory._worth() < EXACT_EXAMPLES / 2:  # the entries themselves leave room
        memory.merge(copy.deepcopy(memory))
    before = memory.state_bytes()
    with pytest.raises(ValueError, match="smaller batches"):
        memory.merge(copy.deepcopy(memory))
    assert memory.state_bytes() == before


def test_no_code_can_pass_the_bound() -> None:
    # The bound counts examples; it holds because no product of an entry of W u and one of z is larger than this.
    memory = exact_gaussian(d=4)
    tokens = list(range(3000))
    inputs, outputs = memory.codes.project(tokens).astype(float), memory.codes.outputs(tokens).astype(float)
    assert np.abs(inputs).max() * np.abs(outputs).max() <= memory.codes.largest_product


def test_exact_states_have_no_negative_zero() -> None:
    memory = exact_gaussian()
    for _ in range(3):
        memory.add(examples([([0, 1, 2], "yes", 2), (["a", 1, 2], "no", 1)]))
        memory.remove(examples([([0, 1, 2], "yes", 2), (["a", 1, 2], "no", 1)]))
        assert not np.signbit(memory.C).any()
    assert memory.state_bytes() == exact_gaussian().state_bytes()


def test_exact_is_part_of_the_layout_and_has_its_limit() -> None:
    with pytest.raises(LayoutError, match="exact is True here and False there"):
        exact_gaussian().merge(Gaussian(16).open(POSITIONS))
    with pytest.raises(ValueError, match=r"fewer than 2\^21 dimensions"):
        Gaussian(2**21, d_h=1, exact=True).open(POSITIONS)
