"""Golden answers: 30 models of every kind, made of fixed inputs, whose answers must stay the same to the bit.

``python tests/support/golden_answers.py`` records them again in ``tests/models/golden_answers.json``. Do so only in a
commit that is meant to change what is learnt, never for a change of structure.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hammemo import MeMoClassifier, MemoryClassifier, Rolling, engines, load, save
from hammemo.kernels import Bag, PositionalHamming, Recent, SkipPairs, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed, Tiered
from hammemo.votes import LogLinear, Mixture
from places import TESTS

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDED = TESTS / "models" / "golden_answers.json"
N_ROWS, N_ASKED = 160, 12
STEP = 3
"""Of the numbers that answer the queries every third one is kept."""


@cache
def frame() -> pd.DataFrame:
    """Return a table with columns of every kind and two of labels, made by a few multiplications."""
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
            "since": pd.Timestamp("2024-01-01") + pd.to_timedelta((mixed * 700).astype(int), unit="D"),
        }
    )
    table.loc[number % 17 == 3, "amount"] = np.nan
    table.loc[number % 19 == 5, "plan"] = None
    risk = mixed + other * (table["plan"] == "pro") + 0.2 * (number % 5 == 0)
    return table.assign(
        stays=np.where(risk > 0.7, "no", "yes"), group=np.array(["a", "b", "c"])[np.minimum(risk * 1.9, 2).astype(int)]
    )


NAMES, NUMBERS = ["plan", "region", "source"], ["amount", "visits"]
WEIGHTS = 1 + np.arange(N_ROWS) % 3


def documents() -> list[list[str]]:
    """Return visits of a shop: each goes on from where it is by one of two steps."""
    return [[f"i{(v * 7 + k * (2 + v % 3)) % 23}" for k in range(3 + v % 6)] for v in range(90)]


def table(columns: list[str]) -> tuple[pd.DataFrame, Any]:
    return frame()[columns], labels()


def names() -> list[list[str]]:
    """Return the columns of names as lists."""
    return frame()[NAMES].fillna("none").to_numpy().tolist()  # type: ignore[no-any-return]


def labels() -> Any:
    return frame()["stays"].to_numpy()


def _fit(model: MemoryClassifier, columns: list[str], **settings: Any) -> MemoryClassifier:
    X, y = table(columns)
    return model.fit(X, y, **settings)


def _edited(model: MemoryClassifier, columns: list[str], *, refit: bool) -> MemoryClassifier:
    X, y = table(columns)
    model.fit(X[:120], y[:120]).partial_fit(X[120:], y[120:]).forget(X[10:40], y[10:40])
    return model.refit() if refit else model


def _merged(columns: list[str]) -> MemoryClassifier:
    X, y = table(columns)
    first = MemoryClassifier().fit(X[:100], y[:100])
    return (first + first.empty_like().partial_fit(X[100:], y[100:])).refit()


def _engines(columns: list[str], ending: str) -> MemoryClassifier:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"table.{ending}")
        X, y = table(columns)
        whole = X.assign(stays=y)
        whole.to_parquet(path) if ending == "parquet" else whole.to_csv(path, index=False)
        return engines.fit_table(MemoryClassifier(), path, "stays")


def _through_a_file(model: MemoryClassifier, **settings: Any) -> MemoryClassifier:
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder, "model"), **settings)
        loaded: MemoryClassifier = load(Path(folder, "model"))
        loaded.predict(names()[:1])
        return loaded


def _given(kernel: Any, memory: Any, vote: Any, **settings: Any) -> MemoryClassifier:
    return MemoryClassifier(kernel, memory, vote, **settings).fit(names(), labels())


def _stream(kernel: Any, vote: Any, h: int = 4) -> MemoryClassifier:
    return MemoryClassifier(kernel, Exact(), vote).fit_stream(documents(), h)


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
    "after forget, names": lambda: _edited(MemoryClassifier(), NAMES, refit=False),
    "after forget, mixed": lambda: _edited(MemoryClassifier(), EVERYTHING, refit=False),
    "after refit, names": lambda: _edited(MemoryClassifier(), NAMES, refit=True),
    "after refit, mixed": lambda: _edited(MemoryClassifier(), EVERYTHING, refit=True),
    "sampled rows, names": lambda: _edited(MemoryClassifier(keep=60), NAMES, refit=True),
    "sampled rows, mixed": lambda: _edited(MemoryClassifier(keep=60), EVERYTHING, refit=True),
    "no rows kept": lambda: _edited(MemoryClassifier(keep=False), EVERYTHING, refit=False),
    "merged, names": lambda: _merged(NAMES),
    "merged, mixed": lambda: _merged(EVERYTHING),
    "engines, CSV": lambda: _engines([*NAMES, *NUMBERS], "csv"),
    "engines, Parquet": lambda: _engines(EVERYTHING, "parquet"),
    "in a folder": lambda: _through_a_file(_given(SkipPairs(3), Exact(), "sum"), segments=2),
    "in a file": lambda: _through_a_file(_given(PositionalHamming(), Exact(), LogLinear())),
    "documents": lambda: MemoryClassifier().fit_stream(documents(), 4),
    "mixture": lambda: _stream(Suffixes(3) + Recent(2), Mixture()),
    "mixture with a bag": lambda: _stream(Suffixes(2) + Bag(3), Mixture()),
    "log-linear suffixes": lambda: _stream(Suffixes(3), LogLinear()),
    "hashed": lambda: _given(PositionalHamming(), Hashed(8, 2), "mean"),
    "tiered": lambda: _given(PositionalHamming(), Tiered(Hashed(4, 1)), "sum"),
    "digests of rows": lambda: _given(PositionalHamming(), Exact(), "sum", keep="digests"),
    "gaussian": lambda: MeMoClassifier(d=64, exact=True).fit(names(), labels()),
    "gaussian, tied": lambda: _given(PositionalHamming(), Gaussian(64, 16, True, True), "sum"),
    "rolling": lambda: Rolling(MemoryClassifier(PositionalHamming(), Exact(), "sum"), last=50).fit(names(), labels()),
}
"""How each model is made."""


def arithmetic() -> str:
    """Return the last bits of exponentials, logarithms and products here: they depend on the processor."""
    grid = np.linspace(0.1, 9, 999)
    square = np.outer(grid[:99], grid[:99]) % 1
    return sha256(np.concatenate([np.exp(-grid), np.log(grid), np.ravel(square @ square)]).tobytes()).hexdigest()


def answers(model: Any) -> list[str]:
    """Return the bits of what a model says of the first queries, a number for each query and label."""
    if hasattr(model, "feature_names_in_"):
        asked: Any = frame()[list(model.feature_names_in_)][:N_ASKED]
    elif model.n_features_in_ == len(NAMES):
        asked = names()[:N_ASKED]
    else:
        asked = [one[-5:-1] for one in documents() if len(one) > 4][:N_ASKED]
    said = model.predict_proba(asked) if hasattr(model, "predict_proba") else model.decision_function(asked)
    return [value.hex() for value in np.ravel(said)[::STEP].tolist()]


if __name__ == "__main__":
    found = {name: answers(make()) for name, make in RECIPES.items()}
    RECORDED.write_text(json.dumps({"arithmetic": arithmetic(), "answers": found}, indent=1) + "\n", "utf-8")
