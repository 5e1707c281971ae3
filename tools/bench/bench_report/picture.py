# SPDX-License-Identifier: GPL-2.0
"""The picture: where the head of the disk was during each send, as SVG."""

import html

from bench_report.runs import printable
from bench_report.tables import percent, seconds
from bench_report.traces import SECTOR, read_trace

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 420, 230, 52, 34, 40
LEGEND_WIDTH = 500
# Told apart with any kind of colour vision, and by their lightness alone.
MOVED, BUFFER, WRITTEN = "#00508c", "#f0b000", "#c05090"
STROKES = ((MOVED, "read from the medium"), (BUFFER, "read from the drive's memory"),
           (WRITTEN, "written"))
# Where btrfs has the last copy of its superblock, of which the axis would be all.
FAR_SUPERBLOCK = (256 << 30) // SECTOR


class Panel:
    """The commands of one disk during one send: its address over time. Receiving disks have
    negative numbers."""

    def __init__(self, run, row, disk):
        sample, receiving = row["drawn"], disk < 0
        disks = sample["receiving"]["traces"] if receiving else sample["traces"]
        trace = disks[disk]
        reads = read_trace(run, trace) if trace else []
        writes = read_trace(run, trace, "W") if trace and receiving else []
        self.strokes = ((MOVED, [r for r in reads if not r.hit]),
                        (BUFFER, [r for r in reads if r.hit]),
                        (WRITTEN, [w for w in writes if w.lba != FAR_SUPERBLOCK]))
        self.commands = [command for _, commands in self.strokes for command in commands]
        self.start = min((c.submit_ns for c in self.commands), default=0)
        self.end = max([sample["elapsed_ns"]] + [c.finish_ns - self.start for c in self.commands])
        self.traced = bool(trace)
        which = f", sample {sample['sample']} of {row['n']}" if row["n"] > 1 else ""
        self.title = f"{row['variant']}, {row['send']}: {seconds(sample['elapsed_ns'])} s{which}"
        self.title += f"; receiving disk, {len(reads):,} reads, {len(writes):,} writes" if receiving \
            else f"; {len(reads):,} reads"
        if len(disks) > 1:
            number = disk % len(disks) + 1
            self.title += f"; disk {number}, busy {percent(row['disks_busy'][disk])}"

    def draw(self, end, low, high):
        """The panel, with these axes: a stroke for the time the disk spent on each command."""
        width, height = WIDTH - LEFT - 12, HEIGHT - TOP - BOTTOM
        step = tic_step(end / 1e9)
        lines = [f'<text x="2" y="16" font-weight="bold">{html.escape(printable(self.title))}</text>']
        for tic in range(int(end / 1e9 / step) + 1):
            x = LEFT + tic * step * 1e9 / end * width
            lines.append(f'<path d="M{x:.1f} {TOP}v{height}" stroke="#888" stroke-width=".3"/>'
                         f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">'
                         f'{tic * step:g}</text>')
        unit, name = (1 << 30, "GiB") if high > 20 << 30 else (1 << 20, "MiB")
        for y, value in ((TOP + 10, high), (HEIGHT - BOTTOM, low)):
            lines.append(f'<text x="{LEFT - 4}" y="{y}" text-anchor="end">{value / unit:,.0f}</text>')
        lines.append(f'<text x="{LEFT - 4}" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="end">{name}'
                     f'</text><text x="{LEFT + width / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
                     'seconds; upwards: address on the disk</text>'
                     f'<path d="M{LEFT} {TOP}v{height}h{width}" fill="none" stroke="#888"/>')
        for colour, commands in self.strokes:
            places = {}
            for command in commands:
                x = (command.finish_ns - self.start) / end * width
                long = max(command.service_ns / end * width, 1.5)
                y = height - (command.lba * SECTOR - low) / max(high - low, 1) * height
                places.setdefault((int(x * 2), int(y * 2)), f"M{LEFT + max(x - long, 0):.1f} "
                                  f"{TOP + y:.1f}h{long:.1f}")
            if places:
                lines.append(f'<path stroke="{colour}" stroke-width="2" d="{"".join(places.values())}"/>')
        if not self.traced:
            lines.append(f'<text x="{LEFT + 20}" y="{HEIGHT / 2}">no trace of this send</text>')
        return "\n".join(lines)


def tic_step(end):
    """A step of 1, 2 or 5 that gives at most five tics."""
    step = 1e-6
    while end / step > 5:
        step *= 2.5 if f"{step:e}"[0] == "2" else 2
    return step


def panels(runs, rows):
    """{send: panels as SVG without a frame}; those of a send, and of a disk, have the same axes."""
    drawn = [(row["send"], disk < 0, Panel(run, row, disk)) for run in runs for row in rows
             if row["run"] == run.name for disk in [
                 *range(len(row["drawn"]["traces"])),
                 *range(-len((row["drawn"]["receiving"] or {}).get("traces", ())), 0)]]
    bodies = {}
    for send, receiving, panel in drawn:
        same = [other for _, which, other in drawn if which == receiving]
        places = [c.lba * SECTOR for other in same for c in other.commands] or [0]
        end = max(other.end for other_send, _, other in drawn if other_send == send)
        bodies.setdefault(send, []).append(panel.draw(end, min(places), max(places)))
    return bodies


def legend(rows):
    """What the strokes mean."""
    used = STROKES if any(row["receiving"] for row in rows) else STROKES[:2]
    return "".join(f'<path d="M{left} 10h20" stroke="{colour}" stroke-width="4"/>'
                   f'<text x="{left + 26}" y="14">{html.escape(text)}</text>'
                   for left, (colour, text) in zip((8, 178, 398), used))


def frame(body, width, height):
    """An SVG that is as wide as what it is in."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'font-family="sans-serif" font-size="12" fill="currentColor">\n{body}\n</svg>')


def as_svg(runs, rows):
    """One picture: a line for each send, what a line holds side by side."""
    lines = panels(runs, rows)
    columns = max(map(len, lines.values()))
    body = ['<rect width="100%" height="100%" fill="#fff"/>']
    for y, line in enumerate(lines.values()):
        body += [f'<g transform="translate({x * WIDTH} {y * HEIGHT})">{one}</g>'
                 for x, one in enumerate(line)]
    height = len(lines) * HEIGHT
    body.append(f'<g transform="translate(0 {height})">{legend(rows)}</g>')
    return frame("\n".join(body), max(columns * WIDTH, LEGEND_WIDTH), height + 24) + "\n"
