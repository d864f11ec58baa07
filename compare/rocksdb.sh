#!/usr/bin/env bash
# Runs RocksDB's own db_bench and ours in turn: the same operations, keys and values of the same sizes, the same memory.
#
#   compare/rocksdb.sh [--dir DIR] [--file-dir DIR] [--rounds N] [--num N] [--preset NAME] [--set GROUP.OPTION=VALUE]… [ROW…]
#
# Prints what each round came to, in which the two begin in turn, and medians of the rounds (3). ROWs are those below; all but
# `transactions` and `ssd` unless given. Needs db_bench (Debian: rocksdb-tools) and a release build (cargo build --release).
# --preset and --set, which may be repeated, are options of ours in every row.
#
# Debian's RocksDB (7.8) has assertions on in all rows, and computes the checksums of its log without the processor's
# instruction for that: a build for speed would do more. What db_bench warns of is printed first.
#
# DIR is where both put everything for all but `file`, `buffered` and `ssd` (/dev/shm unless given, so that RocksDB's log lies on the same
# memory as our region; an fsync costs nothing there, and our write-backs and fences are done all the same). --file-dir is a
# folder on a disk for these three (this folder unless given). But for `ssd`, RocksDB has a write buffer larger than the data, so
# that it flushes nothing while it runs: its best setting for this work. But for `buffered`, all writes are durable one by
# one. Nothing is compressed. There is one thread where it does not say otherwise, and N is --num, 2,000,000 unless given.
#
#   fill100, fill1k      each of N keys (fill1k: N/2) is written once, in random order; values of 100 bytes, and of 1 KiB.
#                        db_bench makes that order within its time.
#   fill100x2, fill1kx2  two threads; N writes (N/2) of keys drawn uniformly, with replacement, from as many: db_bench has no
#                        unique keys for several threads. About 63 % of the keys are there at the end.
#   overwrite            N writes of 100 bytes to keys drawn in the same way, which are all there. The load is not counted; ours
#                        is closed and opened behind it.
#   ycsb-a, ycsb-b,      N/4 operations on N/4 values of 1 KiB, which are all there: 50, 95, 100 % reads, else overwrites. Keys
#   ycsb-c               are uniform on both sides, not zipfian as YCSB has them: db_bench has no such keys. It reads 50 (95)
#                        times in a row and then writes 50 (5) times; ours draws each operation.
#   scans                N/20 scans of 50 of N/4 entries of 1 KiB, from uniform keys that are there. db_bench makes an iterator
#                        for each scan and copies 256 bytes of each value; ours keeps one cursor and reads a byte of each.
#   ycsb-e               N/20 operations on N/4 values of 1 KiB: 95 % scans of 1 to 100 entries, uniform, from uniform keys, 5 %
#                        writes. RocksDB's is mixgraph, whose writes go to keys that are there, ours writes new ones behind all
#                        others; in mixgraph the key decides what is done and how long a scan is, and values are copied.
#   file                 four threads; 20,000 writes of 1 KiB, drawn as for fill100x2, in --file-dir; --num does not count here.
#   buffered             each of N/2 keys with 100 bytes, and of N/10 with 1 KiB, is written once, as for fill100, in --file-dir.
#                        No write waits for the disk: RocksDB's log is not synced, and ours are durable within a second or so.
#
# YCSB D and F have no row: in db_bench none reads the latest keys while others are inserted, and none mixes reads with
# read-modify-writes.
#
#   transactions         db_bench's randomtransaction on both: a number is added to one key of each of two sets; N/20 transactions
#                        with one thread, and with two. RocksDB's is its TransactionDB, and reads half of the keys for update;
#                        ours is pessimistic, and reads all of them so. db_bench's asks more of RocksDB: nine of ten
#                        transactions are prepared first, and then wait for a sleep of no length. So `transactions beside
#                        batches` follows, in which RocksDB does the same with plain reads and batches, beside our transactions.
#   ssd                  data five times the persistent memory: 5,000,000 values of 1 KiB, 1 GiB of it, 512 MiB of DRAM; less
#                        with --num, in proportion. Tables lie in --file-dir, RocksDB's log and our region in DIR; both with
#                        direct I/O. Each has half of the DRAM for its cache of blocks, a twentieth of the data (RocksDB's
#                        cache_size, our read.cache_bytes). RocksDB has the other half for write buffers, and indexes and
#                        filters beside all that; ours has indexes and filters in the other half.
#                        Each loads every key once in random order, one by one, until no background work is due. Time is
#                        that of the writes and of the jobs behind them, without start and end of the process: db_bench's
#                        own seconds, and from there to the last job in RocksDB's LOG; ours with --drain. What fits stays in
#                        persistent memory, and in RocksDB's last write buffer. Processor time is that of the whole process.
#                        Then each is opened again for point reads (1 and 16 threads) and scans of 50 entries, all of keys
#                        that are there. With --preset leveled or trident our side, too, has no persistent memory and a log
#                        in DIR.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C TIMEFORMAT='%U %S'
exec 3>&2

fail() { echo "compare/rocksdb.sh: $1" >&3; exit "${2:-1}"; }
help() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "${BASH_SOURCE[0]}"; }
number() { # OPTION VALUE LEAST
  [[ $2 =~ ^[1-9][0-9]{0,11}$ ]] && [ "$2" -ge "$3" ] || fail "$1 is a whole number of at least $3; '$2' was given" 2
}

all=(fill100 fill100x2 fill1k fill1kx2 overwrite ycsb-a ycsb-b ycsb-c scans ycsb-e file buffered)
dir=/dev/shm file_dir=. rounds=3 num=2000000 num_given='' preset=thermocline sets=() rows=()
while [ $# -gt 0 ]; do
  case "$1" in
    --dir|--file-dir|--rounds|--num|--preset|--set) [ $# -gt 1 ] || fail "$1 needs a value; see --help" 2 ;;
  esac
  case "$1" in
    --dir) dir=$2; shift 2 ;;
    --file-dir) file_dir=$2; shift 2 ;;
    --rounds) number "$1" "$2" 1; rounds=$2; shift 2 ;;
    --num) number "$1" "$2" 1000; num=$2 num_given=1; shift 2 ;;
    --preset) preset=$2; shift 2 ;;
    --set) sets+=(--set "$2"); shift 2 ;;
    -h|--help) help; exit 0 ;;
    -*) fail "there is no option '$1'; see --help" 2 ;;
    *) rows+=("$1"); shift ;;
  esac
done
[ ${#rows[@]} -gt 0 ] || rows=("${all[@]}")
for row in "${rows[@]}"; do
  [[ " ${all[*]} transactions ssd " == *" $row "* ]] || fail "there is no row '$row'; see --help" 2
done
command -v db_bench >/dev/null || fail "db_bench is missing; install rocksdb-tools"
program=${CARGO_TARGET_DIR:-$(dirname "${BASH_SOURCE[0]}")/../target}/release/thermocline
[ -x "$program" ] || fail "$program is missing; run cargo build --release"
for place in "$dir" "$file_dir"; do
  [ -d "$place" ] || fail "there is no folder '$place'"
done

# Folders for what is kept of a run, for databases in memory, and for those on the disk.
made=()
trap 'rm -rf "${made[@]}"' EXIT
work=$(mktemp -d); made+=("$work")
memory=$(mktemp -d "$dir/compare.XXXXXX"); made+=("$memory")
disk=''
case " ${rows[*]} " in
  *" file "*|*" buffered "*|*" ssd "*) disk=$(mktemp -d "$file_dir/compare.XXXXXX"); made+=("$disk") ;;
esac

# What the last run said last of what went wrong.
reason() { tr '\r' '\n' <"$work/err" | sed '/^ *$/d; /^\.\.\. finished /d' | tail -n 1; }

# Ours with what this script was given. Its report is then in $work/out.
bench() { # WORKLOAD [FLAGS…]
  "$program" bench "$@" --preset "$preset" "${sets[@]}" --json --quiet >"$work/out" 2>"$work/err" </dev/null ||
    fail "our $1 failed: $(reason)"
}
field() { # NAME: that number of the last report of ours
  grep -m 1 -o "\"$1\": *[0-9.]*" "$work/out" | sed 's/.*: *//' || fail "our report has no $1"
}
ours_rate() { local rate; rate=$(field ops_per_sec); printf '%.0f\n' "$rate"; }

# RocksDB's db_bench. What it prints is then in $work/out, each line behind the time at which it came.
rocks_bench() { # BENCHMARKS [FLAGS…]
  db_bench --benchmarks="$1" --key_size=16 --compression_type=none --seed=1 --histogram=0 "${@:2}" 2>"$work/err" </dev/null |
    while IFS= read -r line; do printf '%s %s\n' "$EPOCHREALTIME" "$line"; done >"$work/out" ||
    fail "db_bench's $1 failed: $(reason)"
}
rocks_rate() { # of the last benchmark that ran
  awk '/ops\/sec/ { for (i = 1; i <= NF; i++) if ($i == "ops/sec") v = $(i - 1) } END { if (v == "") exit 1; print v }' "$work/out" ||
    fail "db_bench gave no figure: $(reason)"
}
warnings() {
  rocks_bench stats --db="$memory/warnings" --num=1
  rm -rf "$memory/warnings"
  sed -n 's/^[0-9.]* WARNING: /db_bench warns: /p' "$work/out"
}

# Operations a second of one run in a folder of its own.
ours() { # WORKLOAD VALUE_SIZE THREADS KEYS PLACE [FLAGS…]
  local at; at=$(mktemp -d "$5/ours.XXXXXX")
  bench "$1" --db "$at/db" --num "$4" --threads "$3" --value-size "$2" --pm 8GiB --dram 4GiB "${@:6}"
  rm -rf "$at"; ours_rate
}
ours_overwrite() { # VALUE_SIZE KEYS PLACE
  local at flags; at=$(mktemp -d "$3/ours.XXXXXX")
  flags=(--db "$at/db" --num "$2" --value-size "$1" --pm 8GiB --dram 4GiB)
  bench fillrandom "${flags[@]}"
  bench overwrite "${flags[@]}" --use-existing
  rm -rf "$at"; ours_rate
}
ours_transactions() { # THREADS TRANSACTIONS
  local at; at=$(mktemp -d "$memory/ours.XXXXXX")
  bench randomtransaction --db "$at/db" --num $(($2 / $1)) --transactions "$2" --threads "$1" --pm 8GiB --dram 4GiB
  rm -rf "$at"; ours_rate
}
rocks() { # BENCHMARKS VALUE_SIZE THREADS KEYS PLACE [FLAGS…]
  local at; at=$(mktemp -d "$5/rocks.XXXXXX")
  rocks_bench "$1" --db="$at" --num="$4" --threads="$3" --value_size="$2" --sync=1 --disable_wal=0 \
    --write_buffer_size=$((8 << 30)) --allow_concurrent_memtable_write=1 --enable_pipelined_write=0 "${@:6}"
  rm -rf "$at"; rocks_rate
}

median() { # of an even number: the mean of the two in the middle
  printf '%s\n' "$@" | sort -n |
    awk '{ v[NR] = $1 } END { m = int((NR + 1) / 2); if (NR % 2) print v[m]; else printf "%.10g\n", (v[m] + v[m + 1]) / 2 }'
}
times() { awk -v x="$1" -v y="$2" 'BEGIN { if (y + 0 == 0) print "-"; else printf "%.2f\n", x / y }'; }
pair() { # NAME OURS-COMMAND… -- ROCKS-COMMAND…
  local name=$1 a=() b=() left=() right=() side=left word round x y; shift
  for word in "$@"; do
    if [ "$word" = -- ]; then side=right; elif [ $side = left ]; then left+=("$word"); else right+=("$word"); fi
  done
  for round in $(seq "$rounds"); do
    if [ $((round % 2)) = 1 ]; then x=$("${left[@]}"); y=$("${right[@]}"); else y=$("${right[@]}"); x=$("${left[@]}"); fi
    a+=("$x") b+=("$y")
    echo "$name: ours $x/s, rocksdb $y/s"
  done
  x=$(median "${a[@]}"); y=$(median "${b[@]}")
  echo "$name: medians of $rounds: ours $x/s, rocksdb $y/s, $(times "$x" "$y") times"
}

# Both write keys drawn with replacement; db_bench's number of writes is that of each thread.
drawn() { # NAME VALUE_SIZE THREADS KEYS PLACE
  pair "$1" ours overwrite "${@:2}" -- rocks fillrandom "${@:2}" --writes=$(($4 / $3))
}
# The last of several --sync counts.
buffered() { # NAME VALUE_SIZE KEYS
  pair "$1" ours fillrandom "$2" 1 "$3" "$disk" --durability buffered -- rocks filluniquerandom "$2" 1 "$3" "$disk" --sync=0
}
ycsb() { # LETTER PERCENT-OF-READS
  local n=$((num / 4)) theirs=(readrandomwriterandom --readwritepercent="$2")
  [ "$2" -lt 100 ] || theirs=(readrandom)
  pair "ycsb-$1, uniform" ours "ycsb-$1" 1024 1 "$n" "$memory" --distribution uniform -- \
    rocks "filluniquerandom,${theirs[0]}" 1024 1 "$n" "$memory" "${theirs[@]:1}"
}
scans() {
  pair scans ours seekrandom 1024 1 $((num / 4)) "$memory" --reads $((num / 20)) --scan-length 50 -- \
    rocks filluniquerandom,seekrandom 1024 1 $((num / 4)) "$memory" --reads=$((num / 20)) --seek_nexts=50
}
# Of mixgraph's Pareto distributions, one with k = -1 is uniform between theta and theta + sigma.
ycsb_e() {
  pair "ycsb-e, uniform" ours ycsb-e 1024 1 $((num / 4)) "$memory" --reads $((num / 20)) --scan-length 100 --distribution uniform -- \
    rocks filluniquerandom,mixgraph 1024 1 $((num / 4)) "$memory" --reads=$((num / 20)) \
    --mix_get_ratio=0 --mix_put_ratio=0.05 --mix_seek_ratio=0.95 --iter_theta=0 --iter_k=-1 --iter_sigma=100 \
    --value_theta=1024 --value_k=-1 --value_sigma=0
}
transactions() { # THREADS
  local n=$((num / 20)) keys=$((num / 20 / $1))
  pair "transactions, $1" ours_transactions "$1" "$n" -- \
    rocks randomtransaction 100 "$1" "$keys" "$memory" --transaction_db=1 --transaction_sets=2
  pair "transactions beside batches, $1" ours_transactions "$1" "$n" -- \
    rocks randomtransaction 100 "$1" "$keys" "$memory" --transaction_sets=2
}

# What `ssd` measures. Both print: puts a second until drained; SSD bytes for each user byte; processor seconds
# for each million puts; reads a second with 1 and with 16 threads; scans of 50 a second.
cpu_of_a_million() { awk -v n="$1" '{ printf "%.1f", ($1 + $2) / n * 1000000 }' "$work/cpu"; } # PUTS
ssd_ours() { # KEYS PM DRAM CACHE
  local n=$1 at region places flags line rate ssd
  at=$(mktemp -d "$disk/ours.XXXXXX"); region=$(mktemp -d "$memory/ours.XXXXXX")
  case "$preset" in
    leveled|trident) places=(--wal-path "$region") ;;
    *) places=(--pm-path "$region" --pm "$2") ;;
  esac
  flags=(--db "$at/db" --num "$n" --value-size 1024 "${places[@]}" --dram "$3" --set read.cache_bytes="$4")
  { time bench fillrandom "${flags[@]}" --drain; } 2>"$work/cpu"
  rate=$(ours_rate); ssd=$(field write_amplification_ssd)
  line="$rate $(printf '%.2f' "$ssd") $(cpu_of_a_million "$n")"
  bench readrandom "${flags[@]}" --use-existing --reads $((n / 50)); rate=$(ours_rate); line+=" $rate"
  bench readrandom "${flags[@]}" --use-existing --reads $((n / 10)) --threads 16; rate=$(ours_rate); line+=" $rate"
  bench seekrandom "${flags[@]}" --use-existing --reads $((n / 250)) --scan-length 50; rate=$(ours_rate); line+=" $rate"
  rm -rf "$at" "$region"; echo "$line"
}
# Of the load in $work/out: puts a second up to the end of the last job in RocksDB's LOG, and bytes written for each byte
# put. db_bench's waitforcompaction is no clock: it sleeps for 5 seconds first, and then looks every 10.
ssd_rocks_load() { # KEYS LOG
  awk -v n="$1" '
    /"event": "(flush_finished|compaction_finished|trivial_move)"/ && match($0, /"time_micros": [0-9]+/) {
      job = substr($0, RSTART + 15, RLENGTH - 15) / 1000000
      if (job > last) last = job
    }
    $2 == "filluniquerandom" && /ops\/sec/ { ended = $1; for (i = 1; i <= NF; i++) if ($i == "seconds") took = $(i - 1) }
    $2 == "Cumulative" && $3 == "compaction:" { gb = $4 }
    END {
      if (took == "" || gb == "") exit 1
      if (last > ended + 0) took += last - ended
      printf "%.0f %.2f\n", n / took, gb * 1073741824 / (n * 1040)
    }' "$2" "$work/out" || fail "db_bench's load gave no figures: $(reason)"
}
ssd_rocks() { # KEYS DRAM CACHE
  local n=$1 at wal flags line rate
  at=$(mktemp -d "$disk/rocks.XXXXXX"); wal=$(mktemp -d "$memory/rocks.XXXXXX")
  flags=(--db="$at" --wal_dir="$wal" --num="$n" --value_size=1024 --write_buffer_size=$(($2 / 8)) --max_write_buffer_number=4
    --cache_size="$3" --use_direct_io_for_flush_and_compaction=1 --use_direct_reads=1 --bloom_bits=10 --max_background_jobs=2
    --level_compaction_dynamic_level_bytes=1)
  { time rocks_bench filluniquerandom,waitforcompaction,stats "${flags[@]}" --sync=1; } 2>"$work/cpu"
  line=$(ssd_rocks_load "$n" "$at/LOG"); line+=" $(cpu_of_a_million "$n")"
  flags+=(--use_existing_db=1)
  rocks_bench readrandom "${flags[@]}" --reads=$((n / 50)); rate=$(rocks_rate); line+=" $rate"
  rocks_bench readrandom "${flags[@]}" --threads=16 --reads=$((n / 160)); rate=$(rocks_rate); line+=" $rate"
  rocks_bench seekrandom "${flags[@]}" --seek_nexts=50 --reads=$((n / 250)); rate=$(rocks_rate); line+=" $rate"
  rm -rf "$at" "$wal"; echo "$line"
}
column() { local i=$1; shift; printf '%s\n' "$@" | cut -d' ' -f"$i"; } # NUMBER LINES…
ssd() {
  local n=$num pm dram a=() b=() i round x y cache
  local what=("puts/s, drained" "SSD bytes a user byte" "CPU s a million" "reads/s" "reads/s, 16 threads" "scans of 50/s")
  [ "$num_given" ] || n=5000000
  pm=$((n * (1 << 30) / 5000000)) dram=$((n * (1 << 29) / 5000000)) cache=$((dram / 2))
  for round in $(seq "$rounds"); do
    if [ $((round % 2)) = 1 ]; then
      x=$(ssd_ours "$n" "$pm" "$dram" "$cache"); y=$(ssd_rocks "$n" "$dram" "$cache")
    else
      y=$(ssd_rocks "$n" "$dram" "$cache"); x=$(ssd_ours "$n" "$pm" "$dram" "$cache")
    fi
    a+=("$x") b+=("$y")
    echo "ssd: ours    $x"
    echo "ssd: rocksdb $y"
  done
  for i in "${!what[@]}"; do
    # shellcheck disable=SC2046 # Each figure is a word.
    x=$(median $(column $((i + 1)) "${a[@]}")) y=$(median $(column $((i + 1)) "${b[@]}"))
    echo "ssd, ${what[$i]}: medians of $rounds: ours $x, rocksdb $y, $(times "$x" "$y") times"
  done
}

warnings
for row in "${rows[@]}"; do
  case "$row" in
    fill100) pair fill100 ours fillrandom 100 1 "$num" "$memory" -- rocks filluniquerandom 100 1 "$num" "$memory" ;;
    fill100x2) drawn fill100x2 100 2 "$num" "$memory" ;;
    fill1k) pair fill1k ours fillrandom 1024 1 $((num / 2)) "$memory" -- rocks filluniquerandom 1024 1 $((num / 2)) "$memory" ;;
    fill1kx2) drawn fill1kx2 1024 2 $((num / 2)) "$memory" ;;
    overwrite) pair overwrite ours_overwrite 100 "$num" "$memory" -- rocks filluniquerandom,overwrite 100 1 "$num" "$memory" ;;
    ycsb-a) ycsb a 50 ;;
    ycsb-b) ycsb b 95 ;;
    ycsb-c) ycsb c 100 ;;
    scans) scans ;;
    ycsb-e) ycsb_e ;;
    file) drawn file 1024 4 20000 "$disk" ;;
    buffered) buffered buffered100 100 $((num / 2)); buffered buffered1k 1024 $((num / 10)) ;;
    transactions) transactions 1; transactions 2 ;;
    ssd) ssd ;;
  esac
done
