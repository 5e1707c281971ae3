# SPDX-License-Identifier: GPL-2.0
"""What was read, by class: which trees the blocks belong to that a send has read."""

from bisect import bisect_right

from bench_report.runs import InputError
from bench_report.traces import SECTOR, read_lines, read_trace

# What a send reads of blocks that these trees have, by the files of a run (bench-classes).
FULL = {"snap1": "send root", "snap1+snap2": "send root", "snap2": "other snapshots"}
INCREMENTAL = {"snap1": "tree diff", "snap2": "tree diff", "snap1+snap2": "look-ups"}
BOTH = {"snapshots": "other snapshots", "extent": "extent tree", "checksum": "checksums",
        "other": "other metadata"}


class Blocks:
    """Where the tree blocks of a run's disk lie."""

    def __init__(self, run):
        self.starts, self.ends, self.trees = [], [], []
        path = run.file("classes.tsv.gz")
        for number, fields in read_lines(path):
            try:
                start, sectors, trees = int(fields[0]), int(fields[1]), fields[2]
                if (sectors < 1 or start < (self.ends[-1] if self.ends else 0) or
                        trees not in FULL.keys() | BOTH.keys()):
                    raise ValueError
            except (ValueError, IndexError):
                raise InputError(f"{path} line {number}: not the place of tree blocks, "
                                 "the run is damaged") from None
            self.starts.append(start)
            self.ends.append(start + sectors)
            self.trees.append(trees)

    def parts(self, start, end):
        """(sectors, trees) of the parts of a range; trees is None where no tree block is."""
        index = bisect_right(self.starts, start) - 1
        if index < 0 or self.ends[index] <= start:
            index += 1
        while start < end:
            if index == len(self.starts) or self.starts[index] >= end:
                yield end - start, None
                return
            if start < self.starts[index]:
                yield self.starts[index] - start, None
                start = self.starts[index]
            stop = min(end, self.ends[index])
            yield stop - start, self.trees[index]
            start = stop
            index += 1


def count_reads(blocks, send, reads):
    """{class: reads, bytes and the disk's time}.

    A read of blocks of several classes counts for each; its time is shared out by their sectors.
    """
    known = {**(FULL if send == "full" else INCREMENTAL), **BOTH}
    counts = {}
    for read in reads:
        shares = {}
        for sectors, trees in blocks.parts(read.lba, read.lba + read.sectors):
            name = known[trees] if trees else "data"
            shares[name] = shares.get(name, 0) + sectors
        for name, sectors in shares.items():
            entry = counts.setdefault(name, {"reads": 0, "bytes": 0, "disk_ns": 0})
            entry["reads"] += 1
            entry["bytes"] += sectors * SECTOR
            entry["disk_ns"] += round(read.service_ns * sectors / read.sectors)
    return dict(sorted(counts.items(), key=lambda item: -item[1]["disk_ns"]))


def add_classes(runs, rows):
    """Add to each row what the sample that is drawn has read."""
    for run in runs:
        blocks = Blocks(run)
        for row in rows:
            if row["run"] == run.name:
                if row["drawn"]["trace"] is None:
                    raise InputError(f"run {run.name} has no trace of the disk's commands")
                row["classes"] = count_reads(blocks, row["send"],
                                             read_trace(run, row["drawn"]["trace"]))
