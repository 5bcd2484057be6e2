"""`python -m testkit.pictures`: takes the pictures of the documentation, while the stack of `make demo` runs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from devstack.connection import connect
from devstack.http_calls import call
from testkit.browser import open_browser

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
FEED = "product_attributes"
# The name of each picture: its address, what the browser shows when the page is complete, and its height in pixels.
PICTURES = {
    "page": (f"dedup-clone/#{FEED}", "document.body.innerText.includes('Publishes')", 960),
    "run": (f"dags/{FEED}_publish", "document.body.innerText.includes('Last 3 Dag Runs')", 600),
}


def main(folder: Path) -> int:
    """Writes NAME.png for each picture. Returns the exit status."""
    stack = connect()
    login = {"username": stack.airflow_user, "password": stack.airflow_password}
    token = call("POST", f"{stack.airflow_url}/auth/token", body=login).json()["access_token"]
    with tempfile.TemporaryDirectory() as profile, open_browser(Path(profile)) as browser:
        for name, (path, is_complete, height) in PICTURES.items():
            page = browser.new_page(height=height)
            page.send("Network.enable")
            page.send("Network.setCookie", name="_token", value=token, url=stack.airflow_url)
            page.go(f"{stack.airflow_url}/{path}")
            page.wait_until(is_complete)
            page.picture(folder / f"{name}.png", height)
    return 0


if __name__ == "__main__":
    sys.exit(main(FOLDER))
