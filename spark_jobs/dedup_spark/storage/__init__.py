"""Objects by URI, on Google Cloud Storage (`gs://…`) or a file system (a plain path or `file://…`), alike.

Data goes through pyarrow's file systems; what they do not know (object generations, creation only if absent,
server-side copies) through the storage's own client.
"""

from dedup_spark.storage.objects import (
    FrozenObject,
    StoredObject,
    adopt,
    copy,
    create_text,
    delete,
    exists,
    join,
    list_objects,
    object_uri,
    open_input,
    open_output,
    read_text,
    write_text,
)

__all__ = [
    "FrozenObject",
    "StoredObject",
    "adopt",
    "copy",
    "create_text",
    "delete",
    "exists",
    "join",
    "list_objects",
    "object_uri",
    "open_input",
    "open_output",
    "read_text",
    "write_text",
]
