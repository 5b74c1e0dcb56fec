"""Output of ``seqloom predict``: text with optional scores and alignments, or JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqloom.cli.requests import Request
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.predictor import Prediction

SEPARATOR = " ||| "
"""Separator of the fields of a line, as in Moses and Marian."""


@dataclass(frozen=True)
class OutputFormat:
    """The output for each source.

        text                                        by default
        number ||| text ||| alignment ||| score     with the fields that are requested; number: of the source, from 0

    as_json: print one JSON object per source, with all fields.
    scores: print the score that ranks hypotheses.
    align: print the alignment, of tokens or of ``words``.
    """

    as_json: bool = False
    scores: bool = False
    align: bool = False
    words: bool = False

    def __post_init__(self) -> None:
        if self.as_json and (self.scores or self.align):
            raise ConfigError("--json already includes scores and alignments: remove --scores and --align")
        if self.words and not (self.as_json or self.align):
            raise ConfigError("--words has no effect without --align or --json: add one of them")

    @property
    def needs_attention(self) -> bool:
        """Whether attention weights are required."""
        return self.as_json or self.align

    def lines(
        self, number: int, request: Request, predictions: Sequence["Prediction"], *, n_best: bool
    ) -> Iterator[str]:
        """The output lines for a source; ``n_best``: one line per prediction, with the number of the source."""
        if self.as_json:
            yield self._json(request, predictions)
            return
        for prediction in predictions if n_best else predictions[:1]:
            text = prediction.text
            line = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
            fields = [line.replace("\n", " ")]
            if self.align:
                fields.append(self._alignment(prediction))
            if self.scores or n_best:
                fields.append(f"{prediction.score:.4f}")
            yield SEPARATOR.join([str(number), *fields] if n_best else fields)

    def _alignment(self, prediction: "Prediction") -> str:
        from seqloom.predictor.alignment import pharaoh

        alignment = prediction.words().alignment if self.words else prediction.alignment
        if alignment is None and prediction.source_tokens:
            raise ConfigError(
                "--align needs attention weights to one source, and there are none here: remove --align"
            )
        return pharaoh(alignment or [])

    def _json(self, request: Request, predictions: Sequence["Prediction"]) -> str:
        hypotheses = [p.to_json() | ({"words": p.words().to_json()} if self.words else {}) for p in predictions]
        record = {
            **request.extra,
            "source": request.source,
            "source_tokens": predictions[0].source_tokens,
            "hypotheses": hypotheses,
        }
        return json.dumps(record, ensure_ascii=False)
