"""The server of hammemo: models over HTTP that keep every acknowledged edit.

- :mod:`hammemo_server.edits`: requests to a served model, how many are accepted, and how they
  are refused
- :mod:`hammemo_server.store`: logs of edits in SQLite and PostgreSQL, keys, audit record, named
  lists, backups
- :mod:`hammemo_server.erasure`: the rows of each subject, and receipts
- :mod:`hammemo_server.models`: one model with its writer or as a replica, all models of a
  folder, backups
- :mod:`hammemo_server.http`: requests and answers
- :mod:`hammemo_server.commands`: `hammemo serve` and the other commands of the server

Each package imports those above it in this list and the library `hammemo`, which never imports
the server.
"""
