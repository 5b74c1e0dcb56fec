"""Column-major weights do not change results."""

import pytest
import torch

from seqloom import Batch, build_model
from seqloom.decode.beam import Beam
from seqloom.nn.layout import use_column_major_weights


@pytest.mark.parametrize("preset", ["recurrent", "luong", "bahdanau", "transformer"])
def test_column_major_weights_change_no_result(preset):
    torch.manual_seed(0)
    model = build_model(preset, sizes={"source": 9, "target": 9}, hidden_size=8).double().eval()
    batch = Batch.from_lists([[4, 5, 6], [7]], [[5, 6], [8, 7, 4]])
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    hypotheses, loss = Beam(n_best=3)(model, batch), model.loss(batch).total
    use_column_major_weights(model.decoder, model.output)
    assert all(p.t().is_contiguous() for p in model.decoder.parameters() if p.dim() == 2)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    torch.testing.assert_close(model.loss(batch).total, loss, rtol=0, atol=1e-10)
    for one, other in zip(hypotheses, Beam(n_best=3)(model, batch), strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.log_prob for h in one] == pytest.approx([h.log_prob for h in other], abs=1e-10)


def test_column_major_weights_stay_tied():
    model = build_model("recurrent", sizes={"source": 9, "target": 9}, hidden_size=8)
    use_column_major_weights(model.decoder, model.output)
    assert model.output.output_weight is model.output.embedding.weight
