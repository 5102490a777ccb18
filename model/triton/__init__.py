"""Decodes on a GPU with kernels of our own, and with the state of all sentences there. **Never run on a GPU.**

No kernel depends on the number of rows: a program computes a tile of fixed size, sums in a fixed order, and mixes no
rows. So a sentence gets the same bits in any batch. Only `support` and `backend` can be imported without Triton.
"""
