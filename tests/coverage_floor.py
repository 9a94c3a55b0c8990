"""Fails when the line coverage of a room that must be well tested falls below 95 %. Run after pytest --cov."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FLOOR = 95.0
ROOMS = ("primitives", "trust_region", "models", "algorithms", "rollout")


def main() -> int:
    report = Path("coverage.json")
    subprocess.run([sys.executable, "-m", "coverage", "json", "--quiet", "-o", str(report)], check=True)
    files = json.loads(report.read_text())["files"]
    report.unlink()
    low = False
    for room in ROOMS:
        summaries = [entry["summary"] for name, entry in files.items() if name.startswith(f"top_erl/{room}/")]
        covered = sum(summary["covered_lines"] for summary in summaries)
        total = sum(summary["num_statements"] for summary in summaries)
        percent = 100.0 * covered / total
        low = low or percent < FLOOR
        print(f"{room:15s} {percent:5.1f} % of lines{'' if percent >= FLOOR else f'  (floor: {FLOOR} %)'}")
    return int(low)


if __name__ == "__main__":
    sys.exit(main())
