"""How small the entries of a model in parts would be if gaps between labels, and counts, were packed in bits.

    python benchmarks/packed_parts.py FOLDER        # such as FOLDER/processes of scale.py --parts

A row's labels become the gaps between them, and its counts numbers from 0; both are cut into blocks of 128, and all
numbers of a block get as many bits as most of them need. A number that needs more (an exception) is kept beside, in 3
bytes. A block has two bytes that say how many bits, and how many exceptions. The number of bits is the one that takes
least room. This is a trial: no file is written so.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from hammemo import load
from hammemo._arrays.integers import pieces

BLOCK, EXCEPTION_BYTES, BLOCK_BYTES = 128, 3, 2


def packed_bytes(numbers: np.ndarray[Any, Any], blocks: np.ndarray[Any, Any], n_blocks: int) -> int:
    """Return how many bytes numbers take in their blocks, with the best number of bits for each block."""
    widths = np.zeros(len(numbers), np.int64)
    for bit in range(32):
        widths += numbers >> bit > 0
    sizes = np.bincount(blocks, minlength=n_blocks)
    best = np.full(n_blocks, np.iinfo(np.int64).max)
    for bits in range(33):
        larger = np.bincount(blocks[widths > bits], minlength=n_blocks)
        best = np.minimum(best, (sizes * bits + 7) // 8 + larger * EXCEPTION_BYTES)
    return int(best.sum()) + BLOCK_BYTES * n_blocks


def main(folder: str) -> None:
    """Print the figures."""
    parts = load(folder, verify=False).memory_.parted.base.parts.parts
    present = labels_packed = counts_packed = n_entries = 0
    for signed in parts:
        part = signed.part
        present += part.arrays["entries"].nbytes
        n_entries += part.n_entries
        for k in range(len(part.sites.positions)):
            records = part.arrays[f"rows.{k}"]
            for piece in pieces(part.n_rows(k), 2**12):
                edges = records[piece.start : piece.stop + 1, -1].astype(np.int64)
                lengths = np.diff(edges)
                rows = np.repeat(np.arange(len(lengths)), lengths)
                place = np.arange(len(rows)) - np.repeat(edges[:-1] - edges[0], lengths)
                block = np.concatenate([[0], np.cumsum(-(-lengths // BLOCK))])[rows] + place // BLOCK
                n_blocks = int(-(-lengths // BLOCK).sum())
                read = part._entries[edges[0] : edges[-1]]
                labels = read["label"].astype(np.int64)
                gaps = np.where(place > 0, labels - np.roll(labels, 1) - 1, labels)
                labels_packed += packed_bytes(gaps, block, n_blocks)
                counts_packed += packed_bytes(read["count"].astype(np.int64) - 1, block, n_blocks)
    packed = labels_packed + counts_packed
    print(
        f"{n_entries:,} entries: {present / n_entries:.2f} bytes each now; packed {packed / n_entries:.2f} "
        f"(labels {labels_packed / n_entries:.2f}, counts {counts_packed / n_entries:.2f}), {packed / present:.0%}"
    )


if __name__ == "__main__":
    main(sys.argv[1])
