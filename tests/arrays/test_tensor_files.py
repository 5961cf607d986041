"""The bytes before the arrays are those of the safetensors library."""

from __future__ import annotations

from typing import Any

import numpy as np
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from hammemo._arrays.tensor_files import DTYPES, Spec, file_order, file_start

NAMES = st.text("abc.012", min_size=1, max_size=6)
ARRAYS = st.builds(
    lambda dtype, shape: np.zeros(shape, dtype),
    st.sampled_from(list(DTYPES.values())),
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
)


@given(arrays=st.dictionaries(NAMES, ARRAYS, max_size=8), text=st.text('ab"\\/{}é:,', max_size=20))
def test_header_and_order_are_those_of_safetensors(arrays: dict[str, Any], text: str) -> None:
    specs = {name: Spec(array.dtype, array.shape) for name, array in arrays.items()}
    start = file_start(specs, {"text": text})
    data = b"".join(arrays[name].tobytes() for name in file_order(specs))
    assert start + data == safetensors.numpy.save(arrays, metadata={"text": text})
