-- Purpose: delete the changes of keys that an operator erases, from before the erasure, which is @generation. Neither
--   the statement nor its parameters contain a key: keys are compared by salted hashes. `named` has the named key
--   columns only.
-- Params: @salt STRING, @digests STRING (hexadecimal SHA-256 hashes, separated by commas), @generation INT64.
-- Writes: the table of changes; scans the named key columns, and generation.  Safe to retry: yes.
DELETE FROM {{ names.changes }}
WHERE generation < @generation
  AND TO_HEX(SHA256(CONCAT(@salt, {{ row_text(named) }}))) IN UNNEST(SPLIT(@digests, ','));
