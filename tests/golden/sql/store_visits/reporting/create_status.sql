-- Purpose: tell readers which generation of each feed they see: the last published one, unless the feed is retired.
-- Params: none.  Writes: the view, if it does not exist; scans nothing.  Safe to retry: yes.
CREATE VIEW IF NOT EXISTS `local-dev.warehouse.dedup_clone_status` AS
SELECT feed, generation, snapshot_id, arrived_at, swapped_at, replay, restores
FROM `local-dev.warehouse.dedup_clone_ledger`
WHERE outcome IN ('published', 'retired')
QUALIFY ROW_NUMBER() OVER (PARTITION BY feed ORDER BY swapped_at DESC, generation DESC) = 1 AND outcome = 'published';
