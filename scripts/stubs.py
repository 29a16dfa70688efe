"""Write the type stubs of the toolsets whose functions take `approval=`, which their signatures hide.

`python scripts/stubs.py` writes them; with `--check` it only tells (exit status 1) which are out of date.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

TOOLSETS = Path(__file__).resolve().parent.parent / "src" / "ksadk" / "toolsets"
MODULES = ("workspace", "skills", "sandbox")
HEADER = "# Written by scripts/stubs.py from {name}.py: what a call takes, `approval` included.\n\n"


def stub(name: str, source: str) -> str:
    """The stub of a module, from its source. Only public names are in it."""
    tree = ast.parse(source)
    exported = _exported(tree)
    tree = _Plain(tree).visit(tree)
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            body.append(_function(node))
        elif isinstance(node, ast.AnnAssign) and not _named(node.target).startswith("_"):
            body.append(ast.AnnAssign(node.target, node.annotation, None, 1))
        elif isinstance(node, ast.Assign) and not _named(node.targets[0]).startswith("_"):
            raise SystemExit(f"{name}.py, line {node.lineno}: a public name needs an annotation")
    shown = "\n".join(ast.unparse(node) for node in body)
    used = {node.id for node in ast.walk(ast.parse(shown)) if isinstance(node, ast.Name)}
    imports = [line for node in tree.body for line in _imports(node, used, exported)]
    return _tidy(HEADER.format(name=name) + "\n".join([*imports, "", shown]) + "\n", f"{name}.pyi")


class _Plain(ast.NodeTransformer):
    """Puts the type itself where an alias stands for `Annotated[type, ...]`."""

    def __init__(self, tree: ast.Module) -> None:
        self._types: dict[str, ast.expr] = {
            _named(node.targets[0]): node.value.slice.elts[0]
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Subscript)
            and _named(node.value.value) == "Annotated"
            and isinstance(node.value.slice, ast.Tuple)
        }

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._types.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def _tidy(text: str, name: str) -> str:
    for command in (["check", "--fix", "--quiet", "--select", "I"], ["format", "--quiet"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(TOOLSETS / name), "-"],
            input=text, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    return text


def _function(node: ast.FunctionDef) -> ast.FunctionDef:
    arguments = node.args
    if _may_ask(node):
        kind = ast.parse("dict[str, Any] | None", mode="eval").body
        arguments = ast.arguments(
            posonlyargs=arguments.posonlyargs,
            args=[*arguments.args, ast.arg("approval", kind)],
            vararg=arguments.vararg,
            kwonlyargs=arguments.kwonlyargs,
            kw_defaults=arguments.kw_defaults,
            kwarg=arguments.kwarg,
            defaults=[*arguments.defaults, ast.Constant(None)],
        )
    ellipsis: list[ast.stmt] = [ast.Expr(ast.Constant(...))]
    made = ast.FunctionDef(node.name, arguments, ellipsis, [], node.returns, lineno=1)
    return ast.fix_missing_locations(made)


def _may_ask(node: ast.FunctionDef) -> bool:
    """Whether a function is declared as a tool of more than low risk."""
    declared = [
        keyword.value
        for call in node.decorator_list
        if isinstance(call, ast.Call) and _named(call.func) == "builtin"
        for keyword in call.keywords
        if keyword.arg == "risk"
    ]
    return any(ast.literal_eval(risk) != "low" for risk in declared)


def _imports(node: ast.stmt, used: set[str], exported: set[str]) -> list[str]:
    """The import as a stub needs it: of names that it uses, and, as `x as x`, of those it passes on."""
    if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
        names = [
            f"{alias.name} as {alias.name}" if alias.name in exported else alias.name
            for alias in node.names
            if alias.name in used | exported
        ]
        return [f"from {node.module} import {', '.join(names)}"] if names else []
    if isinstance(node, ast.Import):
        return [f"import {alias.name}" for alias in node.names if alias.name.split(".")[0] in used]
    return []


def _exported(tree: ast.Module) -> set[str]:
    """The names that the module's `__all__` lists."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and _named(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def main(arguments: list[str]) -> int:
    """Write or check every stub; returns the exit status."""
    old: list[Path] = []
    for name in MODULES:
        text = stub(name, (TOOLSETS / f"{name}.py").read_text(encoding="utf-8"))
        path = TOOLSETS / f"{name}.pyi"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            old.append(path)
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    for path in old:
        print(f"{path.name}: {'out of date' if '--check' in arguments else 'written'}")
    return 1 if old and "--check" in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
