"""How good an estimator is: folds (`splits`), figures (`metrics`), and both joined."""
