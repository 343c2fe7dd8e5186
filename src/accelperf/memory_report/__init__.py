"""What Shuhai logs say, for people: a summary table, a page and pictures.

``accelperf memory`` calls `write_memory_report`. The numbers come from `accelperf.memory.analysis`; here
they are only set beside each other, put into words and drawn, in the form of the Shuhai paper's
Figures 4-8 and its tables of latencies and throughputs. What the logs do not show is said to be not
measured, with the run that would show it.
"""

from accelperf.memory_report.report import PAGE_NAME, SUMMARY_NAME, MemoryReport, write_memory_report

__all__ = ["PAGE_NAME", "SUMMARY_NAME", "MemoryReport", "write_memory_report"]
