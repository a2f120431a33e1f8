"""Hits of the Python library `limits` on a Redis: URL, strategy, threads, seconds. Prints hits, allowed hits and seconds."""

import sys
import threading
import time

import limits
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter

url, strategy, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
storage = RedisStorage(url)
kind = {"fixed-window": FixedWindowRateLimiter, "moving-window": MovingWindowRateLimiter}[strategy]
limiter = kind(storage)
# A moving window of this library keeps at most so many entries for each key.
item = limits.parse("1000000000/hour" if strategy == "fixed-window" else "100000/second")
counts = []


def hits():
    hit, allowed = 0, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        allowed += limiter.hit(item, "user:000000000000")
        hit += 1
    counts.append((hit, allowed))


limiter.hit(item, "user:000000000000")
workers = [threading.Thread(target=hits) for _ in range(threads)]
start = time.monotonic()
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(sum(hit for hit, _ in counts), sum(allowed for _, allowed in counts), time.monotonic() - start)
