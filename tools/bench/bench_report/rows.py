# SPDX-License-Identifier: GPL-2.0
"""All numbers of a report: one row a run, send and variant."""

import os
import statistics

from bench_report.floor import Floor
from bench_report.runs import SENDS
from bench_report.traces import SECTOR, gaps_of, histogram, merge, read_trace


def median(values):
    """The median as a whole number, or None if a value is not known."""
    values = list(values)
    if not values or None in values:
        return None
    return round(statistics.median(values))


def ratio(value, base):
    """value / base, or None where there is none."""
    return value / base if value is not None and base else None


def overlap(row, base):
    """Do the ranges of the samples overlap? None for single samples."""
    if base is None or base is row or row["n"] + base["n"] == 2:
        return None
    return (row["elapsed_min_ns"] <= base["elapsed_max_ns"] and
            base["elapsed_min_ns"] <= row["elapsed_max_ns"])


def delta(row, base):
    """(after - before) / before of the elapsed time; None for the base itself."""
    if base is None or base is row:
        return None
    return (row["elapsed_ns"] - base["elapsed_ns"]) / base["elapsed_ns"]


def trace_facts(run, traces, profile, floor):
    """What traces say, of which each has its number of reads: distinct bytes, floor and gaps."""
    facts = {"distinct_bytes": None, "floor_ns": None, "floor_reason": None,
             "gap_median_bytes": None, "gap_histogram": None}
    if any(trace is None for trace, _ in traces):
        facts["floor_reason"] = "no trace of the disk's commands"
        return facts
    ranges = []
    for trace, requests in traces:
        reads = read_trace(run, trace)
        if len(reads) < requests:
            facts["floor_reason"] = f"the trace holds {len(reads)} of {requests} reads"
            return facts
        ranges.append(merge(reads))
    facts["distinct_bytes"] = median(sum(e - s for s, e in r) * SECTOR for r in ranges)
    gaps = gaps_of(ranges[0], run.nodesize)
    facts["gap_median_bytes"] = median(gaps)
    facts["gap_histogram"] = histogram(gaps)
    profile = run.file(profile)
    if not os.path.exists(profile):
        facts["floor_reason"] = "a real disk has no model"
    elif floor.missing:
        facts["floor_reason"] = floor.missing
    else:
        facts["floor_ns"] = median(floor.ns(profile, r) for r in ranges)
    return facts


def receiving_facts(run, disks, floor):
    """What the receiving disk read and wrote, medians; None if there was none."""
    if not disks:
        return None
    # runs from before that disk could be another one have no profile of it
    profile = "receive-profile.conf"
    if not os.path.exists(run.file(profile)):
        profile = "profile.conf"
    seen = trace_facts(run, [(disk["trace"], disk["reads"]["requests"]) for disk in disks],
                       profile, floor)
    facts = {"distinct_bytes": seen["distinct_bytes"], "floor_ns": seen["floor_ns"],
             "floor_reason": seen["floor_reason"]}
    for kind in ("reads", "writes"):
        did = {key: median(disk[kind][key] for disk in disks) for key in disks[0][kind]}
        facts |= {kind: did["requests"], f"{kind}_bytes": did["sectors"] * SECTOR}
        # What a drive writes later from its cache is no command's time.
        if kind == "reads":
            facts["reads_busy_ns"] = did["seek_ns"] + did["rotation_ns"] + did["transfer_ns"]
    return facts


def make_row(run, send, variant, floor):
    """All numbers of one send and variant, except those relative to others."""
    samples = run.of(send, variant)
    times = [s["elapsed_ns"] for s in samples]
    middle = {key: median(s[key] for s in samples) for key in (
        "requests", "sectors", "hits", "seek_ns", "rotation_ns", "transfer_ns",
        "first_byte_ns", "stream_bytes", "user_ns", "system_ns")}
    elapsed = median(times)
    parts = [middle[key] for key in ("seek_ns", "rotation_ns", "transfer_ns")]
    service = None if None in parts else sum(parts)
    facts = trace_facts(run, [(s["trace"], s["requests"]) for s in samples], "profile.conf", floor)
    beside = [s["beside"] for s in samples if s.get("beside")]
    return {
        "run": run.name, "send": send, "variant": variant, "n": len(samples),
        "elapsed_ns": elapsed, "elapsed_min_ns": min(times), "elapsed_max_ns": max(times),
        "baseline": run.baseline, "delta_to_baseline": None, "overlaps_baseline": None,
        "ratio_to_stock": None, "overlaps_stock": None,
        "delta_to_first_run": None, "overlaps_first_run": None,
        "floor_ns": facts["floor_ns"], "floor_reason": facts["floor_reason"],
        "ratio_to_floor": ratio(elapsed, facts["floor_ns"]),
        "requests": middle["requests"], "bytes": middle["sectors"] * SECTOR,
        "distinct_bytes": facts["distinct_bytes"], "hits": middle["hits"],
        "elapsed_per_request_ns": ratio(elapsed, middle["requests"]),
        "seek_ns": parts[0], "rotation_ns": parts[1], "transfer_ns": parts[2],
        "seek_share": ratio(parts[0], service), "rotation_share": ratio(parts[1], service),
        "transfer_share": ratio(parts[2], service), "busy_share": ratio(service, elapsed),
        "first_byte_ns": middle["first_byte_ns"], "stream_bytes": middle["stream_bytes"],
        "stream_sha256": samples[0]["stream_sha256"],
        "user_ns": middle["user_ns"], "system_ns": middle["system_ns"],
        "sync_ns": median(s.get("sync_ns") for s in samples),
        "receiving": receiving_facts(
            run, [s["receiving"] for s in samples if s.get("receiving")], floor),
        "gap_median_bytes": facts["gap_median_bytes"], "gap_histogram": facts["gap_histogram"],
    } | ({"beside": {key: beside[0][key] if key == "kind" else median(b.get(key) for b in beside)
                     for key in beside[0]}} if beside else {})


def find_row(rows, run, send, variant):
    """The row of this run, send and variant, or None."""
    for row in rows:
        if (row["run"], row["send"], row["variant"]) == (run.name, send, variant):
            return row
    return None


def make_rows(runs):
    """One row for each run, send and variant."""
    floor = Floor()
    rows = []
    for run in runs:
        for send in SENDS:
            for variant in run.variants:
                if run.of(send, variant):
                    rows.append(make_row(run, send, variant, floor))
        for row in [r for r in rows if r["run"] == run.name]:
            base = find_row(rows, run, row["send"], run.baseline)
            stock = find_row(rows, run, row["send"], "stock")
            row["delta_to_baseline"] = delta(row, base)
            row["overlaps_baseline"] = overlap(row, base)
            row["ratio_to_stock"] = ratio(row["elapsed_ns"], stock and stock["elapsed_ns"])
            row["overlaps_stock"] = overlap(row, stock)
            if run is not runs[0]:
                first = find_row(rows, runs[0], row["send"], row["variant"])
                row["delta_to_first_run"] = delta(row, first)
                row["overlaps_first_run"] = overlap(row, first)
    return rows
