"""BLEU, chrF and TER, computed by the sacreBLEU library, with its signatures."""

from itertools import islice, zip_longest
from typing import Literal

import numpy as np
from pydantic import NonNegativeInt, PositiveInt
from sacrebleu.metrics import base, bleu, chrf, ter

from seqloom.errors import ConfigError
from seqloom.metrics.base import EvaluationData, Floats, Metric
from seqloom.registry import register

CHUNK = 1000


class SacreMetric(Metric):
    """A metric of the sacreBLEU library; its options have the same names as in that library."""

    scorer: base.Metric

    def statistics(self, data: EvaluationData) -> Floats:
        rows: list[list[float]] = []
        pairs = data.pairs(self.name)
        # The library keeps the n-grams of all references in memory, so it gets a chunk of the corpus at a time.
        while chunk := list(islice(pairs, CHUNK)):
            hypotheses, references = zip(*chunk, strict=True)
            rows += self.scorer._extract_corpus_statistics(hypotheses, list(zip_longest(*references)))
        return np.array(rows, dtype=np.float64)

    def value(self, totals: Floats) -> Floats:
        rows = totals.reshape(-1, totals.shape[-1]).tolist()
        return np.array([self.scorer._compute_score_from_stats(row).score for row in rows]).reshape(totals.shape[:-1])

    def signature(self, data: EvaluationData) -> str:
        count = data.reference_count
        fields = {**vars(self.scorer), "num_refs": -1 if count == "var" else int(count)}
        return f"{self.full_name}|{self.scorer._SIGNATURE_TYPE(fields).format()}"

    @property
    def full_name(self) -> str:
        """The name that the library prints."""
        return self.name.upper()


@register("metric", "bleu")
class BLEU(SacreMetric):
    """BLEU: precision of the hypotheses' word n-grams (n = 1 to 4) against the references, with a brevity penalty.

    BLEU = min(1, exp(1 − r/c)) · (p₁ p₂ p₃ p₄)^¼ with the total lengths c of the hypotheses and r of the references,
    and the n-gram precisions pₙ over the whole corpus. Papineni et al. 2002; Post 2018.

    lowercase: ignore case.
    tokenize: sacreBLEU tokenizer that splits the text into words.
    smooth_method: smoothing of n-gram precisions that are 0.
    smooth_value: smoothing constant of floor and add-k; null is sacreBLEU's default.
    effective_order: skip n-gram orders for which the hypotheses have no n-grams; for very short hypotheses.
    """

    name = "bleu"
    higher_is_better = True

    def __init__(
        self,
        *,
        lowercase: bool = False,
        tokenize: Literal[
            "13a", "intl", "char", "zh", "none", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200"
        ] = "13a",
        smooth_method: Literal["exp", "floor", "add-k", "none"] = "exp",
        smooth_value: float | None = None,
        effective_order: bool = False,
    ) -> None:
        if smooth_value is not None and smooth_method not in ("floor", "add-k"):
            raise ConfigError(f"bleu: smooth_value is for smooth_method floor and add-k, not {smooth_method}")
        self.lowercase, self.tokenize, self.effective_order = lowercase, tokenize, effective_order
        self.smooth_method, self.smooth_value = smooth_method, smooth_value
        try:
            self.scorer = bleu.BLEU(
                lowercase=lowercase,
                force=True,  # don't warn at every evaluation about text that looks tokenized
                tokenize=tokenize,
                smooth_method=smooth_method,
                smooth_value=smooth_value,
                effective_order=effective_order,
            )
        except (ImportError, OSError, RuntimeError) as error:  # a tokenizer that needs a package or a download
            raise ConfigError(f"bleu: tokenize={tokenize} can't be used here: {str(error).strip()}") from error


@register("metric", "chrf")
class ChrF(SacreMetric):
    """chrF: F-score of character n-grams shared by hypothesis and reference.

    chrF_β = (1 + β²) P R / (β² P + R), with precision P and recall R averaged over the n-gram orders. Popović 2015,
    2017.

    char_order: maximum length of character n-grams.
    word_order: maximum length of word n-grams; 0 uses no words, 2 is chrF++.
    beta: weight of recall relative to precision.
    lowercase: ignore case.
    whitespace: count spaces as characters.
    """

    name = "chrf"
    higher_is_better = True

    def __init__(
        self,
        *,
        char_order: PositiveInt = 6,
        word_order: NonNegativeInt = 0,
        beta: PositiveInt = 2,
        lowercase: bool = False,
        whitespace: bool = False,
    ) -> None:
        self.char_order, self.word_order, self.beta = char_order, word_order, beta
        self.lowercase, self.whitespace = lowercase, whitespace
        self.scorer = chrf.CHRF(char_order, word_order, beta, lowercase, whitespace)

    @property
    def full_name(self) -> str:
        return f"chrF{self.beta}{'+' * self.word_order}"


@register("metric", "ter")
class TER(SacreMetric):
    """TER (translation edit rate): word edits and phrase shifts from the hypothesis to the closest reference.

    TER = 100 · edits / average length of the references, in words. Snover et al. 2006.

    normalized: separate punctuation from words first, as tercom does.
    no_punct: remove punctuation.
    asian_support: apply normalized and no_punct to Chinese and Japanese characters and punctuation, too.
    case_sensitive: distinguish upper and lower case.
    """

    name = "ter"
    higher_is_better = False

    def __init__(
        self,
        *,
        normalized: bool = False,
        no_punct: bool = False,
        asian_support: bool = False,
        case_sensitive: bool = False,
    ) -> None:
        if asian_support and not (normalized or no_punct):
            raise ConfigError("ter: asian_support has no effect without normalized or no_punct: set one of them")
        self.normalized, self.no_punct = normalized, no_punct
        self.asian_support, self.case_sensitive = asian_support, case_sensitive
        self.scorer = ter.TER(normalized, no_punct, asian_support, case_sensitive)
