"""Cells: how rows with numbers and dates become contexts of tokens."""

from hammemo.kernels.cells.cells import MISSING_RANGE as MISSING_RANGE
from hammemo.kernels.cells.cells import Cells as Cells
from hammemo.kernels.cells.cells import TreeCells as TreeCells
from hammemo.kernels.cells.cells import range_text as range_text
from hammemo.kernels.cells.choosing import chosen_cells as chosen_cells
from hammemo.kernels.cells.codes import quantile_cuts as quantile_cuts
from hammemo.kernels.cells.codes import token_values as token_values
