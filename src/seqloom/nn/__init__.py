"""The parts of a sequence-to-sequence model, on torch alone: no files, no text, no training.

Names of tensors end in the letters of their dimensions:

    B  sentences of a batch         H  size of a hidden state or a value
    S  steps of the source          E  size of an embedding or an input
    T  steps of the target          D  size of a key
    N  heads                        V  size of the vocabulary
    K  beams of a sentence          R  rows: B·K, a sentence's beams adjacent

The batch (or the rows) is dimension 0 of every tensor that crosses a boundary. A mask is True where real.
"""
