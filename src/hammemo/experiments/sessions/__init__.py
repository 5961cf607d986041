r"""The next item of a session: the next click in a web shop, the next purchase of a user.

**Clicks** (`bol`, `yoochoose-100k`). Every prefix of a session predicts its next item. All items that training has seen
are ranked; others are dropped from the sessions asked about. Recall@20 is the share of queries whose item is among the
first 20, MRR@20 the mean of 1 / rank, zero below the 20th.

**Purchases** (`beauty`, `toys`). The last item of each user is the test, the one before it validation; neither is
learnt, as in S3-Rec. All items of the file are ranked but those that the user has bought. HR@10 is the share of users
whose item is among the first ten, NDCG@10 the mean of 1 / log2(1 + rank), zero below the tenth.

**Ties count half**: an item's rank is 1, plus the items above it, plus half of those with the same score. So no learner
gains by giving everything one score.

**Settings** are chosen by the second figure of each pair on validation; the test queries are asked once.

`data` reads the files, `measures` ranks, `learner` says what a learner is, `running` measures one, and `ours` is this
library. Other learners are in ``benchmarks/sessions`` of the repository.
"""
