# SPDX-License-Identifier: GPL-2.0
"""What is shown of the rows: headers, tables and notes.

A table is (title, headings, rows of cells); a cell is a text or (text, style).
"""

from bench_report.header import describe, differences
from bench_report.numbers import (change, count, mebibytes, milliseconds, millions, percent,
                                  seconds, size, times)
from bench_report.rows import find_row, ratio
from bench_report.runs import SENDS
from bench_report.traces import GAP_FAR, GAP_NEAR, gap_summary

# Headings of columns of words, which begin at the left; those of numbers end at the right.
WORDS = ("send", "variant", "class", "")


def time_table(rows):
    """How long it took."""
    base = rows[0]["baseline"]
    headings = ["send", "variant", "n", "median s", "min s", "max s", f"vs {base}", "/stock",
                "floor s", "/floor", "first byte s"]
    processor = any(row["user_ns"] is not None for row in rows)
    if processor:
        headings[6:6] = ["user s", "system s"]
    synced = any(row["sync_ns"] is not None for row in rows)
    if synced:
        headings[6:6] = ["of it sync s"]
    cells = []
    for row in rows:
        cells.append([
            row["send"], row["variant"], count(row["n"]), seconds(row["elapsed_ns"]),
            seconds(row["elapsed_min_ns"]), seconds(row["elapsed_max_ns"]),
            change(row["delta_to_baseline"], row["overlaps_baseline"]),
            times(row["ratio_to_stock"], row["overlaps_stock"]),
            seconds(row["floor_ns"]), times(row["ratio_to_floor"]), seconds(row["first_byte_ns"])])
        if processor:
            cells[-1][6:6] = [seconds(row["user_ns"]), seconds(row["system_ns"])]
        if synced:
            cells[-1][6:6] = [seconds(row["sync_ns"])]
    return ("elapsed time", headings, cells)


def disk_table(rows):
    """What the disk did meanwhile."""
    headings = ["send", "variant", "requests", "MiB", "distinct MiB", "ms/request", "buffer hits",
                "seek", "rotation", "transfer", "busy"]
    cells = []
    for row in rows:
        cells.append([
            row["send"], row["variant"], count(row["requests"]), mebibytes(row["bytes"]),
            mebibytes(row["distinct_bytes"]), milliseconds(row["elapsed_per_request_ns"]),
            count(row["hits"]), percent(row["seek_share"]), percent(row["rotation_share"]),
            percent(row["transfer_share"]), percent(row["busy_share"])])
    return ("what the disk did", headings, cells)


def receiving_table(rows):
    """What the disk did that the stream was received on; None if there was none."""
    headings = ["send", "variant", "reads", "MiB", "distinct MiB", "reading s", "reading",
                "floor s", "/floor", "writes, flushes", "MiB"]
    cells = []
    for row in rows:
        did = row["receiving"]
        if did:
            cells.append([row["send"], row["variant"], count(did["reads"]),
                          mebibytes(did["reads_bytes"]), mebibytes(did["distinct_bytes"]),
                          seconds(did["reads_busy_ns"]),
                          percent(ratio(did["reads_busy_ns"], row["elapsed_ns"])),
                          seconds(did["floor_ns"]),
                          times(ratio(did["reads_busy_ns"], did["floor_ns"])),
                          count(did["writes"]), mebibytes(did["writes_bytes"])])
    return ("what the receiving disk did", headings, cells) if cells else None


def beside_table(rows):
    """What somebody else at the disk waited for; None if there was nobody."""
    keys = ("mean", "p50", "p90", "p99", "max")
    cells = [[row["send"], row["variant"], count(row["beside"]["operations"])] +
             [milliseconds(row["beside"].get(f"{key}_ns")) for key in keys]
             for row in rows if row.get("beside")]
    if not cells:
        return None
    kind = next(row["beside"]["kind"] for row in rows if row.get("beside"))
    return (f"the {kind} beside it", ["send", "variant", "n"] + [f"{key} ms" for key in keys], cells)


def prefetch_table(rows):
    """What the prefetcher counted; None if it did nothing."""
    columns = [("blocks", "reads"), ("of them lookups", "lookups"), ("there", "hits"),
               ("late", "late"), ("lost", "lost"), ("unused", "unused"),
               ("data ranges", "data_reads"), ("there", "data_hits"), ("late", "data_late"),
               ("unused", "data_unused")]
    cells = [[row["send"], row["variant"]] + [count(row["prefetch"].get(key)) for _, key in columns]
             for row in rows if row["prefetch"] and any(row["prefetch"].values())]
    if not cells:
        return None
    return ("what was read ahead", ["send", "variant"] + [title for title, _ in columns], cells)


def class_table(rows):
    """What was read and executed, by class; None where that was not asked for."""
    headings = ["send", "variant", "class", "reads", "MiB", "disk s", "of disk"]
    counted = any("instructions" in entry for row in rows
                  for entry in (row.get("classes") or {}).values())
    if counted:
        headings += ["calls", "M instructions", "of these"]
    cells = []
    for row in rows:
        classes = row.get("classes") or {}
        total = sum(entry["disk_ns"] for entry in classes.values())
        executed = sum(entry.get("instructions", 0) for entry in classes.values())
        for name, entry in classes.items():
            cells.append([row["send"], row["variant"], name, count(entry["reads"]),
                          mebibytes(entry["bytes"]), seconds(entry["disk_ns"]),
                          percent(entry["disk_ns"] / total if total else None)])
            if counted:
                cells[-1] += [count(entry.get("calls")), millions(entry.get("instructions")),
                              percent(entry["instructions"] / executed
                                      if executed and "instructions" in entry else None)]
    if not cells:
        return None
    return ("what was read" + (" and executed" if counted else ""), headings, cells)


def receiving_class_table(rows):
    """What the receiving disk read and wrote, by class; None where that was not asked for."""
    headings = ["send", "variant", "class", "reads", "MiB", "disk s", "of disk", "writes", "MiB"]
    cells = []
    for row in rows:
        classes = (row["receiving"] or {}).get("classes") or {}
        total = sum(entry["reads_busy_ns"] for entry in classes.values())
        for name, entry in classes.items():
            cells.append([row["send"], row["variant"], name, count(entry["reads"]),
                          mebibytes(entry["reads_bytes"]), seconds(entry["reads_busy_ns"]),
                          percent(ratio(entry["reads_busy_ns"], total)), count(entry["writes"]),
                          mebibytes(entry["writes_bytes"])])
    return ("what the receiving disk read and wrote", headings, cells) if cells else None


def class_tables(runs, rows):
    """Both for each of several runs."""
    for run in runs:
        own = [row for row in rows if row["run"] == run.name]
        for table in filter(None, (class_table(own), receiving_class_table(own))):
            yield (f"{run.name}: {table[0]}",) + table[1:]


def gap_rows(rows):
    """For each send the row that read no more than it needed: off, or the least."""
    chosen = []
    for send in SENDS:
        known = [r for r in rows if r["send"] == send and r["gap_histogram"]]
        if known:
            chosen.append(min(known, key=lambda r: (r["variant"] != "off", r["distinct_bytes"])))
    return chosen


def gap_table(rows):
    """Gaps between the blocks needed, in the order of the disk; None without a trace."""
    chosen = gap_rows(rows)
    if not chosen:
        return None
    counts = [{b["from_bytes"]: b["count"] for b in row["gap_histogram"]} for row in chosen]
    used = sorted(set().union(*counts))
    buckets = [0] if 0 in used else []
    low = max(1, min((u for u in used if u), default=1))
    while low <= used[-1]:
        buckets.append(low)
        low *= 2
    headings = ["gap from"]
    for row in chosen:
        headings += [row["send"], ""]
    cells = []
    for bucket in buckets:
        line = [size(bucket)]
        for column in counts:
            value = column.get(bucket, 0)
            length = -(-value * 20 // max(column.values()))
            line += [count(value), ("#" * length, "bar")]
        cells.append(line)
    names = " and ".join(dict.fromkeys(row["variant"] for row in chosen))
    return (f"gaps between the blocks needed, in the order of the disk (as read by {names})",
            headings, cells)


def gap_notes(rows):
    """How much of each send lies close enough for sorting to pay."""
    notes = []
    for row in gap_rows(rows):
        near, far = gap_summary(row["gap_histogram"])
        notes.append(f"{row['send']}: {near * 100:.1f} % of the gaps below {size(GAP_NEAR)}, "
                     f"{far * 100:.1f} % of {size(GAP_FAR)} and more")
    return notes


def floor_notes(rows):
    """Why a floor is missing."""
    reasons = {}
    for row in rows:
        if row["floor_reason"]:
            reasons.setdefault(row["floor_reason"], []).append(f"{row['send']} {row['variant']}")
    return ["no floor" + ("" if len(names) == len(rows) else f" for {', '.join(names)}") + f": {reason}"
            for reason, names in reasons.items()]


def run_titles(runs):
    """Columns of runs: their names, or numbers where names take too much room."""
    room = 24 + sum(max(len(run.name), 9) + 2 + (9 if index else 0) for index, run in enumerate(runs))
    if room <= 120:
        return [run.name for run in runs]
    return [f"run {index}" for index, _ in enumerate(runs, 1)]


def compare_tables(runs, rows):
    """Several runs: one table a number, with the runs as columns."""
    titles = run_titles(runs)
    keys = list(dict.fromkeys((r["send"], r["variant"]) for r in rows))
    keys.sort(key=lambda key: SENDS.index(key[0]))
    metrics = [("elapsed time, median s", "elapsed_ns", seconds)]
    if any(row["n"] > 1 for row in rows):
        metrics += [("elapsed time, min s", "elapsed_min_ns", seconds),
                    ("elapsed time, max s", "elapsed_max_ns", seconds), ("samples", "n", count)]
    metrics += [("/stock", "ratio_to_stock", times), ("floor, s", "floor_ns", seconds),
                ("/floor", "ratio_to_floor", times), ("requests", "requests", count),
                ("read, MiB", "bytes", mebibytes), ("first byte, s", "first_byte_ns", seconds)]
    tables = []
    for title, key, form in metrics:
        headings = ["send", "variant"]
        for index, name in enumerate(titles):
            headings += [name] + (["delta"] if index and key == "elapsed_ns" else [])
        cells = []
        for send, variant in keys:
            line = [send, variant]
            for index, run in enumerate(runs):
                row = find_row(rows, run, send, variant)
                line.append(form(row[key]) if row else "-")
                if index and key == "elapsed_ns":
                    line.append(change(row["delta_to_first_run"], row["overlaps_first_run"])
                                if row else "-")
            cells.append(line)
        tables.append((title, headings, cells))
    return tables


def report(runs, rows):
    """Everything that table and html show: headers, tables, notes."""
    headers = [describe(run) for run in runs]
    if len(runs) == 1:
        tables = [time_table(rows), beside_table(rows), disk_table(rows), receiving_table(rows),
                  class_table(rows), receiving_class_table(rows), prefetch_table(rows),
                  gap_table(rows)]
        return headers, [t for t in tables if t], gap_notes(rows) + floor_notes(rows)
    for title, header in zip(run_titles(runs), headers):
        if title != header[0][1][0]:
            header[0] = (title, header[0][1], header[0][2])
    notes = [f"the runs differ in their {text}" for text in differences(runs)]
    if len({row["sync_ns"] is None for row in rows}) > 1:
        notes.append("the time of some sends includes the sync of the receiving disk, that of others not")
    notes += [f"the runs did not send the same: the streams of the {send} send differ"
              for send in SENDS if len({r["stream_sha256"] for r in rows if r["send"] == send}) > 1]
    for run in runs:
        notes += [f"{run.name}: {text}" for text in floor_notes(
            [row for row in rows if row["run"] == run.name])]
    return headers, compare_tables(runs, rows) + list(class_tables(runs, rows)), notes


def cell_text(cell):
    """A cell without its style."""
    return cell if isinstance(cell, str) else cell[0]
