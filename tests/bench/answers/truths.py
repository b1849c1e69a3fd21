"""What queues do, simulated: each function returns a number that a right answer must be near."""

import functools
import heapq
import random


@functools.cache
def percentile_of_open_queue(
    rate: float, slots: int, service: float, percent: float, requests: int = 200_000
) -> float:
    """Returns a percentile of the latency of Poisson arrivals at `rate` per second, each of which takes
    one of `slots` for `service` seconds, after a start that does not count."""
    draws = random.Random(1)
    free = [0.0] * slots
    now, latencies = 0.0, []
    for _ in range(requests):
        now += draws.expovariate(rate)
        began = max(now, heapq.heappop(free))
        heapq.heappush(free, began + service)
        latencies.append(began + service - now)
    latencies = sorted(latencies[requests // 20 :])
    return latencies[int(percent / 100 * len(latencies))]


@functools.cache
def highest_rate(slots: int, service: float, percent: float, limit: float) -> float:
    """Returns the rate of Poisson arrivals at which the percentile of the latency is `limit` seconds."""
    low, high = 0.0, slots / service
    for _ in range(16):
        middle = (low + high) / 2
        meets = percentile_of_open_queue(middle, slots, service, percent) <= limit
        low, high = (middle, high) if meets else (low, middle)
    return low


@functools.cache
def wait_of_users(users: int, slots: int, service: float, think: float, percent: float) -> float:
    """Returns a percentile of the wait for one of `slots` of people, who think for an exponential time
    with this mean, and whose requests take `service` seconds."""
    draws = random.Random(2)
    due = [(draws.expovariate(1 / think), user) for user in range(users)]
    heapq.heapify(due)
    free = [0.0] * slots
    waits = []
    for _ in range(150_000):
        now, user = heapq.heappop(due)
        began = max(now, heapq.heappop(free))
        heapq.heappush(free, began + service)
        heapq.heappush(due, (began + service + draws.expovariate(1 / think), user))
        waits.append(began - now)
    waits = sorted(waits[15_000:])
    return waits[int(percent / 100 * len(waits))]


@functools.cache
def most_users(slots: int, service: float, think: float, percent: float, limit: float) -> int:
    """Returns the number of people of whose waits the percentile is at most `limit` seconds."""
    low, high = 1, int(2 * slots * (service + think) / service)
    while high - low > 1:
        middle = (low + high) // 2
        meets = wait_of_users(middle, slots, service, think, percent) <= limit
        low, high = (middle, high) if meets else (low, middle)
    return low
