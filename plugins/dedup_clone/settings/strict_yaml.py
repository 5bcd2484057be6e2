"""Reads a YAML file into a pydantic model. Errors name file, line and key, and suggest known keys.

Names that become part of SQL, paths or labels have types of their own, which validate them once, when they are read.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from dedup_clone.contract.errors import ConfigurationError

RESERVED_PREFIX = "dedup_clone_"  # of the tables that all feeds share, and of names in statements
# BigQuery refuses a column whose name begins with one of these, in upper or lower case. Names in our own statements
# begin with the last one.
_RESERVED_PREFIXES = (
    *("_TABLE_", "_FILE_", "_PARTITION", "_ROW_TIMESTAMP", "__ROOT__", "_COLIDENTIFIER"),
    *("_CHANGE_SEQUENCE_NUMBER", "_CHANGE_TYPE", "_CHANGE_TIMESTAMP", RESERVED_PREFIX.upper()),
)


def _require_unreserved(name: str) -> str:
    prefix = next((prefix for prefix in _RESERVED_PREFIXES if name.upper().startswith(prefix)), None)
    if prefix:
        owner = "this project" if prefix == RESERVED_PREFIX.upper() else "BigQuery"
        raise ValueError(f"[{name}] begins with [{prefix}], which {owner} reserves: rename the column")
    return name


def _require_free_name(feed: str) -> str:
    """Return the name of a feed, which is also the name of its target.

    Raises ValueError if BigQuery or this project gives the name to something else.
    """
    for suffix in RESERVED_SUFFIXES:
        if feed.endswith(suffix):
            other_feed = feed.removesuffix(suffix)
            raise ValueError(
                f"[{feed}] would be the {suffix[1:]} table of a feed [{other_feed}]: rename the feed and its file"
            )
    if feed == "information_schema":
        raise ValueError(f"[{feed}] is the name of BigQuery's views of metadata: rename the feed and its file")
    if feed.startswith(RESERVED_PREFIX):
        raise ValueError(f"[{feed}] begins with [{RESERVED_PREFIX}], as this project's own tables do: rename the feed")
    return feed


RESERVED_SUFFIXES = ("_staging", "_changes", "_previous")  # of a feed's tables besides target
# Tables, DAGs, labels and folders are named after the feed. Of these, labels have the strictest rules.
FeedName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$"), AfterValidator(_require_free_name)]
ColumnName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,299}$")]
DeclaredColumnName = Annotated[ColumnName, AfterValidator(_require_unreserved)]
DatasetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,1023}$")]
ProjectId = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$")]
BucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$")]
ObjectPrefix = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.=-]*(/[A-Za-z0-9][\w.=-]*)*$")]
Location = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]{1,40}$")]
ConnectionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,200}$")]
LabelKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
LabelValue = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{0,63}$")]


Model = TypeVar("Model", bound=BaseModel)
KeyPath = tuple[int | str, ...]  # the keys and list positions that lead to a value


class _CoreLoader(yaml.SafeLoader):
    """Reads plain scalars by the core schema of YAML 1.2: PyYAML's own rules are those of YAML 1.1, with 1:30 = 90.

    Refuses a mapping that has a key twice; PyYAML would silently use the last value.
    """

    def compose_mapping_node(self, anchor: Any) -> Any:
        node, lines = super().compose_mapping_node(anchor), dict[Any, int]()
        for key, _ in node.value:
            line, value = key.start_mark.line + 1, key.value if isinstance(key, yaml.ScalarNode) else key
            if value in lines:
                raise ConfigurationError(
                    f"{self.name}:{line}: key [{value}] is in line {lines[value]}, too: remove one of the two."
                )
            lines[value] = line
        return node


def _integer(_: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(node.value, 0 if node.value[:2] in ("0o", "0x") else 10)


_CoreLoader.yaml_implicit_resolvers = {}
_CoreLoader.add_constructor("tag:yaml.org,2002:int", _integer)
for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", [*"-+0123456789"]),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        [*"-+.0123456789"],
    ),
    ("merge", "<<", ["<"]),  # not of YAML 1.2, but feed files may have it
):
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(rf"^(?:{_pattern})$"), _first)


class StrictModel(BaseModel):
    """Base class of all settings: unknown keys are errors, and values are never converted.

    The string below a field is its description in docs/feed-file.md and docs/feed.schema.json, which are generated.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    removed_keys: ClassVar[Mapping[str, str]] = {}
    """Keys that the section once had, each with a sentence that says what to do instead."""

    def problems(self) -> Iterator[str]:
        """Why the section's values do not fit together; only the first is reported, so a later one may rely on it."""
        yield from ()

    @model_validator(mode="after")
    def values_fit_together(self) -> Self:
        for problem in self.problems():
            raise ValueError(problem)
        return self


def read_model(kind: type[Model], path: Path, *, base: Mapping[str, Any] | None = None) -> Model:
    """The file at `path` as a model of class `kind`. Keys that the file lacks, also in sections, come from `base`.

    Raises ConfigurationError; if values are invalid, it names file, line and key of each.
    """
    plain, root = _parse(path)
    if base is not None and isinstance(plain, dict):
        plain = _merged(base, plain)
    try:
        text = json.dumps(plain, default=str)
    except (TypeError, ValueError) as error:  # a key with a tag, or an anchor that contains itself
        raise ConfigurationError(f"[{path}] has a key or value that is no text: {error}. Correct it.") from error
    try:
        # Validated as JSON: strict mode then accepts lists for tuples and strings for enums.
        return kind.model_validate_json(text)
    except ValidationError as error:
        faults = "\n".join(f"  {_describe(kind, path, root, fault)}" for fault in error.errors())
        raise ConfigurationError(f"[{path.name}] is not valid:\n{faults}") from error


def read_yaml(path: Path) -> dict[str, Any]:
    """The file's mapping, not validated; empty if it has none. Raises ConfigurationError if it is unreadable."""
    plain, _ = _parse(path)
    return plain if isinstance(plain, dict) else {}


def read_text(path: Path) -> str:
    """The text of the file at `path`. Raises ConfigurationError if it is unreadable or not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"Cannot read [{path}]: {error.strerror}. Add the file or fix its name.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"[{path}] is not UTF-8: {error}. Save it in this encoding.") from error


def parse_yaml(text: str) -> Any:
    """The value of a YAML text, by the core schema of YAML 1.2. Raises yaml.YAMLError, ValueError."""
    return yaml.load(text, _CoreLoader)


def _parse(path: Path) -> tuple[Any, Any]:
    """The file's content as plain values, and the root of its YAML nodes, which have line numbers."""
    loader = _CoreLoader(read_text(path))
    loader.name = str(path)
    try:
        root = loader.get_single_node()
        return (None if root is None else loader.construct_document(root)), root
    except yaml.YAMLError as error:
        raise ConfigurationError(f"[{path}] is not YAML: {error}. Fix the line that it names.") from error
    except ValueError as error:  # of a tag, such as !!int 1:30
        raise ConfigurationError(f"[{path}] has a value that cannot be read: {error}. Correct it.") from error


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of `base` and `own`. If both have a key, the value of `own` counts; two sections are merged likewise."""

    def value(key: str) -> Any:
        inherited, new = base.get(key), own[key]
        return _merged(inherited, new) if isinstance(inherited, dict) and isinstance(new, dict) else new

    return {**base, **{key: value(key) for key in own}}


def _describe(kind: type[BaseModel], path: Path, root: Any, fault: Any) -> str:
    """One line about `fault`, an error that pydantic found in the file. `root`: the root of the file's YAML nodes."""
    location: KeyPath = fault["loc"]
    key = ".".join(str(part) for part in location) or "(whole file)"
    line = _line(root, location)
    if fault["type"] == "extra_forbidden":
        model = _model_at(kind, location[:-1])
        removed = model.removed_keys if issubclass(model, StrictModel) else {}
        if instead := removed.get(str(location[-1])):
            return f"{path}:{line}: [{key}] is no longer a setting: {instead} Remove the key."
        known = sorted(model.model_fields)
        nearest = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean [{nearest[0]}]?" if nearest else f"known keys: {', '.join(known)}."
        return f"{path}:{line}: unknown key [{key}]: {hint}"
    return f"{path}:{line}: [{key}]: {fault['msg']} (found [{fault['input']!r:.80}])"


def _line(node: Any, location: KeyPath) -> int:
    """The line, counted from 1, of the key at `location`. If the file lacks the key, that of its nearest parent."""
    line = 1 if node is None else node.start_mark.line + 1
    for part in location:
        child = None
        if isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                if key_node.value == part:
                    child, line = value_node, key_node.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            child = node.value[part]
            line = child.start_mark.line + 1
        if child is None:
            break
        node = child
    return line


def _model_at(kind: type[BaseModel], location: KeyPath) -> type[BaseModel]:
    """The model of the section at `location` in a file of class `kind`."""
    model = kind
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            model = section_model(model.model_fields[part].annotation) or model
    return model


def section_model(annotation: Any) -> type[BaseModel] | None:
    """The first model in the type `annotation`, such as `X` in `X | None` or `tuple[X, ...]`; None if it has none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in get_args(annotation):
        found = section_model(inner)
        if found:
            return found
    return None
