"""Named lists of labels in a folder: one file a list, and an index that says which files count.

``index.json`` holds the version and the number of items of every list, and the newest version that was given. A list is
replaced by one step, the rename of the index: the file with the new version is on the disk before it, and the file of
the old version is deleted after it. Files that the index does not name are left by a crash; the next change deletes
them. A process that changes the folder holds the lock of the index, so several processes can.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from hammemo.files.atomic import write_private
from hammemo.files.locks import LockedError, locked
from hammemo_server.edits.operations import NAME
from hammemo_server.store.log import ListFacts, LogDamaged, LogError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INDEX: Final = "index.json"
_LOCK_SECONDS: Final = 30.0
_TRIES: Final = 100
"""How often a list that is replaced while it is read is read again."""


class ListFiles:
    """The lists of one tenant.

    Parameters
    ----------
    folder : path
        It is made when the first list is kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo_server.store.list_files import ListFiles
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = ListFiles(Path(folder, "lists"))
    ...     _ = files.keep("in_stock", 1, b"first"), files.keep("in_stock", 1, b"second")
    ...     files.facts(), files.read("in_stock")[1]
    ({'in_stock': ListFacts(version=2, items=1)}, b'second')
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def facts(self) -> dict[str, ListFacts]:
        """Return all lists, by their names."""
        with _refusing("read"):
            return self._index()[0]

    def sizes(self) -> dict[str, int]:
        """Return how large the file of each list is; one that is replaced at this moment may be missing."""
        found: dict[str, int] = {}
        for name, facts in self.facts().items():
            with _refusing("read"), suppress(FileNotFoundError):
                found[name] = self._file(name, facts.version).stat().st_size
        return found

    def read(self, name: str) -> tuple[ListFacts, bytes] | None:
        """Return a list, or None if there is none of that name."""
        with _refusing("read"):
            for _ in range(_TRIES):
                found = self._index()[0].get(name)
                if found is None:
                    return None
                with suppress(FileNotFoundError):  # replaced since the index was read
                    return found, self._file(name, found.version).read_bytes()
        raise LogDamaged(f"The file of the list {name!r} is not there: send the list again.")

    def keep(self, name: str, items: int, data: bytes) -> ListFacts:
        """Keep a list in the place of the one of that name."""
        with _refusing("written"):
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(mode=0o700, exist_ok=True)
            with self._changing():
                known, newest = self._index()
                facts = ListFacts(newest + 1, items)
                write_private(self._file(name, facts.version), [data])
                self._replace(known | {name: facts}, facts.version)
        return facts

    def drop(self, name: str) -> bool:
        """Delete a list; return False if there is none."""
        with _refusing("written"):
            if not self._folder.exists():
                return False
            with self._changing():
                known, newest = self._index()
                if name not in known:
                    return False
                self._replace({other: facts for other, facts in known.items() if other != name}, newest)
        return True

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with locked(self._folder / INDEX, _LOCK_SECONDS):
            yield

    def _file(self, name: str, version: int) -> Path:
        return self._folder / f"{name}.{version}"

    def _replace(self, lists: dict[str, ListFacts], newest: int) -> None:
        """Write the index, then delete all files that it does not name."""
        text = json.dumps({"newest": newest, "lists": {name: facts._asdict() for name, facts in sorted(lists.items())}})
        write_private(self._folder / INDEX, [text.encode()])
        kept = {self._file(name, facts.version).name for name, facts in lists.items()} | {INDEX, f"{INDEX}.lock"}
        for path in self._folder.iterdir():
            if path.name not in kept:
                with suppress(OSError):  # Windows: a process reads it
                    path.unlink()

    def _index(self) -> tuple[dict[str, ListFacts], int]:
        """Return the lists, and the newest version that was given."""
        try:
            text = (self._folder / INDEX).read_text("utf-8")
        except FileNotFoundError:
            return {}, 0
        try:
            return _checked(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise LogDamaged("The index of the lists is damaged: delete it, and send the lists again.") from None


def _checked(found: Any) -> tuple[dict[str, ListFacts], int]:
    """Return what an index holds; raise an error where it cannot be one."""
    newest, lists = found["newest"], {name: ListFacts(**facts) for name, facts in found["lists"].items()}
    numbers = [newest, *(number for facts in lists.values() for number in facts)]
    if not all(map(NAME.fullmatch, lists)) or not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError
    return lists, newest


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Turn what the file system raises into `LogError`."""
    try:
        yield
    except OSError as error:
        raise LogError(f"The lists cannot be {what}: {error.strerror}.") from error
    except LockedError:
        raise LogError("Another process has been changing the lists for too long: try again later.") from None
