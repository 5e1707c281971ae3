# SPDX-License-Identifier: GPL-2.0
"""What is shown of the rows, for the formats table and html: a sentence, headers, tables, notes.

A table is (title, headings, rows of cells); all cells are texts.
"""

from bench_report.rows import ratio
from bench_report.runs import SENDS, is_number, lookup, printable

# The variants in words, of which the first that was measured is in the sentence.
VARIANTS = {
    "program": "with the program sendahead instead of plain btrfs on the untouched kernel",
    "together": "with the program sendahead on the patched kernel",
    "patched": "with the patched kernel instead of the untouched one",
    "program-send": "with the program sendahead at the sending end",
    "program-receive": "with the program sendahead at the receiving end",
    "searches": "with the patches of the series searches",
    "generation": "with the readahead that Linux has had since 5.13",
    "off": "with the patched kernel, its readahead switched off",
    "stock": "plain btrfs on the untouched kernel"}
# Headings of columns of words, which begin at the left; those of numbers end at the right.
LEFT_ALIGNED = ("run", "send", "variant")
# What the words of the page mean.
WORDS = (
    ("full", "a whole snapshot is sent"),
    ("incremental", "what has changed between two snapshots is sent"),
    *VARIANTS.items(),
    ("median, min, max", "of the elapsed times of all samples, in seconds"),
    ("/stock", "the median, divided by that of plain btrfs: below 1 is faster; ~ is no difference, as "
     "the samples overlap"),
    ("floor", "the time in which the model of the same disk reads each of these blocks once, in the "
     "order of the disk: nobody can be faster"),
    ("buffer hits", "requests that the drive served from its own memory"),
    ("seek, rotation, transfer", "what the disk did while it served requests: it moved its head, "
     "waited for the platter, read"),
    ("busy", "the share of the elapsed time in which a disk or processor had something to do"),
    ("sync", "the end of the elapsed time, in which the receiving disk wrote what was still in memory"))


def shown(form):
    """A function that shows a number in this form; none is a dash."""
    return lambda value: "-" if value is None else form(value)


seconds = shown(lambda ns: f"{ns / 1e9:.{3 if ns < 100e9 else 1}f}")
milliseconds = shown(lambda ns: f"{ns / 1e6:.2f}")
mebibytes = shown(lambda nbytes: f"{nbytes / 2 ** 20:,.1f}")
count = shown(lambda whole: f"{whole:,}")
percent = shown(lambda share: f"{share * 100:.0f} %")
times = shown(lambda value: f"{value:.2f}")


def number(value, form):
    """A number from env.json, which may lack it."""
    return format(value, form) if is_number(value) else "-"


def describe_disk(env):
    """What disk this was."""
    device = lookup(env, "device", "name") or "-"
    number_of = env.get("disks") or 1
    several = "" if number_of == 1 else \
        f" x {number_of}, data {env['data']}, metadata {env['metadata']}"
    if env.get("profile"):
        below = f", below {env['below']}" if env.get("below") else ""
        return f"simulated {env['profile']}{several}{below}"
    kind = {True: ", rotational", False: ", not rotational"}.get(lookup(env, "device", "rotational"), "")
    nbytes = lookup(env, "device", "size_bytes")
    size = f", {nbytes / 1e9:,.0f} GB" if is_number(nbytes) else ""
    return f"real disk {device}{size}{kind}{several}"


def describe_fio(env):
    """What fio says this disk does, if it was asked."""
    if not env.get("fio"):
        return []
    parts = ["{} IOPS and {} ms at depth {}".format(
        number(lookup(env, "fio", f"randread_qd{depth}", "iops"), ",.1f"),
        number((lookup(env, "fio", f"randread_qd{depth}", "mean_latency_ns") or 0) / 1e6, ".2f"), depth)
        for depth in (1, 32)]
    rate = lookup(env, "fio", "seqread", "bytes_per_second") or 0
    return ["random 16 KiB reads " + parts[0], parts[1], f"sequential {number(rate / 1e6, ',.1f')} MB/s"]


def describe_kernel(env):
    """Kernel release of each build, and the clock."""
    releases = {}
    for name, kernel in (env.get("kernels") or {}).items():
        releases.setdefault(str(lookup(kernel, "release")), []).append(name)
    clock = [f"{env['processors']} processors", "real time"] if env.get("processors") else []
    if is_number(env.get("instruction_ns")):
        clock = [f"clock: disk and processor, {env['instruction_ns']:g} ns an instruction"]
    return ["; ".join(f"{release} ({', '.join(sorted(names, key=lambda name: name != 'stock'))})"
                      for release, names in releases.items()),
            f"source {env.get('source') or 'not known'}", f"lane {env.get('lane', '-')}",
            *clock, f"btrfs-progs {env.get('btrfs_progs', '-')}"]


def describe_tree(env, snap):
    """Blocks of a snapshot's tree, and the published ones beside it."""
    tree = lookup(env, "trees", snap)
    text = [f"{snap} {number(lookup(tree, 'blocks'), ',')} blocks, "
            f"{number(lookup(tree, 'levels'), '')} levels"]
    lines, printed = lookup(env, "published", snap), lookup(tree, "printed")
    if is_number(lines) and is_number(printed):
        text.append(f"published {round(lines / 2):,} blocks: {(printed - lines) / lines * 100:+.1f} %")
    return text


def describe(run):
    """The header of a run: pairs of a title and a list of phrases."""
    env = run.env
    parameters = env.get("parameters") or {}
    send = [f"to {env.get('to', '-')}" + (f" on a simulated {env['receive_profile']}"
                                          if env.get("receive_profile") else "")]
    send += [f"aged by {env['receive_rounds']} rounds"] if env.get("receive_rounds") else []
    send += [f"{key} {env[key]}" for key in ("buffer", "rate") if env.get(key)]
    send += [f"latency {env['latency_ns'] / 1e6:g} ms"] if env.get("latency_ns") else []
    send += ["everything in memory"] if env.get("cached") else []
    send += ["without data" if env.get("no_data") else "with data"]
    send += [f"{env.get('samples')} sample{'' if env.get('samples') == 1 else 's'} each"]
    send += [f"memory {env['memory']}"] if env.get("memory") else []
    code = [f"commit {str(env.get('commit') or 'not known')[:12]}" +
            (" and uncommitted changes" if env.get("dirty") else "")]
    code += [f"series {str(env['series_sha256'])[:12]}"] if env.get("series_sha256") else []
    header = [("run", [run.name, str(env.get("date", "-"))]), ("kernel", describe_kernel(env)),
              ("disk", [describe_disk(env)] + describe_fio(env)),
              ("workload", [f"{env.get('workload', '-')}: " + " ".join(
                  f"{key}={value}" for key, value in parameters.items() if key != "generator")]),
              ("send", send), ("tree", describe_tree(env, "snap1") + describe_tree(env, "snap2")),
              ("code", code)]
    header += [("skipped", [str(reason)]) for reason in env.get("skipped") or []]
    header += [("command", [str(env["command"])])] if env.get("command") else []
    return [(title, [printable(phrase) for phrase in phrases]) for title, phrases in header]


def compared(run, rows):
    """What the sentence is about: the variant, and (row, row of the base) of each send."""
    mine = [row for row in rows if row["run"] == run.name]
    variants = [v for v in VARIANTS if v in run.variants and v != run.base] or [run.base]
    pairs = [[row for row in mine if (row["send"], row["variant"]) == (send, variant)]
             for send in SENDS for variant in (variants[0], run.base)]
    return variants[0], [(a[0], b[0]) for a, b in zip(pairs[::2], pairs[1::2]) if a and b]


def short(row):
    """The elapsed time with two or three digits."""
    value = row["elapsed_ns"] / 1e9
    return f"{value:.{1 if value >= 1 else 2 if value >= 0.1 else 3}f}"


def sentence(run, rows):
    """In one sentence what was measured."""
    variant, pairs = compared(run, rows)
    parts = []
    for row, base in pairs:
        share = row["ratio_to_stock"]
        if row is base:
            parts.append(f"{row['send']}: {short(row)} s")
            continue
        said = "no difference" if row["overlaps_stock"] or abs(share - 1) < 0.02 else \
            f"{1 / share:.1f} times as fast" if share < 1 else f"{share:.2f} times as long"
        parts.append(f"{row['send']}: {short(base)} s -> {short(row)} s, {said}")
    pipe = "btrfs send" + (" | btrfs receive" if run.env.get("to") == "receive" else "")
    return printable(
        f"{pipe}, {'; '.join(parts)}; {number(lookup(run.env, 'parameters', 'files'), ',')} files "
        f"({run.env.get('workload', '-')}) on a {describe_disk(run.env)}, "
        f"{VARIANTS.get(variant, variant)}.")


def warnings(run, rows):
    """What makes the numbers of a run doubtful."""
    busy = run.env.get("others_busy")
    if is_number(busy) and busy > 0.2:
        yield (f"warning: other programs took {percent(busy)} of this machine's processors before the "
               "first send: all times are too long; run it again on an idle machine")
    for row in rows:
        if row["run"] == run.name and row["elapsed_max_ns"] > 1.2 * row["elapsed_min_ns"]:
            yield (f"warning: the samples of the {row['send']} send, {row['variant']}, differ: "
                   f"{seconds(row['elapsed_min_ns'])} to {seconds(row['elapsed_max_ns'])} s; run it "
                   "again on an idle machine, or with more --samples")


def make_table(title, columns, rows):
    """A table of rows: a column is its heading, how a value is shown, and its key. Columns of
    which nothing is known are left out; None if there are no rows."""
    columns = [column for column in columns if any(row.get(column[2]) is not None for row in rows)]
    first = ["run"] if len({row["run"] for row in rows}) > 1 else []
    first += ["send", "variant"]
    cells = [[row[key] for key in first] + [form(row.get(key)) for _, form, key in columns]
             for row in rows]
    return (title, first + [heading for heading, *_ in columns], cells)


def pipe_rows(rows):
    """What was busy in a pipe: of several disks, the busiest."""
    for row in rows:
        if row["receiving"]:
            sources = len(row["drawn"]["traces"])
            busy = {"source": max(row["disks_busy"][:sources], default=None),
                    "target": max(row["disks_busy"][sources:], default=None)}
            cpus = {f"cpu{index}": share for index, share in enumerate(row["processors_busy"])}
            yield {**row, **busy, **cpus}


def report(runs, rows):
    """Sentences, headers, tables and notes."""
    for row in rows:
        row["per_request_ns"] = ratio(row["elapsed_ns"], row["requests"])
        row["of_stock"] = None if row["ratio_to_stock"] is None else \
            "~" if row["overlaps_stock"] else times(row["ratio_to_stock"])
        if any(run.env.get("cached") and run.scale and run.name == row["run"] and
               run.env.get("clock") == "all" for run in runs):
            row["instructions"] = row["elapsed_ns"] / next(
                run.scale for run in runs if run.name == row["run"])
        if len(row["drawn"]["traces"]) > 1:
            row.update({f"disk{k}": share for k, share in enumerate(row["disks_busy"], 1)})
    pipes = list(pipe_rows(rows))
    beside = [{**row, **row["beside"]} for row in rows if row["beside"]]
    tables = [
        make_table("elapsed time", [
            ("n", count, "n"), ("median s", seconds, "elapsed_ns"),
            ("min s", seconds, "elapsed_min_ns"), ("max s", seconds, "elapsed_max_ns"),
            (f"/{runs[0].base}", str, "of_stock"), ("sync s", seconds, "sync_ns"),
            ("user s", seconds, "user_ns"), ("system s", seconds, "system_ns"),
            ("floor s", seconds, "floor_ns"), ("/floor", times, "ratio_to_floor"),
            ("first byte s", seconds, "first_byte_ns"),
            ("M instructions", shown(lambda n: f"{n / 1e6:,.1f}"), "instructions")], rows),
        make_table("what the disk did", [
            ("requests", count, "requests"), ("MiB", mebibytes, "bytes"),
            ("distinct MiB", mebibytes, "distinct_bytes"),
            ("ms/request", milliseconds, "per_request_ns"), ("buffer hits", count, "hits"),
            ("seek", percent, "seek_share"), ("rotation", percent, "rotation_share"),
            ("transfer", percent, "transfer_share"), ("busy", percent, "busy_share")] + [
            (f"disk {k} busy", percent, f"disk{k}") for k in range(1, 17)], rows),
        make_table("what the receiving disk did", [
            ("reads", count, "reads"), ("MiB read", mebibytes, "reads_bytes"),
            ("distinct MiB", mebibytes, "distinct_bytes"), ("reading s", seconds, "reads_busy_ns"),
            ("floor s", seconds, "floor_ns"), ("writes, flushes", count, "writes"),
            ("MiB written", mebibytes, "writes_bytes")],
            [{**row, **row["receiving"]} for row in pipes]),
        make_table("share of the time in which each was busy", [
            ("source disk", percent, "source"), ("target disk", percent, "target")] + [
            (f"processor {index + 1}", percent, f"cpu{index}") for index in range(64)], pipes),
        make_table(f"the {beside[0]['kind'] if beside else ''} beside it", [
            ("n", count, "operations")] + [
            (f"{key} ms", milliseconds, f"{key}_ns") for key in ("mean", "p50", "p90", "p99", "max")],
            beside)]
    reasons = {}
    for row in rows:
        if row["floor_reason"]:
            reasons.setdefault(row["floor_reason"], []).append(f"{row['send']} {row['variant']}")
    notes = ["no floor" + ("" if len(names) == len(rows) else f" for {', '.join(names)}") +
             f": {reason}" for reason, names in reasons.items()]
    notes += [warning for run in runs for warning in warnings(run, rows)]
    return ([sentence(run, rows) for run in runs], [describe(run) for run in runs],
            [table for table in tables if table[2]], notes)
