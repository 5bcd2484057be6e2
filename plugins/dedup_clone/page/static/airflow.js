// Requests to the page's own application and, with the user's login (a cookie), to Airflow's REST API.

/** JSON of one of the page's own URLs. Throws an Error with a sentence for the user. */
export async function read(path) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", headers: { Accept: "application/json" } });
  } catch {
    throw new Error("Airflow cannot be reached. The page retries automatically.");
  }
  if (response.ok) return response.json();
  throw new Error(await errorText(response));
}

/** Starts a run of a DAG with parameters; returns its run id. Throws an Error with a sentence for the user. */
export async function startRun(dagId, conf) {
  let response;
  try {
    response = await fetch(`../api/v2/dags/${encodeURIComponent(dagId)}/dagRuns`, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify({ logical_date: null, conf }),
    });
  } catch {
    throw new Error("Airflow cannot be reached: it is unknown whether the run was started. See its list of runs.");
  }
  if (response.ok) return (await response.json()).dag_run_id;
  if (response.status === 403) throw new Error(`Your role may look at ${dagId} but not start it. Nothing was started.`);
  if (response.status === 404) throw new Error(`Airflow has no DAG ${dagId}. Nothing was started.`);
  throw new Error(await errorText(response));
}

const POLL_INTERVAL_MS = 1500;
const MAXIMUM_POLLS = 200;

/** What a task of a run returned, once the run has ended. Throws an Error with a sentence for the user. */
export async function taskResult(dagId, runId, taskId) {
  const run = `../api/v2/dags/${encodeURIComponent(dagId)}/dagRuns/${encodeURIComponent(runId)}`;
  for (let polls = 0; polls < MAXIMUM_POLLS; polls += 1) {
    const { state } = await read(run);
    if (state === "failed") throw new Error(`Run ${runId} failed: the log of ${taskId} says why.`);
    if (state === "success") {
      const { value } = await read(`${run}/taskInstances/${encodeURIComponent(taskId)}/xcomEntries/return_value`);
      return typeof value === "string" ? JSON.parse(value) : value;
    }
    await new Promise((done) => { setTimeout(done, POLL_INTERVAL_MS); });
  }
  throw new Error(`Run ${runId} has not ended yet: see its result in Airflow.`);
}

/** Shows another page of Airflow. The frame may not navigate its parent, so Airflow's own router is notified. */
export function openInAirflow(path) {
  const target = new URL(`../${path}`, document.baseURI).pathname;
  if (window.parent === window) {
    window.location.assign(target);
    return;
  }
  window.parent.history.pushState({}, "", target);
  window.parent.dispatchEvent(new window.parent.PopStateEvent("popstate", { state: {} }));
}

async function errorText(response) {
  if (response.status === 401) return "You are no longer logged in: load Airflow again.";
  let detail;
  try {
    detail = (await response.json()).detail;
  } catch {
    detail = null;
  }
  if (typeof detail === "string") return detail;
  if (Array.isArray(detail)) return detail.map((item) => item.msg ?? JSON.stringify(item)).join("; ");
  return `Airflow answered ${response.status}.`;
}
