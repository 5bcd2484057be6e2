-- Purpose: give a column of staging the wider type that its feed declares.  Params: none.
-- Writes: staging's schema, no row.  Safe to retry: yes.
ALTER TABLE {{ names.staging }} ALTER COLUMN {{ quoted(column.name) }} SET DATA TYPE {{ type_sql(column) }};
