from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

def paths() -> list[str]: ...

class Layout:
    def __init__(
        self,
        h: int,
        positions: Sequence[Sequence[int]],
        multipliers: Sequence[int],
        tuple_seeds: Sequence[int],
        groups: Sequence[int],
        reserved: Sequence[NDArray[np.uint64]],
        entries: Sequence[NDArray[np.uint64]],
        token_hashes: NDArray[np.uint64],
        token_places: NDArray[np.uint32],
        token_checks: NDArray[np.uint64],
        single_rows: NDArray[np.uint32],
        buckets: Sequence[int],
        integer_key: tuple[int, int],
        keyed: bool,
    ) -> None: ...
    @property
    def n_rows(self) -> int: ...
    def rows(
        self,
        tokens: NDArray[Any],
        hashes: NDArray[np.uint64] | None,
        places: NDArray[np.int32] | None,
        out: NDArray[np.uint32],
        path: str = "auto",
    ) -> None: ...
    def own_rows(
        self,
        tokens: NDArray[Any],
        hashes: NDArray[np.uint64] | None,
        places: NDArray[np.int32] | None,
        out: NDArray[np.int64],
    ) -> None: ...
    def centred_sums(
        self,
        rows: NDArray[np.int64],
        counts: NDArray[np.int64],
        shared_sums: NDArray[np.int64],
        weights: NDArray[np.float64],
        out: NDArray[np.float64],
        scale: float,
    ) -> None: ...
    def count(
        self,
        tokens: NDArray[Any],
        hashes: NDArray[np.uint64] | None,
        places: NDArray[np.int32] | None,
        columns: NDArray[np.int32],
        multiplicity: NDArray[np.uint32] | None,
        cells: NDArray[np.uint32],
        path: str = "auto",
    ) -> None: ...
    def count_stream(
        self,
        tokens: NDArray[Any],
        hashes: NDArray[np.uint64] | None,
        places: NDArray[np.int32] | None,
        columns: NDArray[np.int32],
        cells: NDArray[np.uint32],
        path: str = "auto",
    ) -> None: ...

class Finder:
    def __init__(
        self, words: NDArray[np.uint64], integer_key: tuple[int, int], keyed: bool
    ) -> None: ...
    def find(self, tokens: NDArray[Any], out: NDArray[np.int32], path: str = "auto") -> None: ...

class Table:
    def __init__(
        self,
        layout: Layout,
        values: NDArray[Any],
        divisor: NDArray[np.float64] | None,
        scale: float,
        path: str = "auto",
    ) -> None: ...
    def winners(
        self,
        tokens: NDArray[Any],
        hashes: NDArray[np.uint64] | None,
        places: NDArray[np.int32] | None,
        out: NDArray[np.int32],
        threads: int = 1,
    ) -> None: ...
    def leaders(
        self,
        tokens: NDArray[Any],
        hashes: NDArray[np.uint64] | None,
        places: NDArray[np.int32] | None,
        out: NDArray[np.int32],
        threads: int = 1,
    ) -> None: ...
    def scores(
        self,
        tokens: NDArray[Any],
        hashes: NDArray[np.uint64] | None,
        places: NDArray[np.int32] | None,
        out: NDArray[np.float64],
        threads: int = 1,
    ) -> None: ...
    def prove(
        self,
        upper: Table,
        tokens: NDArray[Any],
        hashes: NDArray[np.uint64] | None,
        places: NDArray[np.int32] | None,
        answers: NDArray[np.int32],
        out: NDArray[np.uint8],
        threads: int = 1,
    ) -> None: ...
    def one(self, tokens: Sequence[Any], known: dict[str, bytes]) -> int: ...
    def replaced(
        self, rows: NDArray[np.int64], values: NDArray[Any], divisor: NDArray[np.float64] | None
    ) -> Table: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def sum_bits(self) -> int: ...

def fail_allocation(after: int) -> None: ...

class RefusedError(ValueError): ...
class TooWideError(OverflowError): ...

Rows = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

class LiveRule:
    @staticmethod
    def log_linear(
        amounts: NDArray[np.float64], weights: NDArray[np.float64], octaves: int
    ) -> LiveRule: ...
    @staticmethod
    def mean(weights: NDArray[np.float64], divisor: float) -> LiveRule: ...
    @property
    def octaves(self) -> int: ...

class LiveVersion:
    @staticmethod
    def build(
        h: int,
        parents: NDArray[np.int64],
        positions: NDArray[np.uint32],
        site_steps: NDArray[np.uint32],
        wide: bool,
        rows: Iterable[Rows],
        label_counts: NDArray[np.uint64],
        empties: Iterable[Rows],
    ) -> LiveVersion: ...
    def edit(
        self, tokens: NDArray[np.int64], labels: NDArray[np.int64], by: NDArray[np.int64]
    ) -> LiveVersion | None: ...
    def edit_one(self, tokens: list[int], label: int, by: int) -> LiveVersion | None: ...
    def place(self, label: int, before: int, after: int) -> bool: ...
    def leaders(
        self,
        weights: NDArray[np.float64],
        divisor: float,
        tokens: NDArray[np.int64],
        out: NDArray[np.int64],
        most_listed: int = 512,
    ) -> None: ...
    def ratio_leaders(
        self,
        rule: LiveRule,
        n_labels: int,
        tokens: NDArray[np.int64],
        out: NDArray[np.int64],
        sure: NDArray[np.bool_],
    ) -> None: ...
    def ratio_winner(self, rule: LiveRule, n_labels: int, tokens: list[int]) -> int: ...
    def rows(self, step: int) -> Rows: ...
    def tallies(self, step: int) -> NDArray[np.uint64]: ...
    def read(
        self, tokens: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]: ...
    def label_row(self) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]: ...
    def label_counts(self, labels: NDArray[np.int64]) -> NDArray[np.int64]: ...
    def holds(self, token: int) -> bool: ...
    @property
    def examples(self) -> int: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_bare(self) -> int: ...
    @property
    def label_stamp(self) -> int: ...
    @property
    def n_versions(self) -> int: ...
    @property
    def n_pages(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

class LiveMixture:
    def __init__(
        self,
        sites: LiveVersion,
        columns: NDArray[np.int64],
        n_labels: int,
        trust: NDArray[np.float64],
        discounts: NDArray[np.float64],
        tables: list[tuple[LiveVersion, NDArray[np.int64], NDArray[np.int64]]],
        parts: NDArray[np.int64],
        most_whole: int = 512,
        patience: int = 4,
    ) -> None: ...
    def leaders(
        self,
        ranks: NDArray[np.int64],
        numbers: NDArray[np.int64],
        out: NDArray[np.int64],
        scores: NDArray[np.float64] | None = None,
        is_open: NDArray[np.uint8] | None = None,
        starts: NDArray[np.int64] | None = None,
        listed: NDArray[np.int64] | None = None,
        lists_allow: bool = False,
        power: int = 0,
    ) -> None: ...

class LiveSingle:
    def __init__(
        self, version: LiveVersion, weights: NDArray[np.float64], divisor: float
    ) -> None: ...
    def __call__(self, tokens: list[int]) -> int: ...

Extra = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

class DamagedError(ValueError): ...

def add_row_shares(
    contexts: NDArray[np.int64],
    weights: NDArray[np.float64],
    kept: NDArray[np.float64],
    lost: NDArray[np.float64],
    lengths: NDArray[np.int64],
    columns: NDArray[np.int64],
    counts: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> None: ...
def pack_rows(
    lengths: NDArray[np.int64], labels: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]: ...
def unpack_rows(
    packed: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64], n_labels: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...

class SegmentTable:
    def __init__(
        self,
        h: int,
        positions: list[tuple[int, ...]],
        n_tokens: int,
        n_labels: int,
        firsts: NDArray[np.int64],
        lasts: NDArray[np.int64],
        signs: NDArray[np.int64],
    ) -> None: ...
    def prepare(
        self,
        number: int,
        name: str,
        n_own: int,
        records: list[NDArray[Any]],
        index: list[NDArray[Any]],
        blocks: NDArray[np.uint64],
        entries: NDArray[Any],
        widths: NDArray[np.uint8],
        ranks: NDArray[np.int32],
        labels: NDArray[np.int32],
        file: NDArray[np.uint8] | None,
        checked: NDArray[np.uint8] | None,
    ) -> None: ...
    def winners(
        self,
        tokens: NDArray[np.int64],
        weights: NDArray[np.float64],
        extras: list[Extra],
        columns: NDArray[np.int32] | None,
        n_columns: int,
        divisor: NDArray[np.float64],
        out: NDArray[np.int64],
    ) -> NDArray[np.int64]: ...
    def sums(
        self,
        tokens: NDArray[np.int64],
        weights: NDArray[np.float64],
        extras: list[Extra],
        columns: NDArray[np.int32] | None,
        out: NDArray[np.float64],
    ) -> NDArray[np.int64]: ...
    def read(
        self,
        site: int,
        tuples: NDArray[np.int64],
        extras: list[Extra],
        columns: NDArray[np.int32] | None,
        n_columns: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
    def counts(
        self, tokens: NDArray[np.int64], labels: NDArray[np.int64], out: NDArray[np.int64]
    ) -> NDArray[np.int64]: ...

def count_labels(
    leaves: NDArray[np.int32],
    labels: NDArray[np.int32],
    weights: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None: ...

class Forest:
    def __init__(
        self,
        column: NDArray[np.int32],
        step: NDArray[np.uint8],
        right: NDArray[np.int32],
        starts: NDArray[np.int64],
        names: NDArray[np.uint8],
    ) -> None: ...
    def leaves(self, codes: NDArray[np.uint8], leaves: NDArray[np.int32]) -> None: ...
    def cells(
        self,
        levels: NDArray[np.uint8],
        parents: NDArray[np.int64],
        nodes: NDArray[np.int64],
        numbers: NDArray[np.int32],
    ) -> None: ...
    def add_leaves(
        self, cells: NDArray[np.int32], values: NDArray[np.int64], out: NDArray[np.int64]
    ) -> None: ...
    def with_scores(self, rows: NDArray[np.int32], values: NDArray[np.float64]) -> TreeScores: ...

class TreeScores:
    def add(self, codes: NDArray[np.uint8], scores: NDArray[np.float64]) -> None: ...

class StepCoder:
    def __init__(
        self,
        cuts: NDArray[np.float64],
        cut_starts: NDArray[np.int64],
        n_names: int,
        pairs: NDArray[np.int64],
        pair_cuts: NDArray[np.int64],
        pair_starts: NDArray[np.int64],
    ) -> None: ...
    @property
    def n_columns(self) -> int: ...
    def write(
        self, values: NDArray[np.float64], names: NDArray[np.uint8], codes: NDArray[np.uint8]
    ) -> None: ...

class ScoreTable:
    def __init__(
        self,
        h: int,
        site_starts: NDArray[np.int64],
        positions: NDArray[np.int64],
        row_starts: NDArray[np.int64],
        tuples: NDArray[np.int32],
        values: NDArray[np.float64],
        base: NDArray[np.float64],
        seed: int,
    ) -> None: ...
    def scores(self, tokens: NDArray[np.int32], scores: NDArray[np.float64]) -> None: ...
    def winner(self, tokens: list[int]) -> int: ...

def copies_in_bag(
    words: NDArray[np.uint64], counts: NDArray[np.int64], tree: int, out: NDArray[np.int64]
) -> None: ...
def grow_tree(
    codes: NDArray[np.uint8],
    names: NDArray[np.uint8],
    targets: NDArray[np.int32],
    weights: NDArray[np.int32],
    bag: NDArray[np.int32],
    n_labels: int,
    min_weight: int,
    max_columns: int,
    random_split: bool,
    seed: int,
    words: NDArray[np.uint64],
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32], NDArray[np.int64]]: ...
def halved_cuts(
    values: NDArray[np.float64],
    upto: NDArray[np.int64],
    least: int,
    band: float,
    band_rows: int,
    cuts: NDArray[np.float64],
) -> None: ...
def add_products(
    places: NDArray[np.int64],
    numbers: NDArray[np.int64],
    times: NDArray[np.int64],
    sums: NDArray[np.uint64],
) -> None: ...
def round_sums(sums: NDArray[np.uint64], out: NDArray[np.float64]) -> None: ...
def number_features(
    leaves: NDArray[np.int32],
    is_out: NDArray[np.uint8],
    cells: NDArray[np.int32],
    counts: NDArray[np.int64],
    sums: NDArray[np.int64] | NDArray[np.uint64],
    numbers: NDArray[np.int64],
    amounts: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def tree_features(
    leaves: NDArray[np.int32],
    is_out: NDArray[np.uint8],
    cells: NDArray[np.int32],
    counts: NDArray[np.int64],
    labels: NDArray[np.int32],
    kinds: NDArray[np.int32],
    n_kinds: int,
    label_logs: NDArray[np.float64],
    own_logs: NDArray[np.float64],
    label_starts: NDArray[np.int64],
    total_logs: NDArray[np.float64],
    out: NDArray[np.float32],
) -> None: ...

class SiteScan:
    def __init__(
        self,
        codes: NDArray[np.int32],
        sizes: NDArray[np.int32],
        labels: NDArray[np.int32],
        prior: NDArray[np.float64],
        amounts: NDArray[np.float64],
        n: int,
    ) -> None: ...
    def sums(
        self,
        sites: NDArray[np.int32],
        rows: NDArray[np.int32],
        probabilities: NDArray[np.float64],
        gradients: NDArray[np.float64],
        curvatures: NDArray[np.float64],
    ) -> None: ...
    def cells(self, site: NDArray[np.int32], out: NDArray[np.int32]) -> int: ...

class LogRatios:
    @staticmethod
    def of_scan(scan: SiteScan, rows: NDArray[np.int32], leave_one_out: bool) -> LogRatios: ...
    @staticmethod
    def of_counts(
        cells: NDArray[np.int32],
        starts: NDArray[np.int64],
        labels: NDArray[np.int32],
        counts: NDArray[np.int64],
        own_labels: NDArray[np.int32],
        prior: NDArray[np.float64],
        amounts: NDArray[np.float64],
        most: NDArray[np.int64],
        leave_one_out: bool,
    ) -> LogRatios: ...
    def add(self, scan: SiteScan, site: NDArray[np.int32], rows: NDArray[np.int32]) -> None: ...
    def scores(self, weights: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
    def softmax(
        self,
        scores: NDArray[np.float64],
        base: NDArray[np.float64],
        probabilities: NDArray[np.float64],
        losses: NDArray[np.float64],
    ) -> None: ...
    def sums(
        self,
        probabilities: NDArray[np.float64],
        n_sites: int,
        first: int,
        last: int,
        least: float,
        gradient: NDArray[np.float64],
        curvature: NDArray[np.float64],
    ) -> None: ...
    def loss(
        self,
        base: NDArray[np.float64],
        shares: NDArray[np.float64],
        start: NDArray[np.float64],
        strength: float,
        by_label: bool,
        at: NDArray[np.float64],
        gradient: NDArray[np.float64],
    ) -> float: ...
    def fit(
        self,
        base: NDArray[np.float64],
        shares: NDArray[np.float64],
        start: NDArray[np.float64],
        strength: float,
        by_label: bool,
        steps: int,
        tolerance: float,
        at: NDArray[np.float64],
    ) -> None: ...

class AdditiveLevels:
    @staticmethod
    def of(
        knots: NDArray[np.float64],
        starts: NDArray[np.int64],
        has_missing: NDArray[np.uint8],
        of_names: NDArray[np.uint8],
        sizes: NDArray[np.int64],
        reach: int,
    ) -> AdditiveLevels: ...

class AdditiveModes:
    @staticmethod
    def of(
        rows: NDArray[np.int64], columns: NDArray[np.int64], flat: NDArray[np.float64]
    ) -> AdditiveModes: ...
    def apply(self, phi: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
    def apply_turned(self, given: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
    def turn(self, upper: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...

class AdditiveRows:
    @property
    def n(self) -> int: ...
    @property
    def n_entries(self) -> int: ...
    @staticmethod
    def of(
        values: NDArray[np.float64],
        names: NDArray[np.uint8],
        fine: AdditiveLevels,
        coarse: AdditiveLevels,
        pairs: NDArray[np.int64],
    ) -> AdditiveRows: ...
    def entries(
        self, starts: NDArray[np.int64], index: NDArray[np.uint16], value: NDArray[np.int16]
    ) -> None: ...
    def scores(self, coefficients: NDArray[np.int64], out: NDArray[np.int64]) -> None: ...
    def add_gram(
        self,
        counts: NDArray[np.int64],
        targets: NDArray[np.int64],
        gram: NDArray[np.int64],
        products: NDArray[np.int64],
    ) -> None: ...
    def add_wide_gram(
        self,
        counts: NDArray[np.int64],
        targets: NDArray[np.int64],
        gram: NDArray[np.int64],
        products: NDArray[np.uint64],
    ) -> None: ...
    def curvature(
        self,
        labels: NDArray[np.int32],
        weights: NDArray[np.float64],
        modes: AdditiveModes,
        phi: NDArray[np.float64],
        most: int,
        out: NDArray[np.float64],
    ) -> None: ...
    def fold_slopes(
        self,
        labels: NDArray[np.int32],
        fold_weights: NDArray[np.float64],
        modes: AdditiveModes,
        phi: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> None: ...
    def fit(
        self,
        labels: NDArray[np.int32],
        weights: NDArray[np.float64],
        modes: AdditiveModes,
        inverse: NDArray[np.float64],
        penalties: NDArray[np.float64],
        center: NDArray[np.float64],
        steps: int,
        tolerance: float,
        phi: NDArray[np.float64],
    ) -> None: ...

class StepRatios:
    @staticmethod
    def of(
        columns: NDArray[np.int64],
        levels: NDArray[np.int32],
        rights: NDArray[np.int32],
        pairs: NDArray[np.int64],
        widths: NDArray[np.int64],
        starts: NDArray[np.int64],
        blocks: NDArray[np.int64],
        constant: NDArray[np.int64],
        prior: NDArray[np.int64],
        places: NDArray[np.int64],
        weights: NDArray[np.float64],
    ) -> StepRatios: ...
    def add(self, rows: NDArray[np.uint8], out: NDArray[np.float64]) -> None: ...

class DenseRatios:
    @staticmethod
    def of_rows(
        ratios: NDArray[np.float32], rows: NDArray[np.int64], labels: NDArray[np.int32]
    ) -> DenseRatios: ...
    def loss(
        self,
        base: NDArray[np.float64],
        shares: NDArray[np.float64],
        start: NDArray[np.float64],
        strength: float,
        by_label: bool,
        at: NDArray[np.float64],
        gradient: NDArray[np.float64],
        width: int = 0,
    ) -> float: ...
    def fit(
        self,
        base: NDArray[np.float64],
        shares: NDArray[np.float64],
        start: NDArray[np.float64],
        strength: float,
        by_label: bool,
        steps: int,
        tolerance: float,
        at: NDArray[np.float64],
        is_bounded: bool = False,
    ) -> None: ...

def portable_log(values: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
def portable_log1p(values: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
def inverse_root(a: NDArray[np.float64], out: NDArray[np.float64]) -> bool: ...
def label_shares(
    scores: NDArray[np.int64],
    labels: NDArray[np.int32],
    weights: NDArray[np.float64],
    most: float,
    out: NDArray[np.float64],
) -> float: ...
def pair_scores(
    cells: NDArray[np.uint8],
    sizes: NDArray[np.int64],
    left: NDArray[np.int64],
    spread: NDArray[np.int64],
    shrinkage: float,
    out: NDArray[np.float64],
) -> None: ...
def solve_positive(
    a: NDArray[np.float64], ridge: float, b: NDArray[np.float64], x: NDArray[np.float64]
) -> bool: ...
