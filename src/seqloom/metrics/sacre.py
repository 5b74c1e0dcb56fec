"""BLEU, chrF and TER as the sacreBLEU library computes them: same statistics, same formula, same signature."""

from itertools import islice, zip_longest
from typing import Literal

import numpy as np
from sacrebleu.metrics import base, bleu, chrf, ter

from seqloom.errors import OptionError
from seqloom.metrics.base import Answers, Floats, Metric
from seqloom.registry import Count, Natural, register

CHUNK = 1000


class SacreMetric(Metric):
    """A metric of the sacreBLEU library; its options are that library's, under the same names."""

    scorer: base.Metric

    def statistics(self, answers: Answers) -> Floats:
        rows: list[list[float]] = []
        pairs = answers.pairs(self.name)
        # The library holds the n-grams of all its references at once: of a few sentences they are no burden.
        while chunk := list(islice(pairs, CHUNK)):
            hypotheses, references = zip(*chunk, strict=True)
            rows += self.scorer._extract_corpus_statistics(hypotheses, list(zip_longest(*references)))
        return np.array(rows, dtype=np.float64)

    def value(self, totals: Floats) -> Floats:
        rows = totals.reshape(-1, totals.shape[-1]).tolist()
        return np.array([self.scorer._compute_score_from_stats(row).score for row in rows]).reshape(totals.shape[:-1])

    def signature(self, answers: Answers) -> str:
        count = answers.reference_count
        facts = {**vars(self.scorer), "num_refs": -1 if count == "var" else int(count)}
        return f"{self.full_name}|{self.scorer._SIGNATURE_TYPE(facts).format()}"

    @property
    def full_name(self) -> str:
        """The name as the library prints it."""
        return self.name.upper()


@register("metric", "bleu")
class BLEU(SacreMetric):
    """BLEU: how many of the answer's n-grams, up to four words, are in a reference, times a penalty for brevity.

    BLEU = min(1, exp(1 − r/c)) · (p₁ p₂ p₃ p₄)^¼ with the lengths c of the answers and r of the references, and the
    precisions pₙ over the whole corpus. Papineni et al. 2002; Post 2018.

    lowercase: whether letters' case makes no difference.
    tokenize: how sacreBLEU cuts the text into words.
    smooth_method: what replaces a precision of 0.
    smooth_value: by how much, for floor and add-k.
    effective_order: whether orders are left out for which the answers have no n-gram at all: for very short answers.
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
            raise OptionError(f"bleu: smooth_value is for smooth_method floor and add-k, not for {smooth_method}")
        self.lowercase, self.tokenize, self.effective_order = lowercase, tokenize, effective_order
        self.smooth_method, self.smooth_value = smooth_method, smooth_value
        try:
            self.scorer = bleu.BLEU(
                lowercase=lowercase,
                force=True,  # its remark on text that looks tokenized would come at every evaluation
                tokenize=tokenize,
                smooth_method=smooth_method,
                smooth_value=smooth_value,
                effective_order=effective_order,
            )
        except (ImportError, OSError, RuntimeError) as error:  # a tokenizer that needs a package or a download
            raise OptionError(f"bleu: tokenize={tokenize} can't be used here: {str(error).strip()}") from error


@register("metric", "chrf")
class ChrF(SacreMetric):
    """chrF: the F-score of the answer's and the reference's n-grams of characters.

    chrF_β = (1 + β²) P R / (β² P + R), with precision P and recall R averaged over the orders. Popović 2015, 2017.

    char_order: the longest n-grams of characters.
    word_order: the longest n-grams of words; 2 is chrF++.
    beta: how many times more recall counts than precision.
    lowercase: whether letters' case makes no difference.
    whitespace: whether spaces are characters too.
    """

    name = "chrf"
    higher_is_better = True

    def __init__(
        self,
        *,
        char_order: Count = 6,
        word_order: Natural = 0,
        beta: Count = 2,
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
    """TER: how many edits, and shifts of whole phrases, it takes from the answer to the nearest reference.

    TER = 100 · edits / average length of the references, in words. Snover et al. 2006.

    normalized: whether punctuation is cut off first, as tercom does.
    no_punct: whether punctuation is removed.
    asian_support: whether, with either of these, Chinese and Japanese characters and punctuation are treated as well.
    case_sensitive: whether letters' case makes a difference.
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
            raise OptionError("ter: asian_support changes something only together with normalized or no_punct")
        self.normalized, self.no_punct = normalized, no_punct
        self.asian_support, self.case_sensitive = asian_support, case_sensitive
        self.scorer = ter.TER(normalized, no_punct, asian_support, case_sensitive)
