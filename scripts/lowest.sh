#!/usr/bin/env bash
# The fast tests with the lowest version of each dependency that pyproject.toml admits.
#
#   scripts/lowest.sh [PYTEST OPTIONS]
#
# The environment is .venv-lowest, or what ERGODE_LOWEST_VENV names; it is made again each time, with
# the Python that PYTHON names (3.11 is the lowest). uv resolves the versions.
set -euo pipefail
cd "$(dirname "$0")/.."

venv="${ERGODE_LOWEST_VENV:-.venv-lowest}"
"${PYTHON:-python3}" -m venv --clear "$venv"
python="$venv/bin/python"
"$python" -m pip install --quiet --disable-pip-version-check uv
# mpi4py from source needs a C compiler for MPI.
"$python" -m uv pip install --quiet --python "$python" --resolution lowest-direct \
    --only-binary mpi4py --editable '.[test]'
"$python" -m uv pip list --python "$python"

export ERGODE_CACHE_DIR="${ERGODE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ergode-lowest}"
PATH="$(cd "$venv/bin" && pwd):$PATH"
exec python -m pytest -q -n logical --dist worksteal -m "not slow and not exhaustive" "$@"
