"""The command `top-erl`: thin, it only parses and calls."""

from top_erl.cli.command import main

__all__ = ["main"]
