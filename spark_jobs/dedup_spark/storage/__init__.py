"""Reads, writes, lists and copies objects on Google Cloud Storage (`gs://…`) or a file system (a path).

Data goes through pyarrow's file systems. What these do not support (object generations, creation only if absent,
server-side copies) goes through the client library of Cloud Storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import IO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_clone.contract.errors import DeliveryRefused
from dedup_clone.contract.landed_objects import ObjectVersion
from dedup_clone.contract.parquet import MAGIC, TRAILER_BYTES, read_parquet_footer
from dedup_spark.storage import cloud, files

_GS = "gs://"
# The most rows and bytes of a batch: a few of its columns then stay in the processor's cache while they are hashed.
_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20
# In plain encoding each text takes as many bytes for its length, before those of the text.
_LENGTH_BYTES = 4
# The encodings of the chunk of a text column with which pyarrow can read the texts as a dictionary.
_OF_DICTIONARIES = {"BIT_PACKED", "PLAIN", "PLAIN_DICTIONARY", "RLE", "RLE_DICTIONARY"}
# Writers that have each text once in a dictionary. pyarrow merges equal texts of a dictionary, but not their numbers.
_WRITERS_OF_DICTIONARIES = ("parquet-cpp-arrow ", "parquet-mr ")
# The largest dictionary, as stored, that is read as one, because each batch gets a copy. Most writers stop at 1 MiB.
_DICTIONARY_BYTES = 2 << 20
# As many columns are read as dictionaries at most.
MAX_DICTIONARIES = 32
# The size of the signature behind a readable footer of a file with encrypted columns.
_SIGNATURE_BYTES = 28


def join(folder_uri: str, *parts: str) -> str:
    return "/".join([folder_uri.rstrip("/"), *parts])


def object_uri(bucket: str, name: str) -> str:
    """The URI of an arrival's object. `bucket` is the name of a GCS bucket, or the path of a folder (with a slash)."""
    return join(bucket, name) if "/" in bucket else f"{_GS}{bucket}/{name}"


def open_input(uri: str) -> pa.NativeFile:
    """Return a seekable reader. Raises FileNotFoundError if the object does not exist."""
    return cloud.filesystem().open_input_file(cloud.path(uri)) if _is_cloud(uri) else files.open_input(uri)


def open_output(uri: str) -> pa.NativeFile:
    """Return a writer. On Cloud Storage the object exists only after the writer was closed."""
    return cloud.filesystem().open_output_stream(cloud.path(uri)) if _is_cloud(uri) else files.open_output(uri)


def open_parquet(
    source: pa.NativeFile, *, verify_checksums: bool = False, texts: Collection[str] = ()
) -> pq.ParquetFile:
    """Open a Parquet file by the types of its own schema. An Arrow schema that a writer stored beside it is ignored.

    Such a schema asks for Arrow's own types (views, dictionaries, large and fixed-size lists, extension types), for
    which pyarrow lacks functions, and which each of its versions reads in another way. `verify_checksums`: of pages, as
    they are read. `texts`: text columns, which are read as dictionaries if they are stored so. Raises pyarrow's error
    if it is no Parquet file, and OSError if columns are encrypted: pyarrow crashes on their metadata.
    """
    open_file = partial(pq.ParquetFile, source, pre_buffer=True, page_checksum_verification=verify_checksums)
    footer = read_parquet_footer(cast(IO[bytes], source), source.size())
    if footer is None:
        return open_file()
    metadata = pq.read_metadata(pa.BufferReader(footer))
    if len(MAGIC) + metadata.serialized_size + _SIGNATURE_BYTES + TRAILER_BYTES == len(footer):
        raise OSError("columns are encrypted: the footer is signed, as in files with encrypted columns only")
    return open_file(metadata=metadata, read_dictionary=_stored_as_dictionaries(metadata, texts) if texts else None)


def _stored_as_dictionaries(metadata: pq.FileMetaData, columns: Collection[str]) -> list[str]:
    """Those of these text columns that dictionaries store, and that take fewer bytes than the lengths of their texts.

    A writer changes to another encoding if a dictionary grows too large. To make dictionaries of such texts would take
    several times as long as to read them.
    """
    if not metadata.created_by.startswith(_WRITERS_OF_DICTIONARIES):
        return []
    plain_bytes: Counter[str] = Counter(dict.fromkeys(columns, 0))
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for chunk in map(row_group.column, range(row_group.num_columns)):
            name = chunk.path_in_schema
            if name not in plain_bytes:
                continue
            if _has_dictionary(chunk):
                plain_bytes[name] += _LENGTH_BYTES * chunk.num_values - chunk.total_uncompressed_size
            else:
                del plain_bytes[name]
    return [name for name, count in plain_bytes.items() if count > 0][:MAX_DICTIONARIES]


def _has_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether pyarrow can read the chunk's texts as a dictionary, and this is not too large."""
    if not chunk.has_dictionary_page or not _OF_DICTIONARIES.issuperset(chunk.encodings):
        return False
    return bool(chunk.data_page_offset - chunk.dictionary_page_offset <= _DICTIONARY_BYTES)


def read_batches(
    file: pq.ParquetFile, columns: list[str] | None = None, is_needed: Callable[[int, int], bool] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the file's batches that have rows, each with the number of its first row, which is 0 for the first one.

    `columns`: None for all. `is_needed`: whether rows from one number up to, but not including, another are needed;
    other row groups are not decoded. One row group is read at a time, so that not all pages of a large file are in
    memory.
    """
    start = 0
    read = [field for field in file.schema_arrow if columns is None or field.name in columns]
    encoded = [field.name for field in read if pa.types.is_dictionary(field.type)]
    for group in range(file.num_row_groups):
        metadata, first = file.metadata.row_group(group), start
        start += metadata.num_rows
        if is_needed is None or is_needed(first, start):
            size = metadata.total_byte_size
            if columns is not None:
                chunks = map(metadata.column, range(metadata.num_columns))
                size = sum(c.total_uncompressed_size for c in chunks if c.path_in_schema.split(".")[0] in columns)
            rows = min(_BATCH_ROWS, max(_BATCH_BYTES * metadata.num_rows // max(size, 1), 1))
            for batch in file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
                if batch.num_rows:
                    for name in encoded:
                        _require_known_texts(name, batch)
                    yield first, batch
                first += batch.num_rows


def _require_known_texts(name: str, batch: pa.RecordBatch) -> None:
    """Raise ArrowInvalid if a number of this column is outside the dictionary, which pyarrow does not check."""
    column = batch.column(name)
    if column.null_count < len(column):
        bounds = pc.min_max(column.indices)
        if not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < len(column.dictionary):
            raise pa.ArrowInvalid(f"column [{name}] has a number outside its dictionary")


def read_text(uri: str) -> str:
    with open_input(uri) as stream:
        return bytes(stream.read()).decode()


def write_text(uri: str, text: str) -> None:
    with open_output(uri) as stream:
        stream.write(text.encode())


def create_text(uri: str, text: str) -> bool:
    """Create an object atomically. Returns False, and writes nothing, when it exists already."""
    return cloud.create_text(uri, text) if _is_cloud(uri) else files.create_text(uri, text)


def replace_text(uri: str, text: str, *, timeout_s: float) -> None:
    """Write an object in one try, of at most `timeout_s` on Cloud Storage. Raises errors of its client, and OSError."""
    if _is_cloud(uri):
        cloud.replace_text(uri, text, timeout_s=timeout_s)
    else:
        write_text(uri, text)


def exists(uri: str) -> bool:
    return cloud.exists(uri) if _is_cloud(uri) else files.exists(uri)


def list_objects(folder_uri: str) -> dict[str, ObjectVersion]:
    """All objects below a folder, by their name relative to it. Empty when the folder does not exist."""
    listed = cloud.list_below(folder_uri) if _is_cloud(folder_uri) else files.list_below(folder_uri)
    return {name: ObjectVersion(generation, size) for name, generation, size in listed}


def copy(source_uri: str, target_uri: str) -> None:
    """Copy inside the storage, without downloading. An existing target is replaced."""
    if _is_cloud(source_uri):
        cloud.copy(source_uri, target_uri)
    else:
        files.copy(source_uri, target_uri)


def delete(uri: str) -> None:
    """Delete an object, if it exists."""
    if _is_cloud(uri):
        cloud.delete(uri)
    else:
        files.delete(uri)


def copy_frozen(source_uri: str, target_uri: str, generation: int, size: int, crc32c: str) -> None:
    """Copy an object that must be as its inventory recorded it. Later changes of the source do not change the copy.

    `crc32c`: empty if unknown, as for files of a file system. Raises DeliveryRefused when the source is gone or has
    another object generation, or the copy has another size or checksum.
    """
    storage = cloud if _is_cloud(source_uri) else files
    found = storage.copy_frozen(source_uri, target_uri, generation)
    if found is None or found != (size, crc32c or found[1]):
        text = "it was replaced or deleted" if found is None else f"its copy has size and checksum {list(found)}"
        raise DeliveryRefused(
            f"Object [{source_uri}] is not as it was when the delivery was noticed: {text}, expected generation "
            f"[{generation}] with {[size, crc32c]}. Let the producer deliver it again."
        )


def _is_cloud(uri: str) -> bool:
    return uri.startswith(_GS)
