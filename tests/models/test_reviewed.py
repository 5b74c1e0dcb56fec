"""Mistakes that were made once, and what stands next to them."""

import pytest
import torch

from seqloom import Batch, Recurrent, build_model, parts
from seqloom.batch import Padded, shift
from seqloom.errors import InputError, OptionError, SizeError
from seqloom.models.describe import complete_options
from seqloom.nn.outputs.cross_entropy import linear_cross_entropy
from seqloom.nn.positions import sinusoids


@pytest.mark.parametrize("cell", parts("cell"))
@pytest.mark.parametrize("width", [2, 7])
def test_an_input_of_another_width_is_refused(cell, width):
    """The fused LSTM does not look, and read beyond its memory."""
    with pytest.raises(SizeError, match=rf"sizes \[3\] was given \[{width}\]"):
        Recurrent(3, 4, cell=cell)(torch.randn(2, 5, width))


@pytest.mark.parametrize("model", ["encoder_decoder", "language_model"])
def test_size_reaches_the_parts_that_a_description_leaves_out(model):
    made = build_model({"model": model}, sizes={"source": 9, "target": 9}, size=6)
    assert made.output.input_size == made.decoder.size == 6
    if model == "encoder_decoder":
        assert made.source.output_size == made.encoder.output_size == 6


def test_a_setting_of_a_part_that_the_description_leaves_out():
    settings = {"output.tied": True, "source.reverse": True}
    made = build_model({}, sizes={"source": 9, "target": 9}, size=6, settings=settings)
    assert made.output.tied
    assert made.source.reverse


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_can_be_differentiated_twice(smoothing):
    torch.manual_seed(0)
    x, W, b = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (5, 4), (5,)))
    y = torch.tensor([0, 4, 2])
    assert torch.autograd.gradgradcheck(lambda *given: linear_cross_entropy(*given, y, smoothing)[0], (x, W, b))


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_is_frozen_gets_no_gradient_from_the_loss(frozen):
    torch.manual_seed(1)
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (5, 4), (5,))]
    y = torch.tensor([0, 4, 2])
    expected = torch.autograd.grad(linear_cross_entropy(*given, y)[0], given)
    given[frozen].requires_grad_(False)
    linear_cross_entropy(*given, y)[0].backward()
    for n, (tensor, grad) in enumerate(zip(given, expected, strict=True)):
        if n == frozen:
            assert tensor.grad is None
        else:
            torch.testing.assert_close(tensor.grad, grad)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("pattern", [[False, True, True], [True, False, True]], ids=["before", "between"])
def test_padding_that_is_not_at_the_end_is_refused(side, pattern):
    ids, mask = torch.full((1, 3), 4), torch.tensor([pattern])
    with pytest.raises(InputError, match=f"end of a row, and the {side}"):
        Batch({side: Padded(ids, mask)})


def test_a_state_is_handed_over_to_the_same_cell_only():
    settings = {"encoder.cell": "gru", "decoder.cell": "mut1"}
    with pytest.raises(SizeError, match=r"gru.*mut1"):
        build_model("luong", sizes={"source": 9, "target": 9}, size=4, settings=settings)


@pytest.mark.parametrize("preset", ["luong", "bahdanau", "transformer", "attention-lm", "cho"])
def test_a_target_can_be_gone_through_in_two_pieces(preset):
    torch.manual_seed(2)
    source = preset != "attention-lm"
    model = build_model(preset, sizes={"source": 9, "target": 9}, size=8)
    model = model.double().eval()
    batch = Batch.of([[4, 5, 6, 7], [8, 4, 5, 6]], [[4, 5], [6]] if source else None)
    memory = model.encode(batch)
    inputs = shift(model.output.start(memory), batch.target)
    state = model.initial_state(memory)
    for t in range(2):
        state = model.step(inputs[:, t], state, memory).state
    rest = model.decoder(model.output.feed(inputs[:, 2:]), state, memory)
    torch.testing.assert_close(rest.features, model(inputs, memory).features[:, 2:])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_positions_are_no_noise_in_half_precision(dtype):
    position = torch.arange(1000)
    error = sinusoids(position, 16, dtype).double() - sinusoids(position, 16, torch.float64)
    assert error.abs().max() < 0.01


def test_labels_are_smoothed_in_training_only():
    torch.manual_seed(3)
    settings = {"encoder.dropout": 0.0, "decoder.dropout": 0.0}
    model = build_model("transformer", sizes={"source": 9, "target": 9}, size=8, settings=settings)
    batch = Batch.of([[4, 5]], [[6, 7]])
    memory = model.encode(batch)
    decoded = model(shift(model.output.start(memory), batch.target), memory)
    log_p = torch.log_softmax(model.output.logits(decoded.features), -1)
    likelihood = log_p.gather(2, batch.target.values[..., None]).sum()
    torch.testing.assert_close(model.eval().loss(batch).total, -likelihood)
    assert not torch.isclose(model.train().loss(batch).total, -likelihood)


def test_a_batch_may_have_no_target_yet():
    model = build_model("luong", sizes={"source": 9, "target": 9}, size=4)
    batch = Batch.of(sources=[[4, 5], [6]])
    memory = model.encode(batch)
    assert memory.rows == 2
    with pytest.raises(InputError, match="needs a target"):
        model.loss(batch)
    with pytest.raises(InputError, match="at least one field"):
        Batch({})
    with pytest.raises(InputError, match="no source"):
        build_model("attention-lm", sizes={"target": 9}, size=4).encode(batch)


@pytest.mark.parametrize("preset", ["luong", "cho", "transformer"])
def test_rows_that_are_no_beams_of_the_sentences_are_refused(preset):
    model = build_model(preset, sizes={"source": 9, "target": 9}, size=4)
    memory = model.encode(Batch.of(sources=[[4, 5], [6]]))
    state = model.initial_state(memory).select(torch.tensor([0, 0, 1]))
    with pytest.raises(SizeError, match="3 rows can't be beams of 2 sentences"):
        model.step(torch.tensor([4, 4, 4]), state, memory)


def test_a_forget_bias_without_a_forget_gate_is_refused():
    with pytest.raises(OptionError, match="forget_bias has no use"):
        Recurrent(3, 4, cell={"name": "lstm", "forget_gate": False, "forget_bias": 0.0})


@pytest.mark.parametrize("vocabulary", [0, 3])
def test_a_vocabulary_without_room_for_special_symbols_is_refused(vocabulary):
    with pytest.raises(SizeError, match=f"vocabulary of {vocabulary} symbols has no room"):
        build_model("luong", sizes={"source": 9, "target": vocabulary}, size=4)


def test_a_summary_that_nothing_reads_is_refused():
    with pytest.raises(OptionError, match="summary='mean' has no use"):
        build_model("luong", sizes={"source": 9, "target": 9}, size=4, settings={"encoder.summary": "mean"})


def test_an_attention_of_a_part_of_ones_own_is_its_own():
    """It was taken for that of a recurrent decoder, whose context was asked for."""

    class Mine:
        """Attends."""

        def __init__(self, *, attention: dict | None = None) -> None: ...

    assert complete_options("encoder 'mine'", Mine, {"attention": {"a": 1}}) == {"attention": {"a": 1}}


def test_noise_is_drawn_only_for_what_is_fed_back(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "seqloom.nn.dropout.noise", lambda shape, p, like: drawn.append(shape) or like.new_ones(shape)
    )
    for preset, shapes in (("bahdanau", [(2, 3, 4)]), ("luong", [(2, 3, 4)])):
        model = build_model(
            preset,
            sizes={"source": 9, "target": 9},
            size=4,
            settings={"decoder.dropout": 0.5, "decoder.layers": 1, "encoder.layers": 1},
        ).train()
        drawn.clear()
        model.loss(Batch.of([[4, 5], [6, 7]], [[4, 5], [6, 7]]))
        assert [tuple(shape) for shape in drawn] == shapes
