"""Data pipeline, from text files to batches: readers, tokenizers, prepared (binarized) corpora, batching."""
