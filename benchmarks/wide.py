"""Tables with more columns than rows.

Measured are ours, LightGBM and an L2 logistic regression on scaled columns.

    python -m benchmarks.wide [--sets genes text] [--learners ours LogisticRegressionCV LightGBM]

All tables are made here, or are shipped with scikit-learn: normal noise with one column that tells
the label; digits with 5,000 columns of noise; ``make_classification`` with 20 of 20,000 columns
informative, genes that follow ten hidden factors, and the docstrings of installed packages as
TF-IDF, whose label is the package, as a sparse matrix. Half of the rows are for testing. Printed
are log-loss (root of the mean squared error over the spread, for numbers), the processor seconds of
a fit, and the peak of memory of a process that does nothing else, which holds the table, too.

Every fit is a process of its own, with one thread.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

# before NumPy is loaded: one thread for every learner
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits, make_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hammemo import MemoryClassifier, MemoryRegressor

PACKAGES = ("numpy", "scipy", "sklearn", "pandas")
TEXT_ROWS = 4_000
TEXT_COLUMNS = 30_000
LEAST_WORDS = 12


def make_noise(n_rows: int, n_columns: int) -> tuple[Any, Any]:
    """Return normal noise whose first column tells the label."""
    X = np.random.default_rng(0).normal(size=(2 * n_rows, n_columns))
    return X, (X[:, 0] > 0).astype(int)


def make_digits() -> tuple[Any, Any]:
    """Return the digits of scikit-learn with 5,000 columns of noise."""
    digits = load_digits()
    noise = np.random.default_rng(0).normal(size=(len(digits.data), 5_000))
    return np.hstack([digits.data, noise]), digits.target


def make_genes() -> tuple[Any, Any]:
    """Return 20,000 genes that follow ten factors, two of which tell the label."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(400, 10))
    loadings = rng.normal(size=(10, 20_000)) * (rng.random((10, 20_000)) < 0.3)
    genes = factors @ loadings + 2 * rng.normal(size=(400, 20_000))
    return genes, (factors[:, 0] + factors[:, 1] + 0.5 * rng.normal(size=400) > 0).astype(int)


def make_text() -> tuple[Any, Any]:
    """Return docstrings of installed packages as TF-IDF of words and pairs, and their packages."""
    texts: list[str] = []
    labels: list[str] = []
    for package in PACKAGES:
        docstrings: list[str] = []
        spec = importlib.util.find_spec(package)
        assert spec is not None
        for path in sorted(Path(str(spec.origin)).parent.rglob("*.py")):
            if "tests" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    text = ast.get_docstring(node) or ""
                    if len(text.split()) >= LEAST_WORDS:
                        docstrings.append(text.replace(package, ""))
        order = np.random.default_rng(0).permutation(len(docstrings))[: TEXT_ROWS // len(PACKAGES)]
        texts += [docstrings[place] for place in order]
        labels += [package] * len(order)
    vectors = TfidfVectorizer(ngram_range=(1, 2), max_features=TEXT_COLUMNS, sublinear_tf=True)
    return sparse.csr_matrix(vectors.fit_transform(texts)), np.array(labels)


def make_few_informative() -> tuple[Any, Any]:
    """Make 20,000 columns, 20 of which tell the label."""
    X, y = make_classification(
        400, 20_000, n_informative=20, n_redundant=0, class_sep=2.0, shuffle=False, random_state=0
    )
    return X, y


def make_sum_of_three() -> tuple[Any, Any]:
    """Make 5,000 columns of noise; the target is the sum of the first three."""
    X, _ = make_noise(60, 5_000)
    return X, X[:, :3].sum(axis=1)


SETS = {
    "60 x 1,000": lambda: make_noise(60, 1_000),
    "400 x 1,000": lambda: make_noise(400, 1_000),
    "digits + 5,000": make_digits,
    "20 of 20,000": make_few_informative,
    "genes": make_genes,
    "text": make_text,
    "numbers 60 x 5,000": make_sum_of_three,
    "100,000": lambda: make_noise(60, 100_000),
}
LEARNERS = ("ours", "LogisticRegressionCV", "LightGBM")


def make_learner(name: str, *, is_sparse: bool, are_numbers: bool) -> Any:
    """Return a learner with its defaults; linear ones choose their penalty by cross-validation."""
    if name == "ours":
        return MemoryRegressor(random_state=0) if are_numbers else MemoryClassifier(random_state=0)
    if name == "LightGBM":
        import lightgbm

        make = lightgbm.LGBMRegressor if are_numbers else lightgbm.LGBMClassifier
        return make(n_jobs=1, verbose=-1)
    linear = RidgeCV(np.logspace(-1, 6, 15))
    if not are_numbers:
        linear = LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=300)
    return make_pipeline(StandardScaler(with_mean=not is_sparse), linear)


def measure(set_name: str, learner_name: str) -> dict[str, float]:
    """Fit one learner to one table, in this process."""
    warnings.simplefilter("ignore")
    X, y = SETS[set_name]()  # type: ignore[no-untyped-call]
    are_numbers = set_name.startswith("numbers")
    split = train_test_split(
        X, y, test_size=0.5, random_state=0, stratify=None if are_numbers else y
    )
    learned, questions, targets, truths = split
    learner = make_learner(learner_name, is_sparse=sparse.issparse(X), are_numbers=are_numbers)
    started = time.process_time()
    learner.fit(learned, targets)
    seconds = time.process_time() - started
    if are_numbers:
        loss = float(np.sqrt(np.mean((learner.predict(questions) - truths) ** 2)) / np.std(targets))
    else:
        loss = float(log_loss(truths, learner.predict_proba(questions)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"loss": loss, "seconds": seconds, "GiB": memory}


def main() -> None:
    """Print a table of all that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", choices=list(SETS), default=list(SETS))
    parser.add_argument("--learners", nargs="*", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one)))
        return
    print(f"{'table':<20}{'learner':<24}{'loss':>8}{'seconds':>10}{'GiB':>8}")
    for set_name in arguments.sets:
        for learner_name in arguments.learners:
            command = [sys.executable, "-m", "benchmarks.wide", "--one", set_name, learner_name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(
                    f"{set_name:<20}{learner_name:<24}{done.stderr.strip().splitlines()[-1][:60]}",
                    flush=True,
                )
                continue
            result = json.loads(done.stdout)
            figures = f"{result['loss']:>8.4f}{result['seconds']:>10.2f}{result['GiB']:>8.2f}"
            print(f"{set_name:<20}{learner_name:<24}{figures}", flush=True)


if __name__ == "__main__":
    main()
