"""The command: measure the peers, one after the other, and print the table."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

# before a library reads them
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))  # for python -m

from hammemo.paper.experiments.measuring import cells, heading  # noqa: E402
from measures import options  # noqa: E402

from . import hyperdimensional, linear, neural, online, ours, trees  # noqa: E402
from .measuring import measure_peer, missing  # noqa: E402
from .peer import Peers, read_data  # noqa: E402

PEERS: Peers = (
    ours.PEERS | linear.PEERS | neural.PEERS | trees.PEERS | hyperdimensional.PEERS | online.PEERS
)
NAMES = (
    "model | sees | examples | top-1 | top-5 | macro-F1 | log-loss | with T | fit (s) | "
    "tuning (s) | queries/s | state (MiB) | online | forgets"
)
LINE = (
    "| {model} | {sees} | {examples:,} | {top1:.2f} | {top5:.2f} | {macro_f1:.2f} | "
    "{log_loss:.3f} | {tempered_log_loss:.3f} | {fit_seconds:.1f} | {tuning_seconds:.1f} | "
    "{queries_per_second:~} | {state_mebibytes:.1f} | {online:yes/no} | {forgets:yes/no} |"
)


def main() -> None:
    """Print the table, or the rows as JSON.

    What is left out, and how far it is, go to the error stream.
    """
    parser = options(
        __doc__,
        data="wiki.train.tokens, .valid and .test",
        as_json="the rows, with the settings chosen,",
    )
    parser.add_argument(
        "--only", nargs="+", choices=PEERS, metavar="NAME", help=f"of {', '.join(PEERS)}"
    )
    parser.add_argument("--stored", type=int, default=100_000, help="training examples")
    parser.add_argument("--draw", type=int, default=0, help="which draw of positions")
    arguments = parser.parse_args()
    data = read_data(arguments.data, arguments.stored, arguments.draw)
    rows = []
    for name in arguments.only or PEERS:
        reason = missing(PEERS[name]())
        if reason is not None:
            print(reason, file=sys.stderr)
            continue
        rows.append(measure_peer(PEERS[name], data))
        print(cells(LINE, rows[-1]), rows[-1]["choice"], file=sys.stderr)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        print("\n".join([heading(NAMES), *(cells(LINE, row) for row in rows)]))


if __name__ == "__main__":
    main()
