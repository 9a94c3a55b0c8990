"""Several processes that do the same at the same moment, as a script: imports take seconds, so they are done once.

Prints as JSON what each of them got: a new folder of its own, a folder that all of them want, a run to resume.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from top_erl.errors import UserError
from top_erl.experiment.folder import RunFolder, new_run_folder
from top_erl.experiment.presets import preset
from top_erl.experiment.run import resume_training


def at_once(count: int, work: Callable[[], str]) -> list[str]:
    """Fork processes, let all of them begin, and let them keep what they hold until all have answered."""
    begin, answer, end = os.pipe(), os.pipe(), os.pipe()
    children = []
    for _ in range(count):
        child = os.fork()
        if not child:
            for pipe in (begin, end):
                os.close(pipe[1])
            os.read(begin[0], 1)  # nothing comes but the end
            try:
                said = work()
            except UserError as error:
                said = f"{error.exit_code}: {error}"
            os.write(answer[1], f"{said}\n".encode())
            os.read(end[0], 1)
            os._exit(0)
        children.append(child)
    os.close(begin[1])
    with os.fdopen(answer[0]) as answers:
        lines = [answers.readline().strip() for _ in range(count)]
    os.close(end[1])
    for child in children:
        os.waitpid(child, 0)
    return sorted(lines)


def main(base: Path, run: Path, task: str) -> None:
    """Try it in three ways."""
    kept = []  # so that locks live as long as their processes

    def new() -> str:
        kept.append(new_run_folder(preset("top_erl", "top_erl/ViaPointReacher-v0", "laptop"), base / "runs"))
        return kept[-1].path.name

    def same() -> str:
        kept.append(RunFolder(base / "same"))
        kept[-1].reserve()
        return "mine"

    def resumed() -> str:
        kept.append(RunFolder(run))
        resume_training(kept[-1], task=task)
        return "mine"

    print(json.dumps({"new": at_once(4, new), "same": at_once(3, same), "resumed": at_once(2, resumed)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
