# SPDX-License-Identifier: GPL-2.0
"""The format html: one page that needs nothing else."""

import html
import re

from bench_report.picture import INK, MOVED, as_svg
from bench_report.tables import WORDS, cell_text, gap_table, report

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --quiet: #59636e; --line: #d1d9e0; --bar: #0072b2;
  --page: #ffffff; --better: #116329; --worse: #a40e26; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --quiet: #9198a1; --line: #3d444d;
  --bar: #56b4e9; --page: #0d1117; --better: #56d364; --worse: #ff7b72; } }
body { margin: 2rem auto; max-width: 96rem; padding: 0 1rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; }
dt, p.note { color: var(--quiet); } dd { margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; } .word { text-align: left; }
.better { color: var(--better); } .worse { color: var(--worse); }
.bar { width: 14rem; text-align: left; } .bar i { display: block; height: .8rem; background: var(--bar); }
figure { margin: 0; } svg { max-width: 100%; height: auto; }
"""


def classes(style, heading):
    """The attribute of a cell of this style in the column with this heading."""
    names = " ".join(filter(None, [style, "word" if heading in WORDS else None]))
    return f' class="{names}"' if names else ""


def html_cell(cell, heading):
    """One td."""
    text = cell_text(cell)
    style = None if isinstance(cell, str) else cell[1]
    if style == "bar":
        return f'<td class="bar"><i style="width: {len(text) * 5}%"></i></td>'
    return f"<td{classes(style, heading)}>{html.escape(text)}</td>"


def html_table(table):
    """A table under its title."""
    title, headings, rows = table
    lines = [f"<h2>{html.escape(title)}</h2>", '<div class="wide"><table>', "<tr>" + "".join(
        f'<th scope="col"{classes(None, h)}>{html.escape(h)}</th>' for h in headings) + "</tr>"]
    lines += ["<tr>" + "".join(map(html_cell, row, headings)) + "</tr>" for row in rows]
    return lines + ["</table></div>"]


def inline_svg(svg):
    """An SVG as part of a page: no prolog, no background, the page's colours."""
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"(<rect [^>]*fill=['\"])#ffffff(['\"])", r"\1none\2", svg, count=1)
    for colour, name in ((INK, "quiet"), (MOVED, "bar")):
        red, green, blue = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
        svg = re.sub(rf"rgb\( *{red}, *{green}, *{blue}\)", f"var(--{name})", svg)
    return svg


def as_html(runs, rows):
    """One page that needs nothing else."""
    headers, tables, notes = report(runs, rows)
    gaps = [] if len(runs) == 1 else [
        (f"{run.name}: {table[0]}",) + table[1:] for run, table in
        ((run, gap_table([r for r in rows if r["run"] == run.name])) for run in runs) if table]
    title = "btrfs send: " + ", ".join(run.name for run in runs)
    lines = ["<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8"/>',
             '<meta name="viewport" content="width=device-width"/>',
             f"<title>{html.escape(title)}</title>", f"<style>{STYLE}</style>", "</head>", "<body>",
             f"<h1>{html.escape(title)}</h1>"]
    for header in headers:
        lines.append("<dl>")
        lines += [f"<dt>{html.escape(name)}</dt><dd>{html.escape(joint.join(phrases))}</dd>"
                  for name, phrases, joint in header]
        lines.append("</dl>")
    lines += html_table(tables[0])
    lines += ["<h2>the head of the disk</h2>", "<figure>", inline_svg(as_svg(runs, rows)), "</figure>"]
    for table in tables[1:] + gaps:
        lines += html_table(table)
    lines += [f'<p class="note">{html.escape(note)}</p>' for note in notes]
    return "\n".join(lines + ["</body>", "</html>"]) + "\n"
