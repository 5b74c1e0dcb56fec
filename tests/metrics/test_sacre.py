"""BLEU, chrF and TER are sacreBLEU's: as its own functions and its own command give them."""

import json
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER

from seqloom.errors import OptionError
from seqloom.metrics import evaluate, sacre
from seqloom.registry import build

from .helpers import answers, sentences, spoilt

CASES = [
    ("bleu", {}, BLEU()),
    ("bleu", {"lowercase": True, "tokenize": "intl"}, BLEU(lowercase=True, tokenize="intl")),
    ("bleu", {"tokenize": "char", "smooth_method": "none"}, BLEU(tokenize="char", smooth_method="none")),
    ("bleu", {"smooth_method": "add-k", "smooth_value": 2.0}, BLEU(smooth_method="add-k", smooth_value=2.0)),
    ("bleu", {"smooth_method": "floor"}, BLEU(smooth_method="floor")),
    ("bleu", {"effective_order": True}, BLEU(effective_order=True)),
    ("chrf", {}, CHRF()),
    ("chrf", {"word_order": 2, "lowercase": True}, CHRF(word_order=2, lowercase=True)),
    ("chrf", {"char_order": 3, "beta": 1, "whitespace": True}, CHRF(char_order=3, beta=1, whitespace=True)),
    ("ter", {}, TER()),
    ("ter", {"case_sensitive": True, "normalized": True}, TER(case_sensitive=True, normalized=True)),
    ("ter", {"no_punct": True, "asian_support": True}, TER(no_punct=True, asian_support=True)),
]
IDS = [" ".join([name, *map(str, options.values())]) for name, options, _ in CASES]


@pytest.fixture(scope="module")
def corpus():
    """40 answers, some of them empty, with one to three references each."""
    first = sentences(40, 1)
    second, third = spoilt(first, 0.2, 2), spoilt(first, 0.3, 3)
    hypotheses = spoilt(first, 0.3, 4)
    hypotheses[3] = hypotheses[17] = ""
    references = [[a, b, c][: 1 + i % 3] for i, (a, b, c) in enumerate(zip(first, second, third, strict=True))]
    return hypotheses, references


@pytest.mark.parametrize(("name", "options", "theirs"), CASES, ids=IDS)
@pytest.mark.parametrize("several", [False, True], ids=["one reference", "one to three"])
def test_value_and_signature_are_those_of_the_library(name, options, theirs, several, corpus):
    hypotheses, references = corpus
    references = references if several else [r[:1] for r in references]
    padded = [[r[i] if i < len(r) else None for r in references] for i in range(max(map(len, references)))]
    score = theirs.corpus_score(hypotheses, padded)
    metric = build("metric", {"name": name, **options})
    judged = answers(hypotheses, references)
    assert metric.score(judged) == pytest.approx(score.score, rel=1e-12)
    assert metric.signature(judged) == f"{score.name}|{theirs.get_signature()}"
    assert ("nrefs:var" in metric.signature(judged)) == several


def test_values_are_those_of_the_command(tmp_path, corpus):
    hypotheses, references = corpus
    streams = [[r[0] for r in references], [r[-1] for r in references]]
    files = {"h": hypotheses, "r1": streams[0], "r2": streams[1]}
    for file, lines in files.items():
        (tmp_path / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "r1", "r2", "-i", "h", "-m", "bleu", "chrf", "ter", "-w", "9"]
    command += ["--lowercase", "--chrf-lowercase", "--chrf-word-order", "2"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    specs = [{"name": "bleu", "lowercase": True}, {"name": "chrf", "word_order": 2, "lowercase": True}, "ter"]
    judged = answers(hypotheses, list(zip(*streams, strict=True)))
    for spec, theirs in zip(specs, json.loads(ran.stdout), strict=True):
        metric = build("metric", spec)
        assert metric.score(judged) == pytest.approx(theirs["score"], abs=1e-9)
        assert metric.signature(judged) == f"{theirs['name']}|{theirs['signature']}"


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_slices_of_the_corpus_make_no_difference(name, corpus, monkeypatch):
    """With the number of references changing from one slice to the next."""
    judged, metric = answers(*corpus), build("metric", name)
    whole = metric.statistics(judged)
    monkeypatch.setattr(sacre, "CHUNK", 7)
    assert np.array_equal(metric.statistics(judged), whole)


@pytest.mark.parametrize(("name", "options", "theirs"), CASES, ids=IDS)
def test_many_totals_at_once_are_each_of_them_and_stay_as_they_are(name, options, theirs, corpus):
    """The library's add-k smoothing would write into what it is given."""
    metric = build("metric", {"name": name, **options})
    totals = metric.statistics(answers(*corpus)).reshape(2, 4, 5, -1).sum(2)
    before = totals.copy()
    values = metric.value(totals)
    assert values.shape == (2, 4)
    each = [[theirs._compute_score_from_stats(list(row)).score for row in rows] for rows in before]
    assert np.array_equal(values, each)
    assert np.array_equal(totals, before)


def test_the_interval_is_about_the_librarys():
    """Both are bootstraps of the same statistics: their ends agree up to chance."""
    first = sentences(300, 5)
    hypotheses = spoilt(first, 0.3, 6)
    theirs = BLEU().corpus_score(hypotheses, [first], n_bootstrap=1000)
    low, high = evaluate(answers(hypotheses, [[r] for r in first]), [build("metric", "bleu")])["bleu"].interval
    assert (high - low) / 2 == pytest.approx(theirs._ci, rel=0.15)
    assert (high + low) / 2 == pytest.approx(theirs._mean, abs=0.15 * theirs._ci)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"name": "bleu", "tokenize": "13b"}, "tokenize='13b' does not do"),
        ({"name": "bleu", "smooth_value": 1.0}, "smooth_value is for smooth_method floor and add-k, not for exp"),
        ({"name": "ter", "asian_support": True}, "only together with normalized or no_punct"),
        ({"name": "chrf", "char_order": 0}, "char_order=0 does not do"),
    ],
)
def test_options_without_sense_are_refused(spec, says):
    with pytest.raises(OptionError, match=says):
        build("metric", spec)


def test_a_tokenizer_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(OptionError, match=r"tokenize=ja-mecab can't be used here: .*install"):
        build("metric", {"name": "bleu", "tokenize": "ja-mecab"})


def test_the_version_in_the_signature_is_the_installed_one():
    assert build("metric", "bleu").signature(answers(["a"], [["a"]])).endswith(f"|version:{sacrebleu.__version__}")
