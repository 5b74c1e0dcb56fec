"""``seqloom predict`` and ``seqloom score``: their output, against the Python API."""

import datetime
import io
import json
import shlex
import sys

import numpy as np
import pytest
import torch

import seqloom
from seqloom.cli import app
from seqloom.cli.files import expand_file_args
from seqloom.errors import ConfigError, InputError, SeqloomError
from seqloom.registry import parts

PAIRS = [
    (f"{a} {n} {v} .", f"{v.upper()}{n} {n.upper()}{a} !")
    for a in ("red", "green", "blue")
    for n in ("cat", "dog", "bird", "fish")
    for v in ("sleeps", "sings", "eats")
]
SOURCES = ["red cat sleeps .", "", "blue fish sings .", "green dog eats .", "bird"]
QUICK = {"train.updates": 3, "train.evaluate_every": 3, "train.optimizer.lr": 0.01, "model.dropout": 0.0}
BPE = {
    "data.source_tokenizer": {"name": "bpe", "vocab_size": 40},
    "data.target_tokenizer": {"name": "bpe", "vocab_size": 40},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs with the same target tokenizer (one without attention), and one with a character tokenizer."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in {
        "one": {**BPE, "train.updates": 40},
        "two": {**BPE, "seed": 2},
        "character source": {**BPE, "data.source_tokenizer": "character", "model.preset": "luong"},
        "no attention": {**BPE, "model.preset": "sutskever"},
        "characters": {"data.source_tokenizer": "character", "data.target_tokenizer": "character"},
        "short": {
            "data.source_tokenizer": "character",
            "model.preset": "transformer",
            "model.encoder.positional_encoding": {"name": "learned", "max_positions": 20},
        },
    }.items():
        seqloom.fit(
            PAIRS, dev=PAIRS[:4], hidden_size=16, overrides={**QUICK, **settings}, out=folder / name, quiet=True
        )
    return folder


@pytest.fixture(scope="module")
def model(runs):
    return seqloom.load(runs / "one")


@pytest.fixture
def predict(runs, monkeypatch, capsys):
    """Run ``seqloom predict`` on the sources, and return the output lines."""

    def run(*options: str, names=("one",), given: str | None = None, command: str = "predict", capture: bool = True):
        text = "".join(f"{source}\n" for source in SOURCES) if given is None else given
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        app(args=expand_file_args([command, *(str(runs / name) for name in names), *options]), standalone_mode=False)
        return capsys.readouterr().out.splitlines() if capture else []

    return run


def test_predict_prints_text_by_default(predict, model):
    assert predict() == model.predict(SOURCES)


def test_predict_json_has_all_fields(predict, model):
    records = [json.loads(line) for line in predict("--json", "--n-best", "2")]
    for record, source, predictions in zip(records, SOURCES, model.generate(SOURCES, n_best=2), strict=True):
        assert record["source"] == source
        assert record["source_tokens"] == predictions[0].source_tokens
        for printed, expected in zip(record["hypotheses"], predictions, strict=True):
            assert printed["text"] == expected.text
            assert printed["tokens"] == expected.tokens
            assert printed["log_prob"] == pytest.approx(expected.log_prob, abs=1e-5)
            assert printed["token_log_probs"] == pytest.approx(expected.token_log_probs, abs=1e-5)
            assert printed["score"] == pytest.approx(expected.score, abs=1e-5)
            assert (printed["score_formula"], printed["finished"]) == (expected.score_formula, expected.finished)
            if source:
                rows = [pytest.approx(row, abs=1e-5) for row in expected.attention.tolist()]
                assert printed["attention"] == rows
                best = expected.attention[: len(expected.tokens)].numpy().argmax(1)
                assert printed["alignment"] == [[s, t] for t, s in enumerate(best)]


def test_predict_json_with_words(predict):
    for line in predict("--json", "--words"):
        record = json.loads(line)
        words = record["hypotheses"][0]["words"]
        assert words["source"] == record["source"].split()
        assert words["target"] == record["hypotheses"][0]["text"].split()
        if record["source"]:
            assert [len(row) for row in words["attention"]] == [len(words["source"])] * len(words["target"])
            assert [sum(row) for row in words["attention"]] == pytest.approx([1] * len(words["target"]), abs=1e-4)


def test_n_best_lines_have_source_number_and_score(predict, model):
    lines = [line.split(" ||| ") for line in predict("--n-best", "3", "--scores")]
    expected = [
        [str(number), prediction.text, f"{prediction.score:.4f}"]
        for number, predictions in enumerate(model.generate(SOURCES, n_best=3))
        for prediction in predictions
    ]
    assert lines == expected
    assert [line[0] for line in lines] == [*"000", "1", *"222333444"]


def test_samples_are_printed_like_n_best(predict, model):
    lines = predict("--search", "sample", "--samples", "2", "--temperature", "0.7", "--seed", "3")
    generated = model.generate(SOURCES, search="sample", samples=2, temperature=0.7, seed=3)
    assert [line.split(" ||| ")[1] for line in lines] == [p.text for predictions in generated for p in predictions]


def test_scores_and_alignments_follow_the_text(predict, model):
    best = [predictions[0] for predictions in model.generate(SOURCES)]
    assert predict("--scores") == [f"{p.text} ||| {p.score:.4f}" for p in best]
    alignments = [" ".join(f"{s}-{t}" for s, t in p.alignment or ()) for p in best]
    assert predict("--align") == [f"{p.text} ||| {links}" for p, links in zip(best, alignments, strict=True)]


def test_word_alignment_uses_word_positions(predict):
    for line, source in zip(predict("--align", "--words"), SOURCES, strict=True):
        text, _, links = line.partition(" ||| ")
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert [t for _, t in pairs] == list(range(len(text.split())))
        assert all(s < len(source.split()) for s, _ in pairs)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("--search greedy", {"search": "greedy"}),
        ("--beam-size 2 --length-penalty wu --alpha=0.9", {"beam_size": 2, "length_penalty": "wu", "alpha": 0.9}),
        ("--search beam --max-length 3 --allow-unk false", {"search": "beam", "max_length": 3, "allow_unk": False}),
        ("--search '{name: beam, beam_size: 2}'", {"search": {"name": "beam", "beam_size": 2}}),
        ("--search sample --top_k 3 --seed 5", {"search": "sample", "top_k": 3, "seed": 5}),
        ("--no-repeat-ngram-size 1 --repetition-penalty 1.5", {"no_repeat_ngram_size": 1, "repetition_penalty": 1.5}),
    ],
)
def test_search_options_equal_those_of_python(arguments, options, predict, model):
    best = [json.loads(line)["hypotheses"][0] for line in predict("--json", *shlex.split(arguments))]
    for printed, (expected, *_) in zip(best, model.generate(SOURCES, **options), strict=True):
        assert printed["text"] == expected.text
        assert printed["score_formula"] == expected.score_formula
        assert printed["score"] == pytest.approx(expected.score, abs=1e-5)


def test_constraints_apply(predict):
    nonblank = [line for line in predict("--prefix", "EATS") if line]
    assert nonblank
    assert all(line.startswith("EATS") for line in nonblank)
    assert all("SINGSb" in line for line in predict("--require", "SINGSb", "--beam-size", "8") if line)
    unconstrained = predict()
    assert any(word.startswith("!") for line in unconstrained for word in line.split())
    assert not any(word.startswith("!") for line in predict("--forbid", "!") for word in line.split())


def test_jsonl_constraints_override_those_of_the_command(predict, tmp_path):
    path = tmp_path / "requests.jsonl"
    records = [
        {"source": SOURCES[0], "prefix": "SINGS", "id": 7},
        {"source": SOURCES[0], "require": ["EATS"]},
        {"source": SOURCES[0]},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + "\n", encoding="utf-8")
    lines = predict("--input", str(path), "--prefix", "DOG", "--beam-size", "8", "--json")
    texts = [json.loads(line)["hypotheses"][0]["text"] for line in lines]
    assert texts[0].startswith("SINGS")
    assert texts[1].startswith("DOG")
    assert "EATS" in texts[1]
    assert texts[2].startswith("DOG")
    assert texts[3] == ""
    assert json.loads(lines[0])["id"] == 7
    assert predict("--format", "jsonl", given=path.read_text(), command="translate")[0].startswith("SINGS")


@pytest.mark.parametrize(
    "arguments", ["--max-length 1 --search greedy", "--max-length 1 --search beam", "--grammar dates", ""]
)
def test_predict_reports_number_of_truncated_outputs(arguments, predict, capsys):
    """A model without digits has no allowed token under the grammar of dates."""
    predict("--json", *arguments.split(), capture=False)
    printed = capsys.readouterr()
    best = [json.loads(line)["hypotheses"][0] for line in printed.out.splitlines()]
    truncated = [hypothesis["truncated"] for hypothesis in best].count(True)
    assert all(hypothesis["truncated"] or hypothesis["finished"] for hypothesis in best)
    assert truncated == (4 if arguments else 0), (
        "the model generates more than one token and then EOS; the output for a blank source is empty"
    )
    warning = f"seqloom: {truncated} of 5 outputs were truncated"
    assert printed.err.startswith(warning) if truncated else printed.err == ""


@pytest.mark.parametrize("search", ["greedy", "beam", "mbr"])
def test_evaluate_counts_truncated_outputs_of_every_search(search, model):
    counts = [model.evaluate(PAIRS[:6], search=search, max_length=max_length).truncated for max_length in (1, 60)]
    assert counts == [6, 0]


def test_ensemble_of_a_run_with_itself_equals_the_run(predict):
    for mode in ((), ("--ensemble-mode", "log_probs")):
        ensemble = [json.loads(line)["hypotheses"][0] for line in predict("--json", *mode, names=("one", "one"))]
        single = [json.loads(line)["hypotheses"][0] for line in predict("--json")]
        for averaged, expected in zip(ensemble, single, strict=True):
            assert averaged["text"] == expected["text"]
            assert averaged["log_prob"] == pytest.approx(expected["log_prob"], abs=1e-4)


@pytest.mark.parametrize("other", ["two", "no attention", "character source"])
def test_ensemble_averages_probabilities(other, runs):
    """For every token of given targets, compared with the scores of the members; and search agrees with scoring."""
    sources, targets = zip(*PAIRS[:6], strict=True)
    ensemble = seqloom.load([runs / "one", runs / other])
    members = [seqloom.load(runs / name).score(sources, targets) for name in ("one", other)]
    for averaged, *single in zip(ensemble.score(sources, targets), *members, strict=True):
        mean = np.mean([np.exp(score.token_log_probs) for score in single], axis=0)
        assert averaged.token_log_probs == pytest.approx(np.log(mean).tolist(), abs=1e-4)
    (hypotheses,) = ensemble.generate(sources[:1], search="greedy", prefix=targets[0])
    (score,) = ensemble.score(sources[:1], targets[:1])
    assert hypotheses[0].token_log_probs[: len(score.tokens)] == pytest.approx(score.token_log_probs[:-1], abs=1e-4)
    assert (hypotheses[0].attention is None) == (other != "two")


def test_scores_equal_those_of_python(predict, model, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS[:3]), encoding="utf-8")
    expected = model.score([s for s, _ in PAIRS[:3]], [t for _, t in PAIRS[:3]])
    lines = predict("--data", str(path), command="score")
    assert [float(line) for line in lines] == pytest.approx([score.log_prob for score in expected], abs=1e-3)
    records = [json.loads(line) for line in predict("--data", str(path), "--json", command="score")]
    for record, score, (source, target) in zip(records, expected, PAIRS, strict=False):
        assert (record["source"], record["target"], record["tokens"]) == (source, target, score.tokens)
        assert sum(record["token_log_probs"]) == pytest.approx(record["log_prob"], abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "names", "message"),
    [
        ("--beam-szie 3", ("one",), "did you mean '--beam-size'"),
        ("--devcie cpu", ("one",), "did you mean '--device'"),
        ("--beam-size", ("one",), "--beam-size needs a value"),
        ("--beam-size some", ("one",), "beam_size='some' is invalid"),
        ("--search greedy --beam-size 3", ("one",), "'greedy' has no option beam_size; these searches have it: beam"),
        ("--search greedy --n-best 3", ("one",), "'greedy' has no option n_best; these searches have it: beam"),
        ("--beam-size 2 --n-best 3", ("one",), "n_best=3 is greater than beam_size=2"),
        ("--search greedy --require red", ("one",), "use search 'beam'"),
        ("--prefix ж", ("one",), "can't be generated by this model"),
        ("--grammar date", ("one",), "did you mean 'dates'"),
        ("--words", ("one",), "--words has no effect without --align or --json"),
        ("--json --align", ("one",), "remove --scores and --align"),
        ("--align", ("no attention",), "--align needs attention weights"),
        ("--ensemble-mode probs", ("one",), "give several runs"),
        ("--ensemble-mode mean", ("one", "two"), "'probs' or 'log_probs'"),
        ("", ("one", "characters"), "have different target vocabularies"),
        ("--format tsv", ("one",), "unknown format 'tsv'"),
    ],
)
def test_invalid_arguments_are_errors(arguments, names, message, predict):
    with pytest.raises(SeqloomError) as raised:
        predict(*arguments.split(), names=names)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"prefix": "ж"}, "prefix='ж' can't be generated by this model"),
        ({"require": ["CAT", "ж"]}, "require='ж' can't be generated by this model"),
        ({"require": ["CAT", ""]}, "require='' contains no token"),
        ({"prefix": "red " * 30}, "its prefix has"),
        ({"prefix": "\ud800"}, "contains a lone surrogate"),
    ],
    ids=["prefix", "require", "empty phrase", "too long", "surrogate"],
)
def test_error_in_constraints_names_the_line(constraints, message, predict, tmp_path, monkeypatch):
    """Not the index in the batch."""
    monkeypatch.setattr("seqloom.cli.requests.MAX_BATCH", 2)
    path = tmp_path / "requests.jsonl"
    lines = [
        {"source": "red cat"},
        {"source": ""},
        {"source": "blue fish sings ."},
        {"source": "bird", **constraints},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(InputError, match=rf"^{path}, line 4: .*{message}"):
        predict("--input", str(path), "--max-length", "20")


def test_error_for_too_long_source_names_the_line(predict):
    with pytest.raises(InputError, match=r"line 2: the source has 21 tokens, but the model supports at most 20"):
        predict(names=("short",), given=f"red cat\n{'x' * 21}\n")


SEARCH_OPTIONS = {"diverse_beam": ["--groups", "2", "--beam-size", "4"], "exhaustive": ["--max-length", "1"]}


@pytest.mark.parametrize("name", parts("search"))
def test_every_search_equals_python(name, predict, model):
    arguments = SEARCH_OPTIONS.get(name, [])
    lines = predict("--json", "--search", name, *arguments)
    options = dict(
        zip((o.removeprefix("--").replace("-", "_") for o in arguments[::2]), map(int, arguments[1::2]), strict=True)
    )
    for line, expected in zip(lines, model.generate(SOURCES, search=name, **options), strict=True):
        hypotheses = json.loads(line)["hypotheses"]
        assert hypotheses[0]["text"] == expected[0].text
        assert len(hypotheses) == len(expected) >= 1


def test_mbr_compares_texts(predict, model):
    lines = predict("--json", "--search", "mbr", "--metric", "chrf", "--samples", "8")
    assert json.loads(lines[0])["hypotheses"][0]["score_formula"] == "mean chrf with the samples"
    (hypotheses,) = model.generate(SOURCES[:1], search="mbr", samples=8, metric=lambda a, b: float(len(a)))
    samples = [sample for sample in model.generate(SOURCES[:1], search="sample", samples=8)[0] if sample.finished]
    assert len(hypotheses[0].text) == max(len(sample.text) for sample in samples)


def test_results_of_several_batches_are_in_input_order(model, monkeypatch):
    """Sources are batched by length, for generation and for scoring."""
    sources = [source for source, _ in PAIRS[:8]] + ["red", "", "blue fish sings . green dog eats ."]
    targets = [target for _, target in PAIRS[:8]] + ["x", "y", "z"]
    once = model.generate(sources, search="greedy")
    scored = model.score([s for s in sources if s], [t for s, t in zip(sources, targets, strict=True) if s])
    monkeypatch.setattr(seqloom.predictor.predictor, "MAX_TOKENS", 20)
    for one, other in zip(once, model.generate(sources, search="greedy"), strict=True):
        assert one[0].text == other[0].text
        assert one[0].log_prob == pytest.approx(other[0].log_prob, abs=1e-4)
    again = model.score([s for s in sources if s], [t for s, t in zip(sources, targets, strict=True) if s])
    assert [s.log_prob for s in scored] == pytest.approx([s.log_prob for s in again], abs=1e-3)
    assert len({predictions[0].text for predictions in once}) > 3, "equal outputs would hide the order"


def test_ensemble_mode_log_probs_differs_from_probs(runs):
    sources, targets = zip(*PAIRS[:4], strict=True)
    folders = [runs / "one", runs / "two"]
    log_probs = seqloom.load(folders, ensemble_mode="log_probs").score(sources, targets)
    probs = seqloom.load(folders).score(sources, targets)
    for one, other in zip(log_probs, probs, strict=True):
        assert one.log_prob != pytest.approx(other.log_prob, abs=1e-3)


def test_ensemble_mode_applies_to_the_ensemble_in_a_comparison(predict, runs, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS[:3]), encoding="utf-8")
    arguments = ["--data", str(path), "--metric", "loss", "--json", "--ensemble-mode", "log_probs"]
    ensemble, single = (
        ["--against", str(runs / "one"), "--against", str(runs / "two")],
        ["--against", str(runs / "one")],
    )

    def values(*options, names):
        printed = predict(*arguments, *options, names=names, command="evaluate")
        return json.loads("\n".join(printed))["metrics"]["loss"]["values"]

    averaged, alone = values(*single, names=("one", "two"))
    assert values(*ensemble, names=("one",)) == [alone, averaged]
    expected = seqloom.load([runs / "one", runs / "two"], ensemble_mode="log_probs").evaluate(PAIRS[:3])
    assert averaged == pytest.approx(np.log(expected["perplexity"].value))
    for options in ([], single):
        with pytest.raises(ConfigError, match="--ensemble-mode needs an ensemble"):
            predict(*arguments, *options, command="evaluate")


def test_grammar_of_dates_gives_valid_dates():
    """Even from a model that is hardly trained."""
    pairs = [(f"{d}.{m}.{y}", f"{y}-{m:02}-{d:02}") for d in (1, 23, 30) for m in (2, 4, 12) for y in (1999, 2024)]
    pairs += [("0123456789", "5678-56-78")]
    model = seqloom.fit(
        pairs, hidden_size=8, overrides={"train.updates": 2, "data.target_tokenizer": "character"}, quiet=True
    )
    for hypotheses in model.generate([s for s, _ in pairs[:6]], search="beam", grammar="dates", max_length=10):
        assert hypotheses[0].finished
        datetime.date.fromisoformat(hypotheses[0].text)


@pytest.mark.parametrize(
    ("search", "max_batch"), [({"name": "beam", "beam_size": 50}, 2), ("greedy", 8), ("exhaustive", 1)]
)
def test_batch_size_is_limited_by_rows(model, monkeypatch, search, max_batch):
    """Memory depends on the number of rows, not of sentences."""
    resolved, _ = model.resolve_search(search, {"max_length": 1})
    sizes = []
    monkeypatch.setattr(seqloom.predictor.predictor, "MAX_TOKENS", 100)
    monkeypatch.setattr(type(resolved), "__call__", lambda self, network, batch, **_: sizes.append(batch.rows) or [
        [] for _ in range(batch.rows)])  # fmt: skip
    model.predictor.generate([source for source, _ in PAIRS[:8]], resolved)
    assert sum(sizes) == 8
    assert max(sizes) <= max_batch
