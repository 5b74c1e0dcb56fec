"""Separate Python environments for peers, so that their dependencies do not conflict with ours."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
CONSTRAINTS = BENCHMARKS.parent / "constraints.txt"
SHARED = ("torch==", "numpy==")
"""Packages that compute, with the same version for all; a peer chooses the versions of all others."""


def environment(name: str, installs: Sequence[Sequence[str]], *, removes: Sequence[str] = ()) -> Path:
    """Return the Python of ``benchmarks/.envs/<name>``; create the environment if its packages have changed.

    installs: packages of one ``pip install`` after the other. PyTorch and numpy have the versions of our
        ``constraints.txt``, so that a peer computes with the same libraries as seqloom.
    removes: packages to uninstall afterwards, because the peer does not run with them.
    """
    home = BENCHMARKS / ".envs" / name
    python, ready = home / "bin" / "python", home / ".ready"
    pins = [line for line in CONSTRAINTS.read_text().splitlines() if line.startswith(SHARED)]
    contents = "\n".join(
        [*pins, *(" ".join(packages) for packages in installs), *(f"without {package}" for package in removes)]
    )
    if not ready.exists() or ready.read_text() != contents:
        print(f"creating {home} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        constraints = home / "constraints.txt"
        constraints.write_text("\n".join(pins) + "\n")
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        for packages in installs:
            subprocess.run([*pip, "install", "-c", str(constraints), *packages], check=True)
        if removes:
            subprocess.run([*pip, "uninstall", "--yes", *removes], check=True)
        ready.write_text(contents)
    return python
