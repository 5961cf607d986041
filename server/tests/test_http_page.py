"""The page at "/" in a real browser: ask, see why, learn, forget; with and without a token; on a small screen, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import running_servers as serving
from browser import CHROMIUM, Browser
from hammemo.client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


def type_into(browser: Browser, **fields: str) -> None:
    for field, text in fields.items():
        browser.run(f"document.getElementById('{field.replace('_', '-')}').value = '{text}'")


def click(browser: Browser, what: str) -> None:
    """Click, and wait until what it asked for is done."""
    browser.run(f"document.querySelector('{what}').click()")
    browser.wait("!document.querySelector('#ask button').disabled")


def test_a_model_is_made_taught_and_asked(browser: Browser, tmp_path: Path) -> None:
    with serving.in_thread(tmp_path) as server, Client(server.url) as client:
        browser.open(server.url)
        browser.wait("document.getElementById('empty') && !document.getElementById('empty').hidden")
        click(browser, "#new")
        type_into(browser, new_name="fruit", new_columns="colour, size")
        click(browser, "#making button")
        browser.wait("document.querySelectorAll('#tokens input').length === 2")
        assert client.models() == ["fruit"]
        fill = "['red', 'small'].forEach((t, i) => { document.querySelectorAll('#tokens input')[i].value = t; })"
        browser.run(fill)
        type_into(browser, label="cherry")
        click(browser, "#edit .learn")
        browser.wait("document.getElementById('winner').textContent === 'cherry'")
        assert "Version 1" in browser.run("document.getElementById('verdict').textContent")
        assert browser.run("document.querySelectorAll('#bars tr').length") >= 3
        type_into(browser, label="melon")
        click(browser, "#edit .forget")
        browser.wait("document.getElementById('said').classList.contains('bad')")
        told = client.describe("fruit")
        assert told["version"] == 1
        shown = "[...document.querySelectorAll('#facts dd')].find((dd) => dd.title)"
        assert browser.run(f"{shown}.title") == told["digest"]
        assert browser.run(f"{shown}.textContent") == told["digest"][:16] + "…"
        type_into(browser, label="cherry")
        click(browser, "#edit .forget")
        browser.wait("document.getElementById('said').textContent.includes('version 2')")
        assert client.describe("fruit")["examples"] == 0
        complaints = [text for text in browser.complaints if "409" not in text]  # the one that was to be refused
        assert complaints == []


def test_the_token_is_asked_for_and_kept_nowhere(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token = serving.token_file(path, acme=())["acme"]
    with serving.in_thread(tmp_path / "models", path) as server:
        with Client(server.url, token) as client:
            client.create("mine", columns=1)
        browser.open(server.url)
        browser.wait("document.getElementById('token-form') && !document.getElementById('token-form').hidden")
        type_into(browser, token="hm_wrong")
        click(browser, "#token-form button")
        browser.wait("document.getElementById('said').classList.contains('bad')")
        type_into(browser, token=token)
        click(browser, "#token-form button")
        browser.wait("document.getElementById('model').value === 'mine'")
        kept = browser.run(
            "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, "
            "document.body.innerHTML, location.href])"
        )
        assert token[-20:] not in kept
        browser.open(server.url)
        browser.wait("document.getElementById('token-form') && !document.getElementById('token-form').hidden")


def test_an_operator_sees_models_quotas_and_edits(browser: Browser, tmp_path: Path) -> None:
    with serving.in_thread(tmp_path) as server, Client(server.url) as client:
        for name in ("blue", "green"):
            client.create(name, columns=["colour"])
            client.learn(name, [["red"], ["green"]], ["x", "y"], op="1")
        client.forget("blue", [["red"]], ["x"], op="2")
        client.set_alias("live", "green")
        before = len(browser.complaints)
        browser.open(server.url)
        browser.wait("document.querySelectorAll('#tokens input').length === 1")
        browser.run("document.querySelector('#operate summary').click()")
        browser.wait("document.querySelectorAll('#audit tbody tr').length === 2")
        text = (
            "[...document.querySelectorAll('#{} tbody tr')].map((tr) => [...tr.children].map((td) => td.textContent))"
        )
        shown = [(row[0], row[1], row[3]) for row in browser.run(text.format("models"))]
        assert shown == [("blue", "2", "1"), ("green", "1", "2")]
        assert [row[2:] for row in browser.run(text.format("audit"))] == [["forget", "1", "2"], ["learn", "2", "1"]]
        assert browser.run("document.getElementById('aliases').textContent") == "Aliases: live stands for green."
        assert "models" in browser.run("document.getElementById('quota').textContent")
        click(browser, "#snapshot")
        browser.wait("document.getElementById('said').textContent.includes('snapshot of version 2')")
        assert client.describe("blue")["snapshot_version"] == 2
        click(browser, "#refit")
        browser.wait("document.getElementById('said').textContent.includes('Refitted: version 3')")
        assert browser.complaints[before:] == []


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(browser: Browser, tmp_path: Path, width: int) -> None:
    with serving.in_thread(tmp_path) as server, Client(server.url) as client:
        client.create("m", columns=[f"a column with a rather long name {i}" for i in range(12)])
        client.learn("m", [["a-token-without-any-place-to-break-it" * 3] * 12], ["a-label-of-the-same-kind" * 5])
        browser.resize(width, 800)
        browser.open(server.url)
        browser.wait("document.querySelectorAll('#tokens input').length === 12")
        browser.wait("!document.querySelector('#ask button').disabled")
        click(browser, "#ask button")
        browser.wait("!document.getElementById('answer').hidden")
        browser.run("document.querySelector('#operate summary').click()")
        browser.wait("document.querySelectorAll('#audit tbody tr').length === 1")
        assert browser.run("document.documentElement.scrollWidth") <= browser.run("window.innerWidth") == width
