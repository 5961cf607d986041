"""A table larger than memory.

It is learned, asked and edited in segments, by ``python benchmarks/scale.py --segments``.

    python benchmarks/scale.py --segments --tokens 300000000 --folder FOLDER
    python benchmarks/scale.py --segments --tokens 3000000

Zipf tokens (exponent 1, 50,000 types), every type a label, positions, h = 8. Two processes, and
then two workers of Ray, learn the files under RLIMIT_DATA of 1 GiB a process (``--limit`` MiB); it
is shown that the limit bites. The folders must be equal to the byte. Then, under the same limit,
1,000 queries are answered and compared with counts made from the tokens themselves; pages are
counted; a query is timed with all its pages in memory and with none, beside a bare ``pread`` of as
many bytes. A small model is compared with the table in memory: the streamed digest, and 10,000
examples added and 10,000 taken back, compacted, beside a fresh fit. With ``--folder`` it goes on
where it was stopped.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import MemoryClassifier, compact, load, save
from hammemo.engines import GroupReport, Machines, fit_documents
from hammemo.engines.segments import SegmentsJob
from hammemo.memories import Exact
from hammemo.paper.experiments.measuring import Row, cells, seconds, zipf_stream
from hammemo.sources.documents import open_source
from hammemo.tokens.contexts import Contexts
from scale_files import Watch, run_step, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

H = 8
N_TYPES = 50_000
N_QUERIES = 1000


def limit_memory(mebibytes: int) -> None:
    """Limit what this process, and those that it starts, may take."""
    resource.setrlimit(resource.RLIMIT_DATA, (mebibytes * 2**20,) * 2)


def run_fit(folder: str, engine: str, segments: int, limit: int) -> Row:
    """Learn the files in this process under the limit and return what it took."""
    limit_memory(limit)
    watch = Watch()
    reports = list[GroupReport]()
    runs = list[int]()
    out = str(Path(folder, engine))
    joined = SegmentsJob.open_segments

    def join_and_note(work: SegmentsJob, written: Any, segments: Any) -> Any:
        runs.extend(run.entries for run in written)
        return joined(work, written, segments)

    SegmentsJob.open_segments = join_and_note  # type: ignore[method-assign, assignment]
    started = time.perf_counter()
    estimator = MemoryClassifier("positional", memory=Exact(), vote="sum")
    machines = Machines(engine, 2, segments=segments, out=out, on_report=reports.append)
    model = fit_documents(estimator, open_source(str(Path(folder, "files"))), H, machines=machines)
    took = time.perf_counter() - started
    tokens, learning = (
        sum(getattr(report, name) for report in reports) for name in ("tokens", "cpu_seconds")
    )
    watched = watch.stop()
    facts = folder_facts(out)
    return {
        "engine": engine,
        "seconds": took,
        "task_cpu_seconds": learning,
        "tokens": tokens,
        "examples": int(model.memory_.label_counts.sum()),
        "groups": len(reports),
        "resumed": sum(report.resumed for report in reports),
        "runs": len(runs),
        "run_entries": sum(runs),
        **watched,
        **facts,
        "driver_mebibytes": watched["driver_peak"] / 2**20,
        "worker_mebibytes": watched["worker_peak"] / 2**20,
        "learnt_mega_tokens": tokens / learning / 1e6,
        "run_entries_a_token": sum(runs) / max(tokens, 1),
        "added_mega_entries": sum(runs) / (watched["all_cpu_seconds"] - learning) / 1e6,
        "entries_a_token": facts["entries"] / max(tokens, 1),
    }


def folder_facts(folder: str) -> Row:
    """Return the sizes of a folder, and a digest of all its files."""
    digest = hashlib.sha256()
    files = sorted(Path(folder).glob("*.safetensors"))
    for file in files:
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    stored = [signed.about[1] for signed in load(folder).memory_.segmented.files.segments.segments]
    size = sum(file.stat().st_size for file in files)
    entries = sum(segment.entries for segment in stored)
    return {
        "digest": digest.hexdigest(),
        "segments": len(stored),
        "mebibytes": size / 2**20,
        "largest_mebibytes": max(segment.bytes for segment in stored) / 2**20,
        "entries": entries,
        "rows": sum(segment.rows for segment in stored),
        "bytes_an_entry": size / entries,
    }


def all_queries() -> NDArray[Any]:
    """Return contexts as the files have them: frequent tokens often, rare ones too."""
    return zipf_stream(N_QUERIES * H, N_TYPES, seed=10**6).reshape(N_QUERIES, H)


def brute_force(files: Path, queries: NDArray[Any]) -> NDArray[Any]:
    """Return the best labels, counted from the tokens themselves.

    There is no table, and one pass for each position.
    """
    scores = np.zeros((len(queries), N_TYPES), np.int32)
    for position in range(H):
        token_values, rows = np.unique(queries[:, position], return_inverse=True)
        place = np.full(N_TYPES, -1, np.int64)
        place[token_values] = np.arange(len(token_values))
        counts = np.zeros(len(token_values) * N_TYPES, np.int32)
        for path in sorted(files.glob("*.parquet")):
            tokens, starts = _tokens(path)
            targets = np.ones(len(tokens), bool)
            for back in range(H):
                targets[np.minimum(starts[:-1] + back, len(tokens) - 1)] = False
            labels = np.flatnonzero(targets)
            rows_of_tokens = place[tokens[labels - H + position]]
            is_queried = rows_of_tokens >= 0
            keys, times = np.unique(
                rows_of_tokens[is_queried] * N_TYPES + tokens[labels[is_queried]],
                return_counts=True,
            )
            counts[keys] += times.astype(np.int32)
        scores += counts.reshape(len(token_values), N_TYPES)[rows]
    seen_labels = np.unique(
        np.concatenate([np.unique(_tokens(path)[0]) for path in files.glob("*.parquet")])
    )
    return np.asarray(seen_labels[scores[:, seen_labels].argmax(axis=1)])


def _tokens(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the tokens of a file, and where its documents start."""
    from pyarrow import parquet

    column = parquet.read_table(path)["tokens"].combine_chunks()
    return column.values.to_numpy(), column.offsets.to_numpy()


def run_queries(folder: str, limit: int) -> Row:
    """Answer and time queries in this process under the limit."""
    limit_memory(limit)
    watch = Watch()
    started = time.perf_counter()
    model = load(str(Path(folder, "processes")))
    opening = time.perf_counter() - started
    queries = all_queries()
    started = time.perf_counter()
    np.save(Path(folder, "answers.npy"), model.predict(queries))
    batch = time.perf_counter() - started
    again = seconds(model.predict, queries, clock=time.perf_counter)
    facts = {
        "open_seconds": opening,
        "first_batch_us": 1e6 * batch / N_QUERIES,
        "batch_us": 1e6 * again / N_QUERIES,
    }
    facts |= (
        _pages(model, queries[:200]) | _times(model, queries[:100]) | _edits(model, queries[:200])
    )
    return {**facts, "peak_mebibytes": watch.stop()["driver_peak"] / 2**20}


def _rows_read(model: Any, query: NDArray[Any]) -> Iterator[tuple[int, Any, int, Any]]:
    """Yield (number of its segment, the segment, site, place) of every row that a query reads."""
    segments = model.memory_.segmented.files.segments
    for k, position in enumerate(model.sites_.positions):
        place = int(segments.vocabulary.ints.searchsorted(query[position[0]]))
        for number, view in enumerate(segments._views):
            rank = int(view.own_ranks[place])
            ends = view.ends
            if ends is not None and ends[0] <= place <= ends[1] and rank >= 0:
                yield number, view.segment, k, np.array([[rank]])


def _pages(model: Any, queries: NDArray[Any]) -> Row:
    """Count the pages that a query touches at a site.

    The counts are those of records, and those of its range of entries.
    """
    most_records = 0
    most_over = 0
    pages = []
    for query in queries:
        total = 0
        for _, segment, k, place in _rows_read(model, query):
            touch = segment._touch
            touch.touched = set()
            places = segment.find(k, place)
            records = len(touch.touched)
            touch.touched = set()
            starts, stops = segment.spans(k, places)
            segment.entries(starts, stops)
            read = int(stops[0] - starts[0]) * segment.entry_bytes.itemsize
            most_records = max(most_records, records)
            most_over = max(most_over, len(touch.touched) - (-(-read // 4096)))
            total += records + len(touch.touched)
            touch.touched = None
        pages.append(total)
    return {
        "index_pages_a_site": most_records,
        "pages_beyond_the_range": most_over,
        "pages_a_query": median(pages),
        "most_pages_a_query": max(pages),
    }


def _times(model: Any, queries: NDArray[Any]) -> Row:
    """Time single queries, and bare reads.

    The clock is that of the processor with pages in memory, and that on the wall without.
    """
    segments = model.memory_.segmented.files.segments
    reader = model.memory_.reader()
    files = [os.open(view.segment.name, os.O_RDONLY) for view in segments._views]
    maps = [view.segment._touch.data.base for view in segments._views]

    def drop() -> None:
        for mapped, file in zip(maps, files, strict=True):
            getattr(mapped, "_mmap", mapped).madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    contexts = [Contexts.of(query[None]) for query in queries]
    spans = [_spans(model, query) for query in queries]
    divisor = np.full(len(reader.labels), float(H))
    calls: dict[str, Callable[[int], Any]] = {
        "pread": lambda n: [os.pread(files[file], size, first) for file, first, size in spans[n]],
        "rows": lambda n: reader.rows.read(contexts[n]),
        "winner": lambda n: reader.winners(contexts[n], model.sites_.weights, divisor),
        "predict": lambda n: model.predict(queries[n : n + 1]),
    }

    def cold(ask: Callable[[int], Any], n: int) -> float:
        drop()
        return seconds(ask, n, clock=time.perf_counter)

    times = {
        "kibibytes_a_query": float(np.mean([sum(size for *_, size in one) for one in spans])) / 1024
    }
    for name, ask in calls.items():
        warm = [[seconds(ask, n) for n in range(len(queries))] for _ in range(2)][1]
        times[f"{name}_warm_us"] = 1e6 * median(warm)
        times[f"{name}_cold_us"] = 1e6 * median(cold(ask, n) for n in range(len(queries)))
    return times


def _edits(model: Any, queries: NDArray[Any]) -> dict[str, float]:
    """Time single edits, and a question after each, in processor time; no file is changed."""
    examples = [(query.tolist(), int(query[0])) for query in queries]

    def measure_change(change: Callable[..., Any]) -> float:
        return 1e6 * median(seconds(change, *example) for example in examples)

    def learn_and_ask(row: list[int], label: int) -> None:
        model.learn_one(row, label)
        model.predict([row])

    times = {
        "learn_one_us": measure_change(model.learn_one),
        "learn_and_predict_us": measure_change(learn_and_ask),
    }
    measure_change(model.forget_one)
    measure_change(model.learn_one)
    return {**times, "forget_one_us": measure_change(model.forget_one)}


def _spans(model: Any, query: NDArray[Any]) -> list[tuple[int, int, int]]:
    """Return (file, place, bytes) of all rows that a query reads."""
    spans = []
    for number, segment, k, place in _rows_read(model, query):
        (start,), (stop,) = segment.spans(k, segment.find(k, place))
        entries = segment.entry_bytes
        first = entries.ctypes.data - segment._touch._address + int(start) * entries.itemsize
        spans.append((number, first, int(stop - start) * entries.itemsize))
    return spans


def small_checks() -> Row:
    """Compare a small model in segments with a table in memory, and its edits with a fresh fit."""
    tokens = zipf_stream(200_000, 2000, seed=7)
    windows = np.lib.stride_tricks.sliding_window_view(tokens, H + 1)
    X = windows[:, :H]
    y = windows[:, H]
    first = slice(0, 150_000)
    more = slice(150_000, 160_000)
    whole = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X[first], y[first])
    with tempfile.TemporaryDirectory() as folder:
        save(whole, folder, segments=8)
        same = load(folder).memory_.state_digest() == whole.memory_.state_digest()
        model = load(folder)
        started = time.perf_counter()
        model.partial_fit(X[more], y[more]).forget(X[:10_000], y[:10_000])
        edited = time.perf_counter() - started
        for row, label in zip(X[160_000:160_100], y[160_000:160_100], strict=True):
            model.learn_one(row.tolist(), int(label))
        save(model, folder)
        started = time.perf_counter()
        compact(folder)
        folded = time.perf_counter() - started
        fresh = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(
            X[10_000:160_100], y[10_000:160_100]
        )
        equal = load(folder).memory_.state_digest() == fresh.memory_.state_digest()
    return {
        "streamed_digest_equal": same,
        "edits_equal_fresh_fit": equal,
        "edit_seconds": edited,
        "compact_seconds": folded,
    }


def limit_bites(limit: int) -> bool:
    """Return whether a process under the limit is refused a little more than that."""
    text = (
        "import resource, numpy; resource.setrlimit(resource.RLIMIT_DATA, "
        f"({limit * 2**20},) * 2); "
    )
    text += f"numpy.ones({limit * 2**17})"
    ended = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False
    )
    return "MemoryError" in ended.stderr


def _run_step_once(what: str, folder: Path, segments: int, limit: int) -> Row:
    """Run a step in a process of its own, or return what an earlier call has written of it."""
    record = folder / f"{what}.json"
    if not record.exists():
        record.write_text(
            json.dumps(run_step(__file__, folder, what, str(folder), str(segments), str(limit)))
        )
    facts: Row = json.loads(record.read_text())
    return facts


LEARNT = (
    "{engine:10} {examples:,} examples, {groups} groups ({resumed} done before), {seconds:.0f} "
    "s, {all_cpu_seconds:.0f} processor seconds ({task_cpu_seconds:.0f} learning); peak "
    "RssAnon {driver_mebibytes:.0f} MiB driver, {worker_mebibytes:.0f} MiB per worker\n"
    "           {learnt_mega_tokens:.2f} million tokens a processor second learnt; {runs} runs "
    "with {run_entries:,} entries, {run_entries_a_token:.2f} a token; {added_mega_entries:.2f} "
    "million of these a processor second of all else; {entries_a_token:.2f} entries a token in "
    "the end"
)
STORED = (
    "{segments} segments, {mebibytes:,.0f} MiB, the largest {largest_mebibytes:.0f} MiB; "
    "{entries:,} entries in {rows:,} rows, {bytes_an_entry:.2f} bytes an entry"
)
ASKED = (
    "A site touches {index_pages_a_site} pages of records at most, and its range of entries on "
    "at most {pages_beyond_the_range} page more than its bytes fill; a query "
    "{pages_a_query:.0f} pages (most {most_pages_a_query}), {kibibytes_a_query:.0f} KiB of "
    "entries\n"
    "warm, median us: pread of the same bytes {pread_warm_us:.0f}, rows {rows_warm_us:.0f}, "
    "winner {winner_warm_us:.0f}, predict {predict_warm_us:.0f}\n"
    "cold, median us: pread of the same bytes {pread_cold_us:.0f}, rows {rows_cold_us:.0f}, "
    "winner {winner_cold_us:.0f}, predict {predict_cold_us:.0f}\n"
    "opening {open_seconds:.2f} s; a batch: {batch_us:.0f} us a query, {first_batch_us:.0f} "
    "the first time, with pages to be checked\n"
    "edits on top, median us: learn_one {learn_one_us:.0f}, forget_one {forget_one_us:.0f}, "
    "learn_one and then predict {learn_and_predict_us:.0f}"
)
SMALL = (
    "Small model: streamed digest {streamed_digest_equal:equal/DIFFERS}; 10,000 examples added "
    "and 10,000 taken back in {edit_seconds:.2f} s, compact {compact_seconds:.2f} s: "
    "{edits_equal_fresh_fit:equal to/DIFFERS FROM} a fresh fit"
)


def run(folder: Path, tokens: int, segments: int, limit: int, engines: list[str]) -> None:
    """Print all of it."""
    write_files(folder / "files", tokens, N_TYPES, 2**20, group_documents=64)
    print(
        f"RLIMIT_DATA {limit} MiB: {'bites' if limit_bites(limit) else 'DOES NOT BITE'}", flush=True
    )
    runs = [_run_step_once(engine, folder, segments, limit) for engine in engines]
    print("\n".join([*(cells(LEARNT, one) for one in runs), cells(STORED, runs[0])]), flush=True)
    if len(runs) > 1:
        same = len({one["digest"] for one in runs}) == 1
        print("All folders are equal to the byte." if same else "THE FOLDERS DIFFER")
    answers = _run_step_once("queries", folder, segments, limit)
    wrong = int(
        (np.load(folder / "answers.npy") != brute_force(folder / "files", all_queries())).sum()
    )
    peak = answers["peak_mebibytes"]
    print(
        f"{N_QUERIES} answers under the limit, {wrong} differ from brute force; "
        f"peak RssAnon {peak:.0f} MiB"
    )
    print(cells(ASKED, answers), flush=True)
    print(cells(SMALL, small_checks()))


if __name__ == "__main__":
    step = sys.argv[1]
    where = sys.argv[2]
    n_segments = int(sys.argv[3])
    most = int(sys.argv[4])
    print(
        json.dumps(
            run_queries(where, most)
            if step == "queries"
            else run_fit(where, step, n_segments, most)
        )
    )
