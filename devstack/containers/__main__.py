"""`python -m devstack.containers files | stores | healthy URL [--part NAME]`: steps and checks of containers."""

import argparse
import os
import sys

from devstack.containers.healthy import answers
from devstack.stack.errors import StackError


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devstack.containers", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("files", help="secrets, folders and logins, before anything starts")
    verbs.add_parser("stores", help="buckets and dataset, once the stores are up")
    healthy = verbs.add_parser("healthy", help="end well when a part answers well")
    healthy.add_argument("url")
    healthy.add_argument("--part", help="a part of Airflow that must be healthy, too")
    options = parser.parse_args(arguments)
    if options.verb == "healthy":
        return 0 if answers(options.url, options.part) else 1
    # Imported here: the health checks, which run all the time, need none of it.
    from devstack.containers import prepare
    from devstack.stack.layout import Layout

    layout = Layout.from_environment(os.environ)
    try:
        if options.verb == "files":
            prepare.prepare_files(layout, os.environ)
        else:
            prepare.prepare_stores(layout, os.environ)
    except StackError as error:
        print(f"containers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
