"""The HTML file around the data. Names come from folders and configurations: nothing of them may run."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from pathlib import Path
from typing import Any

from top_erl.errors import missing_extra

_HERE = Path(__file__).parent
_SCRIPTS = ("view.js", "tables.js", "curves.js", "page.js")
MARK = '<meta name="generator" content="top-erl report">'
"""What says that a page is one of ours and may be replaced."""


def page_html(data: dict[str, Any]) -> str:
    """The whole page."""
    library, script = plotting_library(), "\n".join(asset(name) for name in _SCRIPTS)
    parts = {
        "policy": html.escape(_policy(library, script)),
        "title": html.escape(str(data["title"])),
        "style": asset("page.css"),
        "data": script_json(data),
        "library": library,
        "script": script,
    }
    first, *rest = asset("page.html").split("{{")
    pieces = [first]
    for piece in rest:
        name, _, after = piece.partition("}}")
        pieces += [parts[name], after]
    return "".join(pieces)


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element: no `<` in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def plotting_library() -> str:
    """Plotly's JavaScript, as its Python package brings it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise missing_extra("plotly", "report", "The report page") from None
    return str(get_plotlyjs())


def _policy(*scripts: str) -> str:
    """What the browser lets the page do: run these scripts and no others, and fetch nothing but files beside it."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob: 'self' file:; media-src 'self' file:; form-action 'none'; base-uri 'none'"
    )


def asset(name: str) -> str:
    """A file beside this one, as text."""
    return (_HERE / name).read_text(encoding="utf-8")


def size_text(count: int) -> str:
    """Bytes as one reads them."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{math.ceil(count / 1e3)} kB"
