-- Purpose: give a column of staging the wider type that its feed declares.  Params: none.
-- Writes: staging's schema, no row.  Safe to retry: yes.
ALTER TABLE `local-dev.warehouse.worked_example_staging` ALTER COLUMN `attr_value` SET DATA TYPE INT64;
