"""Speed benchmarks: `python -m benchmarks`."""

import top_erl  # noqa: F401 - before PyTorch, as in a training run, since it says how PyTorch's threads wait
