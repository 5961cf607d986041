"""Edits applied in groups have the result of edits applied one at a time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import Edit, LoggedRows, Malformed, ServiceError, check_edit, decode_body
from hammemo_server.edits.settings import Settings
from hammemo_server.models.applying import Applier, first_state

TOKENS = st.sampled_from(["a", "b", "1", 1, 1.0, 2, True, None, 2.5, 2**60, "<missing>"])
LABELS = st.sampled_from(["x", "y", 1, 2, True, 1.0, 0.5, None, 2**63])
SETTINGS = [
    {"columns": 2},
    {},
    {"columns": 2, "memory": "hashed", "vote": "sum"},
    {"columns": 2, "memory": {"class": "Hashed", "params": {"buckets": 4, "reserved": 2}}, "keep": "auto"},
    {"columns": 2, "memory": "tiered", "vote": "sum"},
    {"columns": 2, "memory": "exact", "keep": "auto", "missing": "empty"},
]


@st.composite
def bodies(draw: st.DrawFn) -> list[LoggedRows]:
    plain = draw(st.booleans())
    tokens = st.sampled_from(["a", "b", "c"]) if plain else TOKENS
    labels = st.sampled_from(["x", "y"]) if plain else LABELS
    width = st.just(2) if plain else st.sampled_from([2, 2, 2, 3])

    def body(kind: Any, n: int, h: int) -> st.SearchStrategy[LoggedRows]:
        rows = st.lists(st.lists(tokens, min_size=h, max_size=h), min_size=n, max_size=n)
        return st.builds(LoggedRows, st.just(kind), rows, st.lists(labels, min_size=n, max_size=n))

    kinds = st.tuples(st.sampled_from(["learn", "learn", "forget"]), st.integers(1, 3), width)
    return draw(st.lists(kinds.flatmap(lambda t: body(*t)), max_size=12))


@pytest.mark.parametrize("given_settings", SETTINGS, ids=str)
@given(edits=bodies())
@settings(max_examples=60)
def test_groups_equal_single_edits(given_settings: dict[str, Any], edits: list[LoggedRows]) -> None:
    chosen = Settings.from_client({**given_settings, "seed": 3}, Limits())
    together = Applier(first_state(chosen).model, chosen, Limits())
    together.apply(edits)
    model = first_state(chosen).model
    refused: dict[int, type[ServiceError]] = {}
    for i, edit in enumerate(edits):
        single = Applier(model, chosen, Limits())
        single.apply([edit])
        model = single.model
        if single.refused:
            refused[i] = type(single.refused[0])
    assert {i: type(error) for i, error in together.refused.items()} == refused
    assert (together.model is None) == (model is None)
    if model is not None and together.model is not None:
        assert together.model.memory_.state_bytes() == model.memory_.state_bytes()
        assert together.model.memory_.layout() == model.memory_.layout()
        assert together.model.classes_.tolist() == model.classes_.tolist()


@given(edits=bodies())
@settings(max_examples=50)
def test_what_the_log_keeps_is_what_was_sent(edits: list[LoggedRows]) -> None:
    for edit in edits:
        sent = Edit("op", edit.kind, edit.rows, edit.labels)
        if 2**63 in edit.labels:
            with pytest.raises(Malformed, match="64 bits"):
                check_edit(sent, Limits())
            continue
        again = decode_body(check_edit(sent, Limits())[1])
        assert again == edit
        assert [type(token) for row in again.rows for token in row] == [
            type(token) for row in edit.rows for token in row
        ]
        assert list(map(type, again.labels)) == list(map(type, edit.labels))


def test_the_model_that_edits_are_applied_to_is_not_changed() -> None:
    chosen = Settings.from_client({"columns": 1}, Limits())
    model = first_state(chosen).model
    assert model is not None
    applier = Applier(model, chosen)
    applier.apply([LoggedRows("learn", [["a"]], ["x"])])
    assert model.classes_.tolist() == []
    assert applier.model is not None
    assert applier.model.classes_.tolist() == ["x"]
