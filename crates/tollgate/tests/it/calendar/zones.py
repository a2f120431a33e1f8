"""Prints edges of calendar days around the changes of the clocks, as Python's zoneinfo computes
them: a zone, a minute of the day, and edges that follow each other, in seconds since 1970."""

import datetime as dt
import sys
from zoneinfo import ZoneInfo

STEP = int(sys.argv[1])
UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)


def seconds(instant):
    return int((instant - EPOCH).total_seconds())


def shown(zone, second):
    """What the clocks of the zone show at an instant."""
    return (EPOCH + dt.timedelta(seconds=second)).astimezone(zone).replace(tzinfo=None)


def edge(zone, day, minute):
    """The first instant at which the clocks show that time or a later one."""
    local = dt.datetime(day.year, day.month, day.day) + dt.timedelta(minutes=minute)
    offsets = [local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)]
    naive = int((local - dt.datetime(1970, 1, 1)).total_seconds())
    early, late = sorted(naive - int(offset.total_seconds()) for offset in offsets)
    if shown(zone, early) == local:
        return early
    # The time is left out.
    while late - early > 1:
        middle = (early + late) // 2
        if shown(zone, middle) < local:
            early = middle
        else:
            late = middle
    return late


for name in sys.stdin.read().split():
    zone = ZoneInfo(name)
    day, last = dt.date(1970, 1, 2), dt.date(2037, 12, 28)
    offset = None
    while day < last:
        noon = dt.datetime(day.year, day.month, day.day, 12, tzinfo=UTC).astimezone(zone)
        if noon.utcoffset() != offset:
            offset = noon.utcoffset()
            for minute in (0, 150):
                days = [day + dt.timedelta(days=n) for n in range(-STEP - 1, 3)]
                days = [d for d in days if d > dt.date(1970, 1, 2)]
                edges = [edge(zone, d, minute) for d in days]
                print(name, minute, *edges)
        day += dt.timedelta(days=STEP)
