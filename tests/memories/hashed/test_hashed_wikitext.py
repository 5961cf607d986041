"""The hashed memory on the paper's task: fidelity and certified share within a budget, and no wrong certificate."""

from __future__ import annotations

import numpy as np
import pytest

from hammemo import MemoryClassifier
from hammemo.memories import Exact, Hashed, Tiered
from hammemo.paper.experiments import wikitext
from places import SHARED

DATA = SHARED / "wikitext-2"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="WikiText-2 is not beside the project (../shared/wikitext-2)")
H = 8


@pytest.fixture(scope="module")
def task() -> wikitext.Task:
    return wikitext.build_task(wikitext.read_folder(DATA))


@pytest.fixture(scope="module")
def sample(task: wikitext.Task) -> wikitext.TaskSample:
    return wikitext.draw_sample(task, wikitext.TaskSettings(), 0)


@pytest.fixture(scope="module")
def exact(sample: wikitext.TaskSample) -> MemoryClassifier:
    return MemoryClassifier("positional", memory=Exact(), vote="sum").fit(*sample.split("train", H))


@pytest.mark.parametrize(
    ("reserved", "buckets", "mebibytes", "agreement", "certified"),
    [(120, 248, 0.25, 95, 50), (512, 960, 1.0, 99, 90), (1024, 2048, 2.1, 99.5, 97), (4096, 6144, 8.2, 99.9, 99.5)],
)
def test_fidelity_and_proofs_within_a_budget(
    sample: wikitext.TaskSample,
    exact: MemoryClassifier,
    reserved: int,
    buckets: int,
    mebibytes: float,
    agreement: float,
    certified: float,
) -> None:
    queries, observed = sample.split("test", H)
    judge = wikitext.Judge.from_exact(exact, queries, observed)
    shares, proofs = [], []
    for seed in range(3):
        model = MemoryClassifier("positional", memory=Hashed(buckets, reserved), random_state=seed, vote="sum").fit(
            *sample.split("train", H)
        )
        assert model.memory_.nbytes <= mebibytes * 2**20
        same = model.predict(queries) == judge.winners
        shares.append(100 * same[judge.unambiguous].mean())
        proofs.append(100 * model.certify(queries).mean())
    assert np.mean(shares) >= agreement
    assert np.mean(proofs) >= certified


def test_no_certified_answer_is_wrong_on_any_test_position(
    task: wikitext.Task, sample: wikitext.TaskSample, exact: MemoryClassifier
) -> None:
    queries = task.contexts["test"][task.candidate_positions("test"), wikitext.LONGEST - H :]
    assert len(queries) == 92_282
    expected = exact.predict(queries)
    for seed in range(10):
        model = MemoryClassifier("positional", memory=Hashed(960, 512), random_state=seed, vote="sum").fit(
            *sample.split("train", H)
        )
        certified = model.certify(queries)
        assert certified.mean() > 0.9
        assert (model.predict(queries)[certified] == expected[certified]).all()


def two_tiers_answer_exactly(
    task: wikitext.Task, sample: wikitext.TaskSample, exact: MemoryClassifier, seeds: range
) -> None:
    queries = task.contexts["test"][task.candidate_positions("test"), wikitext.LONGEST - H :]
    assert len(queries) == 92_282
    expected = exact.predict(queries)
    for seed in seeds:
        memory = Tiered(Hashed(buckets=960, reserved=512))
        model = MemoryClassifier("positional", memory=memory, random_state=seed, vote="sum").fit(
            *sample.split("train", H)
        )
        np.testing.assert_array_equal(model.predict(queries), expected)
        np.testing.assert_array_equal(model.compile().predict(queries), expected)


def test_two_tiers_answer_exactly_on_every_test_position(
    task: wikitext.Task, sample: wikitext.TaskSample, exact: MemoryClassifier
) -> None:
    two_tiers_answer_exactly(task, sample, exact, range(1))


@pytest.mark.slow
def test_two_tiers_answer_exactly_for_ten_seeds(
    task: wikitext.Task, sample: wikitext.TaskSample, exact: MemoryClassifier
) -> None:
    two_tiers_answer_exactly(task, sample, exact, range(10))
