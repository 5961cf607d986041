"""How much the service takes at once. A request above a limit is refused; nothing is cut."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """All limits of a service.

    Parameters
    ----------
    rows : int
        Rows of one edit or question.
    columns : int
        Tokens of one row.
    documents : int
        Documents of one edit.
    document : int
        Tokens of one document.
    tokens : int
        Tokens of all documents of one edit.
    text : int
        Characters of one token or label.
    body : int
        Bytes of a JSON body.
    logged : int
        Bytes of an edit as the log keeps it.
    queued, queued_bytes : int
        Edits that wait for the writer of one model, and their bytes.
    file : int
        Bytes of an uploaded model file.
    table_rows : int
        Shared and reserved rows, over all sites, of a hashed memory made by settings.
    sites : int
        Sites of a model made by settings.
    k : int
        Labels that top-k and explain return for a row.
    cells : int
        Labels or numbers in one answer: rows times k, or rows times labels for probabilities.
    explained : int
        Rows of one request to explain.
    models : int
        Models of one tenant.
    lists, list_items, list_body, lists_at_once : int
        Named lists of labels of one tenant, items of one list, bytes of the body that replaces
        it, and how many of these bodies one tenant sends at the same time.
    resident_items : int
        Items of the lists that a process keeps in memory, over all tenants; others are read
        again when they are needed.
    stored_labels, stored_examples, stored_bytes : int
        What all models and lists of one tenant may hold; bytes are those on the disk and about
        those in memory (:mod:`hammemo_server.edits.quotas`). 0 for any number.
    rate : float
        Requests a second of one tenant; twice as many may come at once after a rest.
    at_once, at_once_in_all : int
        Requests that are answered at the same time: of one tenant, and of all tenants.
    connections, address_connections : int
        Open connections: in all, and of one address.
    head_seconds, body_seconds, list_seconds, file_seconds : float
        Time in which the head of a request, its body, a named list and an uploaded file must
        have come.
    wait_seconds : float
        How long an answer waits for `min_version`.
    deadline : float
        Seconds after which a request gets 504 if it has no answer; edits that were handed over
        go on, and have longer.
    """

    rows: int = 10_000
    columns: int = 4_096
    documents: int = 10_000
    document: int = 32_768
    tokens: int = 65_536
    text: int = 4_096
    body: int = 4 * 2**20
    logged: int = 8 * 2**20
    queued: int = 10_000
    queued_bytes: int = 64 * 2**20
    file: int = 2**30
    table_rows: int = 2**22
    sites: int = 4_096
    k: int = 1_000
    cells: int = 1_000_000
    explained: int = 100
    models: int = 256
    lists: int = 64
    list_items: int = 1_000_000
    list_body: int = 32 * 2**20
    lists_at_once: int = 4
    resident_items: int = 4_000_000
    stored_labels: int = 1_000_000
    stored_examples: int = 20_000_000
    stored_bytes: int = 2 * 2**30
    rate: float = 10_000.0
    at_once: int = 128
    at_once_in_all: int = 512
    connections: int = 1_024
    address_connections: int = 256
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    list_seconds: float = 60.0
    file_seconds: float = 600.0
    wait_seconds: float = 1.0
    deadline: float = 10.0
