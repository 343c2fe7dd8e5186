"""Estimators of a layer's latency: one protocol (`base`), one catalogue (`catalog`)."""
