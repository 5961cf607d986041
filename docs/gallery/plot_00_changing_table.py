"""
A first notebook: a table that changes
======================================

Rows arrive, change and go. The model follows the table, and after `refit` it is the
model that `fit` makes of the rows that are there.

The table holds real flights from New York in 2013: arrived early or late, by date,
hour, carrier, aircraft and route. It lies in a database, here SQLite.
"""

import sqlite3

import matplotlib.pyplot as plt
import pandas as pd

from hammemo import MemoryClassifier
from hammemo.datasets import load_table

features, arrival = load_table("flights", as_frame=True)
flights = features.drop(columns="flight").assign(arrival=arrival)
numbers = ["month", "day", "hour"]
flights[numbers] = flights[numbers].astype(int)
flights.head(3)

# %%
# January to June are in the database. The model needs no settings: it reads names
# and numbers as they come.

database = sqlite3.connect(":memory:")
flights[flights.month <= 6].to_sql("flights", database, index=False)


def table():
    frame = pd.read_sql("SELECT * FROM flights", database)
    return frame.drop(columns="arrival"), frame.arrival


clf = MemoryClassifier().fit(*table())
in_june = clf.compile()  # does not change any more
print(clf.report())

# %%
# Each month, flights arrive and those of half a year ago are deleted. `sync` compares
# the table with the model, forgets the rows that are gone and learns the new ones.
# Before it, both models are asked about the month that they have not seen.

months, follows, stays = range(7, 13), [], []
for month in months:
    arrived = flights[flights.month == month]
    asked, answers = arrived.drop(columns="arrival"), arrived.arrival
    follows.append((clf.predict(asked) == answers).mean())
    stays.append((in_june.predict(asked) == answers).mean())
    arrived.to_sql("flights", database, index=False, if_exists="append")
    database.execute("DELETE FROM flights WHERE month <= ?", [month - 6])
    print(month, clf.sync(*table(), refit=True))

# %%
# The model that was edited for half a year is the one that a new fit makes.

new = MemoryClassifier().fit(*table())
assert clf.digest() == new.digest()  # the same to the byte

# %%
# A wrong value is corrected in the database, and a customer asks to be forgotten: two
# more statements, and one `sync`.

database.execute("UPDATE flights SET arrival = 'late' WHERE tailnum = 'N725MQ'")
database.execute("DELETE FROM flights WHERE tailnum = 'N351JB'")
print(clf.sync(*table(), refit=True))
new = MemoryClassifier().fit(*table())
assert clf.digest() == new.digest()  # the same to the byte

# %%
# Following pays in most months. December is unlike the half year before it: both
# models guess there.

figure, axes = plt.subplots(figsize=(7, 4.2))
axes.plot(months, 100 * pd.Series(follows), "o-", label="follows the table")
axes.plot(months, 100 * pd.Series(stays), "s--", label="stays as in June")
axes.set(xlabel="month of 2013", ylabel="accuracy on the month's flights (%)")
axes.legend()
plt.show()
