"""Packed rows beside entries side by side.

Printed are bytes, and microseconds a query, of one model in segments.

    python benchmarks/packed_segments.py FOLDER

FOLDER is, for example, the folder FOLDER/processes of ``scale.py --segments``.

Every segment is read and held in memory in both forms, so there must be memory for both. Then the
same questions are asked of both in turns: the best label of one context, and the counts that
`forget_one` looks at. Times are of the processor; the ratio is that of the medians. The answers are
compared.
"""

from __future__ import annotations

import sys
from statistics import median
from typing import Any

import numpy as np

from hammemo import load
from hammemo.memories.exact.segments.segment import Segment, segment_arrays
from hammemo.memories.exact.segments.set import SegmentColumns, SegmentSet, SignedSegment
from hammemo.paper.experiments.measuring import seconds, zipf_stream

N_QUERIES = 300
FORMS = {"side by side": False, "packed": True}


def both_forms(stored: SegmentSet) -> dict[str, SegmentSet]:
    """Return the same segments in memory, in both forms."""
    signed_segments: dict[str, list[SignedSegment]] = {form: [] for form in FORMS}
    for segment, sign, _ in stored.segments:
        rows = [
            segment.rows_between(k, 0, len(segment.vocabulary))
            for k in range(len(stored.sites.positions))
        ]
        for form, packed in FORMS.items():
            arrays = segment_arrays(rows, segment.vocabulary, segment.labels, packed=packed)
            signed_segments[form].append(SignedSegment(Segment(stored.sites, arrays), sign))
    return {form: SegmentSet(stored.sites, segments) for form, segments in signed_segments.items()}


def main(folder: str) -> None:
    """Print the figures."""
    forms = both_forms(load(folder, verify=False).memory_.segmented.files.segments)
    first = next(iter(forms.values()))
    n_entries = sum(segment.n_entries for segment, *_ in first.segments)
    sizes = {
        form: sum(segment.entry_bytes.nbytes for segment, *_ in segments.segments)
        for form, segments in forms.items()
    }
    smaller = sizes["packed"] / sizes["side by side"]
    each = ", ".join(f"{form} {size / n_entries:.2f}" for form, size in sizes.items())
    print(f"{n_entries:,} entries, bytes each: {each}; {smaller:.0%}")
    h = first.sites.h
    n_labels = len(first.labels)
    queries = zipf_stream(N_QUERIES * h, len(first.vocabulary), seed=10**6).reshape(N_QUERIES, h)
    labels = zipf_stream(N_QUERIES, n_labels, seed=5)
    weights = np.ones(len(first.sites.positions))
    columns = SegmentColumns(None, n_labels)
    divisor = np.ones(1)

    def find_best_label(segments: SegmentSet, i: int) -> Any:
        return segments.winners(
            queries[i : i + 1], weights, extras=[], columns=columns, divisor=divisor
        )

    def count_label(segments: SegmentSet, i: int) -> Any:
        return segments.counts(queries[i : i + 1], labels[i : i + 1])

    questions: dict[str, Any] = {
        "the best label": find_best_label,
        "the count of one label at each site": count_label,
    }
    for name, ask in questions.items():
        times: dict[str, list[float]] = {form: [] for form in forms}
        differ = 0
        for i in range(N_QUERIES):
            answers = []
            for form, segments in forms.items():
                ask(segments, i)  # what is prepared at first is not timed
                times[form].append(1e6 * seconds(ask, segments, i))
                answers.append(ask(segments, i).tolist())
            differ += answers[0] != answers[1]
        medians = {form: median(spans) for form, spans in times.items()}
        ratio = medians["packed"] / medians["side by side"]
        each = ", ".join(f"{form} {spans:.0f}" for form, spans in medians.items())
        print(
            f"{name}, median us: {each}; ratio {ratio:.2f}; {differ} of {N_QUERIES} answers differ"
        )


if __name__ == "__main__":
    main(sys.argv[1])
