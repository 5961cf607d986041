"""
The next word, and how surprising a text is
===========================================

The same counts predict the next word of a text. Perplexity says how surprising a text
is to a model: as if it had to choose, at each word, between so many equally likely
ones.
"""

import matplotlib.pyplot as plt
import numpy as np

from hammemo import MemoryClassifier, Mixture, Recent, Suffixes

# %%
# An invented language: 400 words, each followed mostly by a few others, and every text
# keeps to some names of its own. 120 texts of 300 words to learn from, 20 to test.

rng = np.random.default_rng(1)
N_WORDS, N_NAMES = 400, 200
follows = rng.dirichlet(np.full(N_WORDS, 0.02), N_WORDS)


def text():
    names = N_WORDS + rng.choice(N_NAMES, 3, replace=False)
    words = [int(rng.integers(N_WORDS))]
    last = words[0]
    while len(words) < 300:
        if rng.random() < 0.15:
            words.append(int(rng.choice(names)))
        else:
            last = int(rng.choice(N_WORDS, p=follows[last]))
            words.append(last)
    return words


train, test = [text() for _ in range(120)], [text() for _ in range(20)]
words = np.arange(N_WORDS + N_NAMES)

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
# The last hundred words tell the names of this text. It shows in the loss along a text:
# the further it goes, the better its names are known.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.barh(list(found)[::-1], list(found.values())[::-1])
left.set(xlabel="perplexity: lower is better")
for name in ("and continuation counts", "and the last 100 words"):
    losses = models[name].log_loss_stream(test, short="pad").reshape(len(test), -1)
    along = losses[:, :300].reshape(len(test), 15, 20).mean(axis=(0, 2))
    right.plot(np.arange(10, 310, 20), np.exp(along), "o-", label=name)
right.set(xlabel="place in the text", ylabel="perplexity")
right.legend()
plt.show()
