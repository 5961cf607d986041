"""Sites by the names of columns: looked up at fit, kept as names in the parameters and as positions in the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from hammemo import MemoryClassifier, load, save
from hammemo.kernels import PositionalHamming, SiteKernel, SiteOneHot

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick

FRAME = pd.DataFrame({"age": [1, 2, 1, 3], "job": list("abab"), "city": list("xxyy")})
Y = [0, 1, 0, 1]
NAMED = SiteKernel(["age", ("city", "job"), -1], weights=[1, 2, 3])


def test_names_are_looked_up_at_fit() -> None:
    clf = MemoryClassifier(NAMED, "exact", "sum").fit(FRAME, Y)
    same = MemoryClassifier(SiteKernel([0, (1, 2), 2], [1, 2, 3]), "exact", "sum").fit(FRAME, Y)
    assert clf.sites_.positions == ((0,), (1, 2), (2,))
    assert clf.memory_.state_bytes() == same.memory_.state_bytes()
    assert clf.kernel is NAMED
    assert clf.predict(FRAME).tolist() == same.predict(FRAME).tolist()
    other = clone(clf).fit(FRAME[["city", "age", "job"]], Y)  # the columns in another order
    assert other.sites_.positions == ((1,), (0, 2), (2,))


def test_names_inside_a_sum_of_kernels() -> None:
    kernel = PositionalHamming() + SiteKernel([("age", "job")])
    assert MemoryClassifier(kernel).fit(FRAME, Y).sites_.positions == ((0,), (1,), (2,), (0, 1))
    assert kernel.kernels[1].sites == [("age", "job")]
    plain = PositionalHamming() + SiteKernel([(0, 1)])
    assert plain.with_positions(None) is plain


def test_names_in_files_and_layouts(tmp_path: Path) -> None:
    clf = MemoryClassifier(NAMED).fit(FRAME, Y)
    save(clf, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.kernel.sites == ["age", ["city", "job"], -1]
    assert again.sites_.positions == clf.sites_.positions
    assert again.partial_fit(FRAME, Y).predict(FRAME).tolist() == clf.partial_fit(FRAME, Y).predict(FRAME).tolist()
    shard = MemoryClassifier(NAMED).partial_fit(FRAME, Y, layout=clf)
    assert (clf + shard).memory_.label_counts.sum() == 12


def test_feature_maps_and_matrices_know_names() -> None:
    kernel, same = SiteKernel(["job", ("age", "city")]), SiteKernel([1, (0, 2)])
    assert np.array_equal(kernel.pairwise(FRAME), same.pairwise(FRAME))
    assert np.array_equal(
        SiteOneHot(kernel).fit_transform(FRAME).toarray(), SiteOneHot(same).fit_transform(FRAME).toarray()
    )


def test_names_that_are_not_there_are_refused_with_the_columns() -> None:
    with pytest.raises(ValueError, match=r"names the column 'town'; the columns of X are age, job, city\."):
        MemoryClassifier(SiteKernel(["town"])).fit(FRAME, Y)
    with pytest.raises(ValueError, match="pass a data frame, or name positions"):
        MemoryClassifier(NAMED).fit(FRAME.to_numpy(), Y)
    with pytest.raises(ValueError, match="names a position twice"):
        MemoryClassifier(SiteKernel([("age", 0)])).fit(FRAME, Y)
    with pytest.raises(ValueError, match="names a site twice"):
        MemoryClassifier(SiteKernel(["age", 0])).fit(FRAME, Y)
