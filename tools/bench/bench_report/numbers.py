# SPDX-License-Identifier: GPL-2.0
"""Numbers as text, for people; none is a dash."""

from bench_report.runs import is_number

MIB = 1 << 20


def shown(form):
    """A function that shows a number in this form."""
    return lambda value: "-" if value is None else form(value)


# ns as seconds, to about four digits
seconds = shown(lambda ns: f"{ns / 1e9:.{3 if ns < 100e9 else 1}f}")
milliseconds = shown(lambda ns: f"{ns / 1e6:.2f}")
mebibytes = shown(lambda nbytes: f"{nbytes / MIB:,.1f}")
count = shown(lambda whole: f"{whole:,}")
millions = shown(lambda whole: f"{whole / 1e6:,.1f}")
percent = shown(lambda share: f"{share * 100:.0f} %")


def times(value, same=None):
    """A ratio; the mark of no difference where there is none."""
    if value is None:
        return "-"
    return "~" if same else f"{value:.2f}"


def change(value, same):
    """A delta, with what it means for the reader: (text, style)."""
    if value is None:
        return "-"
    if same:
        return "~"
    text = f"{value * 100:+.1f} %"
    if text in ("+0.0 %", "-0.0 %"):
        return "0.0 %"
    return (text, "better" if value < 0 else "worse")


def size(value):
    """Bytes in the largest unit that leaves a whole number."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or value % 1024 or unit == "TiB":
            return f"{value} {unit}"
        value //= 1024
    return None


def number(value, form):
    """A number from env.json, which may lack it."""
    return format(value, form) if is_number(value) else "-"
