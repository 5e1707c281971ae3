# SPDX-License-Identifier: GPL-2.0
"""What is measured: the workload in force, and the job that the guest reads."""

import argparse
import os
import re

from .options import DECIMALS, RANGES, Failure, check_number, wrong

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), *[".."] * 3))
WORKLOADS = os.path.join(TOP, "tools", "bench", "workloads")
# The numbers that each generator needs, beside those that all need.
NEEDS = {
    "published": "JOBS INLINE_SIZE UPDATE_EVERY UPDATE_BYTES",
    "aged": "DIRECTORIES SIZE_MIN SIZE_MAX SIZE_SKEW ROUNDS REWRITE DELETE RENAME ADD",
    "rewritten": "FILE_SIZE BLOCK_SIZE WRITES UPDATES SYNC_EVERY",
    "rotated": "DIRECTORIES SIZE_MIN SIZE_MAX SIZE_SKEW ROUNDS REWRITE",
    "deduplicated": "DIRECTORIES EXTENTS SHARERS BLOCK_SIZE REWRITE"}
KEYS = ("GENERATOR", "PACE", *RANGES)
# What a workload need not say, see the published one.
DEFAULTS = {"PACE": "1-3", "MAX_INLINE": "2048", "NODESIZE": "16384"}


class Workload:
    """Lines KEY=value, with numbers that options replace."""

    def __init__(self, options):
        self.name = options.workload
        self.file = self.name if "/" in self.name else os.path.join(WORKLOADS, self.name)
        self.lines = self.read()
        given = [line.partition("=")[0] for line in self.lines]
        self.lines += [f"{key}={value}" for key, value in DEFAULTS.items() if key not in given]
        self.numbers = self.parse()
        for key, value in options.override.items():
            if key not in self.numbers:
                wrong(f"the workload {self.name} has no {key} to set")
            self.numbers[key] = value
        self.settle(options)

    def read(self):
        """The text of the file."""
        try:
            if os.path.isfile(self.file):
                with open(self.file, encoding="utf-8", errors="surrogateescape") as file:
                    return file.read().rstrip("\n").split("\n")
        except (OSError, ValueError):
            pass
        there = " ".join(sorted(os.listdir(WORKLOADS)))
        raise Failure(f"no workload '{self.name[:80]}': there are {there}, or name a file "
                      "(with a slash)", 2)

    def parse(self):
        """The numbers, which must be what the generator needs."""
        numbers = {}
        for line in self.lines:
            key, equals, value = line.partition("=")
            if not line or line.startswith("#"):
                continue
            if not equals or key not in KEYS:
                wrong(f"{self.file}: '{line}' is not one of: {' '.join(KEYS)}")
            numbers[key] = value
        generator = numbers.get("GENERATOR", "")
        if generator not in NEEDS:
            wrong(f"{self.file}: GENERATOR must be one of {', '.join(NEEDS)}, not '{generator}'")
        for key in ("FILES", "PACE", "MAX_INLINE", "NODESIZE", *NEEDS[generator].split()):
            if not numbers.get(key):
                wrong(f"{self.file}: {key} is missing")
        for key, value in numbers.items():
            if key in RANGES and value:
                try:
                    check_number(value, *RANGES[key], key in DECIMALS)
                except argparse.ArgumentTypeError as error:
                    wrong(f"{self.file}: {key}: {error}")
        return numbers

    def settle(self, options):
        """What follows from other numbers and from options."""
        numbers = self.numbers
        if numbers["GENERATOR"] == "published" and not numbers.get("GROW"):
            numbers["GROW"] = str(int(numbers["FILES"]) // 4)
        if options.receive_rounds:
            if numbers["GENERATOR"] not in ("aged", "rotated"):
                wrong(f"--receive-rounds needs a workload of rounds, {self.name} has none")
            numbers["ROUNDS"] = str(max(int(numbers["ROUNDS"]), options.receive_rounds))
        number = r"((?:0|[1-9][0-9]{0,5})(?:[.][0-9]{1,6})?)"
        match = re.fullmatch(f"{number}(?:-{number})?", numbers["PACE"])
        if not match or float(match[1]) > float(match[2] or match[1]):
            wrong(f"the pace is MIN-MAX milliseconds, not '{numbers['PACE']}'")
        if numbers["NODESIZE"] not in ("4096", "8192", "16384", "32768", "65536"):
            wrong("the nodesize is 4096, 8192, 16384, 32768 or 65536, not "
                  f"'{numbers['NODESIZE']}'")

    def text(self):
        """The workload in force, comments and all."""
        lines = (line if not line or line.startswith("#") else
                 "{0}={1}".format(line.split("=")[0], self.numbers[line.split("=")[0]])
                 for line in self.lines)
        return "".join(line + "\n" for line in lines)


def job_text(options, workload, **more):
    """All that the guest is told: lines KEY=value."""
    same = ("device receive_device erase dry_run samples to no_data no_fio cached beside buffer "
            "rate latency receive_rounds seed clock own_kernel disks data metadata below").split()
    job = {**workload.numbers, **{name: getattr(options, name) for name in same},
           "trace": not options.no_trace, "simulated": not options.device, "lane": options.kind, **more}
    lines = []
    for key, value in job.items():
        value = str(int(value) if isinstance(value, bool) else value)
        if "\n" in value:
            raise Failure(f"no newline can be in '{value}'", 2)
        lines.append(f"{key}={value}\n")
    return "".join(lines)
