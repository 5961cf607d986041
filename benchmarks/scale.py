"""Learning files on one process, two threads, two processes and two Ray workers: rates, ratios, memory.

    python benchmarks/scale.py --tokens 100000000
    python benchmarks/scale.py --quick                  # 10 million tokens
    python benchmarks/scale.py --memory exact --quick
    python benchmarks/scale.py --parts --tokens 300000000 --folder FOLDER   # see scale_parts.py

Zipf tokens (33,278 types) in documents of a thousand, in Parquet files of 4 million tokens with row groups of 256
documents; contexts of 8, the 64 most frequent tokens of the sample as labels; 2048 buckets and 1024 reserved tokens.
Every contender runs in a process of its own, in turn, so many rounds; "ratio" is that of the medians and "best" that of
the shortest times, both to the first contender. Starting Ray and importing Python packages is not part of the time and
is printed apart. All states are compared to the byte.

On a machine with other work on it the ratio says little. "cpu s" does not depend on that: it is what the processor
spent in the tasks, and "all" what it spent on all processes of the run. Two cores of one's own could do no better than
twice the first contender's "all" divided by this one's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from hammemo import Exact, Hashed, MemoryClassifier
from hammemo.engines import GroupReport, fit
from hammemo.engines.jobs import Job, peak_memory
from hammemo.engines.states import pack, unpack
from hammemo.experiments.speed import zipf_stream
from hammemo.sources.documents import open_source

H, N_LABELS, N_TOKENS = 8, 64, 33_278
FILE_TOKENS, DOCUMENT_TOKENS, GROUP_DOCUMENTS = 2**22, 1000, 256
MEMORIES = {"hashed": Hashed(buckets=2048, reserved=1024), "exact": Exact()}
CONTENDERS = {
    "one process": ("threads", 1),
    "two threads": ("threads", 2),
    "two processes": ("processes", 2),
    "Ray, one worker": ("ray", 1),
    "Ray, two workers": ("ray", 2),
}


def write_files(folder: Path, tokens: int) -> None:
    """Write the Parquet files."""
    import pyarrow as pa
    from pyarrow import parquet

    for number, first in enumerate(range(0, tokens, FILE_TOKENS)):
        path = folder / f"{number:05d}.parquet"
        if path.exists():
            continue
        stream = zipf_stream(min(FILE_TOKENS, tokens - first), N_TOKENS, seed=number).astype(np.int32)
        edges = np.append(np.arange(0, len(stream), DOCUMENT_TOKENS), len(stream))
        documents = pa.ListArray.from_arrays(pa.array(edges, pa.int32()), pa.array(stream))
        parquet.write_table(pa.table({"tokens": documents}), path, row_group_size=GROUP_DOCUMENTS)


def run_one(folder: str, contender: str, memory: str) -> dict[str, Any]:
    """Learn the files once in this process and return what it took."""
    engine, workers = CONTENDERS[contender]
    started = time.perf_counter()
    idle = _start_ray(workers) if engine == "ray" else peak_memory()
    start_seconds = time.perf_counter() - started
    reports: list[GroupReport] = []
    load, spent, started = os.getloadavg()[0], _processor_seconds(), time.perf_counter()
    clf = MemoryClassifier(memory=MEMORIES[memory], vote="sum")
    model = fit(clf, open_source(folder), H, classes=N_LABELS, engine=engine, workers=workers, on_report=reports.append)
    seconds, spent = time.perf_counter() - started, _processor_seconds() - spent
    tokens = sum(report.tokens for report in reports)
    reading = sum(report.reading_seconds for report in reports)
    learning = sum(report.seconds for report in reports) - reading
    return {
        "contender": contender,
        "seconds": seconds,
        "start_seconds": start_seconds,
        "tokens": tokens,
        "tasks": len(reports),
        "source_bytes_a_task": sum(report.source_bytes for report in reports) // len(reports),
        "read_tokens_a_second": tokens / reading,
        "learn_tokens_a_second": tokens / learning,
        "task_seconds": reading + learning,
        "cpu_seconds": sum(report.cpu_seconds for report in reports),
        "all_cpu_seconds": spent,
        "load": load,
        "idle_bytes": idle,
        "peak_bytes": max(report.peak_bytes for report in reports),
        "driver_peak_bytes": peak_memory(),
        "digest": hashlib.sha256(model.memory_.state_bytes()).hexdigest(),
        **({**_merging(model), **_task_costs(model, folder, memory)} if contender == "one process" else {}),
    }


def _processor_seconds() -> float:
    """Return what the processor has spent on all processes that share this one's home: the driver, Ray, the workers."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"HOME={os.environ['HOME']}\0".encode() in (process / "environ").read_bytes():
                ticks += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:13]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def _start_ray(workers: int) -> int:
    """Start Ray with its workers warm and return the memory that one has before it learns."""
    import ray

    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="error")

    def warm() -> int:
        import pyarrow.parquet  # noqa: F401

        from hammemo.engines import jobs

        time.sleep(0.5)  # so that each worker gets one
        return jobs.peak_memory()

    task = ray.remote(num_cpus=1)(warm)
    return int(max(ray.get([task.remote() for _ in range(workers)])))


def _merging(model: MemoryClassifier) -> dict[str, float]:
    """Return the size of a state, and how long packing, unpacking and adding one takes."""
    memory = model.memory_
    template = memory.empty_like()
    arrays = pack(memory)
    total = unpack(template, arrays)
    times: dict[str, list[float]] = {"pack": [], "unpack": [], "add": []}
    for _ in range(5):
        began = time.perf_counter()
        pack(memory)
        packed = time.perf_counter()
        other = unpack(template, arrays)
        unpacked = time.perf_counter()
        total.merge(other)
        added = time.perf_counter()
        for name, value in zip(times, (packed - began, unpacked - packed, added - unpacked), strict=True):
            times[name].append(value)
    return {
        "state_bytes": sum(array.nbytes for array in arrays.values()),
        **{f"{name}_seconds": median(values) for name, values in times.items()},
    }


def _task_costs(model: MemoryClassifier, folder: str, memory: str) -> dict[str, float]:
    """Return what a task costs before its first token, and tokens a second beyond, in processor time of one core."""
    source = open_source(folder)
    job = Job(model.memory_.empty_like(), source, H, "drop", None, model.memory_.labels)
    tokens, spent = [], []
    for number in (1, 4) if memory == "exact" else (4, 16):  # shards of one row group or two
        tries = []
        for _ in range(3):
            started = time.thread_time()
            learnt, report = job.learn(0, tuple(source.shards(2**20)[:number]))
            pack(learnt)
            tries.append(time.thread_time() - started)
        tokens.append(report.tokens)
        spent.append(min(tries))
    rate = (tokens[1] - tokens[0]) / (spent[1] - spent[0])
    return {"task_tokens_a_second": rate, "task_fixed_seconds": spent[0] - tokens[0] / rate}


def race(folder: str, memory: str, rounds: int, names: list[str]) -> list[dict[str, Any]]:
    """Run every contender so many times in turn, each in its own process, and return the medians."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            command = [sys.executable, __file__, "--run", name, "--folder", folder, "--memory", memory]
            ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, **_quiet(folder)})
            runs[name].append(json.loads(ended.stdout.splitlines()[-1]))
    rows = []
    for name in names:
        typical = sorted(runs[name], key=lambda run: run["seconds"])[len(runs[name]) // 2]
        rows.append({**typical, "all_seconds": [round(run["seconds"], 2) for run in runs[name]]})
    for row in rows:
        row["ratio"] = rows[0]["seconds"] / row["seconds"]
        row["best_ratio"] = min(rows[0]["all_seconds"]) / min(row["all_seconds"])
    if len({row["digest"] for row in rows}) > 1:
        raise SystemExit("The states differ.")
    return rows


def _quiet(folder: str) -> dict[str, str]:
    """Ray writes to its home and reports its use: neither from a benchmark. Its workers are nice: here not."""
    return {"HOME": folder, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "OMP_NUM_THREADS": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100_000_000)
    parser.add_argument("--quick", action="store_true", help="10 million tokens, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", choices=MEMORIES, default="hashed")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--folder", help="where the files are, or go; by default a folder that is removed")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--parts", nargs="?", type=int, const=64, help="an exact table in so many parts (64)")
    parser.add_argument("--limit", type=int, default=1024, help="with --parts: MiB of memory a process")
    parser.add_argument("--engines", nargs="+", default=["processes", "ray"], help="with --parts: who learns")
    parser.add_argument("--run", choices=CONTENDERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(run_one(str(Path(args.folder, "files")), args.run, args.memory)))
        return
    if args.parts:
        import scale_parts

        with tempfile.TemporaryDirectory(prefix="hm") as made:
            scale_parts.main(Path(args.folder or made), args.tokens, args.parts, args.limit, args.engines)
        return
    tokens, rounds = (10_000_000, 1) if args.quick else (args.tokens, args.rounds)
    with tempfile.TemporaryDirectory(prefix="hm") as made:
        folder = Path(args.folder or made)
        (folder / "files").mkdir(parents=True, exist_ok=True)
        write_files(folder / "files", tokens)
        rows = race(str(folder), args.memory, rounds, args.only)
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    one = rows[0]
    print(f"{one['tokens']:,} tokens, {one['tasks']} tasks, {one['source_bytes_a_task'] / 2**20:.1f} MiB of files each")
    head = f"{'':20}{'seconds':>9}{'ratio':>8}{'best':>6}{'Mtok/s':>9}{'read':>8}{'learn':>8}"
    print(head + f"{'cpu s':>8}{'all':>7}{'load':>6}{'peak MiB':>10}{'idle':>7}{'start s':>9}")
    for row in rows:
        rates = [row["tokens"] / row["seconds"], row["read_tokens_a_second"], row["learn_tokens_a_second"]]
        print(
            f"{row['contender']:20}{row['seconds']:9.2f}{row['ratio']:8.2f}{row['best_ratio']:6.2f}"
            + f"{rates[0] / 1e6:9.2f}{rates[1] / 1e6:8.1f}{rates[2] / 1e6:8.2f}"
            + f"{row['cpu_seconds']:8.2f}{row['all_cpu_seconds']:7.2f}{row['load']:6.1f}"
            + f"{row['peak_bytes'] / 2**20:10.0f}{row['idle_bytes'] / 2**20:7.0f}{row['start_seconds']:9.1f}"
        )
    if "add_seconds" in one:
        print(
            f"A state: {one['state_bytes'] / 2**20:.2f} MiB; pack {1e3 * one['pack_seconds']:.1f} ms, unpack "
            f"{1e3 * one['unpack_seconds']:.1f} ms, add {1e3 * one['add_seconds']:.1f} ms. All states are equal.\n"
            f"A task, in processor time: {one['task_fixed_seconds']:.3f} s before its first token, then "
            f"{one['task_tokens_a_second'] / 1e6:.1f} million tokens a second."
        )


if __name__ == "__main__":
    main()
