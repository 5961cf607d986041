"""Planning: which memory fits a budget, and how well it will agree with the exact classifier, before any is learnt.

`planner` searches among memories; `predictions` says of each what it will take and do, from `growth` (what a sample
says of more data), `trials` (hashed memories tried on grown data) and `sizes` (bytes); `reports` is what comes out.
"""
