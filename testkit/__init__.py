"""Code that tests, soak and benchmarks share: the oracle, feeds on local servers, and a local stack behind proxies."""
