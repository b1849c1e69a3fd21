"""Renders tests/golden/chat-templates with Jinja2, configured as in transformers.

Prints the texts as JSON: template, conversation, text. `--write` writes them to
expected.json.
"""

import json
import sys
from datetime import datetime
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = Path(__file__).parent / "golden" / "chat-templates"
TINY = Path(__file__).parent / "golden" / "tiny-model"


class Generation(jinja2.ext.Extension):
    """The tag `generation` as transformers parses it, without its record of positions."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_content", [])
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    @staticmethod
    def _content(caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent,
                          separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return env


def template(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    own = folder / "chat_template.jinja"
    text = own.read_text() if own.exists() else config["chat_template"]
    if isinstance(text, list):
        text = next(named["template"] for named in text if named["name"] == "default")
    specials = {}
    for name, token in config.items():
        token = token["content"] if isinstance(token, dict) and "content" in token else token
        if name.endswith("_token") and isinstance(token, str):
            specials[name] = token
    return text, specials


def render():
    conversations = json.loads((FOLDER / "conversations.json").read_text())
    folders = sorted(path for path in FOLDER.iterdir() if path.is_dir())
    texts = {}
    for folder in [*folders, TINY]:
        text, specials = template(folder)
        compiled = environment().from_string(text)
        texts[folder.name] = {
            name: compiled.render(messages=found["messages"], tools=found.get("tools"),
                                  documents=None, add_generation_prompt=True, **specials)
            for name, found in conversations.items()
        }
    return texts


if __name__ == "__main__":
    result = json.dumps(render(), ensure_ascii=False, indent=1) + "\n"
    if "--write" in sys.argv:
        (FOLDER / "expected.json").write_text(result)
    print(result, end="")
