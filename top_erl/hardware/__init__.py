"""The machine: its cores, threads and workers for a run, and moving tensors between devices."""
