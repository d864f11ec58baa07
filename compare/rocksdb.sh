#!/usr/bin/env bash
# Runs RocksDB's own db_bench and ours in turn, the same keys' and values' sizes, the same memory.
#
#   compare/rocksdb.sh [--dir DIR] [--file-dir DIR] [--rounds N] [--num N] [--preset NAME] [WHAT…]
#
# WHAT: fill100 fill100x2 fill1k fill1kx2 overwrite ycsb-a file (default: these) transactions ssd. Needs db_bench (Debian:
# rocksdb-tools) and a release build (cargo build --release). DIR is where both put everything for all but
# `file` and `ssd` (default /dev/shm, so that RocksDB's log lies on the same memory as our region; an fsync
# costs nothing there, and our write-backs and fences are done all the same). `file` uses --file-dir, a folder
# on a disk. Prints one line a run, and medians.
#
# `ssd`: data five times the persistent memory (1 GiB and 512 MiB of DRAM for 5,000,000 values of 1 KiB;
# less with --num in proportion). Tables lie in --file-dir, RocksDB's log and our region in DIR; both with direct I/O and a cache
# of a tenth of the data. Each loads every key once in random order, durably, one by one, until no background
# work is left; then point reads (1 and 16 threads) and scans of 50 entries, all of keys that are there. With
# --preset leveled our side, too, has no persistent memory and a log in DIR.
#
# `transactions`: db_bench's randomtransaction on both, durable: a number is added to one key of each of two sets, read for
# update. RocksDB's is its TransactionDB, ours is pessimistic; with one thread, and with two. db_bench's asks more of RocksDB:
# nine of ten transactions are prepared first, and then wait for a sleep of no length; and Debian's has assertions on. So
# `batches` follows, in which RocksDB does the same with plain reads and batches, beside our transactions.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=/dev/shm file_dir=. rounds=3 num=2000000 num_given='' preset=thermocline what=()
while [ $# -gt 0 ]; do
  case "$1" in
    --dir) dir=$2; shift 2 ;;
    --file-dir) file_dir=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --num) num=$2 num_given=1; shift 2 ;;
    --preset) preset=$2; shift 2 ;;
    -h|--help) sed -n '2,23s/^# \{0,1\}//p' "$0"; exit 0 ;;
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
transactions_ours() { # THREADS NUM
  local at; at=$(mktemp -d "$dir/ours.XXXXXX")
  "$ours" bench randomtransaction --db "$at/db" --num $(($2 / $1)) --transactions "$2" --threads "$1" \
    --pm 8GiB --dram 4GiB --json --quiet | sed -n 's/.*"ops_per_sec": *\([0-9]*\).*/\1/p' | head -1
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


# What `ssd` measures. Both print: puts a second until drained; SSD bytes for each user byte; processor seconds
# for each million puts; reads a second with 1 and with 16 threads; scans of 50 a second.
ssd_ours() { # NUM
  local n=$1 pm=$(($1 * (1 << 30) / 5000000)) at region out; at=$(mktemp -d "$file_dir/ours.XXXXXX")
  region=$(mktemp -d "$dir/ours.XXXXXX")
  local places=(--pm-path "$region" --pm "$pm")
  [ "$preset" != leveled ] || places=(--wal-path "$region")
  run() { "$ours" bench "$@" --db "$at/db" --num "$n" --value-size 1024 --preset "$preset" "${places[@]}" \
    --dram $((pm / 2)) --json --quiet; }
  field() { sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p" | head -1; }
  out=$(run fillrandom --drain)
  printf '%.0f %s %.1f' "$(field ops_per_sec <<<"$out")" "$(field write_amplification_ssd <<<"$out")" \
    "$(awk "BEGIN { print $(field cpu_seconds <<<"$out") / $n * 1000000 }")"
  printf ' %.0f' "$(run readrandom --use-existing --reads $((n / 50)) | field ops_per_sec)" \
    "$(run readrandom --use-existing --reads $((n / 10)) --threads 16 | field ops_per_sec)" \
    "$(run seekrandom --use-existing --reads $((n / 250)) --scan-length 50 | field ops_per_sec)"
  echo; rm -rf "$at" "$region"
}
ssd_rocks() { # NUM
  local n=$1 dram=$(($1 * (1 << 29) / 5000000)) at wal; at=$(mktemp -d "$file_dir/rocks.XXXXXX"); wal=$(mktemp -d "$dir/rocks.XXXXXX")
  # Half of the DRAM for write buffers while it loads, all of it for the cache while it reads.
  run() { db_bench --db="$at" --wal_dir="$wal" --num="$n" --key_size=16 --value_size=1024 --compression_type=none \
    --write_buffer_size=$((dram / 8)) --max_write_buffer_number=4 --cache_size="$dram" \
    --use_direct_io_for_flush_and_compaction=1 --use_direct_reads=1 --bloom_bits=10 --max_background_jobs=2 \
    --level_compaction_dynamic_level_bytes=1 --seed=1 --histogram=0 "$@" 2>/dev/null; }
  per_second() { awk '/ops\/sec/ { for (i = 1; i <= NF; i++) if ($i == "ops/sec") v = $(i - 1) } END { print v }'; }
  local begun; begun=$(date +%s.%N); TIMEFORMAT='%U %S'
  { time run --benchmarks=filluniquerandom,waitforcompaction,stats --sync=1 >"$wal/out"; } 2>"$wal/cpu"
  local ended; ended=$(date +%s.%N)
  awk -v n="$n" -v s="$begun" -v e="$ended" -v cpu="$(awk '{ print $1 + $2 }' "$wal/cpu")" '
    /^Cumulative compaction/ { gb = $3 }
    END { printf "%.0f %.2f %.1f", n / (e - s), gb * 1073741824 / (n * 1040), cpu / n * 1000000 }' "$wal/out"
  printf ' %.0f' "$(run --benchmarks=readrandom --use_existing_db=1 --reads=$((n / 50)) | per_second)" \
    "$(run --benchmarks=readrandom --use_existing_db=1 --threads=16 --reads=$((n / 160)) | per_second)" \
    "$(run --benchmarks=seekrandom --seek_nexts=50 --use_existing_db=1 --reads=$((n / 250)) | per_second)"
  echo; rm -rf "$at" "$wal"
}
ssd() {
  local n=$num a=() b=() what=("puts/s, drained" "SSD bytes a user byte" "CPU s a million" "reads/s" "reads/s, 16 threads" "scans of 50/s")
  [ "$num_given" ] || n=5000000
  for _ in $(seq "$rounds"); do
    a+=("$(ssd_ours "$n")"); echo "ssd: ours    ${a[-1]}"
    b+=("$(ssd_rocks "$n")"); echo "ssd: rocksdb ${b[-1]}"
  done
  local i x y
  for i in "${!what[@]}"; do
    x=$(median $(printf '%s\n' "${a[@]}" | cut -d' ' -f$((i + 1)))); y=$(median $(printf '%s\n' "${b[@]}" | cut -d' ' -f$((i + 1))))
    echo "ssd, ${what[$i]}: medians of $rounds: ours $x, rocksdb $y, $(awk "BEGIN { printf \"%.2f\", $x / $y }") times"
  done
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
    transactions)
      for threads in 1 2; do
        pair "transactions, $threads" transactions_ours "$threads" $((num / 20)) -- \
          rocks randomtransaction 100 "$threads" $((num / 20)) "$dir" --transaction_db=1 --transaction_sets=2
        pair "transactions beside batches, $threads" transactions_ours "$threads" $((num / 20)) -- \
          rocks randomtransaction 100 "$threads" $((num / 20)) "$dir" --transaction_sets=2
      done ;;
    ssd) ssd ;;
    *) echo "compare/rocksdb.sh: there is no comparison '$one'; see --help" >&2; exit 2 ;;
  esac
done
