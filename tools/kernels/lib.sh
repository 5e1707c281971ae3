# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# What the tools share that get and make source trees, kernels and machines. Sourced by
# them, with "tool" and "top" set.

export LC_ALL=C

# Where sources, builds and downloads are kept.
# shellcheck disable=SC2034 # for who sources this
cache="${XDG_CACHE_HOME:-${HOME:-}/.cache}/sendahead"

work=""		# this run's temporary directory
child=""	# the long-running command of the moment
failure=""	# the last line if a command fails that no one looks after

# shellcheck disable=SC2154 # tool is set by who sources this
say() {
	printf '%s: %.1000s\n' "$tool" "${*//[[:cntrl:]]/?}" >&2
}

# fail STATUS WHAT...
fail() {
	failure=""
	say "${@:2}"
	exit "$1"
}

die() {
	fail 1 "$@"
}

usage_error() {
	fail 2 "$1, see --help"
}

cleanup() {
	local status=$?

	# a second signal does not end this
	trap '' INT TERM HUP
	if [[ -n "$child" ]]; then
		kill "$child" 2>/dev/null || true
		wait "$child" 2>/dev/null || true
	fi
	if [[ -n "$work" ]]; then
		rm --recursive --force "$work" || true
	fi
	if (( status && status < 128 )) && [[ -n "$failure" ]]; then
		say "$failure"
	fi
}
trap cleanup EXIT

# parse FLAGS OPTIONS ARGUMENT...: of the options of two lists of words sets each that is given,
# disk_memory of --disk-memory, to yes or to its value; all else is in "rest".
parse() {
	local flags=" $1 " options=" $2 " name

	shift 2
	rest=()
	while (( $# )); do
		name="${1#--}"
		case "$1" in
		-h|--help) usage; exit 0 ;;
		-*[[:space:]]*|-) usage_error "unknown option '$1'" ;;
		--) rest+=("${@:2}"); return ;;
		-*)
			if [[ "$options" == *" $name "* ]]; then
				[[ -n "${2:-}" ]] || fail 2 "$1 needs a value, see $tool --help"
				printf -v "${name//-/_}" %s "$2"
				shift
			elif [[ "$flags" == *" $name "* ]]; then
				printf -v "${name//-/_}" yes
			else
				usage_error "unknown option '$1'"
			fi ;;
		*) rest+=("$1") ;;
		esac
		shift
	done
}

# take_kernel: the one argument that is left, of a tool that takes one kernel.
take_kernel() {
	(( ${#rest[@]} )) || usage_error "no kernel named"
	(( ${#rest[@]} == 1 )) || usage_error "one kernel at a time"
	# shellcheck disable=SC2034 # for who calls this
	kernel="${rest[0]}"
}

# Run a long command so that a signal stops it together with the script.
run() {
	local status=0

	"$@" &
	child=$!
	wait "$child" || status=$?
	child=""
	return "$status"
}

# The same for a command that may complain about each of many files: its first
# complaints are enough, and it is stopped by then.
run_brief() {
	local status=0 errors brief

	exec {errors}> >(exec head --lines=3 >&2)
	brief=$!
	run "$@" 2>&"$errors" || status=$?
	exec {errors}>&-
	wait "$brief" || true
	# 141: nobody listened to its complaints any more.
	(( status != 141 )) || status=1
	return "$status"
}

# Hold a lock until this run and all it started have ended.
lock() {
	local file="$1" what="$2" fd

	exec {fd}<>"$file" || die "cannot write '$file'"
	if ! flock --nonblock "$fd"; then
		say "waiting for another run to finish $what"
		flock "$fd"
	fi
}

# Whether a directory has room for a number of MiB; says so if not.
has_room() {
	local dir="$1" size="$2" free

	free="$(df --output=avail --block-size=1M "$dir" | tail --lines=1)"
	if (( free < size )); then
		say "$dir has ${free// /} MiB free, $size are needed, make room"
		return 1
	fi
}

# forget PATH...: of these, all but the two that were used last go, and those of the last hour:
# another run may be about to use them.
forget() {
	local -a old

	# shellcheck disable=SC2012 # plain names
	mapfile -t old < <(ls --directory -t -- "$@" 2>/dev/null | tail --lines=+3)
	(( ! ${#old[@]} )) || find "${old[@]}" -maxdepth 0 -mmin +60 -exec rm --recursive --force {} +
}

# forget_unused: what no run has used for two weeks goes, whatever has made it.
forget_unused() {
	find "$cache" "$cache/kernels" "$cache/modules" -mindepth 1 -maxdepth 1 -mtime +13 \
		! -name kernels ! -name modules ! -name ccache ! -name lock \
		-exec rm --recursive --force {} + 2>/dev/null || true
}

# debian_changelog DIR VERSION: of one entry, for the source package in a folder, dated SOURCE_DATE_EPOCH.
debian_changelog() {
	printf 'sendahead (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$2" \
		"$(sed --quiet 's/^Maintainer: //p' "$1/debian/control")" \
		"$(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")" >"$1/debian/changelog"
}

# Let nothing of the caller's git reach a repository we look into or make:
# neither the one we may be called from, nor identity, hooks or settings.
isolate_git() {
	local name

	for name in "${!GIT_@}"; do
		unset "$name"
	done
	export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1
	export GIT_OPTIONAL_LOCKS=0
}

# Trees of the files that the series touches, with git to follow it.

# Bring a file of the pristine source ($pristine), if it is there, into the scratch
# tree ($scratch), and note its name in $work/touched.
# shellcheck disable=SC2154 # set by who calls this
take_pristine() {
	local file="$1"

	[[ "$file" =~ ^[A-Za-z0-9_.,+@=-]+(/[A-Za-z0-9_.,+@=-]+)*$ &&
	   "/$file/" != */../* && "/$file/" != */.git/* ]] || die "will not touch a file named '$file'"
	printf '%s\n' "$file" >>"$work/touched"
	if [[ -f "$pristine/$file" && ! -e "$scratch/$file" ]]; then
		mkdir --parents "$scratch/$(dirname "$file")"
		cp --no-dereference --preserve=mode "$pristine/$file" "$scratch/$file" ||
			die "cannot copy '$file'"
	fi
}

# Print the names of the patches in the series, in order.
patch_names() {
	local series="$1"

	sed --expression='s/\(^\|[[:space:]]\)#.*//' \
		--expression='s/^[[:space:]]*//; s/[[:space:]]*$//' \
		--expression='/^$/d' "$series"
}

# series_of FOLDER VARIANT: print the folders of the series that this variant of a kernel is
# made with, in order; FOLDER is patches/KERNEL.
series_of() {
	local name
	local -A parts=([searches]="fixes searches" [patched]="fixes searches readahead")

	for name in ${parts["$2"]:-}; do
		[[ ! -f "$1/$name/series" ]] || printf '%s\n' "$1/$name"
	done
}

# patches_of FOLDER VARIANT [SERIES]: print the patches of these series, in order; only those
# before SERIES where it is given.
patches_of() {
	local dir

	while read -r dir; do
		[[ "${dir##*/}" != "${3:-}" ]] || break
		patch_names "$dir/series" | sed "s|^|$dir/|"
	done < <(series_of "$1" "$2")
}

# Print the files a patch speaks of.
files_of_patch() {
	awk '
	/^diff --git a\// { split($0, part, / [ab]\//); print part[2]; print part[3] }
	/^(--- a|\+\+\+ b)\// { sub(/^(--- a|\+\+\+ b)\//, ""); sub(/\t.*/, ""); print }
	/^(rename|copy) (from|to) / { sub(/^(rename|copy) (from|to) /, ""); print }
	' "$1" | sort --unique
}
