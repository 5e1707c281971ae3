# SPDX-License-Identifier: GPL-2.0
"""The format html: one page that needs nothing else, for any width and without colours."""

import html

from bench_report.picture import HEIGHT, LEGEND_WIDTH, WIDTH, frame, legend, panels
from bench_report.tables import LEFT_ALIGNED, WORDS, report

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.45 sans-serif; max-width: 70em; margin: 1em auto; padding: 0 .8em; }
h1 { font-size: 1.25em; }
h2 { font-size: 1.05em; margin: 1.6em 0 .3em; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21em), 1fr)); }
.legend { max-width: 36em; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .15em .6em; text-align: right; border-bottom: 1px solid #8885; }
th.word, td.word { text-align: left; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .1em .8em; font-size: .9em; }
dt { font-weight: bold; }
dd { margin: 0; overflow-wrap: anywhere; }
"""


def definitions(pairs):
    """A list of titles and what they mean."""
    return ["<dl>", *(f"<dt>{html.escape(title)}</dt><dd>{html.escape(text)}</dd>"
                      for title, text in pairs), "</dl>"]


def html_table(table):
    """A table that is scrolled by itself where the screen is narrow."""
    title, headings, rows = table
    lines = [f"<h2>{html.escape(title)}</h2>", '<div class="table"><table>']
    for name, row in [("th", headings)] + [("td", row) for row in rows]:
        lines.append("<tr>" + "".join(
            f"<{name}{' class=word' if heading in LEFT_ALIGNED else ''}>{html.escape(cell)}</{name}>"
            for cell, heading in zip(row, headings)) + "</tr>")
    return lines + ["</table></div>"]


def as_html(runs, rows):
    """The page: first what was found, then the picture, the numbers, and what the words mean."""
    sentences, headers, tables, notes = report(runs, rows)
    lines = ["<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
             '<meta name="viewport" content="width=device-width, initial-scale=1">',
             '<link rel="icon" href="data:,">',
             f"<title>btrfs send: {html.escape(', '.join(run.name for run in runs))}</title>",
             f"<style>{STYLE}</style>", "</head>", "<body>"]
    lines += [f"<h1>{html.escape(sentence)}</h1>" for sentence in sentences]
    lines += [f"<p>{html.escape(note)}</p>" for note in notes]
    lines += ["<h2>where the head of the disk was</h2>",
              "<p>Each stroke is a command of the disk: how far up, where on the disk; how long, the time it "
              "took. Scattered strokes are seeks; a smooth line is what a disk is good at.</p>",
              '<div class="legend">', frame(legend(rows), LEGEND_WIDTH, 24), "</div>"]
    for bodies in panels(runs, rows).values():
        lines += ['<div class="pictures">', *(frame(body, WIDTH, HEIGHT) for body in bodies), "</div>"]
    for table in tables:
        lines += html_table(table)
    used = {cell for _, headings, cells in tables for row in [headings, *cells] for cell in row}
    known = [(word, text) for word, text in WORDS
             if any(part in cell for cell in used for part in [word.split(",")[0].rstrip()])]
    lines += ["<h2>what the words mean</h2>", *definitions(known), "<h2>what was measured</h2>"]
    for header in headers:
        lines += definitions((title, ", ".join(phrases)) for title, phrases in header)
    return "\n".join(lines + ["</body>", "</html>"]) + "\n"
