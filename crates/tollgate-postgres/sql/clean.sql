-- Deletes states that equal fresh ones: examines the next `slice` rows, in the order of their keys,
-- and returns how many it deleted. Null when it was not due, or another session is cleaning. Each
-- call continues where the last one stopped, and waits for no row.
CREATE FUNCTION {schema}.clean(slice integer, every bigint) RETURNS integer LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $clean$
DECLARE
  clock bigint := extract(epoch FROM clock_timestamp()) * 1000000;
  start bytea;
  seen bytea[];
  old bytea[];
BEGIN
  SELECT m.cursor INTO start FROM {schema}.meta m WHERE m.cleaned <= clock - every OR m.cleaned > clock FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN NULL; END IF;
  SELECT array_agg(o.key), array_agg(o.key) FILTER (WHERE o.expires < clock) INTO seen, old FROM (
    SELECT s.key, s.expires FROM {schema}.counters s WHERE s.key > start ORDER BY s.key LIMIT slice
  ) o;
  -- Some may have been charged since.
  WITH mine AS (
    SELECT s.key FROM {schema}.counters s WHERE s.key = ANY (old) AND s.expires < clock ORDER BY s.key FOR UPDATE SKIP LOCKED
  ), removed AS (
    DELETE FROM {schema}.counters s USING mine WHERE s.key = mine.key RETURNING s.key
  )
  SELECT array_agg(r.key) INTO old FROM removed r;
  DELETE FROM {schema}.log l WHERE l.key = ANY (old);
  -- Starts again after the last row.
  UPDATE {schema}.meta SET cursor = coalesce(seen[slice], ''), cleaned = clock;
  RETURN coalesce(cardinality(old), 0);
END
$clean$;

-- Deletes up to `slice` rows whose keys are at least `start` and before `stop`. Returns how many.
CREATE FUNCTION {schema}.clear(start bytea, stop bytea, slice integer) RETURNS integer LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $clear$
DECLARE
  gone bytea[];
BEGIN
  WITH old AS (
    SELECT s.key FROM {schema}.counters s WHERE s.key >= start AND s.key < stop ORDER BY s.key LIMIT slice FOR UPDATE
  ), removed AS (
    DELETE FROM {schema}.counters s USING old WHERE s.key = old.key RETURNING s.key
  )
  SELECT array_agg(r.key) INTO gone FROM removed r;
  DELETE FROM {schema}.log l WHERE l.key = ANY (gone);
  RETURN coalesce(cardinality(gone), 0);
END
$clear$;
