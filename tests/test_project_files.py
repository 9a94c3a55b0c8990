"""Files that other programs read: the citation, the forms for issues, the version."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import top_erl

ROOT = Path(__file__).parents[1]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
FIELDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}
"""What a form may be made of, by GitHub's schema."""


def _citation() -> dict[str, Any]:
    citation: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    return citation


def test_the_citation_has_what_its_format_demands() -> None:
    """Citation File Format 1.2.0: four required keys, and three for a reference; dates and numbers are typed."""
    citation = _citation()
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == "MIT"
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors"} <= set(paper)
    assert paper["type"] == "conference-paper"
    assert paper["year"] == 2025
    assert set(paper["conference"]) >= {"name"}
    for person in paper["authors"]:
        assert set(person) == {"family-names", "given-names"}


def test_readme_cites_the_same_paper() -> None:
    """Title and authors, in order, in BibTeX and in CITATION.cff."""
    paper = _citation()["preferred-citation"]
    bibtex = re.search(r"```bibtex\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert bibtex
    entries = dict(re.findall(r"(\w+)\s*= \{(.*)\}", bibtex[1]))
    assert entries["title"].replace("{", "").replace("}", "") == paper["title"]
    people = [f"{person['family-names']}, {person['given-names']}" for person in paper["authors"]]
    assert entries["author"].split(" and ") == people
    assert entries["year"] == str(paper["year"])
    assert entries["url"] == paper["url"]
    assert entries["booktitle"] == paper["collection-title"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_for_issues(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert set(form) <= {"blank_issues_enabled", "contact_links"}
        return
    assert {"name", "description", "body"} <= set(form)
    asked = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert asked
    assert len(asked) == len(set(asked))
    for field in form["body"]:
        assert field["type"] in FIELDS
        assert field["attributes"].get("value" if field["type"] == "markdown" else "label")
    for named in re.findall(r"\b(?:docs|examples|results)/[\w/]+\.\w+", path.read_text()):
        assert (ROOT / named).exists(), named


def test_the_version_is_said_once() -> None:
    """In the package; packaging reads it there, and the newest section of the changelog is of it or of what comes."""
    assert "version" not in (ROOT / "CITATION.cff").read_text().replace("cff-version", "")
    assert not re.search(r'^version = "', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] in ("Unreleased", top_erl.__version__)
    assert top_erl.__version__ in headings
