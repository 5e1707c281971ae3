#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Times full and incremental btrfs sends of a block device with a cold cache. It needs nothing
# but this file; in the project sendahead, tools/bench/guest has functions from here.
set -euo pipefail

usage() {
	cat <<'USAGE'
usage: send-bench.sh --device DEV[,DEV]... [OPTION]...

Time full and incremental sends of two snapshots with a cold cache, on block
devices: what is on them is lost. Needs root. (Simulated disks and other trees of files:
tools/bench/send-bench of the project sendahead.)

  --erase               destroy a partition table or a file system on it
  --variants LIST       stock, patched, or modes of btrfs.send_readahead: off,
                        generation; comma separated (default: what there is)
  --samples N           repeat each cold send N times, the variants in turn (default 1)
  --files N, --jobs N, --inline-size BYTES, --update-every N, --grow N,
  --nodesize BYTES      instead of what was published
  --output DIR          directory of this run (default send-bench-<time>)
  --dry-run             print every command, run none

Exit status: 0 ok, 1 failed or void (streams differ), 2 usage, 77 cannot run here.
USAGE
}

# What is to be done: options by their names, and the published test, of the Linux commit
# 2ce73c633573 ("btrfs: add btree read ahead for incremental send operations", 5.13). The data of
# its files lies inline in the leaves, so that a send reads metadata and nothing else; between
# the snapshots a quarter is added (GROW), and some of every UPDATE_EVERYth changed.
declare -A job=([device]='' [variants]='' [samples]=1 [output]=''
	[erase]=0 [dry_run]=0 [FILES]=200000 [JOBS]=4 [INLINE_SIZE]=2000 [GROW]=''
	[UPDATE_EVERY]=50 [UPDATE_BYTES]=20 [MAX_INLINE]=2048 [NODESIZE]=16384)
readonly module=/sys/module/btrfs/parameters
saved_mode='' work_dir='' mnt='' devices=()

# One line, however long and whatever is in a value that it repeats.
die() {
	printf 'send-bench.sh: %.500s\n' "${1//[[:cntrl:]]/?}" >&2
	exit "${2:-1}"
}

note() { [[ ${job[dry_run]} == 1 ]] || echo "send-bench.sh: $*" >&2; }

# run_to FILE COMMAND...; with --dry-run it is only printed.
run_to() {
	if [[ ${job[dry_run]} == 1 ]]; then
		printf '%q ' "${@:2}"
		printf '%s\n' "${1:+> $1}"
	elif [[ -z $1 ]]; then
		"${@:2}"
	else
		"${@:2}" > "$1"
	fi
}
run() { run_to '' "$@"; }

# Refuse a device that is in use or holds something, or of which nobody says what it holds.
check_device() {
	local dev=$1 real block found

	[[ -b $dev ]] || die "$dev is not a block device" 2
	real=$(realpath "$dev") block=/sys/class/block/${real##*/}
	found=$(lsblk --noheadings --list --output NAME,MOUNTPOINT "$real" |
		awk 'NF > 1 { print "  mounted or swapped on: " $0 }' || exit
		find "$block"{,/"${real##*/}"*}/holders -mindepth 1 -printf '  held by: %f\n' \
			2> /dev/null || true) || die "lsblk does not say whether $dev is in use"
	[[ -z $found ]] || { echo "$found" >&2 && die "$dev is in use (above): \
unmount it and stop what holds it first, --erase does not do that" 2; }
	found=$(wipefs --no-act --noheadings --output TYPE,LABEL,UUID,OFFSET "$real" |
		sed 's/^/  signature: /' || [[ ${job[dry_run]} == 1 ]] || exit
		find "$block"/*/partition 2> /dev/null |
			sed 's,.*/\(.*\)/partition,  partition: \1,' || true) ||
		die "wipefs does not say what is on $dev"
	[[ -n $found ]] || return 0
	echo "$found" >&2
	[[ ${job[erase]} == 1 ]] ||
		die "$dev holds what is listed above: give --erase to destroy it" 2
	note "--erase: destroying the above on $dev"
	run wipefs --all --quiet "$real"
}

# Write to every STEPth of the files FIRST to LAST, with JOBS jobs at once, each
# with a contiguous part: write_files WHAT JOBS FIRST LAST STEP XFS_IO-ARGUMENT...
write_files() {
	local what=$1 jobs=$2 first=$3 last=$4 step=$5 count=$(($4 - $3 + 1)) writer file

	note "$what"
	if [[ ${job[dry_run]} == 1 ]]; then
		printf '# for N from %d to %d by %d, %d at once: ' "$first" "$last" "$step" "$jobs"
		printf '%q ' xfs_io "${@:6}"
		printf '%s/file_N\n' "$mnt"
		return
	fi
	for ((writer = 0; writer < jobs; writer++)); do
		file=$((first + count * writer / jobs))
		for ((; file < first + count * (writer + 1) / jobs; file += step)); do
			# it may complain and end with 0
			xfs_io "${@:6}" "$mnt/file_$file" 2>> "$work_dir/complaints" > /dev/null ||
				echo "exit status $?" >> "$work_dir/complaints"
		done &
	done
	wait
	[[ ! -s $work_dir/complaints ]] ||
		tree_failed "xfs_io failed: $(head --lines=1 "$work_dir/complaints")"
}

# tree_failed WHY [MOUNT DISK]: or because the tree does not fit on the disk.
tree_failed() {
	[[ $(df --output=avail --block-size=1M "${2-$mnt}" | tail --lines=1) -ge 4 ]] ||
		die "the ${3-disk} is full: take fewer files or a larger disk" 2
	die "$1"
}

# create_files AFTER COUNT
create_files() {
	write_files "creating files" "${job[JOBS]}" $(($1 + 1)) $(($1 + $2)) 1 \
		-f -c "pwrite -q -S 0xab 0 ${job[INLINE_SIZE]}"
}

update_files() {
	write_files "updating files" 1 "${job[UPDATE_EVERY]}" "${job[FILES]}" \
		"${job[UPDATE_EVERY]}" -c "pwrite -q -S 0xcd 0 ${job[UPDATE_BYTES]}"
}

# mount_devices WHERE OPTIONS DEVICE...
mount_devices() {
	local others=("${@:4}")

	run mount --types btrfs --options "$2$(printf %s "${others[@]/#/,device=}")" "$3" "$1"
}
mount_bench() { mount_devices "$mnt" "${1:-defaults}" "${devices[@]}"; }
snapshot() { run_to /dev/null btrfs subvolume snapshot -r "$mnt" "$mnt/$1"; }

build_published() {
	create_files 0 "${job[FILES]}"
	snapshot snap1
	[[ ${job[GROW]} == 0 ]] || create_files "${job[FILES]}" "${job[GROW]}"
	update_files
	snapshot snap2
}

# Nothing of the tree is in any memory after this, neither ours nor the drive's.
make_cold() {
	run umount "$mnt"
	# in real time, what others have to write is not waited for
	[[ ${job[lane]-} == host ]] || run sync
	run_to /proc/sys/vm/drop_caches echo 3
	run blockdev --flushbufs "${devices[@]}"
	flush_drive
	mount_bench
}
flush_drive() { run_to /dev/null hdparm -F "${devices[@]}" || note "skipped: hdparm -F"; }

# EPOCHREALTIME has microseconds behind whatever the locale's point is.
now_ns() { echo "${EPOCHREALTIME/[^0-9]/}000"; }

# one_send SEND VARIANT SAMPLE SNAPSHOT...
one_send() {
	local send=(btrfs send --quiet "${@:4}") start end sum

	note "$2: $1 send, sample $3 of ${job[samples]}"
	make_cold
	[[ ${job[dry_run]} == 0 ]] || { run "${send[@]}" && return; }
	start=$(now_ns)
	sum=$("${send[@]}" | sha256sum)
	end=$(now_ns)
	printf '{"variant":"%s","send":"%s","sample":%d,"elapsed_ns":%d,"stream_sha256":"%s"}\n' \
		"$2" "$1" "$3" $((end - start)) "${sum%% *}" >> "$work_dir/samples.jsonl"
}

# set_mode WORD: of btrfs.send_readahead, if one is named; the one before is put back at the end.
set_mode() {
	local file=$module/send_readahead

	[[ -n $1 ]] || return 0
	[[ -w $file ]] || die "the btrfs of this kernel has no parameter send_readahead"
	: "${saved_mode:=$(< "$file")}"
	run_to "$file" echo "$1" || die "btrfs.send_readahead does not take '$1', see the kernel log"
}

# measure VARIANT SAMPLE
measure() {
	[[ $1 == stock ]] || set_mode "${1/patched/$mode}"
	mount_bench
	one_send full "$1" "$2" "$mnt/snap1"
	one_send incremental "$1" "$2" -p "$mnt/snap1" "$mnt/snap2"
	run umount "$mnt"
}

# Times, medians and the change against the first variant.
print_table() {
	echo "${devices[*]##*/}, Linux $(uname -r), $(btrfs --version | sed 's/ v/ /')"
	printf 'published, %d files\nchange: (after - before) / before\n\n' "${job[FILES]}"
	jq --raw-output --slurp --arg variants "${job[variants]}" '
		def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
		group_by(.send)[] as $rows | ($variants / ",")[] as $variant |
		[$rows[] | select(.variant == $variant).elapsed_ns / 1e9] as $each |
		[$rows[0].send, $variant, ($each | median), $each[]] | @tsv
		' "$work_dir/samples.jsonl" |
		awk -F '\t' -v format='%-12s %-12s %-9s  %-24s' '
			BEGIN { printf format " each s\n", "send", "variant", "median s", "change" }
			$1 != send { send = $1; name = $2; first = $3 }
			{
				change = sprintf("%.1f %% of %s", ($3 / first - 1) * 100, name)
				printf format, $1, $2, sprintf("%.3f", $3), $2 == name ? "" : change
				for (i = 4; i <= NF; i++) printf " %.3f%s", $i, i < NF ? "" : "\n"
			}'
}

cleanup() {
	trap '' HUP INT TERM
	jobs -p | xargs --no-run-if-empty kill 2>/dev/null || true
	wait
	[[ -z $saved_mode ]] || echo "$saved_mode" > "$module/send_readahead" || true
	! mountpoint --quiet "$mnt" || umount "$mnt" || umount --lazy "$mnt" || true
	rm -rf "$work_dir"
}

parse_options() {
	local key

	while [[ $# -gt 0 ]]; do
		key=${1#--} key=${key//-/_}
		case $1 in
		--help) usage; exit 0 ;;
		--erase | --dry-run) set -- "$1" 1 "${@:2}" ;;
		--files | --jobs | --inline-size | --update-every | --grow | --nodesize | --samples)
			[[ ${2-} =~ ^[1-9][0-9]{0,8}$ || $1${2-} == --grow0 ]] ||
				die "$1 takes a number, not '${2-}'" 2
			[[ $1 == --samples ]] || key=${key^^} ;;
		--device | --variants | --output)
			[[ -n ${2-} ]] || die "$1 needs a value, see send-bench.sh --help" 2 ;;
		*) die "unknown argument '$1', see send-bench.sh --help" 2 ;;
		esac
		job[$key]=$2
		shift 2
	done
	[[ -n ${job[device]} ]] || die "name a disk with --device, see send-bench.sh --help" 2
	: "${job[GROW]:=$((job[FILES] / 4))}"
}

main() {
	local name missing='' mode names sample copies=dup

	parse_options "$@"
	for name in btrfs mkfs.btrfs xfs_io jq blockdev lsblk wipefs; do
		type -P "$name" > /dev/null || missing+=" $name"
	done
	[[ -z $missing || ${job[dry_run]} == 1 ]] || die "not installed:$missing" 77
	[[ $EUID == 0 || ${job[dry_run]} == 1 ]] || die "--device needs root"
	modprobe btrfs 2> /dev/null || true
	# a patch that is not there must not be measured as one that gains nothing
	mode=$(cat "$module/send_readahead" 2> /dev/null || true) names=stock
	[[ -z $mode ]] || names=off,generation,patched
	: "${job[variants]:=$names}"
	for name in ${job[variants]//,/ }; do
		[[ ,$names, == *,$name,* ]] || die "this kernel measures $names, not $name"
	done
	: "${job[output]:=send-bench-$(date --utc +%Y%m%dT%H%M%SZ)}"
	[[ ! -e ${job[output]} ]] || die "${job[output]} exists already, name another directory" 2
	IFS=, read -r -a devices <<< "${job[device]}"
	for name in "${devices[@]}"; do
		check_device "$name"
	done
	# a link may go with what is erased
	mapfile -t devices < <(realpath "${devices[@]}")
	trap cleanup EXIT
	work_dir=$(mktemp --directory "${TMPDIR:-/tmp}/send-bench.XXXXXX")
	mkdir "${mnt:=$work_dir/bench}"
	[[ ${#devices[@]} == 1 ]] || copies=raid1
	run_to /dev/null mkfs.btrfs --force --quiet --nodiscard --nodesize "${job[NODESIZE]}" \
		--metadata "$copies" "${devices[@]}"
	mount_bench "max_inline=${job[MAX_INLINE]}"
	build_published
	run umount "$mnt"
	for ((sample = 1; sample <= job[samples]; sample++)); do
		for name in ${job[variants]//,/ }; do
			measure "$name" "$sample"
		done
	done
	[[ ${job[dry_run]} == 0 ]] || exit 0
	install -D --mode=644 --target-directory="${job[output]}" "$work_dir/samples.jsonl"
	note "results in ${job[output]}"
	[[ $(jq .send+.stream_sha256 "$work_dir/samples.jsonl" | sort -u | wc -l) == 2 ]] ||
		die "void: the streams differ, see stream_sha256 in ${job[output]}/samples.jsonl"
	print_table
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
