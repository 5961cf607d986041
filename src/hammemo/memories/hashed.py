r"""The hashed memory: small tables of integer counts, and answers that can be proven.

At every site a feature (a token, or a tuple of tokens) has a row of label counts: one of its own if it is *reserved*,
or the row of the bucket it hashes to, which it shares. A collision only adds, so a bucket's row is an upper bound on
each of its features' counts. Labels have columns of their own: there is no interference between them. The state is the
tables and the reserved list; there is no codebook and no vocabulary.

With B buckets and :math:`M_c` the sum of label c's column over them, a bucket's count has mean
:math:`N_c + (M_c - N_c)/B` over the hash, so

.. math:: \widehat N_c = \frac{B\,T_c - M_c}{B - 1}

is unbiased: subtracting one centring row a site undoes the collisions on average. Scores are fixed-point numbers, in
quarters of a count, so that sums are exact in any order and on any machine.

The layout (sites, seed, key, number of buckets, reserved features) is settled before the first example: by `reserve`,
or by the first `add`. States of one layout add, subtract and compare to the byte. Forgetting examples does not change
the layout: which features are reserved stays as it is.
"""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.arrays import narrow, sorted_find, sum_by_key
from hammemo.contexts import MAX_EXAMPLES
from hammemo.hashing import feature_hashes, features_of, key_words, mix
from hammemo.kernels import collect_sites
from hammemo.memories.base import CompiledMemory, LabelCounts, Memory, NotStoredError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.contexts import Contexts, Examples
    from hammemo.memories.base import Frame
    from hammemo.stored import StoredArrays
    from hammemo.tokens import Vocabulary

FRACTION_BITS = 2
"""Scores are whole multiples of 2^-FRACTION_BITS counts."""

_ROUNDING = 1e-12
MANY_LABELS = 4096
"""Above this many labels a dense row for every bucket is no longer small."""


class Hashed(Memory):
    """Counts in hashed buckets, with rows of their own for the most frequent features.

    Parameters
    ----------
    buckets : int
        Shared rows for each site.
    reserved : int
        Features of each site, the most frequent ones, that have a row of their own.
    key : bytes, optional
        A secret. Without it whoever chooses the tokens can make them collide; give one when tokens come from strangers.

    Examples
    --------
    >>> from hammemo import Hashed, MemoryClassifier
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    >>> clf = MemoryClassifier(memory=Hashed(buckets=64, reserved=8)).fit(X, y)
    >>> clf.class_scores([["a", "c"]]), clf.certify([["a", "c"]])
    (array([[1.5, 0.5]]), array([ True]))
    """

    secret = "key"

    _reserved: list[NDArray[np.uint64]] | None
    _tables: list[_SiteTable]
    _counts: LabelCounts
    _reader: HashedTables | None

    def __init__(self, buckets: int = 2048, reserved: int = 1024, key: bytes | None = None) -> None:
        self.buckets = buckets
        self.reserved = reserved
        self.key = key

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # scikit-learn's signature
        """Return what scikit-learn shows, but never the secret key."""
        if self.key is None:
            return str(super().__repr__(N_CHAR_MAX))
        return f"Hashed(buckets={self.buckets!r}, reserved={self.reserved!r}, key=<secret>)"

    def reserve(self, examples: Examples) -> None:
        """Settle the layout: give the most frequent features of these examples rows of their own; ties by hash.

        All sites of one position share one list, of the tokens most frequent at any of them taken together.
        """
        if self._reserved is not None:
            raise ValueError("The layout is settled already; open() the memory again to start anew.")
        hashes, ranks = self._site_hashes(examples.contexts)
        counted: dict[str, list[tuple[NDArray[np.uint64], NDArray[np.int64]]]] = {}
        for k, words in enumerate(hashes):
            held = ranks[:, k] >= 0
            totals = np.bincount(ranks[held, k], examples.multiplicity[held], len(words)).astype(np.int64)
            counted.setdefault(self._group(k), []).append((words, totals))
        chosen = {group: _most_frequent(parts, self.reserved) for group, parts in counted.items()}
        self._settle([chosen[self._group(k)] for k in range(len(hashes))])

    def add(self, examples: Examples) -> None:
        """Store examples; the first ones settle the layout if `reserve` has not."""
        if not len(examples):
            return  # and the layout stays open
        if self._reserved is None:
            self.reserve(examples)
        counts = self._counts.plus(LabelCounts(examples.labels, examples.label_counts()))
        self._grow(counts.labels)
        for table, (rows, labels, totals) in zip(self._tables, self._deltas(examples), strict=True):
            table.add(rows, labels, totals)
        self._counts, self._reader = counts, None

    def remove(self, examples: Examples) -> None:
        """Take examples back, or raise `NotStoredError` where a count would become negative."""
        counts = self._counts.plus(LabelCounts(examples.labels, examples.label_counts()), sign=-1)
        deltas = self._deltas(examples)
        if any(
            (table.at(rows, labels) < totals).any()
            for table, (rows, labels, totals) in zip(self._tables, deltas, strict=True)
        ):
            raise NotStoredError(
                "At least one example to be removed was never stored: a count would become negative. "
                "Nothing was changed."
            )
        for table, (rows, labels, totals) in zip(self._tables, deltas, strict=True):
            table.add(rows, labels, -totals)
        self._place(counts.labels)
        self._counts, self._reader = counts, None

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the centred counts."""
        return self._read().scores(contexts, weights)

    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact weighted counts are at least, and at most.

        Shapes
        ------
        returned : (m, L), (m, L)
        """
        return self._read().bounds(contexts, weights)

    def compile(self, form: str | None = None, vocabulary: Vocabulary | None = None) -> CompiledMemory:  # noqa: ARG002
        """Return the ``"table"`` of fixed-point rows; a vocabulary is not needed."""
        if form not in (None, "table"):
            raise ValueError(f"form={form!r} is not known: Hashed() compiles to 'table'.")
        return HashedTables(self)

    def declare(self, labels: Vocabulary) -> None:
        """Keep these labels as candidates, with or without examples."""
        super().declare(labels)
        self._reader = None

    def empty_like(self) -> Hashed:
        """Return a memory of the same layout, reserved features included, with nothing stored."""
        fresh: Hashed = super().empty_like()
        if self._reserved is not None:
            fresh._settle(self._reserved)
        return fresh

    def layout(self) -> dict[str, Any]:
        """Return what must agree for two states to be added, by name; of a secret key, only a digest."""
        reserved = hashlib.blake2b(digest_size=16)
        for words in self._reserved or []:
            reserved.update(len(words).to_bytes(8, "little") + words.astype("<u8").tobytes())
        return {
            **super().layout(),
            "seed": self.seed,
            "key": key_digest(self.key),
            "buckets": int(self.buckets),
            "reserved": None if self._reserved is None else reserved.hexdigest(),
        }

    @property
    def row_width(self) -> int:
        """How many numbers one query needs while it is answered."""
        return 2 * len(self.labels)

    def _open(self) -> None:
        for name, least in (("buckets", 1), ("reserved", 0)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or not least <= value < 2**31:
                raise ValueError(f"{name}={value!r} is a whole number of at least {least}.")
        if self.key is not None and not (isinstance(self.key, bytes) and 16 <= len(self.key) <= 64):
            raise ValueError("key is a secret of 16 to 64 bytes, for example secrets.token_bytes(32).")
        self._reserved = None
        self._tables = []
        self._counts = LabelCounts()
        self._reader = None
        if self.reserved == 0:  # nothing is left to choose
            self._settle([np.empty(0, np.uint64) for _ in self.sites.positions])

    def _group(self, k: int) -> str:
        """Return the name of the reserved list that site k uses."""
        return "positions" if len(self.sites.positions[k]) == 1 else f"site {k}"

    def _settle(self, reserved: list[NDArray[np.uint64]]) -> None:
        self._reserved = reserved
        self._tables = [_SiteTable(len(words), self.buckets) for words in reserved]

    def _site_hashes(self, contexts: Contexts) -> tuple[list[NDArray[np.uint64]], NDArray[np.int64]]:
        """Return the hash of what each site holds in a batch, and for each context which of them; -1 for none."""
        tuples, ranks = collect_sites(contexts, self.sites)
        tokens = contexts.vocabulary.tolist()
        hashes = [feature_hashes(features_of(tokens, known.rows()), self.seed, self.key) for known in tuples]
        return hashes, ranks

    def rows(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the row of each site's table that each context reads: reserved ones first, then buckets; -1 for none.

        Shapes
        ------
        returned : (m, S)
        """
        hashes, ranks = self._site_hashes(contexts)
        rows = np.full(ranks.shape, -1, np.int64)
        for k, (words, reserved) in enumerate(zip(hashes, self._reserved or [], strict=True)):
            salt = np.uint64(key_words(self.seed, "site", *self.sites.positions[k])[0])
            high = mix(words ^ salt) >> np.uint64(32)
            buckets = (high * np.uint64(self.buckets)) >> np.uint64(32)
            own = sorted_find(reserved, words)
            row = np.where(own >= 0, own, len(reserved) + buckets.astype(np.int64))
            held = ranks[:, k] >= 0
            rows[held, k] = row[ranks[held, k]]
        return rows

    def _deltas(self, examples: Examples) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """Return for each site the distinct (row, column) pairs that a batch touches, and its counts there."""
        if not self._tables:
            return []
        rows, labels = self.rows(examples.contexts), self._columns.find(examples.labels)
        width = max(len(self._columns), 1)
        deltas = []
        for table, row in zip(self._tables, rows.T, strict=True):
            held = row >= 0
            keys, totals = sum_by_key(
                row[held] * width + labels[examples.label_ranks[held]],
                examples.multiplicity[held],
                table.n_rows * width,
            )
            deltas.append((*np.divmod(keys, width), totals))
        return deltas

    @property
    def _columns(self) -> Vocabulary:
        return self._counts.labels

    def _grow(self, labels: Vocabulary) -> None:
        if len(labels) > MANY_LABELS >= len(self._columns):
            warnings.warn(
                f"{len(labels)} labels need a column in every bucket. Above {MANY_LABELS} labels, "
                "memory=Exact() is usually smaller.",
                stacklevel=4,
            )
        self._place(labels)

    def _place(self, labels: Vocabulary) -> None:
        """Give the tables one column for each of `labels`, the counts of those that stay kept."""
        if labels == self._columns:
            return
        source = self._columns.find(labels)
        for table in self._tables:
            table.rearrange(source)
        self._counts = LabelCounts(labels, np.zeros(len(labels), np.int64))

    def merge(self, other: Memory) -> None:
        """Add the state of another memory of the same layout; a memory whose layout is open takes the other's."""
        if self._reserved is None and isinstance(other, Hashed) and other._reserved is not None:
            self._settle(other._reserved)
        super().merge(other)

    def _merge(self, other: Hashed) -> None:
        counts = self._counts.plus(other._counts)
        self._grow(counts.labels)
        columns = counts.labels.find(other._columns)
        for mine, theirs in zip(self._tables, other._tables, strict=True):
            mine.merge(theirs, columns)
        self._counts, self._reader = counts, None

    def _restore(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        self._open()
        counts = all_labels.positive()
        if self._reserved is None and "own.0" not in stored and not len(counts.labels):
            return  # the layout was still open
        reserved = self._stored_reserved(stored)
        tables = [_stored_table(stored, k, words, self.buckets, all_labels) for k, words in enumerate(reserved)]
        self._settle(reserved)
        for table, (own, shared) in zip(self._tables, tables, strict=True):
            table.own, table.shared = own, shared
        self._counts = counts

    def _stored_reserved(self, stored: StoredArrays) -> list[NDArray[np.uint64]]:
        """Return the reserved features of each site, checked."""
        groups = [self._group(k) for k in range(len(self.sites.positions))]
        words = {group: stored.ascending(f"reserved.{group}", "uint64") for group in groups}
        if max(map(len, words.values())) > self.reserved:
            raise ValueError(f"a site has more reserved features than reserved={self.reserved}")
        return [words[group] for group in groups]

    def _observed(self) -> LabelCounts:
        return self._counts

    def _read(self) -> HashedTables:
        if self._reader is None:
            self._reader = HashedTables(self)
        return self._reader

    def _state(self) -> dict[str, NDArray[Any]]:
        columns = self.labels.find(self._columns)
        state: dict[str, NDArray[Any]] = {}
        for k, (table, words) in enumerate(zip(self._tables, self._reserved or [], strict=True)):
            for name, part in (("own", table.own), ("shared", table.shared)):
                placed = np.zeros((len(part), len(self.labels)), part.dtype)
                placed[:, columns] = part
                state[f"{name}.{k}"] = narrow(placed)
            state[f"reserved.{self._group(k)}"] = words
        return state


def key_digest(key: bytes | None) -> str | None:
    """Return what may be known of a secret key: enough to tell whether two are the same."""
    return None if key is None else hashlib.blake2b(key, digest_size=16, person=b"layout").hexdigest()


class _SiteTable:
    """The counts of one site: rows of reserved features, then buckets; each part as narrow as its counts allow."""

    def __init__(self, reserved: int, buckets: int) -> None:
        self.own: NDArray[Any] = np.zeros((reserved, 0), np.uint8)
        self.shared: NDArray[Any] = np.zeros((buckets, 0), np.uint8)

    @property
    def n_rows(self) -> int:
        return len(self.own) + len(self.shared)

    def at(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts in these cells."""
        counts = np.empty(len(rows), np.int64)
        is_own = rows < len(self.own)
        counts[is_own] = self.own[rows[is_own], columns[is_own]]
        counts[~is_own] = self.shared[rows[~is_own] - len(self.own), columns[~is_own]]
        return counts

    def add(self, rows: NDArray[np.int64], columns: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add to distinct cells, widening a part before it would overflow."""
        is_own = rows < len(self.own)
        self.own = _added(self.own, rows[is_own], columns[is_own], counts[is_own])
        self.shared = _added(self.shared, rows[~is_own] - len(self.own), columns[~is_own], counts[~is_own])

    def merge(self, other: _SiteTable, columns: NDArray[np.int64]) -> None:
        """Add another table whose columns stand at `columns` here."""
        for name in ("own", "shared"):
            total = getattr(self, name).astype(np.int64)
            total[:, columns] += getattr(other, name)
            setattr(self, name, narrow(total))

    def rearrange(self, source: NDArray[np.int64]) -> None:
        """Take the columns `source`, where -1 stands for a new one."""
        for name in ("own", "shared"):
            part = getattr(self, name)
            placed = np.zeros((len(part), len(source)), part.dtype)
            placed[:, source >= 0] = part[:, source[source >= 0]]
            setattr(self, name, placed)


def _stored_table(
    stored: StoredArrays, k: int, reserved: NDArray[np.uint64], buckets: int, all_labels: LabelCounts
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of site k, checked, with columns for the labels that have examples."""
    n_labels, held = len(all_labels.labels), all_labels.counts > 0
    own = stored.whole_numbers(f"own.{k}", (len(reserved), n_labels), below=MAX_EXAMPLES)
    shared = stored.whole_numbers(f"shared.{k}", (buckets, n_labels), below=MAX_EXAMPLES)
    if not stored.trusted:
        totals = own.sum(axis=0, dtype=np.float64) + shared.sum(axis=0, dtype=np.float64)
        if (totals > all_labels.counts).any():
            raise ValueError(f"the tables of site {k} count more examples of a label than the label has")
    return (own, shared) if held.all() else (own[:, held], shared[:, held])


def _added(
    part: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[Any]:
    if not len(rows):
        return part
    totals = part[rows, columns].astype(np.int64) + counts
    needed = np.min_scalar_type(int(totals.max()))
    if needed.itemsize > part.dtype.itemsize:
        part = part.astype(needed)
    part[rows, columns] = totals
    return part


def _most_frequent(parts: list[tuple[NDArray[np.uint64], NDArray[np.int64]]], number: int) -> NDArray[np.uint64]:
    """Return the hashes with the largest summed counts, ascending; equal counts by hash."""
    words, place = np.unique(np.concatenate([w for w, _ in parts]), return_inverse=True)
    totals = np.zeros(len(words), np.int64)
    np.add.at(totals, place, np.concatenate([t for _, t in parts]))
    best = np.lexsort((words, -totals))[:number]
    return np.sort(words[best])


class HashedTables:
    """The fixed-point rows of every site, ready to be gathered and added."""

    def __init__(self, memory: Hashed) -> None:
        self.labels = memory.labels
        self.label_counts = memory.label_counts
        self.row_width = memory.row_width
        if memory._reserved is None:  # nothing is stored: every layout answers the same
            memory = memory.empty_like()
            memory._settle([np.empty(0, np.uint64) for _ in memory.sites.positions])
        self._reserved = memory._reserved or []
        self._groups = [memory._group(k) for k in range(len(self._reserved))]
        columns = self.labels.find(memory._columns)
        self._rows: list[NDArray[Any]] = []
        self._upper: list[NDArray[np.int64]] | None = []
        for table in memory._tables:
            upper = np.zeros((table.n_rows + 1, len(self.labels)), np.int64)  # the last row answers an empty site
            upper[: len(table.own), columns] = table.own
            upper[len(table.own) : -1, columns] = table.shared
            self._upper.append(upper)
            self._rows.append(_centred(upper, len(table.own)))
        self._layout = memory.empty_like()  # the memory may go on learning

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the centred counts."""
        totals: NDArray[np.float64] = np.zeros((len(contexts), len(self.labels)))
        for table, row, weight in zip(self._rows, self._layout.rows(contexts).T, weights, strict=True):
            totals += weight * table[row]
        return np.asarray(totals / 2**FRACTION_BITS)

    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact weighted counts are at least, and at most."""
        low = np.zeros((len(contexts), len(self.labels)))
        high = np.zeros_like(low)
        if self._upper is None:
            raise ValueError("A compiled model from a file carries no bounds; save the classifier to certify answers.")
        sites = zip(self._upper, self._reserved, self._layout.rows(contexts).T, weights, strict=True)
        for table, reserved, row, weight in sites:
            counts = weight * table[row]
            high += counts
            own = (row >= 0) & (row < len(reserved))
            low[own] += counts[own]
        if (weights != np.floor(weights)).any():  # the exact classifier may add its rounded terms in another order
            low, high = low * (1 - _ROUNDING), high * (1 + _ROUNDING)
        return low, high

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        tables = {f"rows.{k}": _narrow_signed(table[:-1]) for k, table in enumerate(self._rows)}
        reserved = {f"reserved.{group}": words for group, words in zip(self._groups, self._reserved, strict=True)}
        return {**tables, **{name: words for name, words in reserved.items() if len(words)}}

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs: the rows, with the one of an empty site, and the layout without its secret."""
        tables = {f"rows.{k}": _narrow_signed(table) for k, table in enumerate(self._rows)}
        reserved = {f"reserved.{group}": words for group, words in zip(self._groups, self._reserved, strict=True)}
        layout = self._layout
        return {**tables, **reserved}, {
            "buckets": int(layout.buckets),
            "reserved": int(layout.reserved),
            "seed": layout.seed,
            "key": key_digest(layout.key),
        }

    @classmethod
    def restored(
        cls, frame: Frame, stored: StoredArrays, description: dict[str, Any], key: bytes | None = None
    ) -> HashedTables:
        """Return the compiled form with these arrays, checked: undo `stored`."""
        numbers: list[Any] = [description.get(name) for name in ("buckets", "reserved", "seed")]
        if len(description) != 4 or "key" not in description or any(type(number) is not int for number in numbers):
            raise ValueError("the hashed tables are not described by buckets, reserved, seed and key")
        buckets, n_reserved, seed = numbers
        layout = Hashed(buckets, n_reserved, key).open(frame.sites, seed)
        layout._settle(layout._stored_reserved(stored))
        tables = cls.__new__(cls)
        tables.labels, tables.label_counts, tables.row_width = frame.labels, frame.label_counts, 2 * len(frame.labels)
        tables._layout, tables._reserved, tables._upper = layout, layout._reserved or [], None
        tables._groups = [layout._group(k) for k in range(len(tables._reserved))]
        tables._rows = [
            stored.take(f"rows.{k}", ("int8", "int16", "int32", "int64"), (len(words) + buckets + 1, len(frame.labels)))
            for k, words in enumerate(tables._reserved)
        ]
        return tables


def _centred(upper: NDArray[np.int64], n_reserved: int) -> NDArray[np.int64]:
    """Return fixed-point rows: reserved counts as they are, bucket counts centred and rounded to the nearest."""
    rows = upper << FRACTION_BITS
    shared = upper[n_reserved:-1]
    buckets = len(shared)
    if buckets == 1:  # a single bucket tells nothing of any of its features
        rows[n_reserved:-1] = 0
    elif buckets:
        doubled = (buckets * shared - shared.sum(axis=0)) << (FRACTION_BITS + 1)
        rows[n_reserved:-1] = (doubled + (buckets - 1)) // (2 * (buckets - 1))
    return rows


def _narrow_signed(values: NDArray[np.int64]) -> NDArray[Any]:
    largest = int(np.abs(values).max()) if values.size else 0
    return values.astype(np.min_scalar_type(-max(largest, 1)))
