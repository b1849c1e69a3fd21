"""The documented queries for Prometheus."""

import re
from pathlib import Path

SCALING = Path(__file__).resolve().parents[2] / "docs/scaling.md"


def queries(path):
    """The queries in `promql` blocks, separated by empty lines."""
    blocks = [part.strip() for block in _blocks(path, "promql") for part in block.split("\n\n")]
    return [" ".join(query.split()) for query in blocks if query]


def rules(path):
    """The recording rules in `yaml` blocks, as a file for Prometheus."""
    found = [block for block in _blocks(path, "yaml") if block.startswith("- record:")]
    assert found, f"{path} does not contain a recording rule"
    indented = "".join(f"      {line}\n" for block in found for line in block.splitlines())
    return f"groups:\n  - name: documents\n    rules:\n{indented}"


def recorded(path):
    """The expressions of the rules, by the names of the recorded series."""
    text = rules(path)
    return dict(re.findall(r"- record: (\S+)\n +expr: (.+)", text))


def batch_scripts(path):
    """The batch scripts of Slurm, in the order of the document."""
    return [block for block in _blocks(path, "sh not-run") if "#SBATCH" in block]


def _blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
