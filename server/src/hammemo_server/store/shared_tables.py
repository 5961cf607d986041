"""Tables that both engines have.

Edits, the audit record, what belongs to subjects, and names of tenants.

- ``hammemo_subjects``: the wrapped key of each subject, found by a keyed hash of the subject;
- ``hammemo_journal``: the rows of each subject, one ciphertext for each edit that names it.
  This is the log body of the edit, written once. The log has a reference to it, which goes when
  the log is trimmed; the ciphertext stays;
- ``hammemo_receipts``: receipts of edits that were sent with the request for one;
- ``hammemo_erasures``: subjects that were forgotten, and the receipts.

Every table of a log has a column `model`; in a log in SQLite, which has one model, it is 1.
"""

from __future__ import annotations

from typing import Final

EDITS = "hammemo_edits"
IDS = "hammemo_ids"

_COLUMNS: Final = {
    EDITS: "position bigint, body bytea",
    IDS: "op text, position bigint, digest bytea, ran double precision",
    "hammemo_audit": (
        "number bigint, at double precision, token text, kind text, op bytea, n_rows bigint, "
        "before bigint, after bigint, receipt bytea, link bytea"
    ),
    "hammemo_marks": "name text, value bytea",
    "hammemo_receipts": "op text, position bigint, body bytea",
    "hammemo_subjects": "key bigint, subject bytea, wrapping bigint, wrapped bytea",
    "hammemo_journal": "position bigint, key bigint, forgets bigint, body bytea",
    "hammemo_erasures": "op text, key bigint, position bigint, facts bytea, receipt bytea",
}

TABLES: Final[dict[str, dict[str, str]]] = {
    table: dict(column.split(" ", 1) for column in columns.split(", "))
    for table, columns in _COLUMNS.items()
}
"""The columns of each table and their types; the first one, or as many as `_LONG_KEYS` says,
are its key."""

_LONG_KEYS: Final = {"hammemo_journal": 2}

_INDEXES: Final = """
create unique index if not exists hammemo_subjects_by_hash on hammemo_subjects(model, subject);
create index if not exists hammemo_subjects_by_wrapping on hammemo_subjects(model, wrapping);
create index if not exists hammemo_journal_by_key on hammemo_journal(model, key, position);
create index if not exists hammemo_journal_forgotten on hammemo_journal(model, key)
    where forgets = 1;
create index if not exists hammemo_erasures_open on hammemo_erasures(model, position)
    where length(receipt) = 0;
"""

NAMED_TABLES: Final = """
create table if not exists hammemo_aliases(
    tenant text not null, alias text not null, model text not null, primary key (tenant, alias));
create table if not exists hammemo_lists(
    tenant text not null, name text not null, version bigint not null, items bigint not null,
    data bytea not null, primary key (tenant, name));
create table if not exists hammemo_list_versions(tenant text primary key, newest bigint not null);
"""
"""What tenants name: models by other names, and lists of labels."""


def table_statements(model: str, ending: str = "") -> str:
    """Return the statements that make the tables; `model` is the type of their first column."""
    statements = []
    for name, columns in TABLES.items():
        listed = ", ".join(f"{column} {kind} not null" for column, kind in columns.items())
        key = ", ".join(["model", *list(columns)[: _LONG_KEYS.get(name, 1)]])
        statements.append(
            f"create table if not exists {name}(model {model}, {listed}, primary key "
            f"({key})){ending};"
        )
    return "\n".join(statements) + _INDEXES
