# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# The cache of kernels, for those that fill it: folders KIND-NAME-KEY.

# shellcheck disable=SC2034 # for who sources this
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/sendahead/kernels

# take DIR: prints the path of the kernel there, which counts as used now.
take() {
	[[ -e $1/linux ]] || return 1
	touch --no-create "$1" 2> /dev/null || :
	echo "$1/linux"
}

# keep DIR NEW: NEW becomes DIR, and of its kind and name those stay that were used last,
# two, and all that were in the last hour: a machine may be about to start from them.
keep() {
	local hex='[0-9a-f][0-9a-f][0-9a-f][0-9a-f]'
	local -a old

	rm -rf "$1"
	mv "$2" "$1"
	# shellcheck disable=SC2012,SC2086 # a pattern of plain names
	mapfile -t old < <(ls --directory -t "${1%-*}"-$hex$hex$hex$hex | tail --lines=+3)
	[[ ${#old[@]} == 0 ]] ||
		find "${old[@]}" -maxdepth 0 -mmin +60 -exec rm -rf {} +
}
