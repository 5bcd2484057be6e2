"""The state bucket, one folder a feed: arrivals, attempts, manifests, data, ledger, CURRENT, STAGING."""
