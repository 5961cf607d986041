"""A process that answers and follows the log; a server with ``workers=N`` starts it, settings on standard input."""

from __future__ import annotations

import sys

from hammemo_server.http.server import run_worker

if __name__ == "__main__":
    run_worker(sys.stdin.buffer.readline())
