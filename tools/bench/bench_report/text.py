# SPDX-License-Identifier: GPL-2.0
"""The formats table and json."""

import json
import textwrap

from bench_report.tables import LEFT_ALIGNED, report


def table_lines(table):
    """A table as aligned text."""
    title, headings, rows = table
    widths = [max(map(len, column)) for column in zip(headings, *rows)]
    lines = [title]
    for row in [headings] + rows:
        lines.append("  ".join(text.ljust(width) if heading in LEFT_ALIGNED else text.rjust(width)
                               for text, width, heading in zip(row, widths, headings)).rstrip())
    return lines + [""]


def as_table(runs, rows):
    """Aligned text, with the sentence at the end, where it is seen on a terminal."""
    sentences, headers, tables, notes = report(runs, rows)
    lines = []
    for header in headers:
        for title, phrases in header:
            lines += textwrap.wrap(", ".join(phrases), 110, initial_indent=title.ljust(10),
                                   subsequent_indent=" " * 10, break_on_hyphens=False)
        lines.append("")
    for table in tables:
        lines += table_lines(table)
    lines += notes + [""] if notes else []
    return "\n".join(lines + sentences) + "\n"


def as_json(runs, rows):
    """One object: what was measured, and the rows."""
    envs = [run.env for run in runs]
    rows = [{**row, "drawn": row["drawn"]["sample"]} for row in rows]
    return json.dumps({"env": envs[0] if len(envs) == 1 else envs, "rows": rows}, indent=2) + "\n"
