"""A peer's own Python environment, so that its dependencies never meet ours."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
CONSTRAINTS = BENCHMARKS.parent / "constraints.txt"
SHARED = ("torch==", "numpy==")
"""What computes, and so must be the same; of the rest, a peer has the versions that it asks for."""


def environment(name: str, installs: Sequence[Sequence[str]], *, removes: Sequence[str] = ()) -> Path:
    """The Python of ``benchmarks/.envs/<name>``, made at first use and again whenever what is in it changes.

    installs: what to install, one ``pip install`` after the other, with PyTorch and numpy as in our
        ``constraints.txt``, so that a peer computes with the very libraries that we compute with.
    removes: what it would install but can't run with.
    """
    home = BENCHMARKS / ".envs" / name
    python, ready = home / "bin" / "python", home / ".ready"
    pins = [line for line in CONSTRAINTS.read_text().splitlines() if line.startswith(SHARED)]
    wanted = "\n".join(
        [*pins, *(" ".join(packages) for packages in installs), *(f"without {package}" for package in removes)]
    )
    if not ready.exists() or ready.read_text() != wanted:
        print(f"making {home} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        constraints = home / "constraints.txt"
        constraints.write_text("\n".join(pins) + "\n")
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        for packages in installs:
            subprocess.run([*pip, "install", "-c", str(constraints), *packages], check=True)
        if removes:
            subprocess.run([*pip, "uninstall", "--yes", *removes], check=True)
        ready.write_text(wanted)
    return python
