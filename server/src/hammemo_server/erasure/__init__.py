"""The rows of each subject, how they are erased, and the receipts of deletions.

Imports `store` and `edits`; `models`, `http` and `commands` may import it.
"""
