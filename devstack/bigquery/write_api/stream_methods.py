"""The methods of the Storage Write API that make, read and end write streams."""

from __future__ import annotations

from google.cloud.bigquery_storage_v1.types import GetWriteStreamRequest, WriteStream, WriteStreamView

from devstack.bigquery.bigquery_errors import NotImplementedConstruct
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.write_api.stream_names import parse_stream
from devstack.bigquery.write_api.table_schema import table_schema


class StreamMethods:
    """Threads may share it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def get(self, request: GetWriteStreamRequest) -> WriteStream:
        name = parse_stream(request.name)
        if not name.is_default:
            raise NotImplementedConstruct("write streams other than the default stream")
        settings = self._catalog.get(name.table).settings
        schema = table_schema(settings.schema) if request.view == WriteStreamView.FULL else None
        return WriteStream(name=str(name), type_=WriteStream.Type.COMMITTED, table_schema=schema)
