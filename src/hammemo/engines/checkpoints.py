"""A folder that remembers what is done, so that a job whose driver died is started again and repeats nothing.

The folder, on this machine or on object storage, holds ``manifest.json``, which says whose job it is, and one file for
each group of shards that has been learnt: 32 bytes of BLAKE2b and then the state, as safetensors. A file is written
beside its place and renamed (object stores show a file only when it is whole), so that it is there or it is not; one
that is damaged all the same does not match its digest and counts as not there.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import safetensors.numpy

from hammemo.files.atomic import write_file
from hammemo.sources.formats import file_system

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hammemo.engines.states import Arrays

_DIGEST: Final = 32


@dataclass(frozen=True)
class Checkpoint:
    """The states of the groups of one job.

    Parameters
    ----------
    base, path : str
        The folder: its address, empty on this machine, and the path there.
    job : str
        A digest of the manifest; a state that was written for another job is not read.
    """

    base: str
    path: str
    job: str

    def read(self, group: int) -> Arrays | None:
        """Return the state of a group, None if it is not there."""
        try:
            with file_system(self.base).open_input_file(self._place(group)) as stream:
                data = stream.read()
        except FileNotFoundError:
            return None
        digest, body = data[:_DIGEST], data[_DIGEST:]
        return safetensors.numpy.load(body) if digest == self._digest(group, body) else None

    def write(self, group: int, arrays: Arrays) -> None:
        """Store the state of a group."""
        body = safetensors.numpy.save(arrays)
        _write(self.base, self._place(group), self._digest(group, body) + body)

    def _place(self, group: int) -> str:
        return f"{self.path}/group-{group:06d}"

    def _digest(self, group: int, body: bytes) -> bytes:
        return hashlib.blake2b(body, digest_size=_DIGEST, key=f"{self.job}:{group}".encode()).digest()


def open_checkpoint(where: str, job: Mapping[str, Any]) -> Checkpoint:
    """Return the checkpoint of a job in a folder, made if need be, or refuse a folder that belongs to another job."""
    if "://" in where:
        from pyarrow.fs import FileSystem

        base, path = where, FileSystem.from_uri(where)[1]
    else:
        base, path = "", os.path.abspath(where)
    system = file_system(base)
    text = json.dumps(dict(job), indent=2)
    try:
        with system.open_input_file(f"{path}/manifest.json") as stream:
            _compare(where, json.loads(stream.read()), dict(job))
    except FileNotFoundError:
        system.create_dir(path, recursive=True)
        _write(base, f"{path}/manifest.json", text.encode())
    return Checkpoint(base, path, hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def _compare(where: str, there: Any, here: dict[str, Any]) -> None:
    held = there if isinstance(there, dict) else {}
    for name, value in here.items():
        if held.get(name) != value:
            raise ValueError(
                f"The folder {where} belongs to another job: {name} is {held.get(name)!r} there and {value!r} here. "
                "Resume with what that job was started with, or name an empty folder."
            )


def _write(base: str, place: str, data: bytes) -> None:
    system = file_system(base)
    if system.type_name != "local":  # an object appears when it is whole
        with system.open_output_stream(place) as stream:
            stream.write(data)
        return
    write_file(place, [data])
