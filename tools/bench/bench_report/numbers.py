# SPDX-License-Identifier: GPL-2.0
"""Numbers as text, for people; none is a dash."""

MIB = 1 << 20


def seconds(value):
    """ns as seconds, to about four digits."""
    if value is None:
        return "-"
    return f"{value / 1e9:.{3 if value < 100e9 else 1}f}"


def milliseconds(value):
    """ns as milliseconds."""
    return "-" if value is None else f"{value / 1e6:.2f}"


def mebibytes(value):
    """Bytes as MiB."""
    return "-" if value is None else f"{value / MIB:,.1f}"


def count(value):
    """A whole number."""
    return "-" if value is None else f"{value:,}"


def millions(value):
    """A whole number in millions."""
    return "-" if value is None else f"{value / 1e6:,.1f}"


def times(value, same=None):
    """A ratio; the mark of no difference where there is none."""
    if value is None:
        return "-"
    return "~" if same else f"{value:.2f}"


def percent(value):
    """A share."""
    return "-" if value is None else f"{value * 100:.0f} %"


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
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return format(value, form) if good else "-"
