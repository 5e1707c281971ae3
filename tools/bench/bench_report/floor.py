# SPDX-License-Identifier: GPL-2.0
"""The floor: the least time a disk needs for a set of blocks."""

import os
import subprocess

from bench_report.runs import TOP, ReportError, printable


class Floor:
    """Asks the disk model for the time to read ranges once in ascending order."""

    program = os.path.join(TOP, "build", "rotdisk-sim")

    def __init__(self):
        self.known = {}
        self.missing = None
        if not os.access(self.program, os.X_OK):
            try:
                subprocess.run(["make", "--silent", "-C", TOP, "build/rotdisk-sim"], check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            except (OSError, subprocess.CalledProcessError):
                self.missing = "build/rotdisk-sim is missing and cannot be built"

    def ns(self, profile, ranges):
        """The time in ns for the disk of this profile."""
        text = "".join(f"{lba}\t{end - lba}\n" for lba, end in ranges)
        key = (profile, text)
        if key not in self.known:
            done = subprocess.run([self.program, "floor", profile], input=text, text=True,
                                  capture_output=True, check=False)
            if done.returncode or not done.stdout.strip().isdigit():
                raise ReportError(f"no floor for {profile}: {printable(done.stderr.strip())[-300:]}")
            self.known[key] = int(done.stdout)
        return self.known[key]
