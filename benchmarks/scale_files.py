"""What `scale.py` and `scale_segments.py` share.

These are files of Zipf tokens, and steps in processes that can be watched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.paper.experiments.measuring import zipf_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT_TOKENS = 1000


def write_files(
    folder: Path, tokens: int, n_types: int, file_tokens: int, group_documents: int
) -> None:
    """Write the Parquet files that are not there yet."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, tokens, file_tokens)):
        path = folder / f"{number:05d}.parquet"
        if path.exists():
            continue
        stream = zipf_stream(min(file_tokens, tokens - first), n_types, seed=number).astype(
            np.int32
        )
        edges = np.append(np.arange(0, len(stream), DOCUMENT_TOKENS), len(stream))
        documents = pa.ListArray.from_arrays(pa.array(edges, pa.int32()), pa.array(stream))
        parquet.write_table(
            pa.table({"tokens": documents}),
            path.with_suffix(".tmp"),
            row_group_size=group_documents,
        )
        os.replace(path.with_suffix(".tmp"), path)


def run_step(file: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """Run a step in a process of its own, and return the JSON that it prints last.

    Its home is the folder: Ray writes there, and all processes of the step can be told by it. Ray
    does not report its use, and its workers are not nice.
    """
    variables = {
        "HOME": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, file, *arguments]
    ended = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, env={**os.environ, **variables}
    )
    facts: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return facts


class Watch:
    """Notes the most anonymous memory and the processor time of each process of this step.

    These are the processes that share this one's home: the driver, Ray and the workers. It looks
    five times a second, so that processes count which end before this one does.
    """

    def __init__(self) -> None:
        self._peaks: dict[int, tuple[int, str]] = {}
        self._ticks: dict[int, int] = {}
        self._look()
        self._before = self._cpu_seconds()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            self._look()

    def _look(self) -> None:
        for number, process in _processes():
            try:
                anonymous = (
                    int((process / "status").read_text().split("RssAnon:")[1].split()[0]) * 1024
                )
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                self._peaks[number] = (max(self._peaks.get(number, (0, ""))[0], anonymous), command)
                self._ticks[number] = sum(
                    map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:13])
                )
            except (OSError, IndexError):
                continue

    def _cpu_seconds(self) -> float:
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> dict[str, float]:
        """Return peak bytes of this process and the largest worker, and all processor seconds."""
        self._stop.set()
        self._thread.join()
        self._look()
        workers = [
            peak
            for peak, text in self._peaks.values()
            if "loky" in text or text.startswith("ray::")
        ]
        return {
            "driver_peak": self._peaks.get(os.getpid(), (0, ""))[0],
            "worker_peak": max(workers, default=0),
            "all_cpu_seconds": self._cpu_seconds() - self._before,
        }


def _processes() -> Iterator[tuple[int, Path]]:
    home = f"HOME={os.environ['HOME']}\0".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if home in (process / "environ").read_bytes():
                yield int(process.name), process
        except OSError:
            continue
