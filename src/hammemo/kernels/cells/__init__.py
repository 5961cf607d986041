"""Cells: how rows with numbers and dates become contexts of tokens."""

from hammemo.kernels.cells.cells import Cells as Cells
from hammemo.kernels.cells.choosing import chosen_cells as chosen_cells
