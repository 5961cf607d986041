"""Learning files on one process, two threads, two processes and two Ray workers.

Printed are rates, ratios and memory.

    python benchmarks/scale.py --tokens 100000000
    python benchmarks/scale.py --quick                  # 10 million tokens
    python benchmarks/scale.py --memory exact --quick
    python benchmarks/scale.py --segments --tokens 300000000 --folder FOLDER

Zipf tokens (33,278 types) in documents of a thousand, in Parquet files of 4 million tokens with row
groups of 256 documents; contexts of 8, the 64 most frequent tokens of the sample as labels; 2048
buckets and 1024 reserved tokens. Every contender runs in a process of its own, in turn, so many
rounds; "ratio" is that of the medians and "best" that of the shortest times, both to the first
contender. Starting Ray and importing Python packages is not part of the time and is printed apart.
All states are compared to the byte.

On a machine with other work on it the ratio says little. "cpu s" does not depend on that: it is
what the processor spent in the tasks, and "all" what it spent on all processes of the run. Two
cores of one's own could do no better than twice the first contender's "all" divided by this one's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import scale_segments
from hammemo import MemoryClassifier
from hammemo.engines import GroupReport, Machines, fit_documents
from hammemo.engines.jobs import Job, Shards, pack, peak_memory, unpack
from hammemo.memories import Exact, Hashed
from hammemo.paper.experiments.measuring import Row, seconds, table
from hammemo.sources.documents import open_source
from measures import in_turns, options, show
from scale_files import Watch, run_step, write_files

H = 8
N_LABELS = 64
MEMORIES = {"hashed": Hashed(buckets=2048, reserved=1024), "exact": Exact()}
CONTENDERS = {
    "one process": ("threads", 1),
    "two threads": ("threads", 2),
    "two processes": ("processes", 2),
    "Ray, one worker": ("ray", 1),
    "Ray, two workers": ("ray", 2),
}


def run_one(folder: str, contender: str, memory: str) -> Row:
    """Learn the files once in this process and return what it took."""
    engine, workers = CONTENDERS[contender]
    started = time.perf_counter()
    idle = _start_ray(workers) if engine == "ray" else peak_memory()
    start_seconds = time.perf_counter() - started
    reports: list[GroupReport] = []
    load = os.getloadavg()[0]
    watch = Watch()
    started = time.perf_counter()
    clf = MemoryClassifier("positional", memory=MEMORIES[memory], vote="sum")
    machines = Machines(engine, workers, on_report=reports.append)
    model = fit_documents(clf, open_source(folder), H, classes=N_LABELS, machines=machines)
    took = time.perf_counter() - started
    all_cpu = watch.stop()["all_cpu_seconds"]
    tokens = sum(report.tokens for report in reports)
    reading = sum(report.reading_seconds for report in reports)
    learning = sum(report.seconds for report in reports) - reading
    return {
        "contender": contender,
        "seconds": took,
        "start_seconds": start_seconds,
        "tokens": tokens,
        "tasks": len(reports),
        "source_mebibytes_a_task": sum(report.source_bytes for report in reports)
        / len(reports)
        / 2**20,
        "mega_tokens_a_second": tokens / took / 1e6,
        "read_mega_tokens_a_second": tokens / reading / 1e6,
        "learn_mega_tokens_a_second": tokens / learning / 1e6,
        "cpu_seconds": sum(report.cpu_seconds for report in reports),
        "all_cpu_seconds": all_cpu,
        "load": load,
        "idle_mebibytes": idle / 2**20,
        "peak_mebibytes": max(report.peak_bytes for report in reports) / 2**20,
        "driver_peak_mebibytes": peak_memory() / 2**20,
        "digest": hashlib.sha256(model.memory_.state_bytes()).hexdigest(),
        **(
            {"costs": _merging(model) | _task_costs(model, folder, memory)}
            if contender == "one process"
            else {}
        ),
    }


def _start_ray(workers: int) -> int:
    """Start Ray with its workers warm and return the memory that one has before it learns."""
    import ray

    ray.init(
        "local",
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )

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
    other = unpack(template, arrays)
    runs = {
        "pack, ms": lambda: pack(memory),
        "unpack, ms": lambda: unpack(template, arrays),
        "add, ms": lambda: total.merge(other),
    }
    size = sum(array.nbytes for array in arrays.values()) / 2**20
    took = in_turns(runs, 5, time.perf_counter)
    return {"state, MiB": size, **{name: 1e3 * median(values) for name, values in took.items()}}


def _task_costs(model: MemoryClassifier, folder: str, memory: str) -> dict[str, float]:
    """Return the processor time of a task before its first token, and tokens a second beyond."""
    source = open_source(folder)
    job = Job(model.memory_.empty_like(), source, H, "drop", pad=None, labels=model.memory_.labels)

    def learn_and_pack(shards: Shards) -> object:
        return pack(job.learn(0, shards)[0])

    tokens = []
    spent = []
    for number in (1, 4) if memory == "exact" else (4, 16):  # shards of one row group or two
        shards = tuple(source.shards(2**20)[:number])
        spent.append(min(seconds(learn_and_pack, shards, clock=time.thread_time) for _ in range(3)))
        tokens.append(job.learn(0, shards)[1].tokens)
    rate = (tokens[1] - tokens[0]) / (spent[1] - spent[0])
    return {
        "task, tokens a second": rate,
        "task, seconds before its first token": spent[0] - tokens[0] / rate,
    }


def race(folder: Path, memory: str, rounds: int, names: list[str]) -> list[Row]:
    """Run every contender this many times in turn, in its own process; return the medians."""
    runs: dict[str, list[Row]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            run = run_step(
                __file__, folder, "--run", name, "--folder", str(folder), "--memory", memory
            )
            runs[name].append(run)
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


def main() -> None:
    parser = options(__doc__, as_json="everything")
    parser.add_argument("--tokens", type=int, default=100_000_000)
    parser.add_argument("--quick", action="store_true", help="10 million tokens, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", choices=MEMORIES, default="hashed")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument(
        "--folder", help="where the files are, or go; by default a folder that is removed"
    )
    parser.add_argument(
        "--segments", nargs="?", type=int, const=64, help="an exact table in so many segments (64)"
    )
    parser.add_argument(
        "--limit", type=int, default=1024, help="with --segments: MiB of memory a process"
    )
    parser.add_argument(
        "--engines", nargs="+", default=["processes", "ray"], help="with --segments: who learns"
    )
    parser.add_argument("--run", choices=CONTENDERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(run_one(str(Path(args.folder, "files")), args.run, args.memory)))
        return
    with tempfile.TemporaryDirectory(prefix="hm") as temporary_folder:
        folder = Path(args.folder or temporary_folder)
        if args.segments:
            scale_segments.run(folder, args.tokens, args.segments, args.limit, engines=args.engines)
            return
        tokens = 10_000_000 if args.quick else args.tokens
        rounds = 1 if args.quick else args.rounds
        write_files(folder / "files", tokens, 33_278, 2**22, group_documents=256)
        rows = race(folder, args.memory, rounds, args.only)
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    one = rows[0]
    print(
        f"{one['tokens']:,} tokens, {one['tasks']} tasks, "
        f"{one['source_mebibytes_a_task']:.1f} MiB of files each\n"
    )
    lines = table(
        rows,
        "contender | seconds | ratio | best | Mtok/s | read | learn | cpu s | all | load | "
        "peak MiB | idle | start s",
        "{contender} | {seconds:.2f} | {ratio:.2f} | {best_ratio:.2f} | "
        "{mega_tokens_a_second:.2f} | {read_mega_tokens_a_second:.1f} | "
        "{learn_mega_tokens_a_second:.2f} | {cpu_seconds:.2f} | {all_cpu_seconds:.2f} | "
        "{load:.1f} | {peak_mebibytes:.0f} | {idle_mebibytes:.0f} | {start_seconds:.1f}",
    )
    print("\n".join(lines))
    if "costs" in one:
        show(
            {"\nA state, and a task in processor time; all states are equal": one["costs"]},
            as_json=False,
        )


if __name__ == "__main__":
    main()
