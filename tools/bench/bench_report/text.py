# SPDX-License-Identifier: GPL-2.0
"""The formats table, json and tsv."""

import json

from bench_report.runs import printable
from bench_report.tables import WORDS, cell_text, report

COLOURS = {"better": "\033[32m", "worse": "\033[31m", "title": "\033[1m", "bar": ""}


def paint(text, style, colour):
    """Text in a colour, on a terminal."""
    start = COLOURS.get(style, "") if colour else ""
    return f"{start}{text}\033[0m" if start else text


def wrap(phrases, joint, indent, width=120):
    """Phrases on as many lines as they need; a phrase is not broken."""
    lines = [""]
    for index, phrase in enumerate(phrases):
        piece = phrase + (joint.rstrip() if index + 1 < len(phrases) else "")
        if lines[-1] and indent + len(lines[-1]) + 1 + len(piece) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + piece
    return ("\n" + " " * indent).join(lines)


def table_lines(table, colour):
    """A table as aligned text: words to the left, numbers to the right."""
    title, headings, rows = table
    widths = [max(len(cell_text(c)) for c in column) for column in zip(headings, *rows)]
    left = [heading in WORDS for heading in headings]
    lines = [paint(title, "title", colour)]
    above = None
    for row in [headings] + rows:
        cells = []
        for index, (cell, width) in enumerate(zip(row, widths)):
            text = cell_text(cell)
            if headings[index] == "send" and above and text == above[index]:
                text = ""
            text = text.ljust(width) if left[index] else text.rjust(width)
            cells.append(text if isinstance(cell, str) else paint(text, cell[1], colour))
        lines.append("  ".join(cells).rstrip())
        above = row
    return lines


def as_table(runs, rows, colour):
    """Aligned text."""
    headers, tables, notes = report(runs, rows)
    indent = 2 + max(len(title) for header in headers for title, _, _ in header)
    lines = []
    for header in headers:
        for title, phrases, joint in header:
            lines.append(paint(title.ljust(indent), "title", colour) + wrap(phrases, joint, indent))
        lines.append("")
    for table in tables:
        lines += table_lines(table, colour) + [""]
    lines += notes
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"


def as_json(runs, rows):
    """One object: what was measured, and the rows."""
    envs = [run.env for run in runs]
    return json.dumps({"env": envs[0] if len(envs) == 1 else envs, "rows": rows}, indent=2) + "\n"


def tsv_cell(value):
    """A value in one column; nothing is null, as in JSON."""
    if isinstance(value, dict):
        return ",".join(f"{name}:{tsv_cell(number)}" for name, number in value.items())
    if isinstance(value, list):
        return ",".join(f"{b['from_bytes']}:{b['count']}" for b in value)
    return printable(value) if isinstance(value, str) else json.dumps(value)


def as_tsv(rows):
    """One line of names, one line a row; what some runs only have is null in the others."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["\t".join(names)]
    lines += ["\t".join(tsv_cell(row.get(name)) for name in names) for row in rows]
    return "\n".join(lines) + "\n"
