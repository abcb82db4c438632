#!/usr/bin/env bash
# Everything a change must pass: style, types, floors, tests. Needs no GPU.
#
#   scripts/test.sh [PYTEST OPTIONS]
#   scripts/test.sh --fast [PYTEST OPTIONS]    style, and the tests that are not slow
#
# The environment is .venv, or what ERGODE_TEST_VENV names; it is made if it is not there. Compiled
# kernels are kept in the user's cache (or ERGODE_CACHE_DIR) between runs. A kernel is named by a
# digest of all that it is made of, so what has changed is compiled again.
set -euo pipefail
cd "$(dirname "$0")/.."

fast=
if [ "${1:-}" = --fast ]; then
    fast=yes
    shift
fi

venv="${ERGODE_TEST_VENV:-.venv}"
if [ -z "$fast" ] || [ ! -x "$venv/bin/ruff" ]; then
    [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
    # Collecting the tests imports a quarter of the modules: Python compiles what is imported.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
        --editable '.[test]'
fi
PATH="$(cd "$venv/bin" && pwd):$PATH"
unset PYTHONDONTWRITEBYTECODE # or each of many processes compiles its modules again

export ERGODE_CACHE_DIR="${ERGODE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ergode-tests}"

ruff check .
ruff format --check .
if [ -n "$fast" ]; then
    exec python -m pytest -q -n logical --dist worksteal -m "not slow and not exhaustive" "$@"
fi
# Types and floors take one core for a minute or two, so they are checked beside the tests.
said="$(mktemp)"
trap 'rm -f "$said"' EXIT
{ mypy && lint-imports; } >"$said" 2>&1 &
checks=$!
# A worker for every core. Each begins with a stretch of files, whose tests share kernels; who has
# finished takes over half of what another has left.
failed=0
python -m pytest -q -n logical --dist worksteal "$@" || failed=$?
wait "$checks" || failed=$?
cat "$said"
exit "$failed"
