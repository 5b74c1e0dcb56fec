"""Names of other toolkits, and what they are called here: for the hint of every "unknown …" error.

A key is a name as people type it, in lower case and with underscores. Its value is what to use instead: the path of a
setting, a command-line option (``--beam-size``), or the name of a part. The names are those of PyTorch, Keras,
fairseq, OpenNMT, JoeyNMT, Sockeye and Hugging Face transformers, and of earlier versions of seqloom.
"""

from collections.abc import Iterable

_WORDS = {
    # training
    "train.optimizer": "optim optimiser optimizer_type optim_type",
    "train.optimizer.lr": "lr learning_rate rate base_lr max_lr peak_lr init_lr initial_learning_rate alpha_lr",
    "train.optimizer.eps": "adam_eps adam_epsilon epsilon",
    "train.optimizer.betas": "adam_betas beta1 beta2 adam_beta1 adam_beta2",
    "train.optimizer.weight_decay": "weight_decay l2 l2_regularization wd",
    "train.optimizer.momentum": "momentum sgd_momentum",
    "train.schedule": "lr_scheduler scheduler lr_schedule scheduling decay_method lr_scheduler_type lr_decay",
    "train.schedule.warmup": "warmup warmup_steps warmup_updates num_warmup_steps learning_rate_warmup lr_warmup",
    "train.batch_sentences": "batch_size max_sentences train_batch_size per_device_train_batch_size bsz",
    "train.batch_tokens": "max_tokens tokens_per_batch batch_type",
    "train.gradient_accumulation_steps": (
        "accumulate update_freq accum_count batch_multiplier accumulate_grad_batches grad_accum "
        "grad_accum_steps gradient_accumulation"
    ),
    "train.clip_grad_norm": (
        "clip clip_norm max_grad_norm gradient_clipping clip_grad clip_gradients grad_clip gradient_clip_val "
        "clip_grad_val"
    ),
    "train.epochs": "epoch max_epoch max_epochs num_epochs n_epochs num_train_epochs",
    "train.updates": (
        "steps max_steps train_steps num_steps max_update max_updates total_steps num_updates iterations"
    ),
    "train.patience": "early_stop early_stopping early_stopping_patience early_stop_patience",
    "train.validation_metric": (
        "metric eval_metric early_stopping_metric metric_for_best_model valid_metric best_checkpoint_metric "
        "checkpoint_metric"
    ),
    "train.evaluate_every": (
        "valid_steps validation_freq eval_steps eval_every validate_interval valid_interval validate_every "
        "validation_every val_check_interval eval_interval"
    ),
    "train.keep_best_checkpoints": (
        "keep keep_best_ckpts keep_best keep_checkpoint save_total_limit save_best average_checkpoints "
        "avg_checkpoints checkpoint_averaging keep_best_checkpoint"
    ),
    "train.ema_decay": "ema moving_average ema_momentum exponential_moving_average weight_averaging polyak",
    "train.precision": "fp16 bf16 amp mixed_precision autocast half dtype",
    "train.log_every": "logging_steps log_interval report_every logging_freq log_steps",
    "train.checkpoint_seconds": "save_steps save_interval checkpoint_interval save_checkpoint_steps save_freq",
    "train.objective": "criterion loss loss_fn loss_function",
    "train.scheduled_sampling": "sampling scheduled_sampling_ratio scheduled_sampling_decay",
    "train.scheduled_sampling.teacher_forcing_ratio": "gold teacher_forcing teacher_forcing_prob",
    "train.device": "cuda gpu use_cuda no_cuda use_gpu gpus n_gpu accelerator",
    "train.compile": "torch_compile jit",
    "seed": "random_seed manual_seed rng_seed",
    # model
    "model.preset": "arch architecture model_name",
    "model.type": "model_type model_class",
    "model.hidden_size": (
        "size d_model hidden_dim hidden hid_dim n_hidden num_units rnn_size enc_hid_dim dec_hid_dim "
        "encoder_hidden_size decoder_hidden_size units model_dim width_of_model"
    ),
    "model.source_embedder.embedding_size": (
        "size embed_dim embedding_dim emb_dim emb_size embed_size d_embed word_vec_size encoder_embed_dim "
        "decoder_embed_dim"
    ),
    "model.encoder.layers": (
        "num_layers n_layers num_encoder_layers enc_layers encoder_layers num_hidden_layers depth"
    ),
    "model.decoder.layers": "num_decoder_layers dec_layers decoder_layers",
    "model.encoder.heads": (
        "num_heads n_heads nhead n_head attention_heads num_attention_heads encoder_attention_heads "
        "decoder_attention_heads"
    ),
    "model.encoder.ff_size": (
        "feed_forward ffn_dim dim_feedforward d_ff ff_dim ffn_size transformer_ff filter_size "
        "encoder_ffn_embed_dim intermediate_size"
    ),
    "model.encoder.layer_norm": (
        "norm norm_first pre_norm post_norm prenorm layer_norm_type normalize_before encoder_normalize_before"
    ),
    "model.encoder.positional_encoding": (
        "positions pos_encoding position_encoding position_embeddings pos_emb positional_embedding "
        "position_encoding_type"
    ),
    "model.encoder.positional_encoding.max_positions": (
        "longest max_position_embeddings max_source_positions max_target_positions"
    ),
    "model.encoder.cell": "rnn_type cell_type rnn rnn_cell cell_name",
    "model.encoder.bidirectional": "bidir brnn bi_directional bidirectional_encoder encoder_bidirectional",
    "model.encoder.initial_state": "initial init_state learn_initial_state",
    "model.decoder.attention": "attn attention_type global_attention attention_mechanism attention_method",
    "model.decoder.context_input": "into attention_input",
    "model.decoder.input_feeding": "input_feed feed_input",
    "model.dropout": "dropout_rate dropout_p drop drop_prob hidden_dropout attention_dropout dropout_prob",
    "model.output.label_smoothing": "label_smoothing label_smoothing_factor labelsmoothing smoothing",
    "model.output.tie_output_embeddings": (
        "tied tied_embeddings tie_weights tie_embeddings tie_word_embeddings weight_tying tied_softmax "
        "share_decoder_embeddings share_decoder_input_output_embed"
    ),
    "model.share_embeddings": "share_all_embeddings shared_embeddings three_way_tying",
    "model.source_embedder.embedding_noise": "noise gaussian_noise",
    "model.source_embedder": "source_embedding src_embedder",
    "copy": "initial_state_bridge",
    "dense": "perceptron",
    # data
    "data.source_tokenizer": "src_tokenizer source_tokeniser tokenizer tokenizer_name src_tok",
    "data.target_tokenizer": "tgt_tokenizer target_tokeniser tgt_tok",
    "data.share_vocabulary": "shared joined_dictionary share_vocab joint_vocab shared_vocab shared_vocabulary",
    "vocab_size": (
        "size vocabulary_size voc_limit num_tokens src_vocab_size tgt_vocab_size bpe_size max_vocab_size num_symbols"
    ),
    "min_frequency": (
        "min_count min_freq voc_min_freq min_word_freq vocab_min_freq word_min_count thresholdsrc "
        "src_words_min_frequency"
    ),
    "lowercase": "lower do_lower_case uncased lower_case",
    "normalize": "normalise normalization_rule_name unicode_normalization",
    "whitespace": "symbols symbol space spaces split",
    "bpe": "subword_nmt byte_pair byte_pair_encoding gpt2",
    "unigram": "sentencepiece sp spm",
    "character": "char chars characters",
    "word": "words moses",
    "data.max_length": (
        "max_seq_length max_seq_len max_len max_sent_length src_seq_length seq_length max_input_length "
        "max_source_length"
    ),
    "data.on_empty": "empty skip_empty",
    "--train": "train_data train_file training_data data_path trainpref train_src train_path train_set",
    "--dev": (
        "valid val validation valid_data validation_data validation_file dev_file dev_data eval_data "
        "validpref valid_src eval_dataset dev_set"
    ),
    "--out": "save_dir output_dir model_dir save_model out_dir output log_dir run_dir",
    "--resume": "resume_from_checkpoint restore_file train_from load_model from_checkpoint reset_training continue",
    "--import": "user_dir code plugin custom_module",
    "--set": "override overrides cfg_options hparams",
    # decoding
    "beam_size": "width num_beams beam beams beam_width beam_search",
    "n_best": "nbest num_return_sequences nbest_size num_hypotheses return_n_best",
    "length_penalty": (
        "normalisation normalization lenpen length_norm length_normalization length_penalty_type normalize_scores"
    ),
    "alpha": "beam_alpha length_alpha length_penalty_alpha lenpen_alpha",
    "coverage_penalty": "coverage cov_penalty cov_pen stepwise_penalty coverage_beta",
    "diversity_penalty": "diversity diverse_beam_strength diversity_rate diversity_strength",
    "groups": "num_beam_groups diverse_beam_groups beam_groups",
    "max_length": (
        "max_new_tokens max_output_length max_decoding_length max_output_len max_tgt_len max_gen_len "
        "max_len_a max_len_b"
    ),
    "min_length": "min_new_tokens min_len min_output_length min_decoding_length min_dec_len",
    "max_length_ratio": "max_ratio length_ratio",
    "min_length_ratio": "min_ratio",
    "temperature": "temp sampling_temp sampling_temperature random_sampling_temp softmax_temperature",
    "top_k": "topk sampling_topk random_sampling_topk k",
    "top_p": "topp nucleus sampling_topp nucleus_p random_sampling_topp",
    "samples": "num_samples n_samples sample_size",
    "allow_unk": "unknown generate_unk replace_unk unkpen disable_unk suppress_unk unk",
    "--no-repeat-ngram-size": "no_repeat no_repeat_ngram block_ngram_repeat ngram_block ngram_blocking",
    "--repetition-penalty": "rep_penalty repeat_penalty",
    "--prefix": "prefix_size forced_prefix target_prefix forced_bos decoder_prefix",
    "--forbid": "bad_words bad_words_ids suppress_sequences banned_words avoid suppress_tokens",
    "--require": "constraints force_words force_words_ids lexical_constraints must_include",
    "--search": "strategy decoding decoding_strategy do_sample sampling_strategy",
    "--ensemble-mode": "average ensemble_method average_mode",
    "--input": "src input_file test_src source_file infile",
    "--align": "alignment report_align print_alignment output_attentions with_attention",
    "--scores": "print_scores with_score output_scores verbose_scores return_scores",
    "--data": "test test_data test_file eval_file testset",
    "--metric": "metrics eval_metrics scorer",
    "greedy": "argmax greedy_search",
    "beam": "beam_search beamsearch",
    "sample": "sampling multinomial random random_sampling ancestral",
    "diverse_beam": "diverse diverse_beam_search group_beam_search",
    "stochastic_beam": "stochastic stochastic_beam_search gumbel_beam",
    # metrics
    "exact_match": "exact em accuracy acc sequence_accuracy seq_acc",
    "sequence_error_rate": "sequence_error seq_err",
    "cer": "character_error_rate char_error_rate",
    "per": "phoneme_error_rate phone_error_rate symbol_error_rate token_error_rate edit_distance levenshtein",
    "perplexity": "ppl",
    "bleu": "sacrebleu corpus_bleu bleu4 bleu_score",
    "chrf": "chrf2 chr_f chrf_plus_plus",
    "loss": "nll cross_entropy xent ce",
}

AMBIGUOUS = {
    "wer": "it has two meanings: choose sequence_error_rate for the share of wrong outputs (the word error rate of "
    "grapheme-to-phoneme papers), or per for edits per whitespace-separated symbol (that of speech recognition)",
    "ser": "it has two meanings: choose sequence_error_rate for the share of wrong outputs (the sentence error rate "
    "of speech recognition), or per for edits per whitespace-separated symbol",
}
"""Names that mean different things to different people, and what to choose instead."""

SYNONYMS: dict[str, list[str]] = {}
"""From a name to what it may mean, the most common meaning first."""
for _meaning, _names in _WORDS.items():
    for _name in _names.split():
        SYNONYMS.setdefault(_name, []).append(_meaning)


def meanings(name: str) -> list[str]:
    """What a name of another toolkit may mean here."""
    return SYNONYMS.get(name.lstrip("-").replace("-", "_").replace(".", "_").lower(), [])


def best_match(name: str, known: Iterable[str]) -> str | None:
    """The known name that a synonym means, else the setting, part or option of another place that it means."""
    names = set(known)
    for meaning in meanings(name):
        last = meaning.rsplit(".", 1)[-1]
        for form in (meaning, last, f"--{last.replace('_', '-')}", last.removeprefix("--").replace("-", "_")):
            if form in names:
                return form
    paths = [meaning for meaning in meanings(name) if "." in meaning or meaning.startswith("--")]
    return paths[0] if paths else None
