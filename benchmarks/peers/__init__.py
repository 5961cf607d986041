"""Other classifiers beside ours: the same examples, the same machine, one run.

    pip install -r benchmarks/requirements.txt
    python -m benchmarks.peers --data FOLDER [--only NAME …] [--stored 100000] [--json]

One draw of the paper's WikiText-2 task (h = 8): 100,000 training, 2,000 validation and 5,000 test
examples. Rules that hold for all:

- **Tuning.** Every setting that a peer lists is fitted, and the one with the highest accuracy on
  validation is asked the test queries, once. "fit" is the time of that fit and "tuning" that of all
  of them, features included. All times are seconds of the processor, one thread.
- **Log-loss.** Of the model's own probabilities, if it gives any; and of ``softmax(scores / T)``, T
  fitted on validation, for every model: so that a model without probabilities, or with
  overconfident ones, is judged by what one number can mend.
- **Queries a second.** The labels of 5,000 contexts of integers by the model's own call, features
  built included; one thread, the best of three.
- **State.** What must be kept to answer: arrays as the library stores them. What numbers the tokens
is not counted.
- **Online**: can it learn one more example, of a known label, without the old ones? **Forgets**:
  can it take an example back, exactly, by its own calls?

A peer is one small class (:class:`benchmarks.peers.peer.Peer`), or one more instance; a new one is
added to `PEERS` of its module.
"""
