"""`python -m deploy.doctor`: finds what is wrong in the live project, and prints how to fix it."""

from __future__ import annotations

import sys

from dedup_clone.settings.feed import read_feed
from deploy.command_errors import run_command_line
from deploy.doctor.all_checks import run_checks
from deploy.doctor.finding import Level, LiveEnvironment, findings_as_text
from deploy.doctor.google_api import GoogleApi
from deploy.environment_settings import REPOSITORY, read_environment, read_profile
from deploy.grants import read_grants

FEEDS = REPOSITORY / "dags" / "feeds"
SCOPES = ["https://www.googleapis.com/auth/cloud-platform.read-only"]


def main() -> int:
    """Run all checks. Returns the exit status: 0, or 2 if a check has failed, or 1 if the doctor could not run."""
    return run_command_line("doctor", _run_doctor)


def _run_doctor() -> int:
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    environment, profile, grants = read_environment(), read_profile(), read_grants()
    feeds = [read_feed(path) for path in sorted(FEEDS.glob("*.yaml"))]
    credentials, _ = google.auth.default(scopes=SCOPES, quota_project_id=profile.project)
    session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    findings = run_checks(LiveEnvironment(GoogleApi(session), environment, profile, feeds, grants))
    print(findings_as_text(findings))
    return 2 if any(finding.level is Level.FAIL for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
