"""The page of an inspected run: one file with the pictures inside, in the looks of the report."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from top_erl.config.files import write_whole
from top_erl.inspection.record import MARK, PAGE, Finding, files_of
from top_erl.report.page.html import asset
from top_erl.report.page.pictures import inline

_MOST_BYTES = 2_000_000
"""Of one picture inside the page."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"
_STYLE = """
.sentence { max-width: 60rem; margin: 0 0 0.8rem; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { :root { --muted: #9aa6b7; --line: #2d3644; --accent: #7db4f5; } }
"""
_SHOWN, _BROAD = 0.62, 600
"""Part of a picture's pixels at which it is shown, as in the report, and the width from which on it is broad."""


def write_page(folder: Path, title: str, subtitle: str, findings: Sequence[Finding], notes: Sequence[str]) -> Path:
    """Write `index.html` into a folder with pictures."""
    path = folder / PAGE
    sections = [_section(folder, finding) for finding in findings]
    if notes:
        items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
        sections.append(f'<section><h2>Left out</h2><ul class="notes">{items}</ul></section>')
    write_whole(path, _page(title, subtitle, "\n".join(sections)))
    return path


def _page(title: str, subtitle: str, sections: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{MARK}
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>{asset("page.css")}{_STYLE}</style>
</head>
<body>
<header class="top"><div class="wide">
<h1>{html.escape(title)}</h1>
<p class="muted">{html.escape(subtitle)}</p>
</div></header>
<main class="wide">
{sections}
</main>
</body>
</html>
"""


def _section(folder: Path, finding: Finding) -> str:
    """A picture with its sentence, and links to its files."""
    shown = inline(files_of(folder, finding.kind)[0], _MOST_BYTES)
    picture = ""
    if shown:
        width, height = (round(_SHOWN * shown[side]) for side in ("width", "height"))
        image = f'<img src="{shown["image"]}" alt="{html.escape(finding.title)}" width="{width}" height="{height}">'
        picture = f'<div class="broad">{image}</div>' if width > _BROAD else image
    links = " · ".join(
        f'<a href="{file.name}">{file.suffix[1:].upper()}</a>' for file in files_of(folder, finding.kind)
    )
    return (
        f'<section id="{finding.kind}"><h2>{html.escape(finding.title)}</h2>\n'
        f'<p class="sentence">{html.escape(finding.sentence)}</p>\n'
        f"<figure>{picture}<figcaption>{links}</figcaption></figure></section>"
    )
