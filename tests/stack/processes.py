"""Programs that the test starts: each with a log, a bound on every wait, and an
end when the test ends."""

import atexit
import http.client
import os
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request


class StackError(Exception):
    """The test cannot go on: what is missing, or what did not come up."""


# Below the ports that systems give to outgoing connections, so that none of those
# takes one before its server does; and what Dynamo's worker reads as 16 signed bits.
PORTS = range(20_000, 32_000)

_reserved = set()


def free_port():
    """A loopback port that nothing listens on, and that was not given out before."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _reserved:
            _reserved.add(port)
            return port
    raise StackError("there is no free port")


def fetch(url, timeout=10):
    """The body at `url` as text."""
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


def wait_until(what, ready, seconds=30, alive=()):
    """Waits until `ready()` is true and gives its value. A server that does not
    answer yet is not ready; where one of the processes `alive` ended it never will be."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            value = ready()
            if value:
                return value
        except (OSError, urllib.error.URLError, http.client.HTTPException):
            pass
        for process in alive:
            if process.ended():
                raise StackError(f"{what}: {process.name} ended\n{process.tail()}")
        if time.monotonic() > deadline:
            tails = "".join(process.tail() for process in alive)
            raise StackError(f"{what}: not within {seconds} s\n{tails}")
        time.sleep(0.05)


class Process:
    """A program in a process group of its own, its output in a file."""

    _all = []

    def __init__(self, name, command, log, environment=None, cwd=None):
        self.name = name
        self.log = log
        self._output = open(log, "ab")
        self._process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=cwd,
            start_new_session=True,
        )
        Process._all.append(self)

    def ended(self):
        """Whether it has."""
        return self._process.poll() is not None

    def wait(self, seconds):
        """Its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise StackError(f"{self.name} still runs after {seconds} s\n{self.tail()}") from error

    def kill(self):
        """Ends it, and what it started, without a word of warning (SIGKILL)."""
        self._signal(signal.SIGKILL)
        self._process.wait(10)

    def stop(self):
        """Asks it to end; kills it where it does not."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def tail(self, lines=15):
        """The end of its log."""
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-lines:])

    def _signal(self, number):
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass

    @classmethod
    def kill_all(cls):
        """Ends whatever still runs."""
        for process in reversed(cls._all):
            process.kill()


def _end(*_):
    raise SystemExit(128 + signal.SIGTERM)


# Whichever way the test ends, nothing that it started goes on.
atexit.register(Process.kill_all)
signal.signal(signal.SIGTERM, _end)
