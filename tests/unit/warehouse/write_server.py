"""Runs a server of the Storage Write API's method AppendRows, which answers as a test says and stores all requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.cloud.bigquery_storage_v1 import types
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

SERVICE = "google.cloud.bigquery.storage.v1.BigQueryWrite"
Answer = types.AppendRowsResponse | grpc.StatusCode
ACCEPTED = types.AppendRowsResponse(append_result=types.AppendRowsResponse.AppendResult())


@dataclass
class WriteServer:
    """The running server. `answer`: a function from the number of a request to its answer, or to an error status.

    Requests are numbered from 0. An error status ends the connection. `requests`: all requests so far. `connections`:
    the number of the first request of each connection.
    """

    address: str
    answer: Callable[[int], Answer] = lambda number: ACCEPTED
    requests: list[types.AppendRowsRequest] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)

    def serve(self, requests: Iterator[types.AppendRowsRequest], context: Any) -> Iterator[types.AppendRowsResponse]:
        self.connections.append(len(self.requests))
        for request in requests:
            number = len(self.requests)
            self.requests.append(request)
            answer = self.answer(number)
            if isinstance(answer, grpc.StatusCode):
                context.abort(answer, "the server went away")
            yield answer

    def rows(self) -> list[Any]:
        """The rows of all requests, decoded with the schema that their connection began with."""
        found = []
        for number, request in enumerate(self.requests):
            if number in self.connections:
                file = FileDescriptorProto(name="sent.proto", syntax="proto2")
                file.message_type.add().CopyFrom(request.proto_rows.writer_schema.proto_descriptor)
                pool = DescriptorPool()
                pool.Add(file)
                message = GetMessageClass(pool.FindMessageTypeByName(file.message_type[0].name))
            found += [message.FromString(row) for row in request.proto_rows.rows.serialized_rows]
        return found


@contextmanager
def write_server() -> Iterator[WriteServer]:
    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", 32 << 20)])
    started = WriteServer(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    handler = grpc.stream_stream_rpc_method_handler(
        lambda requests, context: started.serve(requests, context),
        types.AppendRowsRequest.deserialize,
        types.AppendRowsResponse.serialize,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"AppendRows": handler}),))
    server.start()
    try:
        yield started
    finally:
        server.stop(None)
