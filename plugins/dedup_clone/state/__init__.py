"""The state bucket. Each feed has a folder: arrivals, attempts, manifests, data, ledger, CURRENT, STAGING."""
