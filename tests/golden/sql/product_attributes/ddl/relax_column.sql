-- Purpose: make a REQUIRED column of staging NULLABLE, as its feed declares.  Params: none.
-- Writes: staging's schema, no row.  Safe to retry: no, BigQuery refuses it if the column is NULLABLE already.
ALTER TABLE `local-dev.warehouse.product_attributes_staging` ALTER COLUMN `attr_value` DROP NOT NULL;
