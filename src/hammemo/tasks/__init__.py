"""Tasks: what differs between models of labels and models of numbers.

Both folders have the same file names for the same steps. Each task is a value, `LABELS` or
`NUMBERS`, of the protocol :class:`hammemo.edits.task.ModelTask`. Imports edits and all below;
estimators import it. The two tasks do not import each other.
"""
