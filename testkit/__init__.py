"""Code that tests/ and benchmarks/ share: the oracle, feeds on local servers, a local stack behind proxies."""
