# SPDX-License-Identifier: GPL-2.0
"""Traces of the disk's commands: which blocks were read, and the gaps between them."""

import gzip
import zlib

from bench_report.runs import InputError

SECTOR = 512

# What decides whether sorting reads pays: see gap_summary().
GAP_NEAR = 256 << 10
GAP_FAR = 2 << 20


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


def read_trace(run, name, op="R"):
    """The read commands of a trace, or the writes, in the order they finished."""
    path = run.file(name)
    commands = []
    number = 1
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            names = file.readline().rstrip("\n").split("\t")
            if "op" not in names:
                raise ValueError("no header")
            for number, line in enumerate(file, 2):
                fields = dict(zip(names, line.rstrip("\n").split("\t")))
                if fields["op"] == op:
                    commands.append(Command(fields, run.scale))
    except (KeyError, ValueError):
        raise InputError(f"{path} line {number}: not a command of the disk, "
                          "the run is damaged") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: {error}, the run is damaged") from None
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


def gaps_of(ranges, nodesize):
    """Bytes from the end of each block to the start of the next one needed.

    Blocks of nodesize bytes that touch have a gap of 0.
    """
    gaps = []
    for index, (lba, end) in enumerate(ranges):
        if index:
            gaps.append((lba - ranges[index - 1][1]) * SECTOR)
        gaps.extend([0] * (-(-(end - lba) * SECTOR // nodesize) - 1))
    return gaps


def histogram(gaps):
    """Counts of 0, then of each power of two bytes up to the next."""
    counts = {}
    for gap in gaps:
        low = 1 << (gap.bit_length() - 1) if gap else 0
        counts[low] = counts.get(low, 0) + 1
    return [{"from_bytes": low, "below_bytes": low * 2 or 1, "count": counts[low]}
            for low in sorted(counts)]


def gap_summary(buckets):
    """The shares of gaps that are short, and long enough for sorting not to pay."""
    total = sum(b["count"] for b in buckets)
    if not total:
        return None
    near = sum(b["count"] for b in buckets if b["from_bytes"] < GAP_NEAR)
    far = sum(b["count"] for b in buckets if b["from_bytes"] >= GAP_FAR)
    return near / total, far / total
