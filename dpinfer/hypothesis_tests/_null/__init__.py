"""The ways to a null distribution: exact, simulated, asymptotic."""
