"""Handles requests below /_standin/, which BigQuery does not have: health, the clock, faults and grants."""

from __future__ import annotations

from typing import Any

from bigquery_standin.bigquery_errors import Invalid
from bigquery_standin.clock import MICROSECONDS, to_datetime
from bigquery_standin.faults import parse_fault
from bigquery_standin.rest.request_response import ApiRequest, ApiResponse, Handler
from bigquery_standin.stand_in import StandIn


def health(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    return ApiResponse({"status": "ok", "write_api": stand_in.write_api_address})


def get_clock(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    now_us = stand_in.clock.now_us()
    return ApiResponse(
        {
            "now": to_datetime(now_us).isoformat(),
            "offset_seconds": stand_in.clock.offset_us / MICROSECONDS,
        }
    )


def move_clock(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    """Move the clock forward.

    Before the response is sent, jobs that apply streamed changes run if they are due, and everything that has expired
    by the new time is deleted.
    """
    body = request.body if isinstance(request.body, dict) else {}
    if set(body) != {"advance_seconds"} or not isinstance(body["advance_seconds"], int | float):
        raise Invalid(f"Clock request is [{body}], expected a number of [advance_seconds].")
    stand_in.clock.advance(int(body["advance_seconds"] * MICROSECONDS))
    stand_in.garbage_collector.sweep()
    return get_clock(stand_in, request)


def list_faults(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    return ApiResponse({"faults": [fault.to_json() for fault in stand_in.faults.list()]})


def add_fault(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    body: Any = request.body
    if not isinstance(body, dict):
        raise Invalid(f"Fault is [{body}], expected a JSON object.")
    return ApiResponse(stand_in.faults.add(parse_fault(body)).to_json())


def clear_faults(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    stand_in.faults.clear()
    return ApiResponse(None, 204)


def list_grants(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    return ApiResponse({"grants": stand_in.grants.list()})


def add_grant(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    body: Any = request.body
    if not isinstance(body, dict) or set(body) != {"member", "permission"}:
        raise Invalid(f"Grant is [{body}], expected [member] and [permission].")
    stand_in.grants.add(body["member"], body["permission"])
    return list_grants(stand_in, request)


def clear_grants(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    stand_in.grants.clear()
    return ApiResponse(None, 204)


ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "health", health),
    ("GET", "clock", get_clock),
    ("POST", "clock", move_clock),
    ("GET", "faults", list_faults),
    ("POST", "faults", add_fault),
    ("DELETE", "faults", clear_faults),
    ("GET", "grants", list_grants),
    ("POST", "grants", add_grant),
    ("DELETE", "grants", clear_grants),
)
