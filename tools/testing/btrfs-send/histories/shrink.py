# SPDX-License-Identifier: GPL-2.0
"""The smallest part of a list that still fails, by delta debugging (ddmin)."""


def split(items, count):
    """Into so many parts of about the same size, none of them empty."""
    bounds = [len(items) * number // count for number in range(count + 1)]
    return [items[first:last] for first, last in zip(bounds, bounds[1:]) if first < last]


def first_failing(candidates, judge, at_once):
    """The first candidate that fails. judge() takes a list of them: a machine tries many."""
    for start in range(0, len(candidates), at_once):
        some = candidates[start:start + at_once]
        for candidate, failed in zip(some, judge(some)):
            if failed:
                return candidate
    return None


def smallest(items, judge, at_once=24):
    """
    A part of items that fails, and does not any more without one of them. judge()
    takes a list of parts, in the order of items, and returns for each if it fails.
    """
    count = 2
    while len(items) > 1:
        parts = split(items, count)
        wanted = list(parts)
        if count > 2:
            wanted += [[item for item in items if item not in part] for part in parts]
        found = first_failing(wanted, judge, at_once)
        if found is None:
            if len(parts) == len(items):
                break
            count = min(2 * count, len(items))
        elif len(found) <= len(items) // count + 1:
            items, count = found, 2
        else:
            items, count = found, max(count - 1, 2)
    return items
