"""Files: models on disk, written whole and loaded without running anything.

Imports models and all below; engines, experiments and the command line build on it.
"""

from hammemo.files.archive import FileError
from hammemo.files.models import inspect, load, read_notes, save

__all__ = ["FileError", "inspect", "load", "read_notes", "save"]
