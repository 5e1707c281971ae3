# SPDX-License-Identifier: GPL-2.0
"""The floor: the least time a disk needs for a set of blocks."""

import os

from bench_report.programs import call, last_line
from bench_report.runs import TOP, ReportError


class Floor:
    """Asks the disk model for the time to read ranges once in ascending order."""

    program = os.path.join(TOP, "build", "rotdisk-sim")

    def __init__(self):
        self.known = {}
        self.missing = None if os.access(self.program, os.X_OK) else self.build()

    def build(self):
        """Make the program; says why that is impossible, or None."""
        done = call(["make", "--silent", "-C", TOP, "build/rotdisk-sim"], "")
        if done is None:
            return "build/rotdisk-sim is missing and so is make"
        if done.returncode:
            return "build/rotdisk-sim is missing and cannot be built"
        return None

    def ns(self, profile, ranges):
        """The time in ns for the disk of this profile."""
        text = "".join(f"{lba}\t{end - lba}\n" for lba, end in ranges)
        key = (profile, text)
        if key not in self.known:
            done = call([self.program, "floor", profile], text)
            if done is None or done.returncode or not done.stdout.strip().isdigit():
                why = last_line(done.stderr) if done else "it is gone"
                raise ReportError(f"no floor for {profile}: {why}")
            self.known[key] = int(done.stdout)
        return self.known[key]
