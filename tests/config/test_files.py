"""Files are written whole, for everybody whom the umask allows, and never through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from top_erl.config.files import make_own_folder, open_new, open_to_append, reading, write_whole
from top_erl.errors import UserError


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user's, to which links lead."""
    path = tmp_path / "precious"
    path.write_text("mine")
    return path


def test_a_temporary_that_is_a_link_leads_nowhere(tmp_path: Path, precious: Path) -> None:
    file, temporary = tmp_path / "config.yaml", tmp_path / ".config.yaml.writing"
    temporary.symlink_to(precious)
    write_whole(file, "a: ü\n")
    assert (file.read_bytes(), precious.read_text()) == ("a: ü\n".encode(), "mine")
    assert not temporary.is_symlink()
    assert not temporary.exists()


@pytest.mark.parametrize("dangling", [False, True])
def test_links_are_not_written_through(tmp_path: Path, precious: Path, dangling: bool) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing" if dangling else precious)
    for write in (lambda: write_whole(link, "x"), lambda: open_to_append(link), lambda: make_own_folder(link)):
        with pytest.raises(UserError, match=r"link is a link, and nothing is written through links"):
            write()
    assert precious.read_text() == "mine"
    assert not (tmp_path / "nothing").exists()


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"  # as a device would be
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="pipe is not a file, and is not replaced by one"):
        write_whole(pipe, "x")
    assert pipe.is_fifo()


def test_a_part_left_by_a_killed_process_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".a.writing").write_text("half of someth")
    write_whole(tmp_path / "a", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    with open_new(tmp_path / "a") as file:
        file.write(b"new")
    with open_to_append(tmp_path / "a") as file:
        file.write(b"er")
    assert (tmp_path / "a").read_text() == "newer"


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path / "a", "text")
    with pytest.raises(OSError, match="No such file"):
        write_whole(tmp_path / "nowhere" / "a", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_follow_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "a", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode


def test_what_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Cannot read .*: .*Is a directory.*; mend its permissions"), reading(tmp_path):
        tmp_path.read_text()
