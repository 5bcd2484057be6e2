-- Purpose: make staging hold the parent again, for MERGE changes it in place.
-- Params: @retention_day DATE; target may refuse queries without a filter on its dates.
-- Writes: staging (emptied, filled); scans target whole.  Safe to retry: yes, as a whole.
TRUNCATE TABLE `local-dev.warehouse.product_attributes_staging`;
