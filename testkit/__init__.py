"""Test harness shared by tests, soak and benchmarks: the oracle, feeds on local servers, the local stack."""
