"""What a publish records: check results, swap, refused deliveries, costs, ledger table, index.json, status view."""
