"""External modules that each implement a complete idea, to test that the package is extensible: ``tests/promise``."""
