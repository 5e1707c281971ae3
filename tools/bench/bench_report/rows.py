# SPDX-License-Identifier: GPL-2.0
"""All numbers of a report: one row a run, send and variant."""

import os
import statistics

from bench_report.floor import Floor
from bench_report.runs import SENDS, lookup
from bench_report.traces import SECTOR, merge, read_trace


def median(values):
    """The median as a whole number, or None if a value is not known."""
    values = list(values)
    return None if not values or None in values else round(statistics.median(values))


def ratio(value, base):
    """value / base, or None where there is none."""
    return value / base if value is not None and base else None


def overlap(row, base):
    """Do the ranges of the samples overlap? None for single samples."""
    if base is row or row["n"] + base["n"] == 2:
        return None
    return (row["elapsed_min_ns"] <= base["elapsed_max_ns"] and
            base["elapsed_min_ns"] <= row["elapsed_max_ns"])


def trace_facts(run, traces, profile, floor):
    """What traces say, of which each has its number of reads: distinct bytes and floor. Several
    disks read at once: the floor is that of the one that needs longest for what it has read.
    """
    facts = {"distinct_bytes": None, "floor_ns": None, "floor_reason": None}
    ranges = []
    for disks, requests in traces:
        reads = [read_trace(run, trace) if trace else [] for trace in disks]
        found = sum(map(len, reads))
        if found < requests or not all(disks):
            facts["floor_reason"] = f"the trace holds {found} of {requests} reads" if all(disks) \
                else "no trace of the disk's commands"
            return facts
        ranges.append([merge(each) for each in reads])
    facts["distinct_bytes"] = median(sum(e - s for r in each for s, e in r) * SECTOR
                                     for each in ranges)
    profiles = [run.file(profile.replace(".", f"-{disk + 1}.") if disk else profile)
                for disk in range(len(ranges[0]))]
    if not os.path.exists(run.file(profile)):
        facts["floor_reason"] = "a real disk has no model"
    elif floor.missing:
        facts["floor_reason"] = floor.missing
    else:
        facts["floor_ns"] = median(max(map(floor.ns, profiles, each)) for each in ranges)
    return facts


def receiving_facts(run, disks, floor):
    """What the receiving disks read and wrote, medians; None if there was none."""
    if not disks:
        return None
    facts = trace_facts(run, [(disk["traces"], disk["reads"]["requests"]) for disk in disks],
                        "receive-profile.conf", floor)
    for kind in ("reads", "writes"):
        did = {key: median(disk[kind][key] for disk in disks) for key in disks[0][kind]}
        facts |= {kind: did["requests"], f"{kind}_bytes": did["sectors"] * SECTOR}
        # What a drive writes later from its cache is no command's time.
        if kind == "reads":
            facts["reads_busy_ns"] = did["seek_ns"] + did["rotation_ns"] + did["transfer_ns"]
    return facts


def busy_shares(samples, key):
    """Shares of the time in which each disk, or processor, was busy."""
    each = [[ns / s["elapsed_ns"] for ns in lookup(s, "busy", key) or []] for s in samples]
    return [statistics.median(shares) for shares in zip(*each)]


def make_row(run, send, variant, floor):
    """All numbers of one send and variant, except those relative to others."""
    samples = sorted(run.of(send, variant), key=lambda s: s["elapsed_ns"])
    middle = {key: median(s[key] for s in samples) for key in (
        "requests", "sectors", "hits", "seek_ns", "rotation_ns", "transfer_ns", "elapsed_ns",
        "first_byte_ns", "stream_bytes", "user_ns", "system_ns", "sync_ns")}
    parts = [middle[key] for key in ("seek_ns", "rotation_ns", "transfer_ns")]
    service = None if None in parts else sum(parts)
    facts = trace_facts(run, [(s["traces"], s["requests"]) for s in samples], "profile.conf", floor)
    beside = [s["beside"] for s in samples if s["beside"]]
    return {
        "run": run.name, "send": send, "variant": variant, "n": len(samples), **middle, **facts,
        "elapsed_min_ns": samples[0]["elapsed_ns"], "elapsed_max_ns": samples[-1]["elapsed_ns"],
        # picture and title are of one sample, that in the middle
        "drawn": samples[(len(samples) - 1) // 2],
        "ratio_to_stock": None, "overlaps_stock": None,
        "ratio_to_floor": ratio(middle["elapsed_ns"], facts["floor_ns"]),
        "bytes": middle["sectors"] * SECTOR,
        "seek_share": ratio(parts[0], service), "rotation_share": ratio(parts[1], service),
        "transfer_share": ratio(parts[2], service),
        "busy_share": ratio(service, middle["elapsed_ns"] * len(samples[0]["traces"])),
        "disks_busy": busy_shares(samples, "disks_ns"),
        "processors_busy": busy_shares(samples, "processors_ns"),
        "stream_sha256": samples[0]["stream_sha256"],
        "receiving": receiving_facts(
            run, [s["receiving"] for s in samples if s["receiving"]], floor),
        "beside": {key: beside[0][key] if key == "kind" else median(b.get(key) for b in beside)
                   for key in beside[0]} if beside else None,
    }


def make_rows(runs):
    """One row for each run, send and variant."""
    floor, rows = Floor(), []
    for run in runs:
        for send in SENDS:
            mine = [make_row(run, send, variant, floor) for variant in run.variants
                    if run.of(send, variant)]
            for row in mine:
                for base in mine:
                    if base["variant"] == run.base:
                        row["ratio_to_stock"] = ratio(row["elapsed_ns"], base["elapsed_ns"])
                        row["overlaps_stock"] = overlap(row, base)
            rows += mine
    return rows
