"""Cells: how rows with numbers and dates become contexts of tokens."""

from hammemo.features.cells.cells import MISSING_RANGE as MISSING_RANGE
from hammemo.features.cells.cells import Cells as Cells
from hammemo.features.cells.cells import TreeCells as TreeCells
from hammemo.features.cells.cells import range_text as range_text
from hammemo.features.cells.column_codes import quantile_cuts as quantile_cuts
from hammemo.features.cells.column_codes import token_values as token_values
