"""Parses the Prometheus text format, as written by servers."""

import re

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Exposition:
    """One scrape: `types` by family, `samples` as (name, labels, value)."""

    def __init__(self, text):
        self.types = {}
        self.samples = []
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(None, 3)
                self.types[name] = kind.strip()
            elif line and not line.startswith("#"):
                self.samples.append(_sample(line))

    def total(self, name, **labels):
        """The sum of the series of `name` with these labels; 0 if there are none."""
        return sum(value for _, value in self.series(name, **labels))

    def series(self, name, **labels):
        """The (labels, value) of the series of `name` with these labels."""
        wanted = labels.items()
        found = (sample for sample in self.samples if sample[0] == name)
        return [(have, value) for _, have, value in found if wanted <= have.items()]

    def family(self, name):
        """The family of a sample, and its type."""
        for suffix in ("", "_bucket", "_sum", "_count", "_total"):
            family = name.removesuffix(suffix) if suffix else name
            if family in self.types and (not suffix or family != name):
                return family, self.types[family]
        return name, "unknown"


def _sample(line):
    match = _SAMPLE.match(line)
    if not match:
        raise ValueError(f"no sample of the Prometheus text format: {line}")
    name, labels, value = match.groups()
    pairs = {key: _unescaped(text) for key, text in _LABEL.findall(labels or "")}
    return name, pairs, float(value)


def _unescaped(text):
    return re.sub(r'\\[\\"n]', lambda match: _ESCAPES[match.group()], text)
