"""Worker of ``engines.py``."""

from pathlib import Path

from harness.worker import Run, serve

from seqloom import load

ALIKE = 64
"""Largest batch size for which sentences are sorted by length; larger batches keep the order of the file."""


def make(run: str, engine: str, sources: str, batch: int, sentences: int, refill: bool) -> Run:
    """Predict ``sentences`` lines of a file in batches, other lines in every round."""
    model = load(run, engine=None if engine == "torch" else engine)
    lines = Path(sources).read_text(encoding="utf-8").splitlines()
    sentences = min(sentences, len(lines))
    if batch < sentences or batch <= ALIKE:
        lines.sort(key=len)
    options = {"refill": True} if refill else {}
    groups = [lines[begin : begin + sentences] for begin in range(0, len(lines) - sentences + 1, sentences)]

    def predict(number: int) -> list[str]:
        group = groups[number * 7 % len(groups)]  # alternates short and long sentences
        parts = [group[begin : begin + batch] for begin in range(0, sentences, batch)]
        return [text for part in parts for text in model.predict(part, **options)]

    return predict


if __name__ == "__main__":
    serve(make)
