# SPDX-License-Identifier: GPL-2.0
"""Runs other programs."""

import subprocess

from bench_report.runs import printable


def call(command, text):
    """Run a command with this standard input; None if there is no such command."""
    try:
        return subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, check=False)
    except OSError:
        return None


def last_line(text):
    """The last line of what a program complained, which says the most."""
    return printable((text.strip().splitlines() or ["no reason given"])[-1])
