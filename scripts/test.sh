#!/usr/bin/env bash
# Everything a change must pass: style, types, floors, tests. Needs no GPU.
#
#   scripts/test.sh [PYTEST OPTIONS]
#
# The environment is .venv, or what ERGODE_TEST_VENV names; it is made if it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."

venv="${ERGODE_TEST_VENV:-.venv}"
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[test]'
PATH="$(cd "$venv/bin" && pwd):$PATH"

# Compiled kernels are kept within the run: nothing of an older one is used, nothing is left.
if [ -z "${ERGODE_CACHE_DIR:-}" ]; then
    ERGODE_CACHE_DIR="$(mktemp -d)"
    trap 'rm -rf "$ERGODE_CACHE_DIR"' EXIT
fi
export ERGODE_CACHE_DIR

ruff check .
ruff format --check .
mypy
lint-imports
# A worker for every core. Each begins with a stretch of files, whose tests share kernels; who has
# finished takes over half of what another has left.
python -m pytest -q -n auto --dist worksteal "$@"
