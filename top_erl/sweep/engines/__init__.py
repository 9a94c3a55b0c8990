"""Who runs the runs of a sweep: processes of this machine, a Ray cluster, or SLURM."""
