"""Names of other toolkits get the right hint: wherever they are typed, "did you mean" names what they mean here."""

import pytest

from seqloom.cli import app
from seqloom.config import make_config
from seqloom.errors import SeqloomError
from seqloom.merge import by_path
from seqloom.registry import build

SETTINGS = {
    "train.learning_rate": "train.optimizer.lr",
    "train.lr": "train.optimizer.lr",
    "train.max_lr": "train.optimizer.lr",
    "train.adam_eps": "train.optimizer.eps",
    "train.adam_betas": "train.optimizer.betas",
    "train.weight_decay": "train.optimizer.weight_decay",
    "train.momentum": "train.optimizer.momentum",
    "train.optim": "optimizer",
    "train.lr_scheduler": "schedule",
    "train.scheduler": "schedule",
    "train.lr_scheduler_type": "schedule",
    "train.warmup_steps": "train.schedule.warmup",
    "train.warmup_updates": "train.schedule.warmup",
    "train.num_warmup_steps": "train.schedule.warmup",
    "train.batch_size": "batch_sentences",
    "train.max_sentences": "batch_sentences",
    "train.per_device_train_batch_size": "batch_sentences",
    "train.max_tokens": "batch_tokens",
    "train.update_freq": "gradient_accumulation_steps",
    "train.accum_count": "gradient_accumulation_steps",
    "train.batch_multiplier": "gradient_accumulation_steps",
    "train.accumulate_grad_batches": "gradient_accumulation_steps",
    "train.max_grad_norm": "clip_grad_norm",
    "train.clip_norm": "clip_grad_norm",
    "train.gradient_clipping": "clip_grad_norm",
    "train.gradient_clip_val": "clip_grad_norm",
    "train.max_epoch": "epochs",
    "train.num_train_epochs": "epochs",
    "train.num_epochs": "epochs",
    "train.max_steps": "updates",
    "train.train_steps": "updates",
    "train.max_update": "updates",
    "train.early_stopping": "patience",
    "train.early_stopping_patience": "patience",
    "train.early_stopping_metric": "validation_metric",
    "train.metric_for_best_model": "validation_metric",
    "train.best_checkpoint_metric": "validation_metric",
    "train.valid_steps": "evaluate_every",
    "train.validation_freq": "evaluate_every",
    "train.eval_steps": "evaluate_every",
    "train.validate_interval": "evaluate_every",
    "train.keep_best_ckpts": "keep_best_checkpoints",
    "train.save_total_limit": "keep_best_checkpoints",
    "train.average_checkpoints": "keep_best_checkpoints",
    "train.ema": "ema_decay",
    "train.fp16": "precision",
    "train.bf16": "precision",
    "train.mixed_precision": "precision",
    "train.logging_steps": "log_every",
    "train.log_interval": "log_every",
    "train.report_every": "log_every",
    "train.save_steps": "checkpoint_seconds",
    "train.criterion": "objective",
    "train.teacher_forcing": "train.scheduled_sampling.teacher_forcing_ratio",
    "train.use_cuda": "device",
    "random_seed": "seed",
    "data.src_tokenizer": "source_tokenizer",
    "data.joined_dictionary": "share_vocabulary",
    "data.share_vocab": "share_vocabulary",
    "data.max_seq_length": "max_length",
    "data.max_sent_length": "max_length",
}
PARTS = {
    ("encoder", "recurrent", "hidden_dim"): "hidden_size",
    ("encoder", "recurrent", "d_model"): "hidden_size",
    ("encoder", "recurrent", "rnn_size"): "hidden_size",
    ("encoder", "recurrent", "num_layers"): "layers",
    ("encoder", "recurrent", "n_layers"): "layers",
    ("encoder", "recurrent", "rnn_type"): "cell",
    ("encoder", "recurrent", "brnn"): "bidirectional",
    ("encoder", "recurrent", "dropout_rate"): "dropout",
    ("encoder", "transformer", "nhead"): "heads",
    ("encoder", "transformer", "num_heads"): "heads",
    ("encoder", "transformer", "attention_heads"): "heads",
    ("encoder", "transformer", "dim_feedforward"): "ff_size",
    ("encoder", "transformer", "d_ff"): "ff_size",
    ("encoder", "transformer", "norm_first"): "layer_norm",
    ("encoder", "transformer", "position_encoding"): "positional_encoding",
    ("embedder", "tokens", "embed_dim"): "embedding_size",
    ("embedder", "tokens", "embedding_dim"): "embedding_size",
    ("embedder", "tokens", "word_vec_size"): "embedding_size",
    ("output", "tokens", "tie_weights"): "tie_output_embeddings",
    ("output", "tokens", "tied_embeddings"): "tie_output_embeddings",
    ("output", "tokens", "smoothing"): "label_smoothing",
    ("tokenizer", "bpe", "bpe_size"): "vocab_size",
    ("tokenizer", "bpe", "voc_limit"): "vocab_size",
    ("tokenizer", "bpe", "min_freq"): "min_frequency",
    ("tokenizer", "bpe", "do_lower_case"): "lowercase",
    ("search", "beam", "num_beams"): "beam_size",
    ("search", "beam", "nbest"): "n_best",
    ("search", "beam", "lenpen"): "length_penalty",
    ("search", "sample", "temp"): "temperature",
    ("search", "sample", "sampling_topk"): "top_k",
    ("search", "diverse_beam", "num_beam_groups"): "groups",
}
NAMES = {
    ("search", "beam_search"): "beam",
    ("search", "sampling"): "sample",
    ("metric", "accuracy"): "exact_match",
    ("metric", "ppl"): "perplexity",
    ("metric", "sacrebleu"): "bleu",
    ("tokenizer", "sentencepiece"): "unigram",
    ("tokenizer", "char"): "character",
}
OPTIONS = {
    ("predict", "--num-beams"): "--beam-size",
    ("predict", "--beam"): "--beam-size",
    ("predict", "--nbest"): "--n-best",
    ("predict", "--num-return-sequences"): "--n-best",
    ("predict", "--lenpen"): "--length-penalty",
    ("predict", "--max-new-tokens"): "--max-length",
    ("predict", "--no-repeat"): "--no-repeat-ngram-size",
    ("predict", "--block-ngram-repeat"): "--no-repeat-ngram-size",
    ("predict", "--rep-penalty"): "--repetition-penalty",
    ("predict", "--coverage"): "--coverage-penalty",
    ("predict", "--bad-words"): "--forbid",
    ("predict", "--src"): "--input",
    ("predict", "--average"): "--ensemble-mode",
    ("predict", "--width"): "--beam-size",
    ("train", "--lr"): "train.optimizer.lr",
    ("train", "--learning-rate"): "train.optimizer.lr",
    ("train", "--batch-size"): "train.batch_sentences",
    ("train", "--save-dir"): "--out",
    ("train", "--output-dir"): "--out",
    ("train", "--valid"): "--dev",
    ("train", "--resume-from-checkpoint"): "--resume",
    ("train", "--arch"): "--preset",
    ("evaluate", "--test"): "--data",
    ("score", "--test-data"): "--data",
}


@pytest.mark.parametrize(("typed", "meant"), SETTINGS.items())
def test_settings_of_other_toolkits_get_the_right_hint(typed, meant):
    with pytest.raises(SeqloomError, match=f"did you mean '{meant}'"):
        make_config(by_path({typed: 1}))


@pytest.mark.parametrize(("part", "meant"), PARTS.items())
def test_part_options_of_other_toolkits_get_the_right_hint(part, meant):
    kind, name, option = part
    with pytest.raises(SeqloomError, match=f"did you mean '{meant}'"):
        build(kind, {"name": name, option: 1}, *[8] * (kind in ("encoder", "embedder", "output")))


@pytest.mark.parametrize(("typed", "meant"), NAMES.items())
def test_part_names_of_other_toolkits_get_the_right_hint(typed, meant):
    with pytest.raises(SeqloomError, match=f"did you mean '{meant}'"):
        build(*typed)


@pytest.mark.parametrize(("typed", "meant"), OPTIONS.items())
def test_command_line_options_of_other_toolkits_get_the_right_hint(typed, meant):
    command, option = typed
    required = {"train": [], "evaluate": ["run", "--data", "test.tsv"]}.get(command, ["run"])
    with pytest.raises(SeqloomError, match=f"did you mean '{meant}'"):
        app(args=[command, *required, option, "1"], standalone_mode=False)


@pytest.mark.parametrize("name", ["wer", "ser"])
def test_ambiguous_error_rates_are_explained(name):
    """WER counts edits in speech recognition and wrong sequences in grapheme-to-phoneme papers; so does SER."""
    with pytest.raises(SeqloomError, match=r"sequence_error_rate.*per"):
        build("metric", name)
