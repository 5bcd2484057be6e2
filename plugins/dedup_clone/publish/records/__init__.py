"""What a publish records: check results, swap, refused deliveries, costs, ledger table, status view."""
