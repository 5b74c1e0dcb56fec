"""An external pointer–generator: out-of-vocabulary words can be copied with every search."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import EOS, UNK, Padded, shift
from seqloom.data.pad import pad
from seqloom.decode import Ensemble, TokenConstraints
from seqloom.decode.score import score
from seqloom.errors import ConfigError
from seqloom.registry import build
from seqloom.train.objectives.scheduled_sampling import scheduled_loss

OUTSIDE = ("proofs/pointer_generator.py",)
pytestmark = pytest.mark.usefixtures("outside")

MODELS = {
    "recurrent": {
        "preset": "luong",
        "source_embedder.reverse": False,
        "encoder.layers": 2,
        "encoder.bidirectional": True,
        "encoder.hidden_size": 16,
        "bridge": "dense",
        "decoder.layers": 2,
    },
    "transformer": {
        "preset": "transformer",
        "encoder.layers": 1,
        "encoder.heads": 4,
        "decoder.layers": 1,
        "decoder.heads": 4,
    },
}
SIZE, UPDATES = 32, 160
SEARCHES = {
    "greedy": {},
    "beam": {"n_best": 2},
    "beam-refill": {"name": "beam", "refill": True},
    "diverse_beam": {},
    "sample": {"temperature": 0.1},
    "stochastic_beam": {"beam_size": 2},
    "mbr": {},
    "exhaustive": {"max_length": 4},
}


def name(draw: random.Random) -> str:
    """A random word, which practically never occurs twice."""
    return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=9))


def example(draw: random.Random) -> dict[str, str]:
    """``well meet X with Y`` → ``hello Y and X``."""
    fillers = " ".join(draw.choices(["well", "so", "now"], k=draw.randint(0, 2)))
    x, y = name(draw), name(draw)
    source, target = draw.choice(
        [
            (f"meet {x}", f"hello {x}"),
            (f"leave {x}", f"bye {x}"),
            (f"meet {x} with {y}", f"hello {y} and {x}"),
        ]
    )
    return {"source": f"{fillers} {source}".strip(), "target": target}


@pytest.fixture(scope="module")
def fields():
    texts = [one["source"] for one in examples(7, 100)] + [one["target"] for one in examples(8, 100)]
    words = {"tokenizer": {"name": "whitespace", "min_frequency": 2}}
    made = {
        "source": build("field", {"name": "text", **words}),
        "copies": build("field", "first_positions"),
        "target": build("field", {"name": "copying", "end": True, **words}),
    }
    for field in made.values():
        field.fit(texts)
    return made


def examples(seed: int, count: int) -> list[dict[str, str]]:
    draw = random.Random(seed)
    return [example(draw) for _ in range(count)]


def batch_of(fields, given) -> Batch:
    columns = {"source": "source", "copies": "source", "target": "target"}
    return Batch({n: pad(f.encode([one[columns[n]] for one in given], given)) for n, f in fields.items()})


def trained(kind: str, fields, seed: int):
    torch.manual_seed(seed)
    settings = {"output": {"name": "pointer_generator", "embedding_size": SIZE}, **MODELS[kind]}
    size = fields["source"].size
    model = build_model(
        settings.pop("preset"),
        sizes={"source": size, "target": size},
        hidden_size=SIZE,
        dropout=0.0,
        overrides=settings,
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.01 if kind == "recurrent" else 0.003)
    for update in range(UPDATES):
        loss = model.loss(batch_of(fields, examples(100 + update, 32))).mean
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module", params=MODELS)
def model(request, fields):
    return trained(request.param, fields, seed=1)


@pytest.fixture(scope="module")
def other(fields):
    return trained("recurrent", fields, seed=2)


@pytest.fixture(scope="module")
def test_set() -> list[dict[str, str]]:
    return examples(5, 12)


def best_texts(fields, given, found) -> list[str]:
    """The text of the best hypothesis of each example."""
    return [fields["target"].decode(np.array(one[0].tokens), e) for one, e in zip(found, given, strict=True)]


def test_ids_of_out_of_vocabulary_words_are_source_positions(fields):
    V = fields["target"].size
    one = {"source": "meet zzz with yyy", "target": "hello yyy and zzz qqq"}
    (row,) = fields["target"].encode([one["target"]], [one])
    assert row[1] == V + 3
    assert row[3] == V + 1
    assert row[4] == UNK
    assert row[5] == EOS
    assert fields["target"].decode(row, one) == "hello yyy and zzz �"
    assert fields["target"].show(row) == ["hello", "↑3", "and", "↑1", "<unk>", "</s>"]
    (positions,) = fields["copies"].encode(["zzz meet zzz"], [{}])
    assert positions.tolist() == [0, 1, 0]


@torch.no_grad()
def test_mixture_equals_its_formula_and_sums_to_one(model, fields, test_set):
    """Against an implementation in numpy, word by word."""
    batch, V = batch_of(fields, test_set), fields["target"].size
    memory = model.encode(batch)
    decoded = model(shift(model.output.start(memory), batch.target), memory, attention=True)
    (found,) = model.log_probs(batch.target, memory)
    f, a = decoded.features.double().numpy(), decoded.attention.double().numpy()
    weights = {n: p.double().numpy() for n, p in model.output.named_parameters()}
    for b, one in enumerate(test_set):
        words = one["source"].split()
        known = fields["source"].encode(words)
        for t in range(f.shape[1]):
            z = weights["weight"] @ f[b, t] + weights["bias"]
            g = 1 / (1 + np.exp(-(weights["gate.weight"][0] @ f[b, t] + weights["gate.bias"][0])))
            p = np.zeros(found.shape[2])
            p[:V] = g * np.exp(z) / np.exp(z).sum()
            for s, word in enumerate(words):
                (number,) = known[s]
                p[V + words.index(word) if number == UNK else number] += (1 - g) * a[b, t, s]
            np.testing.assert_allclose(found[b, t].exp().numpy(), p, atol=1e-5)
    assert found.exp().sum(-1).numpy() == pytest.approx(1, abs=1e-5)


@torch.no_grad()
def test_loss_equals_the_negative_score_and_the_sum_over_steps(model, fields, test_set):
    batch = batch_of(fields, test_set)
    scored, loss = score(model, batch), model.loss(batch)
    assert loss.total.item() == pytest.approx(-scored.total.sum().item(), rel=1e-5)
    memory = model.encode(batch)
    state, total = model.initial_state(memory), torch.zeros(len(test_set))
    inputs = shift(model.output.start(memory), batch.target)
    for t in range(inputs.shape[1]):
        step = model.next_log_probs(inputs[:, t], state, memory)
        state = step.state
        picked = step.log_probs.gather(1, batch.target.values[:, t, None])[:, 0]
        total += picked.where(batch.target.mask[:, t], torch.tensor(0.0))
    torch.testing.assert_close(total, scored.total)


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_copies_out_of_vocabulary_words(name, model, fields, test_set):
    search = build("search", {"name": name, **SEARCHES[name]})
    found = search(model, batch_of(fields, test_set))
    for one, hypotheses in zip(test_set, found, strict=True):
        texts = [fields["target"].decode(np.array(h.tokens), one) for h in hypotheses]
        assert one["target"] in (texts if name == "stochastic_beam" else texts[:1])
        for h in hypotheses:
            target = torch.tensor([[*h.tokens, EOS]])
            given = {**batch_of(fields, [one]).fields, "target": Padded(target, torch.ones_like(target).bool())}
            scored = score(model, Batch(given)).log_probs[0, : len(h.token_log_probs)]
            assert h.token_log_probs == pytest.approx(scored.tolist(), abs=1e-3)


@pytest.mark.parametrize("name", ["greedy", "beam", "sample", "stochastic_beam"])
def test_hypotheses_do_not_depend_on_the_batch(name, model, fields, test_set):
    """Although a single sentence has a smaller extended vocabulary."""
    search = build("search", {"name": name, **({"temperature": 2.0} if name == "sample" else {}), "max_length": 5})
    together = search(model, batch_of(fields, test_set))
    for one, expected in zip(test_set, together, strict=True):
        (found,) = search(model, batch_of(fields, [one]))
        assert [h.tokens for h in found] == [h.tokens for h in expected]


def test_constraints_apply_to_out_of_vocabulary_words(model, fields):
    given = [{"source": "meet xxxxx with yyyyy", "target": ""}, {"source": "so leave zzzzz", "target": ""}]
    batch, V = batch_of(fields, [{**one, "target": "hello"} for one in given]), fields["target"].size
    hello, bye, and_ = fields["target"].encode(["hello bye and"], [{"source": ""}])[0][:3].tolist()
    beam, greedy = build("search", "beam"), build("search", "greedy")

    def found(search, **constraints):
        return best_texts(fields, given, search(model, batch, constraints=TokenConstraints(**constraints)))

    assert found(greedy) == ["hello yyyyy and xxxxx", "bye zzzzz"]
    forced = found(greedy, prefix=[[hello, V + 1], [V + 2]])
    assert forced[0].startswith("hello xxxxx")
    assert forced[1].startswith("zzzzz")
    required = found(beam, required=[[[V + 1, and_]], [[V + 2, V + 2]]])
    assert "xxxxx and" in required[0]
    assert "zzzzz zzzzz" in required[1]
    assert "bye" not in found(greedy, forbidden=[[bye]])[1]
    once = found(greedy, prefix=[[hello, V + 3, V + 3], []], no_repeat_ngram_size=1)[0].split()
    assert once[:3] == ["hello", "yyyyy", "yyyyy"]
    assert "yyyyy" not in once[3:]
    penalized = found(greedy, prefix=[[], [V + 2]], repetition_penalty=1e6)
    assert penalized[1].split()[1:2] != ["zzzzz"]


def test_grammar_over_the_vocabulary_excludes_copied_words(model, fields, test_set):
    V = fields["target"].size
    found = build("search", "greedy")(
        model,
        batch_of(fields, test_set),
        constraints=TokenConstraints(grammar=lambda tokens_RT: torch.ones(len(tokens_RT), V, dtype=torch.bool)),
    )
    assert all(token < V for (h,) in found for token in h.tokens)


@pytest.mark.parametrize("mode", ["probs", "log_probs"])
def test_ensembles_copy(mode, model, other, fields, test_set):
    ensemble, batch = Ensemble([model, other], mode=mode), batch_of(fields, test_set)
    for name in ("greedy", "beam"):
        found = build("search", name)(ensemble, batch)
        assert best_texts(fields, test_set, found) == [one["target"] for one in test_set]
        totals = score(ensemble, batch).total.tolist()
        assert [h.log_prob for (h, *_) in found] == pytest.approx(totals, abs=1e-3)


def test_scheduled_sampling_feeds_copied_words(model, fields, test_set):
    loss = scheduled_loss(model, batch_of(fields, test_set), 0.0)
    assert loss.mean.item() < 0.5


def test_decoder_without_attention_is_rejected(fields):
    with pytest.raises(ConfigError, match="reads attention weights, but the decoder has none"):
        build_model(
            "sutskever", sizes={"source": 9, "target": 9}, hidden_size=4, overrides={"output": "pointer_generator"}
        )


PROOF = Path(__file__).parent / "proofs" / "pointer_generator.py"
WORDS = {"name": "whitespace", "min_frequency": 3}  # names occur twice, so they are out-of-vocabulary
SETTINGS = {
    "data.source_tokenizer": WORDS,
    "data.fields": {"target": {"name": "copying", "tokenizer": WORDS}, "copies": "first_positions"},
    "data.share_vocabulary": True,
    "model.preset": "luong",
    "model.source_embedder.reverse": False,
    "model.encoder.layers": 2,
    "model.encoder.bidirectional": True,
    "model.encoder.hidden_size": 16,
    "model.bridge": "dense",
    "model.decoder.layers": 2,
    "model.output": "pointer_generator",
    "model.hidden_size": SIZE,
    "model.dropout": 0.0,
    "train.updates": 2 * UPDATES,
    "train.evaluate_every": 2 * UPDATES,
    "train.batch_sentences": 32,
    "train.optimizer.lr": 0.01,
}
COLUMNS = ("--columns", "{source: 0, target: 1, copies: 0}")


def run_seqloom(*arguments: object, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seqloom", *map(str, arguments), "--import", str(PROOF)]
    ran = subprocess.run(command, input=stdin, capture_output=True, text=True)
    assert ran.returncode == code, ran.stderr
    return ran


def settings(given: dict[str, object]) -> list[str]:
    return [word for path, value in given.items() for word in ("--set", f"{path}={json.dumps(value)}")]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run trained through the command line, on files."""
    folder = tmp_path_factory.mktemp("copied")
    for part, seed, count in (("train", 1, 1500), ("dev", 2, 20), ("test", 3, 30)):
        lines = [f"{one['source']}\t{one['target']}\n" for one in examples(seed, count)]
        (folder / f"{part}.tsv").write_text("".join(lines))
    ran = run_seqloom(
        *("train", "--train", folder / "train.tsv", "--dev", folder / "dev.tsv", "--out", folder / "run"),
        *COLUMNS,
        *settings(SETTINGS),
    )
    assert re.search(r"→  (hello|bye)·↑\d", ran.stderr), ran.stderr  # the log shows some tokenized pairs
    return folder


def to_jsonl(given: list[dict[str, str]]) -> str:
    return "".join(json.dumps({"source": one["source"], "copies": one["source"]}) + "\n" for one in given)


@pytest.mark.parametrize("search", ["greedy", "beam", "sample", "{name: mbr, metric: per}"])
def test_command_line_copies_words_not_in_the_training_data(search, run):
    test_set = examples(3, 30)
    options = ["--search", search, *(["--temperature", "0.1"] if search not in ("greedy", "beam") else [])]
    ran = run_seqloom("predict", run / "run", "--format", "jsonl", *options, stdin=to_jsonl(test_set))
    assert ran.stdout.splitlines() == [one["target"] for one in test_set]


def test_command_line_evaluates_and_scores_copied_words(run):
    on_test = ("--data", run / "test.tsv", *COLUMNS, "--json")
    ran = run_seqloom("evaluate", run / "run", "--metric", "exact_match", "--metric", "perplexity", *on_test)
    found = json.loads(ran.stdout)["metrics"]
    assert found["exact_match"]["value"] == 100
    assert found["perplexity"]["value"] < 1.2
    scored = [json.loads(line) for line in run_seqloom("score", run / "run", *on_test).stdout.splitlines()]
    lines = run_seqloom("predict", run / "run", "--format", "jsonl", "--json", stdin=to_jsonl(examples(3, 30))).stdout
    for one, line in zip(scored, lines.splitlines(), strict=True):
        (best, *_) = json.loads(line)["hypotheses"]
        assert best["text"] == one["target"]
        assert best["log_prob"] == pytest.approx(one["log_prob"], abs=1e-3)
        assert best["tokens"] == one["tokens"]
        assert any(token.startswith("↑") for token in best["tokens"])


@pytest.mark.parametrize("search", ["beam", "{name: mbr, metric: per}"])
def test_command_line_traces_copied_words(search, run):
    source = "meet xxxxx with yyyyy"
    (line,) = to_jsonl([{"source": source}]).splitlines()
    options = ("--format", "jsonl", "--search", search)
    trace = json.loads(run_seqloom("trace", run / "run", "--text", line, *options).stdout)
    best, *_ = trace["hypotheses"]
    assert best["text"] == "hello yyyyy and xxxxx"
    assert best["tokens"] == ["hello", "↑3", "and", "↑1"]
    assert "it has no 'copies'" in run_seqloom("trace", run / "run", "--text", source, code=2).stderr


def test_missing_field_of_the_output_is_reported(run):
    given = {**SETTINGS, "data.fields": {"target": SETTINGS["data.fields"]["target"]}}
    training = ("train", "--train", run / "train.tsv", "--out", run / "other")
    stderr = run_seqloom(*training, *settings(given), code=2).stderr
    assert "model.output reads an undefined field: add data.fields.copies={name: …}" in stderr
    assert not (run / "other").exists()
