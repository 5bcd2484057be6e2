"""Fakes Dataproc's JobController and BatchController as real gRPC services."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from datetime import timedelta
from typing import Any

import grpc
from google.cloud.dataproc_v1.types import batches as b
from google.cloud.dataproc_v1.types import jobs as j
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from tests.contract.dataproc.fake import rules
from tests.contract.dataproc.fake.faults import Faults, Refused
from tests.contract.dataproc.fake.service_state import Run, ServiceState

# The words of the services for the states of a run, as arguments of Run.state: of active runs, of runs that are being
# cancelled, and of runs by their outcome.
BATCH_STATES = (
    ("PENDING", "RUNNING"),
    ("CANCELLING",),
    {"succeeded": "SUCCEEDED", "failed": "FAILED", "cancelled": "CANCELLED"},
)
JOB_STATES = (
    ("PENDING", "SETUP_DONE", "RUNNING"),
    ("CANCEL_PENDING", "CANCEL_STARTED"),
    {"succeeded": "DONE", "failed": "ERROR", "cancelled": "CANCELLED"},
)
_OPERATIONS = f"projects/{rules.PROJECT}/locations/{rules.REGION}/operations"
Handler = Callable[[Any], Any]
UNKNOWN = 99  # a state of batches or jobs that the installed library does not know


DCU_HOURS = 5  # of each finished batch
LASTED = timedelta(minutes=1)  # each run


class FakeDataproc:
    """The server, on 127.0.0.1. `requests`: the method and the request of each call that was accepted."""

    def __init__(self) -> None:
        self.reset()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers(self._handlers())
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def reset(self, **state: Any) -> ServiceState:
        """Forget everything. `state`: fields of the new state, which is returned."""
        self.state, self.faults, self.requests = ServiceState(**state), Faults(), []
        return self.state

    def stop(self) -> None:
        self._server.stop(None)

    # -- batches

    def create_batch(self, request: b.CreateBatchRequest) -> operations_pb2.Operation:
        rules.check_place(request.parent)
        rules.check_name(rules.BATCH_ID, request.batch_id)
        rules.check_batch(request.batch)
        self.state.begin(request.batch_id, request.batch.pyspark_batch.args[1])
        return operations_pb2.Operation(name=f"{_OPERATIONS}/{request.batch_id}")

    def get_batch(self, request: b.GetBatchRequest) -> b.Batch:
        rules.check_place(request.name)
        run = self._poll(request.name.rsplit("/", 1)[1])
        return b.Batch(
            name=request.name,
            state=self._state(run, BATCH_STATES),
            state_message=run.message if run.outcome else "",
            operation=f"{_OPERATIONS}/{run.name}",
            create_time=None if self.state.is_newer else run.created_at,
            runtime_info={"approximate_usage": {"milli_dcu_seconds": DCU_HOURS * 3_600_000 if run.outcome else 0}},
        )

    def cancel_operation(self, request: operations_pb2.CancelOperationRequest) -> empty_pb2.Empty:
        rules.check_place(request.name)
        self.state.cancel(request.name.rsplit("/", 1)[1])
        return empty_pb2.Empty()

    # -- jobs

    def submit_job(self, request: j.SubmitJobRequest) -> j.Job:
        name, cluster = request.job.reference.job_id, request.job.placement.cluster_name
        rules.check_place(request.project_id, request.region, request.job.reference.project_id)
        rules.check_name(rules.JOB_ID, name)
        rules.check_labels(request.job.labels)
        found = self.state.cluster(cluster)
        if not found.accepts_jobs:
            raise Refused("FAILED_PRECONDITION", f"Cluster {cluster} is {found.state}")
        return self._job(self.state.begin(name, request.job.pyspark_job.args[1]))

    def get_job(self, request: j.GetJobRequest) -> j.Job:
        rules.check_place(request.project_id, request.region)
        return self._job(self._poll(request.job_id))

    def cancel_job(self, request: j.CancelJobRequest) -> j.Job:
        rules.check_place(request.project_id, request.region)
        if self.state.run(request.job_id).outcome is not None:
            raise Refused("FAILED_PRECONDITION", f"Job {request.job_id} is in a terminal state")
        return self._job(self.state.cancel(request.job_id))

    # -- used by several services

    def _poll(self, name: str) -> Run:
        run = self.state.run(name)
        run.poll()
        return run

    def _state(self, run: Run, states: tuple[Any, Any, Any]) -> str | int:
        return UNKNOWN if self.state.is_newer and run.outcome is None else run.state(*states)

    def _job(self, run: Run) -> j.Job:
        status: dict[str, Any] = {
            "state": self._state(run, JOB_STATES),
            "details": run.message if run.outcome else "",
            "state_start_time": run.created_at + LASTED if run.outcome else run.created_at,
        }
        history: list[dict[str, Any]] = [{"state": "PENDING", "state_start_time": run.created_at}]
        if self.state.is_newer:
            for each in (status, *history):
                del each["state_start_time"]
        return j.Job(reference={"job_id": run.name}, status=status, status_history=history)

    def _handlers(self) -> list[grpc.GenericRpcHandler]:
        package = "google.cloud.dataproc.v1"
        operation = operations_pb2.Operation.SerializeToString
        empty = empty_pb2.Empty.SerializeToString
        cancel = operations_pb2.CancelOperationRequest.FromString
        services = {
            f"{package}.BatchController": {
                "CreateBatch": (self.create_batch, b.CreateBatchRequest.deserialize, operation),
                "GetBatch": (self.get_batch, b.GetBatchRequest.deserialize, b.Batch.serialize),
            },
            f"{package}.JobController": {
                "SubmitJob": (self.submit_job, j.SubmitJobRequest.deserialize, j.Job.serialize),
                "GetJob": (self.get_job, j.GetJobRequest.deserialize, j.Job.serialize),
                "CancelJob": (self.cancel_job, j.CancelJobRequest.deserialize, j.Job.serialize),
            },
            "google.longrunning.Operations": {"CancelOperation": (self.cancel_operation, cancel, empty)},
        }
        return [
            grpc.method_handlers_generic_handler(
                service,
                {
                    method: grpc.unary_unary_rpc_method_handler(
                        self._serving(method, handler), request_deserializer=read, response_serializer=write
                    )
                    for method, (handler, read, write) in methods.items()
                },
            )
            for service, methods in services.items()
        ]

    def _answer(self, request: Any, handler: Handler) -> Any:
        assert not getattr(request, "request_id", ""), "a retry with the id of a failed batch would get that batch"
        return handler(request)

    def _serving(self, method: str, handler: Handler) -> Callable[[Any, grpc.ServicerContext], Any]:
        def serve(request: Any, context: grpc.ServicerContext) -> Any:
            try:
                answer = self.faults.serve(method, lambda: self._answer(request, handler))
            except Refused as refused:
                context.abort(grpc.StatusCode[refused.code], str(refused))
            self.requests.append((method, request))
            return answer

        return serve
