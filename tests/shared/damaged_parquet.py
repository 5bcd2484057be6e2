"""Ways to break a Parquet file that no writer offers."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as parquet_encryption

from bigquery_standin.jobs import thrift_compact


def overwrite_pages(file: bytes, column: str) -> bytes:
    """A valid footer over pages of rubbish."""
    start, size = _chunk(file, column)
    return file[:start] + b"\xff" * size + file[start + size :]


def flip_last_page_byte(file: bytes, column: str) -> bytes:
    """One bit of a stored value: without a checksum nobody could tell."""
    start, size = _chunk(file, column)
    last = start + size - 1
    return file[:last] + bytes([file[last] ^ 1]) + file[last + 1 :]


def damage_footer(file: bytes) -> bytes:
    length = int.from_bytes(file[-8:-4], "little")
    start = len(file) - 8 - length
    return file[:start] + b"\xff" * (length // 2) + file[start + length // 2 :]


def rename_in_footer(file: bytes, name: bytes, other: bytes) -> bytes:
    assert len(name) == len(other)
    length = int.from_bytes(file[-8:-4], "little")
    start = len(file) - 8 - length
    assert name in file[start:]
    return file[:start] + file[start:].replace(name, other)


def claim_type(file: bytes, column: str, converted_type: int, **decimal: int) -> bytes:
    """The footer says that the values of the column, as they are stored, are of this ConvertedType of parquet.thrift.

    `decimal`: `scale` and `precision` of a DECIMAL.
    """
    length = int.from_bytes(file[-8:-4], "little")
    footer = thrift_compact.decode_struct(io.BytesIO(file[-8 - length : -8]))
    element = next(one for one in footer[2][1][1] if one[4][1] == column.encode())
    element.pop(10, None)
    element[6] = (thrift_compact.I32, thrift_compact.zigzag(converted_type))
    for field, name in ((7, "scale"), (8, "precision")):
        if name in decimal:
            element[field] = (thrift_compact.I32, thrift_compact.zigzag(decimal[name]))
    encoded = thrift_compact.encode_struct(footer)
    return file[: -8 - length] + encoded + len(encoded).to_bytes(4, "little") + b"PAR1"


def claim_lzo(file: bytes) -> bytes:
    """The footer of a Brotli file says LZO: no writer at hand writes that."""
    brotli, lzo = b"\x08", b"\x06"  # as Thrift's compact protocol has the two numbers
    length = int.from_bytes(file[-8:-4], "little")
    for position in range(len(file) - 8 - length, len(file) - 8):
        if file[position : position + 1] != brotli:
            continue
        claimed = file[:position] + lzo + file[position + 1 :]
        if _codec_of_first_chunk(claimed) == "LZO":
            return claimed
    raise AssertionError("no byte of the footer says Brotli")


def encrypted(content: pa.Table, folder: Path, *, plain_footer: bool) -> bytes:
    """Written with Parquet's modular encryption, keys kept nowhere."""

    class Keys(parquet_encryption.KmsClient):
        def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
            return key_bytes.hex().encode()

        def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
            return bytes.fromhex(wrapped_key.decode())

    factory = parquet_encryption.CryptoFactory(lambda _: Keys())
    columns = [content.schema.names[0]]
    settings = parquet_encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": columns}, plaintext_footer=plain_footer
    )
    properties = factory.file_encryption_properties(parquet_encryption.KmsConnectionConfig(), settings)
    path = folder / "encrypted.parquet"
    with pq.ParquetWriter(path, content.schema, encryption_properties=properties) as writer:
        writer.write_table(content)
    return path.read_bytes()


def _chunk(file: bytes, column: str) -> tuple[int, int]:
    group = pq.ParquetFile(io.BytesIO(file)).metadata.row_group(0)
    chunks = [group.column(n) for n in range(group.num_columns)]
    chunk = next(c for c in chunks if c.path_in_schema == column)
    return chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size


def _codec_of_first_chunk(file: bytes) -> str | None:
    try:
        codec: str = pq.ParquetFile(io.BytesIO(file)).metadata.row_group(0).column(0).compression
    except (OSError, pa.ArrowException, ValueError):
        return None
    return codec


def enum_file(rows: pa.Table, column: str) -> bytes:
    """The content of a Parquet file with these rows, whose text column `column` is annotated ENUM in the footer."""
    content = io.BytesIO()
    pq.write_table(rows, content, store_schema=False)
    # In Thrift's compact protocol: the column's name, then its converted type and the beginning of its logical type.
    name = b"\x18" + bytes([len(column)]) + column.encode()
    as_text, as_enum = name + b"\x25\x00\x4c\x1c", name + b"\x25\x08\x4c\x4c"
    assert content.getvalue().count(as_text) == 1
    return content.getvalue().replace(as_text, as_enum)
