"""Shuhai logs of a board's memory, read right, and what they say about an access pattern.

`shuhai` reads a log into rows and latency counts, `table` holds the rows of all logs
(``data/interim/memory.csv``), `profiles` answers what share of its peak a memory reaches for the
access pattern of an accelerator's DMA.
"""
