"""Does BigQuery hold the values that were published? One partition at a time is hashed on both sides and compared."""
