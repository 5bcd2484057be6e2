"""The messages of all errors that the shipped code can raise, read from its source.

In a message, `…` stands for each value that is known only when the error is raised.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE_FOLDERS = ("plugins", "spark_jobs", "deploy")
SETTINGS = REPOSITORY / "plugins" / "dedup_clone" / "settings"
BASE = "DedupCloneError"
ANYTHING = "…"

# Never shown to an operator: a skip is no error, and the others are caught by their only callers.
UNSEEN = frozenset({"AirflowSkipException", "TooManyDuplicates", "UnsuitableFile", "_Mismatch"})
# These expressions are the message of an error that was made elsewhere, and is found there.
PASSED_ON = frozenset(
    {
        "_without_path(error, url)",
        "event['message']",
        "self.error",
        "records.problem",
        "str(error)",
        "result.error",
        "outcome",
    }
)


@dataclass(frozen=True)
class Message:
    """The template of one error message. `where`: file and line."""

    text: str
    where: str


class _Module:
    """One source file. `nodes`: each node with the function around it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.nodes = list(_with_function(self.tree, None))
        self.functions = {n.name: n for n, _ in self.nodes if isinstance(n, ast.FunctionDef)}


@functools.cache
def raised_messages() -> list[Message]:
    """Every message: one for each place that makes an error, several where it chooses between texts."""
    modules = [_Module(path) for folder in SOURCE_FOLDERS for path in sorted((REPOSITORY / folder).rglob("*.py"))]
    constants, errors = _string_constants(modules), _project_errors(modules)
    functions = {name: function for module in modules for name, function in module.functions.items()}
    messages = []
    for module in modules:
        reader = _Reader(constants, {**functions, **module.functions})
        for function, expression in _message_expressions(module, errors, functions.keys()):
            where = f"{module.path.relative_to(REPOSITORY)}:{expression.lineno}"
            texts = reader.texts(expression, function, where)
            messages += [Message(re.sub(r"…(\.?…)+", ANYTHING, text), where) for text in texts]
    return messages


def _with_function(node: ast.AST, function: ast.FunctionDef | None) -> Iterator[tuple[ast.AST, ast.FunctionDef | None]]:
    for child in ast.iter_child_nodes(node):
        yield child, function
        yield from _with_function(child, child if isinstance(child, ast.FunctionDef) else function)


def _string_constants(modules: Iterable[_Module]) -> dict[str, str]:
    """Names that stand for one text wherever a module defines them."""
    found: dict[str, set[str]] = {}
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id.isupper() and isinstance(node.value.value, str):
                        found.setdefault(target.id, set()).add(node.value.value)
    return {name: texts.pop() for name, texts in found.items() if len(texts) == 1}


def _project_errors(modules: Iterable[_Module]) -> dict[str, ast.ClassDef]:
    """The classes of the project's errors by their names."""
    classes = [n for module in modules for n, _ in module.nodes if isinstance(n, ast.ClassDef)]
    found: dict[str, ast.ClassDef] = {}
    while True:
        known = {BASE, *found}
        new = {c.name: c for c in classes if known & {ast.unparse(base) for base in c.bases} and c.name not in found}
        if not new:
            return found
        found.update(new)


def _message_expressions(
    module: _Module, errors: dict[str, ast.ClassDef], functions: Iterable[str]
) -> Iterator[tuple[ast.FunctionDef | None, ast.expr]]:
    """The argument of each error that is its message, with the function around it."""
    seen, writes_own = set(), {name for name, error in errors.items() if _own_message(error)}
    for node, function in module.nodes:
        if isinstance(node, ast.ClassDef) and node.name in writes_own:
            yield None, _own_message(node)
        made = node.exc if isinstance(node, ast.Raise) else node
        if made is None or made in seen or (isinstance(made, ast.Name) and made.id in UNSEEN):
            continue
        name = _called(made)
        is_error = isinstance(node, ast.Raise) or name in errors or name in ("Hint", "raise_error")
        if not is_error or name in UNSEEN | writes_own or name in functions:
            continue
        if name == "ValueError" and SETTINGS in module.path.parents:
            continue  # of a pydantic model: a line in the message of the ConfigurationError for its file
        seen.add(made)
        if isinstance(made, ast.Call):
            argument = made.args[1 if name == "HTTPException" else 0]
            yield function, argument.args[0] if _called(argument) == "lit" else argument
        elif isinstance(made, ast.expr):
            yield function, made


def _called(node: ast.AST) -> str | None:
    """The name of the function or class that is called, without its module."""
    if not isinstance(node, ast.Call):
        return None
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)


def _own_message(error: ast.ClassDef) -> ast.expr | None:
    """The message that the class itself composes for `super().__init__`."""
    calls = [n for n in ast.walk(error) if _called(n) == "__init__"]
    return next((call.args[0] for call in calls if isinstance(call.args[0], ast.JoinedStr)), None)


@dataclass(frozen=True)
class _Reader:
    """Reads expressions as texts. `functions`: those whose results may be messages, by name."""

    constants: dict[str, str]
    functions: dict[str, ast.FunctionDef]

    def texts(self, expression: ast.expr, function: ast.FunctionDef | None, where: str) -> list[str]:
        """The texts that a message can have. Fails for one that cannot be read from the source."""
        if ast.unparse(expression) in PASSED_ON:
            return []
        if isinstance(expression, ast.IfExp):
            return [t for e in (expression.body, expression.orelse) for t in self.texts(e, function, where)]
        is_call = isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name)
        callee = self.functions.get(_called(expression) or "") if is_call else None
        if callee is not None:
            returned = [n.value for n in ast.walk(callee) if isinstance(n, ast.Return) and n.value is not None]
            return [text for value in returned for text in self.texts(value, callee, where)]
        text = self._text(expression, function)
        if text == ANYTHING:
            raise AssertionError(f"{where}: begin this message with fixed words: {ast.unparse(expression)}")
        return [text]

    def _text(self, node: ast.expr, function: ast.FunctionDef | None) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr():
                return "".join(self._text(value, function) for value in node.values)
            case ast.FormattedValue():
                return self._text(node.value, function)
            case ast.BinOp(op=ast.Add()):
                return self._text(node.left, function) + self._text(node.right, function)
            case ast.Name() if node.id in self.constants:
                return self.constants[node.id]
            case ast.Name() if function is not None:
                return self._assigned(node.id, function)
        return ANYTHING

    def _assigned(self, name: str, function: ast.FunctionDef) -> str:
        """The text that the function assigns to the name, if it does so once."""
        values = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]
        ]
        return self._text(values[0], function) if len(values) == 1 else ANYTHING
