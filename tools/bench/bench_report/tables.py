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


def make_table(title, columns, lines):
    """A table of lines, each with a send, a variant and more keys; None if there are none. A
    column is its heading, how its value is shown, and the keys of what is shown."""
    cells = [[line["send"], line["variant"]] +
             [form(*map(line.get, keys)) for _, form, *keys in columns] for line in lines]
    headings = ["send", "variant"] + [heading for heading, *_ in columns]
    return (title, headings, cells) if cells else None


def line_of(row, facts):
    """A line of a table, of facts about a row."""
    return {"send": row["send"], "variant": row["variant"], **facts}


def share(part, whole):
    """A part in per cent of the whole."""
    return percent(ratio(part, whole))


def time_table(rows):
    """How long it took."""
    columns = [("n", count, "n"), ("median s", seconds, "elapsed_ns"),
               ("min s", seconds, "elapsed_min_ns"), ("max s", seconds, "elapsed_max_ns")]
    if any(row["sync_ns"] is not None for row in rows):
        columns += [("of it sync s", seconds, "sync_ns")]
    if any(row["user_ns"] is not None for row in rows):
        columns += [("user s", seconds, "user_ns"), ("system s", seconds, "system_ns")]
    columns += [(f"vs {rows[0]['baseline']}", change, "delta_to_baseline", "overlaps_baseline"),
                ("/stock", times, "ratio_to_stock", "overlaps_stock"),
                ("floor s", seconds, "floor_ns"), ("/floor", times, "ratio_to_floor"),
                ("first byte s", seconds, "first_byte_ns")]
    return make_table("elapsed time", columns, rows)


def disk_table(rows):
    """What the disk did meanwhile."""
    return make_table("what the disk did", [
        ("requests", count, "requests"), ("MiB", mebibytes, "bytes"),
        ("distinct MiB", mebibytes, "distinct_bytes"),
        ("ms/request", milliseconds, "elapsed_per_request_ns"), ("buffer hits", count, "hits"),
        ("seek", percent, "seek_share"), ("rotation", percent, "rotation_share"),
        ("transfer", percent, "transfer_share"), ("busy", percent, "busy_share")], rows)


def receiving_table(rows):
    """What the disk did that the stream was received on; None if there was none."""
    return make_table("what the receiving disk did", [
        ("reads", count, "reads"), ("MiB", mebibytes, "reads_bytes"),
        ("distinct MiB", mebibytes, "distinct_bytes"), ("reading s", seconds, "reads_busy_ns"),
        ("reading", share, "reads_busy_ns", "elapsed_ns"), ("floor s", seconds, "floor_ns"),
        ("/floor", lambda busy, floor: times(ratio(busy, floor)), "reads_busy_ns", "floor_ns"),
        ("writes, flushes", count, "writes"), ("MiB", mebibytes, "writes_bytes")],
        [line_of(row, {"elapsed_ns": row["elapsed_ns"], **row["receiving"]})
         for row in rows if row["receiving"]])


def beside_table(rows):
    """What somebody else at the disk waited for; None if there was nobody."""
    lines = [line_of(row, row["beside"]) for row in rows if row.get("beside")]
    kind = lines[0]["kind"] if lines else None
    columns = [("n", count, "operations")]
    columns += [(f"{key} ms", milliseconds, f"{key}_ns")
                for key in ("mean", "p50", "p90", "p99", "max")]
    return make_table(f"the {kind} beside it", columns, lines)


def class_lines(row, classes, sums):
    """The lines of a row by class, with the sums of these keys as all_KEY."""
    sums = {f"all_{key}": sum(entry.get(key, 0) for entry in classes.values()) for key in sums}
    return [line_of(row, {"class": name, **entry, **sums}) for name, entry in classes.items()]


def class_table(rows):
    """What was read and executed, by class; None where that was not asked for."""
    lines = [line for row in rows
             for line in class_lines(row, row.get("classes") or {}, ("disk_ns", "instructions"))]
    title = "what was read"
    columns = [("class", str, "class"), ("reads", count, "reads"), ("MiB", mebibytes, "bytes"),
               ("disk s", seconds, "disk_ns"), ("of disk", share, "disk_ns", "all_disk_ns")]
    if any("instructions" in line for line in lines):
        title += " and executed"
        columns += [("calls", count, "calls"), ("M instructions", millions, "instructions"),
                    ("of these", share, "instructions", "all_instructions")]
    return make_table(title, columns, lines)


def receiving_class_table(rows):
    """What the receiving disk read and wrote, by class; None where that was not asked for."""
    return make_table("what the receiving disk read and wrote", [
        ("class", str, "class"), ("reads", count, "reads"), ("MiB", mebibytes, "reads_bytes"),
        ("disk s", seconds, "reads_busy_ns"),
        ("of disk", share, "reads_busy_ns", "all_reads_busy_ns"), ("writes", count, "writes"),
        ("MiB", mebibytes, "writes_bytes")],
        [line for row in rows for line in
         class_lines(row, (row["receiving"] or {}).get("classes") or {}, ("reads_busy_ns",))])


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
                  class_table(rows), receiving_class_table(rows), gap_table(rows)]
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
