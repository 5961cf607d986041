"""Named lists of labels: settings of a host that questions name, replaced in one step, in neither model nor digest."""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import apsw
import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import running_servers as serving
from hammemo import MemoryClassifier, save
from hammemo.client import Client, ServerError
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import Malformed, NoSuchList, QuotaReached, TooLarge, Unavailable
from hammemo_server.models.host import Host
from hammemo_server.store.label_lists import LabelLists
from hammemo_server.store.log import LogError
from hammemo_server.store.sqlite_log import NAMED
from pace import wait_until
from postgres_server import postgres
from service_hosts import hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["hosts", "postgres"]

ITEMS: list[Any] = list(range(40))
NAMES: list[Any] = [f"item-{number}" for number in range(40)]
LIMITS = Limits(lists=8, list_items=1_000, lists_at_once=1, text=100)


def _model(items: list[Any]) -> MemoryClassifier:
    """Return a model of visits."""
    rng = np.random.default_rng(0)
    visits = [[items[place] for place in rng.integers(0, len(items), 6)] for _ in range(200)]
    return MemoryClassifier(random_state=0).fit_stream(visits, h=4, short="pad")


@pytest.fixture(scope="module")
def shop() -> MemoryClassifier:
    return _model(ITEMS)


@pytest.fixture(scope="module")
def server(shop: MemoryClassifier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Running]:
    folder = tmp_path_factory.mktemp("models")
    with serving.in_thread(folder / "served", limits=LIMITS) as running, Client(running.url) as client:
        for name, model in (("shop", shop), ("named", _model(NAMES))):
            save(model, folder / name)
            client.upload(name, folder / name)
        yield running


@pytest.fixture(scope="module")
def client(server: serving.Running) -> Iterator[Client]:
    with Client(server.url) as made:
        yield made


LISTED = st.lists(st.sampled_from([*ITEMS, *NAMES, "never bought", 10**6, 0.5, 7.25, 3.0, True]), max_size=90)
QUERIES: list[list[Any]] = [[3], ["item-3", 4, 0.5], [5, "item-6", 7, 8, "item-9", 9, "item-10"]]


@given(
    model=st.sampled_from(["shop", "named"]),
    allow=st.none() | LISTED,
    exclude=st.none() | st.just("seen") | LISTED,
    k=st.integers(1, 70),
)
def test_a_named_list_answers_as_its_items_do(
    client: Client, model: str, allow: list[Any] | None, exclude: list[Any] | str | None, k: int
) -> None:
    named: dict[str, Any] = {"allow": allow, "exclude": exclude}
    versions = {}
    for what, items in (("allow", allow), ("exclude", exclude)):
        if isinstance(items, list):
            versions[f"the-{what}"] = client.set_list(f"the-{what}", items)
            named[what] = {"list": f"the-{what}"}
    plain = client.ask(model, "top-k", QUERIES, k=k, scores=True, allow=allow, exclude=exclude)
    assert "lists" not in plain
    assert client.ask(model, "top-k", QUERIES, k=k, scores=True, **named) == plain | (
        {"lists": versions} if versions else {}
    )


def test_a_long_question_names_lists_too(client: Client) -> None:
    version = client.set_list("few", [1, 2, 3])
    rows = [[number % 40, f"item-{number % 7}"] for number in range(3_000)]  # a body that is answered elsewhere
    found = client.ask("shop", "top-k", rows, k=5, allow={"list": "few"})
    assert found["lists"] == {"few": version}
    assert found["labels"] == client.top_k("shop", rows, 5, allow=[1, 2, 3])
    with pytest.raises(ServerError, match="no list 'none'") as caught:
        client.top_k("shop", rows, 5, allow={"list": "none"})
    assert (caught.value.status, caught.value.code) == (404, "no_such_list")


def test_a_list_is_neither_in_the_model_nor_in_its_digest(client: Client) -> None:
    before = client.describe("shop")
    client.set_list("few", [1, 2])
    client.top_k("shop", [[1]], 3, allow={"list": "few"})
    assert client.describe("shop") | {"quota": None} == before | {"quota": None}  # which counts lists


def test_lists_are_named_read_and_deleted(client: Client) -> None:
    first = client.set_list("named", np.array([3, 1, 3]))
    assert client.lists()["named"] == {"version": first, "items": 2}
    assert client.read_list("named") == [3, 1]
    second = client.set_list("named", ["a", 1.0, True, 1, 0.5])
    assert second > first
    assert client.read_list("named") == ["a", 1, 0.5]
    client.set_list("named", [])
    assert client.read_list("named") == []
    assert client.top_k("shop", [[1]], 3, allow={"list": "named"}) == [[]]
    client.delete_list("named")
    assert "named" not in client.lists()
    assert client.set_list("named", ["a"]) > second + 1  # also after that it is never used again
    client.delete_list("named")
    for ask in (client.read_list, client.delete_list, lambda name: client.top_k("shop", [[1]], allow={"list": name})):
        with pytest.raises(ServerError, match=r"no list 'named': send it with PUT /v1/lists/named") as caught:
            ask("named")
        assert caught.value.status == 404
    with pytest.raises(TypeError, match="list of labels"):
        client.set_list("named", "abc")


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 422, "items"),
        ({"items": 3}, 422, "items"),
        ({"items": "abc"}, 422, "items"),
        ({"items": [None]}, 422, "items"),
        ({"items": [["a"]]}, 422, "items"),
        ({"items": [{"a": 1}]}, 422, "items"),
        ({"items": [1], "more": 1}, 422, "more"),
        ({"items": [2**63]}, 422, "64 bits"),
        ({"items": [1e300, -(2**70)]}, 422, "Item 1"),
        ({"items": ["a" * 101]}, 413, "101 characters"),
        ({"items": list(range(1_001))}, 413, "1,001"),
        (b'{"items": ["\\ud800"]}', 422, "JSON"),
        (b'{"items": ["\xff"]}', 422, "JSON"),
        (b'{"items": [1', 422, "JSON"),
        (b'{"items": [NaN]}', 422, "JSON"),
    ],
)
def test_what_is_no_list_changes_nothing(
    server: serving.Running, client: Client, body: Any, status: int, says: str
) -> None:
    version = client.set_list("kept", ["item-1"])
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = httpx.put(f"{server.url}/v1/lists/kept", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]
    assert client.lists()["kept"] == {"version": version, "items": 1}


def test_a_list_in_a_question_is_a_name(client: Client) -> None:
    for given_list, status in (({"list": "../x"}, 422), ({"list": 3}, 422), ({"lists": "a"}, 422), ("kept", 422)):
        with pytest.raises(ServerError) as caught:
            client.top_k("shop", [[1]], allow=given_list)
        assert caught.value.status == status
    with pytest.raises(ServerError) as caught:
        client.ask("shop", "predict", [[1]], allow={"list": "kept"})
    assert caught.value.status == 422


def test_a_body_above_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with serving.in_thread(tmp_path, limits=Limits(list_body=1_000)) as running:
        long = json.dumps({"items": ["a" * 990]}).encode()
        for content in (long, iter([long[:700], long[700:]])):  # with its length, and without
            answer = httpx.put(
                f"{running.url}/v1/lists/x", content=content, headers={"content-type": "application/json"}
            )
            assert answer.status_code == 413
        text = httpx.put(f"{running.url}/v1/lists/x", content=b"{}", headers={"content-type": "text/plain"})
        assert text.status_code == 415


def test_few_lists_of_a_tenant_are_sent_at_a_time(server: serving.Running, client: Client) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly() -> Iterator[bytes]:
        yield b'{"items": ['
        begun.set()
        go_on.wait()
        yield b"1]}"

    def send() -> None:
        sent.append(
            httpx.put(
                f"{server.url}/v1/lists/slow",
                content=slowly(),
                headers={"content-type": "application/json"},
                timeout=60,
            )
        )

    sent: list[httpx.Response] = []
    sending = threading.Thread(target=send)
    sending.start()
    begun.wait()
    body = {"items": [2]}
    assert wait_until(lambda: httpx.put(f"{server.url}/v1/lists/other", json=body).status_code == 429, 20)
    go_on.set()
    sending.join()
    assert sent[0].status_code == 200
    assert client.read_list("slow") == [1]
    assert client.set_list("other", [2]) > 0


def test_no_question_mixes_two_versions_while_a_list_is_replaced_and_deleted(client: Client, server: Any) -> None:
    contents: dict[int, list[Any]] = {}
    answers: list[tuple[int, list[Any]]] = []
    refused: list[int] = []
    ended = threading.Event()

    def ask() -> None:
        with Client(server.url) as own:
            while not ended.is_set():
                try:
                    found = own.ask("shop", "top-k", [[1]], k=70, allow={"list": "turning"})
                except ServerError as error:
                    refused.append(error.status)
                else:
                    answers.append((found["lists"]["turning"], found["labels"][0]))

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    for turn in range(40):
        items = ITEMS[turn : turn + 15]
        version = client.set_list("turning", items)
        contents[version] = items
        own = client.ask("shop", "top-k", [[1]], k=70, allow={"list": "turning"})
        assert own["lists"] == {"turning": version}  # an acknowledged list is used at once
        if turn % 10 == 9:
            client.delete_list("turning")
            with pytest.raises(ServerError):
                client.top_k("shop", [[1]], allow={"list": "turning"})
    ended.set()
    for thread in asking:
        thread.join()
    assert set(refused) <= {404}
    assert answers
    for version, labels in answers:
        assert set(map(str, labels)) == set(map(str, contents[version]))


def test_columns_are_looked_up_once_and_again_when_a_label_comes(tmp_path: Path, shop: MemoryClassifier) -> None:
    from hammemo.tasks.labels.masking import ListedLabels

    looked_up: list[int] = []
    original = ListedLabels._find_among

    def counted(self: ListedLabels, labels: Any) -> Any:
        looked_up.append(1)
        return original(self, labels)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ListedLabels, "_find_among", counted)
        save(shop, tmp_path / "shop.model")
        with serving.in_thread(tmp_path / "served") as running, Client(running.url) as client:
            client.upload("shop", tmp_path / "shop.model")
            client.set_list("stock", [1, 2, 99])
            for _ in range(3):
                client.top_k("shop", [[1]], 5, allow={"list": "stock"})
            client.learn_stream("shop", [[1, 2, 3]], op="known")
            client.top_k("shop", [[1]], 5, allow={"list": "stock"})
            assert len(looked_up) == 1
            client.learn_stream("shop", [[1, 99, 2, 99]], op="new")
            assert 99 in client.top_k("shop", [[1]], 5, allow={"list": "stock"})[0]
            assert len(looked_up) == 2


# The host, with both engines


def test_lists_are_kept(hosts: Callable[..., Host]) -> None:
    with hosts() as host:
        for name in host.lists("shop"):
            host.delete_list("shop", name)
        first = host.set_list("shop", "in_stock", ["b", 2, "a", "b"])
        other = host.set_list("shop", "sold", [])
        second = host.set_list("shop", "in_stock", ["c", 2**62, 0.5, "é\n"])
        assert first.version < other.version < second.version
        assert host.lists("shop") == {"in_stock": second, "sold": other}
        assert host.lists("other") == {}
        with pytest.raises(NoSuchList):
            host.get_list("other", "in_stock")
        for tenant, name in (("shop", "../x"), ("shop", ""), ("..", "x"), ("shop", "A")):
            with pytest.raises(Malformed):
                host.set_list(tenant, name, [])
    with hosts(replica=True) as host:
        assert host.read_list("shop", "in_stock") == (second, '["c",4611686018427387904,0.5,"é\\n"]'.encode())
        assert host.get_list("shop", "in_stock").version == second.version
        assert len(host.get_list("shop", "sold").labels) == 0
        for edit in (lambda: host.set_list("shop", "x", []), lambda: host.delete_list("shop", "sold")):
            with pytest.raises(Unavailable, match="only answers"):
                edit()
    with hosts() as host:
        host.delete_list("shop", "sold")
        assert host.set_list("shop", "sold", [1]).version > second.version
        host.delete_list("shop", "sold")
        host.delete_list("shop", "in_stock")
        assert host.lists("shop") == {}
        with pytest.raises(NoSuchList):
            host.read_list("shop", "in_stock")


def test_another_process_sees_a_list_that_is_replaced(hosts: Callable[..., Host]) -> None:
    with hosts() as writer, hosts(replica=True) as replica:
        first = writer.set_list("shop", "in_stock", range(3))
        assert replica.get_list("shop", "in_stock").version == first.version
        second = writer.set_list("shop", "in_stock", range(5))
        assert replica.find_list("shop", "in_stock", 1e9).version == first.version  # type: ignore[union-attr]
        found = replica.get_list("shop", "in_stock")
        assert (found.version, len(found.labels)) == (second.version, 5)
        writer.delete_list("shop", "in_stock")
        with pytest.raises(NoSuchList):
            replica.get_list("shop", "in_stock")


def test_lists_are_limited(tmp_path: Path) -> None:
    with Host(tmp_path, limits=Limits(lists=2, list_items=3, text=5)) as host:
        for name in ("a", "b", "b"):
            host.set_list("shop", name, [1, 1, 1])
        with pytest.raises(QuotaReached, match="2 lists"):
            host.set_list("shop", "c", [])
        with pytest.raises(TooLarge, match="4"):
            host.set_list("shop", "a", [1] * 4)
        with pytest.raises(TooLarge, match="6 characters"):
            host.set_list("shop", "a", ["a" * 6])
        host.set_list("other", "c", [])


def test_memory_for_lists_is_bounded(tmp_path: Path) -> None:
    with Host(tmp_path, limits=Limits(resident_items=10)) as host:
        for name in "abcd":
            host.set_list("shop", name, range(4))
        assert len(host._lists._resident) == 2
        assert all(len(host.get_list("shop", name).labels) == 4 for name in "abcd")
        assert len(host._lists._resident) == 2
        host.set_list("shop", "long", range(100))
        assert len(host.get_list("shop", "long").labels) == 100  # the last one stays, however long it is


def test_a_store_that_does_not_answer_leaves_what_is_known(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        facts = host.set_list("shop", "in_stock", [1])
        lists = LabelLists(host.store, 100)
        assert lists.get("shop", "in_stock").version == facts.version
        with pytest.MonkeyPatch.context() as patch:
            asked: list[str] = []

            def failing(tenant: str) -> Any:
                asked.append(tenant)
                raise LogError("away")

            patch.setattr(host.store, "lists", failing)
            assert lists.get("shop", "in_stock").version == facts.version
            assert lists.get("shop", "in_stock").version == facts.version
            assert len(asked) == 1  # it is not asked for every question
            with pytest.raises(LogError):
                lists.get("shop", "other")


def test_a_file_without_tables_is_one_without_lists(tmp_path: Path) -> None:
    """A process was killed before it made them."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / NAMED).touch()
    with Host(tmp_path) as host:
        assert host.lists("shop") == {}
        host.set_list("shop", "in_stock", ["new"])
        assert host.read_list("shop", "in_stock")[1] == b'["new"]'


def test_a_replaced_list_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.set_list("shop", "in_stock", ["Zq1x1y"])
        host.set_list("shop", "in_stock", ["new"])
        assert (tmp_path / "shop" / NAMED).stat().st_mode & 0o777 == 0o600
        assert not any(b"Zq1x1y" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("data", [b'["a"', b'["a"]\n["b"]', b"", b"[null]", b"\xff"])
def test_a_damaged_list_is_said_to_be(tmp_path: Path, data: bytes) -> None:
    with Host(tmp_path) as host:
        host.set_list("shop", "x", ["a"])
    db = apsw.Connection(str(tmp_path / "shop" / NAMED))
    db.execute("update hammemo_lists set data = ?", (data,))
    db.close()
    with Host(tmp_path, replica=True) as host, pytest.raises(Unavailable, match="damaged"):
        host.get_list("shop", "x")


def _answers_from(client: Client, rows: list[list[Any]], expected: tuple[int, set[Any]]) -> bool:
    found = client.ask("shop", "top-k", rows, k=5, allow={"list": "stock"})
    return (found["lists"]["stock"], set(found["labels"][0])) == expected


def test_workers_and_other_processes_use_a_replaced_list(tmp_path: Path, shop: MemoryClassifier) -> None:
    save(shop, tmp_path / "shop.model")
    process = serving.Process(tmp_path / "served", "--workers", "1", "--question-processes", "1", "--deadline", "120")
    try:
        with Client(process.url, timeout=120) as client:  # a process has to start
            client.upload("shop", tmp_path / "shop.model")
            rows = [[number % 40, f"item-{number % 7}"] for number in range(3_000)]
            for items in ([1, 2], [3]):
                version = client.set_list("stock", items)
                expected = (version, set(items))
                assert wait_until(partial(_answers_from, client, [[1]], expected), 20)
                # a long question, in a process of its own, is never older than what was acknowledged
                assert _answers_from(client, rows, expected)
    finally:
        process.end()


def test_a_million_items_are_a_list_and_one_more_is_not(tmp_path: Path, shop: MemoryClassifier) -> None:
    save(shop, tmp_path / "shop.model")
    with serving.in_thread(tmp_path / "served") as running, Client(running.url) as client:
        client.upload("shop", tmp_path / "shop.model")
        items = [*ITEMS[:20], *range(10**6, 2 * 10**6 - 20)]
        version = client.set_list("long", items)
        assert client.lists() == {"long": {"version": version, "items": 10**6}}
        allowed = client.top_k("shop", [[1]], 70, allow={"list": "long"})
        assert allowed == client.top_k("shop", [[1]], 70, allow=ITEMS[:20])
        with pytest.raises(TooLarge, match="1,000,001"):
            running.service.host.set_list("default", "long", range(10**6 + 1))
