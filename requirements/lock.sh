#!/bin/sh
# Renews requirements/dev.lock, docs.lock and requirements.txt from the lists beside this file.
set -eu
cd "$(dirname "$0")/.."

compile() {
    .venv/bin/python -m uv pip compile --python-version 3.11 --no-header --no-emit-index-url "$@"
}

compile --universal --overrides requirements/overrides.txt requirements/dev.in -o requirements/dev.lock --generate-hashes
compile --universal requirements/docs.in -o requirements/docs.lock --generate-hashes
# Versions that the file already has are preferred: first those of the lock, then a resolution without overrides.
grep -E '^# ' requirements.txt > requirements.new
sed -nE 's/^([a-z0-9._-]+==[^ ]+)( ;.*)? \\$/\1\2/p' requirements/dev.lock | grep -v '^pyspark==' >> requirements.new
compile requirements/pip.in -o requirements.new --no-annotate --quiet
grep -E '^# ' requirements.txt | cat - requirements.new > requirements.both && mv requirements.both requirements.txt
rm requirements.new
