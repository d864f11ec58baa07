#!/usr/bin/env bash
# Runs RocksDB's own db_bench and ours in turn, the same keys' and values' sizes, the same memory.
#
#   compare/rocksdb.sh [--dir DIR] [--file-dir DIR] [--rounds N] [--num N] [WHAT…]
#
# WHAT: fill100 fill100x2 fill1k fill1kx2 overwrite ycsb-a file (default: all). Needs db_bench (Debian: rocksdb-tools) and
# a release build (cargo build --release). DIR is where both put everything for all but `file` (default
# /dev/shm, so that RocksDB's log lies on the same memory as our region; an fsync costs nothing there, and
# our write-backs and fences are done all the same). `file` uses --file-dir, a folder on a disk. Prints one
# line a run, and medians.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=/dev/shm file_dir=. rounds=3 num=2000000 what=()
while [ $# -gt 0 ]; do
  case "$1" in
    --dir) dir=$2; shift 2 ;;
    --file-dir) file_dir=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --num) num=$2; shift 2 ;;
    -h|--help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "compare/rocksdb.sh: there is no option '$1'; see --help" >&2; exit 2 ;;
    *) what+=("$1"); shift ;;
  esac
done
[ ${#what[@]} -gt 0 ] || what=(fill100 fill100x2 fill1k fill1kx2 overwrite ycsb-a file)
command -v db_bench >/dev/null || { echo "compare/rocksdb.sh: db_bench is missing; install rocksdb-tools" >&2; exit 1; }
ours=${CARGO_TARGET_DIR:-target}/release/thermocline
[ -x "$ours" ] || { echo "compare/rocksdb.sh: $ours is missing; run cargo build --release" >&2; exit 1; }

# RocksDB: every write synced, nothing flushed to tables while the run lasts (write buffer larger than the
# data), no compression, unique keys in random order. These are its best settings for this work.
rocks() { # WORKLOAD VALUE_SIZE THREADS NUM DIR [FLAGS]
  local workload=$1 value=$2 threads=$3 n=$4 at; at=$(mktemp -d "$5/rocks.XXXXXX"); shift 5
  db_bench --benchmarks="$workload" --db="$at" --num=$((n / threads)) --threads="$threads" \
    --key_size=16 --value_size="$value" --sync=1 --disable_wal=0 --compression_type=none \
    --write_buffer_size=$((8 << 30)) --allow_concurrent_memtable_write=1 \
    --enable_pipelined_write=0 --seed=1 --histogram=0 "$@" 2>/dev/null |
    awk '/ops\/sec/ { for (i = 1; i <= NF; i++) if ($i == "ops/sec") v = $(i - 1) } END { print v }'
  rm -rf "$at"
}
thermocline() { # WORKLOAD VALUE_SIZE THREADS NUM DIR [FLAGS]
  local workload=$1 value=$2 threads=$3 n=$4 at; at=$(mktemp -d "$5/ours.XXXXXX"); shift 5
  "$ours" bench "$workload" --db "$at/db" --num "$n" --threads "$threads" --value-size "$value" \
    --pm 8GiB --dram 4GiB --json --quiet "$@" | sed -n 's/.*"ops_per_sec": *\([0-9]*\).*/\1/p' | head -1
  rm -rf "$at"
}
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
pair() { # NAME OURS-COMMAND… -- ROCKS-COMMAND…
  local name=$1 a=() b=() left=() right=() side=left; shift
  for word in "$@"; do
    if [ "$word" = -- ]; then side=right; elif [ $side = left ]; then left+=("$word"); else right+=("$word"); fi
  done
  for _ in $(seq "$rounds"); do
    a+=("$("${left[@]}")"); b+=("$("${right[@]}")")
    echo "$name: ours ${a[-1]}/s, rocksdb ${b[-1]}/s"
  done
  local x y; x=$(median "${a[@]}"); y=$(median "${b[@]}")
  echo "$name: medians of $rounds: ours $x/s, rocksdb $y/s, $(awk "BEGIN { printf \"%.2f\", $x / $y }") times"
}

for one in "${what[@]}"; do
  case "$one" in
    fill100) pair fill100 thermocline fillrandom 100 1 "$num" "$dir" -- rocks filluniquerandom 100 1 "$num" "$dir" ;;
    fill100x2) pair fill100x2 thermocline fillrandom 100 2 "$num" "$dir" -- rocks fillrandom 100 2 "$num" "$dir" ;;
    fill1k) pair fill1k thermocline fillrandom 1024 1 $((num / 2)) "$dir" -- rocks filluniquerandom 1024 1 $((num / 2)) "$dir" ;;
    fill1kx2) pair fill1kx2 thermocline fillrandom 1024 2 $((num / 2)) "$dir" -- rocks fillrandom 1024 2 $((num / 2)) "$dir" ;;
    overwrite) pair overwrite thermocline overwrite 100 1 "$num" "$dir" -- rocks fillrandom,overwrite 100 1 "$num" "$dir" ;;
    ycsb-a) pair ycsb-a thermocline ycsb-a 1024 1 $((num / 4)) "$dir" -- rocks fillrandom,readrandomwriterandom 1024 1 $((num / 4)) "$dir" --readwritepercent=50 ;;
    file) pair file thermocline fillrandom 1024 4 20000 "$file_dir" -- rocks fillrandom 1024 4 20000 "$file_dir" ;;
    *) echo "compare/rocksdb.sh: there is no comparison '$one'; see --help" >&2; exit 2 ;;
  esac
done
