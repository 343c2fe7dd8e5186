"""Latency of CNN layers on FPGA accelerators, learned from profiling logs on top of the analytic model."""

__version__ = "0.1.0"
