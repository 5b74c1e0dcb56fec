"""BLEU, chrF and TER equal those of sacreBLEU, from its Python functions and its command line."""

import json
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER

from seqloom.errors import ConfigError
from seqloom.metrics import evaluate, sacre
from seqloom.registry import build

from .helpers import corrupted, make_data, sentences

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
    """40 hypotheses, two of them empty, with one to three references each."""
    first = sentences(40, 1)
    second, third = corrupted(first, 0.2, 2), corrupted(first, 0.3, 3)
    hypotheses = corrupted(first, 0.3, 4)
    hypotheses[3] = hypotheses[17] = ""
    references = [[a, b, c][: 1 + i % 3] for i, (a, b, c) in enumerate(zip(first, second, third, strict=True))]
    return hypotheses, references


@pytest.mark.parametrize(("name", "options", "theirs"), CASES, ids=IDS)
@pytest.mark.parametrize("several", [False, True], ids=["one reference", "one to three"])
def test_value_and_signature_equal_sacrebleu(name, options, theirs, several, corpus):
    hypotheses, references = corpus
    references = references if several else [r[:1] for r in references]
    padded = [[r[i] if i < len(r) else None for r in references] for i in range(max(map(len, references)))]
    score = theirs.corpus_score(hypotheses, padded)
    metric = build("metric", {"name": name, **options})
    data = make_data(hypotheses, references)
    assert metric.score(data) == pytest.approx(score.score, rel=1e-12)
    assert metric.signature(data) == f"{score.name}|{theirs.get_signature()}"
    assert ("nrefs:var" in metric.signature(data)) == several


def test_values_equal_sacrebleu_command(tmp_path, corpus):
    hypotheses, references = corpus
    streams = [[r[0] for r in references], [r[-1] for r in references]]
    files = {"h": hypotheses, "r1": streams[0], "r2": streams[1]}
    for file, lines in files.items():
        (tmp_path / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "r1", "r2", "-i", "h", "-m", "bleu", "chrf", "ter", "-w", "9"]
    command += ["--lowercase", "--chrf-lowercase", "--chrf-word-order", "2"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    specs = [{"name": "bleu", "lowercase": True}, {"name": "chrf", "word_order": 2, "lowercase": True}, "ter"]
    data = make_data(hypotheses, list(zip(*streams, strict=True)))
    for spec, theirs in zip(specs, json.loads(ran.stdout), strict=True):
        metric = build("metric", spec)
        assert metric.score(data) == pytest.approx(theirs["score"], abs=1e-9)
        assert metric.signature(data) == f"{theirs['name']}|{theirs['signature']}"


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_statistics_do_not_depend_on_chunk_size(name, corpus, monkeypatch):
    """The number of references changes from one chunk to the next."""
    data, metric = make_data(*corpus), build("metric", name)
    whole = metric.statistics(data)
    monkeypatch.setattr(sacre, "CHUNK", 7)
    assert np.array_equal(metric.statistics(data), whole)


@pytest.mark.parametrize(("name", "options", "theirs"), CASES, ids=IDS)
def test_values_of_several_totals_equal_single_values_without_side_effects(name, options, theirs, corpus):
    """The library's add-k smoothing modifies its input."""
    metric = build("metric", {"name": name, **options})
    totals = metric.statistics(make_data(*corpus)).reshape(2, 4, 5, -1).sum(2)
    before = totals.copy()
    values = metric.value(totals)
    assert values.shape == (2, 4)
    each = [[theirs._compute_score_from_stats(list(row)).score for row in rows] for rows in before]
    assert np.array_equal(values, each)
    assert np.array_equal(totals, before)


def test_confidence_interval_approximates_sacrebleu():
    """Both use bootstrap resampling of the same statistics, so their bounds agree up to randomness."""
    first = sentences(300, 5)
    hypotheses = corrupted(first, 0.3, 6)
    theirs = BLEU().corpus_score(hypotheses, [first], n_bootstrap=1000)
    low, high = evaluate(make_data(hypotheses, [[r] for r in first]), [build("metric", "bleu")])["bleu"].interval
    assert (high - low) / 2 == pytest.approx(theirs._ci, rel=0.15)
    assert (high + low) / 2 == pytest.approx(theirs._mean, abs=0.15 * theirs._ci)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "bleu", "tokenize": "13b"}, "tokenize='13b' is invalid"),
        ({"name": "bleu", "smooth_value": 1.0}, "smooth_value is for smooth_method floor and add-k, not exp"),
        ({"name": "ter", "asian_support": True}, "has no effect without normalized or no_punct"),
        ({"name": "chrf", "char_order": 0}, "char_order=0 is invalid"),
    ],
)
def test_invalid_options_are_errors(spec, message):
    with pytest.raises(ConfigError, match=message):
        build("metric", spec)


def test_tokenizer_with_missing_package_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(ConfigError, match=r"tokenize=ja-mecab can't be used here: .*install"):
        build("metric", {"name": "bleu", "tokenize": "ja-mecab"})


def test_signature_has_installed_version():
    assert build("metric", "bleu").signature(make_data(["a"], [["a"]])).endswith(f"|version:{sacrebleu.__version__}")
