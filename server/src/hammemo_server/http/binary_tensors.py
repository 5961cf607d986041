"""The binary form of tensors, which Triton's client sends by default, translated to the JSON form and back.

The header ``Inference-Header-Content-Length`` says how many bytes of JSON there are; the data of the tensors with a
``binary_data_size`` follow, one after another. Numbers are little-endian, truth values are a byte, a string is its
length in four bytes and its UTF-8. NaN becomes null.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import structs

from hammemo_server.edits.operations import Malformed
from hammemo_server.http.bodies import decoded, encoded
from hammemo_server.http.messages import BYTES, JSON, Answer, Refused, header
from hammemo_server.http.tensors import InferenceAnswer, InferenceRequest, InputTensor, OutputTensor, TensorParameters

if TYPE_CHECKING:
    from hammemo_server.http.messages import Scope

LENGTH: Final = b"inference-header-content-length"
_request_decoder: Final = msgspec.json.Decoder(InferenceRequest)
_answer_decoder: Final = msgspec.json.Decoder(InferenceAnswer)
_NUMBERS: Final = {
    **{f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"<f{bits // 8}") for bits in (32, 64)},
}


def json_length(scope: Scope) -> int | None:
    """Return how many bytes of a body are JSON; None where all are."""
    given = header(scope, LENGTH)
    if given is None:
        return None
    if not re.fullmatch(rb"[0-9]{1,18}", given):
        raise Refused(400, "bad_request", "The header Inference-Header-Content-Length is not a number.")
    return int(given)


def as_json(body: bytes, length: int) -> tuple[bytes, bool]:
    """Return a request in its JSON form, and whether the answer is wanted in the binary form.

    Examples
    --------
    >>> from hammemo_server.http.binary_tensors import as_json
    >>> tensor = b'{"name":"rows","shape":[1,1],"datatype":"INT8","parameters":{"binary_data_size":1}}'
    >>> body = b'{"inputs":[' + tensor + b']}'
    >>> as_json(body + bytes([7]), len(body))
    (b'{"inputs":[{"name":"rows","shape":[1,1],"datatype":"INT8","data":[7],"parameters":null}]}', False)
    """
    if length > len(body):
        raise Malformed(f"The body has {len(body)} bytes, fewer than Inference-Header-Content-Length says.")
    request, inputs = decoded(_request_decoder, body[:length]), []
    for tensor in request.inputs:
        size = tensor.parameters.binary_data_size if tensor.parameters else None
        if size is not None:
            data = body[length : length + size]
            length += size
            tensor = structs.replace(tensor, data=_read(tensor, data, size), parameters=None)
        inputs.append(tensor)
    if length != len(body):
        raise Malformed(f"The body has {len(body)} bytes, not the {length} that its tensors say.")
    wanted = bool(request.parameters and request.parameters.binary_data_output)
    for output in request.outputs or ():
        wanted = bool(output.parameters and output.parameters.binary_data)
    parameters = structs.replace(request.parameters, binary_data_output=False) if request.parameters else None
    plain = [structs.replace(output, parameters=None) for output in request.outputs] if request.outputs else None
    return encoded(structs.replace(request, inputs=inputs, parameters=parameters, outputs=plain)), wanted


def _read(tensor: InputTensor, data: bytes, size: int) -> list[Any]:
    """Return the values of a tensor."""
    if tensor.data is not None or len(data) != size:
        raise Malformed(f"The tensor {tensor.name!r} has data twice, or fewer bytes than it says.")
    if tensor.datatype == "BYTES":
        return _strings(tensor.name, data)
    dtype = _NUMBERS.get(tensor.datatype, np.dtype(np.uint8))  # else BOOL
    if size % dtype.itemsize:
        raise Malformed(f"The tensor {tensor.name!r} has {size} bytes, which is not a whole number of its values.")
    values = np.frombuffer(data, dtype)
    if tensor.datatype == "BOOL":
        if (values > 1).any():
            raise Malformed(f"The tensor {tensor.name!r} has a byte that is neither 0 nor 1.")
        values = values.astype(bool)
    elif np.isinf(values).any():  # JSON has no word for it
        raise Malformed(f"The tensor {tensor.name!r} has an infinite number.")
    found: list[Any] = values.tolist()
    return found


def _strings(name: str, data: bytes) -> list[Any]:
    found, at = [], 0
    try:
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], "little")
            if end > len(data) or at + 4 > len(data):
                raise Malformed(f"The tensor {name!r} ends within a string.")
            found.append(data[at + 4 : end].decode())
            at = end
    except UnicodeDecodeError:
        raise Malformed(f"The tensor {name!r} has a string that is not UTF-8.") from None
    return found


def as_binary(answer: Answer) -> Answer:
    """Return an answer in the binary form."""
    found = _answer_decoder.decode(answer.body)
    outputs, data = [], b""
    for output in found.outputs:
        written = _written(output)
        data += written
        outputs.append(structs.replace(output, data=None, parameters=TensorParameters(len(written))))
    body = encoded(structs.replace(found, outputs=outputs))
    return Answer(body + data, answer.status, BYTES, (*answer.headers, (LENGTH, str(len(body)).encode())))


def _written(output: OutputTensor) -> bytes:
    values = output.data or []
    if output.datatype == "BYTES":
        strings = [value.encode() for value in values]
        return b"".join(len(string).to_bytes(4, "little") + string for string in strings)
    return np.array(values, _NUMBERS.get(output.datatype, np.dtype(np.uint8))).tobytes()


def json_scope(scope: Scope, body: bytes) -> Scope:
    """Return the scope of a request whose body was translated."""
    others = [
        (name, value) for name, value in scope["headers"] if name not in (LENGTH, b"content-type", b"content-length")
    ]
    return {**scope, "headers": [*others, (b"content-type", JSON), (b"content-length", str(len(body)).encode())]}


def version_of(answer: Answer) -> str:
    """Return the version of the model that gave an answer in the JSON form."""
    return _answer_decoder.decode(answer.body).model_version
