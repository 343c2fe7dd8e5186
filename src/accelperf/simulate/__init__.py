"""Simulators: a tile-level accelerator and a DRAM model. What they make says SIMULATED."""
