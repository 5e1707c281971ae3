# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Completion of sendahead for bash.

_sendahead() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local own='--window --threads --nice --json --quiet' send='-p --no-data --compressed-data'
	local words=

	COMPREPLY=()
	if [[ $COMP_CWORD == 1 ]]; then
		words='send receive estimate compare warm --help --version'
	elif [[ $before == -f ]]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
	elif [[ $before =~ ^--(window|threads|disk|samples|proto|buffer|max-errors)$ ]]; then
		return
	elif [[ $word == -* ]]; then
		case ${COMP_WORDS[1]} in
		send) words="$send $own -c -f -e -v --proto --help" ;;
		receive) words='--buffer --unchanged --no-ahead --no-sync --nice --json --quiet -f -e -v -m --chroot --max-errors --dump --help' ;;
		estimate) words="$send --json --disk" ;;
		compare) words="$send --json --drop-caches --samples" ;;
		warm) words="$send $own" ;;
		esac
	else
		# subvolumes
		mapfile -t COMPREPLY < <(compgen -d -- "$word")
		return
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o filenames -F _sendahead sendahead
