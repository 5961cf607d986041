"""Damaged and forged model files in large numbers.

``python tests/support/mutated_files.py COUNT SEED`` tries them. Every file is a small valid one
after one to three mutations: flipped bits, overwritten words, truncation, headers of other files,
other types, shapes and places, swapped, renamed and missing arrays, and any value of the
description replaced by another one. Most get their checksum recomputed, so that what is behind it
is tried. `load` must return a model or raise `FileError`, in less than a second, in bounded memory,
and without importing, compiling, executing or writing anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from file_catalogue import NUMBER_QUERIES, classifiers, key_of, predictors, queries_for
from file_catalogue import NUMBERS as NUMBER_ROWS
from hammemo import FileError, MemoryClassifier, MemoryRegressor, Predictor, load, save
from hammemo.files.archive import DIGITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

NUMBERS: list[Any] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    -1,
    255,
    256,
    2**16,
    2**30,
    2**31,
    2**32,
    2**40,
    2**53,
    2**63 - 1,
    2**63,
    10**30,
]
VALUES: list[Any] = [
    *NUMBERS,
    0.5,
    1e308,
    -0.0,
    None,
    True,
    False,
    "",
    "a",
    "Exact",
    "Hashed",
    [],
    [0],
    [[]],
    {},
    {"secret": True},
]
PARAMETERS: list[Any] = [
    *VALUES,
    -1.5,
    5,
    float("nan"),
    float("inf"),
    "auto",
    "none",
    "refuse",
    "sum",
    "mixture",
    "log-linear",
    "positional",
    "hashed",
    "gaussian",
    "digests",
    "auto+digests",
    "balanced",
    "suffixes:2",
    "suffixes:9",
    "sparse",
    ["a"],
    [1, 1, 1],
    [[1]],
    [["no", 2.0]],
    [["no", -1]],
    [["no", "a"]],
    {"class": "Suffixes", "params": {"k": 9, "base": 1.0}},
    {"class": "LogLinear", "params": {}},
]
"""What takes the place of a parameter: values that some parameter takes, and others."""

FORBIDDEN = (
    "import",
    "exec",
    "compile",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "pickle",
)


def seal(data: bytes) -> bytes:
    """Return the file with a right checksum, as a forger would make it."""
    before = data[: DIGITS.start]
    after = data[DIGITS.stop :]
    zeroed = before + b"0" * 64 + after
    checksum = hashlib.blake2b(zeroed, digest_size=32).hexdigest()
    return before + checksum.encode() + after


class FileParts(NamedTuple):
    """What a file consists of."""

    header: dict[str, Any]
    description: dict[str, Any]
    body: bytes
    """The bytes of the tensors."""


def split_file(data: bytes) -> FileParts:
    """Return the parts of a file."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    about = json.loads(header["__metadata__"]["hammemo"])
    return FileParts(header, about, data[8 + length :])


def join_file(header: dict[str, Any], about: dict[str, Any], body: bytes) -> bytes:
    """Return a file with these parts."""
    text = json.dumps(about, separators=(",", ":"))
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    raw = json.dumps({"__metadata__": {"hammemo": text}, **entries}, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)  # the format aligns tensors to eight bytes
    return len(raw).to_bytes(8, "little") + raw + body


def flip_bits(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    """Flip up to five bits, anywhere or in the tensors only."""
    changed = bytearray(data)
    start = 0
    if rng.random() >= 0.5:
        start = 8 + int.from_bytes(data[:8], "little") % (len(data) or 1)
    for _n in range(rng.choice([1, 1, 1, 2, 5])):
        changed[rng.randrange(min(start, len(data) - 1), len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    width = rng.choice([1, 2, 4, 8])
    place = rng.randrange(len(data))
    n_values = 2 ** (8 * width)
    value: int = rng.choice([0, 1, n_values - 1, n_values // 2, rng.randrange(n_values)])
    return data[:place] + value.to_bytes(width, "little") + data[place + width :]


def truncate(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    """Cut a file, or append some bytes."""
    if rng.random() < 0.7:
        return data[: rng.randrange(len(data))]
    return data + rng.randbytes(rng.randrange(1, 20))


def mix_files(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    header, about, body = split_file(data)
    other_header, other_about, other_body = split_file(rng.choice(others))
    return join_file(
        rng.choice([header, other_header]),
        rng.choice([about, other_about]),
        rng.choice([body, other_body, other_body[: len(body)]]),
    )


def edit_tensor(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    header, about, body = split_file(data)
    names = [name for name in header if name != "__metadata__"]
    name = rng.choice(names)
    other = rng.choice(names)
    what = rng.randrange(6)
    if what == 0:
        header[name], header[other] = header[other], header[name]
    elif what == 1:
        del header[name]
    elif what == 2:
        header[rng.choice(["x", name + "0", "__metadata", "own.0"])] = header.pop(name)
    elif what == 3:
        header[name]["dtype"] = rng.choice(
            ["U8", "I8", "U16", "U32", "U64", "I64", "F32", "F64", "BOOL", "F8", 3]
        )
    elif what == 4:
        values = header[name][rng.choice(["shape", "data_offsets"])]
        values[rng.randrange(len(values))] = rng.choice([*NUMBERS, len(body), "1", None, 1.0])
    else:
        shape = [rng.choice(NUMBERS) for _n in range(rng.randrange(4))]
        header[name]["shape"] = shape
        if rng.random() < 0.5 and 0 in shape:
            start = header[name]["data_offsets"][0]
            header[name]["data_offsets"] = [start, start]
    return join_file(header, about, body)


def edit_description(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    header, about, body = split_file(data)
    place: Any = about
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if place is about and "checksum" in keys:
            keys.remove("checksum")  # a file is sealed after its mutations
        if not keys:
            break
        key = rng.choice(keys)
        if isinstance(place[key], (dict, list)) and len(place[key]) and rng.random() < 0.8:
            place = place[key]
            continue
        what = rng.random()
        if what < 0.7:
            place[key] = rng.choice(VALUES)
        elif what < 0.85:
            other_about = split_file(rng.choice(others)).description
            place[key] = other_about.get(
                rng.choice(["params", "class", "sites", "fitted", "layout"])
            )
        elif isinstance(place, dict):
            place["extra"] = place.pop(key)
        else:
            place.append(place[key])
        break
    return join_file(header, about, body)


def parameter_places(about: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the way to each parameter of a description, its kernel, its memory and its vote."""
    ways: list[tuple[Any, ...]] = []

    def collect(place: Any, way: tuple[Any, ...]) -> None:
        for name, value in place.get("params", {}).items():
            ways.append((*way, "params", name))
            if isinstance(value, dict):
                collect(value, (*way, "params", name))

    collect(about, ())
    for part, described in about.get("fitted", {}).items():
        collect(described, ("fitted", part))
    return ways


def with_parameter(data: bytes, way: tuple[Any, ...], value: Any) -> bytes:
    """Return the file with another value of one parameter, and with a right checksum."""
    header, about, body = split_file(data)
    *outer, name = way
    place: Any = about
    for step in outer:
        place = place[step]
    place[name] = value
    return seal(join_file(header, about, body))


def swap_data(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    header, about, body = split_file(data)
    spans = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
    first, first_end = rng.choice(spans)
    second, second_end = rng.choice(spans)
    size = min(first_end - first, second_end - second)
    changed = bytearray(body)
    changed[first : first + size] = body[second : second + size]
    changed[second : second + size] = body[first : first + size]
    return join_file(header, about, bytes(changed))


def graft(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    """Put a chain of any depth, to the left or to the right, in the place of the first tree."""
    header, about, body = split_file(data)
    spans = {
        name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"
    }
    # a file without trees raises the IndexError by which `mutate` knows it
    columns = [name for name in spans if name.endswith("trees.column")]
    prefix = columns[0].removesuffix("column")
    depth = rng.choice([3, 100, 765, 766, 20_000])
    chain = _grow_chain(depth, to_left=rng.random() < 0.5)
    n_nodes = 2 * depth + 1
    arrays = {name: body[first:last] for name, (first, last) in spans.items()}
    kinds = {"column": "i4", "right": "i4", "step": "u1", "level": "u1"}
    start_kind = header[prefix + "starts"]["dtype"].lower().replace("64", "8")
    starts = np.frombuffer(arrays[prefix + "starts"], start_kind)
    for name, kind in kinds.items():
        other_trees = np.frombuffer(arrays[prefix + name], kind)[starts[1] :]
        nodes = np.concatenate([chain[name].astype(kind), other_trees])
        arrays[prefix + name] = nodes.tobytes()
        header[prefix + name]["shape"] = [len(nodes)]
    moved = np.concatenate([[0], starts[1:] + n_nodes - starts[1]]).astype(starts.dtype)
    arrays[prefix + "starts"] = moved.tobytes()
    grafted = b""
    for name in sorted(spans, key=lambda name: spans[name]):
        first = len(grafted)
        grafted += arrays[name]
        header[name]["data_offsets"] = [first, len(grafted)]
    return join_file(header, about, grafted)


def _grow_chain(depth: int, *, to_left: bool) -> dict[str, NDArray[Any]]:
    """Return the arrays of a tree of `depth` inner nodes, each with one leaf.

    Nodes are depth first: to the left, the inner ones come first; to the right, every second one is
    inner.
    """
    n_nodes = 2 * depth + 1
    places = np.arange(n_nodes)
    inner = np.arange(depth)
    right = np.zeros(n_nodes)
    if to_left:
        is_inner = places < depth
        right[inner] = 2 * depth - inner
    else:
        is_inner = (places % 2 == 0) & (places < 2 * depth)
        right[2 * inner] = 2 * inner + 2
    return {
        "column": np.where(is_inner, 0, -1),
        "right": right,
        "step": np.ones(n_nodes),
        "level": 3 * (places == 0),
    }


MUTATIONS = [
    flip_bits,
    flip_bits,
    overwrite,
    overwrite,
    truncate,
    mix_files,
    edit_tensor,
    edit_tensor,
]
MUTATIONS += [edit_description, edit_description, edit_description, swap_data, graft]


def mutate(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Return the file after one to three random mutations, in most cases with a right checksum."""
    original = data
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        try:
            data = rng.choice(MUTATIONS)(data, rng, others)
        # too broken already for this mutation
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            data = flip_bits(original, rng, others)
        data = data or b"\0"
    if rng.random() < 0.9 and len(data) > DIGITS.stop:
        return seal(data)
    return data


class Watch:
    """An audit hook that notes forbidden events while it is armed."""

    def __init__(self) -> None:
        self.armed = False
        self.events: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        if event.startswith(FORBIDDEN) or _opens_to_write(event, args):
            self.events.append(f"{event} {args!r}"[:200])


def _opens_to_write(event: str, args: tuple[Any, ...]) -> bool:
    if event != "open" or len(args) < 3 or not isinstance(args[2], int):
        return False
    return bool(args[2] & (os.O_WRONLY | os.O_RDWR))


def catalogue(folder: Path) -> tuple[list[str], list[bytes]]:
    """Return the names and the bytes of the valid files that are mutated."""
    names = []
    files = []
    models: dict[str, MemoryClassifier | MemoryRegressor | Predictor] = {}
    models.update(classifiers())
    models.update(predictors(classifiers()))
    products = [row[1] * row[2] for row in NUMBER_ROWS]
    models["numbers"] = MemoryRegressor().fit(NUMBER_ROWS, products)
    models["numbers without rows"] = MemoryRegressor(keep=False).fit(NUMBER_ROWS[:1], [1.0])
    for number, (name, model) in enumerate(models.items()):
        notes = {"source": "a.csv", "label": "ß"} if number % 2 else None
        save(model, folder / "valid", notes=notes)
        # what is imported at the first use is imported now
        load(folder / "valid", key=key_of(name))
        load(folder / "valid", key=key_of(name), verify=False)
        names.append(name)
        files.append((folder / "valid").read_bytes())
    return names, files


def use(model: Any) -> None:
    """Ask a model that was accepted.

    A fused predictor is not asked: it may declare codes of any dimension, which are made then.
    """
    if isinstance(model, MemoryRegressor):
        if model.n_features_in_ == 3 and model.state.n_examples:
            with np.errstate(over="ignore", invalid="ignore"):
                model.predict_interval(NUMBER_QUERIES)
        return
    h = model.n_columns if isinstance(model, Predictor) else model.n_features_in_
    is_fused = isinstance(model, Predictor) and getattr(model.compiled, "is_fused", False)
    if h == 3 and len(model.classes_) and not is_fused:
        # finite numbers, but as large as they can be
        with np.errstate(over="ignore", invalid="ignore"):
            model.class_scores(queries_for(model))


def run(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Load `count` mutated files and return what happened."""
    rng = random.Random(seed)
    path = folder / "mutated"
    names, files = catalogue(folder)
    watch = Watch()
    result: dict[str, Any] = {
        "count": count,
        "accepted": 0,
        "refused": 0,
        "unverified": 0,
        "slowest": 0.0,
    }
    wrong: list[str] = []
    n_written = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        which = rng.randrange(len(files))
        data = mutate(files[which], rng, files)
        path.write_bytes(data)
        verify = rng.random() < 0.9
        result["unverified"] += not verify
        watch.armed = True
        started = time.perf_counter()
        model = None
        try:
            model = load(path, key=key_of(names[which]), verify=verify)
            result["accepted"] += 1
        except FileError as error:
            result["refused"] += 1
            if not isinstance(error.__cause__, (ValueError, RecursionError, type(None))):
                wrong.append(f"{number}: {error.__cause__!r} was not foreseen")
        except Exception as error:
            wrong.append(f"{number}: {error!r}")
        watch.armed = False
        result["slowest"] = max(result["slowest"], time.perf_counter() - started)
        if model is not None and verify:
            use(model)
        if len(wrong) > n_written and len(wrong) < 20:
            (folder / f"wrong{len(wrong)}").write_bytes(data)
        n_written = len(wrong)
    result["mebibytes"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {**result, "wrong": wrong[:20], "n_wrong": len(wrong), "events": watch.events[:20]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(sys.argv[3] if len(sys.argv) > 3 else scratch)
        print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]), target)))
