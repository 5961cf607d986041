"""Features: what is computed from a row before it is counted.

- `cells`: column codes, cuts, trees, and the cell of each row at each of them;
- `additive`: the additive base, the first thing that is said about a row;
- `wide`: which columns of a wide table are looked at one by one.

Imports `kernels`, `tokens` and `_arrays`; memories, votes and all above build on it.
"""
