"""What every benchmark shares: a peer's own environment, workers that take turns, results with their machine."""
