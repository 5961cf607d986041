"""The real-data evaluation: the task to the last position, the measures, and the whole command on the real text."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score
from typer.testing import CliRunner

from hammemo import MemoryClassifier
from hammemo.cli.app import app
from hammemo.kernels import SiteOneHot
from hammemo.memories import Exact
from hammemo.paper.baselines import SuffixBackoff
from hammemo.paper.experiments import throughput, wikitext
from hammemo.paper.experiments.figures import wikitext_figure
from hammemo.paper.experiments.measuring import zipf_examples
from hammemo.paper.experiments.report import reproduction
from places import SHARED

if TYPE_CHECKING:
    from pathlib import Path

DATA = SHARED / "wikitext-2"
with_data = pytest.mark.skipif(not DATA.is_dir(), reason="WikiText-2 is not beside the project (../shared/wikitext-2)")


@pytest.fixture(scope="module")
def task() -> wikitext.Task:
    return wikitext.build_task(wikitext.read_folder(DATA))


def small_lines(n_lines: int = 30) -> wikitext.Lines:
    """Return a text of about 70 word types, enough for 64 targets."""
    rng = np.random.default_rng(0)
    return {
        split: [[*(f"w{t}" for t in rng.zipf(1.2, 25) % 70), "<eos>"] for _ in range(n_lines)]
        for split in wikitext.SPLITS
    }


@with_data
def test_the_task_is_the_paper_s_to_the_last_position(task: wikitext.Task) -> None:
    assert len(task.vocabulary) == 33_278
    assert len(task.targets) == 64
    coverage = task.coverage()
    assert {split: row["eligible"] for split, row in coverage.items()} == {
        "train": 1_758_943,
        "valid": 183_044,
        "test": 206_013,
    }
    assert coverage["train"] == {"eligible": 1_758_943, "covered": 793_614, "percent": 45.12}
    assert coverage["valid"]["percent"] == 44.51
    assert coverage["test"] == {"eligible": 206_013, "covered": 92_282, "percent": 44.79}
    assert task.vocabulary.index("<unk>") not in task.targets
    assert task.vocabulary.index("<eos>") in task.targets


@with_data
def test_every_context_length_has_the_same_positions(task: wikitext.Task) -> None:
    settings = wikitext.TaskSettings.quick()
    sample = wikitext.draw_sample(task, settings, 0)
    for split, size in zip(wikitext.SPLITS, settings.sizes, strict=True):
        long, labels = sample.split(split, 16)
        short, same = sample.split(split, 4)
        assert long.shape == (size, 16)
        np.testing.assert_array_equal(long[:, -4:], short)
        np.testing.assert_array_equal(labels, same)
        assert np.isin(labels, task.targets).all()
    again, other = wikitext.draw_sample(task, settings, 0), wikitext.draw_sample(task, settings, 1)
    np.testing.assert_array_equal(again.contexts["train"], sample.contexts["train"])
    assert not np.array_equal(other.contexts["train"], sample.contexts["train"])


@pytest.mark.slow
@with_data
def test_the_command_on_the_real_text(tmp_path: Path) -> None:
    arguments = ["reproduce", "wikitext", "--data", str(DATA), "--quick", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "reproduction.md").read_text()
    assert page in result.stdout
    results = json.loads((tmp_path / "results.json").read_text())
    assert reproduction(results) == page
    assert "| train | 1,758,943 | 793,614 | 45.12 % | 45.12 % |" in page
    assert "**A quick run: 20,000 training examples, 2 draws. Not for conclusions.**" in page
    table = {row["method"]: row for row in results["table"]}
    assert set(table) == (set(wikitext.PAPER) - {"MeMo, d = 512", "MeMo, d = 1024"}) | set(wikitext.VARIANTS)
    # A fifth of the paper's examples: the order of the methods is there already.
    assert table["sum prototype"]["agreement"] == 100
    assert table["mean prototype"]["top1"] < table["MeMo, d = 128"]["top1"] < table["sum prototype"]["top1"]
    assert table["sum prototype"]["top1"] < table["linear SVM"]["top1"]
    states = {row["method"]: round(row["mebibytes"], 2) for row in results["inference"]}
    assert {name: states[name] for name in throughput.PAPER} == {
        name: figures[0] for name, figures in throughput.PAPER.items()
    }
    assert (tmp_path / "wikitext.png").read_bytes().startswith(b"\x89PNG")


def test_the_hub_s_parquet_files_give_the_same_lines(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    lines = small_lines()
    for split, name in (("train", "train"), ("valid", "validation"), ("test", "test")):
        (tmp_path / f"wiki.{split}.tokens").write_text("".join(" ".join(line[:-1]) + " \n" for line in lines[split]))
        texts = [" ".join(line[:-1]) + " \n" for line in lines[split]]
        parquet.write_table(pa.table({"text": texts}), tmp_path / f"{name}-00000-of-00001.parquet")
    assert wikitext.read_hub(f"file://{tmp_path}") == wikitext.read_folder(tmp_path) == lines


def test_a_hub_that_cannot_be_reached_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(OSError, match=r"file://.*train.*cannot be read \(FileNotFoundError: .*Or data= names a folder"):
        wikitext.read_hub(f"file://{tmp_path}")
    monkeypatch.setattr(wikitext.read_hub, "__defaults__", (f"file://{tmp_path}",))
    result = CliRunner().invoke(app, ["reproduce", "wikitext", "--quick", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "Or --data names a folder with wiki.train.tokens" in " ".join(result.output.split())


def test_a_folder_without_the_files_is_refused(tmp_path: Path) -> None:
    arguments = ["reproduce", "wikitext", "--data", str(tmp_path), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "wiki.train.tokens" in result.output


def test_the_measures_against_their_definitions() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 6, (80, 3)), rng.integers(0, 7, 80)
    exact = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    queries, observed = rng.integers(0, 6, (40, 3)), rng.integers(0, 7, 40)
    judge = wikitext.Judge.from_exact(exact, queries, observed)
    ranking = SuffixBackoff().fit(X, y).top_k(queries, 5)
    measures = judge.measures(ranking)
    scores = exact.class_scores(queries)
    unique = [sorted(row)[-1] > sorted(row)[-2] for row in scores.tolist()]
    assert judge.unambiguous.tolist() == unique
    same = [ranking[i, 0] == exact.classes_[scores[i].argmax()] for i in range(40) if unique[i]]
    assert measures["agreement"] == pytest.approx(100 * np.mean(same))
    assert measures["top1"] == pytest.approx(100 * np.mean(ranking[:, 0] == observed))
    assert measures["top5"] == pytest.approx(100 * np.mean([o in r for o, r in zip(observed, ranking, strict=True)]))
    macro = f1_score(observed, ranking[:, 0], average="macro", labels=np.arange(7), zero_division=0)
    assert measures["macro_f1"] == pytest.approx(100 * macro)


def test_distance_from_the_paper_counts_both_sampling_errors() -> None:
    values = [{"top1": v, "top5": 0.0, "macro_f1": 0.0, "agreement": 0.0} for v in (22.0, 23.0, 24.0, 23.0, 22.0)]
    row = wikitext._over_draws(8, "sum prototype", values, beside_paper=True)
    sd = np.std([22, 23, 24, 23, 22], ddof=1)
    assert row["top1_apart"] == pytest.approx((22.8 - 22.30) / (sd * np.sqrt(1.2)))
    assert "top1_apart" not in wikitext._over_draws(4, "sum prototype", values, beside_paper=True)
    assert "top1_apart" not in wikitext._over_draws(8, "sum prototype", values, beside_paper=False)


def evaluated(settings: wikitext.TaskSettings) -> dict[str, Any]:
    """Return results of small samples, and nothing measured in seconds."""
    task = wikitext.build_task(small_lines())
    tiny = wikitext.TaskSettings(1, 2, 2, (16,), settings.context_lengths, (200, 40, 60))
    outcomes = wikitext.run(task, tiny, jobs=1)
    return {
        **wikitext.summary(task, settings, outcomes),
        "protocol": vars(throughput.Protocol()),
        "inference": [],
        "throughput": [],
        "full_vocabulary": wikitext.whole_vocabulary(task, (16,), n_test=20),
    }


def test_a_quick_run_shows_no_distances_and_no_empty_table() -> None:
    results = evaluated(wikitext.TaskSettings.quick())
    assert not any(name.endswith(("_apart", "_paper")) for row in results["table"] for name in row)
    page = reproduction(results)
    assert "**A quick run: 20,000 training examples, 2 draws. Not for conclusions.**" in page
    assert "standard errors" not in page
    assert "Other context lengths" not in page
    header = "| method | top-1 | top-5 | macro-F1 | agreement |"
    tables = [part.split("\n\n")[0] for part in page.split(header)[1:]]
    assert [table.count("\n|") for table in tables] == [1 + 6, 1 + 2]  # the paper's methods, then our tie rules


def test_a_whole_run_shows_distances_and_our_tie_rules_apart_from_the_paper_s(tmp_path: Path) -> None:
    results = evaluated(wikitext.TaskSettings(context_lengths=(8, 4)))
    page = reproduction(results)
    assert "A quick run" not in page
    assert "More than three standard errors apart: " in page
    main, variants = page.split("The library's defaults")[0], page.split("The library's defaults")[1]
    assert "(25.66; " in main
    assert "| Hamming k-NN, ties by similarity |" not in main
    assert "| Hamming k-NN, ties by similarity |" in variants
    assert "(25.66; " in variants.split("##")[0]
    assert "| 4 | suffix backoff |" in variants
    assert "| 4 | suffix backoff, ties" not in variants
    wikitext_figure({**results, "throughput": [{"h": h, "d": 16, "mega_queries": 1.0} for h in (4, 8)]}, tmp_path)
    assert (tmp_path / "wikitext.png").read_bytes().startswith(b"\x89PNG")


def test_the_main_table_breaks_ties_by_overall_frequency() -> None:
    task = wikitext.build_task(small_lines())
    settings = wikitext.TaskSettings(1, 1, 2, (16,), (8,), (200, 40, 60))
    sample = wikitext.draw_sample(task, settings, 0)
    rows = wikitext.evaluate(sample, settings, 0, 8)["rows"]
    (X, y), (queries, observed) = sample.split("train", 8), sample.split("test", 8)
    judge = wikitext.Judge.from_exact(
        MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y), queries, observed
    )
    by_frequency = SuffixBackoff(5, ties="frequency").fit(X, y).top_k(queries, 5)
    assert rows["suffix backoff"] == judge.measures(by_frequency)
    ours = SuffixBackoff(5).fit(X, y).top_k(queries, 5)
    assert rows["suffix backoff, ties by shorter suffixes"] == judge.measures(ours)
    assert rows["suffix backoff"] != rows["suffix backoff, ties by shorter suffixes"]
    assert wikitext.choose_neighbours(sample, 8).ties == "frequency"


def test_the_linear_svm_is_trained_with_hinge_loss_on_the_feature_map() -> None:
    task = wikitext.build_task(small_lines())
    sample = wikitext.draw_sample(task, wikitext.TaskSettings(1, 1, 2, (16,), (8,), (200, 40, 60)), 0)
    ranking, grid = wikitext.linear_svm(sample, 8)
    encoder = SiteOneHot().fit(sample.split("train", 8)[0])
    features = {split: encoder.transform(sample.split(split, 8)[0]) for split in wikitext.SPLITS}
    machines = {
        str(each): SGDClassifier(loss="hinge", random_state=0, **each).fit(features["train"], sample.labels["train"])
        for each in wikitext.SVM_GRID
    }
    scores = {name: machine.score(features["valid"], sample.labels["valid"]) for name, machine in machines.items()}
    assert scores[str(grid)] == max(scores.values())
    np.testing.assert_array_equal(ranking[:, 0], machines[str(grid)].predict(features["test"]))


def tiny_methods() -> tuple[list[throughput.Method], Any, MemoryClassifier]:
    X, y = zipf_examples(300, 6, n_tokens=50, h=4)
    methods = list(throughput.table_methods(X, y, 50, {"alpha": 1e-4, "average": True}))
    methods += [throughput.memo_method(X, y, 50, 64, form) for form in ("fused", "two-stage")]
    return methods, X, MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)


def test_every_timed_method_answers_as_the_estimator_does() -> None:
    torch = pytest.importorskip("torch")
    methods, X, exact = tiny_methods()
    mean = MemoryClassifier("positional", memory=Exact(), vote="mean").fit(X, zipf_examples(300, 6)[1])
    for method in methods:
        answers = method.answer(*method.tensors, X)
        if method.name.startswith("sum"):
            np.testing.assert_array_equal(answers, exact.predict(X))
        if method.name.startswith("mean"):
            assert (answers == mean.predict(X)).mean() > 0.99
        if method.portable:
            state = [torch.as_tensor(tensor) for tensor in method.tensors]
            agree = method.answer(*state, torch.as_tensor(X)).numpy() == answers
            assert agree.mean() > 0.99  # float sums in another order may turn a tie
    fused, two_stage = (m.answer(*m.tensors, X) for m in methods[-2:])
    assert (fused == two_stage).mean() > 0.99


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_the_inference_table_on_devices_that_are_here(device: str) -> None:
    if device != "cpu":
        pytest.importorskip("torch")
    methods, X, _ = tiny_methods()
    rows = throughput.inference_table(iter(methods), X, device, throughput.Protocol(1, 2, 2))
    assert len(rows) == len(methods) - (device != "cpu")
    assert all(row["microseconds_1"] > 0 and row["mega_queries_1024"] > 0 for row in rows)


def test_devices_that_are_not_here_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="torch-cpu"):
        throughput.inference_table(iter([]), np.empty((0, 4)), "tpu")
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="no CUDA device"):
            throughput.inference_table(iter([]), np.empty((0, 4)), "cuda")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"hammemo\[torch\]"):
        throughput.require_torch()


def test_the_clock_of_a_gpu_is_read_from_its_events() -> None:
    """A stand-in for torch.cuda: there is no GPU where this runs."""

    class Event:
        recorded = 0

        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            Event.recorded += 1
            self.at = 250.0 * Event.recorded

        def elapsed_time(self, other: Event) -> float:
            return other.at - self.at

    clock = throughput._gpu_clock(SimpleNamespace(cuda=SimpleNamespace(Event=Event, synchronize=lambda: None)))
    assert [clock(), clock()] == [0.25, 0.5]


@pytest.mark.parametrize("arguments", [["--json"], []])
def test_inference_prints_rows(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    methods, X, _ = tiny_methods()
    monkeypatch.setattr(throughput, "paper_methods", lambda *_: iter(methods))
    monkeypatch.setattr(throughput, "zipf_examples", lambda _: (X, None))
    monkeypatch.setattr(throughput.Protocol, "__init__", lambda self, threads: None)
    monkeypatch.setattr(throughput, "measure", lambda *_, **__: 0.5)
    result = CliRunner().invoke(app, ["reproduce", "inference", *arguments])
    assert result.exit_code == 0, result.output
    assert "sum prototype, sparse" in result.stdout
    if arguments:
        assert json.loads(result.stdout)[0]["microseconds_1"] == 5e5
    assert CliRunner().invoke(app, ["reproduce", "inference", "--device", "abacus"]).exit_code == 2


def test_the_whole_vocabulary_as_candidates() -> None:
    task = wikitext.build_task(small_lines())
    told: list[tuple[int, int]] = []
    rows = wikitext.whole_vocabulary(task, (64,), n_test=20, on_progress=lambda done, total: told.append((done, total)))
    assert [row["method"] for row in rows] == ["exact", "MeMo, d = 64"]
    assert rows[0]["agreement"] == 100
    assert rows[0]["labels"] == len(task.vocabulary)
    codes = len(np.unique(task.contexts["train"][:, -8:]))
    assert rows[1]["state_mebibytes"] * 2**20 == 4 * (codes * 8 + 64 * 64 + rows[1]["labels"] * 64)
    assert told == [(1, 2), (2, 2)]
