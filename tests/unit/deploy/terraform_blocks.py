"""Reads the resources of deploy/terraform: their arguments, and the resources that they refer to.

The reader relies on the layout of `terraform fmt`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_RESOURCE = re.compile(r'^resource "(\w+)" "(\w+)" \{$')
_BLOCK = re.compile(r'^(?:dynamic ")?(\w+)"? \{$')
_ARGUMENT = re.compile(r"^(\w+) += ")
_REFERENCE = re.compile(r"\b(google_\w+\.\w+|local\.\w+)\b")
_LOCAL = re.compile(r"^  (\w+) += (.*)$", re.MULTILINE)
# Arguments of every resource, which no provider's schema has.
_META_ARGUMENTS = {"for_each", "count", "depends_on", "lifecycle"}


@dataclass
class Resource:
    """A resource. `kind`: its type. `references`: addresses of resources and local values in its arguments.

    `arguments`: the paths of arguments and blocks, such as `config.node_config.service_account`.
    """

    kind: str
    arguments: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)


def read_resources(folder: Path) -> dict[str, Resource]:
    """The resources by address. What a local value of one line refers to counts as a reference of its users, too."""
    text = "\n".join(path.read_text() for path in sorted(folder.glob("*.tf")))
    by_local = {f"local.{name}": set(_REFERENCE.findall(value)) for name, value in _LOCAL.findall(text)}
    found: dict[str, Resource] = {}
    for block in re.split(r"^(?=resource )", text, flags=re.MULTILINE):
        lines = block.splitlines()
        if lines and (first := _RESOURCE.match(lines[0])):
            resource = found[".".join(first.groups())] = Resource(first[1])
            _read(resource, [line.strip() for line in lines[1 : lines.index("}")]])
            for name in list(resource.references):
                resource.references |= by_local.get(name, set())
    return found


def _read(resource: Resource, lines: list[str]) -> None:
    # The blocks around the line, the outermost first. "=" stands for a map, list, call or heredoc, whose lines are no
    # arguments.
    around: list[str] = []
    for line in (line for line in lines if not line.startswith("#")):
        resource.references |= set(_REFERENCE.findall(line))
        block, argument = _BLOCK.match(line), _ARGUMENT.match(line)
        if (found := block or argument) and "=" not in around and not (block and block[1] == "content"):
            path = [*(name for name in around if name != "content"), found[1]]
            if path[0] not in _META_ARGUMENTS and path[-1] != "for_each":
                resource.arguments.add(".".join(path))
        if line.endswith(("{", "[", "(", "<<-EOT")):
            around.append(block[1] if block else "=")
        elif line.startswith(("}", "]", ")", "EOT")):
            around.pop()
