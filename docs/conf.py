"""How Sphinx builds the site (`make docs`).

The source folder is the project's root, so that links between README, docs and results work here as they do on a code
host. Links between pages, to files and to headings are checked by MyST; a dead one is a warning, and warnings are
errors.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.inspect import TypeAliasForwardRef

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(ROOT))

from preset_pages import write_preset_pages  # noqa: E402

import top_erl  # noqa: E402

project = "top_erl"
author = "The top_erl developers"
copyright = "The top_erl developers, MIT licence"
version = release = top_erl.__version__
root_doc = "docs/index"
include_patterns = ["docs/**", "results/**", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
exclude_patterns = ["docs/_site", "results/figures", "results/claims", "results/sweeps", "**/__pycache__"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
highlight_language = "bash"
default_role = "code"  # docstrings have names in single backticks

myst_enable_extensions = ["html_image", "dollarmath", "colon_fence"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_typehints_description_target = "documented"
autoclass_content = "both"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "exclude-members": "__new__"}
autodoc_type_aliases = {name: name for name in ("ArrayLike", "CallbackLike")}  # not what they stand for
napoleon_use_ivar = True
napoleon_numpy_docstring = False
toc_object_entries_show_parents = "hide"

TypeAliasForwardRef.__repr__ = lambda self: self.name  # type: ignore[method-assign]  # so it is shown in a union

html_theme = "furo"
html_title = "top_erl"
html_static_path = ["site/static"]
html_extra_path = ["site/extra"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"


def mend_folder_links(app: Sphinx, doctree: nodes.document) -> None:
    """Let a link to a folder, as code hosts show them, lead to its README, or be plain text without one."""
    docname = app.env.docname
    if docname.startswith("results/archive/"):
        app.env.metadata[docname]["orphan"] = ""  # found by links, not in the menu
    for link in list(doctree.findall(pending_xref)):
        target = ((ROOT / docname).parent / link["reftarget"]).resolve()
        if link["refdomain"] or not link["reftarget"].endswith("/") or not target.is_dir():
            continue  # a dead link stays one, and is a warning
        page = f"{target.relative_to(ROOT).as_posix()}/README"
        if page in app.env.found_docs:
            link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", page, None
        else:
            link.replace_self(link.children)


_AS_WRITTEN: dict[str, list[str]] = {}


def remember(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Keep the docstring of an attribute as it is written."""
    if what in ("attribute", "property"):
        _AS_WRITTEN[name] = list(lines)


def restore(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Give it back: Napoleon takes `N: weights of …` for a type and a description."""
    lines[:] = _AS_WRITTEN.pop(name, lines)


def setup(app: Sphinx) -> None:
    """Write the pages of hyper-parameters before Sphinx looks for pages, and understand links to folders."""
    app.connect("builder-inited", lambda _: write_preset_pages(HERE / "hyperparameters"))
    app.connect("doctree-read", mend_folder_links)
    app.connect("autodoc-process-docstring", remember, priority=400)  # Napoleon has 500
    app.connect("autodoc-process-docstring", restore, priority=600)
