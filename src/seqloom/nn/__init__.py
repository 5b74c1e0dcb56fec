"""Building blocks of sequence-to-sequence models, on torch alone: no files, no text, no training.

The name of a tensor ends in one letter per dimension, in order: ``scores_BTS`` has the shape (B, T, S).

    B  batch: sentences                       H  hidden size; also the size of attention values
    S  steps of the source, or keys           E  size of an embedding or another input
    T  steps of the target, or queries        D  size of a query or a key (of one attention head: H/N)
    N  attention heads; also steps of         Z  size of a cell's projected input z: its blocks, each H wide
       any field of a batch                   V  size of the vocabulary
    K  beams (hypotheses) per sentence        X  any number of further dimensions, or any size
    R  rows: B·K, the beams of a sentence     Q  queries per sentence: K·T
       adjacent; B without beam search        1  a dimension of size 1

A module that needs other letters explains them. The batch (or the rows) is dimension 0 of every tensor that one part
passes to another. A mask is a padding mask: True for real steps, False for padding. Symbols in equations are those of
the cited papers; ∘ is the elementwise product, [a; b] concatenation, σ the sigmoid.
"""
