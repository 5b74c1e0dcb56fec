"""External stateful attention (coverage, monotonic): as a layer, in a decoder, in search."""

import numpy as np
import pytest
import torch

from seqloom import Batch, build_model
from seqloom.batch import EOS, shift
from seqloom.errors import ConfigError
from seqloom.nn.attention import Attention
from seqloom.registry import build

OUTSIDE = ("parts/coverage_score.py", "proofs/monotonic.py")
pytestmark = pytest.mark.usefixtures("outside")
COVERAGE, MONOTONIC = {"score": "outside_coverage"}, {"score": "bilinear", "normalizer": "outside_monotonic"}
KINDS = pytest.mark.parametrize("attention", [COVERAGE, MONOTONIC], ids=["coverage", "monotonic"])
WIRINGS = {
    "current": {"context": "current"},
    "input feeding": {"context": "current", "input_feeding": True},
    "previous": {"context": "previous", "context_input": "first_layer"},
}
B, T, S, H = 3, 4, 5, 6


def rand(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def layer(options):
    torch.manual_seed(0)
    return Attention(H, H, **options).double(), rand(B, S, H), rand(B, T, H)


def test_coverage_is_the_sum_of_previous_attention_weights():
    attention, keys, queries = layer(COVERAGE)
    _, weights = attention(keys, keys, queries)
    part = attention.score
    W_q, b, W_k = (p.detach().numpy() for p in (part.query.weight, part.query.bias, part.key.weight))
    w, v, k, q = (x.detach().numpy() for x in (part.w, part.v, keys, queries))
    for row in range(B):
        coverage = np.zeros(S)
        for t in range(T):
            hidden = np.tanh(q[row, t] @ W_q.T + b + k[row] @ W_k.T + coverage[:, None] * w)
            expected = np.exp(hidden @ v) / np.exp(hidden @ v).sum()
            np.testing.assert_allclose(weights[row, t].detach().numpy(), expected, rtol=1e-10)
            coverage += expected


def test_monotonic_attention_equals_the_recursion_of_the_paper():
    """Equation 8 of the paper: weights_s = p_s ((1 − p_{s−1}) weights_{s−1} / p_{s−1} + past_s)."""
    attention, keys, queries = layer(MONOTONIC)
    _, weights = attention(keys, keys, queries)
    scores = attention.score(queries, attention.project_keys(keys)).detach().numpy()
    for row in range(B):
        past = np.eye(S)[0]
        for t in range(T):
            p, expected = 1 / (1 + np.exp(-scores[row, t])), np.zeros(S)
            for s in range(S):
                before = (1 - p[s - 1]) * expected[s - 1] / p[s - 1] if s else 0.0
                expected[s] = p[s] * (before + past[s])
            np.testing.assert_allclose(weights[row, t].detach().numpy(), expected, rtol=1e-10)
            past = expected


def model(attention, wiring):
    torch.manual_seed(1)
    settings = {"decoder": {**wiring, "attention": {**attention}}, "bridge": "dense"}
    return build_model("luong", sizes={"source": 9, "target": 9}, hidden_size=H, overrides=settings).double().eval()


BATCH = Batch.from_lists([[5, 4, 7], [6, 6, 5, 4]], [[4, 5, 6, 7], [8, 4]])


@KINDS
@pytest.mark.parametrize("wiring", WIRINGS.values(), ids=list(WIRINGS))
def test_steps_equal_forward_and_padding_has_no_effect(attention, wiring):
    network = model(attention, wiring)
    memory = network.encode(BATCH)
    inputs = shift(network.output.start(memory), BATCH.target)
    whole = network(inputs, memory, attention=True)
    state = network.initial_state(memory)
    for t in range(inputs.shape[1]):
        step = network.step(inputs[:, t], state, memory)
        state = step.state
        torch.testing.assert_close(step.features, whole.features[:, t])
        torch.testing.assert_close(step.attention, whole.attention[:, t])
    alone = Batch.from_lists([[6, 6, 5, 4]], [[8, 4]])
    memory = network.encode(alone)
    inputs = shift(network.output.start(memory), alone.target)
    torch.testing.assert_close(network(inputs, memory).features[0], whole.features[1])


@KINDS
def test_target_can_be_processed_in_two_parts(attention):
    network = model(attention, WIRINGS["current"])
    memory = network.encode(BATCH)
    inputs = shift(network.output.start(memory), BATCH.target)
    whole = network(inputs, memory).features
    first = network(inputs[:, :2], memory)
    rest = network(inputs[:, 2:], memory, first.state)
    torch.testing.assert_close(torch.cat((first.features, rest.features), 1), whole)


@KINDS
def test_beams_have_separate_attention_states(attention):
    """Beam search reports the log-probabilities that each hypothesis has when it is scored alone."""
    network = model(attention, WIRINGS["current"])
    with torch.no_grad():
        for row, found in enumerate(build("search", {"name": "beam", "beam_size": 4, "n_best": 4})(network, BATCH)):
            source = BATCH.source.values[row][BATCH.source.mask[row]].tolist()
            for hypothesis in found:
                target = [*hypothesis.tokens, *[EOS] * hypothesis.finished]
                alone = Batch.from_lists([hypothesis.tokens], [source])
                log_probs = torch.cat(list(network.log_probs(alone.target, network.encode(alone))), 1)[0]
                scored = [log_probs[t, token].item() for t, token in enumerate(target)]
                assert scored == pytest.approx(hypothesis.token_log_probs, abs=1e-10)


def test_attention_over_the_past_is_rejected():
    with pytest.raises(ConfigError, match="keeps a state for every key"):
        model(COVERAGE, {"context": "past"})
