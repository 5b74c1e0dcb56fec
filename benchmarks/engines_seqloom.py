"""The worker of ``engines.py``."""

from pathlib import Path

from harness.worker import Run, serve

from seqloom import load

ALIKE = 64
"""A batch of so many has sentences of like length; more are taken as they stand in the file."""


def make(run: str, engine: str, sources: str, batch: int, sentences: int, refill: bool) -> Run:
    """Answers to sentences of a file, others in every round, so many at a time."""
    model = load(run, engine=None if engine == "torch" else engine)
    lines = Path(sources).read_text(encoding="utf-8").splitlines()
    sentences = min(sentences, len(lines))
    if batch < sentences or batch <= ALIKE:
        lines.sort(key=len)
    options = {"refill": True} if refill else {}
    groups = [lines[begin : begin + sentences] for begin in range(0, len(lines) - sentences + 1, sentences)]

    def answer(number: int) -> list[str]:
        group = groups[number * 7 % len(groups)]  # short ones and long ones in turn
        parts = [group[begin : begin + batch] for begin in range(0, sentences, batch)]
        return [text for part in parts for text in model.predict(part, **options)]

    return answer


if __name__ == "__main__":
    serve(make)
