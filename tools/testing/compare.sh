# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# What the programs share that run suites of others twice.

# compare SUITE ONE OTHER NAME NAME: prints what does not end alike in two files of tests and
# outcomes, with the reason where tools/testing/differences has one; false if it has none for one.
compare() {
	local suite=$1 one=$2 other=$3 test first second reason status=0

	while read -r test first second; do
		[[ $first != "$second" ]] || continue
		reason=$(awk -v suite="$suite" -v test="$test" -v first="$first" -v second="$second" \
			'$1 == suite && $2 == test && $3 == first && $4 == second { sub(/^([^ \t]+[ \t]+){4}/, ""); print }' \
			"${BASH_SOURCE[0]%/*}/differences")
		printf '%s: %s %s, %s %s%s\n' "$test" "$first" "$4" "$second" "$5" "${reason:+ (as expected: $reason)}"
		[[ -n $reason ]] || status=1
	done < <(join -a 1 -a 2 -e missing -o 0,1.2,2.2 <(sort "$one") <(sort "$other"))
	return "$status"
}
