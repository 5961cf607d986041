"""Sources: examples and documents from files and object storage, in every format that hammemo reads.

Imports `tokens` and `_arrays`; engines, experiments and the command line build on it.
"""

from hammemo.sources.documents import open_source

__all__ = ["open_source"]
