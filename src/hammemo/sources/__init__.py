"""Sources: examples and documents from files, object storage and databases.

- `formats`: what the name of a file says, and how its bytes are reached. `listing`: the files in
  folders and behind globs, and how they are cut into shards.
- `read_tables`: rows of columns. `documents`: sequences of tokens. `databases`: rows in no file.
- `schemas`: how rows and documents become examples and queries, stored with the model.
  `kinds`: what each column of the input holds. `reading_notes`: what is said and stored about it.

Imports `tokens` and `_arrays`; engines, experiments and the command line build on it.
"""

from typing import TYPE_CHECKING

from hammemo._lazy import lazy_names

if TYPE_CHECKING:
    from hammemo.sources.documents import Source as Source
    from hammemo.sources.documents import open_source as open_source

__all__, __getattr__, __dir__ = lazy_names(__name__, {"documents": ("Source", "open_source")})
