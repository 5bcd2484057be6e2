"""`python -m deploy.doctor`: what stands in the way of a publish in the live environment, and how to mend it."""

from __future__ import annotations

import sys

from deploy.command import run_command_line
from deploy.doctor.examine import examine
from deploy.doctor.finding import Level, Patient, as_text
from deploy.doctor.google import Google
from deploy.grants import read_grants
from deploy.settings import read_environment, read_profile

SCOPES = ["https://www.googleapis.com/auth/cloud-platform.read-only"]


def main() -> int:
    """Ends with 2 when something fails."""
    return run_command_line("doctor", _examine)


def _examine() -> int:
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    environment, profile, grants = read_environment(), read_profile(), read_grants()
    credentials, _ = google.auth.default(scopes=SCOPES, quota_project_id=profile.project)
    session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    findings = examine(Patient(Google(session), environment, profile, grants))
    print(as_text(findings))
    return 2 if any(finding.level is Level.FAIL for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
