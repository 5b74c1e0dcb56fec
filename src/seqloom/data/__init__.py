"""From files of text to batches: readers, tokenizers, the compiled corpus, batching."""
