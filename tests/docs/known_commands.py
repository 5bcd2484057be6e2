"""Commands of Google's tools and of Terraform that the documents may use, with their flags.

The Google Cloud CLI is in none of the registries that the lock is made from, so it may be missing. Where it is
installed, `test_the_lists_are_those_of_the_installed_tools` compares the lists with it.
"""

from __future__ import annotations

_PROJECT = ("--project",)
_BINDING = ("--member", "--role", "--condition")

GCLOUD: dict[str, tuple[str, ...]] = {
    "auth login": (),
    "auth application-default login": (),
    "auth application-default set-quota-project": (),
    "auth print-access-token": (),
    "composer environments run": ("--location",),
    "composer environments update": ("--location", "--image-version", "--update-airflow-configs"),
    "data-catalog taxonomies policy-tags add-iam-policy-binding": ("--taxonomy", "--location", "--member", "--role"),
    "iam roles create": ("--permissions", *_PROJECT),
    "organizations add-iam-policy-binding": _BINDING,
    "secrets add-iam-policy-binding": _BINDING,
    "secrets create": ("--data-file",),
    "services enable": _PROJECT,
    "storage cat": (),
    "storage cp": ("-r", "--recursive"),
    "storage du": ("--summarize",),
    "storage ls": ("--all-versions", "--recursive"),
    "storage rm": ("-r", "--recursive"),
}
BQ_GLOBAL = ("--api", "--location", "--project_id", "--format")
_RESERVATION = ("--reservation", "--reservation_assignment", "--reservation_id")
BQ: dict[str, tuple[str, ...]] = {
    "cancel": (),
    "cp": (),
    "ls": ("-j", "-a", "-n"),
    "mk": (
        *_RESERVATION,
        *("--edition", "--slots", "--autoscale_max_slots", "--job_type", "--assignee_type", "--assignee_id"),
    ),
    "query": ("--use_legacy_sql",),
    "rm": ("--reservation", "--reservation_assignment"),
    "show": ("-j",),
    "update": ("--default_table_expiration", "--set_label"),
}
GSUTIL: dict[str, tuple[str, ...]] = {"cp": ("-r",), "rm": ("-r",)}
TERRAFORM: dict[str, tuple[str, ...]] = {
    "apply": ("-var",),
    "import": ("-var-file",),
    "init": (),
    "output": ("-raw",),
    "plan": ("-var-file",),
    "state rm": (),
    "workspace new": (),
}
TOOLS = {"gcloud": GCLOUD, "bq": BQ, "gsutil": GSUTIL, "terraform": TERRAFORM}
GLOBAL = {"bq": BQ_GLOBAL, "gsutil": ("-m", "-q")}


def check_tool(words: list[str]) -> None:
    """The tool has the command and its flags. Raises AssertionError."""
    tool, rest = words[0], words[1:]
    leading = 0
    while leading < len(rest) and rest[leading].partition("=")[0] in GLOBAL.get(tool, ()):
        leading += 1
    given = f"{' '.join(rest[leading:])} "
    command = max((known for known in TOOLS[tool] if given.startswith(f"{known} ")), key=len, default=None)
    only_group = any(known.startswith(f"{' '.join(rest)} ") for known in TOOLS[tool])
    assert command is not None or only_group or leading == len(rest), f"{tool} does not know this command"
    allowed = {*TOOLS[tool].get(command or "", ()), *GLOBAL.get(tool, ())}
    after = rest[leading + len((command or "").split()) :]
    if tool == "gcloud" and "--" in after:  # what follows is an argument of the command that gcloud runs elsewhere
        after = after[: after.index("--")]
    flags = {word.partition("=")[0] for word in after if word.startswith("-") and word != "-"}
    # bq takes `--no` before a flag that is true or false.
    unknown = {flag for flag in flags - allowed if flag.replace("--no", "--", 1) not in allowed}
    assert not unknown, f"{tool} {command} does not know {sorted(unknown)}"
