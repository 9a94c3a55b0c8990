"""Checks of a task: plays it, and says in sentences what is wrong or unwise (`top-erl check TASK`).

`probe.py` plays; every other module looks at what was played, for one kind of finding.
"""

from top_erl.check.findings import Finding, Report
from top_erl.check.run import check_task

__all__ = ["Finding", "Report", "check_task"]
