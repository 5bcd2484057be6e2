"""Names that reach SQL, paths or labels: validated once here, safe everywhere after."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

# Feeds name tables, DAGs, labels and folders: the strictest of their rules (labels: lower case, 63 characters).
FeedName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
ColumnName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,299}$")]
DatasetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,1023}$")]
ProjectId = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$")]
BucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$")]
ObjectPrefix = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.=-]*(/[A-Za-z0-9][\w.=-]*)*$")]
Location = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]{1,40}$")]
ConnectionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,200}$")]
