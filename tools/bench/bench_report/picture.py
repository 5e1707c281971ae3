# SPDX-License-Identifier: GPL-2.0
"""The format svg: where the head of the disk was, drawn by gnuplot."""

import re
from copy import copy

from bench_report.header import describe_disk
from bench_report.numbers import MIB, number, seconds
from bench_report.programs import call, last_line
from bench_report.runs import SENDS, ReportError, lookup, printable
from bench_report.traces import SECTOR, read_trace

PANEL_WIDTH, PANEL_HEIGHT = 300, 200
MARGIN_LEFT, MARGIN_TOP, GAP, ROW_GAP = 84, 66, 20, 128
BARS_LEFT, BARS_WIDTH, MARGIN_RIGHT = 110, 260, 30
# Told apart with any kind of colour vision, and on white as on black.
INK, MOVED, BUFFER, BAR, FLOOR = "#5f6368", "#0072b2", "#e69f00", "#56b4e9", "#d55e00"
WRITTEN = "#cc79a7"
# Where btrfs has the last copy of its superblock, of which the axis would be all.
FAR_SUPERBLOCK = (256 << 30) // SECTOR


def quote(text):
    """A string of gnuplot."""
    return "'" + printable(text).replace("'", "''") + "'"


class Panel:
    """The commands of one send as marks: LBA over time."""

    def __init__(self, run, row):
        self.row = row
        self.sample = run.of(row["send"], row["variant"])[0]
        self.reads = read_trace(run, self.sample["trace"]) if self.sample["trace"] else []
        self.writes = []
        self.start = min((r.submit_ns for r in self.reads), default=0)
        self.title = f"{row['variant']}: {seconds(row['elapsed_ns'])} s, {row['requests']:,} reads"

    def receiving(self, run):
        """The same of the receiving disk, with what it wrote, over the time of this panel."""
        other = copy(self)
        trace = lookup(self.sample, "receiving", "trace")
        other.reads, writes = (read_trace(run, trace, op) if trace else [] for op in "RW")
        other.writes = [command for command in writes if command.lba != FAR_SUPERBLOCK]
        if not self.reads:
            other.start = min((r.submit_ns for r in other.reads + other.writes), default=0)
        other.title = f"{self.row['variant']}: {len(other.reads):,} reads, {len(writes):,} writes"
        return other

    def strokes(self):
        """What is drawn, as its name, colour and commands."""
        return (("$moved", MOVED, [r for r in self.reads if not r.hit]),
                ("$buffer", BUFFER, [r for r in self.reads if r.hit]),
                ("$written", WRITTEN, self.writes))

    def seconds(self, ns):
        """Time since the first read of the disk that is sent from, or what there is first."""
        return (ns - self.start) / 1e9

    def end(self):
        """Where the time axis must reach."""
        return max([self.row["elapsed_ns"] / 1e9] +
                   [self.seconds(c.finish_ns) for c in self.reads + self.writes])

    def marks(self, commands, axis):
        """Lines of gnuplot data: a stroke for the time the disk spent on a command.

        Strokes that fall on the same half pixel are drawn once.
        """
        x_end, low, high, unit = axis
        x_step = x_end / PANEL_WIDTH / 2
        y_step = max(high - low, 1e-9) / PANEL_HEIGHT / 2
        drawn = {}
        for command in commands:
            end = self.seconds(command.finish_ns)
            start = min(max(end - command.service_ns / 1e9, 0), end - x_step)
            lba = command.lba * SECTOR / unit
            drawn.setdefault((int(start / x_step), int(end / x_step), int(lba / y_step)),
                             f"{start:.6f} {lba:.4f}\n{end:.6f} {lba:.4f}\n\n")
        return "".join(drawn.values())


def lba_axis(panels):
    """Lowest and highest address of all panels, and the unit: (low, high, bytes, name)."""
    used = [(c.lba * SECTOR, (c.lba + c.sectors) * SECTOR) for panel in panels
            for c in panel.reads + panel.writes]
    low = min((u[0] for u in used), default=0)
    high = max((u[1] for u in used), default=MIB)
    unit, name = (1 << 30, "GiB") if high - low > 20 << 30 else (MIB, "MiB")
    room = max(high - low, MIB) * 0.03
    return max(low - room, 0) / unit, (high + room) / unit, unit, name


class Canvas:
    """Collects a gnuplot script; places are pixels from the top left corner."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.lines = [
            f"set terminal svg size {width},{height} noenhanced rounded "
            "name 'btrfs_send' font 'sans-serif,13' background '#ffffff'",
            "set encoding utf8",
            f"set border 3 linewidth 1 linecolor rgb '{INK}'",
            f"set tics nomirror out scale 0.6 textcolor rgb '{INK}'",
            "set multiplot"]

    def place(self, left, top, width, height):
        """Where the next plot goes."""
        self.lines.append("set lmargin at screen {:.6f}; set rmargin at screen {:.6f}; "
                          "set tmargin at screen {:.6f}; set bmargin at screen {:.6f}".format(
                              left / self.width, (left + width) / self.width,
                              1 - top / self.height, 1 - (top + height) / self.height))

    def text(self, left, top, text, font="sans-serif,13"):
        """A line of text; it goes with the next plot."""
        self.lines.append(f"set label {quote(text)} at screen {left / self.width:.6f},"
                          f"{1 - top / self.height:.6f} left font '{font}' "
                          f"textcolor rgb '{INK}'")

    def render(self):
        """The SVG, made by gnuplot."""
        done = call(["gnuplot", "-"], "\n".join(self.lines) + "\nunset multiplot\n")
        if done is None:
            raise ReportError("no gnuplot, install the package gnuplot-nox")
        if done.returncode or "</svg>" not in done.stdout:
            raise ReportError(f"gnuplot failed: {last_line(done.stderr)}")
        # Titles are shown where the mouse rests: gnuplot's own say nothing.
        svg = done.stdout.replace("<title>btrfs_send</title>", "<desc>The head of the disk.</desc>", 1)
        return re.sub("<title>.*?</title>", "", svg)


def draw_panel(canvas, panel, left, top, axis, first):
    """LBA over time of one variant; the first of a row has the labels of the LBA axis."""
    x_end, low, high, unit, unit_name = axis
    canvas.place(left, top, PANEL_WIDTH, PANEL_HEIGHT)
    canvas.text(left, top - 14, panel.title)
    canvas.lines += [
        f"set xrange [0:{x_end}]; set yrange [{low}:{high}]", "unset key",
        f"set grid xtics ytics linewidth 0.5 linecolor rgb '{INK}' dashtype 3",
        f"set xlabel 'time since the first read (s)' offset 0,0.3 textcolor rgb '{INK}'",
        f"set xtics {tic_step(x_end)}",
        (f"set ytics autofreq format '%.0f'; set ylabel 'LBA ({unit_name})' textcolor rgb '{INK}'"
         if first else "set ytics autofreq format ''; unset ylabel")]
    plots = []
    for name, colour, commands in panel.strokes():
        marks = panel.marks(commands, (x_end, low, high, unit))
        if marks:
            canvas.lines.append(f"{name} << EOD\n{marks}EOD")
            plots.append(f"{name} using 1:2 with lines linewidth 2 linecolor rgb '{colour}'")
    if not plots:
        canvas.lines.append("set label 'no trace of this send' at graph 0.5,0.5 center "
                            f"textcolor rgb '{INK}'")
    canvas.lines += ["plot " + ", ".join(plots or ["NaN"]), "unset label"]


def draw_bars(canvas, rows, left, top):
    """Elapsed times of one send as bars, with the floor and the range of the samples."""
    canvas.place(left, top, BARS_WIDTH, PANEL_HEIGHT)
    canvas.text(left, top - 14, "elapsed time (s)")
    end = max(row["elapsed_max_ns"] for row in rows) / 1e9 * 1.25  # room for the number
    canvas.lines += [
        f"set xrange [0:{end}]; set yrange [{len(rows) - 0.4}:-0.6]",
        f"set xlabel 'time (s)' offset 0,0.3 textcolor rgb '{INK}'", "unset ylabel",
        f"set xtics {tic_step(end)}", "unset grid",
        "set ytics format '' (" + ", ".join(
            f"{quote(row['variant'])} {index}" for index, row in enumerate(rows)) + ")"]
    bars, ranges, floors = [], [], []
    for index, row in enumerate(rows):
        value = row["elapsed_ns"] / 1e9
        bars.append(f"{value / 2} {index} {value / 2} 0.32")
        ranges.append(f"{value} {index} {row['elapsed_min_ns'] / 1e9} {row['elapsed_max_ns'] / 1e9}")
        canvas.lines.append(f"set label {quote(seconds(row['elapsed_ns']))} at first {value},{index} "
                            f"offset 0.6,0 left textcolor rgb '{INK}'")
        if row["floor_ns"] is not None:
            floor = row["floor_ns"] / 1e9
            floors.append(f"{floor} {index - 0.42}\n{floor} {index + 0.42}\n")
    plots = [f"$bars using 1:2:3:4 with boxxyerror fillstyle solid noborder linecolor rgb '{BAR}'"]
    canvas.lines.append("$bars << EOD\n" + "\n".join(bars) + "\nEOD")
    if rows[0]["n"] > 1:
        canvas.lines.append("$ranges << EOD\n" + "\n".join(ranges) + "\nEOD")
        plots.append("$ranges using 1:2:3:4 with xerrorbars pointtype 0 linewidth 1.5 "
                     f"linecolor rgb '{INK}'")
    if floors:
        canvas.lines.append("$floors << EOD\n" + "\n".join(floors) + "\nEOD")
        plots.append(f"$floors using 1:2 with lines linewidth 3 linecolor rgb '{FLOOR}'")
    canvas.lines += ["plot " + ", ".join(plots), "unset label"]


def tic_step(end):
    """A step of 1, 2 or 5 that gives at most five tics."""
    step = 1e-6
    while True:
        for factor in (1, 2, 5):
            if end / (step * factor) <= 5:
                return f"{step * factor:g}"
        step *= 10


def legend(rows):
    """What the marks mean: colour, width and text, and the left end of each."""
    entries = [(MOVED, 3, "read from the medium"), (BUFFER, 3, "read from the drive's buffer"),
               *([(WRITTEN, 3, "written")] if any(row["receiving"] for row in rows) else []),
               (BAR, 8, "elapsed time, median")]
    if any(row["floor_ns"] for row in rows):
        entries.append((FLOOR, 3, "floor: each block once, in disk order"))
    if any(row["n"] > 1 for row in rows):
        entries.append((INK, 1.5, "range of the samples"))
    lefts = [MARGIN_LEFT]
    for _, _, text in entries:
        lefts.append(lefts[-1] + 32 + 8 * len(text) + 24)
    return entries, lefts


def draw_legend(canvas, entries, lefts):
    """At the bottom."""
    canvas.place(0, canvas.height - 40, canvas.width, 40)
    for (colour, width, text), left in zip(entries, lefts):
        y = 24 / canvas.height
        canvas.lines.append(f"set arrow from screen {left / canvas.width:.6f},{y:.6f} to screen "
                            f"{(left + 22) / canvas.width:.6f},{y:.6f} nohead linewidth {width} "
                            f"linecolor rgb '{colour}'")
        canvas.text(left + 32, canvas.height - 24, text)
    canvas.lines += ["unset border; unset tics; unset xlabel; unset ylabel; unset grid; unset key",
                     "set xrange [0:1]; set yrange [0:1]", "plot NaN"]


def as_svg(runs, rows):
    """A row of panels for each run, send and disk, a column for each variant, and bars."""
    grid = []
    for send in SENDS:
        for run in runs:
            panels = [Panel(run, row) for row in rows
                      if (row["run"], row["send"]) == (run.name, send)]
            if panels:
                grid.append((run, send, False, panels))
            if any(panel.row["receiving"] for panel in panels):
                grid.append((run, send, True, [panel.receiving(run) for panel in panels]))
    columns = max(len(panels) for *_, panels in grid)
    bars_left = MARGIN_LEFT + columns * (PANEL_WIDTH + GAP) + BARS_LEFT
    entries, lefts = legend(rows)
    canvas = Canvas(max(bars_left + BARS_WIDTH + MARGIN_RIGHT, lefts[-1]),
                    MARGIN_TOP + len(grid) * (PANEL_HEIGHT + ROW_GAP) - 10)
    axes = [lba_axis([panel for _, _, receives, panels in grid for panel in panels
                      if receives == which]) for which in (False, True)]
    top = MARGIN_TOP
    for run, send, receives, panels in grid:
        x_end = max(p.end() for _, other, _, others in grid for p in others if other == send) * 1.01
        title = f"{send} send: {describe_disk(run.env)}, {run.env.get('workload', '-')}, " \
                f"N = {number(lookup(run.env, 'parameters', 'files'), ',')}, source " \
                f"{run.env.get('source') or 'not known'}, run {run.name}"
        if receives:
            title = f"{send} send, the receiving disk: simulated " \
                    f"{run.env.get('receive_profile') or run.env.get('profile')}, run {run.name}"
        canvas.text(16, top - 42, title, "sans-serif,15")
        for index, panel in enumerate(panels):
            draw_panel(canvas, panel, MARGIN_LEFT + index * (PANEL_WIDTH + GAP), top,
                       (x_end, *axes[receives]), index == 0)
        if not receives:
            draw_bars(canvas, [panel.row for panel in panels], bars_left, top)
        top += PANEL_HEIGHT + ROW_GAP
    draw_legend(canvas, entries, lefts)
    return canvas.render()
