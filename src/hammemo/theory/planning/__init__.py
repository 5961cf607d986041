"""Planning: which memory fits a budget, and how well it will agree with the exact classifier, before any is learnt."""
