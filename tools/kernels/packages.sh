# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# What the tools that have Debian packages fetched share: an apt with lists and
# cache of its own, the mirrors and keys of this machine, and the place where
# downloads are kept. Sourced by them after lib.sh.

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

# The private apt configuration, read after the machine's own (proxy,
# certificates and the like stay as they are).
write_apt_config() {
	local dir="$1"

	mkdir --parents "$dir/lists/partial" "$dir/cache/archives/partial" \
		"$dir/state" "$dir/log" "$dir/sources"
	cat >"$dir/apt.conf" <<END
#clear APT::Update;
#clear APT::Default-Release;
#clear DPkg::Post-Invoke;
Dir::State "$dir/state/";
Dir::State::lists "$dir/lists/";
Dir::State::status "/dev/null";
Dir::Cache "$dir/cache/";
Dir::Log "$dir/log/";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$dir/sources/";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::Languages "none";
END
}

# Write this machine's Debian mirrors to $work/mirrors, a file each.
# shellcheck disable=SC2154 # top and way_out are set by who calls this
read_mirrors() {
	local mirrors mirror

	type -P python3 >/dev/null || die "needs python3, run scripts/install-deps kernel"
	mkdir "$work/mirrors"
	mirrors="$("$top/tools/kernels/apt-mirrors" "$@")" || die "$way_out"
	awk -v RS= -v dir="$work/mirrors" \
		'{ print > (dir "/mirror." NR + 10) }' <<<"$mirrors"
	for mirror in "$work/mirrors"/mirror.*; do
		[[ -f "$mirror" ]] ||
			die "no Debian mirror in this machine's apt configuration; add one, or $way_out"
	done
}

# A suite of a mirror as a stanza of apt's sources.
archive_stanza() {
	printf 'Types: deb\nSuites: %s\nComponents: main\n' "$1"
	printf 'Targets: Packages\nArchitectures: %s\n' "$(dpkg --print-architecture)"
	cat "$2"
}

# Have apt, with the sources in $work/apt, fetch their lists.
update_lists() {
	run apt-get --config-file="$work/apt/apt.conf" --quiet=2 \
		--option Acquire::Retries=1 update >"$work/apt.log" 2>&1
}

# search_archives LOOK WHAT SUITE...: fetch the lists of each suite from each
# mirror in turn until LOOK SUITE finds there what it wants (the lists are in
# $work/apt), else puts why not into "lacks". False if none has it; the reasons
# are then in "tried". "way_out" says how to do without a mirror.
search_archives() {
	local look="$1" what="$2"
	local suite mirror

	shift 2
	tried=()
	read_mirrors "$@"
	for suite; do
		for mirror in "$work/mirrors"/mirror.*; do
			say "looking for $what in $suite"
			rm --recursive --force "$work/apt"
			write_apt_config "$work/apt"
			archive_stanza "$suite" "$mirror" >"$work/apt/sources/mirror.sources"
			if ! update_lists; then
				tried+=("  $suite: $(apt_reason)")
				continue
			fi
			if "$look" "$suite"; then
				return 0
			fi
			tried+=("  $suite: $lacks")
		done
	done
	return 1
}

# not_found WHAT HINT: end with what is not to be had, where it was looked for,
# and what to do.
not_found() {
	say "$1:"
	printf '%s\n' "${tried[@]}" >&2
	die "$2"
}

# The first error in apt's log, on one line.
apt_reason() {
	local line

	line="$(grep --max-count=1 '^E: ' "$work/apt.log" ||
		tail --lines=1 "$work/apt.log")"
	printf '%s' "${line#E: }"
}

# fetch PACKAGE=VERSION...: have apt download packages to $work/download; it
# checks them against the signed lists. To be called with "run".
fetch() {
	local -a progress=(--quiet=2)

	if [[ -t 2 ]]; then
		progress=()
	fi
	cd "$work/download" &&
		exec apt-get --config-file="$work/apt/apt.conf" "${progress[@]}" \
			download "$@" >&2
}

# Whether the kept package file is there and as it was when apt checked it.
kept_whole() {
	[[ -f "$1" && -f "$1.sha256" &&
	   "$(sha256sum <"$1")" == "$(cat "$1.sha256")" ]]
}

# Versions of the row of SUPPORTED whose columns are in "from", "to" and "package".

# The part of a package version that upstream gave: no epoch, no revision.
upstream_of() {
	local version="${1#*:}"

	printf '%s\n' "${version%-*}"
}

# Whether an upstream version lies in the row's half-open range. A release
# candidate of the upper bound is outside of it.
# shellcheck disable=SC2154 # from and to are set by who calls this
in_range() {
	dpkg --compare-versions "$1" ge "${from#v}" &&
		dpkg --compare-versions "${1%%~*}" lt "${to#v}"
}

# shellcheck disable=SC2154 # from and to are set by who calls this
range_text() {
	printf '%s up to, not including, %s' "$from" "$to"
}

# Of the versions on standard input, one a line, the newest in range, if any.
newest_in_range() {
	local version best=""

	while read -r version; do
		in_range "$(upstream_of "$version")" || continue
		if [[ -z "$best" ]] ||
		   dpkg --compare-versions "$version" gt "$best"; then
			best="$version"
		fi
	done
	printf '%s\n' "$best"
}

# The versions of the package that the mirror offers.
# shellcheck disable=SC2154 # package is set by who calls this
offered() {
	# It fails where the suite does not have the package.
	{ apt-cache --config-file="$work/apt/apt.conf" show "$package" 2>/dev/null || true; } |
		awk '$1 == "Version:" { print $2 }'
}
