"""Third step of an audit: what do the generation's files hold? Read row group by row group, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.audit.farm_fingerprint import farm_fingerprints
from dedup_clone.audit.row_text import row_texts
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.table import TableContract
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import PartitionFingerprint

# Texts and hashes of so many rows stay in a processor's cache; larger batches were slower.
BATCH_ROWS = 16 * 1024
BATCH_BYTES = 16 * 1024 * 1024
READ_CHUNK_BYTES = 8 * 1024 * 1024
_LOW_HALF = np.int64(0xFFFFFFFF)


def fingerprint_files(services: Services, generation: int, day: date) -> PartitionFingerprint:
    """The fingerprint of the generation's files of that date.

    Raises ContractViolation when a file is gone (another publish may have pruned the generation meanwhile) or cannot be
    read.
    """
    manifest, files = services.manifests.read(generation), services.manifests.files(generation)
    if manifest.data_folder is None or files is None:
        raise ContractViolation(f"Generation [{generation}] has no files: audit what is live now.")
    folder = manifest.data_folder.removeprefix(services.store.uri(""))
    names = [f"{folder}{file.path}" for file in files.files if file.date == day]
    found = fingerprint_batches(
        manifest.table, (batch for name in names for batch in _batches(services, name, manifest.table))
    )
    services.fact(f"audit: {len(names)} file(s) of {day} hold {found.rows} rows", generation=generation)
    return found


def fingerprint_batches(table: TableContract, batches: Iterable[pa.RecordBatch]) -> PartitionFingerprint:
    """As `sql/checks/content_audit.sql` has it of the same rows."""
    rows, exclusive_or, total = 0, np.int64(0), 0
    for batch in batches:
        hashes = farm_fingerprints(row_texts(table, batch))
        rows += len(hashes)
        exclusive_or ^= np.bitwise_xor.reduce(hashes) if len(hashes) else np.int64(0)
        # Summed in halves, for whole hashes leave 64 bits behind.
        total += (int((hashes >> 32).sum()) << 32) + int((hashes & _LOW_HALF).sum())
    return PartitionFingerprint(rows, int(exclusive_or), total)


def _batches(services: Services, name: str, table: TableContract) -> Iterator[pa.RecordBatch]:
    from google.api_core.exceptions import NotFound

    uri, columns = services.store.uri(name), [column.name for column in table.columns]
    try:
        with (
            services.store.open(name, chunk_bytes=READ_CHUNK_BYTES) as stream,
            pq.ParquetFile(stream, pre_buffer=True) as file,
        ):
            for number in range(file.num_row_groups):  # each by itself: else all are fetched before the first row
                rows = batch_rows(file.metadata.row_group(number))
                yield from file.iter_batches(rows, row_groups=[number], columns=columns, use_threads=False)
    except (NotFound, FileNotFoundError) as error:
        raise ContractViolation(
            f"[{uri}] is gone. If a publish came in between and its generation was pruned, trigger the audit again; "
            f"else restore the object from its versions."
        ) from error
    except (OSError, ValueError) as error:  # pyarrow's own errors are subclasses of these two
        raise ContractViolation(
            f"[{uri}] cannot be read: {error}. If the next try says so too, restore the object from its versions."
        ) from error


def batch_rows(group: pq.RowGroupMetaData) -> int:
    """Rows whose values together are as large as a batch may be."""
    bytes_a_row = group.total_byte_size / max(1, group.num_rows)
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(1.0, bytes_a_row))))
