-- Purpose: say in the ledger table that the table of changes lacks rows of a generation and all earlier ones for good.
-- Params: @feed STRING, @last INT64 (the generation).
-- Writes: the ledger table; scans its columns feed, generation and change_rows.  Safe to retry: yes.
UPDATE `local-dev.warehouse.dedup_clone_ledger`
SET change_rows = NULL
WHERE feed = @feed AND generation <= @last AND change_rows > 0;
