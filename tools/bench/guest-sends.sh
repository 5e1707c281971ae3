# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# The timed sends of the guest: both ends, who is beside them, and what is told of each.
# shellcheck disable=SC2154 # the guest sets job, top, dir, mnt, disks and the variant

# Where the stream goes. Standard input is the stream; leaves its checksum,
# length and the time of its first byte in files of $work_dir.
take_stream() {
	{
		head --bytes=1 > "$work_dir/first"
		now_ns > "$work_dir/first_byte"
		cat "$work_dir/first" -
	} | tee >(wc --bytes > "$work_dir/bytes") | "$@"
}

# to_sha256 [FILE]: openssl needs an eighth of the processor that sha256sum does.
to_sha256() {
	openssl sha256 -r | cut --delimiter=' ' --fields=1 > "${1-$work_dir/sha256}"
}

# What sends and what receives, in "sender" and "receiver".
set_ends() {
	local program=$top/build/sendahead

	# a sealed machine has it beside the job
	[[ ${job[clock]} == disk ]] || program=$dir/sendahead
	sender=(btrfs send --quiet)
	receiver=(btrfs receive --quiet)
	[[ ! $variant =~ ^(program(-send)?|together)$ ]] ||
		sender=("$program" send --quiet "--json=$work_dir/program")
	if [[ $variant =~ ^(program(-receive)?|together)$ ]]; then
		receiver=("$program" receive --quiet ${job[buffer]:+--buffer "${job[buffer]}"})
	elif [[ -n ${job[buffer]} ]]; then
		receiver=(through mbuffer -q -m "${job[buffer]}" -- "${receiver[@]}")
	fi
	[[ ${job[latency]} == 0 ]] ||
		receiver=(through "$top/tools/bench/bench-delay" "${job[latency]}" -- "${receiver[@]}")
	[[ -z ${job[rate]} ]] ||
		receiver=(through pv --quiet --rate-limit "${job[rate]}" -- "${receiver[@]}")
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

# With --clock all the checksum of the stream is that of one more send, in its own time.
send_to_receiver() {
	if [[ ${job[clock]} == all ]]; then
		"${send[@]}" | "${receiver[@]}"
	else
		"${send[@]}" | take_stream to_receive
	fi
}

receive_failed() {
	tree_failed "sending to the receiving disk failed, see above" "$receive_mnt" "receiving disk"
}

# A process substitution is not waited for: it says itself when it is done.
to_sha256_signal() {
	to_sha256 "$work_dir/sha256.tmp"
	mv "$work_dir/sha256.tmp" "$work_dir/sha256"
}

# At most a minute: who was to write it may have failed.
wait_for_file() {
	local tries

	for ((tries = 0; tries < 6000; tries++)); do
		[[ ! -s $1 ]] || return 0
		sleep 0.01
	done
	die "$1 was not written"
}

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
	local path=${devices[0]}

	[[ -n ${job[beside]} ]] || return 0
	if [[ $1 == end ]]; then
		kill "$beside_pid"
		wait "$beside_pid" || die "what was beside the send has failed"
		return
	fi
	[[ ${job[beside]} == reader ]] || path=$mnt
	if [[ ${job[dry_run]} == 1 ]]; then
		echo "$top/tools/bench/bench-beside ${job[beside]} $path &"
		return
	fi
	setsid "$top/tools/bench/bench-beside" "${job[beside]}" "$path" > "$work_dir/beside" &
	beside_pid=$!
	wait_for_file "$work_dir/beside"
}

# How many ms the clock is ahead of the time since boot, which nobody can set.
clock_ahead() {
	local up

	read -r up _ < /proc/uptime
	echo $((${EPOCHREALTIME/[^0-9]/} / 1000 - 10#${up/./} * 10))
}

# read_busy NAME: into this variable what the kernel says of the disks and the processors.
read_busy() {
	local device text=''

	for device in "${disks[@]}"; do
		text+=$(< "/sys/class/block/${device##*/}/stat")$'\n'
	done
	printf -v "$1" '%s' "$text$(< /proc/stat)"
}

# The timed command. Sets start and end (ns).
timed_send() {
	local sender receiver send ahead

	set_ends
	send=("${sender[@]}" "${send_options[@]}")
	if [[ ${job[dry_run]} == 1 ]]; then
		printf '%q ' "${send[@]}"
		case ${job[to]}${job[clock]} in
		nullall) echo '> /dev/null'
			echo '# and once more, cold and untimed, into sha256sum' ;;
		nulldisk) echo '| sha256sum' ;;
		file*) printf -- '-f %q \nsha256sum %s\n' "$work_dir/stream" "$work_dir/stream" ;;
		receive*) printf '| %s' "$([[ ${job[clock]} == all ]] || echo 'tee >(sha256sum) | ')"
			printf '%q ' "${receiver[@]}" | sed 's/through //g; s/ -- / | /g'
			printf '; sync --file-system %q\n' "$receive_mnt" ;;
		esac
		return
	fi
	rm -f "$work_dir"/{sha256,bytes,first,first_byte,stream,beside,program}
	ahead=$(clock_ahead)
	[[ ${job[clock]} == disk ]] || await_start
	beside begin
	[[ ${job[clock]} == all ]] || send=(count_processor "${send[@]}")
	read_busy busy_before
	start=$(now_ns)
	case ${job[to]}${job[clock]} in
	nullall) "${send[@]}" > /dev/null; end=$(now_ns) ;;
	nulldisk) "${send[@]}" | take_stream to_sha256; end=$(now_ns) ;;
	file*) "${send[@]}" -f "$work_dir/stream"; end=$(now_ns)
		to_sha256 < "$work_dir/stream"
		stat --format=%s "$work_dir/stream" > "$work_dir/bytes"
		rm "$work_dir/stream" ;;
	receive*) send_to_receiver || receive_failed; sync_start=$(now_ns)
		sync --file-system "$receive_mnt" || receive_failed; end=$(now_ns) ;;
	esac
	read_busy busy_after
	beside end
	ahead=$((ahead - $(clock_ahead)))
	((ahead > -100 && ahead < 100)) || [[ ${job[own_kernel]} == 0 ]] ||
		die "the clock was set during a send, run it again"
}

# The received snapshot must hold what the sent one holds. The snapshots before it
# lie in the subvolume that it was made of and left empty directories of their
# names, which are no items of that tree and not sent.
compare_received() {
	local snap=$1

	run diff --recursive --no-dereference --brief --exclude=snap1 \
		--exclude='received[0-9]*' "$mnt/$snap" "$receive_dir/$snap" ||
		die "$snap differs after receive (variant $variant)"
	[[ ${job[dry_run]} == 0 ]] || return 0
	list_metadata "$mnt/$snap" > "$work_dir/sent"
	list_metadata "$receive_dir/$snap" > "$work_dir/received"
	cmp "$work_dir/sent" "$work_dir/received" ||
		die "names, modes or times of $snap differ after receive (variant $variant)"
}

# Without the time of the snapshot's own directory: a stream makes each file under a
# temporary name there and tells its time before the last of them.
list_metadata() {
	(cd "$1" && find . '(' -path ./snap1 -o -path './received[0-9]*' ')' -prune \
		-o -path . -printf '%p %y %m %U %G\n' -o -type d -printf '%p %y %m %U %G %T@\n' \
		-o -printf '%p %y %m %U %G %s %T@ %l\n' | LC_ALL=C sort)
}

# counters_json WHICH FILE...: those of the simulated disks whose operation matches, as an object.
counters_json() {
	jq --raw-input --slurp --compact-output --arg which "$1" '
		rtrimstr("\n") | split("\n") | map(split("\t")) | .[0] as $names |
		(.[1:] | map(select(.[0] | test($which)) | [$names, .] | transpose |
			map({(.[0]): (.[1] | tonumber?)}) | add)) as $rows |
		["requests", "sectors", "hits", "seek_ns", "rotation_ns", "transfer_ns"] |
		map({(.): ([$rows[][.]] | add // 0)}) | add' "${@:2}"
}

# keep_traces DISK NAME: prints the files of all disks of one end as an array, null where none is
# kept.
keep_traces() {
	local suffix file

	set -e # a command substitution does not have it
	for suffix in "${suffixes[@]}"; do
		file=null
		if [[ ${job[trace]} == 1 && ${job[simulated]} == 1 ]]; then
			file=trace/$2$suffix.tsv.gz
			mkdir --parents "$dir/trace"
			"$top/tools/rotdisk/rotdisk" trace "$1$suffix" show |
				gzip --no-name > "$dir/$file"
			file="\"$file\""
		fi
		echo "$file"
	done | jq --slurp --compact-output .
}

# watch_disks DISK: begin to watch the simulated disks of one end.
watch_disks() {
	each_disk "$1" trace clear
	each_disk "$1" trace on
	each_disk "$1" counters --reset
}

# end_watch DISK: and end it; leaves their counters in files.
end_watch() {
	local suffix

	for suffix in "${suffixes[@]}"; do
		run_to "$work_dir/counters-$1$suffix" "$top/tools/rotdisk/rotdisk" counters "$1$suffix"
	done
	each_disk "$1" trace off
}

# one_send WHICH
one_send() {
	local which=$1 processor=null traces receiving_traces counters before after
	local start=0 end=0 sync_start='' send_options=() beside_times='' receiving=null
	local busy_before busy_after

	[[ ${job[no_data]} == 0 ]] || send_options+=(--no-data)
	if [[ $which == incremental ]]; then
		send_options+=(-p "$mnt/snap1" "$mnt/snap2")
	else
		send_options+=("$mnt/snap1")
	fi
	note "$variant: $which send, sample $sample of ${job[samples]}"
	if [[ ${job[cached]} == 0 ]]; then
		make_cold
	else
		run_to /dev/null btrfs send --quiet "${send_options[@]}"
	fi
	if [[ ${job[simulated]} == 1 ]]; then
		watch_disks "$disk"
		[[ ${job[to]} != receive ]] || watch_disks "$receive_disk"
	fi
	[[ ${job[dry_run]} == 1 ]] || before=$(disk_stat "${devices[@]}")
	timed_send
	[[ ${job[dry_run]} == 1 ]] || after=$(disk_stat "${devices[@]}")
	if [[ ${job[simulated]} == 1 ]]; then
		[[ ${job[to]} != receive ]] || end_watch "$receive_disk"
		end_watch "$disk"
	fi
	if [[ ${job[to]} == receive ]]; then
		disk_timing off
		compare_received "$([[ $which == incremental ]] && echo snap2 || echo snap1)"
		disk_timing on
	fi
	[[ ${job[dry_run]} == 0 ]] || return 0

	if [[ ${job[clock]} == all && ${job[to]} != file ]]; then
		disk_timing off
		[[ ${job[cached]} == 1 ]] || make_cold
		btrfs send --quiet "${send_options[@]}" | take_stream to_sha256
		rm "$work_dir/first_byte"
		disk_timing on
	fi
	wait_for_file "$work_dir/sha256"
	wait_for_file "$work_dir/bytes"
	if [[ ${job[simulated]} == 1 ]]; then
		counters=$(counters_json ^read_ "${suffixes[@]/#/$work_dir/counters-$disk}")
		if [[ ${job[to]} == receive ]]; then
			receiving_traces=$(keep_traces "$receive_disk" "$variant-$which-$sample-receiving")
			receiving=$(jq --null-input --compact-output --argjson traces "$receiving_traces" \
				--argjson reads "$(counters_json ^read_ \
					"${suffixes[@]/#/$work_dir/counters-$receive_disk}")" \
				--argjson writes "$(counters_json '^(write|flush)' \
					"${suffixes[@]/#/$work_dir/counters-$receive_disk}")" \
				'{$reads, $writes, trace: $traces[0], $traces}')
		fi
	else
		counters=$(jq --null-input --compact-output '[$ARGS.positional[] / " " | map(tonumber)] |
			{requests: (.[1][0] - .[0][0]), sectors: (.[1][1] - .[0][1]), hits: null,
			 seek_ns: null, rotation_ns: null, transfer_ns: null}' --args "$before" "$after")
	fi
	traces=$(keep_traces "$disk" "$variant-$which-$sample")
	# a virtual machine's processor costs nothing, or what emulating it costs
	[[ ${job[own_kernel]} == 0 ]] || processor=$(tr , . < "$work_dir/processor")
	[[ -z ${job[beside]} ]] || beside_times=$(tail --lines=1 "$work_dir/beside")
	jq --null-input --compact-output --arg variant "$variant" --arg send "$which" \
		--argjson sample "$sample" --argjson start "$start" --argjson finish "$end" \
		--argjson first "$(cat "$work_dir/first_byte" 2>/dev/null || echo null)" \
		--argjson bytes "$(tr --delete ' ' < "$work_dir/bytes")" \
		--arg sha256 "$(cat "$work_dir/sha256")" \
		--argjson counters "$counters" --argjson traces "$traces" \
		--arg processor "$processor" --arg before "$busy_before" --arg after "$busy_after" \
		--argjson program "$(cat "$work_dir/program" 2>/dev/null || echo null)" \
		--argjson beside "${beside_times:-null}" --argjson sync "${sync_start:-null}" \
		--argjson receiving "$receiving" '
		def ns: tonumber? * 1000000000 | round;
		# ms in which each disk had commands, and each processor (all but idle and waiting)
		def busy: split("\n") | map([splits(" +")] | map(select(. != "")) |
			if length > 10 and (.[0] | test("^[0-9]")) then {disk: (.[9] | tonumber)}
			elif .[0] // "" | test("^cpu[0-9]") then {cpu: (.[1:4] + .[6:9] | map(tonumber * 10) | add)}
			else empty end);
		([$before, $after] | map(busy) | transpose | map(
			if .[0].disk then {disk: ((.[1].disk - .[0].disk) * 1000000)}
			else {cpu: ((.[1].cpu - .[0].cpu) * 1000000)} end)) as $busy |
		{$variant, $send, $sample, elapsed_ns: ($finish - $start),
		 first_byte_ns: (if $first then $first - $start else null end),
		 stream_bytes: $bytes, stream_sha256: $sha256} + $counters + {trace: $traces[0], $traces,
		 user_ns: ($processor | split(" ")[0] | ns // null),
		 system_ns: ($processor | split(" ")[1] | ns // null),
		 busy: {disks_ns: [$busy[].disk // empty], processors_ns: [$busy[].cpu // empty]}, $program} +
		if $beside then {$beside} else {} end +
		if $sync then {sync_ns: ($finish - $sync), $receiving} else {} end' \
		>> "$dir/samples.jsonl"
}
