"""The next token of a text: other models beside ours, on the same tokens, in one run.

    python -m benchmarks.language --data FOLDER [--models "Kneser-Ney 5"] [--most 20000]
                                  [--kenlm FOLDER] [--json]

FOLDER holds WikiText-2; the protocol is explained in :mod:`benchmarks.language.ours`. Printed are
perplexities over the whole vocabulary, with and without caches over the last 100, 500 and 2,000
tokens, whose weights are fitted on validation. All times are seconds of the processor, one thread;
those of KenLM, which works in processes of its own, are not counted.
"""
