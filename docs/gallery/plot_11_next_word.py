"""
The next word, and how surprising a text is
===========================================

The same counts predict the next word of a text. Perplexity says how surprising a text
is to a model: as if it had to choose, at each word, between this many equally likely
ones.
"""

from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np

from hammemo import MemoryClassifier
from hammemo.kernels import Recent, Suffixes
from hammemo.votes import Mixture

# %%
# Real text that every Python has: what ``help()`` shows on topics such as "CLASSES".
# Some topics repeat parts of others: one that shares twelve words in a row with a
# longer one is left out. Every fourth of the rest is kept for testing.

texts, seen = [], set()
for text in sorted((text.split() for text in topics.values()), key=len, reverse=True):
    runs = {tuple(text[place : place + 12]) for place in range(len(text) - 11)}
    if not runs & seen:
        texts.append(text)
    seen |= runs
train = [text for place, text in enumerate(texts) if place % 4 != 1]
test = [text for text in texts[1::4] if len(text) >= 300]
words = np.unique(np.concatenate(texts))
print(
    f"{sum(map(len, train)):,} words in {len(train)} texts, {len(test)} texts to test"
)
print(f"{len(words):,} different words")

# %%
# ``log_loss_stream`` scores every word of a text by the words before it. Words that may
# come are declared, so that a word that was never seen costs much, but not infinity.


def model(kernel, vote):
    clf = MemoryClassifier(kernel, vote=vote)
    return clf.fit_stream(train, h=100, short="pad", classes=words)


models = {
    "suffixes of 1": model(Suffixes(1), Mixture()),
    "suffixes to 3": model(Suffixes(3), Mixture()),
    "and continuation counts": model(Suffixes(3), Mixture(continuation=True)),
    "and the last 100 words": model(
        Suffixes(3) + Recent(20) + Recent(100), Mixture(continuation=True)
    ),
}
found = {}
for name, clf in models.items():
    found[name] = float(np.exp(clf.log_loss_stream(test, short="pad").mean()))
    print(f"{name}: perplexity {found[name]:.1f}")

# %%
# The last hundred words tell what this text is about, in its own words. It shows in the
# loss along a text: the first 300 words of each, 60 at a time.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.barh(list(found)[::-1], list(found.values())[::-1])
left.set(xlabel="perplexity: lower is better")
for name in ("and continuation counts", "and the last 100 words"):
    losses = [models[name].log_loss_stream([text], short="pad")[:300] for text in test]
    along = np.reshape(losses, (len(test), 5, 60)).mean(axis=(0, 2))
    right.plot(np.arange(30, 300, 60), np.exp(along), "o-", label=name)
right.set(xlabel="place in the text", ylabel="perplexity")
right.legend()
plt.show()
