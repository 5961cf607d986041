"""A table larger than memory: learnt, asked and edited in parts. Called by ``python benchmarks/scale.py --parts``.

    python benchmarks/scale.py --parts --tokens 300000000 --folder FOLDER     # goes on where it was stopped
    python benchmarks/scale.py --parts --tokens 3000000

Zipf tokens (exponent 1, 50,000 types), every type a label, positions, h = 8. Two processes, and then two workers of
Ray, learn the files under RLIMIT_DATA of 1 GiB a process (``--limit`` MiB); it is shown that the limit bites. The
folders must be equal to the byte. Then, under the same limit, 1,000 queries are answered and compared with counts made
from the tokens themselves; pages are counted; a query is timed with all its pages in memory and with none, beside a
bare ``pread`` of as many bytes. A small model is compared with the table in memory: the streamed digest, and 10,000
examples added and 10,000 taken back, compacted, beside a fresh fit. With ``--folder`` it goes on where it was stopped.
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
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import scale
from hammemo import Exact, MemoryClassifier, compact, load, save
from hammemo.engines import GroupReport, fit
from hammemo.engines.parts import PartsJob
from hammemo.experiments.speed import zipf_stream
from hammemo.sources.documents import open_source

H, N_TYPES, N_QUERIES = 8, 50_000, 1000
FILE_TOKENS, DOCUMENT_TOKENS, GROUP_DOCUMENTS = 2**20, 1000, 64


def write_files(folder: Path, tokens: int) -> None:
    """Write the Parquet files that are not there yet."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, tokens, FILE_TOKENS)):
        path = folder / f"{number:05d}.parquet"
        if path.exists():
            continue
        stream = zipf_stream(min(FILE_TOKENS, tokens - first), N_TYPES, seed=number).astype(np.int32)
        edges = np.append(np.arange(0, len(stream), DOCUMENT_TOKENS), len(stream))
        documents = pa.ListArray.from_arrays(pa.array(edges, pa.int32()), pa.array(stream))
        parquet.write_table(pa.table({"tokens": documents}), path.with_suffix(".tmp"), row_group_size=GROUP_DOCUMENTS)
        os.replace(path.with_suffix(".tmp"), path)


def limit_memory(mebibytes: int) -> None:
    """Limit what this process, and those that it starts, may take."""
    resource.setrlimit(resource.RLIMIT_DATA, (mebibytes * 2**20,) * 2)


class Watch:
    """Takes note of the most anonymous memory, and of the processor time, of each process of this run.

    It looks five times a second, so that processes count which end before this one does.
    """

    def __init__(self) -> None:
        self.peaks: dict[int, tuple[int, str]] = {}
        self._ticks: dict[int, int] = {}
        self._look()
        self._before = self.cpu_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            self._look()

    def _look(self) -> None:
        home = f"HOME={os.environ['HOME']}\0".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if home in (process / "environ").read_bytes():
                    status = (process / "status").read_text()
                    anonymous = int(status.split("RssAnon:")[1].split()[0]) * 1024
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    number = int(process.name)
                    self.peaks[number] = (max(self.peaks.get(number, (0, ""))[0], anonymous), command)
                    self._ticks[number] = sum(
                        map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:13])
                    )
            except (OSError, IndexError):
                continue

    @property
    def cpu_seconds(self) -> float:
        """What the processor has spent on all these processes."""
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> tuple[int, int, float]:
        """Return the peak of this process, the largest of all workers, and the processor seconds since the start."""
        self._stop.set()
        self._thread.join()
        self._look()
        workers = [peak for pid, (peak, text) in self.peaks.items() if "loky" in text or text.startswith("ray::")]
        return self.peaks.get(os.getpid(), (0, ""))[0], max(workers, default=0), self.cpu_seconds - self._before


def run_fit(folder: str, engine: str, parts: int, limit: int) -> dict[str, Any]:
    """Learn the files in this process under the limit and return what it took."""
    limit_memory(limit)
    watch, reports, runs = Watch(), list[GroupReport](), list[int]()
    out = str(Path(folder, engine))
    joined = PartsJob.parted

    def noted(work: PartsJob, written: Any, parts: Any) -> Any:
        runs.extend(run.entries for run in written)
        return joined(work, written, parts)

    PartsJob.parted = noted  # type: ignore[method-assign, assignment]
    started = time.perf_counter()
    estimator = MemoryClassifier(memory=Exact(), vote="sum")
    options: dict[str, Any] = {"engine": engine, "workers": 2, "parts": parts, "out": out}
    model = fit(estimator, open_source(str(Path(folder, "files"))), H, on_report=reports.append, **options)
    facts = {
        "engine": engine,
        "seconds": time.perf_counter() - started,
        "task_cpu_seconds": sum(report.cpu_seconds for report in reports),
        "tokens": sum(report.tokens for report in reports),
        "examples": int(model.memory_.label_counts.sum()),
        "groups": len(reports),
        "resumed": sum(report.resumed for report in reports),
        "runs": len(runs),
        "run_entries": sum(runs),
    }
    facts["driver_peak"], facts["worker_peak"], facts["all_cpu_seconds"] = watch.stop()
    return {**facts, **folder_facts(out)}


def folder_facts(folder: str) -> dict[str, Any]:
    """Return the sizes of a folder, and a digest of all its files."""
    digest, files = hashlib.sha256(), sorted(Path(folder).glob("*.safetensors"))
    for file in files:
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    about = load(folder).memory_.parted
    sizes = [signed.about[1].bytes for signed in about.files.parts.parts]
    return {
        "digest": digest.hexdigest(),
        "parts": len(sizes),
        "bytes": sum(file.stat().st_size for file in files),
        "largest_part": max(sizes),
        "entries": sum(signed.about[1].entries for signed in about.files.parts.parts),
        "rows": sum(signed.about[1].rows for signed in about.files.parts.parts),
    }


def queries_of(folder: str) -> np.ndarray[Any, Any]:
    """Return contexts as the files have them: frequent tokens often, rare ones too."""
    stream = zipf_stream(N_QUERIES * H, N_TYPES, seed=10**6)
    assert Path(folder).exists()
    return stream.reshape(N_QUERIES, H)


def brute_force(files: Path, queries: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the best labels, counted from the tokens themselves: no table, one pass for each position."""
    import pyarrow.parquet as parquet

    scores = np.zeros((len(queries), N_TYPES), np.int32)
    for position in range(H):
        wanted, rows = np.unique(queries[:, position], return_inverse=True)
        place = np.full(N_TYPES, -1, np.int64)
        place[wanted] = np.arange(len(wanted))
        counts = np.zeros(len(wanted) * N_TYPES, np.int32)
        for path in sorted(files.glob("*.parquet")):
            column = parquet.read_table(path)["tokens"].combine_chunks()
            tokens, starts = column.values.to_numpy(), column.offsets.to_numpy()
            targets = np.ones(len(tokens), bool)
            for back in range(H):
                targets[np.minimum(starts[:-1] + back, len(tokens) - 1)] = False
            labels = np.flatnonzero(targets)
            found = place[tokens[labels - H + position]]
            held = found >= 0
            keys, times = np.unique(found[held] * N_TYPES + tokens[labels[held]], return_counts=True)
            counts[keys] += times.astype(np.int32)
        scores += counts.reshape(len(wanted), N_TYPES)[rows]
    seen = np.flatnonzero(np.bincount(all_labels(files), minlength=N_TYPES))
    return np.asarray(seen[scores[:, seen].argmax(axis=1)])


def all_labels(files: Path) -> np.ndarray[Any, Any]:
    """Return all tokens: which of them are labels."""
    import pyarrow.parquet as parquet

    return np.unique(
        np.concatenate(
            [
                np.unique(parquet.read_table(p)["tokens"].combine_chunks().values.to_numpy())
                for p in files.glob("*.parquet")
            ]
        )
    )


def run_queries(folder: str, limit: int) -> dict[str, Any]:
    """Answer and time queries in this process under the limit."""
    limit_memory(limit)
    watch = Watch()
    started = time.perf_counter()
    model = load(str(Path(folder, "processes")))
    opening = time.perf_counter() - started
    queries = queries_of(folder)
    started = time.perf_counter()
    answers = model.predict(queries)
    batch = (time.perf_counter() - started) / len(queries)
    np.save(Path(folder, "answers.npy"), answers)
    started = time.perf_counter()
    model.predict(queries)
    again = (time.perf_counter() - started) / len(queries)
    facts = {"open_seconds": opening, "first_batch_us": 1e6 * batch, "batch_us": 1e6 * again}
    facts |= _pages(model, queries[:200])
    facts |= _times(model, queries[:100])
    facts |= _edits(model, queries[:200])
    facts["peak"] = watch.stop()[0]
    return facts


def _pages(model: Any, queries: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Count the pages that a query touches at a site: those of records, and those of its range of entries."""
    parts = model.memory_.parted.files.parts
    most_records, most_over, pages, sizes = 0, 0, [], []
    for query in queries:
        total = 0
        for k, position in enumerate(model.sites_.positions):
            for view in parts._views:
                here = parts.vocabulary.ints.searchsorted(query[position[0]])
                rank, ends = int(view.own_ranks[here]), view.ends
                if ends is None or not ends[0] <= here <= ends[1] or rank < 0:
                    continue
                touch = view.part._touch
                touch.touched = set()
                found = view.part.find(k, np.array([[rank]]))
                records = len(touch.touched)
                touch.touched = set()
                starts, stops = view.part.spans(k, found)
                view.part.entries(starts, stops)
                read = int(stops[0] - starts[0]) * view.part.entry_bytes.itemsize
                most_records = max(most_records, records)
                most_over = max(most_over, len(touch.touched) - (-(-read // 4096)))
                total += records + len(touch.touched)
                sizes.append(read)
                touch.touched = None
        pages.append(total)
    return {
        "index_pages_a_site": most_records,
        "pages_beyond_the_range": most_over,
        "pages_a_query": median(pages),
        "most_pages_a_query": max(pages),
        "bytes_a_row": float(np.mean(sizes)),
    }


def _times(model: Any, queries: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Time single queries, in processor time with their pages in memory, in wall time without, and bare reads."""
    parts = model.memory_.parted.files.parts
    reader, files = model.memory_.reader(), [os.open(view.part.name, os.O_RDONLY) for view in parts._views]
    maps = [view.part._touch.data.base for view in parts._views]

    def drop() -> None:
        for mapped, file in zip(maps, files, strict=True):
            getattr(mapped, "_mmap", mapped).madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    from hammemo.tokens.contexts import Contexts

    contexts = [Contexts.of(query[None]) for query in queries]
    spans = [_spans(parts, model.sites_, query) for query in queries]

    def timed(ask: Any, *, cold: bool) -> float:
        taken, clock = [], time.perf_counter if cold else time.process_time
        for number in range(len(queries)):
            if cold:
                drop()
            started = clock()
            ask(number)
            taken.append(clock() - started)
        return 1e6 * median(taken)

    def pread(number: int) -> None:
        for file, first, size in spans[number]:
            os.pread(files[file], size, first)

    def rows(number: int) -> None:
        reader.rows.read(contexts[number])

    def winner(number: int) -> None:
        reader.winners(contexts[number], model.sites_.weights, np.broadcast_to(np.float64(H), (len(reader.labels),)))

    times = {}
    for name, ask in (
        ("pread", pread),
        ("rows", rows),
        ("winner", winner),
        ("predict", lambda n: model.predict(queries[n : n + 1])),
    ):
        timed(ask, cold=False)
        times[f"{name}_warm_us"] = timed(ask, cold=False)
        times[f"{name}_cold_us"] = timed(ask, cold=True)
    times["bytes_a_query"] = float(np.mean([sum(size for *_, size in one) for one in spans]))
    return times


def _edits(model: Any, queries: np.ndarray[Any, Any]) -> dict[str, float]:
    """Time single edits, and a question after each, in processor time; the folder stays as it is."""
    examples = [(query.tolist(), int(query[0])) for query in queries]

    def timed(change: Any) -> float:
        taken = []
        for row, label in examples:
            started = time.process_time()
            change(row, label)
            taken.append(time.process_time() - started)
        return 1e6 * median(taken)

    def learn_and_ask(row: list[int], label: int) -> None:
        model.learn_one(row, label)
        model.predict([row])

    found = {"learn_one_us": timed(model.learn_one), "learn_and_predict_us": timed(learn_and_ask)}
    timed(model.forget_one)
    timed(model.learn_one)
    return {**found, "forget_one_us": timed(model.forget_one)}


def _spans(parts: Any, sites: Any, query: np.ndarray[Any, Any]) -> list[tuple[int, int, int]]:
    """Return (file, place, bytes) of all rows that a query reads."""
    found = []
    for k, position in enumerate(sites.positions):
        here = int(parts.vocabulary.ints.searchsorted(query[position[0]]))
        for number, view in enumerate(parts._views):
            ends = view.ends
            if ends is None or not ends[0] <= here <= ends[1]:
                continue
            starts, stops = view.part.spans(k, view.part.find(k, np.array([[int(view.own_ranks[here])]])))
            entries = view.part.entry_bytes
            place = entries.ctypes.data - view.part._touch._address + int(starts[0]) * entries.itemsize
            found.append((number, place, int(stops[0] - starts[0]) * entries.itemsize))
    return found


def small_checks() -> dict[str, Any]:
    """Compare a small model in parts with a table in memory, and edits on top with a fresh fit."""
    tokens = zipf_stream(200_000, 2000, seed=7)
    windows = np.lib.stride_tricks.sliding_window_view(tokens, H + 1)
    X, y = windows[:, :H], windows[:, H]
    first, more = slice(0, 150_000), slice(150_000, 160_000)
    whole = MemoryClassifier(memory=Exact(), vote="sum").fit(X[first], y[first])
    with tempfile.TemporaryDirectory() as folder:
        save(whole, folder, parts=8)
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
        fresh = MemoryClassifier(memory=Exact(), vote="sum").fit(X[10_000:160_100], y[10_000:160_100])
        equal = load(folder).memory_.state_digest() == fresh.memory_.state_digest()
    return {
        "streamed_digest_equal": same,
        "edits_equal_fresh_fit": equal,
        "edit_seconds": edited,
        "compact_seconds": folded,
    }


def limit_bites(limit: int) -> bool:
    """Return whether a process under the limit is refused a little more than that."""
    text = f"import resource, numpy; resource.setrlimit(resource.RLIMIT_DATA, ({limit * 2**20},) * 2); "
    text += f"numpy.ones({limit * 2**17})"
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    return "MemoryError" in ended.stderr


def _run(what: str, folder: Path, *, parts: int, limit: int) -> dict[str, Any]:
    """Run a step in a process of its own, or return what an earlier call has written of it."""
    record = folder / f"{what}.json"
    if not record.exists():
        command = [sys.executable, __file__, what, str(folder), str(parts), str(limit)]
        ended = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, env={**os.environ, **scale._quiet(str(folder))}
        )
        record.write_bytes(ended.stdout.splitlines()[-1])
    facts: dict[str, Any] = json.loads(record.read_text())
    return facts


def main(folder: Path, tokens: int, parts: int, limit: int, engines: list[str]) -> None:
    """Print all of it."""
    write_files(folder / "files", tokens)
    print(f"RLIMIT_DATA {limit} MiB: {'bites' if limit_bites(limit) else 'DOES NOT BITE'}", flush=True)
    runs = [_run(engine, folder, parts=parts, limit=limit) for engine in engines]
    for run in runs:
        print(
            f"{run['engine']:10} {run['examples']:,} examples, {run['groups']} groups ({run['resumed']} done before), "
            f"{run['seconds']:.0f} s, {run['all_cpu_seconds']:.0f} processor seconds "
            f"({run['task_cpu_seconds']:.0f} learning); peak RssAnon {run['driver_peak'] / 2**20:.0f} MiB driver, "
            f"{run['worker_peak'] / 2**20:.0f} MiB a worker"
        )
        adding = run["all_cpu_seconds"] - run["task_cpu_seconds"]
        print(
            f"{'':10} {run['tokens'] / run['task_cpu_seconds'] / 1e6:.2f} million tokens a processor second learnt; "
            f"{run['runs']} runs with {run['run_entries']:,} entries, "
            f"{run['run_entries'] / max(run['tokens'], 1):.2f} a token; "
            f"{run['run_entries'] / adding / 1e6:.2f} million of these a processor second of all else; "
            f"{run['entries'] / max(run['tokens'], 1):.2f} entries a token in the end"
        )
    one = runs[0]
    print(
        f"{one['parts']} parts, {one['bytes'] / 2**20:,.0f} MiB, the largest {one['largest_part'] / 2**20:.0f} MiB; "
        f"{one['entries']:,} entries in {one['rows']:,} rows, {one['bytes'] / one['entries']:.2f} bytes an entry"
    )
    if len(runs) > 1:
        print(
            "All folders are equal to the byte." if len({run["digest"] for run in runs}) == 1 else "THE FOLDERS DIFFER"
        )
    asked = _run("queries", folder, parts=parts, limit=limit)
    truth = brute_force(folder / "files", queries_of(str(folder)))
    wrong, peak = int((np.load(folder / "answers.npy") != truth).sum()), asked["peak"] / 2**20
    print(f"{N_QUERIES} answers under the limit, {wrong} differ from brute force; peak RssAnon {peak:.0f} MiB")
    print(
        f"A site touches {asked['index_pages_a_site']} pages of records at most, and its range of entries on at most "
        f"{asked['pages_beyond_the_range']} page more than its bytes fill; a query {asked['pages_a_query']:.0f} pages "
        f"(most {asked['most_pages_a_query']}), {asked['bytes_a_query'] / 1024:.0f} KiB of entries"
    )
    for kind in ("warm", "cold"):
        print(
            f"{kind}, median us: pread of the same bytes {asked[f'pread_{kind}_us']:.0f}, "
            f"rows {asked[f'rows_{kind}_us']:.0f}, winner {asked[f'winner_{kind}_us']:.0f}, "
            f"predict {asked[f'predict_{kind}_us']:.0f}"
        )
    print(
        f"opening {asked['open_seconds']:.2f} s; a batch of {N_QUERIES}: {asked['batch_us']:.0f} us a query, "
        f"{asked['first_batch_us']:.0f} the first time, with pages to be checked"
    )
    print(
        f"edits on top, median us: learn_one {asked['learn_one_us']:.0f}, forget_one {asked['forget_one_us']:.0f}, "
        f"learn_one and then predict {asked['learn_and_predict_us']:.0f}"
    )
    small = small_checks()
    print(
        f"Small model: streamed digest {'equal' if small['streamed_digest_equal'] else 'DIFFERS'}; 10,000 examples "
        f"added and 10,000 taken back in {small['edit_seconds']:.2f} s, "
        f"compact {small['compact_seconds']:.2f} s: "
        f"{'equal to' if small['edits_equal_fresh_fit'] else 'DIFFERS FROM'} a fresh fit"
    )


if __name__ == "__main__":
    step, where, n_parts, most = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    print(json.dumps(run_queries(where, most) if step == "queries" else run_fit(where, step, n_parts, most)))
