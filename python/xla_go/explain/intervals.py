"""Sets of moments: lists of (begin, end) in order, none of which touch."""

from __future__ import annotations

from collections.abc import Iterable

Intervals = list[tuple[float, float]]


def union(intervals: Iterable[tuple[float, float]]) -> Intervals:
    """The moments that lie in any of the intervals, which may overlap and come in any order."""
    joined: Intervals = []
    for begin, end in sorted(intervals):
        if end <= begin:
            continue
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def intersection(first: Intervals, second: Intervals) -> Intervals:
    """The moments that lie in both."""
    both: Intervals = []
    i = j = 0
    while i < len(first) and j < len(second):
        begin, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if begin < end:
            both.append((begin, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return both


def difference(first: Intervals, second: Intervals) -> Intervals:
    """The moments of the first that do not lie in the second."""
    gaps: Intervals = []
    previous = float("-inf")
    for begin, end in second:
        gaps.append((previous, begin))
        previous = end
    gaps.append((previous, float("inf")))
    return intersection(first, gaps)


def length(intervals: Intervals) -> float:
    """How long they are together."""
    return sum(end - begin for begin, end in intervals)
