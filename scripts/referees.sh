#!/usr/bin/env bash
# Every referee from fresh seeds, side by side, a core each.
#
#   scripts/referees.sh [SECONDS] [DEVICE ...]
#
# SECONDS is 600 and DEVICE is cpu if not given; a device may be named again for another seed.
# What each says goes to a file of the folder OUT (build/referees if not set).
set -uo pipefail
cd "$(dirname "$0")/.."

seconds="${1:-600}"
devices=("${@:2}")
out="${OUT:-build/referees}"
mkdir -p "$out"
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
export ERGODE_REFEREE_SECONDS="$seconds" ERGODE_THREADS=1

referee() { # NAME DEVICE RUN
    local chosen="exhaustive and not cuda"
    case "$2-$1" in cuda-kinetics | cuda-density | cuda-trajectories*) chosen="exhaustive and cuda" ;; esac
    ERGODE_REFEREE_DEVICE="$2" ERGODE_REFEREE_SEED="$((1000 * RANDOM + $3))" \
        python3 -m pytest -q -s -m "$chosen" -p no:cacheprovider --tb=short \
        "tests/referees/test_$1.py" >"$out/$1-$2-$3.txt" 2>&1
}

run=0
for device in "${devices[@]:-cpu}"; do
    run=$((run + 1))
    for name in epidemics stochastic kinetics trajectories trajectories_of_arrays density; do
        referee "$name" "$device" "$run" &
    done
    [ "$device" = cuda ] || referee user_functions "$device" "$run" &
done
wait
tail -qn 1 "$out"/*.txt
! grep -lE "[0-9]+ (failed|error)" "$out"/*.txt
