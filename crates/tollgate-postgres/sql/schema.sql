-- The schema, unless it exists.
DO $schema$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = '{schema}') THEN CREATE SCHEMA {schema}; END IF;
END $schema$;
