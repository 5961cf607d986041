"""Sources: examples and documents from files and object storage, in every format that hammemo reads.

- `formats`: what the name of a file says, and how its bytes are reached; `listing`: files in folders and behind globs.
- `tables`: rows of columns; `table_files`: many files of them, cut into shards. `documents`: sequences of tokens, cut
  into shards (`line_ranges`, `tokenization`).
- `schemas`: how rows and documents become examples and queries (`examples`, `kinds`, `times`), kept with the model.
  `reading_notes`: what is said and stored about it.

Imports `tokens` and `_arrays`; engines, experiments and the command line build on it.
"""

from typing import TYPE_CHECKING

from hammemo._lazy import lazy_names

if TYPE_CHECKING:
    from hammemo.sources.documents import Source as Source
    from hammemo.sources.documents import open_source as open_source

__all__, __getattr__, __dir__ = lazy_names(__name__, {"documents": ("Source", "open_source")})
