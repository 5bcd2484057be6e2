// Requests to the page's own application and to Airflow's REST API, both with the user's login cookie.

/** The JSON at a URL of the page's application or of Airflow. Throws an Error with a sentence for the user; its `status` is the
 * HTTP status of the answer, if there was one. */
export async function read(path) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", headers: { Accept: "application/json" } });
  } catch {
    throw new Error("Airflow cannot be reached. The page retries automatically.");
  }
  if (response.ok) return response.json();
  throw Object.assign(new Error(await errorText(response)), { status: response.status });
}

/** The JSON at a URL, as `read`; null after a failure that may pass. */
async function readUnlessDown(path) {
  try {
    return await read(path);
  } catch (error) {
    if (error.status < 500) throw error;
    return null;
  }
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

const ENDED = ["success", "failed", "skipped", "upstream_failed", "removed"];

/** Open approvals of runs for the feed, oldest first; empty if the user may not see them, null if Airflow fails. The title of each
 * begins with the feed's name, because some DAGs serve all feeds. `isOfFeed(dagId)`: whether the DAG may have runs for the feed. */
export async function openApprovals(feed, isOfFeed) {
  const query = `response_received=false&limit=100&subject_search=${encodeURIComponent(`${feed}: `)}`;
  try {
    const { hitl_details: asked } = await read(`../api/v2/dags/~/dagRuns/~/hitlDetails?${query}`);
    return asked.filter(({ subject, task_instance: task }) => subject.startsWith(`${feed}: `) && isOfFeed(task.dag_id) && !ENDED.includes(task.state))
      .sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
  } catch (error) {
    return error.status >= 400 && error.status < 500 ? [] : null;
  }
}

const AT_WORK = ["running", "deferred", "awaiting_input", "queued", "scheduled", "up_for_retry", "up_for_reschedule", "restarting"];

/** The task that the run is at, with its state; false if no task is at work, null if the user may not see it or Airflow fails. */
export async function taskAtWork(dagId, runId) {
  try {
    const { task_instances: tasks } = await read(`${runPath(dagId, runId)}/taskInstances?limit=100&${AT_WORK.map((state) => `state=${state}`).join("&")}`);
    return tasks.sort((a, b) => AT_WORK.indexOf(a.state) - AT_WORK.indexOf(b.state))[0] ?? false;
  } catch {
    return null;
  }
}

const POLL_INTERVAL_MS = 1500;
const LONGEST_POLL_INTERVAL_MS = 15000;
const MAXIMUM_POLLS = 200;
const pause = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });
const runPath = (dagId, runId) => `../api/v2/dags/${encodeURIComponent(dagId)}/dagRuns/${encodeURIComponent(runId)}`;

/** A task's return value, which Airflow may send as a JSON text; an attempt's id is a text itself. */
function unquoted(value) {
  try {
    return typeof value === "string" ? JSON.parse(value) : value;
  } catch {
    return value;
  }
}

/**
 * Waits for a run's first task, also while Airflow cannot be reached. Returns `{ result }`, the task's return value, or
 * `{ skipped }`, why it did nothing. Calls `waits` while the task waits for another run. Throws an Error: with the task's own
 * message if it failed, or with a sentence for the user if Airflow refuses to tell or the task takes too long.
 */
export async function firstTaskResult(dagId, runId, taskId, waits) {
  const task = `${runPath(dagId, runId)}/taskInstances/${encodeURIComponent(taskId)}`;
  for (let polls = 0; polls < MAXIMUM_POLLS; polls += 1) {
    const { state, try_number: tries } = await readUnlessDown(task) ?? {};
    if (state === "failed" || state === "upstream_failed") throw new Error(await failureText(task, taskId, tries));
    if (state === "skipped") return { skipped: await skipReason(task, taskId, tries) };
    if (state === "success") {
      const entry = await readUnlessDown(`${task}/xcomEntries/return_value`);
      if (entry) return { result: unquoted(entry.value) };
    }
    if (state === "deferred") {
      waits();
      polls = 0; // the run for which this one waits may take long
    }
    await pause(POLL_INTERVAL_MS);
  }
  throw new Error(`Task ${taskId} of run ${runId} has not ended yet: see its result in Airflow.`);
}

/**
 * Waits until a run has ended, also while Airflow cannot be reached. Returns whether it committed a generation. If not, and a
 * task failed, it throws an Error with that task's own message.
 */
export async function hasPublished(dagId, runId) {
  const run = runPath(dagId, runId);
  let interval = POLL_INTERVAL_MS;
  while (!["success", "failed"].includes((await readUnlessDown(run))?.state)) {
    await pause(interval);
    interval = Math.min(interval * 1.5, LONGEST_POLL_INTERVAL_MS);
  }
  const { task_instances: tasks } = await read(`${run}/taskInstances?limit=100`);
  if (tasks.some(({ task_id: id, state }) => id === "commit_generation" && state === "success")) return true;
  const failed = tasks.filter(({ state }) => state === "failed").sort((a, b) => (a.end_date < b.end_date ? -1 : 1))[0];
  if (!failed) return false;
  const { task_id: id, try_number: tries } = failed;
  throw new Error(`The run failed: ${firstError(await logEvents(`${run}/taskInstances/${id}`, tries))?.exc_value ?? `the log of ${id} says why.`}`);
}

/** The events of the log of a task's try; none if the log cannot be read. */
async function logEvents(task, tries) {
  try {
    return (await read(`${task}/logs/${tries}?full_content=true`)).content;
  } catch {
    return [];
  }
}

/** The first error in a log, as `{ exc_type, exc_value }`; undefined if it has none. */
function firstError(events) {
  return events.flatMap((event) => event.error_detail ?? []).find((error) => error.exc_value);
}

/** What a failed first task says. An error that no retry can mend is a refusal: Airflow logs what the retry policy decided. */
async function failureText(task, taskId, tries) {
  const events = await logEvents(task, tries);
  const error = firstError(events);
  if (!error) return `The run failed: the log of ${taskId} says why.`;
  const isRefusal = events.some(({ event, action }) => event === "Retry policy decision" && action === "fail");
  return `${isRefusal ? "Refused, and nothing was changed" : "The run failed"}: ${error.exc_value}`;
}

/** Why a task skipped itself and all after it. Airflow logs the reason with this event. */
async function skipReason(task, taskId, tries) {
  const skips = (await logEvents(task, tries)).filter((event) => event.event === "Skipping task." && event.reason);
  return skips.length ? skips[skips.length - 1].reason : `the log of ${taskId} says why.`;
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
