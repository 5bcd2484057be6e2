-- Purpose: drop one table of the feed, whose name is given as staging.
-- Params: none (identifiers come from validated settings).
-- Writes: the table is dropped.  Safe to retry: yes.
DROP TABLE IF EXISTS {{ names.staging }};
