-- Forgets states that equal fresh ones: looks at the next `slice` rows, in the order of their keys, and gives how many it removed. Null when it was not due, or
-- somebody else is at it: whoever comes goes on where the last one stopped, and no row is waited for.
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
  -- From the beginning again where there is no more.
  UPDATE {schema}.meta SET cursor = coalesce(seen[slice], ''), cleaned = clock;
  RETURN coalesce(cardinality(old), 0);
END
$clean$;

-- Forgets up to `slice` rows whose keys are not before `start` and before `stop`; gives how many.
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
