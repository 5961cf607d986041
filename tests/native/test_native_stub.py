"""The types that ``_native.pyi`` promises are those of the compiled module, name by name and argument by argument."""

from __future__ import annotations

import ast
import os

import pytest

from native_cases import _native
from places import ROOT

stubgen = pytest.importorskip("nanobind.stubgen", reason="needs nanobind: pip install --group build")


class Plain(ast.NodeTransformer):
    """Write a type as the stub file does: no limits of shape or order, and NumPy as ``np``."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated":
            assert isinstance(node.slice, ast.Tuple)
            array = node.slice.elts[0]
            of_any_kind = isinstance(array, ast.Name)
            return self.generic_visit(ast.parse("NDArray[Any]", mode="eval").body if of_any_kind else array)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("np") if node.id == "numpy" else node


def definitions(stub: str) -> dict[str, str]:
    """Return what a stub file says of each function, class, method and property."""
    found = {}
    for node in Plain().visit(ast.parse(stub)).body:
        inside = node.body if isinstance(node, ast.ClassDef) else []
        if isinstance(node, ast.ClassDef):
            found[node.name] = "class"
        for part in [node, *inside]:
            if isinstance(part, ast.FunctionDef):
                name = f"{node.name}.{part.name}" if inside else part.name
                decorators = [ast.unparse(decorator) for decorator in part.decorator_list]
                found[name] = f"{decorators} ({ast.unparse(part.args)}) -> {ast.unparse(part.returns or ast.Name('?'))}"
    return found


@pytest.mark.skipif("HAMMEMO_TEST_BUILD" in os.environ, reason="the installed module is compared")
def test_the_stub_file_says_what_the_module_does() -> None:
    generated = stubgen.StubGen(_native)
    generated.put(_native)
    stub = (ROOT / "src" / "hammemo" / "_native.pyi").read_text(encoding="utf-8")
    assert definitions(stub) == definitions(generated.get())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(a: int) -> None: ...", "def f(a: int = 1) -> None: ..."),
        ("def f(a: NDArray[np.uint8]) -> None: ...", "def f(a: NDArray[np.int8]) -> None: ..."),
        ("class A:\n    @property\n    def f(self) -> int: ...", "class A:\n    def f(self) -> int: ..."),
        ("class A: ...", "class B: ..."),
    ],
)
def test_differences_between_stubs_are_seen(one: str, other: str) -> None:
    assert definitions(one) != definitions(other)
    assert definitions(one) == definitions(one.replace("NDArray[np.uint8]", "Annotated[NDArray[numpy.uint8], dict()]"))
