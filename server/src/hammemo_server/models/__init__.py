"""Served models.

One with a writer or as a replica, all models of a folder, their health and their backups.

Imports `erasure`, `store` and `edits`; `http` and `commands` may import it.
"""
