"""The metrics in the project's registry, and their names in Prometheus.

The registry is YAML; the few relevant keys are on separate lines, so lines are parsed without a
YAML library."""

import re
from dataclasses import dataclass
from pathlib import Path

# The metrics that the GenAI conventions 1.41.1 define and the registry imports.
CONVENTIONS = {
    "gen_ai.client.operation.duration": ("histogram", "s"),
    "gen_ai.client.operation.time_to_first_chunk": ("histogram", "s"),
    "gen_ai.client.operation.time_per_output_chunk": ("histogram", "s"),
    "gen_ai.client.token.usage": ("histogram", "{token}"),
}

_UNITS = {"s": "seconds", "By": "bytes", "%": "percent"}
_PER = {"s": "per_second"}


@dataclass(frozen=True)
class Metric:
    """A row of the registry."""

    name: str
    instrument: str
    unit: str

    @property
    def prometheus(self):
        """Its name in Prometheus with suffixes: dots become underscores, then the unit is appended,
        then `_ratio` for gauges of unit 1 or `_total` for counters."""
        name = re.sub(r"[^a-zA-Z0-9_:]", "_", self.name)
        main, _, per = re.sub(r"\{[^}]*\}", "", self.unit).partition("/")
        word = _UNITS.get(main, "")
        if word and word not in name.split("_"):
            name += f"_{word}"
        if per:
            name += f"_{_PER[per]}"
        if self.instrument == "gauge" and self.unit == "1" and "ratio" not in name.split("_"):
            name += "_ratio"
        if self.instrument == "counter":
            name = total(name)
        return name


def total(name):
    """The name of a counter: the word `total` is only at its end."""
    return "_".join(word for word in name.split("_") if word != "total") + "_total"


def read(folder):
    """The metrics of the registry in `folder`, by name."""
    metrics = {name: Metric(name, *rest) for name, rest in CONVENTIONS.items()}
    for file in sorted(Path(folder).glob("*.yaml")):
        for entry in re.split(r"^ *- name: ", file.read_text(), flags=re.MULTILINE)[1:]:
            name = entry.split()[0].strip("\"'")
            instrument, unit = _value(entry, "instrument"), _value(entry, "unit")
            if instrument and unit:
                metrics[name] = Metric(name, instrument, unit)
    return metrics


def _value(entry, key):
    found = re.search(rf"^ *{key}: *[\"']?([^\"'\n]*)", entry, flags=re.MULTILINE)
    return found.group(1).strip() if found else None
