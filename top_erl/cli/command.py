"""The `top-erl` command. Thin: it parses, calls, and prints."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Sequence

from top_erl.cli.extensions import import_extensions
from top_erl.cli.faults import FAULT, RUNS, fault_sentence, sentence_of_surroundings
from top_erl.cli.layout import fitted
from top_erl.cli.streams import flush_stdout, prepare_streams, visible
from top_erl.cli.words import check_words
from top_erl.errors import UserError, unknown_name

USAGE = """\
usage: top-erl COMMAND [OPTIONS]

Learn smooth reference trajectories with episodic reinforcement learning.

  top-erl train                         train on the built-in task, into runs/
  top-erl train --task TASK --seed 1    train on another task
  top-erl train --help                  every option, with its default for the task
  top-erl resume RUN                    go on with a run that was stopped
  top-erl evaluate RUN --episodes 100   play the trained policy on fresh contexts
  top-erl evaluate RUN --video a.mp4    … and film it
  top-erl inspect RUN                   look inside it: movements, correlations, what the critic knows
  top-erl export RUN -o policy.onnx     write it as one ONNX graph, to drive a robot with
  top-erl plot RUN [RUN ...]            draw learning curves
  top-erl sweep NAME                    train a set of runs: many methods, tasks and seeds
  top-erl status SWEEP                  how far a sweep is
  top-erl report SWEEP_OR_RUNS          one page with curves, tables and figures, to open in a browser
  top-erl compare RUN RUN               what differs between two runs
  top-erl tasks [TASK]                  list tasks, or show one in full
  top-erl tasks TASK --preview a.png    … and draw it
  top-erl check TASK                    play a task of your own and say what is wrong or unwise
  top-erl methods                       list learning methods
  top-erl COMMAND --import MODULE ...   import a module first that registers methods, targets or primitives of your own
  top-erl --version                     which version this is
"""

_MODULES = {
    **dict.fromkeys(("train", "resume", "evaluate"), "runs"),
    **dict.fromkeys(("plot", "tasks", "methods"), "show"),
    **dict.fromkeys(("sweep", "status"), "sweeps"),
    **dict.fromkeys(("report", "compare"), "report"),
    "check": "check",
    "export": "export",
    "inspect": "inspect",
}
"""Where each command is."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code.

    Mistakes are one sentence on stderr, without a traceback. 0: all is well; 1: a run had to stop, or the disk or the
    memory did not do; 2: a mistake in what was typed; 70: a fault of the program, which has a traceback as well; 75:
    a folder is in use; 130: stopped by Ctrl-C.
    """
    prepare_streams()
    RUNS.clear()
    code = 0
    try:
        code = _guarded(list(sys.argv[1:] if arguments is None else arguments))
    finally:  # also after --help, which leaves by SystemExit
        reason = flush_stdout()
        if reason:
            _complain(f"Not all of the output could be written: {reason}.")
    return code or int(bool(reason))


def _guarded(words: list[str]) -> int:
    """Run the command; what goes wrong becomes a sentence and an exit code."""
    try:
        return _dispatch(words)
    except UserError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _complain("interrupted; what was saved before is intact (top-erl resume RUN).")
        return 130
    except BrokenPipeError:
        return 0
    except Exception as error:
        sentence = sentence_of_surroundings(error)
        if sentence is not None:
            _complain(sentence)
            return 1
        traceback.print_exc()
        _complain(fault_sentence(error))
        return FAULT


def _complain(sentence: str) -> None:
    print("top-erl: " + "\n".join(map(visible, sentence.splitlines())), file=sys.stderr)


def _dispatch(words: list[str]) -> int:
    """Find the command and run it."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(fitted(USAGE), end="")
        return 0
    if words[0] == "--version":
        from top_erl import __version__

        print(__version__)
        return 0
    check_words(words)
    if words[0] not in _MODULES:
        raise unknown_name("command", words[0], _MODULES)
    words = import_extensions(words)
    module = importlib.import_module(f"top_erl.cli.{_MODULES[words[0]]}")  # heavy imports wait until a command is known
    command: Callable[[list[str]], int] = getattr(module, words[0])
    return command(words[1:])
