#!/bin/sh
# What one session on a GPU does, one step after the other; every step goes on where it stopped, so this can be run again.
#
#     recipes/en-de/session.sh teach WORK DATA [14m] [9m]      the teacher, and what it says of its training text
#     recipes/en-de/session.sh learn WORK DATA [20m]           the student, in eight bits too, adapted and measured
#     recipes/en-de/session.sh control WORK DATA [20m]         the same model without a teacher
#     recipes/en-de/session.sh all WORK DATA [10m] [6m] [8m]   teacher, what it says, and student, in half an hour together
#
# START=MODEL lets the student begin with the weights of MODEL: WORK/control, or the bundled translator.
#
# What is worth carrying lies in WORK/out, in pieces of at most 16 MiB: see pieces.py. The log is WORK/session.log; to leave
# it alone: setsid nohup recipes/en-de/session.sh teach WORK DATA > /dev/null 2>&1 &
set -eu
what=$1 work=$2 data=$3 time=${4:-} more=${5:-} last=${6:-8m}
here=$(dirname "$0")
python=${PYTHON:-python3} compute=${COMPUTE:-bfloat16}
export PYTHONPATH="$here/../..${PYTHONPATH:+:$PYTHONPATH}" HEADWAY_CACHE="${HEADWAY_CACHE:-$work/cache}" PYTHONUNBUFFERED=1
mkdir -p "$work/out"
exec >> "$work/session.log" 2>&1

# Several processes at a time on the GPU, and not by turns, where NVIDIA's service for that is there.
together() { command -v nvidia-cuda-mps-control > /dev/null && echo "$1" | nvidia-cuda-mps-control ${2:-} > /dev/null || true; }

run() { name=$1; shift; echo "== $(date +%T) $name $*"; "$python" "$here/$name.py" "$@"; }

case $what in
teach)
    run ready teacher --work "$work"
    run train teacher --work "$work" --for "${time:-14m}"
    together "" -d
    run distil --work "$work" --for "${more:-9m}" --closest --min-chrf 0 --compute "$compute" ${DISTIL:-}
    together quit
    run pieces split "$work/out/distilled" "$work/distilled"
    run measure --data "$data" --work "$work" --compute "$compute" --out "$work/out/teacher.md" "teacher=$work/teacher"
    "$python" -m headway pack "$work/teacher" --out "$work/teacher-int8" --int8 --overwrite
    run pieces split "$work/out/teacher-int8" "$work/teacher-int8"
    ;;
learn)
    run ready student --work "$work"
    run train student --work "$work" --for "${time:-20m}" ${START:+--start "$START"}
    "$python" -m headway pack "$work/student" --out "$work/student-int8" --int8 --overwrite
    run pieces split "$work/out/student-int8" "$work/student-int8"
    run pieces split "$work/out/student" "$work/student"
    run measure --data "$data" --work "$work" --out "$work/out/student.md" "student=$work/student"
    run real_input "$work/student-int8" --out "$work/out/real_input.md"
    run train manual --work "$work" --for 2m
    run train manual-mixed --work "$work" --for 2m
    run measure --data "$data" --work "$work" --tests manpages.test,tatoeba.valid --faults 0 --out "$work/out/manual.md" \
        "student=$work/student" "manual=$work/manual" "manual-mixed=$work/manual-mixed"
    ;;
control)
    run ready control --work "$work"
    run train control --work "$work" --for "${time:-20m}"
    run measure --data "$data" --work "$work" --out "$work/out/control.md" "control=$work/control"
    ;;
all)
    run ready teacher --work "$work"
    run train teacher --work "$work" --for "${time:-10m}"
    together "" -d
    run distil --work "$work" --for "${more:-6m}" --close --closest --min-chrf 0 --compute "$compute" ${DISTIL:-}
    together quit
    run measure --data "$data" --work "$work" --compute "$compute" --out "$work/out/teacher.md" "teacher=$work/teacher" &
    run ready student --work "$work"
    run train student --work "$work" --for "$last" ${START:+--start "$START"}
    "$python" -m headway pack "$work/student" --out "$work/student-int8" --int8 --overwrite
    run pieces split "$work/out/student-int8" "$work/student-int8"
    wait
    run measure --data "$data" --work "$work" --out "$work/out/student.md" "student=$work/student"
    ;;
*)
    echo "teach, learn, control or all: $what is none of them" && exit 2
    ;;
esac
cp "$work/scores.json" "$work/out/"
echo "== $(date +%T) done"
