"""Runs scripts of this directory, each in a fork of one process, so that what they import is read once.

    python3 tests/serve_readers.py SOCKET

Each connection to SOCKET sends one line, a JSON array of the script and its arguments, and receives what the
script prints, then a line with its exit code. Ends with its standard input.
"""

import ast
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import traceback

# Threads of a library do not survive a fork.
os.environ["OPENBLAS_NUM_THREADS"] = "1"


def imported(script):
    """Imports what the script does at its top; an import that fails will fail in the script."""
    with open(script, encoding="utf-8") as source:
        statements = ast.parse(source.read()).body
    for statement in statements:
        # The list grows while it is read.
        statements.extend(statement.body if isinstance(statement, ast.Try) else [])
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names = [statement.module]
        else:
            continue
        for name in names:
            try:
                importlib.import_module(name)
            except Exception:
                break


def run(script, arguments):
    """Returns the exit code of the script."""
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve(connection):
    with connection.makefile("r", encoding="utf-8") as lines:
        script, *arguments = json.loads(lines.readline())
    imported(script)
    if os.fork() != 0:
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for output in (1, 2):
        os.dup2(connection.fileno(), output)
    code = run(script, arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.write(1, f"\n{code}\n".encode())
    # Without the cleanup of a process that goes on elsewhere.
    os._exit(0)


def main():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as waiting:
        listener.bind(sys.argv[1])
        listener.listen(64)
        print("ready", flush=True)
        waiting.register(listener, selectors.EVENT_READ)
        waiting.register(sys.stdin, selectors.EVENT_READ)
        while True:
            if any(key.fileobj is sys.stdin for key, _ in waiting.select()):
                return
            with listener.accept()[0] as connection:
                serve(connection)


main()
