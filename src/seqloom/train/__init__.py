"""Training: the loop, optimisers and schedules, checkpoints, and the folder that a run is."""
