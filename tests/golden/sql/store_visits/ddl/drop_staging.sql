-- Purpose: drop staging, which a rebuild makes anew.  Params: none (identifiers come from validated settings).
-- Writes: staging is dropped.  Safe to retry: yes.
DROP TABLE IF EXISTS `local-dev.warehouse.store_visits_staging`;
