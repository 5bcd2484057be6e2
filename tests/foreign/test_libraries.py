"""pandas-gbq, ibis and dlt: what they write and read, and what the stand-in refuses in words.

ibis reads results by the Storage Read API, which is gRPC and has no stand-in: its SQL is run by Google's client.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from google.cloud import bigquery

from testkit.foreign_programs import BIN, PROJECT, Servers, run_steps

pytestmark = pytest.mark.exhaustive

STEPS = """
import json, sys
from google.cloud import bigquery
from google.oauth2.credentials import Credentials
PROJECT = sys.argv[1]
credentials = Credentials("foreign@example.com")
client = bigquery.Client(PROJECT, credentials=credentials)
steps = {}
def step(name, run):
    try:
        result = run()
        steps[name] = "done" if result is None else str(result)
    except Exception as error:
        steps[name] = f"{type(error).__name__}: {error}"
"""
PANDAS_GBQ = (
    STEPS
    + """
import pandas, pandas_gbq
client.create_dataset("by_pandas")
rows = pandas.DataFrame({"id": [1, 2], "day": pandas.to_datetime(["2026-01-30", "2026-01-31"]).date})
def write(method, if_exists):
    pandas_gbq.to_gbq(rows, "by_pandas." + method, project_id=PROJECT, credentials=credentials, api_method=method,
                      if_exists=if_exists, progress_bar=False)
def read(query):
    found = pandas_gbq.read_gbq(query, project_id=PROJECT, credentials=credentials, progress_bar_type=None)
    return found.astype(str).values.tolist()
step("replace", lambda: write("load_parquet", "replace"))
step("append", lambda: write("load_parquet", "append"))
step("query", lambda: read("SELECT id, COUNT(*) AS n FROM by_pandas.load_parquet GROUP BY id ORDER BY id"))
step("table", lambda: len(read("by_pandas.load_parquet")))
step("csv", lambda: write("load_csv", "replace"))
print("steps", json.dumps(steps))
"""
)
IBIS = (
    STEPS
    + """
import ibis
def quiet(result):
    return None
client.create_dataset("by_ibis")
connection = ibis.bigquery.connect(project_id=PROJECT, dataset_id="by_ibis", credentials=credentials, client=client)
def query(expression):
    return [tuple(row) for row in client.query_and_wait(connection.compile(expression))]
step("create", lambda: quiet(connection.create_table("t", schema=ibis.schema({"id": "int64", "note": "string"}))))
step("insert", lambda: quiet(connection.raw_sql("INSERT INTO by_ibis.t VALUES (1, 'x'), (2, 'y'), (3, 'y')")))
step("tables", lambda: connection.list_tables())
t = connection.table("t")
step("aggregate", lambda: query(t.group_by("note").aggregate(n=t.count(), last=t.id.max()).order_by("note")))
newest = ibis.row_number().over(group_by=t.note, order_by=ibis.desc(t.id))
step("window", lambda: query(t.mutate(n=newest).filter(lambda u: u.n == 0).order_by("id").select("id")))
step("create as", lambda: quiet(connection.create_table("copy", obj=t.filter(t.id > 1), overwrite=True)))
step("drop", lambda: connection.drop_table("t"))
step("view", lambda: connection.create_view("v", connection.table("copy")))
step("read", lambda: connection.table("copy").execute())
print("steps", json.dumps(steps))
"""
)
DLT = (
    STEPS
    + """
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
import dlt
from dlt.destinations import bigquery as destination
class Tokens(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"access_token": "foreign@example.com", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = HTTPServer(("127.0.0.1", 0), Tokens)
threading.Thread(target=server.serve_forever, daemon=True).start()
key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
account = {"type": "service_account", "project_id": PROJECT, "private_key": key, "client_email": "foreign@example.com",
           "token_uri": f"http://127.0.0.1:{server.server_port}/token"}
target = destination(credentials=account, location="US", retry_deadline=5.0)
def load(disposition, rows):
    resource = dlt.resource(rows, name=disposition, primary_key="id", write_disposition=disposition)
    dlt.pipeline("by_" + disposition, destination=target, dataset_name="by_dlt", pipelines_dir=".").run(resource)
for disposition in ("append", "merge", "replace"):
    step(disposition, lambda: load(disposition, [{"id": 1, "note": "first"}, {"id": 2, "note": "first"}]))
    step(disposition + " again", lambda: load(disposition, [{"id": 2, "note": "again"}, {"id": 3, "note": "again"}]))
print("steps", json.dumps(steps))
"""
)


def steps_of(servers: Servers, folder: Path, script: str) -> dict[str, str]:
    return run_steps(servers, folder, BIN / "python", script, PROJECT)


def refused(message: str, construct: str) -> bool:
    return f"The stand-in does not carry out [{construct}" in message


def test_pandas_gbq_loads_parquet_and_csv_and_reads(servers: Servers, tmp_path: Path) -> None:
    found = steps_of(servers, tmp_path, PANDAS_GBQ)
    expected = {"replace": "done", "append": "done", "query": "[['1', '2'], ['2', '2']]", "table": "4", "csv": "done"}
    assert found == expected


def test_ibis_creates_queries_and_drops(servers: Servers, client: bigquery.Client, tmp_path: Path) -> None:
    found = steps_of(servers, tmp_path, IBIS)
    assert refused(found.pop("view"), "CREATE VIEW")
    assert "bigquerystorage.googleapis.com" in found.pop("read")
    assert found == {
        "create": "done",
        "insert": "done",
        "tables": "['t']",
        "aggregate": "[('x', 1, 1), ('y', 2, 3)]",
        "window": "[(1,), (3,)]",
        "create as": "done",
        "drop": "done",
    }
    assert [table.table_id for table in client.list_tables("by_ibis")] == ["copy"]


def test_dlt_appends_merges_and_replaces(servers: Servers, client: bigquery.Client, tmp_path: Path) -> None:
    """Its own tables have STRING(n) columns, and its files are JSON compressed by gzip."""
    found = steps_of(servers, tmp_path, DLT)
    assert set(found.values()) == {"done"}, found
    first, again = [(1, "first"), (2, "first")], [(2, "again"), (3, "again")]
    expected = {"append": sorted(first + again), "merge": [first[0], *again], "replace": again}
    for table, rows in expected.items():
        read = client.query_and_wait(f"SELECT id, note FROM by_dlt.`{table}` ORDER BY id, note")
        assert sorted(tuple(row) for row in read) == rows, table
