"""Memories: the additive states, exact counts and the sketches of them, and what reads them.

`base` is the contract, `reader` and `ranker` are what answers; each memory has a folder; `tiered`
wraps another memory. A memory of another package finds all that it needs here and in
`hammemo.tokens`.

Imports kernels, tokens and `_arrays`; votes, models and all above build on it.
"""

from hammemo._arrays.checked import StoredArrays
from hammemo.memories.base import Memory
from hammemo.memories.errors import LayoutError, NotStoredError
from hammemo.memories.exact import Exact
from hammemo.memories.gaussian import Gaussian
from hammemo.memories.hashed import Hashed
from hammemo.memories.label_counts import Frame, LabelCounts
from hammemo.memories.ranker import Ranker, SiteScores
from hammemo.memories.reader import Compiled, Reader
from hammemo.memories.row_rules import RowRule
from hammemo.memories.tiered import Tiered

__all__ = [
    "Compiled",
    "Exact",
    "Frame",
    "Gaussian",
    "Hashed",
    "LabelCounts",
    "LayoutError",
    "Memory",
    "NotStoredError",
    "Ranker",
    "Reader",
    "RowRule",
    "SiteScores",
    "StoredArrays",
    "Tiered",
]
