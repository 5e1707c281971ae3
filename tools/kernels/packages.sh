# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# What the tools that have Debian packages fetched share: an apt with lists and cache of its
# own, the mirrors of this machine and Debian's keys, and the place where downloads are kept.
# Sourced by them after lib.sh.

# Make the cache and this run's directory in it, and keep other runs out of it.
# shellcheck disable=SC2154 # lib.sh sets cache
enter_cache() {
	[[ "$cache" == /* ]] ||
		die "HOME or XDG_CACHE_HOME must name an absolute directory"
	mkdir --parents "$cache" || die "cannot make the cache '$cache'"
	lock "$cache/lock" "with the cache"
	# Whoever made these is dead: a living run would hold the lock.
	rm --recursive --force "$cache"/tmp.*
	work="$(mktemp --directory "$cache/tmp.XXXXXX")" ||
		die "cannot write in the cache '$cache'"
}

# sources TYPE SUITE...: for apt, these suites of each mirror of this machine; those with
# security updates are at mirrors that say so.
sources() {
	local type="$1" suite mirror
	local keyring="${DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}"

	shift
	# shellcheck disable=SC2016 # a field of apt's
	apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' \
		'Component: main' | sort --unique | while read -r mirror; do
		for suite; do
			[[ "$suite" == *-security && "$mirror" == *security* ||
			   "$suite" != *-security && "$mirror" != *security* ]] || continue
			printf '%s [signed-by=%s] %s %s main\n' "$type" "$keyring" "$mirror" "$suite"
		done
	done
}

# use_suites TYPE SUITE...: from now on "apt" are the options of apt-get for these suites, for
# what is of TYPE deb or deb-src. A mirror need not have all of them.
use_suites() {
	local dir="$work/apt"

	rm --recursive --force "$dir"
	mkdir --parents "$dir/lists/partial" "$dir/archives/partial" "$dir/sources"
	sources "$@" >"$dir/sources/all.list"
	# The machine's own configuration (proxy, certificates) stays as it is, but for this.
	cat >"$dir/apt.conf" <<-END
	#clear APT::Update;
	#clear APT::Default-Release;
	Dir::State "$dir/";
	Dir::State::lists "$dir/lists/";
	Dir::State::status "/dev/null";
	Dir::Cache "$dir/";
	Dir::Log "$dir/";
	Dir::Etc::sourcelist "/dev/null";
	Dir::Etc::sourceparts "$dir/sources/";
	Dir::Etc::preferences "/dev/null";
	Dir::Etc::preferencesparts "/dev/null";
	APT::Sandbox::User "root";
	APT::Get::AllowUnauthenticated "false";
	Acquire::AllowInsecureRepositories "false";
	Acquire::AllowWeakRepositories "false";
	Acquire::AllowDowngradeToInsecureRepositories "false";
	Acquire::Languages "none";
	END
	apt=(--config-file="$dir/apt.conf" --quiet=2)
	run apt-get "${apt[@]}" update >"$work/apt.log" 2>&1 || true
}

# What apt had to complain of last.
apt_reason() {
	sed --quiet 's/^E: //p' "$work/apt.log" | head --lines=1
}

# fetch PACKAGE=VERSION...: have apt download packages to $work/download; it
# checks them against the signed lists. To be called with "run".
fetch() {
	mkdir --parents "$work/download"
	cd "$work/download" && exec apt-get "${apt[@]}" download "$@" >&2
}

# Whether the kept file is there and as it was when apt checked it.
kept_whole() {
	[[ -f "$1" && -f "$1.sha256" &&
	   "$(sha256sum <"$1")" == "$(cat "$1.sha256")" ]]
}

# Whether a version lies in the half-open range "from" to "to" of a row of SUPPORTED; a
# release candidate of the upper bound does not.
# shellcheck disable=SC2154 # from and to are set by who calls this
in_range() {
	local version="${1%-*}"

	dpkg --compare-versions "$version" ge "${from#v}" &&
		dpkg --compare-versions "${version%%~*}" lt "${to#v}"
}

# Of the versions on standard input, one a line, the newest in range, if any.
newest_in_range() {
	local version best=""

	while read -r version; do
		in_range "$version" || continue
		[[ -n "$best" ]] && dpkg --compare-versions "$version" lt "$best" || best="$version"
	done
	printf '%s\n' "$best"
}
