"""The words of a command line before anything is made of them."""

from __future__ import annotations

from collections.abc import Sequence

from top_erl.config.limits import check_text
from top_erl.errors import UserError


def check_words(words: Sequence[str]) -> None:
    """Refuse words that no option can take: empty ones (a shell variable that is not set), and what is no text."""
    for position, word in enumerate(words):
        option, equals, value = word.partition("=")
        if not word:
            before = f" after {words[position - 1]}" if position else ""
            raise UserError(f"There is an empty word{before}: give it a value, or leave it out.")
        if word.startswith("--") and equals and not value:
            raise UserError(f"{option} is empty: give it a value, or leave it out.")
        check_text("A word of the command line", word)
