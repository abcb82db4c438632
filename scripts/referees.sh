#!/usr/bin/env bash
# Every referee from fresh seeds, on as many cores as there are.
#
#   scripts/referees.sh [SECONDS] [PYTEST OPTIONS]
#
# A referee takes SECONDS (600), or its share of them. Those of a GPU run where there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
export ERGODE_REFEREE_SECONDS="${1:-600}" ERGODE_THREADS=1
exec python3 -m pytest -q -rA -p no:cacheprovider --tb=short -n logical --dist load --maxschedchunk 1 \
    -m fresh "${@:2}" tests/referees
