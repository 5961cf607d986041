"""What intervals of models of numbers cover: few rows, and many rows of which most were forgotten.

    python -m benchmarks.intervals [--rows 10 20 50 100] [--coverage 0.95] [--tables linear counts]
                                   [--rounds 40]
    python -m benchmarks.intervals --forgotten

There are nine made-up tables: sums with and without noise, curves, steps, a product, noise that
depends on a column, heavy tails, counts and names. A round draws the rows that are learned and 50
new ones. Printed is the share of new targets in intervals, once with the plain quantiles of errors
(interpolated between the known ones) and once as the library gives them, and how wide the intervals
are in the median, in standard deviations of the targets. Infinite intervals cover everything; the
table says how many there are. `--forgotten` learns 1,000 rows and forgets some of them, without a
refit: printed is what intervals of 80 % cover with the errors of the fit, as the library gives
them, and after a refit.

A figure below what was asked is marked with * if a model that covers would give it with a
probability of less than .001. Rounds are independent and rows of a round are not, so the test is
one of the mean over rounds, with the standard deviation between them: a t-test. With 36 figures,
one false mark comes in 28 runs.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from hammemo import MemoryRegressor
from hammemo.estimators.number_predictor import NumberPredictor
from hammemo.features.cells.error_sizes import ErrorSizes, fit_error_sizes
from hammemo.paper.experiments.measuring import heading
from hammemo.tasks.numbers.answer import get_answers
from hammemo.tasks.numbers.errors import ask_trees, find_out_of_bag
from hammemo.tasks.numbers.memory import NumberRows
from hammemo.tokens.questions import QuestionForm
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes.tree_number_weights import NumberWeights

sys.path.insert(0, str(Path(__file__).parent))  # for python -m
from measures import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo.tasks.numbers.state import NumberState

    Floats = NDArray[np.float64]
    Table = tuple[pd.DataFrame, Floats]

NEW_ROWS = 50
LEARNED_ROWS = 1000
"""Before some are forgotten."""
LEFT_SHARES = (1.0, 0.9, 0.5, 0.2, 0.1)
FALSE_ALARM = 0.001


def _normal(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))


def _sum(X: pd.DataFrame) -> Floats:
    return np.asarray(2 * X["a"] + X["b"] + X["c"] / 2, np.float64)


def make_linear(rng: np.random.Generator, n: int) -> Table:
    """Return a sum of three columns with noise."""
    X = _normal(rng, n)
    return X, _sum(X) + rng.normal(size=n)


def make_exact(rng: np.random.Generator, n: int) -> Table:
    """Return a sum of three columns without noise."""
    X = _normal(rng, n)
    return X, _sum(X)


def make_curves(rng: np.random.Generator, n: int) -> Table:
    """Return Friedman's first function."""
    X = pd.DataFrame(rng.random((n, 6)), columns=list("abcdef"))
    curves = (
        10 * np.sin(np.pi * X["a"] * X["b"]) + 20 * (X["c"] - 0.5) ** 2 + 10 * X["d"] + 5 * X["e"]
    )
    return X, np.asarray(curves + rng.normal(size=n))


def make_steps(rng: np.random.Generator, n: int) -> Table:
    """Return two steps."""
    X = _normal(rng, n)
    return X, np.asarray(2.0 * (X["a"] > 0) + (X["b"] > 0.5) + 0.3 * rng.normal(size=n))


def make_product(rng: np.random.Generator, n: int) -> Table:
    """Return a product of two columns."""
    X = _normal(rng, n)
    return X, np.asarray(X["a"] * X["b"] + 0.2 * rng.normal(size=n))


def make_spread(rng: np.random.Generator, n: int) -> Table:
    """Return noise whose size depends on a column."""
    X = _normal(rng, n)
    return X, np.asarray(X["a"] + np.exp(X["b"]) * rng.normal(size=n))


def make_tails(rng: np.random.Generator, n: int) -> Table:
    """Return noise with heavy tails: Student's, with three degrees of freedom."""
    X = _normal(rng, n)
    return X, np.asarray(X["a"] + rng.standard_t(3, size=n))


def make_counts(rng: np.random.Generator, n: int) -> Table:
    """Return counts: Poisson's, whose mean depends on a column."""
    X = _normal(rng, n)
    return X, rng.poisson(np.exp(0.5 + 0.8 * X["a"])).astype(np.float64)


def make_names(rng: np.random.Generator, n: int) -> Table:
    """Return effects of two columns of names and of a number."""
    first = rng.integers(0, 6, n)
    second = rng.integers(0, 4, n)
    number = rng.normal(size=n)
    X = pd.DataFrame(
        {"a": np.array(list("uvwxyz"))[first], "b": np.array(list("klmn"))[second], "c": number}
    )
    return X, first + 2.0 * (second == 2) + number + 0.5 * rng.normal(size=n)


TABLES: dict[str, Callable[[np.random.Generator, int], Table]] = {
    "linear": make_linear,
    "exact": make_exact,
    "curves": make_curves,
    "steps": make_steps,
    "product": make_product,
    "spread": make_spread,
    "tails": make_tails,
    "counts": make_counts,
    "names": make_names,
}


class Covered(NamedTuple):
    """What the intervals of one round cover, their median width and the share that is infinite."""

    share: float
    width: float
    infinite: float


def judge(ends: Floats, targets: Floats) -> Covered:
    """Return how good intervals of targets are."""
    low, high = ends.T
    is_inside = (low <= targets) & (targets <= high)
    widths = (high - low) / targets.std()
    is_infinite = np.isinf(widths)
    finite = widths[~is_infinite]
    return Covered(
        share=float(is_inside.mean()),
        width=float(np.median(finite)) if len(finite) else np.inf,
        infinite=float(is_infinite.mean()),
    )


class PlainErrors(ErrorSizes):
    """Sizes of errors as they were before: quantiles are interpolated between the known errors."""

    def quantiles(self, levels: Floats) -> Floats:
        """Return the quantiles of error / size at these levels."""
        n = len(self.ratios)
        return np.interp(levels, np.arange(n) / max(n - 1, 1), self.ratios)


def measure_plain_errors(state: NumberState) -> ErrorSizes:
    """Return the errors of rows that the weights were fitted to, not crossed."""
    assert state.rows is not None
    rows = NumberRows.from_examples(state.layout, state.rows.examples(), state.seed)
    unseen = find_out_of_bag(state.layout, rows)
    places = unseen.places
    errors = rows.residuals[0].astype(np.float64)
    if len(places):
        tree_answers = ask_trees(state.layout, state.memory, rows, unseen)
        errors = tree_answers.targets - NumberWeights(state.vote.weights, state.vote.blend).predict(
            tree_answers
        )
    else:
        places = np.arange(len(rows.targets))
    sizes = fit_error_sizes(
        rows.inputs.codes[places],
        state.layout.codes.is_name,
        errors=errors,
        counts=rows.counts[places],
        words=rows.words[places],
        seed=state.seed,
    )
    return PlainErrors(sizes.mean, sizes.ratios, sizes.forest, sizes.leaves)


def predict_plainly(
    state: NumberState, errors: ErrorSizes, X: pd.DataFrame, coverage: float
) -> Floats:
    """Return the intervals of a state with the errors and the quantiles of before."""
    answers = replace(get_answers(state), errors=errors)
    predictor = NumberPredictor(answers, QuestionForm(state.columns, "token"), Vocabulary())
    return predictor.predict_interval(X, coverage)


def measure_few_rows(
    table: str, n: int, coverage: float, rounds: int
) -> tuple[list[Covered], list[Covered]]:
    """Return what intervals cover in each round: before, and now."""
    before = []
    now = []
    for number in range(rounds):
        X, y = TABLES[table](np.random.default_rng([n, number]), n + NEW_ROWS)
        model = MemoryRegressor().fit(X[:n], y[:n])
        plain = predict_plainly(model.state, measure_plain_errors(model.state), X[n:], coverage)
        before.append(judge(plain, y[n:]))
        now.append(judge(model.predict_interval(X[n:], coverage), y[n:]))
    return before, now


def measure_forgotten(table: str, left: float, rounds: int) -> list[list[Covered]]:
    """Return what intervals of 80 % cover after rows were forgotten.

    The shares are those of before, now, and after a refit.
    """
    judged: list[list[Covered]] = [[], [], []]
    kept = round(LEARNED_ROWS * left)
    for number in range(rounds):
        X, y = TABLES[table](np.random.default_rng([7, number]), 2 * LEARNED_ROWS)
        questions = X[LEARNED_ROWS:]
        truths = y[LEARNED_ROWS:]
        model = MemoryRegressor().fit(X[:LEARNED_ROWS], y[:LEARNED_ROWS])
        errors = measure_plain_errors(model.state)
        if kept < LEARNED_ROWS:
            model.forget(X[kept:LEARNED_ROWS], y[kept:LEARNED_ROWS])
        judged[0].append(judge(predict_plainly(model.state, errors, questions, 0.8), truths))
        judged[1].append(judge(model.predict_interval(questions), truths))
        judged[2].append(judge(model.refit().predict_interval(questions), truths))
    return judged


def describe(rounds: list[Covered], coverage: float) -> str:
    """Return the mean coverage, marked if it is too low, and the median width."""
    shares = np.array([one.share for one in rounds])
    low = shares.mean() < coverage
    if low and shares.std():
        low = bool(stats.ttest_1samp(shares, coverage, alternative="less").pvalue < FALSE_ALARM)
    infinite = np.mean([one.infinite for one in rounds])
    finite = [one.width for one in rounds if np.isfinite(one.width)]
    width = f"{np.median(finite):.2f}" if finite else "infinite"
    more = f", {infinite:.0%} infinite" if finite and infinite else ""
    return f"{shares.mean():.3f}{'*' if low else ''} ({width}{more})"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10, 20, 50, 100])
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--coverage", type=float, default=0.95)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--forgotten", action="store_true", help="forget rows without a refit")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if arguments.forgotten:
        print(heading("table | rows left | before | now | after a refit"))
        for table in arguments.tables:
            for left in LEFT_SHARES:
                cells = [
                    describe(rounds, 0.8)
                    for rounds in measure_forgotten(table, left, arguments.rounds)
                ]
                print(f"| {table} | {left:.0%} | {' | '.join(cells)} |", flush=True)
        return
    print(heading("table | rows | before | now"))
    for table in arguments.tables:
        for n in arguments.rows:
            cells = [
                describe(one, arguments.coverage)
                for one in measure_few_rows(table, n, arguments.coverage, arguments.rounds)
            ]
            print(f"| {table} | {n} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
