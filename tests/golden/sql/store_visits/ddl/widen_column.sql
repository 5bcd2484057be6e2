-- Purpose: give a column of staging the wider type that its feed declares.  Params: none.
-- Writes: staging's schema, no row.  Safe to retry: yes.
ALTER TABLE `local-dev.warehouse.store_visits_staging` ALTER COLUMN `visitors` SET DATA TYPE INT64;
