#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Times full and incremental btrfs sends with a cold cache, on a block device or
# on a simulated disk in a virtual machine.
set -euo pipefail

self=$(realpath "${BASH_SOURCE[0]}")
scripts=$(dirname "$self")
top=$(dirname "$scripts")
readonly self scripts top

# Alone, without the rest of the project beside it (as in the kernel tree), this
# script measures block devices with the published test and prints a plain table.
alone=1
[[ ! -x $scripts/bench-workload || ! -x $scripts/bench-report ]] || alone=0
readonly alone

usage() {
	cat <<'USAGE'
usage: send-bench.sh [OPTION]...

Build a tree of files on a btrfs, take two snapshots and time the full and the
incremental send with a cold cache. Without --device this happens in a virtual
machine on a simulated disk and in virtual time, which needs the project
sendahead beside this script; without it, --device is needed.

What is measured:
  --device DEV          a block device; needs root, and what is on it is lost
  --erase               destroy a partition table or a file system on it
  --profile NAME        simulated disk (drivers/block/rotdisk/profiles/; default
                        desktop-7200)
  --kind uml|qemu|host  kind of virtual machine, see vm/run --help (default uml);
                        host: none, but a simulated disk in real time under this
                        machine's own kernel; needs root
  --clock disk|all      what takes time: the disk (default; the processor costs
                        nothing), or the processor as well: QEMU counts the
                        instructions of the timed sends, and the stream goes to
                        /dev/null (its checksum from one more send). Not with
                        --device, --kind, --to receive, --beside and program
  --processor desktop|nas|NS  ns an instruction with --clock all (default
                        desktop: 0.25; nas: 1)
  --kernel KERNEL       kernel of the virtual machine (default: first of SUPPORTED)
  --tree-kernel KERNEL  kernel that writes the tree (default: that of --kernel)
  --variants LIST       off, stock, patched, or another mode of btrfs.send_prefetch:
                        generation, exact; comma separated (default
                        off,stock,patched). Also searches: with patches/KERNEL/searches
                        only; program: build/sendahead instead of btrfs, at
                        both ends, on the untouched kernel; program-send,
                        program-receive: at one end only
  --parameter NAME=VAL  parameter of the patched btrfs module; may be repeated
  --memory SIZE         memory of the virtual machine without what its disk holds
                        (default 8G; the tree is built with 2G at least)
  --timeout SECONDS     give a virtual machine up after so long (default 3600)

The tree:
  --workload NAME       published, one of scripts/workloads (aged, compressed,
                        deduplicated, directories, hardlinks, nightly,
                        rewritten, sequential, snapshots), or a file of
                        KEY=value lines (with a slash), such as
                        --print-workload prints
  --print-workload      print the workload with the options below taken in
  --files N             number of files (default: the workload's)
  --jobs N              jobs writing them at once
  --inline-size BYTES   size of each file
  --update-every N      overwrite a part of every Nth file between the snapshots
  --grow N              files added between the snapshots (default: files / 4)
  --nodesize BYTES      size of a tree block
  --seed N              seed of everything random (default 1)
  --pace MIN-MAX        pause after each file and job, in milliseconds (0: none)
  --faithful            as published to the letter: one xfs_io process a file, the
                        stream to /dev/null (its checksum from one more send)

The send:
  --samples N           repeat each cold send N times (default 1)
  --to null|file|receive  where the stream goes; receive: into btrfs receive on a
                        second disk, which is synced within the time that is
                        told, and the result is compared with the source
  --receive-device DEV  that second disk when --device is given
  --receive-rounds N    let that disk live through N increments before the first
                        snapshot, each but the last deleted again (workloads that
                        have rounds, which are N at least; not with --device)
  --buffer SIZE         mbuffer of this size before btrfs receive; the program's
                        own buffer of this size where that receives
  --rate SIZE           bytes a second between the two, by pv: a slow network
  --no-data             btrfs send --no-data
  --compressed-data     btrfs send --compressed-data
  --beside reader|writer  time somebody else during each send: random reads of
                        4 KiB with pauses of 50 ms, or files that are made and
                        renamed, with pauses of 20 ms

Results:
  --output DIR          directory of this run (default results/<time>..., alone
                        send-bench-<time>...)
  --format table|json|tsv  what to print (default table)
  --no-trace            do not keep the trace of the disk's commands, and not which
                        trees its blocks belong to
  --count-instructions  count also what the processor executes for each send when
                        the disk is not needed, for bench-report --by-class: in
                        QEMU and by a kernel of its own (minutes, and twice four
                        more the first time; not with --device or --kind host)
  --dry-run             print every command, run none
  --help                this text

Exit status: 0 ok, 1 failed or void (streams differ), 2 usage, a device in use
or a disk full, 77 cannot run here, 128 a virtual machine was lost.
USAGE
}

# One line, however long and whatever is in a value that it repeats.
die() {
	local message=${1//[[:cntrl:]]/?}

	[[ ${#message} -le 500 ]] || message="${message:0:500} ..."
	echo "send-bench.sh: $message" >&2
	exit "${2:-1}"
}

note() {
	[[ $dry_run == 1 ]] || echo "send-bench.sh: $*" >&2
}

# Run a command, or only print it.
run() {
	if [[ $dry_run == 1 ]]; then
		printf '%q ' "$@"
		echo
	else
		"$@"
	fi
}

# The same, into a file.
run_to() {
	local file=$1

	shift
	if [[ $dry_run == 1 ]]; then
		printf '%q ' "$@"
		printf '> %q\n' "$file"
	else
		"$@" > "$file"
	fi
}

### Options

device=
erase=0
profile=desktop-7200
kind=uml
clock=disk
processor=
kernel=
tree_kernel=
variants=
parameters=()
memory=8G
timeout=3600
workload=published
declare -A override=()
seed=1
faithful=0
samples=1
to=null
receive_device=
receive_rounds=0
buffer=
rate=
no_data=0
compressed_data=0
beside=
output=
format=table
trace=1
count_instructions=0
dry_run=0
print_workload=0
# How this script calls itself, see the end of it.
readonly module=/sys/module/btrfs/parameters program=$top/build/sendahead
stage=
stage_variant=
stage_dir=
simulated=0
progress=0

# What the numbers of a workload may be, whether an option or a file gives them.
declare -rA ranges=(
	[FILES]=1-100000000 [JOBS]=1-256 [INLINE_SIZE]=1-1048576 [GROW]=0-100000000
	[UPDATE_EVERY]=1-100000000 [UPDATE_BYTES]=1-1048576 [MAX_INLINE]=0-65536
	[NODESIZE]=4096-65536 [DIRECTORIES]=1-100000000 [SIZE_MIN]=0-1000000000000
	[SIZE_MAX]=0-1000000000000 [SIZE_SKEW]=1-1000 [ROUNDS]=1-1000 [REWRITE]=0-100
	[DELETE]=0-100 [RENAME]=0-100 [ADD]=0-100 [SNAPSHOTS]=0-1000
	[FILE_SIZE]=1-1000000000000 [BLOCK_SIZE]=1-1000000000 [WRITES]=0-100000000
	[UPDATES]=0-100000000 [SYNC_EVERY]=1-100000000 [EXTENTS]=1-1000000
	[SHARERS]=1-100000000
	[PUBLISHED_FILES]=0-100000000
	[PUBLISHED_SNAP1_LINES]=0-10000000000 [PUBLISHED_SNAP2_LINES]=0-10000000000
)
# Those that may have decimals.
readonly decimals=' SIZE_SKEW REWRITE DELETE RENAME ADD '

# check_number WHAT VALUE MIN-MAX [decimal]
check_number() {
	local pattern='^(0|[1-9][0-9]{0,12})$' min=${3%-*} max=${3#*-}

	[[ -z ${4:-} ]] || pattern='^(0|[1-9][0-9]{0,12})([.][0-9]{1,6})?$'
	if [[ $2 =~ $pattern && ${BASH_REMATCH[1]} -ge $min ]]; then
		[[ ${BASH_REMATCH[1]} -ge $max && $2 != "$max" ]] || return 0
	fi
	die "$1 takes a number from $min to $max, not '$2'" 2
}

# check_key WHAT VALUE KEY: the same for a number of the workload.
check_key() {
	local decimal=

	[[ $decimals != *" $3 "* ]] || decimal=1
	check_number "$1" "$2" "${ranges[$3]}" "$decimal"
}

need() {
	[[ $# -ge 2 && -n $2 ]] || die "$1 needs a value, see send-bench.sh --help" 2
}

need_number() {
	need "$1" "${@:3}"
	check_number "$1" "$3" "$2"
}

# need_key KEY OPTION VALUE...: a number that overrides that of the workload.
need_key() {
	need "${@:2}"
	check_key "$2" "$3" "$1"
	override[$1]=$3
}

arguments=("$@")
options=$#
while [[ $# -gt 0 ]]; do
	case $1 in
	--device) need "$@"; device=$2; shift 2 ;;
	--erase) erase=1; shift ;;
	--profile) need "$@"; profile=$2; shift 2 ;;
	--kind) need "$@"; kind=$2; shift 2 ;;
	--clock) need "$@"; clock=$2; shift 2 ;;
	--processor) need "$@"; processor=$2; shift 2 ;;
	--kernel) need "$@"; kernel=$2; shift 2 ;;
	--tree-kernel) need "$@"; tree_kernel=$2; shift 2 ;;
	--variants) need "$@"; variants=$2; shift 2 ;;
	--parameter) need "$@"; parameters+=("$2"); shift 2 ;;
	--memory) need "$@"; memory=$2; shift 2 ;;
	--timeout) need_number "$1" 0-1000000000 "${@:2}"; timeout=$2; shift 2 ;;
	--workload) need "$@"; workload=$2; shift 2 ;;
	--print-workload) print_workload=1; shift ;;
	--files) need_key FILES "$@"; shift 2 ;;
	--jobs) need_key JOBS "$@"; shift 2 ;;
	--inline-size) need_key INLINE_SIZE "$@"; shift 2 ;;
	--update-every) need_key UPDATE_EVERY "$@"; shift 2 ;;
	--grow) need_key GROW "$@"; shift 2 ;;
	--nodesize) need_key NODESIZE "$@"; shift 2 ;;
	--pace) need "$@"; override[PACE]=$2; shift 2 ;;
	--seed) need_number "$1" 0-1000000000000 "${@:2}"; seed=$2; shift 2 ;;
	--faithful) faithful=1; shift ;;
	--samples) need_number "$1" 1-1000 "${@:2}"; samples=$2; shift 2 ;;
	--to) need "$@"; to=$2; shift 2 ;;
	--receive-device) need "$@"; receive_device=$2; shift 2 ;;
	--receive-rounds) need_number "$1" 1-1000 "${@:2}"; receive_rounds=$2; shift 2 ;;
	--buffer) need "$@"; buffer=$2; shift 2 ;;
	--rate) need "$@"; rate=$2; shift 2 ;;
	--no-data) no_data=1; shift ;;
	--compressed-data) compressed_data=1; shift ;;
	--beside) need "$@"; beside=$2; shift 2 ;;
	--output)
		need "$@"
		output=$2
		# what is measured does not hang on how long it is
		unset "arguments[options - $#]" "arguments[options - $# + 1]"
		shift 2
		;;
	--format) need "$@"; format=$2; shift 2 ;;
	--no-trace) trace=0; shift ;;
	--count-instructions) count_instructions=1; shift ;;
	--dry-run) dry_run=1; shift ;;
	--help) usage; exit 0 ;;
	--stage) stage=$2; shift 2 ;;
	--stage-variant) stage_variant=$2; shift 2 ;;
	--stage-dir) stage_dir=$2; shift 2 ;;
	--simulated) simulated=1; shift ;;
	--progress) progress=1; shift ;;
	*) die "unknown argument '$1', see send-bench.sh --help" 2 ;;
	esac
done

case $to in
null|file|receive) ;;
*) die "--to takes null, file or receive, not '$to'" 2 ;;
esac
[[ $beside =~ ^(reader|writer|)$ ]] || die "--beside takes reader or writer, not '$beside'" 2
[[ -z $beside || $alone == 0 ]] || die "--beside needs the project sendahead beside this script" 2
[[ $kind =~ ^(uml|qemu|host)$ ]] || die "--kind takes uml, qemu or host, not '$kind'" 2
if [[ $kind == host && $simulated == 0 ]]; then
	for argument in "${arguments[@]}"; do
		[[ ! $argument =~ ^--(device|(tree-)?kernel|memory|timeout|count-.*)$ ]] ||
			die "$argument does not go with --kind host" 2
	done
fi
[[ $clock =~ ^(disk|all)$ ]] || die "--clock takes disk or all, not '$clock'" 2
# ns an instruction, with --clock all; null without.
instruction_ns=null
if [[ $clock == all ]]; then
	case ${processor:-desktop} in
	desktop) instruction_ns=0.25 ;;
	nas) instruction_ns=1 ;;
	*) instruction_ns=$processor ;;
	esac
	[[ $instruction_ns =~ ^(0[.][1-9][0-9]{0,2}|[1-9]([.][0-9]{1,3})?)$ ]] ||
		die "--processor takes desktop, nas or 0.1 to 9.999 ns, not '$processor'" 2
	if [[ ($simulated == 0 && -n $device) || $kind != uml || $to == receive ||
	      -n $beside || $variants == *program* ]]; then
		die "--clock all goes without --device, --kind, --to receive, --beside, program" 2
	fi
elif [[ -n $processor ]]; then
	die "--processor goes with --clock all" 2
fi
# Does this machine's own kernel send, in real time?
own_kernel=0
if [[ $kind == host || (-n $device && $simulated == 0) ]]; then
	own_kernel=1
fi
for option in memory buffer rate; do
	[[ ${!option:-1M} =~ ^[1-9][0-9]{0,5}[KMG]$ ]] ||
		die "--$option takes a size such as 512M or 8G, not '${!option}'" 2
done
[[ ! $buffer =~ K$ || ${buffer%K} -ge 1024 ]] || die "--buffer takes 1M at least, not '$buffer'" 2
if [[ $receive_rounds$buffer$rate != 0 ]]; then
	[[ $to == receive ]] ||
		die "--receive-rounds, --buffer and --rate go with --to receive" 2
	[[ $receive_rounds == 0 || -z $device || $simulated == 1 ]] ||
		die "--receive-rounds does not go with --device" 2
fi
case $format in
table|json|tsv) ;;
*) die "--format takes table, json or tsv, not '$format'" 2 ;;
esac
for parameter in "${parameters[@]}"; do
	[[ $parameter =~ ^[a-z_]+=[^[:space:]]+$ ]] ||
		die "--parameter takes NAME=VALUE, not '$parameter'" 2
done
if [[ $simulated == 0 ]]; then
	if [[ -n $device && $to == receive && -z $receive_device ]]; then
		die "--to receive on a device needs a second disk: --receive-device" 2
	fi
	if [[ -z $device && -n $receive_device ]]; then
		die "--receive-device goes with --device" 2
	fi
	if [[ -n $device && $count_instructions == 1 ]]; then
		die "--count-instructions does not go with --device" 2
	fi
fi

# The published test: the workload of the Linux commit 2ce73c633573 ("btrfs: add
# btree read ahead for incremental send operations", 5.13). One directory of
# small files whose data lies inline in the leaves, so that a send reads
# metadata and nothing else.
published_workload() {
	cat <<'WORKLOAD'
# FILES files of INLINE_SIZE bytes of 0xab are written by JOBS concurrent jobs;
# snapshot snap1. GROW more files (empty: a quarter of FILES) are written and
# the first UPDATE_BYTES bytes of every UPDATE_EVERYth of the first FILES files
# are overwritten with 0xcd; snapshot snap2.
GENERATOR=published
FILES=200000
JOBS=4
INLINE_SIZE=2000
GROW=
UPDATE_EVERY=50
UPDATE_BYTES=20
# The pause after each file and job in milliseconds: about what one xfs_io
# process a file costs, as the commit's script runs them.
PACE=1-3
MAX_INLINE=2048
NODESIZE=16384
# The commit prints these counts of "node" and "leaf" lines of
# "btrfs inspect-internal dump-tree -t 5", which prints two such lines a block.
PUBLISHED_FILES=200000
PUBLISHED_SNAP1_LINES=62600
PUBLISHED_SNAP2_LINES=77759
WORKLOAD
}

workload_names() {
	{
		echo published
		[[ ! -d $scripts/workloads ]] || ls "$scripts/workloads"
	} | LC_ALL=C sort | paste --serial --delimiters=' '
}

no_workload() {
	printf "no workload '%s': there are %s, or name a file (with a slash)" "$workload" \
		"$(workload_names)"
}

# The workload: KEY=value lines, overridden by the options.
declare -A work=()
workload_lines=
read_workload() {
	local file=$workload line key number
	local keys='GENERATOR FILES JOBS INLINE_SIZE GROW UPDATE_EVERY UPDATE_BYTES PACE MAX_INLINE
		NODESIZE PUBLISHED_FILES PUBLISHED_SNAP1_LINES PUBLISHED_SNAP2_LINES DIRECTORIES
		SIZE_MIN SIZE_MAX SIZE_SKEW ROUNDS REWRITE DELETE RENAME ADD SNAPSHOTS
		COMPRESS FILE_SIZE BLOCK_SIZE WRITES UPDATES SYNC_EVERY EXTENTS SHARERS'

	if [[ $workload == published ]]; then
		workload_lines=$(published_workload)
	else
		[[ $file == */* ]] || file=$scripts/workloads/$workload
		[[ -r $file && -f $file ]] ||
			die "$(no_workload)" 2
		workload_lines=$(< "$file")
	fi
	while IFS= read -r line; do
		[[ -n $line && $line != '#'* ]] || continue
		key=${line%%=*}
		[[ $line == *=* && " ${keys//[[:space:]]/ } " == *" $key "* ]] ||
			die "$file: '$line' is not one of: ${keys//[[:space:]]/ }" 2
		work[$key]=${line#*=}
	done <<< "$workload_lines"
	case ${work[GENERATOR]:-} in
	published) keys='JOBS INLINE_SIZE UPDATE_EVERY UPDATE_BYTES' ;;
	aged) keys='DIRECTORIES SIZE_MIN SIZE_MAX SIZE_SKEW ROUNDS REWRITE DELETE RENAME ADD' ;;
	rewritten) keys='FILE_SIZE BLOCK_SIZE WRITES UPDATES SYNC_EVERY' ;;
	rotated) keys='DIRECTORIES SIZE_MIN SIZE_MAX SIZE_SKEW ROUNDS REWRITE' ;;
	deduplicated) keys='DIRECTORIES EXTENTS SHARERS BLOCK_SIZE REWRITE' ;;
	*)
		die "$file: GENERATOR must be published, aged, rewritten, rotated or \
deduplicated, not '${work[GENERATOR]:-}'" 2
		;;
	esac
	for key in FILES PACE MAX_INLINE NODESIZE $keys; do
		[[ -n ${work[$key]:-} ]] || die "$file: $key is missing" 2
	done
	for key in "${!work[@]}"; do
		[[ -z ${ranges[$key]:-} || -z ${work[$key]} ]] ||
			check_key "$file: $key" "${work[$key]}" "$key"
	done
	for key in "${!override[@]}"; do
		[[ -n ${work[$key]+x} ]] || die "the workload $workload has no $key to set" 2
		work[$key]=${override[$key]}
	done
	if [[ ${work[GENERATOR]} == published && -z ${work[GROW]:-} ]]; then
		work[GROW]=$((work[FILES] / 4))
	fi
	if [[ $receive_rounds -gt 0 ]]; then
		[[ ${work[GENERATOR]} =~ ^(aged|rotated)$ ]] ||
			die "--receive-rounds needs a workload of rounds, $workload has none" 2
		((work[ROUNDS] >= receive_rounds)) || work[ROUNDS]=$receive_rounds
	fi
	number='(0|[1-9][0-9]{0,5})([.][0-9]{1,6})?'
	if [[ ! ${work[PACE]} =~ ^$number(-$number)?$ ]] ||
	   ! tr - '\n' <<< "${work[PACE]}" |
	     LC_ALL=C sort --general-numeric-sort --check=quiet; then
		die "the pace is MIN-MAX milliseconds, not '${work[PACE]}'" 2
	fi
	case ${work[NODESIZE]} in
	4096|8192|16384|32768|65536) ;;
	*) die "the nodesize is 4096, 8192, 16384, 32768 or 65536, not '${work[NODESIZE]}'" 2 ;;
	esac
}
read_workload

# Is each file written by a process of its own, as the published script does? The
# pace stands for the cost of that and goes where processes have a real one.
process_a_file() {
	[[ $faithful == 1 || $alone == 1 ]]
}
if process_a_file && [[ $own_kernel == 1 && -z ${override[PACE]:-} ]]; then
	work[PACE]=0
fi

# The workload in force, comments and all.
if [[ $print_workload == 1 ]]; then
	while IFS= read -r line; do
		key=${line%%=*}
		[[ -n $line && $line != '#'* ]] && line=$key=${work[$key]}
		printf '%s\n' "$line"
	done <<< "$workload_lines"
	exit 0
fi

if [[ $alone == 1 ]]; then
	[[ -n $device ]] ||
		die "the simulated disk needs the project sendahead, name a disk with --device" 77
	[[ ${work[GENERATOR]} == published ]] ||
		die "the workload $workload needs the project sendahead" 77
fi

### The disk: a real one, or a simulated one that has a clock of its own

# Turn the simulated disk's timing on or off: while a tree is built the disk
# answers at once.
disk_timing() {
	[[ $simulated == 1 ]] || return 0
	run "$scripts/rotdisk" timing "$disk" "$1"
	[[ $to != receive ]] || run "$scripts/rotdisk" timing "$receive_disk" "$1"
}

# requests and sectors read so far, of a real disk
disk_stat() {
	awk '{ print $1, $3 }' "/sys/class/block/$(basename "$device")/stat"
}

disk=bench
receive_disk=receive
make_simulated_disks() {
	local options=("$stage_dir/profile.conf")

	[[ $clock$stage != allmeasure ]] || options=("$stage_dir/slow.conf")
	if [[ $kind == host ]]; then
		disk+=-${SENDAHEAD_RUN:-RUN}
		receive_disk+=-${SENDAHEAD_RUN:-RUN}
		options+=(--fuse)
	fi
	device=$(run "$scripts/rotdisk" create "$disk" "${options[@]}")
	if [[ $dry_run == 1 ]]; then
		echo "$device"
		device=/dev/rotdisk0
	fi
	if [[ $to == receive ]]; then
		receive_device=$(run "$scripts/rotdisk" create "$receive_disk" "${options[@]}")
		if [[ $dry_run == 1 ]]; then
			echo "$receive_device"
			receive_device=/dev/rotdisk1
		fi
	fi
}

# Refuse a device that is in use or holds something.
check_device() {
	local dev=$1 real found='' line name

	[[ -b $dev ]] || die "$dev is not a block device" 2
	real=$(realpath "$dev")
	name=$(basename "$real")
	while IFS= read -r line; do
		[[ -z $line ]] || found+="  mounted or swapped on: $line"$'\n'
	done < <(lsblk --noheadings --list --output NAME,MOUNTPOINTS "$real" | awk 'NF > 1')
	for line in "/sys/class/block/$name/holders"/* "/sys/class/block/$name/$name"*/holders/*; do
		[[ ! -e $line ]] || found+="  held by: $(basename "$line")"$'\n'
	done
	if [[ -n $found ]]; then
		printf '%s' "$found" >&2
		found="unmount it and stop what holds it first, --erase does not do that"
		die "$dev is in use (above): $found" 2
	fi
	while IFS= read -r line; do
		[[ -z $line ]] || found+="  signature: $line"$'\n'
	done < <(wipefs --no-act --noheadings --output TYPE,LABEL,UUID,OFFSET "$real")
	for line in "/sys/class/block/$name/$name"*/partition; do
		[[ ! -e $line ]] || found+="  partition: $(basename "$(dirname "$line")")"$'\n'
	done
	[[ -n $found ]] || return 0
	printf '%s' "$found" >&2
	[[ $erase == 1 ]] ||
		die "$dev holds what is listed above: give --erase to destroy it" 2
	note "--erase: destroying the above on $dev"
	run wipefs --all --quiet "$real"
}

# What disk is this? Ask fio, in its own words: JSON.
measure_device() {
	local fewer=1 fio=(fio --name=probe "--filename=$device" --readonly --direct=1
		--ioengine=libaio --thread --clocksource=clock_gettime --randrepeat=1
		--output-format=json)

	if [[ $alone == 1 ]] && ! type -P fio > /dev/null; then
		skip "fio's view of the disk: fio is not installed"
		[[ $dry_run == 1 ]] || echo null > "$stage_dir/fio.json"
		return
	fi
	note "measuring the device with fio"
	[[ $kind != host ]] || fewer=5 # seconds are real ones here
	run_to "$stage_dir/fio-qd1.json" "${fio[@]}" --rw=randread --bs=16k --iodepth=1 \
		--number_ios="$((300 / fewer))"
	run_to "$stage_dir/fio-qd32.json" "${fio[@]}" --rw=randread --bs=16k --iodepth=32 \
		--number_ios="$((2000 / fewer))"
	run_to "$stage_dir/fio-seq.json" "${fio[@]}" --rw=read --bs=1m --iodepth=2 --size=256m
	[[ $dry_run == 0 ]] || return 0
	jq --slurp '
		def random: .jobs[0].read | {iops, mean_latency_ns: (.lat_ns.mean | floor)};
		{randread_qd1: (.[0] | random), randread_qd32: (.[1] | random),
		 seqread: {bytes_per_second: .[2].jobs[0].read.bw_bytes}}' \
		"$stage_dir"/fio-{qd1,qd32,seq}.json > "$stage_dir/fio.json"
}

### The tree

mnt=
mount_bench() {
	run mount --types btrfs --options "${1:-defaults}" "$device" "$mnt"
}

# Say how far a step is, for show_progress.
tell_progress() {
	[[ $progress == 0 ]] || echo "@progress $*" >&2
}

# One job of write_files: write to every STEPth of the files FIRST to LAST. What
# xfs_io complains of goes to a file: it may do so and end with 0.
write_job() {
	local what=$1 job=$2 jobs=$3 first=$4 last=$5 step=$6 number low high
	local total=$(((last - first) / step + 1))

	shift 6
	RANDOM=$(((seed + 31 * job + first) % 32768))
	low=${work[PACE]%-*}
	high=${work[PACE]#*-}
	for ((number = first; number <= last; number += step)); do
		if ((job == 0 && (number - first) / step % 50 == 0)); then
			tell_progress $(((number - first) * jobs / step)) $((total * jobs)) "$what"
		fi
		xfs_io "$@" "$mnt/file_$number" > /dev/null 2>> "$work_dir/complaints"
		if [[ $pause == 1 ]]; then
			sleep "$(awk -v low="$low" -v high="$high" -v random="$RANDOM" \
				'BEGIN { print (low + (high - low) * random / 32768) / 1000 }')"
		fi
	done
	((job != 0)) || tell_progress $((total * jobs)) $((total * jobs)) "$what"
}

# Is the file system of a folder full, or as good as?
is_full() {
	[[ $(df --output=avail --block-size=1M "$1" | tail --lines=1) -lt 4 ]]
}

# tree_failed WHY: or because the tree does not fit on the disk.
tree_failed() {
	! is_full "$mnt" || die "the disk is full: take fewer files or a larger disk" 2
	die "$1"
}

# Write to every STEPth of the files FIRST to LAST, with JOBS jobs at once, each
# with a contiguous part: write_files WHAT JOBS FIRST LAST STEP XFS_IO-ARGUMENT...
writers=()
write_files() {
	local what=$1 jobs=$2 first=$3 last=$4 step=$5 job low high pause=0 failed=0
	shift 5
	local count=$((last - first + 1))

	note "$what"
	if [[ $dry_run == 1 ]]; then
		printf '# for N from %d to %d by %d, %d at once: ' "$first" "$last" "$step" "$jobs"
		printf '%q ' xfs_io "$@"
		printf '%s/file_N\n' "$mnt"
		return
	fi
	[[ ${work[PACE]} == 0 ]] || pause=1
	: > "$work_dir/complaints"
	writers=()
	for ((job = 0; job < jobs; job++)); do
		low=$((first + count * job / jobs))
		high=$((first + count * (job + 1) / jobs - 1))
		((low <= high)) || continue
		write_job "$what" "$job" "$jobs" "$low" "$high" "$step" "$@" &
		writers+=($!)
	done
	for job in "${writers[@]}"; do
		wait "$job" || failed=1
	done
	writers=()
	[[ $failed == 0 && ! -s $work_dir/complaints ]] ||
		tree_failed "xfs_io failed: $(head --lines=1 "$work_dir/complaints")"
}

# Write the published test's files FIRST + 1 to FIRST + COUNT.
create_files() {
	local first=$1 count=$2 each=(-f -c "pwrite -q -S 0xab 0 ${work[INLINE_SIZE]}")

	if process_a_file; then
		write_files "creating files" "${work[JOBS]}" $((first + 1)) $((first + count)) 1 \
			"${each[@]}"
		return
	fi
	workload_step create --first "$first" --count "$count" --jobs "${work[JOBS]}" \
		--size "${work[INLINE_SIZE]}" --byte 0xab
}

# Overwrite the start of every so many-th of them.
update_files() {
	local every=${work[UPDATE_EVERY]}

	if process_a_file; then
		write_files "updating files" 1 "$every" "${work[FILES]}" "$every" \
			-c "pwrite -q -S 0xcd 0 ${work[UPDATE_BYTES]}"
		return
	fi
	workload_step update --count "${work[FILES]}" --every "$every" \
		--size "${work[UPDATE_BYTES]}" --byte 0xcd
}

workload_step() {
	local options=(--seed "$seed" --pace "${work[PACE]}")

	[[ $progress == 0 ]] || options+=(--progress)
	run "$scripts/bench-workload" "${options[@]}" "$@" "$mnt" ||
		tree_failed "the tree could not be written, see above"
}

age_step() {
	workload_step age --round "$1" --count "${work[FILES]}" \
		--directories "${work[DIRECTORIES]}" \
		--size-min "${work[SIZE_MIN]}" --size-max "${work[SIZE_MAX]}" \
		--size-skew "${work[SIZE_SKEW]}" --rewrite "${work[REWRITE]}" \
		--delete "${work[DELETE]}" --rename "${work[RENAME]}" --add "${work[ADD]}" \
		${work[COMPRESS]:+--compressible}
	run sync --file-system "$mnt"
}

# A step of the one large file: rewrite_step ROUND COUNT
rewrite_step() {
	workload_step rewrite --round "$1" --count "$2" --size "${work[FILE_SIZE]}" \
		--block "${work[BLOCK_SIZE]}" --sync-every "${work[SYNC_EVERY]}"
	run sync --file-system "$mnt"
}

# All of a tree, a subtree of the root node a process: the tool keeps every block
# it has read in memory, and a process of User Mode Linux needs one mapping of
# the host for each of its pages, of which 65,530 is the usual limit.
dump_tree() {
	local root child children

	root=$(btrfs inspect-internal dump-tree --roots "$device" |
		awk '/^fs tree key/ { print $(NF - 2) }')
	[[ $root =~ ^[0-9]+$ ]] ||
		die "btrfs inspect-internal dump-tree --roots does not name the fs tree of $device"
	children=$(btrfs inspect-internal dump-tree --block "$root" "$device" |
		tee >(cat >&3) | awk '/^\tkey .* block [0-9]+ / { sub(/.* block /, ""); print $1 }')
	for child in $children; do
		btrfs inspect-internal dump-tree --follow --block "$child" "$device" >&3
	done
}

# Nodes, leaves and levels of the tree of files as it is on the disk now.
count_tree() {
	run sync --file-system "$mnt"
	run blockdev --flushbufs "$device"
	if [[ $dry_run == 1 ]]; then
		printf '# nodes and leaves, a child of the root at a time: '
		echo "btrfs inspect-internal dump-tree --follow --block BLOCK $device"
		return
	fi
	{ dump_tree 3>&1 >&2; } | LC_ALL=C awk '
		/^(node|leaf) / { printed++ }
		/^node [0-9]+ level/ && $4 >= levels { levels = $4 + 1 }
		/^(node [0-9]+ level|leaf [0-9]+ items)/ { blocks++ }
		END {
			printf "{\"blocks\":%d,\"printed\":%d,\"levels\":%d}\n",
				blocks, printed, levels ? levels : 1
		}
	' > "$stage_dir/tree-$1.json"
}

snapshot() {
	count_tree "$1"
	run_to /dev/null btrfs subvolume snapshot -r "$mnt" "$mnt/$1"
}

# A round of the tree of hard links.
rotate_step() {
	workload_step rotate --round "$1" --keep "${work[ROUNDS]}" --count "${work[FILES]}" \
		--directories "${work[DIRECTORIES]}" \
		--size-min "${work[SIZE_MIN]}" --size-max "${work[SIZE_MAX]}" \
		--size-skew "${work[SIZE_SKEW]}" --rewrite "${work[REWRITE]}"
	run sync --file-system "$mnt"
}

# The tree of shared extents, or some of its files anew.
share_step() {
	workload_step share --round "$1" --count "${work[FILES]}" \
		--directories "${work[DIRECTORIES]}" --extents "${work[EXTENTS]}" \
		--sharers "${work[SHARERS]}" --block "${work[BLOCK_SIZE]}" \
		--rewrite "${work[REWRITE]}"
	run sync --file-system "$mnt"
}

# One more increment for a backup disk; then only what that stands on is left.
received=
receive_round() {
	local name=received$1 parent=() disk

	[[ $receive_rounds -gt 0 && $1 -ge $((work[ROUNDS] - receive_rounds)) ]] || return 0
	[[ -z $received ]] || parent=(-p "$mnt/$received")
	if [[ $1 == "${work[ROUNDS]}" ]]; then
		name=snap1
	else
		run_to /dev/null btrfs subvolume snapshot -r "$mnt" "$mnt/$name"
	fi
	if [[ $dry_run == 1 ]]; then
		echo "btrfs send ${parent[*]} $mnt/$name | btrfs receive $receive_mnt"
	else
		btrfs send --quiet "${parent[@]}" "$mnt/$name" |
			btrfs receive --quiet "$receive_mnt"
	fi
	for disk in "$mnt" "$receive_mnt"; do
		[[ -z $received ]] || run_to /dev/null btrfs subvolume delete "$disk/$received"
		# nothing of it is to be left to do when time counts
		run_to /dev/null btrfs subvolume sync "$disk"
	done
	received=$name
}

build_published() {
	create_files 0 "${work[FILES]}"
	snapshot snap1
	if [[ ${work[GROW]} -gt 0 ]]; then
		create_files "${work[FILES]}" "${work[GROW]}"
	fi
	update_files
	snapshot snap2
}

build_aged() {
	local round

	for ((round = 0; round < work[ROUNDS]; round++)); do
		if ((round > 0 && round >= work[ROUNDS] - ${work[SNAPSHOTS]:-0})); then
			run_to /dev/null btrfs subvolume snapshot -r "$mnt" "$mnt/old$round"
		fi
		age_step "$round"
		receive_round "$round"
	done
	snapshot snap1
	receive_round "${work[ROUNDS]}"
	age_step "${work[ROUNDS]}"
	snapshot snap2
}

build_rewritten() {
	rewrite_step 0 "${work[WRITES]}"
	snapshot snap1
	rewrite_step 1 "${work[UPDATES]}"
	snapshot snap2
}

build_rotated() {
	local round

	for ((round = 0; round < work[ROUNDS]; round++)); do
		rotate_step "$round"
		receive_round "$round"
	done
	snapshot snap1
	receive_round "${work[ROUNDS]}"
	rotate_step "${work[ROUNDS]}"
	snapshot snap2
}

build_deduplicated() {
	share_step 0
	snapshot snap1
	share_step 1
	snapshot snap2
}

# An empty file system on the receiving disk.
make_receiver() {
	run_to /dev/null mkfs.btrfs --force --quiet --nodiscard "$receive_device"
	run mount --types btrfs "$receive_device" "$receive_mnt"
}

build_tree() {
	local uuid=()

	note "building the tree: ${work[GENERATOR]}, ${work[FILES]} files"
	disk_timing off
	# several runs may be on this machine, and a kernel takes a file system once only
	[[ $kind == host ]] || uuid=(--uuid 5e1dab1e-0000-4000-8000-000000000001)
	run_to /dev/null mkfs.btrfs --force --quiet --nodiscard --nodesize "${work[NODESIZE]}" \
		--metadata dup "${uuid[@]}" "$device"
	mount_bench "max_inline=${work[MAX_INLINE]}${work[COMPRESS]:+,compress=${work[COMPRESS]}}"
	[[ $receive_rounds == 0 ]] || make_receiver
	"build_${work[GENERATOR]}"
	run umount "$mnt"
	if [[ $receive_rounds -gt 0 ]]; then
		run umount "$receive_mnt"
		run "$scripts/rotdisk" save "$receive_disk" "$stage_dir/receive-disk"
	fi
	[[ $dry_run == 1 ]] || btrfs --version |
		awk 'NR == 1 { sub(/^v/, "", $2); print $2 }' > "$stage_dir/btrfs-progs"
	disk_timing on
}

### The send

skip() {
	if [[ $dry_run == 1 ]]; then
		echo "# skipped: $1"
		return
	fi
	if ! grep --quiet --line-regexp --fixed-strings "$1" "$stage_dir/skipped" 2>/dev/null; then
		note "skipped: $1"
		echo "$1" >> "$stage_dir/skipped"
	fi
}

# Nothing of the tree is in any memory after this, neither ours nor the drive's.
make_cold() {
	local why

	run umount "$mnt"
	# what others have to write is not ours to wait for in real time
	[[ $kind == host ]] || run sync
	if [[ $dry_run == 1 ]]; then
		echo 'echo 3 > /proc/sys/vm/drop_caches'
	else
		echo 3 > /proc/sys/vm/drop_caches
	fi
	run blockdev --flushbufs "$device"
	if [[ $simulated == 1 ]]; then
		skip "hdparm -F: the simulated disk takes no ATA commands"
	elif [[ $dry_run == 1 ]]; then
		run hdparm -F "$device"
	elif ! why=$(hdparm -F "$device" 2>&1); then
		skip "hdparm -F: $(grep --max-count=1 --invert-match '^$\|:$' <<< "$why" || true)"
	fi
	mount_bench
}

now_ns() {
	# EPOCHREALTIME has microseconds behind whatever the locale's point is
	echo "${EPOCHREALTIME/[^0-9]/}000"
}

# Where the stream goes. Standard input is the stream; leaves its checksum,
# length and the time of its first byte in files of $work_dir.
take_stream() {
	{
		head --bytes=1 > "$work_dir/first"
		now_ns > "$work_dir/first_byte"
		cat "$work_dir/first" -
	} | tee >(wc --bytes > "$work_dir/bytes") | "$@"
}

to_sha256() {
	sha256sum | cut --delimiter=' ' --fields=1 > "$work_dir/sha256"
}

# What sends and what receives, in "sender" and "receiver".
set_ends() {
	sender=(btrfs send --quiet)
	receiver=(btrfs receive --quiet)
	[[ ! $stage_variant =~ ^program(-send)?$ ]] || sender=("$program" send --quiet)
	if [[ $stage_variant =~ ^program(-receive)?$ ]]; then
		receiver=("$program" receive --quiet ${buffer:+--buffer "$buffer"})
	elif [[ -n $buffer ]]; then
		receiver=(through mbuffer -q -m "$buffer" -- "${receiver[@]}")
	fi
	[[ -z $rate ]] || receiver=(through pv --quiet --rate-limit "$rate" -- "${receiver[@]}")
	receiver+=("$receive_dir")
}

# through COMMAND... -- COMMAND...: the one, piped into the other
through() {
	local first=()

	while [[ $1 != -- ]]; do
		first+=("$1")
		shift
	done
	shift
	"${first[@]}" | "$@"
}

to_receive() {
	tee >(to_sha256_signal) | "${receiver[@]}"
}

# A process substitution is not waited for: it says itself when it is done.
to_sha256_signal() {
	sha256sum | cut --delimiter=' ' --fields=1 > "$work_dir/sha256.tmp"
	mv "$work_dir/sha256.tmp" "$work_dir/sha256"
}

wait_for_file() {
	while [[ ! -s $1 ]]; do
		sleep 0.01
	done
}

# What a machine that counts instructions has of the host from its start.
programs="awk basename blockdev btrfs chroot cut date dirname env findmnt grep gzip head jq ls
	mktemp mountpoint numfmt paste readlink realpath rm rmdir sed sha256sum sort stat
	tail tee tr umount wc"

# Wait for a multiple of ten seconds, so that the disk has turned as far at the start of
# each send.
await_start() {
	local uptime

	read -r uptime _ < /proc/uptime
	# clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)
	perl -e '$time = pack "qq", @ARGV; syscall 230, 1, 1, $time, 0' \
		$(((${uptime%.*} / 10 + 1) * 10)) 0
}

# Run a command, and leave the seconds it took of the processor, user's and system's.
count_processor() {
	local TIMEFORMAT='%U %S'

	{ time "$@" 2>&3; } 3>&2 2> "$work_dir/processor"
}

# Somebody else at the disk, until "end", which leaves what that took.
beside() {
	local path=$device

	[[ -n $beside ]] || return 0
	if [[ $1 == end ]]; then
		kill "$beside_pid"
		wait "$beside_pid" || die "what was beside the send has failed"
		return
	fi
	[[ $beside == reader ]] || path=$mnt
	if [[ $dry_run == 1 ]]; then
		echo "$scripts/bench-beside $beside $path &"
		return
	fi
	"$scripts/bench-beside" "$beside" "$path" > "$work_dir/beside" &
	beside_pid=$!
	wait_for_file "$work_dir/beside"
}

# The timed command. Sets start and end (ns).
timed_send() {
	local sender receiver send up now

	set_ends
	send=("${sender[@]}" "${send_options[@]}")
	if [[ $dry_run == 1 ]]; then
		case $to$apart in
		null1) printf '%q ' "${send[@]}"; echo '> /dev/null'
			echo '# and once more, cold and untimed, into sha256sum' ;;
		null0) printf '%q ' "${send[@]}"; echo '| sha256sum' ;;
		file*) printf '%q ' "${send[@]}" -f "$work_dir/stream"; echo
			echo "sha256sum $work_dir/stream" ;;
		receive*) printf '%q ' "${send[@]}"
			printf '| tee >(sha256sum) | '
			printf '%q ' "${receiver[@]}" | sed 's/through //g; s/ -- / | /g'
			printf '; sync --file-system %q\n' "$receive_mnt" ;;
		esac
		return
	fi
	rm -f "$work_dir"/{sha256,bytes,first,first_byte,stream,beside}
	[[ $clock == disk ]] || await_start
	beside begin
	[[ $clock == all ]] || send=(count_processor "${send[@]}")
	read -r up _ < /proc/uptime
	start=$(now_ns)
	case $to$apart in
	null1) "${send[@]}" > /dev/null; end=$(now_ns) ;;
	null0) "${send[@]}" | take_stream to_sha256; end=$(now_ns) ;;
	file*) "${send[@]}" -f "$work_dir/stream"; end=$(now_ns)
		to_sha256 < "$work_dir/stream"
		stat --format=%s "$work_dir/stream" > "$work_dir/bytes"
		rm "$work_dir/stream" ;;
	receive*) "${send[@]}" | take_stream to_receive; sync_start=$(now_ns)
		sync --file-system "$receive_mnt"; end=$(now_ns) ;;
	esac
	beside end
	[[ $own_kernel == 1 ]] || return 0
	# these have 10 ms, and go on whatever somebody does to the clock
	read -r now _ < /proc/uptime
	((end - start - (10#${now/./} - 10#${up/./}) * 10000000 < 100000000 &&
		(10#${now/./} - 10#${up/./}) * 10000000 - (end - start) < 100000000)) ||
		[[ $to == file ]] || die "the clock was set during a send, run it again"
}

# The received snapshot must hold what the sent one holds. The snapshots before it
# lie in the subvolume that it was made of and left empty directories of their
# names, which are no items of that tree and not sent.
compare_received() {
	local snap=$1

	run diff --recursive --no-dereference --brief --exclude=snap1 \
		--exclude='old[0-9]*' --exclude='received[0-9]*' \
		"$mnt/$snap" "$receive_dir/$snap" ||
		die "$snap differs after receive (variant $stage_variant)"
	[[ $dry_run == 0 ]] || return 0
	list_metadata "$mnt/$snap" > "$work_dir/sent"
	list_metadata "$receive_dir/$snap" > "$work_dir/received"
	cmp "$work_dir/sent" "$work_dir/received" ||
		die "names, modes or times of $snap differ after receive (variant $stage_variant)"
}

# Without the time of the snapshot's own directory: a stream makes each file under a
# temporary name there and tells its time before the last of them.
list_metadata() {
	(cd "$1" && find . '(' -path ./snap1 -o -path './old[0-9]*' -o -path './received[0-9]*' \
		')' -prune -o -path . -printf '%p %y %m %U %G\n' \
		-o -type d -printf '%p %y %m %U %G %T@\n' \
		-o -printf '%p %y %m %U %G %s %T@ %l\n' | LC_ALL=C sort)
}

# What the prefetcher has counted since the file system was mounted, as an object, or
# null where there is none. Reads nothing of the disk.
prefetch_counters() {
	local dir name

	name=$(readlink --canonicalize "$device")
	for dir in /sys/fs/btrfs/*-*; do
		[[ ! -e $dir/devices/${name##*/} ]] || break
	done
	if [[ ! -d $dir/send_prefetch ]]; then
		echo null
		return
	fi
	(cd "$dir/send_prefetch" && grep --with-filename . -- *) |
		jq --raw-input --slurp 'split("\n") | map(select(. != "") | split(":")) |
			map({(.[0]): (.[1] | tonumber)}) | add'
}

# counters_json WHICH FILE: those of the simulated disk whose operation matches, as an object.
counters_json() {
	awk -F '\t' -v which="$1" '
		NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
		$1 ~ which {
			requests += $column["requests"]; sectors += $column["sectors"]
			hits += $column["hits"]; seek += $column["seek_ns"]
			rotation += $column["rotation_ns"]
			transfer += $column["transfer_ns"]
		}
		END {
			printf "{\"requests\":%d,\"sectors\":%d,\"hits\":%d,",
				requests, sectors, hits
			printf "\"seek_ns\":%.0f,\"rotation_ns\":%.0f,", seek, rotation
			printf "\"transfer_ns\":%.0f}", transfer
		}' "$2"
}

# keep_trace DISK NAME: prints the file as JSON, or null where none is kept.
keep_trace() {
	local file=trace/$2.tsv.gz

	set -e # a command substitution does not have it
	if [[ $trace == 0 ]]; then
		echo null
		return
	fi
	mkdir --parents "$stage_dir/trace"
	"$scripts/rotdisk" trace "$1" show | gzip --no-name > "$stage_dir/$file"
	echo "\"$file\""
}

# What the receiving disk did, as an object of reads and writes, with its trace.
receiving_json() {
	local file

	set -e # as above
	"$scripts/rotdisk" counters "$receive_disk" > "$work_dir/counters"
	"$scripts/rotdisk" trace "$receive_disk" off
	file=$(keep_trace "$receive_disk" "$1-receiving")
	jq --null-input --compact-output --argjson trace "$file" \
		--argjson reads "$(counters_json ^read_ "$work_dir/counters")" \
		--argjson writes "$(counters_json '^(write|flush)' "$work_dir/counters")" \
		'{$reads, $writes, $trace}'
}

# Begin to watch a simulated disk.
watch_disk() {
	run "$scripts/rotdisk" trace "$1" clear
	run "$scripts/rotdisk" trace "$1" on
	run "$scripts/rotdisk" counters "$1" --reset
}

one_send() {
	local which=$1 sample=$2 processor=null trace_file=null counters before after prefetch
	local start=0 end=0 sync_start='' send_options=() beside_times='' receiving=null

	[[ $no_data == 0 ]] || send_options+=(--no-data)
	[[ $compressed_data == 0 ]] || send_options+=(--proto 2 --compressed-data)
	if [[ $which == incremental ]]; then
		send_options+=(-p "$mnt/snap1" "$mnt/snap2")
	else
		send_options+=("$mnt/snap1")
	fi
	note "$stage_variant: $which send, sample $sample of $samples"
	make_cold
	if [[ $simulated == 1 ]]; then
		watch_disk "$disk"
		[[ $to != receive ]] || watch_disk "$receive_disk"
	fi
	[[ $dry_run == 1 ]] || before=$(disk_stat)
	timed_send
	[[ $dry_run == 1 ]] || after=$(disk_stat)
	if [[ $simulated == 1 ]]; then
		[[ $to$dry_run != receive0 ]] ||
			receiving=$(receiving_json "$stage_variant-$which-$sample")
		run_to "$work_dir/counters" "$scripts/rotdisk" counters "$disk"
		run "$scripts/rotdisk" trace "$disk" off
	fi
	if [[ $to == receive ]]; then
		disk_timing off
		compare_received "$([[ $which == incremental ]] && echo snap2 || echo snap1)"
		disk_timing on
	fi
	[[ $dry_run == 0 ]] || return 0

	prefetch=$(prefetch_counters)
	if [[ $to$apart == null1 ]]; then
		[[ $clock == disk ]] || disk_timing off
		make_cold
		btrfs send --quiet "${send_options[@]}" | take_stream to_sha256
		rm "$work_dir/first_byte"
		[[ $clock == disk ]] || disk_timing on
	fi
	wait_for_file "$work_dir/sha256"
	wait_for_file "$work_dir/bytes"
	if [[ $simulated == 1 ]]; then
		counters=$(counters_json ^read_ "$work_dir/counters")
		trace_file=$(keep_trace "$disk" "$stage_variant-$which-$sample")
	else
		counters=$(awk -v before="$before" -v after="$after" 'BEGIN {
			split(before, b, " "); split(after, a, " ")
			printf "{\"requests\":%d,\"sectors\":%d,\"hits\":null,",
				a[1] - b[1], a[2] - b[2]
			printf "\"seek_ns\":null,\"rotation_ns\":null,\"transfer_ns\":null}" }')
	fi
	# a virtual machine's processor costs nothing, or what emulating it costs
	[[ $own_kernel == 0 ]] || processor=$(tr , . < "$work_dir/processor")
	[[ -z $beside ]] || beside_times=$(tail --lines=1 "$work_dir/beside")
	jq --null-input --compact-output --arg variant "$stage_variant" --arg send "$which" \
		--argjson sample "$sample" --argjson start "$start" --argjson finish "$end" \
		--argjson first "$(cat "$work_dir/first_byte" 2>/dev/null || echo null)" \
		--argjson bytes "$(tr --delete ' ' < "$work_dir/bytes")" \
		--arg sha256 "$(cat "$work_dir/sha256")" \
		--argjson counters "$counters" --argjson trace "$trace_file" \
		--argjson prefetch "$prefetch" --arg processor "$processor" \
		--argjson beside "${beside_times:-null}" --argjson sync "${sync_start:-null}" \
		--argjson receiving "$receiving" '
		def ns: tonumber? * 1000000000 | round;
		{$variant, $send, $sample, elapsed_ns: ($finish - $start),
		 first_byte_ns: (if $first then $first - $start else null end),
		 stream_bytes: $bytes, stream_sha256: $sha256} + $counters + {$trace, $prefetch,
		 user_ns: ($processor | split(" ")[0] | ns // null),
		 system_ns: ($processor | split(" ")[1] | ns // null)} +
		if $beside then {$beside} else {} end +
		if $sync then {sync_ns: ($finish - $sync), $receiving} else {} end' \
		>> "$stage_dir/samples.jsonl"
}

# Which kernel a variant is measured with.
variant_kernel() {
	case $1 in
	stock|program*) echo stock ;;
	searches) echo searches ;;
	*) echo patched ;;
	esac
}

# A word for btrfs.send_prefetch, or nothing where the variant leaves it alone.
variant_mode() {
	case $1 in
	stock|searches|patched) ;;
	program*) [[ ! -e $module/send_prefetch ]] || echo off ;;
	*) echo "$1" ;;
	esac
}

### Stages: what runs where the disk is

work_dir=
receive_mnt=
receive_dir=
# Does the checksum of the stream come from a send of its own?
apart=$faithful
[[ $clock != all ]] || apart=1
stage_setup() {
	if [[ $kind == host && $dry_run == 0 ]]; then
		work_dir=${TMPDIR:-/tmp}/send-bench.$SENDAHEAD_RUN
		mkdir "$work_dir"
	else
		work_dir=$(mktemp --directory "${TMPDIR:-/tmp}/send-bench.XXXXXX")
	fi
	mnt=$work_dir/bench
	receive_mnt=$work_dir/receive
	receive_dir=$receive_mnt
	mkdir "$mnt" "$receive_mnt"
	if [[ $simulated == 1 ]]; then
		make_simulated_disks
	fi
}

stage_build() {
	if [[ $simulated == 0 ]]; then
		check_device "$device"
		[[ -z $receive_device ]] || check_device "$receive_device"
	fi
	disk_timing on
	measure_device
	build_tree
	if [[ $simulated == 1 ]]; then
		run "$scripts/rotdisk" save "$disk" "$stage_dir/disk"
	fi
}

stage_measure() {
	local sample mode

	if [[ $simulated == 1 ]]; then
		disk_timing off
		run "$scripts/rotdisk" load "$disk" "$stage_dir/disk"
		# a sealed machine's copy of it takes memory
		[[ $clock == disk ]] || run rm "$stage_dir/disk"
		disk_timing on
	fi
	mode=$(variant_mode "$stage_variant")
	if [[ $own_kernel == 1 ]]; then
		set_parameters "$mode"
	fi
	check_variant "$mode"
	mount_bench
	for ((sample = 1; sample <= samples; sample++)); do
		ready_receiver full
		one_send full "$sample"
		ready_receiver incremental
		one_send incremental "$sample"
		if [[ $to == receive ]]; then
			run umount "$receive_mnt"
		fi
	done
	run umount "$mnt"
}

# The receiving disk as it is to be before a send: empty before the full one, or after its
# rounds before each; the full one goes beside what the rounds have left.
ready_receiver() {
	[[ $to == receive ]] || return 0
	receive_dir=$receive_mnt
	[[ $receive_rounds -gt 0 || $1 == full ]] || return 0
	disk_timing off
	if [[ $receive_rounds == 0 ]]; then
		make_receiver
	else
		[[ $1 == full ]] || run umount "$receive_mnt"
		run "$scripts/rotdisk" load "$receive_disk" "$stage_dir/receive-disk"
		run blockdev --flushbufs "$receive_device"
		run mount --types btrfs "$receive_device" "$receive_mnt"
		if [[ $1 == full ]]; then
			receive_dir+=/full
			run mkdir "$receive_dir"
			run sync --file-system "$receive_mnt"
		fi
	fi
	disk_timing on
}

# Of sends that find all of the tree in memory, in a machine whose clock counts.
stage_count() {
	local send

	disk_timing off
	run "$scripts/rotdisk" load "$disk" "$stage_dir/disk"
	check_variant "$(variant_mode "$stage_variant")"
	mount_bench
	for send in full incremental; do
		note "$stage_variant: counting the instructions of the $send send"
		count_send "$send"
	done
	run umount "$mnt"
}

count_send() {
	local send=$1
	local count=("$scripts/send_cost/count-classes")

	[[ $no_data == 0 ]] || count+=(--no-data)
	[[ $compressed_data == 0 ]] || count+=(--compressed-data)
	if [[ $send == incremental ]]; then
		count+=("$mnt/snap2" "$mnt/snap1")
	else
		count+=("$mnt/snap1")
	fi
	run_to "$work_dir/instructions" "${count[@]}"
	[[ $dry_run == 0 ]] || return 0
	jq --raw-input --compact-output --arg variant "$stage_variant" --arg send "$send" '
		split("\t") | {$variant, $send, class: .[0], calls: (.[1] | tonumber),
			instructions: (.[2] | tonumber)}' \
		"$work_dir/instructions" >> "$stage_dir/instructions.jsonl"
}

# On this machine's own kernel: module parameters, put back at the end.
declare -A saved_parameters=()
set_parameter() {
	local file=$module/$1

	[[ -w $file ]] ||
		die "the btrfs of this kernel has no parameter $1: only stock can be measured"
	[[ -n ${saved_parameters[$1]+x} ]] || saved_parameters[$1]=$(< "$file")
	if [[ $dry_run == 1 ]]; then
		printf 'echo %q > %q\n' "$2" "$file"
		return
	fi
	echo "$2" > "$file" || die "btrfs.$1 does not take '$2', see the kernel log"
}

set_parameters() {
	local parameter

	[[ -z $1 ]] || set_parameter send_prefetch "$1"
	[[ $(variant_kernel "$stage_variant") == patched ]] || return 0
	for parameter in "${parameters[@]}"; do
		set_parameter "${parameter%%=*}" "${parameter#*=}"
	done
}

# Is this the kernel that the variant names, with the parameters asked for? A
# patch that was not built in, or a value that was refused while the kernel
# booted, must not be measured as one that gains nothing.
check_variant() {
	local is=none parameter

	[[ $dry_run == 0 ]] || return 0
	if [[ -r $module/send_prefetch ]]; then
		is=$(< "$module/send_prefetch")
	fi
	case $stage_variant in
	stock|searches) [[ $is == none ]] ;;
	program*) [[ $is == none || $is == off ]] ;;
	patched) [[ $is != none ]] ;;
	*) [[ $is == "$1" ]] ;;
	esac ||
		die "$stage_variant cannot be measured: btrfs.send_prefetch of this kernel is '$is'"
	[[ $(variant_kernel "$stage_variant") == patched ]] || return 0
	for parameter in "${parameters[@]}"; do
		is=$(cat "$module/${parameter%%=*}" 2>/dev/null || true)
		[[ $is == "${parameter#*=}" ]] ||
			die "the patched kernel did not take --parameter $parameter"
	done
}

# shellcheck disable=SC2317  # called by the trap
stage_cleanup() {
	local status=$? name

	trap '' INT TERM
	if [[ ${#writers[@]} -gt 0 ]]; then
		kill -TERM "${writers[@]}" 2>/dev/null || true
		wait "${writers[@]}" 2>/dev/null || true
	fi
	for name in "${!saved_parameters[@]}"; do
		echo "${saved_parameters[$name]}" > "$module/$name" || true
	done
	if [[ -n $work_dir ]]; then
		for name in "$mnt" "$receive_mnt"; do
			if mountpoint --quiet "$name"; then
				umount "$name" || umount --lazy "$name" || true
			fi
		done
		rm -rf "$work_dir"
	fi
	if [[ $kind == host && $dry_run == 0 ]]; then
		for name in "$disk" "$receive_disk"; do
			"$scripts/rotdisk" remove "$name" 2>/dev/null || true
		done
	fi
	exit "$status"
}

if [[ -n $stage ]]; then
	trap stage_cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	stage_setup
	"stage_$stage"
	exit 0
fi

### The whole run

profile_names() {
	local file

	for file in "$top"/drivers/block/rotdisk/profiles/*.conf; do
		basename "$file" .conf
	done | paste --serial --delimiters=' '
}

if [[ $alone == 0 ]]; then
	kernels=$("$scripts/supported")
	: "${kernel:=${kernels%%$'\n'*}}"
	: "${tree_kernel:=$kernel}"
	for name in "$kernel" "$tree_kernel"; do
		[[ $'\n'$kernels$'\n' == *$'\n'"$name"$'\n'* && $name != *$'\n'* ]] ||
			die "no kernel '$name': there are ${kernels//$'\n'/ }" 2
	done
fi
if [[ -z $device ]]; then
	lane=$kind
	[[ $clock == disk ]] || lane=microvm
	profile_file=$profile
	[[ $profile == */* ]] || profile_file=$top/drivers/block/rotdisk/profiles/$profile.conf
	[[ -r $profile_file && -f $profile_file ]] ||
		die "no disk profile '$profile': there are $(profile_names)" 2
	[[ $kind == host ]] || : "${variants:=off,stock,patched}"
else
	lane=device
	profile=
	profile_file=
	if [[ $dry_run == 0 && $EUID != 0 ]]; then
		die "--device needs root"
	fi
	[[ -b $device ]] || die "$device is not a block device" 2
fi

# What the lane host needs of the machine; packages are installed further down.
probe_host() {
	local missing=()

	[[ $EUID == 0 ]] || missing+=(root)
	modprobe --all --quiet fuse loop btrfs 2>/dev/null || true
	[[ -c /dev/fuse ]] || missing+=("FUSE (/dev/fuse)")
	[[ -c /dev/loop-control ]] || missing+=("loop devices (/dev/loop-control)")
	grep --quiet --word-regexp btrfs /proc/filesystems ||
		missing+=("btrfs in the kernel $(uname -r)")
	[[ ${#missing[@]} == 0 ]] ||
		die "--kind host cannot run here, what is missing: $(printf '%s, ' "${missing[@]}" |
			sed 's/, $//')" 77
}

if [[ $kind == host && $dry_run == 0 ]]; then
	probe_host
fi
if [[ $own_kernel == 1 && -z $variants ]]; then
	# The machine's own btrfs may be an untouched one.
	modprobe btrfs 2>/dev/null || true
	variants=stock
	[[ ! -e $module/send_prefetch ]] || variants=off,generation,patched
	[[ ! -x $program || $kind != host ]] || variants+=,program
fi
known_variants=(off stock searches patched generation exact program program-send
	program-receive)
[[ $variants != *[[:cntrl:]]* ]] ||
	die "--variants takes ${known_variants[*]}, not '$variants'" 2
IFS=, read -r -a variant_list <<< "$variants"
[[ ${#variant_list[@]} -gt 0 ]] || die "--variants names nothing" 2
for variant in "${variant_list[@]}"; do
	[[ " ${known_variants[*]} " == *" $variant "* ]] ||
		die "--variants takes ${known_variants[*]}, not '$variant'" 2
	[[ $variant != program* || $dry_run == 1 || -x $top/build/sendahead ]] ||
		die "no program to measure: make program builds build/sendahead" 77
	[[ $(printf '%s\n' "${variant_list[@]}" | grep --count --line-regexp "$variant") == 1 ]] ||
		die "--variants names $variant twice" 2
done

# Kernel command line of a variant.
variant_arguments() {
	local mode parameter line=

	mode=$(variant_mode "$1")
	[[ -z $mode ]] || line+=" btrfs.send_prefetch=$mode"
	if [[ $(variant_kernel "$1") == patched ]]; then
		for parameter in "${parameters[@]}"; do
			line+=" btrfs.$parameter"
		done
	fi
	echo "$line"
}

# Lines '@progress DONE TOTAL WHAT' become one line that is written over, on a
# terminal; everything else passes.
show_progress() {
	local line what='' since=0 done_ total rest left

	while IFS= read -r line; do
		if [[ $line != '@progress '* ]]; then
			[[ -z $what ]] || printf '\r\033[K'
			what=
			printf '%s\n' "$line"
			continue
		fi
		read -r _ done_ total rest <<< "$line"
		if [[ $rest != "$what" ]]; then
			what=$rest
			since=$SECONDS
		fi
		left=
		if [[ $done_ -gt 0 && $SECONDS -gt $since ]]; then
			left=", $(((SECONDS - since) * (total - done_) / done_)) s left"
		fi
		printf '\r\033[K%s: %d of %d%s' "$what" "$done_" "$total" "$left"
	done
	[[ -z $what ]] || printf '\r\033[K'
}

# What the script needs when nobody has installed it.
check_programs() {
	local name missing=()

	for name in btrfs mkfs.btrfs xfs_io jq blockdev lsblk wipefs awk ${buffer:+mbuffer} \
		${rate:+pv}; do
		type -P "$name" > /dev/null || missing+=("$name")
	done
	[[ ${#missing[@]} -eq 0 ]] ||
		die "not installed: ${missing[*]}" 77
}

child=
partial=
run_record=
# shellcheck disable=SC2317  # called by the trap
cleanup() {
	local status=$?

	trap '' INT TERM HUP
	if [[ -n $child ]]; then
		kill -TERM "$child" 2>/dev/null || true
		wait "$child" 2>/dev/null || true
	fi
	if [[ -n $partial ]]; then
		rm -rf "$partial"
	fi
	if [[ -n $run_record ]]; then
		rm -f "$run_record"
	fi
	exit "$status"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Run a stage where the disk is: here, or in the machine.
run_stage() {
	local variant=$1 append=$2 stage_kernel=$kernel stage_memory=$memory status=0
	local messages shown machine=(--kind "$kind")
	shift 2
	local here=(--stage-dir "$partial") command=("$self" "${arguments[@]}" "$@")
	local scratch=$partial

	[[ $kind != host ]] || here+=(--simulated)

	if [[ $progress == 1 ]]; then
		command+=(--progress)
	fi
	if [[ $own_kernel == 0 ]]; then
		case $2 in
		build)
			stage_kernel=$tree_kernel
			# what is not measured may have the memory it needs
			if [[ $(numfmt --from=iec "$memory") -lt $(numfmt --from=iec 2G) ]]; then
				stage_memory=2G
			fi
			;;
		measure)
			if [[ $clock == all ]]; then
				machine=(--kind microvm --sealed "$programs")
				command[0]=/project/scripts/${self##*/}
				scratch=$partial/sealed
				seal_tree
			fi
			;;
		count)
			machine=(--kind microvm --flavour profile)
			stage_memory=8G
			;;
		esac
		here=(--stage-dir /scratch --simulated)
		command=("$top/vm/run" "${machine[@]}" --kernel "$stage_kernel" --variant "$variant"
			--memory "$stage_memory" --timeout "$timeout" --stall "$timeout"
			--scratch "$scratch" --append "$append" -- "${command[@]}")
	fi
	command+=("${here[@]}")
	if [[ $dry_run == 1 ]]; then
		if [[ $own_kernel == 0 ]]; then
			printf '# in the virtual machine:'
			printf ' %q' "${command[@]}"
			echo
			here+=(--device /dev/rotdisk0)
		fi
		bash "$self" "${arguments[@]}" "$@" "${here[@]}"
		return
	fi
	# In the background, so that a signal is answered at once.
	exec {messages}> >(show_progress >&2)
	shown=$!
	"${command[@]}" 2>&"$messages" &
	child=$!
	exec {messages}>&-
	wait "$child" || status=$?
	child=
	# What it said last may explain the status.
	wait "$shown" || true
	[[ $status == 0 ]] || stage_failed "$status"
	if [[ $scratch != "$partial" && $dry_run == 0 ]]; then
		unseal_samples
	fi
}

# A sealed machine has no more than what makes a difference.
seal_tree() {
	run mkdir "$partial/sealed"
	run ln "$partial/disk" "$partial/slow.conf" "$partial/sealed"
}

unseal_samples() {
	cat "$partial/sealed/samples.jsonl" >> "$partial/samples.jsonl"
	cp "$partial/sealed/skipped" "$partial"
	[[ $trace == 0 ]] || cp --recursive "$partial/sealed/trace" "$partial"
	rm -r "$partial/sealed"
}

# stage_failed STATUS: a full disk under the results explains whatever was said.
stage_failed() {
	! is_full "$partial" ||
		die "no space left in $(dirname "$partial"), where the results go: free some" 2
	exit "$1"
}

progress=0
if [[ -t 2 && ${TERM:-dumb} != dumb ]]; then
	progress=1
fi

name=$(date --utc +%Y%m%dT%H%M%SZ)-$(basename -- "$workload")-${work[FILES]}
name+=-${profile:+$(basename -- "$profile" .conf)}${device:+$(basename "$device")}
if [[ -z $output ]]; then
	output=$top/results/$name
	[[ $alone == 0 ]] || output=$PWD/send-bench-$name
	while [[ -e $output ]]; do
		output+=+
	done
elif [[ -e $output && -n $(ls --almost-all -- "$output" 2>/dev/null) ]]; then
	die "$output exists already and is not empty: name another directory for --output" 2
fi
[[ $output == /* ]] || output=$PWD/$output
if [[ $output == *[[:cntrl:]]* || ($own_kernel == 0 && $output == *[[:space:],\"]*) ]]; then
	die "--output takes a path without white space, commas and quotes, not '$output'" 2
fi

# Take away what killed runs have left, and leave a record by which the next run could
# take away what this one leaves, see scripts/rotdisk-fuse.sh.
start_host_run() {
	"$scripts/rotdisk" clean
	# its process and when that started
	SENDAHEAD_RUN=$$-$(awk '{ sub(/.*[)] /, ""); print $20 }' "/proc/$$/stat")
	export SENDAHEAD_RUN
	run_record=/run/sendahead/runs/$SENDAHEAD_RUN
	partial=${partial%.*}.$SENDAHEAD_RUN
	printf '%s\n' "$partial" "${TMPDIR:-/tmp}/send-bench.$SENDAHEAD_RUN" > "$run_record"
}

# Only the disk's model knows what a profile may hold.
check_profile() {
	local model=build/rotdisk-sim

	if [[ $dry_run == 0 ]]; then
		make --silent --directory "$top" "$model" >&2
	fi
	[[ ! -x $top/$model ]] || "$top/$model" check "$1" > /dev/null || exit 2
}

# The machine takes one ns for each instruction. Where the processor is faster, the disk
# is slower by as much, and bench-report divides the times.
slow_profile() {
	awk -F '[[:space:]]*=[[:space:]]*' -v OFS=' = ' -v ns="$instruction_ns" '
		{ sub(/[[:space:]]*#.*/, "") }
		$1 ~ /_ns$/ { $2 = sprintf("%.0f", $2 / ns) }
		$1 == "seek_point" {
			split($2, seek, " ")
			$2 = sprintf("%d %.0f", seek[1], seek[2] / ns)
		}
		$1 ~ /(_rate|rpm|iops_limit)$/ { $2 = sprintf("%.0f", $2 * ns) }
		{ print }' "$1"
}

if [[ $dry_run == 0 ]]; then
	if [[ $alone == 1 ]]; then
		check_programs
	elif ! "$scripts/install-deps" "$([[ $kind == host ]] && echo host || echo bench)" >&2 ||
		{ [[ $count_instructions == 1 || $clock == all ]] &&
			! "$scripts/install-deps" qemu >&2; }; then
		die "what the bench needs is not installed, see above"
	fi
fi
[[ -z $profile_file ]] || check_profile "$profile_file"
if [[ $dry_run == 1 ]]; then
	partial=$(mktemp --directory "${TMPDIR:-/tmp}/send-bench.XXXXXX")
else
	partial=$(dirname "$output")/.$(basename "$output").partial.$$
	[[ $kind != host ]] || start_host_run
	mkdir --parents "$partial" 2>/dev/null || die "cannot write to $(dirname "$output")" 2
fi
[[ -z $profile_file ]] || cp "$profile_file" "$partial/profile.conf"
if [[ $clock == all ]]; then
	slow_profile "$profile_file" > "$partial/slow.conf"
	check_profile "$partial/slow.conf"
fi
: > "$partial/samples.jsonl"

run_stage stock "" --stage build
passes=(measure)
[[ $count_instructions == 0 ]] || passes+=(count)
for pass in "${passes[@]}"; do
	for variant in "${variant_list[@]}"; do
		run_stage "$(variant_kernel "$variant")" "$(variant_arguments "$variant")" \
			--stage "$pass" --stage-variant "$variant"
	done
done
if [[ $dry_run == 1 ]]; then
	exit 0
fi
if [[ $trace == 1 && -f $partial/disk ]]; then
	# without it, the run is as good but for bench-report --by-class
	if "$scripts/bench-classes" "$partial/disk" > "$partial/classes.tsv"; then
		gzip --no-name "$partial/classes.tsv"
	else
		note "it is not known which trees the blocks of the disk belong to"
		rm "$partial/classes.tsv"
	fi
fi
rm -f "$partial"/{disk,receive-disk,slow.conf} "$partial"/fio-*.json

# What was measured, and with what.
kernels_json() {
	local variant build all='{}'

	for variant in "${variant_list[@]}"; do
		variant=$(variant_kernel "$variant")
		if [[ $own_kernel == 0 ]]; then
			build=$("$top/vm/build" --kind "$lane" --kernel "$kernel" \
				--variant "$variant")
			build=$(dirname "$build")
			all=$(jq --arg variant "$variant" --arg build "$(basename "$build")" \
				--arg release "$(< "$build/release")" \
				--arg config "$(sha256sum < "$build/config")" '.[$variant] =
				{$release, $build, config_sha256: $config[:64]}' <<< "$all")
		else
			all=$(jq --arg variant "$variant" --arg release "$(uname -r)" '.[$variant] =
				{$release, build: null, config_sha256: null}' <<< "$all")
		fi
	done
	echo "$all"
}

# Of the project's files; alone, nothing is known of what the kernel was patched with.
series_sha256() {
	[[ $alone == 0 && $kind != host ]] || return 0
	(cd "$top" && {
		find fs -type f 2>/dev/null
		find "$("$scripts/supported" "$kernel" series)" -type f
	} | LC_ALL=C sort | xargs sha256sum | sha256sum | cut --characters=1-64)
}

parameters_json() {
	local key

	for key in "${!work[@]}"; do
		[[ $key != PUBLISHED_* ]] || continue
		printf '%s\t%s\n' "${key,,}" "${work[$key]}"
	done | LC_ALL=C sort |
		jq --raw-input --slurp --argjson seed "$seed" --argjson faithful "$faithful" '
		split("\n") | map(select(length > 0) | split("\t") |
			{(.[0]): (.[1] | tonumber? // .)}) | add
		| map_values(.) + {$seed, faithful: ($faithful == 1)}'
}

write_env() {
	local commit=null dirty=false source=null disk size rotational=null

	if [[ $alone == 0 ]] && commit=$(git -C "$top" rev-parse HEAD 2>/dev/null); then
		commit=\"$commit\"
		[[ -z $(git -C "$top" status --porcelain 2>/dev/null) ]] || dirty=true
	else
		commit=null
	fi
	if [[ $own_kernel == 0 ]]; then
		source=$(jq --raw-input . "$top/build/linux-$kernel.version")
		disk=rotdisk0
		size=null
	elif [[ $kind == host ]]; then
		disk=loop
		size=null
	else
		disk=$(basename "$(realpath "$device")")
		size=$(blockdev --getsize64 "$device")
		rotational=$(cat "/sys/class/block/$disk/queue/rotational" 2>/dev/null || echo null)
	fi
	jq --null-input --arg run "$(basename "$output")" \
		--arg date "$(date --utc +%Y-%m-%dT%H:%M:%SZ)" \
		--argjson commit "$commit" --argjson dirty "$dirty" --arg lane "$lane" \
		--argjson source "$source" --argjson kernels "$(kernels_json)" \
		--arg series "$(series_sha256)" --arg profile "$profile" \
		--arg disk "$disk" --argjson size "$size" --argjson rotational "$rotational" \
		--arg progs "$(< "$partial/btrfs-progs")" \
		--arg workload "$(basename -- "$workload")" \
		--argjson parameters "$(parameters_json)" \
		--slurpfile snap1 "$partial/tree-snap1.json" \
		--slurpfile snap2 "$partial/tree-snap2.json" \
		--arg published_files "${work[PUBLISHED_FILES]:-}" \
		--arg snap1_lines "${work[PUBLISHED_SNAP1_LINES]:-}" \
		--arg snap2_lines "${work[PUBLISHED_SNAP2_LINES]:-}" \
		--slurpfile fio "$partial/fio.json" --arg variants "$variants" \
		--argjson samples "$samples" --arg to "$to" --argjson no_data "$no_data" \
		--argjson compressed_data "$compressed_data" \
		--arg module_parameters "${parameters[*]}" --arg memory "$memory" \
		--arg tree_kernel "$tree_kernel" --argjson processors "$(nproc)" \
		--arg clock "$clock" --argjson instruction_ns "$instruction_ns" \
		--argjson receive_rounds "$receive_rounds" --arg buffer "$buffer" \
		--arg rate "$rate" \
		--argjson own "$([[ $own_kernel == 1 ]] && echo true || echo false)" \
		--rawfile skipped <(cat "$partial/skipped" 2>/dev/null) '
		{$run, $date, $commit, $dirty, $lane, $source,
		 kernels: ($kernels | map_values(del(.config_sha256))),
		 config_sha256: ([$kernels[].config_sha256] | first),
		 series_sha256: (if $series == "" then null else $series end),
		 profile: (if $profile == "" then null
			else $profile | split("/") | last | rtrimstr(".conf") end),
		 device: {name: $disk, size_bytes: $size,
			rotational: (if $rotational == null then null else $rotational == 1 end)},
		 btrfs_progs: $progs, $workload, $parameters,
		 trees: {snap1: $snap1[0], snap2: $snap2[0]},
		 published: (if $published_files == "" then null else
			{files: ($published_files | tonumber),
			 snap1_printed: ($snap1_lines | tonumber),
			 snap2_printed: ($snap2_lines | tonumber)} end),
		 fio: $fio[0], variants: ($variants | split(",")), $samples, $to,
		 no_data: ($no_data == 1), compressed_data: ($compressed_data == 1),
		 memory: (if $own then null else $memory end),
		 tree_kernel: (if $own then null else $tree_kernel end),
		 processors: (if $own then $processors else null end), real_time: $own,
		 clock: (if $own then null else $clock end), $instruction_ns,
		 receive_rounds: (if $to == "receive" then $receive_rounds else null end),
		 buffer: (if $buffer == "" then null else $buffer end),
		 rate: (if $rate == "" then null else $rate end),
		 module_parameters: ($module_parameters | split(" ")),
		 skipped: ($skipped | split("\n") | map(select(length > 0)))}' > "$partial/env.json"
}

write_env
rm -f "$partial"/{fio.json,skipped,btrfs-progs,tree-snap1.json,tree-snap2.json}

### The report of a script that is alone; scripts/bench-report can do much more

# Per send and variant, as JSON: all times, the median, and the change against
# each variant measured before this one.
rows_json() {
	jq --slurp --slurpfile env "$1/env.json" '
		def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
		def changes($row): [.[] | select(.elapsed_ns > 0) | {before: .variant,
			change: (($row.elapsed_ns - .elapsed_ns) / .elapsed_ns)}];
		. as $samples
		| ["full", "incremental"]
		| map(. as $send
			| reduce $env[0].variants[] as $variant ([];
				($samples | map(select(.send == $send and .variant == $variant)))
				as $these
				| ($these | map(.elapsed_ns)) as $times
				| {$send, $variant, n: ($times | length),
				   elapsed_ns: ($times | median), all_elapsed_ns: $times,
				   stream_sha256: [$these[].stream_sha256] | unique}
				as $row | . + [$row + {changes: changes($row)}]))
		| add' "$1/samples.jsonl"
}

# All variants and samples must have sent the same streams.
plain_verify() {
	rows_json "$1" | jq --exit-status '
		group_by(.send) | all([.[].stream_sha256[]] | unique | length == 1)' > /dev/null ||
		die "void: the streams differ, see stream_sha256 in $1/samples.jsonl"
}

# Lines of fields with tabs between them, as columns.
as_columns() {
	awk -F '\t' '
		{
			for (i = 1; i <= NF; i++) {
				cell[NR, i] = $i
				if (length($i) > width[i])
					width[i] = length($i)
			}
		}
		END {
			for (row = 1; row <= NR; row++) {
				line = ""
				for (i = 1; i <= NF; i++)
					line = line sprintf("%-*s  ", width[i], cell[row, i])
				sub(/ +$/, "", line)
				print line
			}
		}'
}

plain_table() {
	jq --raw-output '
		"\(.device.name), Linux \([.kernels[].release] | unique | join(", ")), "
			+ "btrfs-progs \(.btrfs_progs)",
		"\(.workload), \(.parameters.files) files, "
			+ "\([.trees[].blocks] | join(" and ")) blocks",
		(.skipped[] | "skipped: " + .),
		"change: (after - before) / before", ""' "$1/env.json"
	rows_json "$1" | jq --raw-output '
		def seconds: (. / 1e6 | round) as $ms
			| "\($ms / 1000 | floor).\($ms % 1000 + 1000 | tostring[1:])";
		def percent: . * 1000 | round / 10 | tostring;
		(["send", "variant", "median s", "change", "each s"] | @tsv),
		(.[] | [.send, .variant, (.elapsed_ns | seconds),
			(.changes | map("\(.change | percent) % of \(.before)") | join(", ")),
			(.all_elapsed_ns | map(seconds) | join(" "))] | @tsv)' | as_columns
}

plain_report() {
	case $2 in
	table) plain_table "$1" ;;
	json) jq --slurp '{env: .[0], rows: .[1]}' "$1/env.json" <(rows_json "$1") ;;
	tsv)
		rows_json "$1" | jq --raw-output '
			(["send", "variant", "n", "elapsed_ns", "all_elapsed_ns", "changes",
			  "stream_sha256"] | @tsv),
			(.[] | [.send, .variant, .n, .elapsed_ns,
				(.all_elapsed_ns | map(tostring) | join(",")),
				(.changes | map("\(.before):\(.change)") | join(",")),
				.stream_sha256[0]] | @tsv)' ;;
	esac
}

# Publish the run as a whole, then judge it; a void one does not become the latest.
[[ ! -d $output ]] || rmdir "$output"
mv "$partial" "$output"
partial=
note "results in $output"
if [[ $alone == 1 ]]; then
	plain_verify "$output"
	plain_report "$output" "$format"
	exit 0
fi
"$scripts/bench-report" --verify "$output" || exit 1
if [[ $(realpath "$(dirname "$output")") == "$(realpath "$top")/results" ]]; then
	ln --symbolic --force --no-dereference "$(basename "$output")" "$top/results/latest"
fi
"$scripts/bench-report" --format "$format" "$output"
"$scripts/bench-report" --format svg --output "$output/head.svg" "$output"
"$scripts/bench-report" --format html --output "$output/report.html" "$output"
note "the disk's head: $output/head.svg, with the table: $output/report.html"
