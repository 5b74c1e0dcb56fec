"""The worker of ``engines.py``."""

from pathlib import Path

from harness.worker import Run, serve

from seqloom import load

SENTENCES = 64


def make(run: str, engine: str, sources: str, batch: int) -> Run:
    """Answers to 64 sentences of a file, others in every round, together or one by one."""
    model = load(run, engine=None if engine == "torch" else engine)
    lines = sorted(Path(sources).read_text(encoding="utf-8").splitlines(), key=len)
    groups = [lines[begin : begin + SENTENCES] for begin in range(0, len(lines) - SENTENCES + 1, SENTENCES)]

    def answer(number: int) -> list[str]:
        group = groups[number * 7 % len(groups)]  # short ones and long ones in turn
        return [text for begin in range(0, SENTENCES, batch) for text in model.predict(group[begin : begin + batch])]

    return answer


if __name__ == "__main__":
    serve(make)
