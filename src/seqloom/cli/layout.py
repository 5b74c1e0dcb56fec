"""How ``seqloom predict`` writes its answers: as text with what was asked for beside it, or as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqloom.cli.requests import Request
from seqloom.errors import OptionError

if TYPE_CHECKING:
    from seqloom.predictor.answer import Answer

BETWEEN = " ||| "
"""What stands between the fields of a line, as Moses and Marian have it."""


@dataclass(frozen=True)
class Layout:
    """What is written of answers.

        text                                        alone
        number ||| text ||| alignment ||| value     as much of it as is asked for; the number is the source's, from 0

    as_json: everything, one object for each source.
    scores: the value that answers were compared by.
    align: the alignment, of tokens or of ``words``.
    """

    as_json: bool = False
    scores: bool = False
    align: bool = False
    words: bool = False

    def __post_init__(self) -> None:
        if self.as_json and (self.scores or self.align):
            raise OptionError("--json has scores and alignments in it: leave --scores and --align out")
        if self.words and not (self.as_json or self.align):
            raise OptionError("--words says what --align and --json count: give one of these too")

    @property
    def needs_weights(self) -> bool:
        """Whether those of attention are to be seen."""
        return self.as_json or self.align

    def lines(self, number: int, request: Request, answers: Sequence["Answer"], *, several: bool) -> Iterator[str]:
        """What is written for a source; ``several``: with all its answers, each with the source's number."""
        if self.as_json:
            yield self._json(request, answers)
            return
        for answer in answers if several else answers[:1]:
            text = answer.text if isinstance(answer.text, str) else json.dumps(answer.text, ensure_ascii=False)
            fields = [text.replace("\n", " ")]
            if self.align:
                fields.append(self._alignment(answer))
            if self.scores or several:
                fields.append(f"{answer.value:.4f}")
            yield BETWEEN.join([str(number), *fields] if several else fields)

    def _alignment(self, answer: "Answer") -> str:
        from seqloom.predictor.alignment import pharaoh

        found = answer.words().alignment if self.words else answer.alignment
        if found is None and answer.source_tokens:
            raise OptionError(
                "there is no attention to one source here, so there is nothing to align by: leave --align out"
            )
        return pharaoh(found or [])

    def _json(self, request: Request, answers: Sequence["Answer"]) -> str:
        each = [answer.to_json() | ({"words": answer.words().to_json()} if self.words else {}) for answer in answers]
        record = {
            **request.more,
            "source": request.source,
            "source_tokens": answers[0].source_tokens,
            "answers": each,
        }
        return json.dumps(record, ensure_ascii=False)
