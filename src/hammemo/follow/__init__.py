"""Follow a table of PostgreSQL: insert = learn, delete = forget, update = both.

`pgoutput` decodes the messages of PostgreSQL's log; `values` turns their texts into typed
columns; `changes` adds up a batch; `position` is what the model stores: up to where the log was
read; `source` is the database, asked in plain SQL; `targets` are a model file and a model on a
server; `follower` is the loop.

Imports `hammemo.client`, `hammemo.receipts` and all below; only the command line imports it.
Needs psycopg and pyarrow: ``pip install 'hammemo[follow]'``.
"""

from hammemo.follow.position import FollowError, ProtocolError

__all__ = ["FollowError", "ProtocolError"]
