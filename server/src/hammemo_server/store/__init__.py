"""What is on disk or in a database.

Logs of edits, keys, the audit record, named lists, files of backups.

Imports `edits`; `erasure`, `models`, `http` and `commands` may import it.
"""
