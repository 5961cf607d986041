"""The command: measure the peers, one after the other, and print the table."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # before a library reads them
    os.environ[_variable] = "1"

from . import hyperdimensional, linear, neural, online, ours, trees  # noqa: E402
from .measuring import Row, measured, missing  # noqa: E402
from .peer import read_data  # noqa: E402

if TYPE_CHECKING:
    from .peer import Peer

PEERS: dict[str, type[Peer]] = {
    "log-linear-exact": ours.LogLinearExact,
    "log-linear-hashed": ours.LogLinearHashed,
    "default": ours.Default,
    "bayes-positions": linear.BayesPositions,
    "bayes-sites": linear.BayesSites,
    "svm-positions": linear.SvmPositions,
    "svm-sites": linear.SvmSites,
    "svm-hashed": linear.SvmHashed,
    "logistic-positions": linear.LogisticPositions,
    "logistic-sites": linear.LogisticSites,
    "logistic-hashed": linear.LogisticHashed,
    "softmax-sites": neural.SoftmaxSites,
    "neural": neural.NeuralNgram,
    "lightgbm": trees.LightGBM,
    "hd-centroid": hyperdimensional.HdCentroid,
    "hd-adapt": hyperdimensional.HdAdapt,
    "hd-online": hyperdimensional.HdOnline,
    "river-bayes": online.RiverBayes,
    "river-softmax": online.RiverSoftmax,
    "river-tree": online.RiverTree,
}

HEADINGS = (
    "model",
    "sees",
    "examples",
    "top-1",
    "top-5",
    "macro-F1",
    "log-loss",
    "with T",
    "fit (s)",
    "tuning (s)",
    "queries/s",
    "state (MiB)",
    "online",
    "forgets",
)


def line(row: Row) -> str:
    """Return one row of the table."""
    cells = (
        row["model"],
        row["sees"],
        f"{row['examples']:,}",
        *(f"{row[name]:.2f}" for name in ("top1", "top5", "macro_f1")),
        "none" if row["log_loss"] is None else f"{row['log_loss']:.3f}",
        f"{row['tempered_log_loss']:.3f}",
        f"{row['fit_seconds']:.1f}",
        f"{row['tuning_seconds']:.1f}",
        f"{float(format(row['queries_per_second'], '.2g')):,.0f}",
        f"{row['state_bytes'] / 2**20:.1f}",
        "yes" if row["online"] else "no",
        "yes" if row["forgets"] else "no",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table, or the rows as JSON; what is left out, and how far it is, go to the error stream."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with wiki.train.tokens, .valid and .test")
    parser.add_argument("--only", nargs="+", choices=PEERS, metavar="NAME", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--stored", type=int, default=100_000, help="training examples")
    parser.add_argument("--draw", type=int, default=0, help="which draw of positions")
    parser.add_argument("--json", action="store_true", help="print the rows, with the settings chosen, as JSON")
    arguments = parser.parse_args()
    data = read_data(arguments.data, arguments.stored, arguments.draw)
    rows = []
    for name in arguments.only or PEERS:
        reason = missing(PEERS[name])
        if reason is not None:
            print(reason, file=sys.stderr)
            continue
        rows.append(measured(PEERS[name], data))
        print(line(rows[-1]), rows[-1]["choice"], file=sys.stderr)
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"| {' | '.join(HEADINGS)} |")
    print("|" + "---|" * len(HEADINGS))
    for row in rows:
        print(line(row))


if __name__ == "__main__":
    main()
