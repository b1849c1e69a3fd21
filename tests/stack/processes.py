"""Programs that the test starts: each has a log and a limit on every wait, and ends with the
test."""

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
    """The test cannot continue: something is missing or did not start."""


# Below the ports that systems use for outgoing connections, so that none of those takes one before
# its server does, and within the 16 signed bits that Dynamo's worker parses.
PORTS = range(20_000, 32_000)

_reserved = set()


def free_port():
    """A free loopback port that was not returned before."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _reserved:
            _reserved.add(port)
            return port
    raise StackError("all ports are in use")


def fetch(url, timeout=10):
    """The body at `url` as text."""
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


def wait_until(what, ready, seconds=30, alive=()):
    """Waits until `ready()` returns a true value and returns it. A server that does not respond yet
    is not ready; if one of the processes `alive` has ended, it never will be."""
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
    """A program in its own process group, with its output in a file."""

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
        """Whether it has ended."""
        return self._process.poll() is not None

    def wait(self, seconds):
        """Its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise StackError(f"{self.name} still runs after {seconds} s\n{self.tail()}") from error

    def kill(self):
        """Kills it and everything it started (SIGKILL)."""
        self.signal(signal.SIGKILL)
        self._process.wait(10)

    def stop(self):
        """Asks it to end; kills it if it does not."""
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def tail(self, lines=15):
        """The end of its log."""
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-lines:])

    def signal(self, number):
        """Sends a signal to it and everything it started."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass

    @classmethod
    def kill_all(cls):
        """Ends everything that is still running."""
        for process in reversed(cls._all):
            process.kill()


def _end(*_):
    raise SystemExit(128 + signal.SIGTERM)


# However the test ends, everything that it started ends too.
atexit.register(Process.kill_all)
signal.signal(signal.SIGTERM, _end)
