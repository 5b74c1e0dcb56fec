"""What has to be possible from outside the package: whole ideas as one module each, tested in ``tests/promise``."""
