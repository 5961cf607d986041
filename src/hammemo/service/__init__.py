"""Durable editing: models that keep every acknowledged edit, for `hammemo serve` and for programs of your own.

- :mod:`hammemo.service.operations`: what is asked of a served model, and how it is refused
- :mod:`hammemo.service.limits`: how much is taken at once
- :mod:`hammemo.service.log`: what a log of edits promises; `sqlite_log` on one node, `postgres_log` for several
- :mod:`hammemo.service.hosted`: one model, its writer and its snapshots; `following`: the same model, read elsewhere
- :mod:`hammemo.service.host`: all models of a folder, by tenant and name

Imports `files`, `models` and all below; the command line may import it. It needs the extra packages of
``hammemo[serve]``, and ``hammemo[postgres]`` for logs in PostgreSQL.
"""

try:
    import msgspec  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Serving models needs its extra packages: pip install 'hammemo[serve]'", name=error.name
    ) from error
