"""Finds out whether a file's content has a number or a text, even if compressed or encoded in Parquet."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

Value = int | str


def encodings(value: Value) -> tuple[bytes, ...]:
    """The forms of a stored value: text in UTF-8, a number (0 or more) also as eight bytes in either order."""
    text = str(value).encode()
    return (text,) if isinstance(value, str) else (text, value.to_bytes(8, "little"), value.to_bytes(8, "big"))


def contains(content: bytes, value: Value) -> bool:
    """Whether the content has the value: as it is, compressed, or in a column or dictionary of Parquet.

    The value must be so long that its bytes do not occur by chance.
    """
    if any(encoding in content for encoding in encodings(value)):
        return True
    if content.startswith(b"PAR1"):
        return any(encoding in buffer for buffer in _decoded(content) for encoding in encodings(value))
    for magic, codec in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x1f\x8b", "gzip")):
        if content.startswith(magic):
            return contains(b"".join(_decompressed(content, codec)), value)
    return False


def _decompressed(content: bytes, codec: str) -> Iterator[bytes]:
    """The decompressed blocks. An incomplete last block, which a stopped process may leave, is skipped."""
    with pa.CompressedInputStream(pa.BufferReader(content), codec) as stream:
        try:
            while block := stream.read(1 << 20):
                yield block
        except OSError:
            return


def _decoded(content: bytes) -> Iterator[bytes]:
    """The bytes of all values of a Parquet file; of BYTE_ARRAY columns also the dictionary entries that no row has.

    Yields nothing for a file without a footer, which a stopped process may leave: nobody can tell where values begin.
    """
    try:
        schema = pq.read_metadata(io.BytesIO(content)).schema
    except pa.ArrowInvalid:
        return
    columns = (schema.column(number) for number in range(len(schema)))
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    with pq.ParquetFile(io.BytesIO(content), read_dictionary=texts) as file:
        for group in range(file.num_row_groups):
            for column in file.read_row_group(group, use_threads=False).columns:
                for chunk in column.chunks:
                    yield from _buffers(chunk)


def _buffers(array: pa.Array) -> Iterator[bytes]:
    if isinstance(array, pa.DictionaryArray):
        yield from _buffers(array.dictionary)
    elif isinstance(array, pa.StructArray):
        for number in range(array.type.num_fields):
            yield from _buffers(array.field(number))
    elif isinstance(array, (pa.ListArray, pa.LargeListArray)):
        yield from _buffers(array.values)
    else:
        yield from (buffer.to_pybytes() for buffer in array.buffers() if buffer is not None)
