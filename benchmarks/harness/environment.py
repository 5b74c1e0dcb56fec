"""A peer's own Python environment, so that its dependencies never meet ours."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
CONSTRAINTS = BENCHMARKS.parent / "constraints.txt"


def environment(name: str, installs: Sequence[Sequence[str]]) -> Path:
    """The Python of ``benchmarks/.envs/<name>``, made at first use and again whenever ``installs`` change.

    installs: what to install, one ``pip install`` after the other, each under our ``constraints.txt``, so that a peer
        runs on the very libraries that we run on.
    """
    home = BENCHMARKS / ".envs" / name
    python, ready = home / "bin" / "python", home / ".ready"
    wanted = "\n".join(" ".join(packages) for packages in installs)
    if not ready.exists() or ready.read_text() != wanted:
        print(f"making {home} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        for packages in installs:
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "-c", str(CONSTRAINTS), *packages], check=True)
        ready.write_text(wanted)
    return python
