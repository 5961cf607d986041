"""The exact memory: sparse counts of every (site, token, label).

`table` is the table of counts as a value; `live` keeps one that is edited row by row, and
`segments` what lies in files. `memory` holds a sum of them, and readers answer from it. Other
packages import what is listed here and nothing deeper.
"""

from hammemo.memories.exact.live.live import Live, Shared
from hammemo.memories.exact.live.numbers import rank_before
from hammemo.memories.exact.memory import Exact, InSegments, head_state, restore_in_segments
from hammemo.memories.exact.reader import (
    DenseCounts,
    SparseCounts,
    find_table_columns,
    read_token_rows,
    with_free_rows,
)
from hammemo.memories.exact.score_rows import Entries, apply_rule
from hammemo.memories.exact.score_table import (
    MAX_DENSE_LABELS,
    TreeRanker,
    WholeTable,
    dense_values,
)
from hammemo.memories.exact.segments.entries import SiteRows, add_rows, entries_in
from hammemo.memories.exact.segments.segment import PAGE, Segment, arrays_in_use, table_arrays
from hammemo.memories.exact.segments.set import SignedSegment, View
from hammemo.memories.exact.sum import SignedSum
from hammemo.memories.exact.table import CountTable

__all__ = [
    "MAX_DENSE_LABELS",
    "PAGE",
    "CountTable",
    "DenseCounts",
    "Entries",
    "Exact",
    "InSegments",
    "Live",
    "Segment",
    "Shared",
    "SignedSegment",
    "SignedSum",
    "SiteRows",
    "SparseCounts",
    "TreeRanker",
    "View",
    "WholeTable",
    "add_rows",
    "apply_rule",
    "arrays_in_use",
    "dense_values",
    "entries_in",
    "find_table_columns",
    "head_state",
    "rank_before",
    "read_token_rows",
    "restore_in_segments",
    "table_arrays",
    "with_free_rows",
]
