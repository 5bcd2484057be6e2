-- Purpose: let a column of staging be NULL, as its feed declares.  Params: none.
-- Writes: staging's schema, no row.  Safe to retry: no, BigQuery refuses it for a column that may be NULL; look first.
ALTER TABLE `local-dev.warehouse.product_attributes_staging` ALTER COLUMN `attr_value` DROP NOT NULL;
