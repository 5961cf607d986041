"""Golden models of every kind: their answers and states must stay the same to the bit.

A recipe makes a classifier or a regressor from fixed inputs, by a history of edits. Of its model,
these are recorded: the answers to some queries, the digest of each part, and what digests leave
out, such as its position.

``python tests/support/golden_answers.py`` records them again in
``tests/models/golden_answers.json``. Do so only in a commit that is meant to change what is
learned, never for a change of structure.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hammemo import MeMoClassifier, MemoryClassifier, MemoryRegressor, Rolling, engines, load, save
from hammemo.kernels import Bag, PositionalHamming, Recent, SkipPairs, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.tokens.column_letters import encode_letters
from hammemo.votes import LogLinear, Mixture
from places import TESTS

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDED = TESTS / "models" / "golden_answers.json"
N_ROWS = 160
N_QUERIES = 12
STEP = 3
"""Every third probability is recorded; of numbers, all are."""


@cache
def frame() -> pd.DataFrame:
    """Return a table with columns of every kind, two of labels and one of targets.

    Its "random" numbers are multiples of the golden ratio, so that no generator decides them.
    """
    number = np.arange(N_ROWS)
    mixed = (number * 2654435761 % 2**32) / 2**32
    other = (number * 40503 % 65536) / 65536
    table = pd.DataFrame(
        {
            "plan": np.array(["basic", "plus", "pro"])[(mixed * 3).astype(int)],
            "region": np.array(["north", "south", "east", "west"])[(other * 4).astype(int)],
            "source": np.array(["web", "shop"])[number % 7 % 2],
            "amount": np.round(mixed * 900 + 100 * other, 2),
            "visits": (other * 40).astype(int),
            "since": pd.Timestamp("2024-01-01")
            + pd.to_timedelta((mixed * 700).astype(int), unit="D"),
        }
    )
    table.loc[number % 17 == 3, "amount"] = np.nan
    table.loc[number % 19 == 5, "plan"] = None
    risk = mixed + other * (table["plan"] == "pro") + 0.2 * (number % 5 == 0)
    return table.assign(
        stays=np.where(risk > 0.7, "no", "yes"),
        group=np.array(["a", "b", "c"])[np.minimum(risk * 1.9, 2).astype(int)],
        cost=np.round(40 * risk + 15 * (table["region"] == "east") - 3 * (number % 4), 2),
    )


NAMES = ["plan", "region", "source"]
NUMBERS = ["amount", "visits"]
WEIGHTS = 1 + np.arange(N_ROWS) % 3


def documents() -> list[list[str]]:
    """Return visits of a shop, each in steps of equal size."""
    return [[f"i{(v * 7 + k * (2 + v % 3)) % 23}" for k in range(3 + v % 6)] for v in range(90)]


def table(columns: list[str], target: str = "stays") -> tuple[pd.DataFrame, Any]:
    return frame()[columns], frame()[target].to_numpy()


def names() -> list[list[str]]:
    """Return the columns of names as lists."""
    return frame()[NAMES].fillna("none").to_numpy().tolist()  # type: ignore[no-any-return]


def labels() -> Any:
    return frame()["stays"].to_numpy()


def _fit(model: MemoryClassifier, columns: list[str], **settings: Any) -> MemoryClassifier:
    X, y = table(columns)
    return model.fit(X, y, **settings)


def _edit(model: Any, columns: list[str], *, refit: bool, target: str = "stays") -> Any:
    X, y = table(columns, target)
    model.fit(X[:120], y[:120]).partial_fit(X[120:], y[120:]).forget(X[10:40], y[10:40])
    if refit:
        model.refit()
    return model


def _merge(columns: list[str]) -> MemoryClassifier:
    X, y = table(columns)
    first = MemoryClassifier().fit(X[:100], y[:100])
    second = first.empty_like().partial_fit(X[100:], y[100:])
    return (first + second).refit()


def _fit_on_engine(
    columns: list[str], ending: str, model: Any = None, target: str = "stays"
) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"table.{ending}")
        rows = frame()[[*columns, target]]
        if ending == "parquet":
            rows.to_parquet(path)
        else:
            rows.to_csv(path, index=False)
        if model is None:
            model = MemoryClassifier()
        return engines.fit_table(model, path, target)


def _save_and_load(model: Any, **settings: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder, "model"), **settings)
        loaded = load(Path(folder, "model"))
        loaded.predict(_choose_queries(loaded)[:1])  # arrays are read before the folder is gone
        return loaded


def _fit_names(kernel: Any, memory: Any, vote: Any, **settings: Any) -> MemoryClassifier:
    return MemoryClassifier(kernel, memory, vote, **settings).fit(names(), labels())


def _fit_stream(kernel: Any, vote: Any, h: int = 4) -> MemoryClassifier:
    return MemoryClassifier(kernel, Exact(), vote).fit_stream(documents(), h)


def _new_sum() -> MemoryClassifier:
    return MemoryClassifier(PositionalHamming(), Exact(), "sum")


EVERYTHING = [*NAMES, *NUMBERS, "since"]
RECIPES: dict[str, Callable[[], Any]] = {
    "names": lambda: _fit(MemoryClassifier(), NAMES),
    "numbers": lambda: _fit(MemoryClassifier(), NUMBERS),
    "mixed": lambda: _fit(MemoryClassifier(), [*NAMES, *NUMBERS]),
    "dates": lambda: _fit(MemoryClassifier(), ["since", "plan"]),
    "everything": lambda: _fit(MemoryClassifier(), EVERYTHING),
    "three labels": lambda: MemoryClassifier().fit(frame()[EVERYTHING], frame()["group"]),
    "weights, names": lambda: _fit(MemoryClassifier(), NAMES, sample_weight=WEIGHTS),
    "weights, mixed": lambda: _fit(MemoryClassifier(), EVERYTHING, sample_weight=WEIGHTS),
    "class weights": lambda: _fit(MemoryClassifier(class_weight={"yes": 1, "no": 3}), EVERYTHING),
    "balanced": lambda: _fit(MemoryClassifier(class_weight="balanced"), NAMES),
    "after forget, names": lambda: _edit(MemoryClassifier(), NAMES, refit=False),
    "after forget, mixed": lambda: _edit(MemoryClassifier(), EVERYTHING, refit=False),
    "after refit, names": lambda: _edit(MemoryClassifier(), NAMES, refit=True),
    "after refit, mixed": lambda: _edit(MemoryClassifier(), EVERYTHING, refit=True),
    "sampled rows, names": lambda: _edit(MemoryClassifier(keep=60), NAMES, refit=True),
    "sampled rows, mixed": lambda: _edit(MemoryClassifier(keep=60), EVERYTHING, refit=True),
    "no rows kept": lambda: _edit(MemoryClassifier(keep=False), EVERYTHING, refit=False),
    "merged, names": lambda: _merge(NAMES),
    "merged, mixed": lambda: _merge(EVERYTHING),
    "engines, CSV": lambda: _fit_on_engine([*NAMES, *NUMBERS], "csv"),
    "engines, Parquet": lambda: _fit_on_engine(EVERYTHING, "parquet"),
    "in a folder": lambda: _save_and_load(_fit_names(SkipPairs(3), Exact(), "sum"), segments=2),
    "in a file": lambda: _save_and_load(_fit_names(PositionalHamming(), Exact(), LogLinear())),
    "documents": lambda: MemoryClassifier().fit_stream(documents(), 4),
    "mixture": lambda: _fit_stream(Suffixes(3) + Recent(2), Mixture()),
    "mixture with a bag": lambda: _fit_stream(Suffixes(2) + Bag(3), Mixture()),
    "log-linear suffixes": lambda: _fit_stream(Suffixes(3), LogLinear()),
    "hashed": lambda: _fit_names(PositionalHamming(), Hashed(8, 2), "mean"),
    "tiered": lambda: _fit_names(PositionalHamming(), Tiered(Hashed(4, 1)), "sum"),
    "digests of rows": lambda: _fit_names(PositionalHamming(), Exact(), "sum", keep="digests"),
    "gaussian": lambda: MeMoClassifier(d=64, exact=True).fit(names(), labels()),
    "gaussian, tied": lambda: _fit_names(PositionalHamming(), Gaussian(64, 16, True, True), "sum"),
    "rolling": lambda: Rolling(_new_sum(), last=50).fit(names(), labels()),
}
"""How each model is made."""


def _learn_in_pieces(model: Any, columns: list[str], target: str, *, size: int) -> Any:
    """Teach a model the table in pieces: it chooses its layout again whenever its rows double."""
    X, y = table(columns, target)
    for start in range(0, N_ROWS, size):
        model.partial_fit(X[start : start + size], y[start : start + size])
    return model


def _change_kinds(model: Any, target: str, *, refit: bool) -> Any:
    """Teach a model columns that turn from nothing, and from whole numbers, to other kinds."""
    X, y = table(["amount", "since", "visits", "plan"], target)
    first = X[:20].astype(object)
    first[["amount", "since"]] = None
    model.partial_fit(first, y[:20])
    model.partial_fit(X[20:], y[20:])
    if refit:
        model.refit()
    return model


def _merge_kinds(make: Callable[[], Any], target: str) -> Any:
    """Add a model that has learned whole numbers and one that has learned fractions."""
    X, y = table(["visits", "plan"], target)
    halves = X[80:].assign(visits=X["visits"][80:] / 2)
    model_of_integers = make().fit(X[:80].to_numpy(object).tolist(), y[:80])
    model_of_halves = make().fit(halves.to_numpy(object).tolist(), y[80:])
    return model_of_integers + model_of_halves


def _reuse_layout(make: Callable[[], Any], target: str) -> Any:
    """Make a model with the layout of another one learn and forget rows."""
    X, y = table(EVERYTHING, target)
    model = make().fit(X[:100], y[:100]).empty_like()
    return model.partial_fit(X[60:], y[60:]).forget(X[70:90], y[70:90])


def _fit_two(make: Callable[[], Any], target: str, *, alike: bool) -> tuple[Any, Any]:
    """Fit two models to two parts of the table, with the same layout or not."""
    X, y = table(EVERYTHING, target)
    first = make().fit(X[:100], y[:100])
    if alike:
        return first, first.empty_like().partial_fit(X[100:], y[100:])
    return first, make().fit(X[100:], y[100:])


def _unmerge(make: Callable[[], Any], target: str, *, alike: bool) -> Any:
    first, second = _fit_two(make, target, alike=alike)
    return first.merge(second).unmerge(second)


def _edit_singly(make: Callable[[], Any], target: str) -> Any:
    """Make a model learn and forget rows one by one."""
    X, y = table([*NAMES, *NUMBERS], target)
    rows = X.to_numpy(object).tolist()
    targets = y.tolist()
    model = make().fit(rows[:120], targets[:120])
    for row, target_value in zip(rows[120:140], targets[120:140], strict=True):
        model.learn_one(row, target_value)
    for row, target_value in zip(rows[:15], targets[:15], strict=True):
        model.forget_one(row, target_value)
    return model


def _apply(make: Callable[[], Any], target: str, *, everything: bool) -> Any:
    """Make a model forget and learn in one edit, with a position."""
    X, y = table(EVERYTHING, target)
    model = make().fit(X[:120], y[:120])
    forgotten: Any = "everything" if everything else (X[:30], y[:30])
    return model.apply(learn=(X[120:], y[120:]), forget=forgotten, position="0/16B")


def _empty(make: Callable[[], Any], target: str, *, refit: bool) -> Any:
    X, y = table(EVERYTHING, target)
    model = make().fit(X, y).forget(X, y)
    if refit:
        model.refit()
    return model


def _sync(make: Callable[[], Any], target: str, *, refit: bool) -> Any:
    X, y = table(EVERYTHING, target)
    model = make().fit(X[:120], y[:120])
    model.sync(X[30:], y[30:], position="17", refit=refit)
    return model


def _refit_to_rows(make: Callable[[], Any], target: str) -> Any:
    X, y = table(EVERYTHING, target)
    model = make().fit(X, y).forget(X[:20], y[:20])
    return model.refit(rows=[(X[20:90], y[20:90]), (X[90:], y[90:])])


def _copy_empty(make: Callable[[], Any], target: str) -> Any:
    """Return the empty copy of a model that followed a table up to a position."""
    X, y = table(EVERYTHING, target)
    model = make().fit(X, y)
    return model.apply(learn=(X[:5], y[:5]), position="0/17", choose=False).empty_like()


def _refit_weights(make: Callable[[], Any], target: str) -> Any:
    X, y = table(EVERYTHING, target)
    return make().fit(X, y).forget(X[:40], y[:40]).refit("weights")


def _histories(name: str, make: Callable[..., Any], target: str) -> dict[str, Callable[[], Any]]:
    """Return the recipes of all edits, which are the same for labels and for numbers."""

    def fit(columns: list[str], **settings: Any) -> Any:
        X, y = table(columns, target)
        return make().fit(X, y, **settings)

    def edit(*, refit: bool, **parameters: Any) -> Any:
        return _edit(make(**parameters), EVERYTHING, refit=refit, target=target)

    def merge(*, alike: bool) -> Any:
        first, second = _fit_two(make, target, alike=alike)
        return first + second

    recipes: dict[str, Callable[[], Any]] = {
        "fitted": lambda: fit(EVERYTHING),
        "fitted to names": lambda: fit(NAMES),
        "fitted with weights": lambda: fit(EVERYTHING, sample_weight=WEIGHTS),
        "forgotten": lambda: edit(refit=False),
        "refitted": lambda: edit(refit=True),
        "refitted weights": lambda: _refit_weights(make, target),
        "refitted, a layout": lambda: _reuse_layout(make, target).refit(),
        "refitted weights, a layout": lambda: _reuse_layout(make, target).refit("weights"),
        "refitted to rows": lambda: _refit_to_rows(make, target),
        "refitted to rows, none kept": lambda: _refit_to_rows(lambda: make(keep=False), target),
        "a sample, forgotten": lambda: edit(refit=False, keep=60),
        "a sample, refitted": lambda: edit(refit=True, keep=60),
        "none kept": lambda: edit(refit=False, keep=False),
        "a layout": lambda: _reuse_layout(make, target),
        "pieces": lambda: _learn_in_pieces(make(), EVERYTHING, target, size=30),
        "pieces of names": lambda: _learn_in_pieces(make(), NAMES, target, size=9),
        "single rows": lambda: _edit_singly(make, target),
        "single rows, refitted": lambda: _edit_singly(make, target).refit(),
        "other kinds": lambda: _change_kinds(make(), target, refit=False),
        "other kinds, refitted": lambda: _change_kinds(make(), target, refit=True),
        "merged": lambda: merge(alike=True),
        "merged, other layouts": lambda: merge(alike=False),
        "merged, other layouts, refitted": lambda: merge(alike=False).refit(),
        "merged, other kinds": lambda: _merge_kinds(make, target),
        "unmerged": lambda: _unmerge(make, target, alike=True),
        "unmerged, other layouts": lambda: _unmerge(make, target, alike=False),
        "applied": lambda: _apply(make, target, everything=False),
        "applied to nothing": lambda: _apply(make, target, everything=True),
        "all forgotten": lambda: _empty(make, target, refit=False),
        "all forgotten, refitted": lambda: _empty(make, target, refit=True),
        "an empty copy": lambda: _copy_empty(make, target),
        "synced": lambda: _sync(make, target, refit=False),
        "synced, refitted": lambda: _sync(make, target, refit=True),
        "through a file": lambda: _save_and_load(fit(EVERYTHING)),
        "rolling": lambda: Rolling(make(), last=50).fit(*table(EVERYTHING, target)),
    }
    return {f"{name}, {history}": recipe for history, recipe in recipes.items()}


RECIPES |= _histories("labels", MemoryClassifier, "stays")
RECIPES |= _histories("digests", lambda keep="rows+digests": MemoryClassifier(keep=keep), "group")
RECIPES |= _histories("numbers", MemoryRegressor, "cost")


def _fit_csv_of_numbers() -> Any:
    return _fit_on_engine([*NAMES, *NUMBERS], "csv", MemoryRegressor(), "cost")


def _fit_sample_of_numbers() -> Any:
    return _fit_on_engine(EVERYTHING, "parquet", MemoryRegressor(keep=60), "cost")


RECIPES["numbers, engines, CSV"] = _fit_csv_of_numbers
RECIPES["numbers, engines, sample"] = _fit_sample_of_numbers


def hash_arithmetic() -> str:
    """Return a hash of exponentials, logarithms and products, whose last bits vary by processor."""
    grid = np.linspace(0.1, 9, 999)
    square = np.outer(grid[:99], grid[:99]) % 1
    numbers = np.concatenate([np.exp(-grid), np.log(grid), np.ravel(square @ square)])
    return sha256(numbers.tobytes()).hexdigest()


def answers(model: Any) -> list[str]:
    """Return the bits of a model's answers: a number for each query, or for each and each label."""
    queries = _choose_queries(model)
    if hasattr(model, "predict_interval"):
        if not _state(model).n_examples:
            return []
        return _bits(model.predict(queries))
    if hasattr(model, "predict_proba"):
        if not len(model.classes_):
            return []
        scores = model.predict_proba(queries)
    else:
        scores = model.decision_function(queries)
    return _bits(np.ravel(scores)[::STEP])


def intervals(model: Any) -> list[str]:
    """Return the bits of the lower and the upper bound for each query of a model of numbers."""
    if not hasattr(model, "predict_interval") or not _state(model).n_examples:
        return []
    return _bits(np.ravel(model.predict_interval(_choose_queries(model))))


def answer_compiled(model: Any) -> tuple[list[str], list[str]]:
    """Return the answers and the intervals of a compiled model of numbers."""
    state = _state(model)
    if not hasattr(model, "predict_interval") or not state.n_examples:
        return [], []
    queries = _choose_queries(model)
    predictor = model.compile()
    return _bits(predictor.predict(queries)), _bits(np.ravel(predictor.predict_interval(queries)))


def _bits(values: Any) -> list[str]:
    return [value.hex() for value in np.asarray(values, np.float64).tolist()]


def facts(model: Any) -> dict[str, Any]:
    """Return the digest of each part of a model, and what is in no digest."""
    state = _state(model)
    fitted = getattr(model, "estimator_", model)
    types = state.columns.token_types
    learned = None
    if types is not None:
        learned = f"TokenTypes(letters={encode_letters(types.types)!r})"
    return {
        "digests": {part: digest[:16] for part, digest in fitted.digest(parts=True).items()},
        "stale": state.stale,
        "pinned": state.pinned,
        "refitted": sorted(state.refitted),
        "position": state.position,
        "chosen_at": state.chosen_at,
        "kinds": encode_letters(state.columns.kinds),
        "learned": learned,
        "version": getattr(fitted, "version_", None),
    }


def _state(model: Any) -> Any:
    return getattr(model, "estimator_", model).state


def _choose_queries(model: Any) -> Any:
    """Return queries for a model."""
    if hasattr(model, "feature_names_in_"):
        return frame()[list(model.feature_names_in_)][:N_QUERIES]
    n_columns = model.n_features_in_
    if n_columns == len(NAMES):
        return names()[:N_QUERIES]
    if n_columns in (2, 5):
        columns = ["visits", "plan"] if n_columns == 2 else [*NAMES, *NUMBERS]
        return frame()[columns][:N_QUERIES].to_numpy(object).tolist()
    return [visit[-5:-1] for visit in documents() if len(visit) > 4][:N_QUERIES]


def record(name: str) -> dict[str, Any]:
    """Return all that is recorded of one recipe."""
    model = RECIPES[name]()
    recorded: dict[str, Any] = {"answers": answers(model), "facts": facts(model)}
    bounds = intervals(model)
    if bounds:
        recorded["intervals"] = bounds
    if hasattr(model, "feature_names_in_"):
        compiled, compiled_bounds = answer_compiled(model)
        if compiled and compiled != recorded["answers"]:
            recorded["compiled"] = compiled
        if compiled_bounds and compiled_bounds != bounds:
            recorded["compiled intervals"] = compiled_bounds
    return recorded


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    models = {name: record(name) for name in RECIPES}
    RECORDED.write_text(
        json.dumps({"arithmetic": hash_arithmetic(), "models": models}, indent=1) + "\n", "utf-8"
    )
