"""Converts a terminal's screen, as `tmux capture-pane -e -p` prints it, to an HTML page.

    tmux capture-pane -e -p | python3 docs/screen.py > screen.html
"""

import html
import re
import sys

# What the codes of SGR sequences (ECMA-48) set; 0 resets everything.
STYLES = {
    1: ("font-weight", "bold"),
    2: ("opacity", "0.6"),
    31: ("color", "#f47067"),
    32: ("color", "#6bc46d"),
    33: ("color", "#daaa3f"),
    36: ("color", "#56c2d6"),
    39: ("color", "inherit"),
}

style = {}
spans = []
for text in re.split(r"(\x1b\[[\d;]+m)", sys.stdin.read().rstrip("\n")):
    if text.startswith("\x1b"):
        for code in map(int, text[2:-1].split(";")):
            if code == 0:
                style.clear()
            elif code in STYLES:
                style.update([STYLES[code]])
    elif text:
        css = "; ".join(f"{name}: {value}" for name, value in style.items())
        spans.append(f'<span style="{css}">{html.escape(text)}</span>')

print(
    '<!doctype html><meta charset="utf-8"><title>Screen</title>'
    '<body style="margin: 0; background: #1b2026; color: #d7dde3">'
    '<pre style="margin: 14px 16px; font: 14.95px/17px DejaVu Sans Mono, monospace">'
    f"{''.join(spans)}</pre>"
)
