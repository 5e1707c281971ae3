# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# The trees that the guest builds: each generator's steps, and what it does between them.
# shellcheck disable=SC2154,SC2153 # the guest and send-bench.sh set job, top, dir, mnt and disks

# workload_step STEP WORD...: words in capitals are options whose values are those numbers.
workload_step() {
	local options=(--seed "${job[seed]}" --pace "${job[PACE]}") word name

	for word; do
		if [[ $word =~ ^[A-Z_]+$ ]]; then
			name=${word,,}
			options+=("--${name//_/-}" "${job[$word]}")
		else
			options+=("$word")
		fi
	done
	run "$top/tools/bench/bench-workload" "${options[@]}" "$mnt" ||
		tree_failed "the tree could not be written, see above"
}

# In the place of those of send-bench.sh, which start a process for each file.
create_files() {
	workload_step create --first "$1" --count "$2" JOBS --size "${job[INLINE_SIZE]}" --byte 0xab
}

update_files() {
	workload_step update --count "${job[FILES]}" --every "${job[UPDATE_EVERY]}" \
		--size "${job[UPDATE_BYTES]}" --byte 0xcd
}

# The rounds of each generator: of a tree that grows old, of one of hard links, of one large
# file and of files that share extents. step_GENERATOR ROUND; 0 makes the tree.
step_aged() {
	workload_step age --round "$1" --count "${job[FILES]}" DIRECTORIES SIZE_MIN SIZE_MAX \
		SIZE_SKEW REWRITE DELETE RENAME ADD
}

step_rotated() {
	workload_step rotate --round "$1" --keep "${job[ROUNDS]}" --count "${job[FILES]}" \
		DIRECTORIES SIZE_MIN SIZE_MAX SIZE_SKEW REWRITE
}

step_rewritten() {
	local count=${job[WRITES]}

	[[ $1 == 0 ]] || count=${job[UPDATES]}
	workload_step rewrite --round "$1" --count "$count" --size "${job[FILE_SIZE]}" \
		--block "${job[BLOCK_SIZE]}" SYNC_EVERY
}

step_deduplicated() {
	workload_step share --round "$1" --count "${job[FILES]}" DIRECTORIES EXTENTS SHARERS \
		--block "${job[BLOCK_SIZE]}" REWRITE
}

# Nodes, leaves and levels of the tree of files as it is on the disk now, without reading
# leaves. The published test counts lines of dump-tree, two of which name a block.
count_tree() {
	local dump=(btrfs inspect-internal dump-tree) blocks nr=1 top_level level

	run sync --file-system "$mnt"
	run blockdev --flushbufs "${devices[@]}"
	if [[ ${job[dry_run]} == 1 ]]; then
		echo "# nodes and leaves, as ${dump[*]} --block NODE ${devices[0]} names them"
		return
	fi
	read -r blocks top_level < <("${dump[@]}" --roots "${devices[0]}" |
		awk '/^fs tree key/ { print $(NF - 2), $NF }') || :
	[[ "$blocks $top_level" =~ ^[0-9]+\ [0-9]$ ]] || die "${dump[*]} --roots does not name \
the fs tree of ${devices[0]}"
	for ((level = top_level; level > 0; level--)); do
		mapfile -t blocks < <("${dump[@]}" "${blocks[@]/#/--block=}" "${devices[0]}" |
			awk '/^\tkey .* block [0-9]+ / { sub(/.* block /, ""); print $1 }')
		((${#blocks[@]})) || die "${dump[*]} names nothing below level $level of ${devices[0]}"
		nr=$((nr + ${#blocks[@]}))
	done
	printf '{"blocks":%d,"printed":%d,"levels":%d}\n' "$nr" "$((2 * nr))" "$((top_level + 1))" \
		> "$dir/tree-$1.json"
}

snapshot() {
	count_tree "$1"
	run_to /dev/null btrfs subvolume snapshot -r "$mnt" "$mnt/$1"
}

# One more increment for a backup disk; then only what that stands on is left.
received=
receive_round() {
	local name=received$1 parent=() disk

	((job[receive_rounds] > 0 && $1 >= job[ROUNDS] - job[receive_rounds])) || return 0
	[[ -z $received ]] || parent=(-p "$mnt/$received")
	if [[ $1 == "${job[ROUNDS]}" ]]; then
		name=snap1
	else
		run_to /dev/null btrfs subvolume snapshot -r "$mnt" "$mnt/$name"
	fi
	if [[ ${job[dry_run]} == 1 ]]; then
		echo "btrfs send ${parent[*]} $mnt/$name | btrfs receive $receive_mnt"
	else
		btrfs send --quiet "${parent[@]}" "$mnt/$name" |
			btrfs receive --quiet "$receive_mnt" || receive_failed
	fi
	for disk in "$mnt" "$receive_mnt"; do
		[[ -z $received ]] || run_to /dev/null btrfs subvolume delete "$disk/$received"
		# nothing of it is to be left to do when time counts
		run_to /dev/null btrfs subvolume sync "$disk"
	done
	received=$name
}

build_round() {
	"step_${job[GENERATOR]}" "$1"
	run sync --file-system "$mnt"
}

# Rounds 0 to ROUNDS, with snap1 before the last; a generator without ROUNDS has two.
build_rounds() {
	local round rounds=${job[ROUNDS]:-1}

	for ((round = 0; round < rounds; round++)); do
		build_round "$round"
		receive_round "$round"
	done
	snapshot snap1
	receive_round "$rounds"
	build_round "$rounds"
	snapshot snap2
}

# An empty file system on the receiving disk.
make_receiver() {
	local profiles=()

	[[ ${#receive_devices[@]} == 1 ]] ||
		profiles=(--data "${job[data]}" --metadata "${job[metadata]}")
	run_to /dev/null mkfs.btrfs --force --quiet --nodiscard "${profiles[@]}" "${receive_devices[@]}"
	mount_devices "$receive_mnt" defaults "${receive_devices[@]}"
}

# All of it, with its snapshots; leaves tree-snap1.json, tree-snap2.json and btrfs-progs.
build_tree() {
	local uuid=()

	note "building the tree: ${job[GENERATOR]}, ${job[FILES]} files"
	disk_timing off
	# several runs may be on this machine, and a kernel takes a file system once only
	[[ ${job[lane]} == host ]] || uuid=(--uuid 5e1dab1e-0000-4000-8000-000000000001)
	run_to /dev/null mkfs.btrfs --force --quiet --nodiscard --nodesize "${job[NODESIZE]}" \
		--data "${job[data]}" --metadata "${job[metadata]}" "${uuid[@]}" "${devices[@]}"
	mount_bench "max_inline=${job[MAX_INLINE]}"
	[[ ${job[receive_rounds]} == 0 ]] || make_receiver
	if [[ ${job[GENERATOR]} == published ]]; then
		build_published
	else
		build_rounds
	fi
	run umount "$mnt"
	if [[ ${job[receive_rounds]} -gt 0 ]]; then
		run umount "$receive_mnt"
		each_disk "$receive_disk" save "$dir/receive-disk" suffix
	fi
	[[ ${job[dry_run]} == 1 ]] || btrfs --version |
		awk 'NR == 1 { sub(/^v/, "", $2); print $2 }' > "$dir/btrfs-progs"
	disk_timing on
}
