"""``seqloom predict`` and ``seqloom score``: what they print, against the same asked of Python."""

import datetime
import io
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import seqloom
from seqloom.cli import app
from seqloom.cli.files import gathered
from seqloom.cli.requests import Request, read_requests, request
from seqloom.cli.search_options import set_apart
from seqloom.errors import InputError, OptionError, SeqloomError
from seqloom.registry import parts

PAIRS = [
    (f"{a} {n} {v} .", f"{v.upper()}{n} {n.upper()}{a} !")
    for a in ("red", "green", "blue")
    for n in ("cat", "dog", "bird", "fish")
    for v in ("sleeps", "sings", "eats")
]
SOURCES = ["red cat sleeps .", "", "blue fish sings .", "green dog eats .", "bird"]
QUICK = {"train.updates": 3, "train.evaluate_every": 3, "train.optimiser.rate": 0.01, "model.dropout": 0.0}
BPE = {"data.source": {"name": "bpe", "size": 40}, "data.target": {"name": "bpe", "size": 40}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs with the same target tokenizer, one of them without attention, and one that spells by characters."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in {
        "one": {**BPE, "train.updates": 40},
        "two": {**BPE, "seed": 2},
        "reads letters": {**BPE, "data.source": "character", "model.preset": "luong"},
        "blind": {**BPE, "model.preset": "sutskever"},
        "letters": {"data.source": "character", "data.target": "character"},
        "short": {
            "data.source": "character",
            "model.preset": "transformer",
            "model.encoder.positions": {"name": "learned", "longest": 20},
        },
    }.items():
        seqloom.fit(PAIRS, dev=PAIRS[:4], size=16, settings={**QUICK, **settings}, out=folder / name, quiet=True)
    return folder


@pytest.fixture(scope="module")
def model(runs):
    return seqloom.load(runs / "one")


@pytest.fixture
def predict(runs, monkeypatch, capsys):
    """Run ``seqloom predict`` on the sources, and get its lines."""

    def run(*options: str, of=("one",), given: str | None = None, command: str = "predict", capture: bool = True):
        text = "".join(f"{source}\n" for source in SOURCES) if given is None else given
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        app(args=gathered([command, *(str(runs / name) for name in of), *options]), standalone_mode=False)
        return capsys.readouterr().out.splitlines() if capture else []

    return run


def test_text_alone_by_default(predict, model):
    assert predict() == model.predict(SOURCES)


def test_json_has_everything(predict, model):
    records = [json.loads(line) for line in predict("--json", "--n-best", "2")]
    for record, source, answers in zip(records, SOURCES, model.answers(SOURCES, n_best=2), strict=True):
        assert record["source"] == source
        assert record["source_tokens"] == answers[0].source_tokens
        for shown, answer in zip(record["answers"], answers, strict=True):
            assert shown["text"] == answer.text
            assert shown["tokens"] == answer.tokens
            assert shown["log_prob"] == pytest.approx(answer.log_prob, abs=1e-5)
            assert shown["token_log_probs"] == pytest.approx(answer.token_log_probs, abs=1e-5)
            assert shown["value"] == pytest.approx(answer.value, abs=1e-5)
            assert (shown["formula"], shown["finished"]) == (answer.formula, answer.finished)
            if source:
                assert shown["weights"] == [pytest.approx(row, abs=1e-5) for row in answer.weights.tolist()]
                greatest = answer.weights[: len(answer.tokens)].numpy().argmax(1)
                assert shown["alignment"] == [[s, t] for t, s in enumerate(greatest)]


def test_json_by_words(predict):
    for line in predict("--json", "--words"):
        record = json.loads(line)
        words = record["answers"][0]["words"]
        assert words["source"] == record["source"].split()
        assert words["target"] == record["answers"][0]["text"].split()
        if record["source"]:
            assert [len(row) for row in words["weights"]] == [len(words["source"])] * len(words["target"])
            assert [sum(row) for row in words["weights"]] == pytest.approx([1] * len(words["target"]), abs=1e-4)


def test_several_answers_come_with_their_source_and_value(predict, model):
    lines = [line.split(" ||| ") for line in predict("--n-best", "3", "--scores")]
    expected = [
        [str(number), answer.text, f"{answer.value:.4f}"]
        for number, answers in enumerate(model.answers(SOURCES, n_best=3))
        for answer in answers
    ]
    assert lines == expected
    assert [line[0] for line in lines] == [*"000", "1", *"222333444"]


def test_samples_are_several_answers_too(predict, model):
    lines = predict("--search", "sample", "--samples", "2", "--temperature", "0.7", "--seed", "3")
    answers = model.answers(SOURCES, search="sample", samples=2, temperature=0.7, seed=3)
    assert [line.split(" ||| ")[1] for line in lines] == [answer.text for found in answers for answer in found]


def test_scores_and_alignments_stand_behind_the_text(predict, model):
    answers = [found[0] for found in model.answers(SOURCES)]
    assert predict("--scores") == [f"{answer.text} ||| {answer.value:.4f}" for answer in answers]
    aligned = [" ".join(f"{s}-{t}" for s, t in answer.alignment or ()) for answer in answers]
    assert predict("--align") == [f"{a.text} ||| {links}" for a, links in zip(answers, aligned, strict=True)]


def test_words_are_aligned_by_their_places_in_the_text(predict):
    for line, source in zip(predict("--align", "--words"), SOURCES, strict=True):
        text, _, links = line.partition(" ||| ")
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert [t for _, t in pairs] == list(range(len(text.split())))
        assert all(s < len(source.split()) for s, _ in pairs)


@pytest.mark.parametrize(
    ("typed", "options"),
    [
        ("--search greedy", {"search": "greedy"}),
        ("--width 2 --normalisation wu --alpha=0.9", {"width": 2, "normalisation": "wu", "alpha": 0.9}),
        ("--search beam --max-length 3 --unknown false", {"search": "beam", "max_length": 3, "unknown": False}),
        ("--search '{name: beam, width: 2}'", {"search": {"name": "beam", "width": 2}}),
        ("--search sample --top_k 3 --seed 5", {"search": "sample", "top_k": 3, "seed": 5}),
        ("--no-repeat 1 --repetition-penalty 1.5", {"no_repeat": 1, "repetition_penalty": 1.5}),
    ],
)
def test_options_have_the_names_of_python(typed, options, predict, model):
    import shlex

    shown = [json.loads(line)["answers"][0] for line in predict("--json", *shlex.split(typed))]
    for answer, (expected, *_) in zip(shown, model.answers(SOURCES, **options), strict=True):
        assert answer["text"] == expected.text
        assert answer["formula"] == expected.formula
        assert answer["value"] == pytest.approx(expected.value, abs=1e-5)


def test_constraints_hold(predict):
    kept = [line for line in predict("--prefix", "EATS") if line]
    assert kept
    assert all(line.startswith("EATS") for line in kept)
    assert all("SINGSb" in line for line in predict("--require", "SINGSb", "--width", "8") if line)
    plain = predict()
    assert any(word.startswith("!") for line in plain for word in line.split())
    assert not any(word.startswith("!") for line in predict("--forbid", "!") for word in line.split())


def test_a_line_can_bring_its_own_constraints(predict, tmp_path):
    path = tmp_path / "asked.jsonl"
    records = [
        {"source": SOURCES[0], "prefix": "SINGS", "id": 7},
        {"source": SOURCES[0], "require": ["EATS"]},
        {"source": SOURCES[0]},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + "\n", encoding="utf-8")
    shown = predict("--input", str(path), "--prefix", "DOG", "--width", "8", "--json")
    texts = [json.loads(line)["answers"][0]["text"] for line in shown]
    assert texts[0].startswith("SINGS")
    assert texts[1].startswith("DOG")
    assert "EATS" in texts[1]
    assert texts[2].startswith("DOG")
    assert texts[3] == ""
    assert json.loads(shown[0])["id"] == 7
    assert predict("--format", "jsonl", given=path.read_text(), command="translate")[0].startswith("SINGS")


@pytest.mark.parametrize(
    "typed", ["--max-length 1 --search greedy", "--max-length 1 --search beam", "--grammar dates", ""]
)
def test_what_never_ends_is_said_and_counted(typed, predict, capsys):
    """A model without digits can't go on under the grammar of dates."""
    predict("--json", *typed.split(), capture=False)
    printed = capsys.readouterr()
    best = [json.loads(line)["answers"][0] for line in printed.out.splitlines()]
    cut = [answer["truncated"] for answer in best].count(True)
    assert all(answer["truncated"] or answer["finished"] for answer in best)
    assert cut == (4 if typed else 0), (
        "the model writes more than one token, and ends by itself; a blank source has no answer"
    )
    assert printed.err.startswith(f"seqloom: {cut} of 5 outputs were truncated") if cut else printed.err == ""


@pytest.mark.parametrize("search", ["greedy", "beam", "mbr"])
def test_an_evaluation_counts_the_truncated_outputs_of_every_search(search, model):
    counts = [model.evaluate(PAIRS[:6], search=search, max_length=most).truncated for most in (1, 60)]
    assert counts == [6, 0]


def test_a_run_with_itself_is_the_run(predict):
    for average in ((), ("--average", "log_probabilities")):
        together = [json.loads(line)["answers"][0] for line in predict("--json", *average, of=("one", "one"))]
        alone = [json.loads(line)["answers"][0] for line in predict("--json")]
        for both, one in zip(together, alone, strict=True):
            assert both["text"] == one["text"]
            assert both["log_prob"] == pytest.approx(one["log_prob"], abs=1e-4)


@pytest.mark.parametrize("other", ["two", "blind", "reads letters"])
def test_an_ensemble_averages_probabilities(other, runs):
    """Of every token of given targets, by the members' own scores; and the search reports what scoring does."""
    sources, targets = zip(*PAIRS[:6], strict=True)
    together = seqloom.load([runs / "one", runs / other])
    members = [seqloom.load(runs / name).score(sources, targets) for name in ("one", other)]
    for both, *alone in zip(together.score(sources, targets), *members, strict=True):
        mean = np.mean([np.exp(score.token_log_probs) for score in alone], axis=0)
        assert both.token_log_probs == pytest.approx(np.log(mean).tolist(), abs=1e-4)
    (answers,) = together.answers(sources[:1], search="greedy", prefix=targets[0])
    (score,) = together.score(sources[:1], targets[:1])
    assert answers[0].token_log_probs[: len(score.tokens)] == pytest.approx(score.token_log_probs[:-1], abs=1e-4)
    assert (answers[0].weights is None) == (other != "two")


def test_scores_are_those_of_python(predict, model, tmp_path):
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
    ("typed", "of", "says"),
    [
        ("--widht 3", ("one",), "did you mean '--width'"),
        ("--devcie cpu", ("one",), "did you mean '--device'"),
        ("--width", ("one",), "--width needs a value"),
        ("--width some", ("one",), "width='some' does not do"),
        ("--search greedy --width 3", ("one",), "search 'greedy' has no width; these have: beam"),
        ("--search greedy --n-best 3", ("one",), "search 'greedy' has no n_best; these have: beam"),
        ("--width 2 --n-best 3", ("one",), "n_best=3 answers need a beam of at least that width"),
        ("--search greedy --require red", ("one",), "use search 'beam'"),
        ("--prefix ж", ("one",), "can't be written by this model"),
        ("--grammar date", ("one",), "did you mean 'dates'"),
        ("--words", ("one",), "--words says what --align and --json count"),
        ("--json --align", ("one",), "leave --scores and --align out"),
        ("--align", ("blind",), "no attention to one source here"),
        ("--average probabilities", ("one",), "name several"),
        ("--average log_probability", ("one", "two"), "'probabilities' or 'log_probabilities'"),
        ("", ("one", "letters"), "write different tokens"),
        ("--format tsv", ("one",), "unknown format 'tsv'"),
    ],
)
def test_what_makes_no_sense_is_refused(typed, of, says, predict):
    with pytest.raises(SeqloomError) as raised:
        predict(*typed.split(), of=of)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("red cat", "line 3: not JSON"),
        ('["red"]', "not a JSON object with a text as its source"),
        ('{"text": "red"}', "not a JSON object with a text as its source"),
        ('{"source": "red", "prefixes": "a"}', "did you mean 'prefix'"),
        ('{"source": "red", "prefix": ["a"]}', "prefix is ['a'], not text"),
        ('{"source": "red", "require": "a"}', "require is 'a', not a list"),
    ],
)
def test_a_line_that_asks_nothing_is_refused(line, says):
    with pytest.raises(InputError) as raised:
        request(line, "asked.jsonl, line 3")
    assert says in str(raised.value)


def test_a_name_tells_the_format(tmp_path):
    for name, expected in (("a.jsonl", "x"), ("a.txt", '{"source": "x"}')):
        path = str(tmp_path / name)
        (tmp_path / name).write_text('{"source": "x"}\n')
        assert list(read_requests(path, None)) == [Request(expected, place=f"{path}, line 1")]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"prefix": "ж"}, "prefix='ж' can't be written by this model"),
        ({"require": ["CAT", "ж"]}, "require='ж' can't be written by this model"),
        ({"require": ["CAT", ""]}, "require='' has no token"),
        ({"prefix": "red " * 30}, "its prefix has"),
        ({"prefix": "\ud800"}, "holds half a character"),
    ],
    ids=["prefix", "require", "nothing", "too long", "half a character"],
)
def test_what_can_not_be_done_is_named_by_its_line(asked, says, predict, tmp_path, monkeypatch):
    """And not by its place among those that are answered together."""
    monkeypatch.setattr("seqloom.cli.requests.TOGETHER", 2)
    path = tmp_path / "asked.jsonl"
    lines = [{"source": "red cat"}, {"source": ""}, {"source": "blue fish sings ."}, {"source": "bird", **asked}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(InputError, match=rf"^{path}, line 4: .*{says}"):
        predict("--input", str(path), "--max-length", "20")


def test_a_source_behind_the_last_learned_position_is_named_by_its_line(predict):
    with pytest.raises(InputError, match=r"line 2: a source of 21 tokens is too long.* knows 20 positions"):
        predict(of=("short",), given=f"red cat\n{'x' * 21}\n")


def test_options_that_are_not_a_commands_own_are_set_apart():
    own = {"--search", "--json"}
    words = ["run", "--top-k", "3", "--search", "sample", "--top_p=0.5", "--json", "--x", "-1"]
    assert set_apart(words, own) == (
        ["run", "--search", "sample", "--json"],
        {"top_k": "3", "top_p": "0.5", "x": "-1"},
    )
    assert set_apart(["--", "--odd"], own) == (["--", "--odd"], {})
    with pytest.raises(OptionError, match="--top-k needs a value"):
        set_apart(["--top-k", "--json"], own)


@pytest.mark.parametrize("command", ["predict", "evaluate", "score"])
def test_help_does_not_wait_for_torch(command):
    check = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))"
    code = f"{check}; import seqloom.cli; sys.argv = ['seqloom', '{command}', '--help']; seqloom.cli.main()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr.strip()) == (0, "False")


OF_SEARCH = {"diverse": ["--groups", "2", "--width", "4"], "exhaustive": ["--max-length", "1"]}


@pytest.mark.parametrize("name", parts("search"))
def test_every_search_answers_from_the_command_line_as_from_python(name, predict, model):
    typed = OF_SEARCH.get(name, [])
    lines = predict("--json", "--search", name, *typed)
    options = dict(
        zip((o.removeprefix("--").replace("-", "_") for o in typed[::2]), map(int, typed[1::2]), strict=True)
    )
    for line, found in zip(lines, model.answers(SOURCES, search=name, **options), strict=True):
        answers = json.loads(line)["answers"]
        assert answers[0]["text"] == found[0].text
        assert len(answers) == len(found) >= 1


def test_mbr_judges_the_texts(predict, model):
    lines = predict("--json", "--search", "mbr", "--metric", "chrf", "--samples", "8")
    assert json.loads(lines[0])["answers"][0]["formula"] == "mean chrf with the samples"
    (answers,) = model.answers(SOURCES[:1], search="mbr", samples=8, metric=lambda a, b: float(len(a)))
    drawn = [answer for answer in model.answers(SOURCES[:1], search="sample", samples=8)[0] if answer.finished]
    assert len(answers[0].text) == max(len(answer.text) for answer in drawn)


def test_many_batches_come_back_in_order(model, monkeypatch):
    """Sources are answered and scored by length, a few at a time."""
    sources = [source for source, _ in PAIRS[:8]] + ["red", "", "blue fish sings . green dog eats ."]
    targets = [target for _, target in PAIRS[:8]] + ["x", "y", "z"]
    once = model.answers(sources, search="greedy")
    scored = model.score([s for s in sources if s], [t for s, t in zip(sources, targets, strict=True) if s])
    monkeypatch.setattr(seqloom.predictor.predictor, "TOKENS", 20)
    for one, other in zip(once, model.answers(sources, search="greedy"), strict=True):
        assert one[0].text == other[0].text
        assert one[0].log_prob == pytest.approx(other[0].log_prob, abs=1e-4)
    again = model.score([s for s in sources if s], [t for s, t in zip(sources, targets, strict=True) if s])
    assert [s.log_prob for s in scored] == pytest.approx([s.log_prob for s in again], abs=1e-3)
    assert len({answer[0].text for answer in once}) > 3, "else any order would do"


def test_the_average_of_an_ensemble_can_be_of_log_probabilities(runs):
    sources, targets = zip(*PAIRS[:4], strict=True)
    names = [runs / "one", runs / "two"]
    together = seqloom.load(names, average="log_probabilities").score(sources, targets)
    usual = seqloom.load(names).score(sources, targets)
    for one, other in zip(together, usual, strict=True):
        assert one.log_prob != pytest.approx(other.log_prob, abs=1e-3)


def test_an_ensemble_is_averaged_and_a_run_beside_it_is_not(predict, runs, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS[:3]), encoding="utf-8")
    typed = ["--data", str(path), "--metric", "loss", "--json", "--average", "log_probabilities"]
    ensemble, single = (
        ["--against", str(runs / "one"), "--against", str(runs / "two")],
        ["--against", str(runs / "one")],
    )

    def values(*options, of):
        return json.loads("\n".join(predict(*typed, *options, of=of, command="evaluate")))["metrics"]["loss"][
            "values"
        ]

    averaged, alone = values(*single, of=("one", "two"))
    assert values(*ensemble, of=("one",)) == [alone, averaged]
    expected = seqloom.load([runs / "one", runs / "two"], average="log_probabilities").evaluate(PAIRS[:3])
    assert averaged == pytest.approx(np.log(expected["perplexity"].value))
    for more in ([], single):
        with pytest.raises(OptionError, match="--average is for an ensemble, and none is named"):
            predict(*typed, *more, command="evaluate")


def test_the_grammar_of_dates_makes_dates():
    """Whatever a model has learned, here nearly nothing: what it writes is a day of the calendar."""
    pairs = [(f"{d}.{m}.{y}", f"{y}-{m:02}-{d:02}") for d in (1, 23, 30) for m in (2, 4, 12) for y in (1999, 2024)]
    pairs += [("0123456789", "5678-56-78")]
    model = seqloom.fit(pairs, size=8, settings={"train.updates": 2, "data.target": "character"}, quiet=True)
    for answers in model.answers([s for s, _ in pairs[:6]], search="beam", grammar="dates", max_length=10):
        assert answers[0].finished
        datetime.date.fromisoformat(answers[0].text)


@pytest.mark.parametrize(("search", "most"), [({"name": "beam", "width": 50}, 2), ("greedy", 8), ("exhaustive", 1)])
def test_wide_searches_get_small_batches(model, monkeypatch, search, most):
    """What bounds memory is rows, not sentences."""
    how, _ = model.asked(search, {"max_length": 1})
    sizes = []
    monkeypatch.setattr(seqloom.predictor.predictor, "TOKENS", 100)
    monkeypatch.setattr(type(how), "__call__", lambda self, network, batch, **_: sizes.append(batch.rows) or [
        [] for _ in range(batch.rows)])  # fmt: skip
    model.predictor.answers([source for source, _ in PAIRS[:8]], how)
    assert sum(sizes) == 8
    assert max(sizes) <= most
