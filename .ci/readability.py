"""Refuse code that a stranger has to read twice.

    python .ci/readability.py                       check all rooms; .ci/run calls this
    python .ci/readability.py src/hammemo/follow    list every offence of a room, finished or not

The rules and their reasons are in CONTRIBUTING.md, "How we write code". A room is a package or a
top-level module of the library or of the server, or one of the folders in `WHOLE_FOLDERS`. Rooms
that are still to be rewritten stand in `UNFINISHED`. That list only gets shorter: an offence in a
room that is not listed fails the check, and so does a listed room in which no offence is left.

Each rule is a generator of `(line, sentence)`. Rules look at the syntax tree, so they see what code
does and not how it is laid out; only `find_long_lines` looks at text.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = ("src/hammemo", "server/src/hammemo_server")
"""Packages whose subpackages and top-level modules are rooms."""

WHOLE_FOLDERS = (".ci", "benchmarks", "server/tests/support", "tests/support")
"""Folders that are one room each, with everything below them."""

UNFINISHED: frozenset[str] = frozenset()
"""Rooms that still break a rule. Remove a room when it is finished; never add one."""

LONGEST_LINE = 100
MOST_POSITIONAL = 4

PARTICIPLES_THAT_DO_NOT_END_IN_ED = frozenset(
    """
    begun brought built caught chosen drawn forgotten found given gone grown held kept known learnt
    left lost made met seen sent shown spent taken told understood written
    """.split()  # noqa: SIM905  a list with a quote around each word is harder to read
)
"""Irregular participles, and none that is also an imperative, such as `put`, `read`, `set` and
`split`."""

WORDS_THAT_END_IN_ED = frozenset(
    {"bed", "embed", "feed", "hundred", "need", "red", "seed", "shed", "speed"}
)
"""First words of function names that end in "ed" and are no participles."""

ALLOWED_PARTICIPLES = {
    "locked": "a block runs in this state: `with file.locked():`, which users write",
    "recorded": "as above: `with recorded(model, keys, request) as record:`",
    "changed_labels": "a name that users write: `clf.changed_labels(after, X)`",
    "expected_calibration_error": "the name of this measure in the literature",
    "forgotten_rows": "a name that users write: `clf.sync(X, y).forgotten_rows()`",
    "learnt_rows": "as above",
    "required_dimension": "the quantity of Remark 8 in the paper; users write it",
}
"""Function names that begin with a participle all the same, each with the reason."""

VAGUE_NAMES = frozenset(
    """
    asked found given held here known made mine own said seen taken theirs there these told
    wanted whose
    """.split()  # noqa: SIM905  a list with a quote around each word is harder to read
)
"""Locals that say where a value comes from, and not what it is. `other` (in merges and operators),
`left` and `right` (in trees), `before` and `after` (for two states) say enough."""

PROTOCOL_TUPLES = frozenset({"__reduce__", "__reduce_ex__", "__getnewargs__"})
"""Methods whose tuples are pickle's, not ours."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Finding = tuple[int, str]


class Offence(NamedTuple):
    """A place that breaks a rule."""

    path: str
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.sentence}"


class Module:
    """A parsed file. The rules share its walk over the tree: walking takes longer than judging."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.nodes = list(ast.walk(self.tree))
        self.functions = [node for node in self.nodes if isinstance(node, Function)]


@dataclass(frozen=True)
class Names:
    """The names of our own functions, to tell calls of them from calls of other libraries."""

    functions: frozenset[str]
    """Functions, methods and classes with a fixed number of parameters."""
    variadic: frozenset[str]
    """Functions with `*arguments`, which take any number of them by intention."""
    packages: frozenset[str]
    """Top-level names that are imported from this repository."""

    @classmethod
    def from_modules(cls, modules: Iterable[Module], packages: Iterable[str]) -> Names:
        """Collect all definitions."""
        definitions = set()
        variadic = set()
        for module in modules:
            definitions.update(node.name for node in module.nodes if isinstance(node, ast.ClassDef))
            for function in module.functions:
                definitions.add(function.name)
                if function.args.vararg is not None:
                    variadic.add(function.name)
        return cls(frozenset(definitions - variadic), frozenset(variadic), frozenset(packages))


# Rules


def find_packed_assignments(module: Module) -> Iterator[Finding]:
    """Find `a, b = x, y`. A swap and the result of one call may be unpacked."""
    for node in module.nodes:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Tuple | ast.List) and _is_packed(target, node.value):
                yield (
                    node.lineno,
                    f"One statement assigns {len(target.elts)} values: write one for each.",
                )


def find_splats_of_tuples(module: Module) -> Iterator[Finding]:
    """Find `call(*values)` where the same function builds `values` as a tuple of named items."""
    for function in module.functions:
        nodes = _own_nodes(function)
        built = _names_of_tuples(nodes)
        for node in nodes:
            if not isinstance(node, ast.Call):
                continue
            for argument in node.args:
                if not isinstance(argument, ast.Starred):
                    continue
                if isinstance(argument.value, ast.Tuple | ast.List):
                    yield node.lineno, "A tuple is built to be splatted: pass its items by name."
                elif isinstance(argument.value, ast.Name) and argument.value.id in built:
                    name = argument.value.id
                    yield (
                        node.lineno,
                        f"The tuple {name!r} is built to be splatted: pass its items by name.",
                    )


def find_wide_tuples(module: Module) -> Iterator[Finding]:
    """Find functions that return three values, by their `return` statements and annotations."""
    aliases = {
        target.id
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and _is_wide_annotation(node.value, set())
    }
    for function in module.functions:
        if function.name in PROTOCOL_TUPLES:
            continue
        widths = [
            len(branch.elts)
            for node in _own_nodes(function)
            if isinstance(node, ast.Return) and node.value is not None
            for branch in _branches(node.value)
            if isinstance(branch, ast.Tuple) and not _has_splat(branch)
        ]
        if max(widths, default=0) >= 3 or _is_wide_annotation(function.returns, aliases):
            yield (
                function.lineno,
                f"{function.name} returns a tuple of three or more: "
                "return a NamedTuple or dataclass.",
            )


def find_positional_arguments(module: Module, names: Names) -> Iterator[Finding]:
    """Find calls of our own functions with many arguments that only their order explains."""
    imported_from = _collect_imports(module)
    for node in module.nodes:
        if not isinstance(node, ast.Call) or len(node.args) <= MOST_POSITIONAL:
            continue
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            continue
        if _is_own(node.func, imported_from, names):
            called = ast.unparse(node.func)
            yield (
                node.lineno,
                f"{called} gets {len(node.args)} arguments by position: "
                f"name all after the first {MOST_POSITIONAL}.",
            )


def find_nested_conditionals(module: Module) -> Iterator[Finding]:
    """Find conditional expressions inside conditional expressions; the outer one is reported."""
    for node in module.nodes:
        if isinstance(node, ast.IfExp) and any(
            isinstance(inner, ast.IfExp) for inner in _below(node)
        ):
            yield node.lineno, "Conditional expressions are nested: write statements."


def find_long_lambdas(module: Module) -> Iterator[Finding]:
    """Find lambdas that span lines."""
    for node in module.nodes:
        if isinstance(node, ast.Lambda) and node.end_lineno != node.lineno:
            yield node.lineno, "A lambda spans lines: write a function with a name."


def find_participles(module: Module) -> Iterator[Finding]:
    """Find functions that are named for a state, as properties are, and not for what they do."""
    for function in module.functions:
        if function.name in ALLOWED_PARTICIPLES or _is_property(function):
            continue
        if is_participle(function.name):
            yield (
                function.lineno,
                f"The name of {function.name} begins with a participle: "
                "say what it does, as a command.",
            )


def find_vague_names(module: Module) -> Iterator[Finding]:
    """Find locals and parameters that say nothing about their value."""
    for function in module.functions:
        arguments = function.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        names = {parameter.arg: parameter.lineno for parameter in parameters}
        for node in _own_nodes(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.setdefault(node.id, node.lineno)
        for name in sorted(names.keys() & VAGUE_NAMES):
            yield (
                names[name],
                f"{function.name}: {name!r} says nothing: name the local for what it holds.",
            )


def find_long_lines(module: Module) -> Iterator[Finding]:
    """Find lines over the limit. A comment that only holds an address may be longer."""
    for number, line in enumerate(module.text.splitlines(), start=1):
        if len(line) > LONGEST_LINE and not re.fullmatch(r"\s*#? *https?://\S+", line):
            yield number, f"The line has {len(line)} characters: at most {LONGEST_LINE}."


# What the rules need


def is_participle(name: str) -> bool:
    """Say whether the first word of a function's name is a participle."""
    if name.startswith("__") and name.endswith("__"):
        return False
    first = name.strip("_").lower().split("_")[0]
    if first in PARTICIPLES_THAT_DO_NOT_END_IN_ED:
        return True
    return first.endswith("ed") and first not in WORDS_THAT_END_IN_ED


@functools.cache
def _own_nodes(function: Function) -> list[ast.AST]:
    """Return the nodes of a function without those of functions and classes inside it."""
    nodes = []
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    return nodes


def _names_of_tuples(nodes: list[ast.AST]) -> set[str]:
    """Return the locals that are a tuple or list of a fixed number of items."""
    built = set()
    grown = set()
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            branches = _branches(node.value)
            if any(isinstance(branch, ast.Tuple | ast.List) and branch.elts for branch in branches):
                built.update(target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            grown.add(node.target.id)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("append", "extend", "insert")
            and isinstance(node.func.value, ast.Name)
        ):
            grown.add(node.func.value.id)
    return built - grown


def _below(node: ast.AST) -> Iterator[ast.AST]:
    walk = ast.walk(node)
    next(walk)  # the node itself
    yield from walk


def _branches(value: ast.expr) -> list[ast.expr]:
    """Return what a conditional expression can become, or the expression itself."""
    if isinstance(value, ast.IfExp):
        return [*_branches(value.body), *_branches(value.orelse)]
    return [value]


def _is_packed(target: ast.Tuple | ast.List, value: ast.expr) -> bool:
    for branch in _branches(value):
        if isinstance(branch, ast.Tuple | ast.List):
            is_swap = sorted(map(ast.unparse, target.elts)) == sorted(map(ast.unparse, branch.elts))
            if not is_swap:
                return True
    return False


def _has_splat(value: ast.Tuple) -> bool:
    """Say whether a tuple has any number of items: it is a sequence, not a set of results."""
    return any(isinstance(item, ast.Starred) for item in value.elts)


def _is_wide_annotation(annotation: ast.expr | None, aliases: set[str]) -> bool:
    """Say whether an annotation is, or may be, a tuple of three items or more."""
    if annotation is None:
        return False
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:  # any other string that is assigned to a name
            return False
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "tuple":
        items = annotation.slice
        return isinstance(items, ast.Tuple) and len(items.elts) >= 3
    if isinstance(annotation, ast.BinOp):
        return _is_wide_annotation(annotation.left, aliases) or _is_wide_annotation(
            annotation.right, aliases
        )
    return isinstance(annotation, ast.Name) and annotation.id in aliases


def _is_property(function: Function) -> bool:
    return any(
        re.search(r"property$|\.setter$|^overload$", ast.unparse(node))
        for node in function.decorator_list
    )


def _collect_imports(module: Module) -> dict[str, str]:
    """Return each imported name with its top-level package; that of relative imports is "."."""
    packages = {}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                packages[alias.asname or top] = top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                packages[alias.asname or alias.name] = (
                    "." if node.level else str(node.module).split(".")[0]
                )
    return packages


def _is_own(called: ast.expr, imported_from: dict[str, str], names: Names) -> bool:
    """Say whether a call reaches a function of this repository, as far as its spelling shows."""
    if isinstance(called, ast.Name) and called.id in names.variadic:
        return False
    root = called
    while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
        root = root.func if isinstance(root, ast.Call) else root.value
    if isinstance(root, ast.Name) and root.id in imported_from:
        return imported_from[root.id] in names.packages
    if isinstance(called, ast.Name):
        if called.id in names.functions:
            return True
        # a local or a parameter that is called is ours, too
        return not hasattr(builtins, called.id)
    return isinstance(called, ast.Attribute) and called.attr in names.functions


# Rooms


def room_of(path: str) -> str | None:
    """Return the room of a file, or None for a file that is in no room."""
    for folder in WHOLE_FOLDERS:
        if path.startswith(folder + "/"):
            return folder
    for package in PACKAGES:
        if path.startswith(package + "/"):
            below = path.removeprefix(package + "/").split("/")
            return f"{package}/{below[0]}"
    return None


def read_rooms(root: Path) -> dict[str, dict[str, Module]]:
    """Return each room with its parsed files, by their paths below the root of the repository."""
    rooms: dict[str, dict[str, Module]] = defaultdict(dict)
    for folder in (*PACKAGES, *WHOLE_FOLDERS):
        for path in sorted((root / folder).rglob("*.py")):
            relative = path.relative_to(root).as_posix()
            room = room_of(relative)
            if room is not None:
                rooms[room][relative] = Module(path.read_text(encoding="utf-8"))
    return dict(rooms)


def collect_names(rooms: dict[str, dict[str, Module]]) -> Names:
    """Return the names of all functions, and of the modules that benchmarks and tests import."""
    modules = [module for files in rooms.values() for module in files.values()]
    helpers = {Path(path).stem for folder in WHOLE_FOLDERS for path in rooms.get(folder, {})}
    return Names.from_modules(modules, {".", "hammemo", "hammemo_server", "benchmarks"} | helpers)


def check_module(module: Module, names: Names) -> list[Finding]:
    """Return what one module breaks, in the order of its lines."""
    findings = [
        *find_packed_assignments(module),
        *find_splats_of_tuples(module),
        *find_wide_tuples(module),
        *find_positional_arguments(module, names),
        *find_nested_conditionals(module),
        *find_long_lambdas(module),
        *find_participles(module),
        *find_vague_names(module),
        *find_long_lines(module),
    ]
    return sorted(findings)


def check_room(files: dict[str, Module], names: Names) -> list[Offence]:
    """Return all offences of a room."""
    return [
        Offence(path, line, sentence)
        for path, module in files.items()
        for line, sentence in check_module(module, names)
    ]


def judge_list(counts: dict[str, int], unfinished: frozenset[str]) -> list[str]:
    """Return what is wrong with the list: rooms that do not exist, and rooms that are finished."""
    complaints = []
    for room in sorted(unfinished):
        if room not in counts:
            complaints.append(
                f"{room} is no room: remove it from UNFINISHED in .ci/readability.py."
            )
        elif counts[room] == 0:
            complaints.append(
                f"{room} breaks no rule any more: remove it from UNFINISHED in .ci/readability.py."
            )
    return complaints


def check(root: Path, unfinished: frozenset[str]) -> list[str]:
    """Print how many offences each unfinished room has; return everything that fails the check."""
    rooms = read_rooms(root)
    names = collect_names(rooms)
    offences = {room: check_room(files, names) for room, files in rooms.items()}
    counts = {room: len(offences[room]) for room in rooms}
    for room in sorted(rooms, key=counts.__getitem__, reverse=True):
        if room in unfinished:
            print(f"{counts[room]:6} offences in {room}, which is still to be rewritten")
    failures = judge_list(counts, unfinished)
    for room in rooms:
        if room not in unfinished:
            failures += map(str, offences[room])
    return failures


def list_offences(root: Path, chosen: list[str]) -> list[str]:
    """Return every offence of these rooms, finished or not."""
    rooms = read_rooms(root)
    names = collect_names(rooms)
    unknown = [room for room in chosen if room not in rooms]
    if unknown:
        raise SystemExit(
            f"No such room: {', '.join(unknown)}. Rooms are: {', '.join(sorted(rooms))}."
        )
    return [str(offence) for room in chosen for offence in check_room(rooms[room], names)]


def main(arguments: list[str]) -> None:
    """Check the repository, or list the offences of some rooms."""
    if arguments:
        failures = list_offences(ROOT, [argument.rstrip("/") for argument in arguments])
    else:
        failures = check(ROOT, UNFINISHED)
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main(sys.argv[1:])
