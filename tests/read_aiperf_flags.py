"""Compares the lists in `tests/golden/aiperf-0.13` with the command line of the Python AIPerf 0.13.0:

    python tests/read_aiperf_flags.py tests/golden/aiperf-0.13

`profile_flags.txt` has the names of each flag, `profile_values.txt` the values of each flag that
selects one of several, and `command_lines.txt` command lines that AIPerf's own parser accepts. Prints
each difference. Exits with 1 if there is one, or with 2 if `aiperf==0.13.0` is not installed in this
interpreter.
"""

import enum
import shlex
import sys
import typing
from pathlib import Path

try:
    from aiperf.cli import app
    from aiperf.config.flags.cli_config import CLIConfig
except ImportError as error:
    print(f"aiperf 0.13.0 is not installed here: {error}", file=sys.stderr)
    sys.exit(2)

GOLDEN = Path(sys.argv[1])
ROOT = Path(__file__).resolve().parent.parent


def lines(name):
    """The lines of a list without its comments."""
    text = (GOLDEN / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def names(field, kind):
    """The names of a flag, or those that turn it off; a field of the configuration may have none."""
    given = [getattr(item, kind, None) for item in field.metadata]
    return [
        name for some in given if some for name in ([some] if isinstance(some, str) else some)
    ]


def values(kind):
    """The values of an enumeration or of literals, also within lists and options."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {str(member.value) for member in kind}
    if typing.get_origin(kind) is typing.Literal:
        return {str(value) for value in typing.get_args(kind)}
    return {value for part in typing.get_args(kind) for value in values(part)}


failures = []
fields = list(CLIConfig.model_fields.values())
theirs = {name for field in fields for kind in ("name", "negative") for name in names(field, kind)}
ours = {name for line in lines("profile_flags.txt") for name in line.split()}
failures += [f"profile_flags.txt: {name} is not AIPerf's" for name in sorted(ours - theirs)]
failures += [f"profile_flags.txt: {name} is missing" for name in sorted(theirs - ours)]

theirs = {
    (name, value)
    for field in fields
    for name in names(field, "name")[:1]
    for value in values(field.annotation)
}
ours = {
    (flag, value)
    for flag, *listed in (line.split() for line in lines("profile_values.txt"))
    for value in listed
}
failures += [f"profile_values.txt: {pair} is not AIPerf's" for pair in sorted(ours - theirs)]
failures += [f"profile_values.txt: {pair} is missing" for pair in sorted(theirs - ours)]

for line in lines("command_lines.txt"):
    arguments = line.split(" | ", 1)[1].replace("FILE", str(ROOT / "README.md"))
    try:
        app.parse_args(["profile", *shlex.split(arguments)], exit_on_error=False, print_error=False)
    except Exception as error:
        failures.append(f"command_lines.txt: {arguments}\n    {error}")

print("\n".join(failures) or "AIPerf's command line is as listed")
sys.exit(bool(failures))
