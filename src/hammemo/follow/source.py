"""A table of PostgreSQL and its log, asked in plain SQL over one connection.

The log is read through a logical replication slot with pgoutput:
`pg_logical_slot_peek_binary_changes` returns whole transactions and changes nothing,
`pg_replication_slot_advance` lets PostgreSQL delete what the model has stored.
"""

from __future__ import annotations

import hashlib
import re
import time
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from hammemo._lazy import explain_missing
from hammemo.follow.pgoutput import Message, decode
from hammemo.follow.position import FollowError, lsn_number, lsn_text
from hammemo.follow.values import Column, Followed, Row, column_error

with explain_missing("To follow a table: pip install 'hammemo[follow]'"):
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SESSION: Final = {
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "timezone": "UTC",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "lock_timeout": "10s",
    "synchronous_commit": "on",
    "search_path": "pg_catalog",
}
"""What the text of a value depends on is the same in every session; names of tables have their
schema."""

_LOCK_SECONDS: Final = 3.0
"""How long a follower waits for the server to notice that another one has ended."""
_FETCHED: Final = 5_000
"""Messages that are held at once."""
_LONGEST_SNAPSHOT: Final = 600
"""Characters: the position of a model has at most 1,024."""
_SNAPSHOT_TRIALS: Final = 100
"""How often a snapshot is taken, a tenth of a second apart, until it is short enough."""

_PEEK: Final = """
select data from pg_logical_slot_peek_binary_changes(
  %s, %s::pg_lsn, %s, 'proto_version', '1', 'publication_names', %s)"""

_TABLE: Final = """
select c.oid::int8, c.relkind::text, c.relpersistence::text, current_setting('wal_level')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s"""

_COLUMNS: Final = """
select attname, atttypid::int8, atttypmod from pg_attribute
where attrelid = %s and attnum > 0 and not attisdropped and attgenerated = '' order by attnum"""

_LEAVES: Final = (
    "select %(oid)s::oid as oid union select relid from pg_partition_tree(%(oid)s::regclass)"
)

_WITHOUT_IDENTITY: Final = f"""
select c.oid::regclass::text from pg_class c join ({_LEAVES}) l on l.oid = c.oid
where c.relreplident <> 'f' and c.relkind = 'r' order by 1"""

_INHERITED: Final = """
select 1 from pg_inherits i join pg_class c on c.oid = i.inhparent
where c.oid = %s and c.relkind = 'r'"""

_LAYOUT: Final = f"""
select md5(string_agg(line, ',' order by line)) from (
  select concat_ws(' ', c.oid, c.relname, c.relfilenode, c.relreplident, c.relpersistence,
      c.relispartition) as line
    from pg_class c join ({_LEAVES}) l on c.oid = l.oid
  union all select concat_ws(' ', attnum, attname, atttypid, atttypmod, attisdropped)
    from pg_attribute where attrelid = %(oid)s and attnum > 0
  union all select concat_ws(' ', p.oid, p.puballtables, p.pubinsert, p.pubupdate, p.pubdelete,
      p.pubtruncate, p.pubviaroot, r.prrelid, r.prattrs, pg_get_expr(r.prqual, r.prrelid))
    from pg_publication p left join pg_publication_rel r on r.prpubid = p.oid
    where p.pubname = %(publication)s
) as lines"""

_PUBLICATION: Final = """
select p.puballtables or exists (select from pg_publication_namespace n where n.pnpubid = p.oid)
    or array(select r.prrelid::int8 from pg_publication_rel r where r.prpubid = p.oid)
      <> array[%(oid)s::int8],
  exists (select from pg_publication_rel r where r.prpubid = p.oid and r.prattrs is not null),
  p.pubinsert and p.pubupdate and p.pubdelete and p.pubtruncate and p.pubviaroot
from pg_publication p where p.pubname = %(publication)s"""
"""Whether a publication is for more than the table or for another one, has a list of columns,
and sends all changes."""

_FILTER: Final = """
select pg_get_expr(r.prqual, r.prrelid)
from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
where p.pubname = %s and r.prrelid = %s"""

_SLOT: Final = """
select confirmed_flush_lsn::text, wal_status, plugin, database,
  pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8
from pg_replication_slots where slot_name = %s"""


class Slot(NamedTuple):
    """What PostgreSQL says of a slot; places are numbers, 0 where there is none."""

    confirmed: int
    wal_status: str
    held_bytes: int


class TableSnapshot(NamedTuple):
    """A snapshot in which the whole table is read: what it shows, and a later place of the log."""

    shown: str
    until: int
    layout: str


def plain_error(error: psycopg.Error) -> FollowError:
    """Return an error of the driver without its details, which may hold a row."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return FollowError(f"PostgreSQL: {first.rstrip('.')}.")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what goes wrong in PostgreSQL as `plain_error` says it."""
    try:
        yield
    except psycopg.Error as error:
        raise plain_error(error) from None


class Messages:
    """What the log says up to a place: whole transactions, about `limit` messages."""

    def __init__(self, source: FollowedSource, until: int, limit: int) -> None:
        self._source = source
        self._until = until
        self._limit = limit
        self._n_read = 0

    @property
    def is_end(self) -> bool:
        """Whether the log has no more messages up to the place, after all of these were read.

        PostgreSQL ends with the transaction in which it reaches the limit. So fewer messages than
        that are all that there are; as many may be all, too, and then the next ones are none.
        """
        return self._n_read < self._limit

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages, of which some thousands are in memory at a time."""
        publications = '"' + self._source.publication.replace('"', '""') + '"'  # a list of one name
        until = lsn_text(self._until)
        db = self._source.db
        # A cursor with a name stays in the server, which lasts as long as the transaction.
        with db.transaction(), db.cursor("hammemo_changes", binary=True) as cursor:
            cursor.itersize = _FETCHED
            cursor.execute(_PEEK, [self._source.slot, until, self._limit, publications])
            for (data,) in cursor:
                self._n_read += 1
                yield decode(data)


class _FoundTable(NamedTuple):
    """What PostgreSQL says of a table."""

    oid: int
    is_partitioned: bool


class FollowedSource:
    """A table, its publication and its slot.

    Parameters
    ----------
    address : str
        As libpq takes it (``postgresql://…``), without a password: libpq reads ``~/.pgpass``
        and ``PGPASSWORD``.
    table : str
        Its name, with the schema if that is not ``public``.
    slot : str
    publication : str
    """

    def __init__(self, address: str, table: str, slot: str, publication: str | None = None) -> None:
        if conninfo_to_dict(address).get("password"):
            raise FollowError(
                "The address holds a password, which every user of this machine could read "
                "in the list of processes: put it into ~/.pgpass or PGPASSWORD."
            )
        self._address = address
        self.slot = slot
        self.publication = publication or slot
        self.owns_publication = publication is None
        schema, _, name = table.rpartition(".")
        self._name = (schema or "public", name)
        self.table = ".".join(self._name)
        self._connection: psycopg.Connection[Any] | None = None
        self._oid = 0
        self.where: str | None = None

    # Connecting

    @property
    def db(self) -> psycopg.Connection[Any]:
        """The connection, opened again if it was lost."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._address,
                autocommit=True,
                connect_timeout=10,
                application_name="hammemo follow",
            )
            for name, value in _SESSION.items():
                self._connection.execute("select set_config(%s, %s, false)", [name, value])
        return self._connection

    def close(self) -> None:
        """Close the connection, which ends the lock."""
        if self._connection is not None:
            self._connection.close()

    def one(self, statement: str, *values: Any, **named: Any) -> Any:
        """Return the first row that a statement finds, or None."""
        return self.db.execute(cast("Any", statement), named or values).fetchone()

    @property
    def _lock_number(self) -> int:
        """The number of the slot's advisory lock, 56 bits of a hash: PostgreSQL takes 63."""
        return int.from_bytes(hashlib.blake2b(self.slot.encode(), digest_size=7).digest())

    def is_locked(self) -> bool:
        """Return whether a follower reads the slot."""
        if self.one("select pg_try_advisory_lock(%s)", self._lock_number)[0]:
            self.one("select pg_advisory_unlock(%s)", self._lock_number)
            return False
        return True

    def lock(self) -> None:
        """Take the lock of the slot, until `close`; refuse if another follower has it.

        A follower that has just ended may have it for a moment.
        """
        deadline = time.monotonic() + _LOCK_SECONDS
        while not self.one("select pg_try_advisory_lock(%s)", self._lock_number)[0]:
            if time.monotonic() >= deadline:
                raise FollowError(f"Another follower reads the slot {self.slot}: stop it first.")
            time.sleep(0.05)

    # The table

    def open(
        self, label: str, columns: Sequence[str] | None, subject: str | None, *, is_target: bool
    ) -> Followed:
        """Find the table, refuse one that cannot be followed, and return its followed columns.

        Parameters
        ----------
        label : str
            The column of labels or targets.
        columns : sequence of str, optional
            The columns of the context; by default all but the label and the subject.
        subject : str, optional
            The column that names whose row it is.
        is_target : bool
            Whether the label is a number that is to be predicted.
        """
        facts = self._find_table()
        self._oid = facts.oid
        self._check_identity(is_partitioned=facts.is_partitioned)
        columns_by_name = {
            name: Column(name, type_oid, modifier)
            for name, type_oid, modifier in self.db.execute(_COLUMNS, [self._oid])
        }
        if columns is None:
            context_names = [name for name in columns_by_name if name not in (label, subject)]
        else:
            context_names = list(columns)
        needed_names = [*context_names, label]
        if subject:
            needed_names.append(subject)
        for name in needed_names:
            if name not in columns_by_name:
                raise column_error(
                    self.table,
                    name,
                    "does not exist (or is generated, so the log does not have it)",
                )
        context_columns = tuple(columns_by_name[name] for name in context_names)
        if is_target and columns_by_name[label].kind not in ("whole", "float"):
            raise FollowError(
                f"Column {label!r} of {self.table} holds no numbers: use label= for names."
            )
        return Followed(
            self.table,
            context_columns,
            columns_by_name[label],
            subject=columns_by_name[subject] if subject else None,
            is_target=is_target,
        )

    def _find_table(self) -> _FoundTable:
        """Find the table; refuse one whose changes are not in the log."""
        facts = self.one(_TABLE, *self._name)
        if facts is None:
            raise FollowError(
                f"There is no table {self.table} in this database, or you may not see its schema."
            )
        oid, relation_kind, persistence, log_level = facts
        is_ordinary = relation_kind == "r"
        is_partitioned = relation_kind == "p"
        is_permanent = persistence == "p"
        if not (is_ordinary or is_partitioned) or not is_permanent:
            raise FollowError(
                f"{self.table} is not an ordinary table whose changes are in the log: "
                "use hammemo sync."
            )
        if log_level != "logical":
            raise FollowError(
                f"wal_level is {log_level}: set wal_level = logical and restart PostgreSQL."
            )
        return _FoundTable(oid, is_partitioned=is_partitioned)

    def _check_identity(self, *, is_partitioned: bool) -> None:
        """Refuse a table whose deletions the log does not name, or that a publication may harm."""
        lacking = [
            name for (name,) in self.db.execute(cast("Any", _WITHOUT_IDENTITY), {"oid": self._oid})
        ]
        if lacking:
            shown = ", ".join(lacking[:3]) + (", …" if len(lacking) > 3 else "")
            raise FollowError(
                f"The log of {shown} does not name whole old rows, "
                "so a deleted row could not be forgotten: "
                f"run ALTER TABLE {lacking[0]} REPLICA IDENTITY FULL (it makes the log of updates "
                "and deletes longer), or compare the table from time to time with hammemo sync."
            )
        if self.one(_INHERITED, self._oid):
            raise FollowError(
                f"{self.table} has tables that inherit from it, "
                "and the log does not report their changes: use hammemo sync."
            )
        has_key = self.one("select 1 from pg_index where indrelid = %s and indisprimary", self._oid)
        if is_partitioned and not has_key:
            raise FollowError(
                f"{self.table} has partitions and no primary key: "
                "with a publication, updates of a partition that is added later would fail. "
                "Add a primary key, or use hammemo sync."
            )

    def layout(self) -> str:
        """Return a hash of the table's files, columns, partitions and publication."""
        return str(self.one(_LAYOUT, oid=self._oid, publication=self.publication)[0])[:16]

    # The publication

    def publish(self, where: str | None) -> None:
        """Create the publication if it is not there; refuse one that is dangerous or not whole."""
        if self.one("select 1 from pg_publication where pubname = %s", self.publication) is None:
            if not self.owns_publication:
                raise FollowError(
                    f"There is no publication {self.publication}: create it, or do not name a "
                    "publication."
                )
            self._create_publication(self.publication, where)
        elif where is not None:
            self._check_filter(where)
        self._check_publication()
        self.where = self._read_filter(self.publication)

    def _check_filter(self, where: str) -> None:
        """Refuse a condition that is not the filter of the publication, which is there."""
        row_filter = self._read_filter(self.publication)
        if self._normalize(where) != row_filter:
            raise FollowError(
                f"The publication {self.publication} has the filter {row_filter or 'none'}, "
                f"not {where}: leave out the condition, or start a new model."
            )

    def _create_publication(self, name: str, where: str | None) -> None:
        is_partitioned = self.one("select relkind = 'p' from pg_class where oid = %s", self._oid)[0]
        if where is not None and is_partitioned:
            raise FollowError(
                "A condition for a table with partitions could make updates fail in a partition "
                "that is added later: leave it out, or use hammemo sync with a query."
            )
        statement = sql.SQL(
            "create publication {} for table {}{} with (publish_via_partition_root = true)"
        ).format(
            sql.Identifier(name),
            sql.Identifier(*self._name),
            sql.SQL("" if where is None else f" where ({where})"),
        )
        self.db.execute(statement)

    def _read_filter(self, publication: str) -> str | None:
        """Return the condition on rows of a publication, as PostgreSQL writes it, or None."""
        row = self.one(_FILTER, publication, self._oid)
        return None if row is None else row[0]

    def _normalize(self, where: str) -> str | None:
        """Return a condition as PostgreSQL writes it.

        PostgreSQL tells that only of a publication, so one is created and rolled back. For a user
        who may not create one, it is the condition as it is.
        """
        trial = f"{self.publication[:50]}_trial"  # names have at most 63 bytes
        try:
            with self.db.transaction(force_rollback=True):
                self._create_publication(trial, where)
                return self._read_filter(trial)
        except psycopg.errors.InsufficientPrivilege:
            return where

    def _check_publication(self) -> None:
        name = self.publication
        is_for_others, has_columns, sends_all = self.one(
            _PUBLICATION, oid=self._oid, publication=name
        )
        way_out = (
            f"Create one as: CREATE PUBLICATION {name} FOR TABLE {self.table} "
            "WITH (publish_via_partition_root = true)"
        )
        if is_for_others:
            raise FollowError(
                f"The publication {name} is not for {self.table} alone: it may make updates "
                f"of other tables fail, and this slot would read them. {way_out}."
            )
        if has_columns:
            raise FollowError(
                f"The publication {name} has a list of columns: "
                f"with REPLICA IDENTITY FULL every UPDATE and DELETE of {self.table} fails. "
                f"{way_out}; hammemo leaves out columns itself."
            )
        if not sends_all:
            raise FollowError(f"The publication {name} does not send all changes. {way_out}.")

    # The slot

    def find_slot(self) -> Slot | None:
        """Return what is known of the slot, None if there is none; refuse one of another use."""
        row = self.one(_SLOT, self.slot)
        if row is None:
            return None
        confirmed, status, plugin, database, held_bytes = row
        if plugin != "pgoutput" or database != self.one("select current_database()")[0]:
            raise FollowError(
                f"The slot {self.slot} is for {plugin} in the database {database}, not for hammemo."
            )
        number = 0
        if confirmed:
            number = lsn_number(confirmed)
        return Slot(number, status or "lost", held_bytes or 0)

    def create_slot(self) -> None:
        """Create the slot, and wait until new snapshots show every transaction that it leaves out.

        A commit whose record lies before the slot's first place is not among its changes. It may
        be invisible to new snapshots for a while, such as when it waits for a standby, and then
        neither would show it. So this waits until all transactions that run now have ended.
        """
        self.db.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [self.slot])
        next_id = self.one("select pg_snapshot_xmax(pg_current_snapshot())::text")[0]
        # xmin is the oldest transaction that still runs.
        have_ended = "select pg_snapshot_xmin(pg_current_snapshot()) >= %s::xid8"
        while not self.one(have_ended, next_id)[0]:
            time.sleep(0.05)

    def drop_slot(self) -> bool:
        """Drop the slot; return whether there was one."""
        slot = self.find_slot()
        if slot is not None:
            self.db.execute("select pg_drop_replication_slot(%s)", [self.slot])
        return slot is not None

    def drop_publication(self) -> None:
        """Drop the publication, if hammemo created it."""
        if self.owns_publication:
            self.db.execute(
                sql.SQL("drop publication if exists {}").format(sql.Identifier(self.publication))
            )

    # Rows and changes

    @contextmanager
    def snapshot(self, timeout: float) -> Iterator[TableSnapshot]:
        """Keep one snapshot of the database for the block, in which `rows` reads the table.

        `timeout` is the most seconds that a statement of the block may take. The snapshot names the
        transactions that were running, so one of a moment with very many is given up, and another
        is taken.
        """
        self.flush()
        for _ in range(_SNAPSHOT_TRIALS):
            with self.db.transaction():
                snapshot = self._take_snapshot(timeout)
                if len(snapshot.shown) <= _LONGEST_SNAPSHOT:
                    yield snapshot
                    break
            time.sleep(0.1)
        else:
            raise FollowError(
                "Too many transactions write at the same time to read the table: try again later."
            )
        # A snapshot also shows commits that are not on the disk yet. The model has learned them,
        # so they must not be lost if PostgreSQL crashes.
        self.flush()

    def _take_snapshot(self, timeout: float) -> TableSnapshot:
        """Make the transaction that has just begun one with a snapshot, and return it."""
        self.db.execute("set transaction isolation level repeatable read")
        # The first query takes the snapshot. The table is locked before it against TRUNCATE and
        # ALTER, whose removed rows a snapshot does not keep. So this is no `select set_config`.
        milliseconds = sql.Literal(int(timeout * 1000))
        self.db.execute(sql.SQL("set local statement_timeout = {}").format(milliseconds))
        table = sql.Identifier(*self._name)
        self.db.execute(sql.SQL("lock table {} in access share mode").format(table))
        shown, until = self.one(
            "select pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
        )
        return TableSnapshot(shown, lsn_number(until), self.layout())

    def rows(self, followed: Followed, size: int = 50_000) -> Iterator[list[Row]]:
        """Yield the rows of the table that have a label, `size` at a time, and an empty list.

        Those that the publication leaves out are left out here, too.
        """
        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in followed.all)
        condition = sql.SQL(f" and ({self.where})" if self.where else "")
        statement = sql.SQL("copy (select {} from {} where {} is not null{}) to stdout").format(
            names, sql.Identifier(*self._name), sql.Identifier(followed.label.name), condition
        )
        with self.db.cursor().copy(statement) as copy:
            texts = copy.rows()
            while rows := list(islice(texts, size)):
                yield rows
        # So an empty table has a batch, too: a model that learns it gets its columns.
        yield []

    def flush(self) -> int:
        """Wait until all commits up to now are on the disk, and return the place after them.

        The message is a transaction of its own, whose commit waits for the disk; the log is written
        in order.
        """
        self.db.execute("select pg_logical_emit_message(true, 'hammemo', '')")
        return self.end()

    def end(self) -> int:
        """Return up to where the log is on the disk."""
        return lsn_number(self.one("select pg_current_wal_flush_lsn()::text")[0])

    def advance(self, lsn: int) -> None:
        """Let PostgreSQL delete its log up to a place."""
        self.db.execute(
            "select pg_replication_slot_advance(%s, %s::pg_lsn)", [self.slot, lsn_text(lsn)]
        )

    def keeps_without_limit(self) -> bool:
        """Return whether PostgreSQL keeps its log for a slot without a limit."""
        return bool(self.one("select current_setting('max_slot_wal_keep_size') = '-1'")[0])


def slot_name(table: str, model: str) -> str:
    """Return the name of a slot for a table and a model.

    Examples
    --------
    >>> from hammemo.follow.source import slot_name
    >>> slot_name("public.Customers", "/data/churn.model")
    'hammemo_customers_2086bf912ae9'
    """
    plain = re.sub(r"[^a-z0-9_]", "_", table.rpartition(".")[2].lower())[:40]
    return f"hammemo_{plain}_{hashlib.blake2b(model.encode(), digest_size=6).hexdigest()}"
