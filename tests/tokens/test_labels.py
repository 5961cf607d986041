"""Labels that need no checks, against scikit-learn's checks of the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo.tokens import labels

pytestmark = pytest.mark.quick

PLAIN = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1).map(np.array),
    st.lists(st.integers(0, 255), min_size=1).map(lambda values: np.array(values, np.uint8)),
    st.lists(st.booleans(), min_size=1).map(np.array),
    st.lists(st.text(), min_size=1),
    st.lists(st.text(), min_size=1).map(tuple),
    st.lists(st.text(), min_size=1).map(lambda values: np.array(values, object)),
    st.lists(st.text("ab", min_size=1), min_size=1).map(np.array),
)


@given(y=PLAIN)
def test_plain_labels_are_what_scikit_learn_s_checks_let_through(y: Any) -> None:
    plain = labels._read_plain_labels(y)
    assert plain is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels, "_read_plain_labels", lambda _: None)
        checked = labels.label_array(y)
    assert (plain.dtype, plain.shape, plain.tolist()) == (checked.dtype, checked.shape, checked.tolist())
    assert labels.label_array(y).tolist() == checked.tolist()


@pytest.mark.parametrize(
    "y", [[], [1, "a"], ["a", None], np.array([1.5]), np.array([[1]]), np.array(["a", None], object), [np.str_("a")]]
)
def test_all_else_is_checked(y: Any) -> None:
    assert labels._read_plain_labels(y) is None
