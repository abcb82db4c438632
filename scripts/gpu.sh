#!/usr/bin/env bash
# What only a machine with a CUDA device can say: its tests and its benchmarks.
#
#   scripts/gpu.sh
#
# Results go to the folder OUT (build/gpu if not set). Needs python3 with the dependencies; the
# package itself is taken from this checkout. A failing test does not keep the benchmarks from
# running, but is the exit code.
set -uo pipefail
cd "$(dirname "$0")/.."

out="${OUT:-build/gpu}"
mkdir -p "$out"
out="$(cd "$out" && pwd)"
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
export ERGODE_CACHE_DIR="${ERGODE_CACHE_DIR:-$PWD/build/kernels}"

status=0
python3 -m ergode info --json >"$out/info.json" || status=$?
cat "$out/info.json"
python3 -m pytest -m "cuda and not exhaustive" -q --junitxml="$out/tests.xml" 2>&1 | tee "$out/tests.txt" || status=$?
for engine in calls density epidemics kept kinetics stochastic trajectories; do
    python3 "benchmarks/$engine.py" --device cuda --no-peers --json "$out/$engine.json" ||
        status=$?
done
exit "$status"
