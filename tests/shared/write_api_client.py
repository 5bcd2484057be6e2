"""Calls the stand-in's Storage Write API for its contract tests, and makes the protocol buffer messages of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import grpc
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient, types
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from testkit.server_clients import PROJECT, control_of

_TYPES = {
    name.removeprefix("TYPE_").lower(): number for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}
EPOCH = date(1970, 1, 1)


def days_since_epoch(day: date) -> int:
    return (day - EPOCH).days


def write_client(channel: grpc.Channel) -> BigQueryWriteClient:
    """Google's client of the stand-in at the other end of the channel."""
    return BigQueryWriteClient(transport=BigQueryWriteGrpcTransport(channel=channel))


def message_class(fields: Mapping[str, str]) -> type[Message]:
    """The class of a proto2 message. `fields`: the protocol buffer type of each field, by the field's name."""
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", syntax="proto2")
    message = file.message_type.add(name="Row")
    for number, (name, kind) in enumerate(fields.items(), start=1):
        message.field.add(name=name, number=number, label="LABEL_OPTIONAL", type=_TYPES[kind])
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Row"))


def default_stream(table: str) -> str:
    """The default stream of a table. `table`: with its dataset, and its project if that is another than PROJECT."""
    *project, dataset, name = table.split(".")
    return f"projects/{''.join(project) or PROJECT}/datasets/{dataset}/tables/{name}/streams/_default"


def append_request(stream: str, kind: type[Message] | None, rows: Sequence[Message]) -> types.AppendRowsRequest:
    """A request that appends rows to a stream.

    `kind`: the class of the rows, whose schema the first request of a connection must have; None for later requests.
    """
    data = types.AppendRowsRequest.ProtoData(
        rows=types.ProtoRows(serialized_rows=[row.SerializePartialToString() for row in rows])
    )
    if kind is not None:
        descriptor = descriptor_pb2.DescriptorProto()
        kind.DESCRIPTOR.CopyToProto(descriptor)
        data.writer_schema = types.ProtoSchema(proto_descriptor=descriptor)
    return types.AppendRowsRequest(write_stream=stream, proto_rows=data)


def append(client: BigQueryWriteClient, *requests: types.AppendRowsRequest) -> list[types.AppendRowsResponse]:
    """Send these requests over one connection. Returns the responses."""
    return list(client.append_rows(iter(requests)))


def stream_rows(client: bigquery.Client, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows of whole numbers and texts to a table's default stream, and so to its streaming buffer."""
    kind = message_class({name: "int64" if isinstance(value, int) else "string" for name, value in rows[0].items()})
    with grpc.insecure_channel(control_of(client).write_api()) as channel:
        request = append_request(default_stream(table), kind, [kind(**row) for row in rows])
        (response,) = append(write_client(channel), request)
    assert not response.error.message
