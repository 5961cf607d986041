"""Small models of every kind that can be saved, for the tests on files."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from hammemo import MeMoClassifier, MemoryClassifier, Predictor
from hammemo.kernels import (
    Bag,
    Copy,
    Decaying,
    PositionalHamming,
    Recent,
    SiteKernel,
    SkipPairs,
    Suffixes,
    Together,
)
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.stores import Digests
from hammemo.votes import LogLinear, Mixture
from memory_catalogue import KEY, MEMORIES

X = np.array(
    [
        ["a", 1, 0.5],
        ["a", 2, "ß"],
        ["b", 1, 0.5],
        ["b", 2, "x"],
        ["a", 1, "x"],
        ["\U0001f642", 3, "x"],
    ],
    dtype=object,
)
Y = ["no", "no", "yes", "yes", "ß", "no"]
QUERIES = np.array(
    [["a", 1, "x"], ["b", 2, 0.5], ["never", "seen", 9], ["b", 3, "ß"]], dtype=object
)
NUMBERS: list[list[Any]] = [
    [name, size / 4, (size * 7) % 13 - 0.5] for size, name in enumerate("abcab" * 16)
]
"""Rows of a name and two numbers."""


def _label_numbers(name: str, size: float, other: float) -> str:
    if size > 3 and name == "a":
        return "ß"
    return "yes" if other < 4 else "no"


NUMBER_LABELS = [_label_numbers(name, size, other) for name, size, other in NUMBERS]
NUMBER_QUERIES = [
    ["a", 1.5, 2],
    ["never", 1e300, None],
    ["b", -7, float("inf")],
    [None, 3.25, -1.5],
]
KERNELS = {
    "positions": PositionalHamming(),
    "tuples": SiteKernel([0, 2, (0, 2), (-3, -2, -1)], weights=[1, 2, 3, 4.5]),
}
OTHER_KERNELS = {
    "decaying": Decaying(0.25),
    "suffixes": Suffixes(3, base=1.5),
    "skip pairs": SkipPairs(3),
    "joined": PositionalHamming() + Suffixes(2, base=30) + SkipPairs(3),
}


def classifiers() -> dict[str, MemoryClassifier]:
    """Return a fitted classifier for every memory, kernel and vote."""
    models: dict[str, MemoryClassifier] = {}
    # the contract saves each with both kernels: here they take turns
    for number, entry in enumerate(MEMORIES):
        name, kernel = list(KERNELS.items())[number % 2]
        memory = entry.for_sites(len(kernel.resolve(X.shape[1]).positions))
        if isinstance(memory, Gaussian):
            memory.set_params(d=6, d_h=None if memory.d_h is None else 2)  # small files
        clf = MemoryClassifier(
            clone(kernel), memory, vote="mean" if number % 3 else "sum", random_state=number
        )
        models[f"{entry} {name}"] = clf.fit(X, Y, sample_weight=[1, 2, 1, 3, 1, 300])
    for name, kernel in OTHER_KERNELS.items():
        models[name] = MemoryClassifier(clone(kernel), Exact(), vote="sum").fit(X, Y)
    for name, memory in {"exact": Exact(), "hashed": Hashed(4, 2)}.items():
        models[f"log-linear {name}"] = MemoryClassifier(
            clone(KERNELS["tuples"]), memory, LogLinear((1, 9))
        ).fit(X, Y)
    free = Suffixes(2) + Bag(2) + Together(3) + Copy(2) + Recent(3)
    models["mixture"] = MemoryClassifier(free, Exact(), Mixture(continuation=True)).fit(X, Y)
    sessions = [["a", "b", "ß"], ["y", "", "y"], ["b", "a"], ["x"]] * 3
    digested = MemoryClassifier(clone(free), Exact(), Mixture(), keep="auto+digests")
    models["sessions"] = digested.fit_stream(sessions, 3, short="pad")
    models["digests"] = MemoryClassifier("positional", Exact(), "sum", keep="digests").fit(X, Y)
    models["digests, key="] = MemoryClassifier(
        "positional", Hashed(4, 2), "sum", keep=Digests(2, KEY)
    ).fit(X, Y)
    models["declared"] = (
        MemoryClassifier("positional", memory=Exact(), vote="sum")
        .fit(X, Y)
        .partial_fit(X[:1], ["no"], classes=["maybe", "yes"])
    )
    models["all forgotten"] = (
        MemoryClassifier("positional", memory=Hashed(4, 2), vote="sum").fit(X, Y).forget(X, Y)
    )
    models["layout open"] = MemoryClassifier(
        "positional", memory=Hashed(4, 2), vote="sum", numeric="none"
    ).partial_fit(X[:1], [7], [7, 8], sample_weight=[0])
    models["trees"] = MemoryClassifier().fit(NUMBERS, NUMBER_LABELS)
    models["ranges"] = MemoryClassifier("positional", Exact(), "sum").fit(NUMBERS, NUMBER_LABELS)
    models["trees hashed"] = MemoryClassifier(memory=Hashed(8, 2)).fit(NUMBERS, NUMBER_LABELS)
    models["paper"] = MeMoClassifier(d=6).fit(X, Y)
    return models


def queries_for(model: MemoryClassifier | Predictor) -> Any:
    """Return the queries of such a model."""
    cells = model.cells if isinstance(model, Predictor) else model.state.layout.cells
    return QUERIES if cells is None else NUMBER_QUERIES


def predictors(models: dict[str, MemoryClassifier]) -> dict[str, Predictor]:
    """Return every compiled form of these classifiers."""
    forms = {
        "Exact": ("sparse", "dense"),
        "Hashed": ("table",),
        "Gaussian": ("fused", "two-stage"),
        "Tiered": ("tiered",),
    }
    compiled: dict[str, Predictor] = {}
    for name, clf in models.items():
        for form in forms[type(clf.memory_).__name__]:
            if form != "dense" or (
                all(len(site) == 1 for site in clf.sites_.positions) and not clf.sites_.free
            ):
                compiled[f"{name} {form}"] = clf.compile(form)
    return compiled


def key_of(name: str) -> bytes | None:
    """Return the secret key of a model of the catalogue, by its name."""
    of_digests = name == "digests, key= table"  # compiled, it has no digests and no key
    return KEY if "key=" in name and not of_digests else None
