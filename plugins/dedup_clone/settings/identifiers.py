"""Types for names that become part of SQL, paths or labels. The settings models validate such names once, when read."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, StringConstraints

# BigQuery refuses a column whose name begins with one of these, in upper or lower case.
_RESERVED_PREFIXES = (
    *("_TABLE_", "_FILE_", "_PARTITION", "_ROW_TIMESTAMP", "__ROOT__", "_COLIDENTIFIER"),
    *("_CHANGE_SEQUENCE_NUMBER", "_CHANGE_TYPE", "_CHANGE_TIMESTAMP"),
)


def _require_unreserved(name: str) -> str:
    prefix = next((prefix for prefix in _RESERVED_PREFIXES if name.upper().startswith(prefix)), None)
    if prefix:
        raise ValueError(f"[{name}] begins with [{prefix}], which BigQuery reserves: rename the column")
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


RESERVED_SUFFIXES = ("_staging", "_incoming", "_changes")  # of a feed's tables besides target
RESERVED_PREFIX = "dedup_clone_"  # of the tables that all feeds share
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
