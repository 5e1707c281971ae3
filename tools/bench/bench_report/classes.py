# SPDX-License-Identifier: GPL-2.0
"""What was read, by class: which trees the blocks belong to that a send has read.

And what the processor executed for each class, where that was counted.
"""

import gzip
import os
import zlib
from bisect import bisect_right

from bench_report.runs import InputError, is_count, lookup, parse_json, read_text
from bench_report.traces import SECTOR, read_trace

# In the order of the table.
CLASSES = ("tree diff", "send root", "look-ups", "subvolumes", "extent tree", "other snapshots",
           "checksums", "other metadata", "data", "stream", "read ahead")

# What a send reads of blocks that these trees have.
FULL = {"snap1": "send root", "snap1+snap2": "send root", "snap2": "other snapshots"}
INCREMENTAL = {"snap1": "tree diff", "snap2": "tree diff", "snap1+snap2": "look-ups"}
BOTH = {"snapshots": "other snapshots", "extent": "extent tree", "checksum": "checksums",
        "other": "other metadata"}
TREES = {*FULL, *INCREMENTAL, *BOTH}
# What a receive reads and writes of them.
RECEIVE = {**BOTH, **dict.fromkeys(("snap1", "snap1+snap2", "snap2", "snapshots"), "subvolumes")}


class Blocks:
    """Where the tree blocks of a run's disk lie, by a file of the run."""

    def __init__(self, run, name="classes.tsv.gz"):
        self.starts = []
        self.ends = []
        self.trees = []
        path = run.file(name)
        number = 1
        try:
            with gzip.open(path, "rt", encoding="ascii") as file:
                for number, line in enumerate(file, 1):
                    lba, sectors, trees = line.rstrip("\n").split("\t")
                    if trees not in TREES:
                        raise ValueError("no such trees")
                    self.add(int(lba), int(lba) + int(sectors), trees)
        except FileNotFoundError:
            raise InputError(f"{path} is missing: measured without a trace, or on a real disk, "
                              "a run has no classes") from None
        except ValueError:
            raise InputError(f"{path} line {number}: not the place of tree blocks, "
                              "the run is damaged") from None
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"cannot read {path}: {error}, the run is damaged") from None

    def add(self, start, end, trees):
        """Blocks come in the order of the disk."""
        if start < (self.ends[-1] if self.ends else 0) or end <= start:
            raise ValueError("not ascending")
        self.starts.append(start)
        self.ends.append(end)
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


def count_commands(blocks, known, commands, meta="data"):
    """{class: commands, bytes and the disk's time}.

    A command on blocks of several classes counts for each; its time is shared
    out by their sectors. What btrfs calls metadata and is no such block is meta.
    """
    counts = {}
    for command in commands:
        shares = {}
        for sectors, trees in blocks.parts(command.lba, command.lba + command.sectors):
            name = known[trees] if trees else meta if command.meta else "data"
            shares[name] = shares.get(name, 0) + sectors
        for name, sectors in shares.items():
            entry = counts.setdefault(name, {"commands": 0, "bytes": 0, "disk_ns": 0})
            entry["commands"] += 1
            entry["bytes"] += sectors * SECTOR
            entry["disk_ns"] += command.service_ns * sectors / command.sectors
    return {name: {key: round(value) for key, value in entry.items()}
            for name, entry in counts.items()}


def count_reads(blocks, send, reads):
    """The same of what a send reads."""
    known = {**(FULL if send == "full" else INCREMENTAL), **BOTH}
    return {name: {"reads": entry["commands"], "bytes": entry["bytes"],
                   "disk_ns": entry["disk_ns"]}
            for name, entry in count_commands(blocks, known, reads).items()}


def receiving_classes(run, sample):
    """What the receiving disk has read, by the trees it held before, and written, by those that
    it holds after it; None if that was not kept."""
    trace = lookup(sample, "receiving", "trace")
    names = [os.path.join("receiving", f"{sample['variant']}-{sample['send']}-{when}.tsv.gz")
             for when in ("before", "after")]
    if not trace or not all(os.path.exists(run.file(name)) for name in names):
        return None
    reads, writes = (
        # a superblock, or a block that a later commit has written anew elsewhere
        count_commands(Blocks(run, name), RECEIVE, read_trace(run, trace, op), "other metadata")
        for name, op in zip(names, "RW"))
    nothing = {"commands": 0, "bytes": 0, "disk_ns": 0}
    counts = {}
    for name in CLASSES:
        if name in reads or name in writes:
            read, write = reads.get(name, nothing), writes.get(name, nothing)
            counts[name] = {"reads": read["commands"], "reads_bytes": read["bytes"],
                            "reads_busy_ns": read["disk_ns"], "writes": write["commands"],
                            "writes_bytes": write["bytes"]}
    return counts


def read_instructions(run):
    """{(send, variant): {class: calls and instructions}}, empty if they were not counted."""
    path = run.file("instructions.jsonl")
    counts = {}
    if not os.path.exists(path):
        return counts
    for number, line in enumerate(read_text(path).splitlines(), 1):
        where = f"{path} line {number}"
        entry = parse_json(line, where)
        if (not isinstance(entry, dict) or entry.get("class") not in CLASSES or
                not all(isinstance(entry.get(key), str) for key in ("send", "variant")) or
                not is_count(entry.get("calls")) or not is_count(entry.get("instructions"))):
            raise InputError(f"{where}: not the instructions of a class, the run is damaged")
        counts.setdefault((entry["send"], entry["variant"]), {})[entry["class"]] = {
            key: entry[key] for key in ("calls", "instructions")}
    return counts


def join_counts(reads, instructions):
    """One table of both, in the order of the classes."""
    nothing = {"reads": 0, "bytes": 0, "disk_ns": 0}
    return {name: {**reads.get(name, nothing), **instructions.get(name, {})}
            for name in CLASSES if name in reads or name in instructions}


def add_classes(runs, rows):
    """Add to each row what its first sample has read, and what was executed, by class."""
    for run in runs:
        blocks = Blocks(run)
        instructions = read_instructions(run)
        for row in rows:
            if row["run"] != run.name:
                continue
            sample = run.of(row["send"], row["variant"])[0]
            if row["receiving"]:
                row["receiving"]["classes"] = receiving_classes(run, sample)
            if sample["trace"] is None:
                raise InputError(f"run {run.name} has no trace of the disk's commands")
            row["classes"] = join_counts(
                count_reads(blocks, row["send"], read_trace(run, sample["trace"])),
                instructions.get((row["send"], row["variant"]), {}))
