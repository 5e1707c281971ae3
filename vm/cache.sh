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

# keep DIR NEW: NEW becomes DIR, and others of its kind and name are forgotten.
keep() {
	rm -rf "$1"
	mv "$2" "$1"
	forget "${1%-*}"-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]*
}
