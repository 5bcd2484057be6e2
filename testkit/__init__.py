"""What tests, soak and benchmarks share: the oracle, feeds on local servers, and the local stack behind proxies."""
