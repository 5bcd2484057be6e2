-- Purpose: make staging hold the parent again, for MERGE changes it in place.
-- Params: none.
-- Writes: staging (emptied, filled); scans target whole.  Safe to retry: yes, as a whole.
TRUNCATE TABLE `local-dev.warehouse.store_visits_staging`;
