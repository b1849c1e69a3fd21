"""What the documents tell people to ask Prometheus."""

import re
from pathlib import Path

SCALING = Path(__file__).resolve().parents[2] / "docs/scaling.md"


def queries(path):
    """The queries in the blocks `promql`; an empty line stands between two."""
    blocks = [part.strip() for block in _blocks(path, "promql") for part in block.split("\n\n")]
    return [" ".join(query.split()) for query in blocks if query]


def rules(path):
    """The recording rules in the blocks `yaml`, as a file that Prometheus reads."""
    found = [block for block in _blocks(path, "yaml") if block.startswith("- record:")]
    assert found, f"{path} has no recording rule"
    indented = "".join(f"      {line}\n" for block in found for line in block.splitlines())
    return f"groups:\n  - name: documents\n    rules:\n{indented}"


def recorded(path):
    """The rules' expressions by the names of what they record."""
    text = rules(path)
    return dict(re.findall(r"- record: (\S+)\n +expr: (.+)", text))


def _blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
