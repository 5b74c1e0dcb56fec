"""Code shared by all benchmarks: environments of peers, workers that take turns, and result files."""
