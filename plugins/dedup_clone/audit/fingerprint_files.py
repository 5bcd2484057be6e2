"""Third task of an audit: fingerprints the rows of one date in the generation's files, in bounded memory."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.audit.farm_fingerprint import farm_fingerprints
from dedup_clone.audit.row_text_arrow import row_texts
from dedup_clone.contract.billing import MIB
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.parquet_footer import read_parquet_footer
from dedup_clone.contract.table import TableContract
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import PartitionFingerprint

# Limits of a batch of rows, whose texts and hashes should fit into the processor's cache. Larger batches were slower.
MAX_BATCH_ROWS = 16 * 1024
MAX_BATCH_BYTES = 16 * MIB
_READ_CHUNK_BYTES = 8 * MIB
_LOW_HALF = np.int64(0xFFFFFFFF)


def fingerprint_files(services: Services, generation: int, day: date) -> PartitionFingerprint:
    """The fingerprint of the rows of date `day` in the generation's files.

    Raises ContractViolation when the generation has no files, or when a file cannot be read or is gone: a publish may
    have pruned the generation meanwhile.
    """
    manifest, files = services.manifests.read(generation), services.manifests.committed_files(generation)
    if manifest.data_folder is None or files is None:
        raise ContractViolation(f"Generation [{generation}] has no files: audit what is live now.")
    folder = manifest.data_folder.removeprefix(services.store.uri(""))
    names = [f"{folder}{file.path}" for file in files.files if file.date == day]
    fingerprint = fingerprint_batches(
        manifest.table, (batch for name in names for batch in _batches(services, name, manifest.table))
    )
    services.log(f"audit: {len(names)} file(s) of {day} hold {fingerprint.rows} rows", generation=generation)
    return fingerprint


def fingerprint_batches(table: TableContract, batches: Iterable[pa.RecordBatch]) -> PartitionFingerprint:
    """The fingerprint of the rows; `sql/checks/content_audit.sql` computes the same for the same rows in BigQuery."""
    rows, exclusive_or, total = 0, np.int64(0), 0
    for batch in batches:
        hashes = farm_fingerprints(row_texts(table, batch))
        rows += len(hashes)
        exclusive_or ^= np.bitwise_xor.reduce(hashes) if len(hashes) else np.int64(0)
        # The sum of whole hashes would exceed 64 bits, so their halves are summed.
        total += (int((hashes >> 32).sum()) << 32) + int((hashes & _LOW_HALF).sum())
    return PartitionFingerprint(rows, int(exclusive_or), total)


def _batches(services: Services, name: str, table: TableContract) -> Iterator[pa.RecordBatch]:
    from google.api_core.exceptions import NotFound

    uri, columns = services.store.uri(name), [column.name for column in table.columns]
    try:
        with services.store.open(name, chunk_bytes=_READ_CHUNK_BYTES) as stream:
            footer = read_parquet_footer(stream, stream.seek(0, io.SEEK_END))
            metadata = pq.read_metadata(pa.BufferReader(footer)) if footer else None
            file = pq.ParquetFile(stream, metadata=metadata, pre_buffer=True)
            for group in range(file.num_row_groups):  # separate calls: one call would first fetch all row groups
                rows = rows_per_batch(file.metadata.row_group(group))
                yield from file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)
    except (NotFound, FileNotFoundError) as error:
        raise ContractViolation(
            f"[{uri}] is gone. If a publish pruned its generation meanwhile, trigger the audit again; "
            f"else restore the object from its versions."
        ) from error
    except (OSError, ValueError) as error:  # pyarrow's own errors are subclasses of these two
        raise ContractViolation(
            f"[{uri}] cannot be read: {error}. If the next try fails too, restore the object from its versions."
        ) from error


def rows_per_batch(group: pq.RowGroupMetaData) -> int:
    """The number of rows to read at once from the row group, so that a batch exceeds neither limit."""
    bytes_per_row = group.total_byte_size / max(1, group.num_rows)
    return max(1, min(MAX_BATCH_ROWS, int(MAX_BATCH_BYTES / max(1.0, bytes_per_row))))
