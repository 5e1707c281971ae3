# SPDX-License-Identifier: GPL-2.0
"""Traces of the disk's commands."""

import gzip
import zlib

from bench_report.runs import InputError

SECTOR = 512


class Command:
    """A read or write of a trace; times in ns, addresses in sectors."""

    __slots__ = ("submit_ns", "finish_ns", "service_ns", "lba", "sectors", "meta", "hit")

    def __init__(self, fields, scale):
        numbers = [int(fields[name]) * (scale if name.endswith("_ns") else 1) for name in (
            "submit_ns", "finish_ns", "lba", "sectors", "meta", "hit", "seek_ns", "rotation_ns",
            "transfer_ns")]
        (self.submit_ns, self.finish_ns, self.lba, self.sectors, self.meta,
         self.hit) = numbers[:6]
        self.service_ns = sum(numbers[6:])
        if min(numbers) < 0 or self.sectors == 0 or self.finish_ns < self.submit_ns:
            raise ValueError("impossible numbers")


def read_lines(path):
    """(number, fields) of each line of a compressed table with tabs."""
    number = 0
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\n").split("\t")
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise InputError(f"{path} line {number + 1}: {error}, the run is damaged") from None


def read_trace(run, name, op="R"):
    """The read commands of a trace, or the writes, in the order they finished."""
    path, commands, names = run.file(name), [], None
    for number, fields in read_lines(path):
        if number == 1:
            names = fields
            continue
        try:
            command = dict(zip(names, fields))
            if command["op"] == op:
                commands.append(Command(command, run.scale))
        except (KeyError, ValueError):
            raise InputError(f"{path} line {number}: not a command of the disk, "
                             "the run is damaged") from None
    if not names or "op" not in names:
        raise InputError(f"{path}: not a trace of the disk, the run is damaged")
    return commands


def merge(reads):
    """What was read as ascending [start, end) sectors, each sector once."""
    ranges = []
    for lba, end in sorted((r.lba, r.lba + r.sectors) for r in reads):
        if ranges and lba <= ranges[-1][1]:
            ranges[-1][1] = max(ranges[-1][1], end)
        else:
            ranges.append([lba, end])
    return ranges
