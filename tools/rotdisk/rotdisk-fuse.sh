# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# The disks of tools/rotdisk/rotdisk where the kernel has no rotdisk_blk: rotdisk-fuse
# under a loop device. Sourced by it, with "top" set, and "made_fuse" to name the disk
# that is to be dropped at its end.
# shellcheck disable=SC2154,SC2034 # these two
#
# A disk is a folder of $records: "folder", what rotdisk-fuse has mounted, "trace",
# "loop", the number of a loop device made for it, so that no other one is left with
# its queue, and, once it is complete, "disk": that device, rotdisk-fuse's process and
# the run it belongs to, if any. A process is written PID-START, with the time the kernel
# says that it started at, a run as its first process. A run that makes disks names
# itself in SENDAHEAD_RUN and has a file of $runs that names what it writes elsewhere.
# So whatever was killed when, the next one to come finds what is left, and never takes
# for it what has got the same number since.

readonly state=/run/sendahead
readonly records=$state/rotdisk runs=$state/runs

# What the way through FUSE and the loop device costs at most.
readonly lane_ns=150000 lane_rate=20000

# process PID: as it is written in a record; nothing if there is none.
process() {
	local stat

	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
	# the name in parentheses may be anything
	read -r -a stat <<<"${stat##*) }"
	[[ ${stat[0]} == Z ]] || echo "$1-${stat[19]}"
}

# alive PROCESS
alive() {
	[[ -n $1 && $(process "${1%-*}") == "$1" ]]
}

# kill_marked VARIABLE=VALUE: all processes that have it in their environment.
kill_marked() {
	local pids files tries

	for ((tries = 0; tries < 100; tries++)); do
		files=(/proc/[0-9]*/environ)
		mapfile -t pids < <(grep --files-with-matches --null-data --line-regexp --fixed-strings \
			--regexp="$1" -- "${files[@]}" 2>/dev/null | cut --delimiter=/ --fields=3)
		[[ ${#pids[@]} -gt 0 ]] || return 0
		kill -KILL "${pids[@]}" 2>/dev/null || true
		sleep 0.1
	done
	die "processes do not end that were killed: ${pids[*]}"
}

# unmount PATH: even if it is in use.
unmount() {
	umount "$1" 2>/dev/null || umount --lazy "$1" 2>/dev/null || true
}

# Make a loop device of a number that is free, and write it to a file before.
add_loop() {
	python3 - "$1" <<-'PYTHON'
		import fcntl, os, sys
		for number in range(100, 1000):
		    if os.path.exists(f"/sys/block/loop{number}"):
		        continue
		    with open(sys.argv[1], "w") as record:
		        print(number, file=record)
		    try:
		        fcntl.ioctl(open("/dev/loop-control"), 0x4C80, number)  # LOOP_CTL_ADD
		        break
		    except FileExistsError:
		        pass
		else:
		    sys.exit(1)
	PYTHON
}

# is_loop NUMBER DISK: whether a loop device is this disk's still, and not another's. Once
# the folder was unmounted while it was in use, the kernel says no more than "/disk".
is_loop() {
	local backing

	backing=$(cat "/sys/block/loop$1/loop/backing_file" 2>/dev/null) || return
	[[ $backing == "$2/folder/disk" || ($backing == /disk && -e $2/in-use) ]]
}

# Take the loop device of a disk away, but none that somebody else has put to use. Fails
# where somebody holds it, as a process in a mount namespace of its own does.
remove_loop() {
	local disk=$1 number backing path tries

	[[ -s $disk/loop ]] || return 0
	number=$(<"$disk/loop")
	backing=/sys/block/loop$number/loop/backing_file
	if is_loop "$number" "$disk"; then
		# the last one first
		while read -r path; do
			unmount "$(printf '%b' "$path")" # a blank is \040
		done < <(awk -v device="/dev/loop$number" '$1 == device { print $2 }' \
			/proc/self/mounts | tac)
		losetup --detach "/dev/loop$number" 2>/dev/null || true
	fi
	[[ ! -e $disk/node ]] || rm --force "/dev/loop$number"
	# it is free a moment after it was detached
	for ((tries = 0; tries < 50; tries++)); do
		[[ -e /sys/block/loop$number ]] || return 0
		if [[ ! -e $backing ]]; then
			python3 -c 'import fcntl, sys
fcntl.ioctl(open("/dev/loop-control"), 0x4C81, int(sys.argv[1]))  # LOOP_CTL_REMOVE' "$number" 2>/dev/null || true
		fi
		sleep 0.05
	done
	! is_loop "$number" "$disk"
}

# One at a time makes or takes away disks: the number of a loop device may be another's next.
lock_disks() {
	[[ -z ${state_lock-} ]] || return 0
	exec {state_lock}>"$state/lock"
	flock --timeout 120 "$state_lock" || die "another run has made or taken away disks for two minutes, see who has $state/lock"
}

# No command of a disk takes time any more. A rotdisk-fuse that is stopped does not answer.
# shellcheck disable=SC2016 # for that bash
no_timing() {
	timeout 5 bash -c 'printf 0 >>"$1"' no_timing "$1/folder/timing" 2>/dev/null || true
}

# Take a disk away, complete or not. Where its loop device is in use its record stays
# for the next who looks.
drop_disk() {
	local disk=$records/$1 in_use=

	lock_disks
	[[ ! -d $disk ]] || : >"$disk/in-use"
	no_timing "$disk"
	remove_loop "$disk" || in_use=1
	! mountpoint --quiet "$disk/folder" 2>/dev/null || await_unmount "$disk/folder"
	kill_marked "SENDAHEAD_DISK=$disk"
	unmount "$disk/folder"
	if [[ -n $in_use ]]; then
		rm --force "$disk/disk"
		[[ -n ${quiet-} ]] ||
			echo "rotdisk: $1: somebody uses its loop device /dev/loop$(<"$disk/loop"), the next run takes it away" >&2
		return
	fi
	rm --recursive --force --one-file-system "$disk"
}

# A loop device lets its file go a moment after it was detached.
await_unmount() {
	local tries

	for ((tries = 0; tries < 50; tries++)); do
		! umount "$1" 2>/dev/null || return 0
		sleep 0.05
	done
}

# What runs that were killed have left. With $quiet nothing is said of what is still in use:
# whoever makes a disk has not asked after those of others.
clean() {
	local path run device server owner written place gone=()

	mkdir --parents "$records" "$runs"
	for path in "$runs"/*; do
		run=${path##*/}
		if [[ ! -e $path ]] || alive "$run"; then
			continue
		fi
		# who ends from here on is left to the next, with the processes that use its disks
		gone+=("$run")
		# whoever writes to a disk of it ends when that is done
		for device in "$records"/*; do
			[[ ! -e $device/disk ]] || ! grep --quiet --no-messages " $run\$" "$device/disk" || no_timing "$device"
		done
		kill_marked "SENDAHEAD_RUN=$run"
	done
	lock_disks
	for path in "$records"/*; do
		[[ -e $path ]] || continue
		device='' server='' owner=''
		[[ ! -e $path/disk ]] || read -r device server owner <"$path/disk"
		if alive "$server" && { [[ -z $owner ]] || alive "$owner" ||
			[[ -e $runs/$owner && " ${gone[*]} " != *" $owner "* ]]; }; then
			continue
		fi
		drop_disk "${path##*/}"
	done
	for run in "${gone[@]}"; do
		[[ -e $runs/$run ]] || continue
		mapfile -t written <"$runs/$run"
		for place in "${written[@]}"; do
			[[ $place != *".$run" ]] || rm --recursive --force --one-file-system -- "$place"
		done
		rm --force "$runs/$run"
	done
}

# Can this machine do it? Says all that is missing.
need_fuse() {
	local missing=()

	modprobe --quiet fuse 2>/dev/null || true
	modprobe --quiet loop 2>/dev/null || true
	[[ -c /dev/fuse ]] || missing+=("FUSE (/dev/fuse)")
	[[ -c /dev/loop-control ]] || missing+=("loop devices (/dev/loop-control)")
	[[ ${#missing[@]} == 0 ]] || die "missing here: $(printf '%s, ' "${missing[@]}" | sed 's/, $//')" 77
	make --silent --directory "$top" build/rotdisk-fuse build/rotdisk-sim >&2 ||
		die "rotdisk-fuse cannot be built, see above; scripts/install-deps host" 77
}

# random_reads PROFILE DEPTH: ns that the drive takes for each, with so many at once.
random_reads() {
	awk 'BEGIN { srand(1); for (n = 0; n < 2000; n++) printf "%d\t8\tR\n", rand() * 100000 * 8 }' |
		"$top/build/rotdisk-sim" replay "$1" --depth "$2" | awk '{ print int($1 / 2000) }'
}

# Results would be the lane's own.
refuse_fast() {
	local path=$1 depth=$2 one many

	one=$(random_reads "$path" 1)
	many=$(random_reads "$path" "$depth")
	((one < lane_ns || 1000000000 / many > lane_rate)) || return 0
	die "this disk answers a read in $((one / 1000)) us and $((1000000000 / many)) in a second, but FUSE and a loop \
device need up to $((lane_ns / 1000)) us and carry $lane_rate: take a slower profile, or the driver" 77
}

# Queue and features as the driver's, see rotdisk_add_disk() in rotdisk.c.
set_queue() {
	local queue=/sys/block/${1##*/}/queue rotational=1 depth=$2

	! grep --quiet '^[[:space:]]*kind[[:space:]]*=[[:space:]]*flash' <<<"$3" || rotational=0
	echo none >"$queue/scheduler" || return
	echo "$depth" >"$queue/nr_requests" || return
	if grep --quiet mq-deadline "$queue/scheduler"; then
		echo mq-deadline >"$queue/scheduler" || return
		echo $((2 * depth)) >"$queue/nr_requests" || return
	fi
	echo "$rotational" >"$queue/rotational" || return
	grep --quiet '^[[:space:]]*write_cache_bytes[[:space:]]*=[[:space:]]*0*[1-9]' <<<"$3" || echo 'write through' >"$queue/write_cache"
	# a FUSE request takes no more
	echo 1024 >"$queue/max_sectors_kb" || return
	echo 0 >"$queue/discard_max_bytes"
}

fuse_create() {
	local name=$1 text=$2 capacity=$3 path=$4 disk=$records/$1 device server depth

	need_fuse
	"$top/build/rotdisk-sim" check "$path" || exit 1
	depth=$(sed --quiet 's/^[[:space:]]*queue_depth[[:space:]]*=[[:space:]]*\([0-9]*\).*/\1/p' <<<"$text")
	refuse_fast "$path" "$depth"
	quiet=1 clean
	mkdir "$disk" 2>/dev/null || die "disk '$name' exists, remove it first"
	made_fuse=$name
	mkdir "$disk/folder"
	# it keeps the lock until it can be found by its environment, even if we are killed
	env --unset=SENDAHEAD_RUN "SENDAHEAD_DISK=$disk" setsid "$top/build/rotdisk-fuse" \
		"$capacity" "$disk/trace" "$disk/folder" <<<"$text" >/dev/null 2>"$disk/error" &
	server=$(process $!)
	until [[ -e $disk/folder/disk ]]; do
		alive "$server" || die "$name: $(cat "$disk/error")"
		sleep 0.02
	done
	add_loop "$disk/loop" || die "$name: no loop device"
	device=/dev/loop$(<"$disk/loop")
	if [[ ! -b $device ]]; then # no udev, as in a container
		touch "$disk/node"
		mknod "$device" b "$(cut --delimiter=: --fields=1 "/sys/block/${device#/dev/}/dev")" \
			"$(cut --delimiter=: --fields=2 "/sys/block/${device#/dev/}/dev")" || die "$name: no $device" 77
	fi
	losetup --direct-io=on "$device" "$disk/folder/disk" || die "$name: no loop device"
	[[ $(<"/sys/block/${device#/dev/}/loop/dio") == 1 ]] ||
		die "$name: a loop device of this kernel does no direct I/O to FUSE" 77
	set_queue "$device" "$depth" "$text" || die "$name: the queue of a loop device cannot be set here" 77
	echo "$device $server ${SENDAHEAD_RUN:-}" >"$disk/disk.new"
	mv "$disk/disk.new" "$disk/disk"
	made_fuse=
	echo "$device"
}

# fuse_image NAME: the file with what the disk holds.
fuse_image() {
	local server fd

	read -r _ server _ <"$records/$1/disk"
	alive "$server" || die "$1: rotdisk-fuse is gone, remove the disk"
	for fd in "/proc/${server%-*}/fd"/*; do
		[[ $(readlink "$fd") != /memfd:rotdisk* ]] || echo "$fd"
	done
}

# fuse_trace DISK: rotdisk-fuse writes it on demand.
fuse_trace() {
	printf 3 >>"$1/folder/trace"
	printf 'submit_ns\tfinish_ns\tlba\tsectors\top\tmeta\thit\tseek_ns\trotation_ns\ttransfer_ns\n'
	cat "$1/trace"
}
